//! Gates that may be closed: a pure function of a view of all streams.
//!
//! A gate that is closed stops more than its stream: what waits there stops its whole hardware
//! ring, copies wait for those in front of them in the queue of a copy engine, and the legacy
//! default stream and blocking streams wait for each other. Some commands, such as graphs with
//! parallel branches, go into other rings as well, which the driver chooses: a stream with such a
//! command on the device is in an unknown ring, which may be any that streams share. While streams
//! share connections, each may stop any other; see [`connections`](crate::connections).
//!
//! So a gate is closed only if all that it would stop is held, or has nothing to do. Meanwhile a
//! hold of its stream lets run what was launched, which may wait behind other gates in its turn.
//! The set of closed gates is the greatest one in front of which nothing that goes on waits. While
//! a call into the driver may wait for the whole device, the set is empty.
//!
//! Holds of other processes are theirs, and may end at any time without a word to this one. So they
//! close no gate of this process, and are opened only where the other process counts on it: for
//! calls, and for streams that share connections, if the other process lets some streams run.

/// The hardware ring of a stream's commands: what a closed gate of it stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ring {
    /// No other stream is in it.
    Own,
    /// Other streams may be in it, all of which have queues.
    Shared(u64),
    /// The ring may be any that others share.
    Unknown,
}

/// A stream's part in what the legacy default stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The legacy default stream and this one do not wait for each other.
    Plain,
    /// The legacy default stream, which waits for blocking ones, and they for it.
    Legacy,
    /// The legacy default stream waits for it, and a queue has what is launched there.
    Blocking,
}

/// A stream's work on the device, or about to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    None,
    InRing,
    /// Some of it is in the queue of a copy engine.
    WithCopies,
}

/// A hold of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The stream may run.
    None,
    /// The scheduler of the process holds the stream.
    Requested,
    /// As [`Hold::Requested`] or not: the stream's gate is left open for good.
    StaysOpen,
}

/// A hold of a stream by another process, which has the word of its gate as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForeignHold {
    /// None, and no scheduler of a node has the word.
    None,
    /// A scheduler of a node that holds all streams of the process together lets it run.
    Released,
    /// A scheduler of a node that holds all streams of the process together holds them.
    Held,
    /// A scheduler of a node that holds the stream apart from others lets it run.
    ReleasedApart,
    /// A scheduler of a node that holds the stream apart from others holds it.
    HeldApart,
    /// A process holds it that shares a page with this one, without a scheduler of a node.
    HeldInPage,
    /// The holder was silent for longer than the lease.
    Overdue,
}

/// A stream, as far as gates are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamView {
    /// The ring of what it has on the device.
    pub(crate) ring: Ring,
    pub(crate) role: Role,
    pub(crate) work: Work,
    pub(crate) hold: Hold,
    pub(crate) foreign: ForeignHold,
}

/// A device, as far as gates are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceView<'a> {
    pub(crate) streams: &'a [StreamView],
    /// There are fewer connections to the device than streams that need one.
    pub(crate) shares_connections: bool,
    /// Calls of the program under way that wait for the whole device.
    pub(crate) device_calls: u32,
    /// Other calls into the driver under way that do not return.
    pub(crate) blocked_calls: u32,
}

/// A gate's bit of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OwnBit {
    #[default]
    Open,
    /// Closed once the calls that are under way have returned.
    OpenForCalls,
    Closed,
}

/// Action of this process on the word of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GateState {
    pub(crate) own: OwnBit,
    /// The bits of other processes are cleared.
    pub(crate) opens_foreign: bool,
}

impl StreamView {
    /// Returns whether another process has the stream's gate closed, or would but for an opening.
    fn is_held_by_others(&self) -> bool {
        !matches!(
            self.foreign,
            ForeignHold::None | ForeignHold::Released | ForeignHold::ReleasedApart
        )
    }

