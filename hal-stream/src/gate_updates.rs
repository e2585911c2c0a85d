//! Updates of gates as streams come and go, launch and retire, and are held.
//!
//! [`gate_closure`](crate::gate_closure) says which gates are closed then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::gate::Gate;
use crate::gate_closure::{
    DeviceView, GateState, OwnBit, gates_to_close, legacy_waits_for_blocking,
};
use crate::gated_stream::GatedStream;
use crate::reach::Reach;
use crate::registry::{GateRegistry, Members};
use crate::sync::{Word, fence, lock};

impl<W: Word + 'static> GateRegistry<W> {
    /// Adds a queue. Gates of a ring that the queue is in are open from now on, until it is held as
    /// well.
    pub(crate) fn add(&self, member: &Arc<GatedStream<W>>) {
        let mut members = lock(&self.members);
        members.list.retain(|member| member.strong_count() > 0);
        members.list.push(Arc::downgrade(member));
        // Another process holds it without a word to this one.
        self.calls.count_hold(false, member.gate.word().is_alone());
        let queues = members.list.len();
        if members.connections.resize(queues) && self.counts.swap(1, Ordering::Relaxed) == 0 {
            // With the one in `note`: what is noted without the lock now is seen here, or counted
            // there.
            fence(Ordering::SeqCst);
            let all: Vec<_> = members.all().collect();
            all.iter().for_each(|member| members.connections.note(member));
        }
        self.recompute_gates(&members);
    }

    /// A queue ends, which others may have been waiting for to be held with them.
    pub(crate) fn remove(&self, member: &GatedStream<W>) {
        self.set_held(member, false);
        let mut members = lock(&self.members);
        members.list.retain(|other| !std::ptr::eq(other.as_ptr(), member));
        self.calls.count_hold(member.gate.word().is_alone(), false);
        members.connections.forget(member);
        let queues = members.list.len();
        members.connections.resize(queues);
        self.recompute_gates(&members);
    }

    /// Says whether a queue is held.
    pub(crate) fn set_held(&self, member: &GatedStream<W>, held: bool) {
        let mut members = lock(&self.members);
        members.holds_requested -= usize::from(member.is_hold_requested());
        members.holds_requested += usize::from(held);
        self.calls.count_hold(member.is_hold_requested(), held);
        member.request_hold(held);
        if member.coupling.is_any() || members.connections.are_shared() || members.has_calls() {
            self.recompute_gates(&members);
        } else {
            // It stops no other, and none stops it.
            let streams = [member.view()];
            let alone = gates_to_close(&DeviceView { streams: &streams, ..members.view() });
            self.apply_own(&member.gate, alone[0].own);
        }
    }

    /// Something is about to be launched into these queues, after which its own will have had so
    /// many commands. Whether it is the first that goes into other rings as well, if there are any.
    pub(crate) fn begin(&self, member: &GatedStream<W>, launched: u64, reach: Reach) -> bool {
        let mut is_first = false;
        self.note(member, |member| {
            member.set_launched(launched);
            is_first = member.set_reach(launched, reach);
        });
        is_first
    }

    /// Notes that what was about to be launched was not.
    pub(crate) fn fail(&self, member: &GatedStream<W>, launched: u64) {
        self.note(member, |member| member.set_launched(launched.saturating_sub(1)));
    }

    /// Sets the number of a queue's commands that have run.
    pub(crate) fn end(&self, member: &GatedStream<W>, retired: u64) {
        self.note(member, |member| member.set_retired(retired));
    }

    fn note(&self, member: &GatedStream<W>, note: impl FnOnce(&GatedStream<W>)) {
        if self.is_coupled(member) {
            return self.note_counted(member, note);
        }
        note(member);
        if self.is_limited {
            fence(Ordering::SeqCst);
            if self.counts.load(Ordering::Relaxed) != 0 {
                self.note_counted(member, |_| {});
            }
        }
    }

    /// Carries out `note` for a queue whose gate depends on others.
    fn note_counted(&self, member: &GatedStream<W>, note: impl FnOnce(&GatedStream<W>)) {
        let mut members = lock(&self.members);
        let is_as = |member: &GatedStream<W>| (member.view(), member.counted());
        let (before, were_shared) = (is_as(member), members.connections.are_shared());
        note(member);
        members.connections.note(member);
        let share = were_shared || members.connections.are_shared();
        let matters = member.coupling.is_any() || share && members.holds_requested > 0;
        if matters && is_as(member) != before {
            self.recompute_gates(&members);
        }
    }

    /// A stream of the device is about to wait for what another one has not done yet.
    pub(crate) fn note_wait(&self) {
        let mut members = lock(&self.members);
        if members.connections.wait() {
            self.recompute_gates(&members);
        }
    }

    /// Returns whether more than the scheduler's request says if the gate is closed.
    fn is_coupled(&self, member: &GatedStream<W>) -> bool {
        member.coupling.is_any() || self.counts.load(Ordering::Relaxed) != 0
    }

    fn apply_own(&self, gate: &Gate<W>, own: OwnBit) {
        match gate.set_own(own) {
            Some(true) if self.held.fetch_add(1, Ordering::Relaxed) == 0 => {
                self.held_signal.set(true);
                xsched_node::wake_watch();
            }
            Some(false) => _ = self.held.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Returns whether gates are open for other streams than their own: for the legacy default
    /// stream, or since a stream that is held has work in queues that others share, which go on. A
    /// backend that stops queues in another way must not stop them then either.
    pub(crate) fn are_left_open(members: &Members<W>) -> bool {
        let views: Vec<_> = members.all().map(|member| member.view()).collect();
        let holds_up = |member: Arc<GatedStream<W>>| {
            let is_held = member.is_hold_requested() && !member.gate.is_held();
            member.has_work_in_shared_queues() && is_held
        };
        legacy_waits_for_blocking(&views) || members.all().any(holds_up)
    }

    /// Returns the action on each gate.
    pub(crate) fn decide(members: &Members<W>) -> Decision<W> {
        let members_now: Vec<_> = members.all().collect();
        let views: Vec<_> = members_now.iter().map(|member| member.view()).collect();
        let states = gates_to_close(&DeviceView { streams: &views, ..members.view() });
        Decision(members_now.into_iter().zip(states).collect())
    }

    /// Closes the gates that may be closed, and opens the others.
    pub(crate) fn recompute_gates(&self, members: &Members<W>) {
        for (member, state) in &Self::decide(members).0 {
            self.apply_own(&member.gate, state.own);
            if member.gate.open_foreign(state.opens_foreign) {
                xsched_node::wake_watch();
            }
        }
    }
}

/// Action on each gate.
#[derive(Debug)]
pub(crate) struct Decision<W>(Vec<(Arc<GatedStream<W>>, GateState)>);

impl<W: Word> Decision<W> {
    /// How many gates it opens.
    pub(crate) fn opened(&self) -> usize {
        let opens = |(member, to): &&(Arc<GatedStream<W>>, GateState)| {
            member.gate.is_closed() && to.own != OwnBit::Closed
                || member.gate.foreign_heartbeat().is_some() && to.opens_foreign
        };
        self.0.iter().filter(opens).count()
    }
}

impl<W> Members<W> {
    const fn has_calls(&self) -> bool {
        self.device_calls > 0 || self.blocked_calls > 0
    }

    /// A view of the device without streams.
    const fn view(&self) -> DeviceView<'static> {
        DeviceView {
            streams: &[],
            shares_connections: self.connections.are_shared(),
            device_calls: self.device_calls,
            blocked_calls: self.blocked_calls,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flags::FlagWord;
    use crate::gate_closure::{Ring, Role};
    use crate::gated_stream::Coupling;
    use crate::held_ring::HeldRing;

    type Unshared = Option<FlagWord>;
    type Queues = Vec<Arc<GatedStream<Unshared>>>;

    fn open(ties: &[Coupling]) -> (GateRegistry<Unshared>, Queues) {
        let gates = GateRegistry::new(Duration::from_millis(2), Duration::MAX);
        let member = |ties: &Coupling| Arc::new(GatedStream::coupled(*ties, None, String::new()));
        let members: Vec<_> = ties.iter().map(member).collect();
        members.iter().for_each(|member| gates.add(member));
        (gates, members)
    }

    fn in_ring(ring: Ring) -> Coupling {
        Coupling { ring, ..Coupling::NONE }
    }

    fn closed(members: &Queues) -> Vec<bool> {
        members.iter().map(|member| member.gate.is_closed()).collect()
    }

    fn begin(gates: &GateRegistry<Unshared>, member: &GatedStream<Unshared>, launched: u64) {
        gates.begin(member, launched, Reach::Ring);
    }

    /// The queue has had another command, or all its commands have run.
    fn busy(gates: &GateRegistry<Unshared>, member: &GatedStream<Unshared>, is_busy: bool) {
        if is_busy { begin(gates, member, 1) } else { gates.end(member, 1) }
    }

    #[test]
    fn gates_of_a_ring_are_closed_while_what_is_in_it_is_held() {
        let [one, other] = [Ring::Shared(1), Ring::Shared(2)].map(in_ring);
        let (gates, members) = open(&[one, one, other, Coupling::NONE]);
        members.iter().for_each(|member| busy(&gates, member, true));
        gates.set_held(&members[0], true);
        assert_eq!(closed(&members), [false; 4]);
        assert!(members[0].is_left_open());
        gates.set_held(&members[2], true);
        gates.set_held(&members[3], true);
        assert_eq!(closed(&members), [false, false, true, true]);
        gates.set_held(&members[1], true);
        assert_eq!(closed(&members), [true; 4]);
        assert!(!members[0].is_left_open());
        gates.set_held(&members[0], false);
        assert_eq!(closed(&members), [false, false, true, true]);
        assert!(members[1].is_left_open());
        gates.remove(&members[0]);
        assert_eq!(closed(&members), [false, true, true, true], "it was the only one not held");
        gates.set_held(&members[3], false);
        assert_eq!(closed(&members), [false, true, true, false]);
    }

    #[test]
    fn a_queue_with_nothing_to_do_leaves_its_ring_closed() {
        let (gates, members) = open(&[in_ring(Ring::Shared(1)); 2]);
        gates.set_held(&members[0], true);
        assert_eq!(closed(&members), [true, false]);
        begin(&gates, &members[1], 1);
        assert_eq!(closed(&members), [false, false], "before it is launched");
        begin(&gates, &members[1], 2);
        gates.end(&members[1], 1);
        assert_eq!(closed(&members), [false, false], "there is another one");
        gates.end(&members[1], 2);
        assert_eq!(closed(&members), [true, false]);
        begin(&gates, &members[1], 3);
        gates.fail(&members[1], 3);
        assert_eq!(closed(&members), [true, false], "it was not launched");
    }

    #[test]
    fn commands_in_several_rings_are_held_with_all_of_them_and_hold_none() {
        let spreads = |ring| Coupling { may_spread: true, ..in_ring(ring) };
        let (gates, members) = open(&[
            spreads(Ring::Shared(1)),
            spreads(Ring::Shared(2)),
            spreads(Ring::Own),
            Coupling::NONE,
        ]);
        members.iter().for_each(|member| busy(&gates, member, true));
        gates.set_held(&members[0], true);
        gates.set_held(&members[3], true);
        assert_eq!(closed(&members), [true, false, false, true]);
        // A graph of a queue that goes on may be behind the gate.
        assert!(gates.begin(&members[2], 2, Reach::All));
        assert_eq!(closed(&members), [false, false, false, true]);
        assert!(!gates.all_open(), "nothing of it is held");
        // All that is shared is held.
        gates.set_held(&members[1], true);
        gates.set_held(&members[2], true);
        assert_eq!(closed(&members), [true; 4]);
        // What waits behind the gate of the graph's queue is in the ring of one that goes on, and
        // the graph may wait behind the gate of any other that shares a ring.
        gates.set_held(&members[0], false);
        assert_eq!(closed(&members), [false, false, false, true]);
        assert!(gates.all_open(), "nothing else may hold it either");
        busy(&gates, &members[0], false);
        assert_eq!(closed(&members), [false, true, true, true]);
        assert!(!gates.all_open());
        begin(&gates, &members[0], 2);
        gates.end(&members[2], 2);
        assert_eq!(closed(&members), [false, true, true, true], "it has run");
        assert!(!gates.begin(&members[2], 3, Reach::All), "it is the second");
        let alone = Arc::new(GatedStream::coupled(Coupling::NONE, None, String::new()));
        assert!(
            !gates.begin(&alone, 1, Reach::All) && !alone.is_spread(),
            "there are no other rings"
        );
    }

    #[test]
    fn copies_are_held_with_all_that_copy_and_hold_none_that_does() {
        let may_spread = true;
        let own = Coupling { may_spread, ..Coupling::NONE };
        let (gates, members) =
            open(&[own, Coupling { may_spread, ..in_ring(Ring::Shared(1)) }, own]);
        members.iter().for_each(|member| busy(&gates, member, true));
        gates.begin(&members[0], 2, Reach::Copies);
        gates.set_held(&members[0], true);
        assert_eq!(closed(&members), [true, false, false], "no other one copies");
        gates.begin(&members[1], 2, Reach::Copies);
        assert_eq!(closed(&members), [false; 3], "its copy may be behind the first one's");
        assert!(gates.all_open(), "nothing else may hold the first");
        gates.end(&members[1], 1);
        assert_eq!(closed(&members), [false; 3], "it is not the copy that has run");
        gates.set_held(&members[1], true);
        assert_eq!(closed(&members), [true, true, false], "both are held");
        assert!(!gates.begin(&members[2], 2, Reach::Copies));
        assert_eq!(closed(&members), [false; 3]);
        gates.end(&members[2], 2);
        assert_eq!(closed(&members), [true, true, false]);
        assert!(!gates.all_open());
        begin(&gates, &members[2], 3);
        assert_eq!(closed(&members), [true, true, false], "that is no copy");
    }

    #[test]
    fn a_ring_of_its_own_may_be_stopped_unless_that_stops_copies_of_others() {
        let own = Coupling { may_spread: true, ..Coupling::NONE };
        let (gates, members) = open(&[own; 2]);
        let held = HeldRing::default();
        held.watch(&members[0]);
        members.iter().for_each(|member| busy(&gates, member, true));
        gates.set_held(&members[0], true);
        assert_eq!(held.is_held(), None, "it shares nothing");
        gates.begin(&members[0], 2, Reach::Copies);
        assert_eq!(held.is_held(), Some(true));
        gates.begin(&members[1], 2, Reach::Copies);
        assert_eq!(held.is_held(), Some(false));
        gates.end(&members[1], 2);
        assert_eq!(held.is_held(), Some(true));
        gates.end(&members[0], 2);
        assert_eq!(held.is_held(), None);
        let unknown = Coupling { may_spread: true, ..in_ring(Ring::Unknown) };
        let never = HeldRing::default();
        never.watch(&Arc::new(GatedStream::coupled(unknown, None, String::new())));
        assert_eq!(never.is_held(), None);
    }

    #[test]
    fn with_fewer_connections_than_busy_queues_none_is_closed_in_front_of_one_that_goes_on() {
        let gates = GateRegistry::limited(Duration::from_millis(2), Duration::MAX, 2);
        let member = || Arc::new(GatedStream::<Unshared>::new(None, String::new()));
        let members: Queues = (0..4).map(|_| member()).collect();
        members[..2].iter().for_each(|member| gates.add(member));
        busy(&gates, &members[0], true);
        gates.set_held(&members[0], true);
        members[2..].iter().for_each(|member| gates.add(member));
        assert_eq!(closed(&members), [true, false, false, false], "held before there were more");
        busy(&gates, &members[1], true);
        assert_eq!(closed(&members), [true, false, false, false], "each has its own");
        busy(&gates, &members[2], true);
        assert_eq!(closed(&members), [false; 4], "it may share that of the first");
        assert!(members[0].is_left_open());
        gates.set_held(&members[1], true);
        assert_eq!(closed(&members), [false; 4]);
        busy(&gates, &members[1], false);
        assert_eq!(closed(&members), [false; 4], "it goes on to share it");
        gates.set_held(&members[2], true);
        assert_eq!(closed(&members), [true, true, true, false], "nothing goes on");
        busy(&gates, &members[3], true);
        assert_eq!(closed(&members), [false; 4]);
        gates.remove(&members[2]);
        assert_eq!(closed(&members), [false; 4], "the last one may share that of the first");
        busy(&gates, &members[3], false);
        assert_eq!(closed(&members), [true, true, false, false]);
        begin(&gates, &members[1], 2);
        begin(&gates, &members[3], 2);
        assert_eq!(closed(&members), [false; 4]);
        gates.end(&members[3], 2);
        assert_eq!(closed(&members), [true, true, false, false]);
    }

    #[test]
    fn streams_that_wait_for_each_other_share_connections_if_there_are_fewer_of_them_than_queues() {
        let gates = GateRegistry::limited(Duration::from_millis(2), Duration::MAX, 3);
        let member = || Arc::new(GatedStream::<Unshared>::new(None, String::new()));
        let members: Queues = (0..4).map(|_| member()).collect();
        members[..3].iter().for_each(|member| gates.add(member));
        gates.note_wait();
        busy(&gates, &members[0], true);
        busy(&gates, &members[1], true);
        gates.set_held(&members[0], true);
        assert_eq!(closed(&members), [true, false, false, false], "there are enough for all");
        gates.add(&members[3]);
        assert_eq!(closed(&members), [false; 4]);
        busy(&gates, &members[1], false);
        assert_eq!(closed(&members), [true, false, false, false]);
        busy(&gates, &members[3], true);
        assert_eq!(closed(&members), [false; 4]);
        gates.remove(&members[3]);
        begin(&gates, &members[1], 2);
        assert_eq!(closed(&members), [true, false, false, false], "there are enough again");
    }

    #[test]
    fn what_may_be_in_any_ring_opens_all() {
        let (gates, members) = open(&[Ring::Shared(1), Ring::Shared(2)].map(in_ring));
        members.iter().for_each(|member| gates.set_held(member, true));
        let unknown = Arc::new(GatedStream::coupled(in_ring(Ring::Unknown), None, String::new()));
        gates.add(&unknown);
        assert_eq!(closed(&members), [true, true], "it has nothing to do");
        busy(&gates, &unknown, true);
        assert_eq!(closed(&members), [false, false]);
        gates.remove(&unknown);
        assert_eq!(closed(&members), [true, true]);
    }

    #[test]
    fn a_gate_that_stays_open_leaves_its_ring_open() {
        let (gates, members) = open(&[in_ring(Ring::Shared(1)); 2]);
        members.iter().for_each(|member| busy(&gates, member, true));
        members.iter().for_each(|member| gates.set_held(member, true));
        assert_eq!(closed(&members), [true, true]);
        members[0].gate.stay_open();
        gates.recompute_gates(&lock(&gates.members));
        assert_eq!(closed(&members), [false, false]);
        busy(&gates, &members[0], false);
        assert_eq!(closed(&members), [false, true]);
    }

    #[test]
    fn blocking_queues_are_open_while_the_legacy_default_stream_has_work() {
        let role = Role::Blocking;
        let blocking = Coupling { role, ..Coupling::NONE };
        let ring = in_ring(Ring::Shared(1));
        let legacy = Coupling { role: Role::Legacy, ..in_ring(Ring::Shared(2)) };
        let (gates, members) = open(&[blocking, Coupling { role, ..ring }, ring, legacy]);
        members[..3].iter().for_each(|member| busy(&gates, member, true));
        members[..3].iter().for_each(|member| gates.set_held(member, true));
        assert_eq!(closed(&members), [true, true, true, false]);
        busy(&gates, &members[3], true);
        assert_eq!(closed(&members), [false; 4], "also what shares a ring with a blocking one");
        assert!(gates.all_open(), "nothing else may hold the blocking ones");
        busy(&gates, &members[3], false);
        assert!(!gates.all_open());
        assert_eq!(closed(&members), [true, true, true, false]);
        begin(&gates, &members[3], 2);
        gates.remove(&members[3]);
        assert_eq!(closed(&members), [true, true, true, false], "its queue has ended");
    }
}
