//! The layout of a page that a process and schedulers in other processes have mapped: a header, and
//! gates.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::handshake::HoldHandshake;
use crate::wakeup::request_wakeups;
use crate::words::{OWNER_BIT, PageWord};

/// The version of the pages' layout. A page with another one is refused. It is odd, so that it is
/// no page of version 0.1, which had the bits of holders in this place.
pub const PAGE_VERSION: u32 = 3;
/// Gates of a page.
pub const GATES_PER_PAGE: usize = (PAGE_BYTES - size_of::<PageHeader>()) / size_of::<PageGate>();
pub(crate) const PAGE_BYTES: usize = 4_096;

/// A page: one structure for all processes that have it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct PageLayout {
    pub(crate) header: PageHeader,
    pub(crate) gates: [PageGate; GATES_PER_PAGE],
}

/// Words of a process and the scheduler of the node about a page's process on a GPU.
///
/// Both ends distrust the other: any field may have any value. The first cache line is the
/// scheduler's, which changes it rarely and which launches read; the second is the process's. Of
/// the pages of a process on a GPU, the first alone has what the process counts.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct PageHeader {
    /// [`PAGE_VERSION`].
    pub version: AtomicU32,
    /// The bits of the schedulers that hold all gates of the page.
    pub held: AtomicU32,
    /// Changes with each renewal of these holds.
    pub heartbeat: AtomicU32,
    /// The process's [`NodeRank`].
    pub rank: AtomicU32,
    /// Not 0 while other processes have the GPU in turns with this one, so that measured times may
    /// contain theirs.
    pub time_sliced: AtomicU32,
    /// Not 0 if the process is to wake the daemon when its work begins or ends.
    pub daemon_wants_wakeups: AtomicU32,
    /// Holds of all gates of the page that have ended.
    pub holds_ended: AtomicU32,
    /// The generation of the pages that the process holds directly when its work begins; 0 if it
    /// holds none.
    pub pages_below: AtomicU32,
    /// Number of [`PageHeader::direct_holds`] that the scheduler has ended.
    pub direct_holds_ended: AtomicU32,
    _scheduler: [AtomicU32; 7],
    /// Queues of the process that have work on the GPU.
    pub loaded_queues: AtomicU32,
    /// Not 0 if a thread of the process sleeps on the page's first gate.
    pub follower: AtomicU32,
    /// Not 0 while a call of the process that waits for the whole GPU has the gates open.
    pub open_calls: AtomicU32,
    /// See [`PageHeader::waited_us`].
    waited_us: AtomicU32,
    /// Device time that the process has used, in nanoseconds.
    pub used_ns: AtomicU64,
    /// Commands of the process that have retired.
    pub retired: AtomicU64,
    /// See [`PageHeader::bypassed`].
    bypassed: AtomicU64,
    /// Streams of the process with queues of levels 1, 2 and 3, on whatever GPU.
    pub queues_at_level: [AtomicU32; 3],
    /// Direct holds of other pages by this process.
    pub direct_holds: AtomicU32,
    _process: [AtomicU32; 2],
}

/// A gate, in a cache line of its own.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct PageGate {
    /// The device waits until this is 0.
    pub word: AtomicU32,
    /// The heartbeat of those that hold this gate apart from the page's others.
    pub heartbeat: AtomicU32,
    _rest: [AtomicU32; 14],
}

const _: () = {
    assert!(size_of::<PageLayout>() == PAGE_BYTES && GATES_PER_PAGE == 62);
    assert!(size_of::<PageHeader>() == 128 && size_of::<PageGate>() == 64);
    assert!(offset_of!(PageHeader, version) == 0 && offset_of!(PageHeader, held) == 4);
    assert!(offset_of!(PageHeader, heartbeat) == 8 && offset_of!(PageHeader, rank) == 12);
    assert!(offset_of!(PageHeader, time_sliced) == 16);
    assert!(offset_of!(PageHeader, daemon_wants_wakeups) == 20);
    assert!(offset_of!(PageHeader, holds_ended) == 24);
    assert!(offset_of!(PageHeader, pages_below) == 28);
    assert!(offset_of!(PageHeader, direct_holds_ended) == 32);
    assert!(offset_of!(PageHeader, loaded_queues) == 64 && offset_of!(PageHeader, follower) == 68);
    assert!(offset_of!(PageHeader, open_calls) == 72 && offset_of!(PageHeader, waited_us) == 76);
    assert!(offset_of!(PageHeader, used_ns) == 80 && offset_of!(PageHeader, retired) == 88);
    assert!(offset_of!(PageHeader, bypassed) == 96);
    assert!(offset_of!(PageHeader, queues_at_level) == 104);
    assert!(offset_of!(PageHeader, direct_holds) == 116);
    assert!(offset_of!(PageLayout, gates) == 128);
    assert!(offset_of!(PageGate, word) == 0 && offset_of!(PageGate, heartbeat) == 4);
};

/// A process's standing among those on its GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeRank {
    /// No other process is on the GPU. The process's launches need not be scheduled, and nothing of
    /// it is held.
    #[default]
    Alone,
    /// The process may be held for others, or is to be held anyway.
    Contended,
    /// The process is held for none of the others, but they are for it, until this changes.
    Highest,
    /// As [`NodeRank::Contended`], and another process has a higher priority.
    Outranked,
}

impl NodeRank {
    /// The rank that a word of a page stands for. A word that makes no sense is
    /// [`NodeRank::Contended`], with which all that may be scheduled is.
    #[must_use]
    pub const fn of(word: u32) -> Self {
        match word {
            0 => Self::Alone,
            2 => Self::Highest,
            3 => Self::Outranked,
            _ => Self::Contended,
        }
    }
}

