//! Whether a process has work on a GPU, as the daemon reads it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(all(test, loom))]
use loom::sync::atomic::fence;
#[cfg(not(all(test, loom)))]
use std::sync::atomic::fence;

use xsched_hal_stream::SharedPage;

/// Where the header of a page says how many queues of the process have work.
const LOAD: usize = 2;
/// Where it says whether the daemon wants to be woken.
const WANTED: usize = 3;
/// Where the daemon says what the [`Others`] on the GPU are.
const SHARED: usize = 10;
/// The bits of it that [`SharedPage::set_beside`] and [`SharedPage::set_spared`] set.
const BITS: u32 = 3 << 30;
/// Where it says how many streams it has with queues of levels 1, 2 and 3, in [`LEVEL_BITS`] each.
const LEVELS: usize = 6;
const LEVEL_BITS: usize = 21;
const LEVEL_MAX: u32 = (1 << LEVEL_BITS) - 1;
/// Where it says for how long its host has waited for the device, in microseconds, and one more; 0
/// if it cannot say.
const WAITED: usize = 11;
/// Where it says how much device time the process has used, in nanoseconds.
const USED_NS: usize = 2;
/// Where it says how many of its commands have retired.
const RETIRED: usize = 3;
/// Where it says how many launches went past the scheduler, and one more; 0 if it cannot say.
const PAST: usize = 4;

/// What the other processes on its GPU are for a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// There are none. The process's launches need not be scheduled, and nothing of it is held.
    #[default]
    None,
    /// It may be held for them, or is to be held anyway.
    Before,
    /// It is held for none of them, but they are for it, until this changes.
    Behind,
    /// As [`Others::Before`], and one of them has a higher priority.
    Above,
}

impl Others {
    /// What a number of the page means. One that makes no sense is [`Others::Before`], with which
    /// all that may be scheduled is.
    #[must_use]
    pub const fn of(number: u32) -> Self {
        match number & !BITS {
            0 => Self::None,
            2 => Self::Behind,
            3 => Self::Above,
            _ => Self::Before,
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Before => 1,
            Self::Behind => 2,
            Self::Above => 3,
        }
    }
}

/// Counts the queues of a process that have work on a GPU, and wakes the daemon when that begins or
/// ends.
#[derive(Debug)]
pub struct Load {
    page: Arc<SharedPage>,
    doorbell: Arc<OwnedFd>,
}

impl Load {
    /// The count in the first page of a unit.
    #[must_use]
    pub const fn new(page: Arc<SharedPage>, doorbell: Arc<OwnedFd>) -> Self {
        Self { page, doorbell }
    }

    /// The same count, which wakes another daemon.
    #[must_use]
    pub fn with_doorbell(&self, doorbell: Arc<OwnedFd>) -> Self {
        Self { page: Arc::clone(&self.page), doorbell }
    }

    /// A queue got work (`busy`), or has none any more. Never blocks.
    pub fn note(&self, busy: bool) {
        if counted(self.page.header(LOAD), self.page.header(WANTED), busy) {
            self.ring();
        }
    }

    /// The page where it counts.
    pub(crate) const fn page(&self) -> &Arc<SharedPage> {
        &self.page
    }

    /// Wakes the daemon. Never blocks.
    pub(crate) fn ring(&self) {
        // It is never full: nothing reads it, and the daemon sees each write.
        let _ = rustix::io::write(&self.doorbell, &1_u64.to_ne_bytes());
    }
}

impl Load {
    /// Commands have retired that used so much device time, in nanoseconds.
    ///
    /// No thread waits for these counts, and nothing follows from two of them together. So they are
    /// in no order with each other and with the count of queues.
    pub fn note_retired(&self, commands: u64, used_ns: u64) {
        self.page.wide_header(USED_NS).fetch_add(used_ns, Ordering::Relaxed);
        self.page.wide_header(RETIRED).fetch_add(commands, Ordering::Relaxed);
    }

    /// The process has so many streams with queues of levels 1, 2 and 3, on whatever GPU.
    pub fn note_levels(&self, levels: [u32; 3]) {
        self.page.wide_header(LEVELS).store(packed(levels), Ordering::Relaxed);
    }

    /// So many launches of the process, on whatever GPU, went past the scheduler by now.
    pub fn note_past(&self, launches: u64) {
        self.page.wide_header(PAST).store(launches.saturating_add(1), Ordering::Relaxed);
    }
}

/// For the daemon: the device time that the process says it has used, in nanoseconds.
#[must_use]
pub fn used_ns(page: &SharedPage) -> u64 {
    page.wide_header(USED_NS).load(Ordering::Relaxed)
}

/// For the daemon: how many commands the process says have retired.
#[must_use]
pub fn retired(page: &SharedPage) -> u64 {
    page.wide_header(RETIRED).load(Ordering::Relaxed)
}

/// For the daemon: how many streams with queues of levels 1, 2 and 3 the process says that it has,
/// on whatever GPU, to within the last second.
#[must_use]
pub fn levels(page: &SharedPage) -> [u32; 3] {
    unpacked(page.wide_header(LEVELS).load(Ordering::Relaxed))
}

fn packed(levels: [u32; 3]) -> u64 {
    (0..3).map(|at| u64::from(levels[at].min(LEVEL_MAX)) << (at * LEVEL_BITS)).sum()
}

