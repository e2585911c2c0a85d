//! The index of a queue's waiters, ordered by what they wait for.
//!
//! It is under the queue's state lock, so nothing here calls a waker or drops one: what is to be
//! notified, and what was replaced, is handed out. A look for waiters that are due costs one
//! comparison when there are none.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::task::Waker;

use xsched_core::id::CmdId;

use super::{Outcome, Until};
use crate::error::WaitError;

/// Names a waiter of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId(u64);

/// How a waiter learns that its wait is over.
pub(crate) enum Notify {
    /// The waiter looks by itself; its outcome is kept for it.
    Keep,
    /// A thread or a task is woken, and its outcome is kept for it.
    Wake(Waker),
    /// The closure is handed the outcome. It only passes it on.
    Call(Box<dyn FnOnce(Outcome) + Send>),
}

impl std::fmt::Debug for Notify {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Keep => "Keep",
            Self::Wake(_) => "Wake",
            Self::Call(_) => "Call",
        })
    }
}

#[derive(Debug)]
struct Waiter {
    until: Until,
    notify: Notify,
}

/// A waiter whose wait is over, to be notified without the lock.
#[derive(Debug)]
pub(crate) struct Due {
    notify: Notify,
    outcome: Outcome,
}

impl Notify {
    /// Notifies the waiter of its outcome.
    pub(crate) fn call(self, outcome: Outcome) {
        match self {
            Self::Keep => {}
            Self::Wake(waker) => waker.wake(),
            Self::Call(call) => call(outcome),
        }
    }
}

impl Due {
    pub(crate) fn notify(self) {
        self.notify.call(self.outcome);
    }
}

