//! Words by which a sleeper and the one that wakes it agree that nothing is missed: each writes its
//! own and then reads the other's.

use crate::words::PageWord;

/// Counts a queue that got work (`busy`) or ran out of it. Whether the daemon is to be woken.
pub(crate) fn count_queue<P: PageWord>(loaded_queues: &P, wants_wakeups: &P, busy: bool) -> bool {
    let before = loaded_queues.add(if busy { 1 } else { u32::MAX });
    P::fence();
    before == u32::from(!busy) && wants_wakeups.get() != 0
}

/// Says that the daemon wants to be woken. Whether there is work by now, for which it may not have
/// been.
pub(crate) fn request_wakeups<P: PageWord>(loaded_queues: &P, wants_wakeups: &P) -> bool {
    wants_wakeups.put(1);
    P::fence();
    loaded_queues.get() != 0
}

/// Returns whether a thread that may not have seen the gates that were written before has to be
/// woken.
pub(crate) fn has_follower<P: PageWord>(follower: &P) -> bool {
    P::fence();
    follower.get() != 0
}

/// For what a thread of the process looks at: changes a word on which it may sleep. Whether it may,
/// and is to be woken.
pub(crate) fn change_for_sleeper<P: PageWord>(sleeps: &P, wakes: &P) -> bool {
    wakes.add(1);
    has_follower(sleeps)
}

/// Says that a thread follows a gate, and answers the gate's word by then.
pub(crate) fn begin_to_follow<P: PageWord>(follower: &P, gate: &P) -> u32 {
    follower.put(1);
    P::fence();
    gate.get()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn the_first_and_the_last_queue_wake_a_daemon_that_wants_it() {
        let (load, wanted) = (AtomicU32::new(0), AtomicU32::new(1));
        let rung: Vec<_> =
            [true, true, false, false, true].map(|busy| count_queue(&load, &wanted, busy)).into();
        assert_eq!(rung, [true, false, false, true, true]);
        wanted.store(0, Ordering::Relaxed);
        assert!(!count_queue(&load, &wanted, false));
    }
}
