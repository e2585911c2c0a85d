//! Gates that may stop more than their queue: which of them are closed.
//!
//! What waits at a gate stops its whole hardware ring, and the legacy default stream waits for what
//! is in blocking streams. So such a gate is closed only while all that it would stop is held, or
//! has nothing to do. Meanwhile a hold of its queue lets run what was launched.
//!
//! Some commands, such as graphs with parallel branches, go into other rings as well, which the
//! runtime chooses. Behind a gate they would wait in those rings, and behind another queue's gate
//! in one of these rings they would wait for that. While a queue has such a command on the device,
//! it counts as being in all rings that are shared. Copies go into the queues of copy engines,
//! where they wait for what is in front of them in their stream, a gate among it, and those of
//! other streams behind them: so a queue with copies on the device is held with all that have some.
//!
//! Where streams take connections as they get work, all of them count as sharing one while there
//! are too few: see [`connections`](crate::connections).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::gate::Gate;
use crate::member::Member;
use crate::reach::Reach;
use crate::registry::{GateRegistry, Members};
use crate::sync::{Word, fence, lock};

impl<W: Word + 'static> GateRegistry<W> {
    /// Adds a queue. While all gates are forced open, so is that of the new queue. Gates of a ring
    /// that the queue is in are open from now on, until it is held as well.
    pub(crate) fn add(&self, member: &Arc<Member<W>>) {
        let mut members = lock(&self.members);
        members.list.retain(|member| member.strong_count() > 0);
        (0..members.forced_open).for_each(|_| _ = member.gate.force_open(false));
        members.list.push(Arc::downgrade(member));
        let queues = members.list.len();
        if members.connections.resize(queues) && self.counts.swap(1, Ordering::Relaxed) == 0 {
            // With the one in `note`: what is noted without the lock now is seen here, or counted
            // there.
            fence(Ordering::SeqCst);
            let all: Vec<_> = members.all().collect();
            all.iter().for_each(|member| members.connections.note(member));
        }
        self.settle(&members);
    }

    /// A queue ends, which others may have been waiting for to be held with them.
    pub(crate) fn remove(&self, member: &Member<W>) {
        self.set_held(member, false);
        let mut members = lock(&self.members);
        members.list.retain(|other| !std::ptr::eq(other.as_ptr(), member));
        members.connections.forget(member);
        let queues = members.list.len();
        members.connections.resize(queues);
        self.settle(&members);
    }

    /// Says whether a queue is held.
    pub(crate) fn set_held(&self, member: &Member<W>, held: bool) {
        if member.ties.are_any() || self.is_limited {
            let mut members = lock(&self.members);
            members.wished -= usize::from(member.is_wished());
            members.wished += usize::from(held);
            member.wish(held);
            if member.ties.are_any() || members.connections.are_shared() {
                self.settle(&members);
            } else if self.changes(&member.gate, held) {
                self.queue_held.notify_all();
            }
        } else if self.changes(&member.gate, held) {
            // With the lock, so that a watch that is about to wait is notified too.
            drop(lock(&self.members));
            self.queue_held.notify_all();
        }
    }

    /// Something is about to be launched into these queues, after which its own will have had so
    /// many commands. Whether it is the first that goes into other rings as well, if there are any.
    pub(crate) fn begin(&self, member: &Member<W>, launched: u64, reach: Reach) -> bool {
        let mut is_first = false;
        self.note(member, |member| {
            member.set_launched(launched);
            is_first = member.set_reach(launched, reach);
        });
        is_first
    }

    /// What was about to be launched was not.
    pub(crate) fn fail(&self, member: &Member<W>, launched: u64) {
        self.note(member, |member| member.set_launched(launched.saturating_sub(1)));
    }

    /// So many commands of a queue have run.
    pub(crate) fn end(&self, member: &Member<W>, retired: u64) {
        self.note(member, |member| member.set_retired(retired));
    }

    fn note(&self, member: &Member<W>, note: impl FnOnce(&Member<W>)) {
        if self.is_tied(member) {
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

    /// The same for a queue whose gate depends on others.
    fn note_counted(&self, member: &Member<W>, note: impl FnOnce(&Member<W>)) {
        let mut members = lock(&self.members);
        let is_as = |member: &Member<W>| (member.load(), member.counted());
        let (before, were_shared) = (is_as(member), members.connections.are_shared());
        note(member);
        members.connections.note(member);
        let share = were_shared || members.connections.are_shared();
        let matters = member.ties.are_any() || share && members.wished > 0;
        if matters && is_as(member) != before {
            self.settle(&members);
        }
    }

    /// A stream of the device is about to wait for what another one has not done yet.
    pub(crate) fn note_wait(&self) {
        let mut members = lock(&self.members);
        if members.connections.wait() {
            self.settle(&members);
        }
    }

    /// Whether more than the scheduler's wish for the queue says whether its gate is closed.
    fn is_tied(&self, member: &Member<W>) -> bool {
        member.ties.are_any() || self.counts.load(Ordering::Relaxed) != 0
    }

    /// Sets whether a gate is held. True if it is the first.
    fn changes(&self, gate: &Gate<W>, held: bool) -> bool {
        if !gate.set_held(held) {
            return false;
        }
        if held {
            return self.held.fetch_add(1, Ordering::Relaxed) == 0;
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// Whether the legacy default stream may wait for blocking queues.
    pub(crate) fn are_awaited(members: &Members<W>) -> bool {
        let has = |is_one: fn(&Member<W>) -> bool| members.all().any(|member| is_one(&member));
        has(|member| member.ties.is_legacy && member.is_busy())
            && has(|member| member.ties.is_blocking)
    }

    /// Whether a queue that the scheduler holds has work where that of others waits, which go on.
    pub(crate) fn are_beyond(members: &Members<W>) -> bool {
        let is_one = |member: Arc<Member<W>>| {
            member.is_beyond() && member.is_wished() && !member.gate.is_held()
        };
        members.all().any(is_one)
    }

    /// Closes the gates that stop nothing but what is held, and opens the others.
    pub(crate) fn settle(&self, members: &Members<W>) {
        let all: Vec<_> = members.all().filter(|member| self.is_tied(member)).collect();
        let is_legacy_busy = all.iter().any(|member| member.ties.is_legacy && member.is_busy());
        let is_let_go = |member: &Member<W>| {
            let is_awaited = member.ties.is_blocking && is_legacy_busy;
            !member.is_wished() || member.gate.stays_open() || is_awaited
        };
        let goes_on = |member: &&Arc<Member<W>>| member.is_busy() && is_let_go(member);
        let going: Vec<_> = all.iter().filter(goes_on).collect();
        let share = members.connections.are_shared();
        let stops = |one: &Member<W>, other: &Member<W>| share || one.stops(other);
        let stops_others = |member: &Member<W>| going.iter().any(|other| stops(member, other));
        let mut is_first = false;
        for member in &all {
            let held = !is_let_go(member) && !stops_others(member);
            is_first |= self.changes(&member.gate, held);
        }
        if is_first {
            self.queue_held.notify_all();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flags::FlagWord;
    use crate::held_ring::HeldRing;
    use crate::member::{Ring, Ties};

    type Unshared = Option<FlagWord>;
    type Queues = Vec<Arc<Member<Unshared>>>;

    fn open(ties: &[Ties]) -> (GateRegistry<Unshared>, Queues) {
        let gates = GateRegistry::new(Duration::from_millis(2), Duration::MAX);
        let member = |ties: &Ties| Arc::new(Member::tied(*ties, None, String::new()));
        let members: Vec<_> = ties.iter().map(member).collect();
        members.iter().for_each(|member| gates.add(member));
        (gates, members)
    }

    fn in_ring(ring: Ring) -> Ties {
        Ties { ring, ..Ties::NONE }
    }

    fn closed(members: &Queues) -> Vec<bool> {
        members.iter().map(|member| member.gate.is_closed()).collect()
    }

    fn begin(gates: &GateRegistry<Unshared>, member: &Member<Unshared>, launched: u64) {
        gates.begin(member, launched, Reach::Ring);
    }

    /// The queue has had another command, or all its commands have run.
    fn busy(gates: &GateRegistry<Unshared>, member: &Member<Unshared>, is_busy: bool) {
        if is_busy { begin(gates, member, 1) } else { gates.end(member, 1) }
    }

    #[test]
    fn gates_of_a_ring_are_closed_while_what_is_in_it_is_held() {
        let [one, other] = [Ring::Shared(1), Ring::Shared(2)].map(in_ring);
        let (gates, members) = open(&[one, one, other, Ties::NONE]);
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
        let spreads = |ring| Ties { may_spread: true, ..in_ring(ring) };
        let (gates, members) = open(&[
            spreads(Ring::Shared(1)),
            spreads(Ring::Shared(2)),
            spreads(Ring::Own),
            Ties::NONE,
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
        // What waits behind the gate of the graph's queue is in the ring of one that goes on.
        gates.set_held(&members[0], false);
        assert_eq!(closed(&members), [false, true, false, true]);
        assert!(gates.all_open(), "nothing else may hold it either");
        busy(&gates, &members[0], false);
        assert_eq!(closed(&members), [false, true, true, true]);
        assert!(!gates.all_open());
        begin(&gates, &members[0], 2);
        gates.end(&members[2], 2);
        assert_eq!(closed(&members), [false, true, true, true], "it has run");
        assert!(!gates.begin(&members[2], 3, Reach::All), "it is the second");
        let alone = Arc::new(Member::tied(Ties::NONE, None, String::new()));
        assert!(
            !gates.begin(&alone, 1, Reach::All) && !alone.is_spread(),
            "there are no other rings"
        );
    }

    #[test]
    fn copies_are_held_with_all_that_copy_and_hold_none_that_does() {
        let may_spread = true;
        let own = Ties { may_spread, ..Ties::NONE };
        let (gates, members) = open(&[own, Ties { may_spread, ..in_ring(Ring::Shared(1)) }, own]);
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
        let own = Ties { may_spread: true, ..Ties::NONE };
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
        let unknown = Ties { may_spread: true, ..in_ring(Ring::Unknown) };
        let never = HeldRing::default();
        never.watch(&Arc::new(Member::tied(unknown, None, String::new())));
        assert_eq!(never.is_held(), None);
    }

    #[test]
    fn with_fewer_connections_than_busy_queues_none_is_closed_in_front_of_one_that_goes_on() {
        let gates = GateRegistry::limited(Duration::from_millis(2), Duration::MAX, 2);
        let member = || Arc::new(Member::<Unshared>::new(None, String::new()));
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
        let member = || Arc::new(Member::<Unshared>::new(None, String::new()));
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
        let unknown = Arc::new(Member::tied(in_ring(Ring::Unknown), None, String::new()));
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
        gates.settle(&lock(&gates.members));
        assert_eq!(closed(&members), [false, false]);
        busy(&gates, &members[0], false);
        assert_eq!(closed(&members), [false, true]);
    }

    #[test]
    fn blocking_queues_are_open_while_the_legacy_default_stream_has_work() {
        let is_blocking = true;
        let blocking = Ties { is_blocking, ..Ties::NONE };
        let ring = in_ring(Ring::Shared(1));
        let legacy = Ties { is_legacy: true, ..in_ring(Ring::Shared(2)) };
        let (gates, members) = open(&[blocking, Ties { is_blocking, ..ring }, ring, legacy]);
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