fn unpacked(levels: u64) -> [u32; 3] {
    [0, 1, 2].map(|at| (levels >> (at * LEVEL_BITS)) as u32 & LEVEL_MAX)
}

/// For the daemon: how many launches the process says went past the scheduler, on whatever GPU, to
/// within the last second; `None` if it cannot say.
#[must_use]
pub fn past(page: &SharedPage) -> Option<u64> {
    page.wide_header(PAST).load(Ordering::Relaxed).checked_sub(1)
}

/// A number in a page. In models it is one of loom's.
pub(crate) trait Number {
    /// Adds to it, wrapping around, and answers what it was.
    fn add(&self, by: u32) -> u32;
    fn get(&self) -> u32;
    fn put(&self, value: u32);
}

macro_rules! number {
    ($kind:ty) => {
        impl Number for $kind {
            fn add(&self, by: u32) -> u32 {
                self.fetch_add(by, Ordering::SeqCst)
            }
            fn get(&self) -> u32 {
                self.load(Ordering::SeqCst)
            }
            fn put(&self, value: u32) {
                self.store(value, Ordering::SeqCst);
            }
        }
    };
}

number!(AtomicU32);
#[cfg(all(test, loom))]
number!(loom::sync::atomic::AtomicU32);

/// Counts, and says whether the daemon is to be woken.
pub(crate) fn counted(load: &impl Number, wanted: &impl Number, busy: bool) -> bool {
    let before = load.add(if busy { 1 } else { u32::MAX });
    // One of the two sees what the other has written.
    fence(Ordering::SeqCst);
    before == u32::from(!busy) && wanted.get() != 0
}

/// Says that the daemon wants to be woken, and whether there is work by now, for which it may not
/// have been.
pub(crate) fn want(load: &impl Number, wanted: &impl Number) -> bool {
    wanted.put(1);
    // One of the two sees what the other has written.
    fence(Ordering::SeqCst);
    load.get() != 0
}

/// For the daemon: whether the process says that it has work.
#[must_use]
pub fn is_loaded(page: &SharedPage) -> bool {
    page.header(LOAD).get() != 0
}

/// For the daemon: how many queues of the process have work, as it says.
#[must_use]
pub fn loaded_queues(page: &SharedPage) -> u32 {
    page.header(LOAD).get()
}

/// For the daemon: says that it wants to be woken, and answers [`is_loaded`].
pub fn set_wanted(page: &SharedPage) -> bool {
    want(page.header(LOAD), page.header(WANTED))
}

/// For the process: where the daemon says what the others on the GPU are, as [`Others::of`] reads
/// it. While it is 0, the process's launches need not be scheduled.
#[must_use]
pub fn others(page: &SharedPage) -> &AtomicU32 {
    page.header(SHARED)
}

/// For the process: its host has waited for the device for so long, in nanoseconds, or asked and
/// heard that it is done. That counts as a microsecond at least. A process that has counted none
/// yet is taken to wait in each pause.
pub fn count_waited(page: &SharedPage, waited_ns: u64) {
    let waited = page.header(WAITED);
    // Another thread may have begun.
    let _ = waited.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    // The count goes round.
    waited.fetch_add((waited_ns / 1_000).max(1) as u32, Ordering::Relaxed);
}

/// For the daemon: for how long the process says that it has waited for the device, in
/// microseconds, from 0 again after the highest number; `None` if it cannot say.
#[must_use]
pub fn waited_us(page: &SharedPage) -> Option<u32> {
    page.header(WAITED).load(Ordering::Relaxed).checked_sub(1)
}

/// For the daemon: says what the others on the GPU are.
pub fn set_others(page: &SharedPage, others: Others) {
    let bits = page.header(SHARED).get() & BITS;
    page.header(SHARED).put(others.number() | bits);
}

/// For the daemon: says that it need not be woken.
pub fn set_unwanted(page: &SharedPage) {
    page.header(WANTED).put(0);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_up_to_two_millions() {
        for levels in [[0; 3], [1, 2, 3], [LEVEL_MAX; 3], [LEVEL_MAX, 0, 7]] {
            assert_eq!(unpacked(packed(levels)), levels);
        }
        assert_eq!(unpacked(packed([u32::MAX, 0, u32::MAX])), [LEVEL_MAX, 0, LEVEL_MAX]);
    }

    #[test]
    fn a_process_says_for_how_long_it_waited_once_it_counts() {
        let page = SharedPage::create().expect("a page");
        assert_eq!(waited_us(&page), None);
        count_waited(&page, 0);
        assert_eq!(waited_us(&page), Some(1), "a wait counts");
        count_waited(&page, 3_999);
        assert_eq!(waited_us(&page), Some(4));
    }

    #[test]
    fn a_number_that_makes_no_sense_has_all_be_scheduled() {
        let all = [Others::None, Others::Before, Others::Behind, Others::Above];
        assert_eq!(all.map(|others| Others::of(others.number())), all);
        assert_eq!(Others::of(u32::MAX), Others::Before);
    }

    #[test]
    fn the_first_and_the_last_queue_wake_a_daemon_that_wants_it() {
        let (load, wanted) = (AtomicU32::new(0), AtomicU32::new(1));
        let rung: Vec<_> =
            [true, true, false, false, true].map(|busy| counted(&load, &wanted, busy)).into();
        assert_eq!(rung, [true, false, false, true, true]);
        wanted.store(0, Ordering::Relaxed);
        assert!(!counted(&load, &wanted, false));
    }
}