    /// Returns whether what waits at this stream's gate stops work of another one.
    fn stops(&self, other: &Self) -> bool {
        let in_ring = match (self.ring, other.ring) {
            (Ring::Own, _) | (_, Ring::Own) => false,
            (Ring::Shared(one), Ring::Shared(other)) => one == other,
            (Ring::Unknown, _) | (_, Ring::Unknown) => true,
        };
        let by_copies = self.work == Work::WithCopies && other.work == Work::WithCopies;
        let by_role = matches!(
            (self.role, other.role),
            (Role::Blocking, Role::Legacy) | (Role::Legacy, Role::Blocking)
        );
        in_ring || by_copies || by_role
    }
}

impl DeviceView<'_> {
    fn has_calls(&self) -> bool {
        [self.device_calls, self.blocked_calls].iter().any(|calls| *calls > 0)
    }

    /// Returns whether a scheduler of a node holds some streams apart from others, and lets some
    /// run: what those wait for may be held.
    pub(crate) fn is_partly_held(&self) -> bool {
        let any = |holds: &[ForeignHold]| self.streams.iter().any(|s| holds.contains(&s.foreign));
        any(&[ForeignHold::HeldApart]) && any(&[ForeignHold::Released, ForeignHold::ReleasedApart])
    }

    /// The gates that this process may close but for calls.
    fn closed_but_for_calls(&self) -> Vec<bool> {
        let streams = self.streams;
        let mut closed: Vec<_> =
            streams.iter().map(|stream| stream.hold == Hold::Requested).collect();
        let goes_on = |closed: &[bool], at: usize| !closed[at] && streams[at].work != Work::None;
        let mut going: Vec<_> = (0..streams.len()).filter(|at| goes_on(&closed, *at)).collect();
        while let Some(runs) = going.pop() {
            for at in 0..streams.len() {
                if closed[at] && (self.shares_connections || streams[at].stops(&streams[runs])) {
                    closed[at] = false;
                    // Its own work goes on as well, and may wait behind other gates.
                    going.extend(goes_on(&closed, at).then_some(at));
                }
            }
        }
        closed
    }

    /// Returns whether streams that are held apart would stop what is to go on.
    fn opens_apart(&self, closed: &[bool]) -> bool {
        let goes_on = |(stream, closed): (&StreamView, &bool)| {
            stream.work != Work::None && !closed && !stream.is_held_by_others()
        };
        let shares = self.shares_connections && self.streams.iter().zip(closed).any(goes_on);
        (shares || self.has_calls()) && self.is_partly_held()
    }
}

/// Returns the gates that may be closed, of this process's and of other processes' holds.
pub(crate) fn gates_to_close(device: &DeviceView<'_>) -> Vec<GateState> {
    let closed = device.closed_but_for_calls();
    let opens_apart = device.opens_apart(&closed);
    let state = |(stream, closed): (&StreamView, &bool)| GateState {
        own: match (closed, device.has_calls()) {
            (false, _) => OwnBit::Open,
            (true, true) => OwnBit::OpenForCalls,
            (true, false) => OwnBit::Closed,
        },
        opens_foreign: match stream.foreign {
            ForeignHold::None | ForeignHold::Released | ForeignHold::Held => false,
            // One that begins meanwhile closes nothing either.
            ForeignHold::ReleasedApart | ForeignHold::HeldApart => opens_apart,
            ForeignHold::HeldInPage => device.has_calls() || stream.hold == Hold::StaysOpen,
            ForeignHold::Overdue => true,
        },
    };
    device.streams.iter().zip(&closed).map(state).collect()
}

/// Returns whether the legacy default stream may wait for blocking streams now.
pub(crate) fn legacy_waits_for_blocking(streams: &[StreamView]) -> bool {
    let has_work = |s: &StreamView| s.role == Role::Legacy && s.work != Work::None;
    streams.iter().any(has_work) && streams.iter().any(|s| s.role == Role::Blocking)
}

#[cfg(all(test, not(loom)))]
#[path = "models/gate_closure.rs"]
mod tests;
