//! Gates that may stop more than their queue: which of them are closed.
//!
//! What waits at a gate stops its whole hardware ring, and the legacy default stream waits for what
//! is in blocking streams. So such a gate is closed only while all that it would stop is held, or
//! has nothing to do. Meanwhile a hold of its queue lets run what was launched.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::gate::Gate;
use crate::member::{Member, Ring};
use crate::registry::{GateRegistry, Members};
use crate::sync::{Word, lock};

/// The commands of the legacy default stream.
#[derive(Debug, Default)]
pub(crate) struct Legacy {
    launched: u64,
    retired: u64,
}

impl Legacy {
    fn is_busy(&self) -> bool {
        self.launched > self.retired
    }
}

impl<W: Word + 'static> GateRegistry<W> {
    /// Adds a queue. While all gates are forced open, so is that of the new queue. Gates of a ring
    /// that the queue is in are open from now on, until it is held as well.
    pub(crate) fn add(&self, member: &Arc<Member<W>>) {
        let mut members = lock(&self.members);
        members.list.retain(|member| member.strong_count() > 0);
        (0..members.forced_open).for_each(|_| _ = member.gate.force_open());
        members.list.push(Arc::downgrade(member));
        self.settle(&members);
    }

    /// A queue ends, which others may have been waiting for to be held with them.
    pub(crate) fn remove(&self, member: &Member<W>) {
        self.set_held(member, false);
        let mut members = lock(&self.members);
        members.list.retain(|other| !std::ptr::eq(other.as_ptr(), member));
        if member.ties.is_legacy {
            members.legacy = Legacy::default();
        }
        self.settle(&members);
    }

    /// Says whether a queue is held.
    pub(crate) fn set_held(&self, member: &Member<W>, held: bool) {
        if member.ties.are_any() {
            member.wish(held);
            self.settle(&lock(&self.members));
        } else if self.changes(&member.gate, held) {
            // With the lock, so that a watch that is about to wait is notified too.
            drop(lock(&self.members));
            self.queue_held.notify_all();
        }
    }

    /// Something is about to be launched into the legacy default stream, which has had so many
    /// commands then.
    pub(crate) fn begin_legacy(&self, launched: u64) {
        self.note_legacy(|legacy| legacy.launched = legacy.launched.max(launched));
    }

    /// So many commands of the legacy default stream have run, or this one was not launched.
    pub(crate) fn end_legacy(&self, retired: u64) {
        self.note_legacy(|legacy| legacy.retired = legacy.retired.max(retired));
    }

    fn note_legacy(&self, note: impl FnOnce(&mut Legacy)) {
        let mut members = lock(&self.members);
        let before = members.legacy.is_busy();
        note(&mut members.legacy);
        if members.legacy.is_busy() != before {
            self.settle(&members);
        }
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

    /// Closes the gates that stop nothing but what is held, and opens the others.
    pub(crate) fn settle(&self, members: &Members<W>) {
        let all: Vec<_> = members.all().filter(|member| member.ties.are_any()).collect();
        let is_awaited = |member: &Member<W>| member.ties.is_blocking && members.legacy.is_busy();
        let goes_on = |member: &Member<W>| {
            !member.is_wished() || member.gate.stays_open() || is_awaited(member)
        };
        let is_unknown = all.iter().any(|member| member.ties.ring == Ring::Unknown);
        let stops_others = |ring: Ring| match ring {
            Ring::Own => false,
            Ring::Unknown => true,
            Ring::Shared(_) => {
                is_unknown || all.iter().any(|other| other.ties.ring == ring && goes_on(other))
            }
        };
        let mut is_first = false;
        for member in &all {
            let held = !goes_on(member) && !stops_others(member.ties.ring);
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
    use crate::member::Ties;

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

    #[test]
    fn gates_of_a_ring_are_closed_while_all_in_it_are_held() {
        let [one, other] = [Ring::Shared(1), Ring::Shared(2)].map(in_ring);
        let (gates, members) = open(&[one, one, other, Ties::NONE]);
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
    fn a_queue_that_comes_into_a_ring_opens_it() {
        let (gates, members) = open(&[Ring::Shared(1), Ring::Shared(2)].map(in_ring));
        members.iter().for_each(|member| gates.set_held(member, true));
        let come = |ring| {
            let next = Arc::new(Member::tied(in_ring(ring), None, String::new()));
            gates.add(&next);
            next
        };
        let next = come(Ring::Shared(1));
        assert_eq!(closed(&members), [false, true]);
        gates.remove(&next);
        assert_eq!(closed(&members), [true, true]);
        let unknown = come(Ring::Unknown);
        assert_eq!(closed(&members), [false, false], "it may be in either");
        gates.set_held(&unknown, true);
        assert_eq!(closed(&members), [false, false], "what shares its ring is not known");
        gates.remove(&unknown);
        assert_eq!(closed(&members), [true, true]);
    }

    #[test]
    fn a_gate_that_stays_open_leaves_its_ring_open() {
        let (gates, members) = open(&[in_ring(Ring::Shared(1)); 2]);
        members.iter().for_each(|member| gates.set_held(member, true));
        assert_eq!(closed(&members), [true, true]);
        members[0].gate.stay_open();
        gates.settle(&lock(&gates.members));
        assert_eq!(closed(&members), [false, false]);
    }

    #[test]
    fn blocking_queues_are_open_while_the_legacy_default_stream_has_work() {
        let (ring, is_blocking) = (Ring::Shared(1), true);
        let blocking = Ties { is_blocking, ..Ties::NONE };
        let legacy = Ties { is_legacy: true, ..in_ring(Ring::Shared(2)) };
        let ties = [blocking, Ties { is_blocking, ..in_ring(ring) }, in_ring(ring), legacy];
        let (gates, members) = open(&ties);
        members[..3].iter().for_each(|member| gates.set_held(member, true));
        assert_eq!(closed(&members), [true, true, true, false]);
        gates.begin_legacy(1);
        assert_eq!(closed(&members), [false; 4], "also what shares a ring with a blocking one");
        gates.begin_legacy(2);
        gates.end_legacy(1);
        assert_eq!(closed(&members), [false; 4], "a second one is not done");
        gates.end_legacy(2);
        assert_eq!(closed(&members), [true, true, true, false]);
        gates.begin_legacy(3);
        gates.remove(&members[3]);
        assert_eq!(closed(&members), [true, true, true, false], "its queue has ended");
    }
}
