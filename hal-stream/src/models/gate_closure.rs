//! Views of two and three streams: the gates that are closed are the greatest set in front of which
//! nothing that goes on waits.

use crate::gate_closure::{
    DeviceView, ForeignHold, GateState, Hold, OwnBit, Ring, Role, StreamView, Work, gates_to_close,
};

const RINGS: [Ring; 4] = [Ring::Own, Ring::Shared(1), Ring::Shared(2), Ring::Unknown];
const ROLES: [Role; 3] = [Role::Plain, Role::Legacy, Role::Blocking];
const WORKS: [Work; 3] = [Work::None, Work::InRing, Work::WithCopies];
const HOLDS: [Hold; 3] = [Hold::None, Hold::Requested, Hold::StaysOpen];
const FOREIGN: [ForeignHold; 7] = [
    ForeignHold::None,
    ForeignHold::Released,
    ForeignHold::Held,
    ForeignHold::ReleasedApart,
    ForeignHold::HeldApart,
    ForeignHold::HeldInPage,
    ForeignHold::Overdue,
];
/// Connections that are shared, calls for the whole device and blocked ones.
const OPENERS: [(bool, u32, u32); 5] =
    [(false, 0, 0), (true, 0, 0), (false, 1, 0), (false, 0, 1), (true, 2, 1)];
/// Changes of which streams stop each other.
const TIES: [(bool, u32, u32); 2] = [OPENERS[0], OPENERS[1]];

/// All streams that there may be with these holds of other processes.
fn streams(foreign: &[ForeignHold]) -> Vec<StreamView> {
    let mut all = Vec::new();
    for (ring, role) in RINGS.iter().flat_map(|ring| ROLES.map(|role| (*ring, role))) {
        for (work, hold) in WORKS.iter().flat_map(|work| HOLDS.map(|hold| (*work, hold))) {
            all.extend(foreign.iter().map(|foreign| {
                let foreign = *foreign;
                StreamView { ring, role, work, hold, foreign }
            }));
        }
    }
    all
}

/// Streams that nothing but connections ties.
fn plain_streams() -> Vec<StreamView> {
    let mut all = streams(&FOREIGN);
    all.retain(|stream| {
        let is_in_ring = stream.ring == Ring::Own && stream.work != Work::WithCopies;
        is_in_ring && stream.role == Role::Plain
    });
    all
}

fn device(streams: &[StreamView], openers: (bool, u32, u32)) -> DeviceView<'_> {
    let (shares_connections, device_calls, blocked_calls) = openers;
    DeviceView { streams, shares_connections, device_calls, blocked_calls }
}