impl PageHeader {
    /// The process's standing, as the scheduler says.
    #[must_use]
    pub fn rank(&self) -> NodeRank {
        NodeRank::of(self.rank.load(Ordering::Acquire))
    }

    /// For the scheduler: says the process's standing.
    pub fn set_rank(&self, rank: NodeRank) {
        self.rank.store(rank as u32, Ordering::SeqCst);
    }

    /// For the scheduler: says whether other processes have the GPU in turns with this one.
    pub fn set_time_sliced(&self, is_so: bool) {
        self.time_sliced.store(is_so.into(), Ordering::Relaxed);
    }

    /// Returns whether other processes have the GPU in turns with this one, as the scheduler says.
    #[must_use]
    pub fn is_time_sliced(&self) -> bool {
        self.time_sliced.load(Ordering::Relaxed) != 0
    }

    /// For the scheduler: whether the process says that it has work.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.loaded_queues.get() != 0
    }

    /// For the daemon: asks to be woken, and answers [`PageHeader::is_loaded`]: for that it may not
    /// have been.
    pub fn request_wakeups(&self) -> bool {
        request_wakeups(&self.loaded_queues, &self.daemon_wants_wakeups)
    }

    /// For the daemon: asks not to be woken any more.
    pub fn end_wakeups(&self) {
        self.daemon_wants_wakeups.put(0);
    }

    /// Says that a scheduler has left: its holds have ended, and the next one says the rest anew.
    pub(crate) fn forget_scheduler(&self) {
        self.end_wakeups();
        self.pages_below.put(0);
        self.set_rank(NodeRank::Alone);
        self.set_time_sliced(false);
    }

    /// For the process: commands have retired that used this device time.
    ///
    /// No thread waits for these counts, and nothing follows from two of them together. So they are
    /// in no order with each other and with the count of queues.
    pub(crate) fn count_retired(&self, commands: u64, used_ns: u64) {
        self.used_ns.fetch_add(used_ns, Ordering::Relaxed);
        self.retired.fetch_add(commands, Ordering::Relaxed);
    }

    /// Time for which the process says that it has waited for the GPU, in microseconds, from 0
    /// again after the highest number; `None` if the process does not count.
    #[must_use]
    pub fn waited_us(&self) -> Option<u32> {
        self.waited_us.load(Ordering::Relaxed).checked_sub(1)
    }

    /// For the process: it has waited for the GPU for this time, or asked and heard that the GPU is
    /// done. That counts as a microsecond at least. A process that has counted none yet is taken to
    /// wait in each pause.
    pub fn count_waited(&self, waited_ns: u64) {
        // Another thread may have begun.
        let _ = self.waited_us.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        // The count goes round.
        self.waited_us.fetch_add((waited_ns / 1_000).max(1) as u32, Ordering::Relaxed);
    }

    /// Launches of the process that bypassed the scheduler, on whatever GPU, to within the last
    /// second; `None` if the process does not count.
    #[must_use]
    pub fn bypassed(&self) -> Option<u64> {
        self.bypassed.load(Ordering::Relaxed).checked_sub(1)
    }

    /// For the process: this many of its launches, on whatever GPU, bypassed the scheduler by now.
    pub(crate) fn set_bypassed(&self, launches: u64) {
        self.bypassed.store(launches.saturating_add(1), Ordering::Relaxed);
    }

    /// Streams with queues of levels 1, 2 and 3, on whatever GPU, as the process says, to within
    /// the last second.
    #[must_use]
    pub fn levels(&self) -> [u32; 3] {
        self.queues_at_level.each_ref().map(|streams| streams.load(Ordering::Relaxed))
    }

    /// For the process: says how many streams have queues of levels 1, 2 and 3.
    pub(crate) fn set_levels(&self, levels: [u32; 3]) {
        self.queues_at_level.iter().zip(levels).for_each(|(streams, now)| {
            streams.store(now, Ordering::Relaxed);
        });
    }

    /// For the process: opens a gate of this page, the only one of it that is used, until
    /// [`PageHeader::close_after_call`].
    pub fn open_for_call(&self, gate: &AtomicU32) {
        self.handshake(std::iter::once(gate)).begin_call();
    }

    /// For the process: closes the gate for those that hold it by now.
    pub fn close_after_call(&self, gate: &AtomicU32) {
        self.handshake(std::iter::once(gate)).end_call();
    }

    /// For the process: ends all holds of the only gate that is used.
    pub fn end_holds(&self, gate: &AtomicU32) {
        self.handshake(std::iter::once(gate)).release(!OWNER_BIT);
    }

    pub(crate) fn handshake<'a, G: Iterator<Item = &'a AtomicU32> + Clone>(
        &self,
        gates: G,
    ) -> HoldHandshake<'_, AtomicU32, G> {
        HoldHandshake { held: &self.held, open_calls: &self.open_calls, gates }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::page::SharedPage;

    use super::*;

    #[test]
    fn a_process_says_for_how_long_it_waited_once_it_counts() {
        let page = SharedPage::create().expect("a page");
        let header = page.header();
        assert_eq!(header.waited_us(), None);
        header.count_waited(0);
        assert_eq!(header.waited_us(), Some(1), "a wait counts");
        header.count_waited(3_999);
        assert_eq!(header.waited_us(), Some(4));
    }

    #[test]
    fn a_rank_that_makes_no_sense_has_all_be_scheduled() {
        let page = SharedPage::create().expect("a page");
        let header = page.header();
        assert_eq!(header.rank(), NodeRank::Alone);
        for rank in [NodeRank::Contended, NodeRank::Highest, NodeRank::Outranked, NodeRank::Alone] {
            header.set_rank(rank);
            assert_eq!(header.rank(), rank);
        }
        header.rank.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(header.rank(), NodeRank::Contended);
    }
}