/// The waiters of a queue, ordered by what they wait for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Waits for a command, by its number.
    commands: BTreeMap<(u64, WaiterId), Waiter>,
    /// The first command with a waiter; `u64::MAX` if there is none.
    first: u64,
    /// Waits for room, in the order in which they came.
    room: BTreeMap<WaiterId, Waiter>,
    /// Threads that are to launch a command, by its number.
    turns: BTreeMap<(u64, WaiterId), Waiter>,
    /// Outcomes of waits that are over, until their waiters leave.
    ended: BTreeMap<WaiterId, Outcome>,
    /// Waits for room among them: a place in the ring is kept for each.
    places_kept: u64,
    due: VecDeque<Due>,
    /// Waiters that are to be notified of a command.
    active: usize,
    next: u64,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { first: u64::MAX, due: VecDeque::with_capacity(16), ..Self::default() }
    }

    /// Adds a waiter, or changes how it is notified. Gives back what is to be dropped without the
    /// lock.
    pub(crate) fn put(
        &mut self,
        until: Until,
        id: &mut Option<WaiterId>,
        notify: Notify,
    ) -> Option<Notify> {
        let id = *id.get_or_insert_with(|| {
            self.next += 1;
            WaiterId(self.next)
        });
        let active = usize::from(!matches!(notify, Notify::Keep));
        let waiter = Waiter { until, notify };
        let old = match until {
            Until::Ended(CmdId(n)) | Until::Retired(CmdId(n)) => {
                self.first = self.first.min(n);
                self.commands.insert((n, id), waiter)
            }
            Until::Room => self.room.insert(id, waiter),
            Until::Turn(CmdId(n)) => self.turns.insert((n, id), waiter),
        };
        self.active += active;
        old.map(|waiter| self.deactivate(waiter))
    }

    fn deactivate(&mut self, waiter: Waiter) -> Notify {
        self.active -= usize::from(!matches!(waiter.notify, Notify::Keep));
        waiter.notify
    }

    /// Takes a waiter out, whether or not its wait is over. Gives back what is to be dropped
    /// without the lock.
    pub(crate) fn remove(&mut self, until: Until, id: WaiterId) -> Option<Notify> {
        if self.ended.remove(&id).is_some() && until == Until::Room {
            self.places_kept -= 1;
        }
        let waiter = match until {
            Until::Ended(CmdId(n)) | Until::Retired(CmdId(n)) => {
                let waiter = self.commands.remove(&(n, id));
                if n == self.first {
                    self.find_first();
                }
                waiter
            }
            Until::Room => self.room.remove(&id),
            Until::Turn(CmdId(n)) => self.turns.remove(&(n, id)),
        };
        waiter.map(|waiter| self.deactivate(waiter))
    }

    fn find_first(&mut self) {
        self.first = self.commands.first_key_value().map_or(u64::MAX, |((n, _), _)| *n);
    }

    /// True if the waiter is registered and its wait is not over.
    #[cfg(all(test, not(loom)))]
    fn is_open(&self, until: Until, id: WaiterId) -> bool {
        match until {
            Until::Ended(CmdId(n)) | Until::Retired(CmdId(n)) => {
                self.commands.contains_key(&(n, id))
            }
            Until::Room => self.room.contains_key(&id),
            Until::Turn(CmdId(n)) => self.turns.contains_key(&(n, id)),
        }
    }

    /// How a registered wait has ended.
    pub(crate) fn ended(&self, id: WaiterId) -> Option<Outcome> {
        self.ended.get(&id).copied()
    }

    /// True if a thread, a task or a callback is to be notified.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.active > 0
    }

    /// Ends the waits for commands below `retired`.
    #[inline]
    pub(crate) fn retire(&mut self, retired: u64, outcome: impl Fn(Until) -> Option<Outcome>) {
        while self.first < retired {
            let Some(((_, id), waiter)) = self.commands.pop_first() else { return };
            self.find_first();
            let outcome = outcome(waiter.until).unwrap_or(Err(WaitError::Forgotten));
            self.over(id, waiter, outcome);
        }
    }

    /// Ends those waits for these commands that have an outcome: some may have failed early.
    #[cold]
    pub(crate) fn end(&mut self, commands: Range<u64>, outcome: impl Fn(Until) -> Option<Outcome>) {
        if self.first >= commands.end {
            return;
        }
        let (from, to) = ((commands.start, WaiterId(0)), (commands.end, WaiterId(0)));
        let over = |waiter: &Waiter| outcome(waiter.until);
        let keys: Vec<_> = self
            .commands
            .range(from..to)
            .filter_map(|(key, waiter)| Some((*key, over(waiter)?)))
            .collect();
        for (key, outcome) in keys {
            if let Some(waiter) = self.commands.remove(&key) {
                self.over(key.1, waiter, outcome);
            }
        }
        self.find_first();
    }

    /// Keeps free places for those that wait for room, first come, first served, and ends their
    /// waits.
    #[inline]
    pub(crate) fn make_room(&mut self, free: u64) {
        if self.room.is_empty() {
            return;
        }
        for _ in self.places_kept..free {
            let Some((id, waiter)) = self.room.pop_first() else { return };
            self.places_kept += 1;
            self.over(id, waiter, Ok(()));
        }
    }

    /// Ends the waits of the threads whose turn has come to launch, in the order of their commands.
    #[inline]
    pub(crate) fn give_turns(&mut self, outcome: impl Fn(Until) -> Option<Outcome>) {
        while let Some(first) = self.turns.first_entry() {
            let Some(outcome) = outcome(first.get().until) else { return };
            let ((_, id), waiter) = first.remove_entry();
            self.over(id, waiter, outcome);
        }
    }

    /// True if one of the free places is kept for no waiter.
    #[inline]
    pub(crate) fn leave_room(&self, free: u64) -> bool {
        self.room.is_empty() && free > self.places_kept
    }

    fn over(&mut self, id: WaiterId, waiter: Waiter, outcome: Outcome) {
        let notify = self.deactivate(waiter);
        if !matches!(notify, Notify::Call(_)) {
            self.ended.insert(id, outcome);
        }
        if !matches!(notify, Notify::Keep) {
            self.due.push_back(Due { notify, outcome });
        }
    }

    /// True if a waiter is to be notified.
    #[inline]
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The next waiter to notify.
    pub(crate) fn take_due(&mut self) -> Option<Due> {
        self.due.pop_front()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const DONE: fn(Until) -> Option<Outcome> = |_| Some(Ok(()));

    fn ended(n: u64) -> Until {
        Until::Ended(CmdId(n))
    }

    fn put(waiters: &mut Waiters, until: Until) -> WaiterId {
        let mut id = None;
        assert!(waiters.put(until, &mut id, Notify::Wake(Waker::noop().clone())).is_none());
        id.unwrap()
    }

    #[test]
    fn waits_end_with_their_commands_and_keep_their_outcomes() {
        let mut waiters = Waiters::new();
        let ids: Vec<_> = [5, 3, 4].map(|n| put(&mut waiters, ended(n))).into();
        waiters.retire(3, DONE);
        assert!(!waiters.has_due());
        waiters.retire(5, DONE);
        assert_eq!((waiters.due.len(), waiters.first), (2, 5));
        assert!(waiters.is_open(ended(5), ids[0]) && !waiters.is_open(ended(3), ids[1]));
        assert_eq!(waiters.ended(ids[1]), Some(Ok(())));
        assert!(waiters.remove(ended(3), ids[1]).is_none());
        assert_eq!(waiters.ended(ids[1]), None);
        assert!(waiters.is_awaited());
        assert!(waiters.remove(ended(5), ids[0]).is_some(), "its waker comes back");
        assert!(!waiters.is_awaited());
        assert_eq!(waiters.first, u64::MAX);
    }

    #[test]
    fn a_command_that_fails_early_ends_its_own_waits_only() {
        let mut waiters = Waiters::new();
        let (one, two) = (put(&mut waiters, ended(7)), put(&mut waiters, ended(8)));
        waiters.end(7..8, DONE);
        assert!(!waiters.is_open(ended(7), one) && waiters.is_open(ended(8), two));
        waiters.end(8..9, |_| None);
        assert!(waiters.is_open(ended(8), two));
    }

    #[test]
    fn room_is_handed_out_in_order_and_no_more_than_there_is() {
        let mut waiters = Waiters::new();
        let ids: Vec<_> = (0..3).map(|_| put(&mut waiters, Until::Room)).collect();
        let open = |waiters: &Waiters| -> Vec<_> {
            ids.iter().map(|&id| waiters.is_open(Until::Room, id)).collect()
        };
        waiters.make_room(1);
        waiters.make_room(1);
        assert_eq!(open(&waiters), [false, true, true]);
        assert_eq!(waiters.ended(ids[0]), Some(Ok(())));
        waiters.make_room(2);
        assert_eq!(open(&waiters), [false, false, true]);
        assert!(!waiters.leave_room(3), "the third comes first");
        // The first takes its place, and the second leaves its own to the third.
        waiters.remove(Until::Room, ids[0]);
        waiters.remove(Until::Room, ids[1]);
        waiters.make_room(1);
        assert_eq!(open(&waiters), [false; 3]);
        assert!(!waiters.leave_room(1) && waiters.leave_room(2));
    }
}