/// All views of three of these streams, but for their order.
fn for_three(
    all: &[StreamView],
    openers: &[(bool, u32, u32)],
    check: &mut dyn FnMut(&DeviceView<'_>),
) {
    for (at, one) in all.iter().enumerate() {
        for (next, two) in all.iter().enumerate().skip(at) {
            for three in &all[next..] {
                let streams = [*one, *two, *three];
                openers.iter().for_each(|openers| check(&device(&streams, *openers)));
            }
        }
    }
}

/// All views of three streams without other processes, of three plain streams, and of two streams.
fn for_all_views(mut check: impl FnMut(&DeviceView<'_>)) {
    for_three(&streams(&[ForeignHold::None]), &TIES, &mut check);
    for_three(&plain_streams(), &OPENERS, &mut check);
    let all = streams(&[ForeignHold::Released, ForeignHold::HeldApart, ForeignHold::HeldInPage]);
    for (at, one) in all.iter().enumerate() {
        for two in &all[at..] {
            OPENERS.iter().for_each(|openers| check(&device(&[*one, *two], *openers)));
        }
    }
}

/// A set of gates: a bit for each that this process closes, and one for each hold of another
/// process that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gates {
    own: u32,
    foreign: u32,
}

fn closed(device: &DeviceView<'_>) -> Gates {
    let states = gates_to_close(device);
    let set = |is_in: &dyn Fn(&GateState) -> bool| {
        states.iter().enumerate().map(|(at, state)| u32::from(is_in(state)) << at).sum()
    };
    Gates {
        own: set(&|state| state.own == OwnBit::Closed),
        foreign: set(&|state| !state.opens_foreign),
    }
}

/// Returns whether work of a stream may have to wait until another one's gate opens.
fn may_wait_behind(work: &StreamView, gate: &StreamView, shares: bool) -> bool {
    let shared = |stream: &StreamView| stream.ring != Ring::Own;
    let apart = matches!(
        (work.ring, gate.ring),
        (Ring::Shared(1), Ring::Shared(2)) | (Ring::Shared(2), Ring::Shared(1))
    );
    let roles = [work.role, gate.role];
    shares
        || shared(work) && shared(gate) && !apart
        || [work.work, gate.work] == [Work::WithCopies; 2]
        || roles.contains(&Role::Legacy) && roles.contains(&Role::Blocking)
}

/// Returns whether this process may close these gates together.
fn is_own_sound(device: &DeviceView<'_>, own: u32) -> bool {
    let DeviceView { streams, shares_connections, device_calls, blocked_calls } = *device;
    let is_closed = |at: usize| own & 1 << at != 0;
    let is_allowed = |at: usize| {
        let calls = device_calls + blocked_calls > 0;
        !is_closed(at) || streams[at].hold == Hold::Requested && !calls
    };
    let waits = |at: usize| {
        let goes_on = !is_closed(at) && streams[at].work != Work::None;
        let behind = |gate: usize| {
            is_closed(gate) && may_wait_behind(&streams[at], &streams[gate], shares_connections)
        };
        goes_on && (0..streams.len()).any(behind)
    };
    // A call opens all, so that work behind those gates counts as it does without the call.
    (0..streams.len()).all(|at| is_allowed(at) && !waits(at))
}

/// Returns whether a hold of another process may stay, with these gates closed but for calls.
fn may_stay(device: &DeviceView<'_>, at: usize, own: u32) -> bool {
    let has = |foreign: ForeignHold| device.streams.iter().any(|s| s.foreign == foreign);
    let calls = device.device_calls + device.blocked_calls > 0;
    let lets_run = has(ForeignHold::Released) || has(ForeignHold::ReleasedApart);
    let goes_on = |(at, stream): (usize, &StreamView)| {
        let others = [ForeignHold::None, ForeignHold::Released, ForeignHold::ReleasedApart];
        stream.work != Work::None && own & 1 << at == 0 && others.contains(&stream.foreign)
    };
    let keeps = device.shares_connections && device.streams.iter().enumerate().any(goes_on);
    match device.streams[at].foreign {
        ForeignHold::None | ForeignHold::Released | ForeignHold::Held => true,
        ForeignHold::ReleasedApart | ForeignHold::HeldApart => {
            !(has(ForeignHold::HeldApart) && lets_run && (calls || keeps))
        }
        ForeignHold::HeldInPage => !calls && device.streams[at].hold != Hold::StaysOpen,
        ForeignHold::Overdue => false,
    }
}

/// No gate is closed that was not to be, or that work of a stream that goes on waits behind, and
/// every gate is closed that can be without that.
#[test]
fn the_gates_that_are_closed_are_the_greatest_sound_set() {
    for_all_views(|device| {
        let gates = closed(device);
        assert!(is_own_sound(device, gates.own), "a gate is closed: {device:?} {gates:?}");
        for other in 0..1_u32 << device.streams.len() {
            let is_worse = other & !gates.own == 0 || !is_own_sound(device, other);
            assert!(is_worse, "a gate is open: {device:?} {gates:?}, not {other:b}");
        }
        let without_calls = DeviceView { device_calls: 0, blocked_calls: 0, ..*device };
        let own = closed(&without_calls).own;
        for at in 0..device.streams.len() {
            let (stays, may) = (gates.foreign & 1 << at != 0, may_stay(device, at, own));
            assert!(!stays || may, "a gate is closed: {device:?} {gates:?}");
            assert!(stays || !may, "a gate is open: {device:?} {gates:?}");
        }
    });
}

/// With the end of calls this process closes the gates that it would have closed without.
#[test]
fn gates_that_are_open_for_calls_are_those_that_close_with_their_end() {
    for_all_views(|device| {
        let ended = DeviceView { device_calls: 0, blocked_calls: 0, ..*device };
        let held = |device| {
            let states = gates_to_close(device).into_iter();
            states.map(|state| state.own != OwnBit::Open).collect::<Vec<_>>()
        };
        assert_eq!(held(device), held(&ended), "a call changes what is held: {device:?}");
    });
}

/// A stream that stops no other has its gate closed as if there were no other.
#[test]
fn a_stream_that_stops_no_other_is_decided_alone() {
    for_all_views(|device| {
        for (at, stream) in device.streams.iter().enumerate() {
            let stops = stream.ring != Ring::Own
                || stream.role != Role::Plain
                || stream.work == Work::WithCopies
                || device.shares_connections;
            let alone = gates_to_close(&DeviceView { streams: &[*stream], ..*device });
            let own = gates_to_close(device)[at].own;
            assert!(stops || own == alone[0].own, "others matter: {device:?} {at}");
        }
    });
}

/// No opener closes a gate.
#[test]
fn more_openers_close_no_gate() {
    for_all_views(|device| {
        let before = closed(device);
        let check = |after: Gates| {
            let is_within = after.own & !before.own == 0;
            assert!(is_within, "an opener closes a gate: {device:?} {before:?} {after:?}");
        };
        check(closed(&DeviceView { shares_connections: true, ..*device }));
        check(closed(&DeviceView { device_calls: 1, ..*device }));
        check(closed(&DeviceView { blocked_calls: 1, ..*device }));
        for at in 0..device.streams.len() {
            let with = |change: fn(&mut StreamView)| {
                let mut streams = device.streams.to_vec();
                change(&mut streams[at]);
                closed(&DeviceView { streams: &streams, ..*device })
            };
            check(with(|stream| stream.hold = Hold::None));
            check(with(|stream| stream.hold = Hold::StaysOpen));
            check(with(|stream| stream.work = Work::WithCopies));
            if device.streams[at].ring != Ring::Own {
                check(with(|stream| stream.ring = Ring::Unknown));
            }
        }
    });
}
