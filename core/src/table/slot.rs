//! The slots of the table: one for each queue, each device and each wait.

use core::cell::Cell;

use crate::cost::{CostModel, Measured};
use crate::hint::{Hints, Priority};
use crate::id::{CmdId, DeviceId, EventRef, ProcessId, QueueId};
use crate::level::{Level, LevelChoice};
use crate::message::{Claim, Report};
use crate::scheduler::floor::Arrears;
use crate::table::state::{DEVICE_WORDS, QUEUE_WORDS};
use crate::table::verdict::{Urgency, Verdict};
use crate::time::{Duration, Instant};

/// "No index" in the intrusive lists.
pub(crate) const NONE: u32 = u32::MAX;
/// End of an intrusive list whose members must be distinguishable from non-members.
pub(crate) const END: u32 = u32::MAX - 1;

const RANKS: usize = 512;
const WORDS: usize = RANKS / 64;

/// Information about a queue, as policies see it.
// In memory in this order, for the reason given at `QueueSlot`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QueueInfo {
    /// Number of the queue.
    pub id: QueueId,
    /// The process that owns it.
    pub process: ProcessId,
    /// The device it is on.
    pub device: DeviceId,
    /// True if the queue has work that it could run if it were let: something is submitted, no user
    /// hold is in effect, and what it waits for (if anything) can itself make progress.
    pub ready: bool,
    /// True if the queue may run now, by its own right or by inheritance.
    pub running: bool,
    /// Hints of users about the queue.
    pub hints: Hints,
    /// The depth of the hold that is in effect, once acknowledged.
    pub held: Option<Level>,
    /// True after the queue has held others and retired nothing for the stall time: until it
    /// retires something it is not ready, and runs.
    pub passed_over: bool,
    // Here they cost nothing.
    pub(crate) context_permille: u16,
    pub(crate) threshold: u32,
    /// Latest report of the queue.
    pub report: Report,
}

impl QueueInfo {
    /// Returns whether it is held and has commands in flight, which may have the device.
    pub(crate) const fn drains(&self) -> bool {
        !self.running && self.report.launched > self.report.retired
    }
}

impl Default for QueueInfo {
    fn default() -> Self {
        Self {
            id: QueueId::new(0, 0),
            device: DeviceId(0),
            process: ProcessId(0),
            hints: Hints::default(),
            ready: false,
            running: true,
            held: None,
            passed_over: false,
            context_permille: 1_000,
            threshold: 1,
            report: Report::default(),
        }
    }
}

/// Progress of a queue that may run while others are held.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// When it entered its state, or was passed over.
    pub(crate) since: Instant,
    pub(crate) state: ProgressState,
    /// For how long it ran and retired nothing before it was held, since `ran_from`.
    pub(crate) ran: Duration,
    pub(crate) ran_from: Instant,
    /// When it was held last.
    pub(crate) held_from: Instant,
    /// The stall time is halved this often for it.
    pub(crate) halvings: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProgressState {
    /// Not looked at yet, or not in question.
    #[default]
    Unwatched,
    /// The queue was asked what it has retired by now.
    Asked,
    /// The queue has retired nothing since it answered.
    Watched,
    /// The queue has retired something since then.
    GoneOn,
    /// The queue is held, and what it had in flight has stopped.
    Stopped,
}

impl Progress {
    /// From now on it is in this state.
    pub(crate) const fn enter(&mut self, state: ProgressState, now: Instant) {
        self.state = state;
        self.since = now;
    }

    /// For how long it has been in its state.
    pub(crate) const fn lasts(self, now: Instant) -> Duration {
        now.since(self.since)
    }
}

/// Storage for one queue of a scheduler's table. Start from [`QueueSlot::default`].
// In memory in this order: what a change of the floor and an order look at comes first, as they
// look at many queues, and then fits into two cache lines of each.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct QueueSlot {
    pub(crate) bucket_next: u32,
    pub(crate) bucket_prev: u32,
    pub(crate) dirty_next: u32,
    /// First of the queues that wait for events of this one.
    pub(crate) waiters: u32,
    pub(crate) waiter_next: u32,
    pub(crate) epoch: u32,
    pub(crate) touch_next: Cell<u32>,
    pub(crate) work_next: u32,
    pub(crate) live: bool,
    pub(crate) dirty: u8,
    pub(crate) changed: bool,
    pub(crate) exact_level: bool,
    pub(crate) level: Level,
    /// The hold that was last ordered, if the last verdict was a hold.
    pub(crate) ordered: Option<Level>,
    /// A hold has been observed, and no resuming since.
    pub(crate) stopped: bool,
    /// The answer to a wait, until it is ordered.
    pub(crate) reached_ok: Option<bool>,
    pub(crate) verdict: Cell<Verdict>,
    /// The event that the queue's next command waits for, while it is not reached.
    pub(crate) target: Option<EventRef>,
    pub(crate) info: QueueInfo,

    /// The event of the answer in `reached_ok`.
    pub(crate) reached: EventRef,
    pub(crate) watching: u64,
    /// Scratch of the deadlock search.
    pub(crate) reach: u64,
    /// One past the last command of the queue that was ever in a wait: that waited or was awaited.
    pub(crate) in_waits: u64,
    /// The state that the policy in charge keeps for the queue.
    pub(crate) words: Cell<[u64; QUEUE_WORDS]>,
    /// Bits of other queues: see `bits`. They stay when the slot changes hands.
    pub(crate) ready_bits: u32,
    pub(crate) changed_bits: u32,
    pub(crate) progress: Progress,
    /// Device time when that of lower priorities was summed up last.
    pub(crate) busy_seen: Duration,
}

impl Default for QueueSlot {
    fn default() -> Self {
        Self {
            info: QueueInfo::default(),
            live: false,
            words: Cell::new([0; QUEUE_WORDS]),
            verdict: Cell::new(Verdict::Run),
            touch_next: Cell::new(NONE),
            level: Level::Block,
            exact_level: true,
            epoch: 0,
            ordered: None,
            stopped: false,
            dirty: 0,
            dirty_next: NONE,
            changed: false,
            bucket_next: NONE,
            bucket_prev: NONE,
            target: None,
            waiter_next: NONE,
            waiters: NONE,
            reached: EventRef { queue: QueueId::new(0, 0), cmd: CmdId(0) },
            reached_ok: None,
            watching: 0,
            progress: Progress::default(),
            busy_seen: Duration::ZERO,
            work_next: NONE,
            reach: 0,
            in_waits: 0,
            ready_bits: 0,
            changed_bits: 0,
        }
    }
}

impl QueueSlot {
    pub(crate) fn is(&self, queue: QueueId) -> bool {
        self.live && self.info.id == queue
    }

    pub(crate) const fn level_choice(&self) -> LevelChoice {
        if self.exact_level {
            LevelChoice::Exactly(self.level)
        } else {
            LevelChoice::UpTo(self.level)
        }
    }
}

/// Storage for one device: which queues it has at which priority, and which of them are ready.
/// Start from [`DeviceSlot::default`].
#[derive(Clone, Debug)]
pub struct DeviceSlot {
    heads: [u32; RANKS],
    any: [u64; WORDS],
    ready: [u32; RANKS],
    any_ready: [u64; WORDS],
    /// Ready queues that claim little of the device.
    modest: [u32; RANKS],
    pub(crate) floor: u16,
    pub(crate) floor_wanted: Cell<u16>,
    pub(crate) floor_urgency: Cell<Urgency>,
    pub(crate) floor_next: Cell<u32>,
    pub(crate) changed: bool,
    /// A queue of it is held that has work, or even commands in flight.
    pub(crate) is_contended: bool,
    pub(crate) is_drained: bool,
    /// Held queues of it that were asked in this check.
    pub(crate) asked: u32,
    /// When a queue of it was last seen to go on, or to be about to stop.
    pub(crate) went_on: Instant,
    /// Since when the queue with work has been held that has been so for longest.
    pub(crate) held_from: Option<Instant>,
    pub(crate) arrears: Arrears,
    /// Queues that need orders: the first, the last of the ready ones, which come first, and the
    /// last.
    pub(crate) dirty_head: u32,
    pub(crate) dirty_ready: u32,
    pub(crate) dirty_tail: u32,
    /// The next device with such queues.
    pub(crate) dirty_next: u32,
    pub(crate) cost: CostModel,
    pub(crate) measured: Measured,
    /// The decision with which a hold at Lv3 was last ordered.
    pub(crate) interrupted_in: u64,
    /// The last order to hold at Lv3, and the last that ended such a hold: for which queue, which
    /// epoch, and when. One of each is enough, since what is ordered together takes as long.
    pub(crate) timed: [Option<(QueueId, u32, Instant)>; 2],
    /// The state that the policy in charge keeps for the device.
    pub(crate) words: Cell<[u64; DEVICE_WORDS]>,
}

impl Default for DeviceSlot {
    fn default() -> Self {
        Self {
            heads: [NONE; RANKS],
            any: [0; WORDS],
            ready: [0; RANKS],
            any_ready: [0; WORDS],
            modest: [0; RANKS],
            floor: 0,
            floor_wanted: Cell::new(0),
            floor_urgency: Cell::new(Urgency::NOW),
            floor_next: Cell::new(NONE),
            changed: false,
            is_contended: false,
            is_drained: true,
            asked: 0,
            went_on: Instant::ZERO,
            held_from: None,
            arrears: Arrears::default(),
            dirty_head: END,
            dirty_ready: END,
            dirty_tail: END,
            dirty_next: NONE,
            cost: CostModel::default(),
            measured: Measured::default(),
            interrupted_in: 0,
            timed: [None; 2],
            words: Cell::new([0; DEVICE_WORDS]),
        }
    }
}

impl DeviceSlot {
    pub(crate) fn head(&self, rank: usize) -> u32 {
        self.heads[rank]
    }

    /// Returns whether all queues of the device have the same priority.
    pub(crate) fn has_one_rank(&self) -> bool {
        self.any.iter().map(|ranks| ranks.count_ones()).sum::<u32>() <= 1
    }

    pub(crate) fn set_head(&mut self, rank: usize, head: u32) {
        self.heads[rank] = head;
        let (word, bit) = (rank / 64, 1 << (rank % 64));
        if head == NONE {
            self.any[word] &= !bit;
        } else {
            self.any[word] |= bit;
        }
    }

    pub(crate) fn count_ready(&mut self, rank: usize, claim: Claim, ready: bool) {
        let change =
            |count: u32| if ready { count.saturating_add(1) } else { count.saturating_sub(1) };
        if claim == Claim::Little {
            self.modest[rank] = change(self.modest[rank]);
        }
        let count = &mut self.ready[rank];
        *count = change(*count);
        let (word, bit) = (rank / 64, 1 << (rank % 64));
        if *count == 0 {
            self.any_ready[word] &= !bit;
        } else {
            self.any_ready[word] |= bit;
        }
    }

    /// The first non-empty rank at or above `from`.
    pub(crate) fn next_rank(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = *self.any.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.any.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    pub(crate) fn top_ready(&self) -> Option<Priority> {
        self.top_ready_below(RANKS)
    }

    /// See [`QueueTable::ready_floor`](super::QueueTable::ready_floor).
    pub(crate) fn ready_floor(&self) -> Option<Priority> {
        let top = self.top_ready()?;
        if self.modest[top.rank()] < self.ready[top.rank()] {
            return Some(top);
        }
        self.top_ready_below(top.rank()).or(Some(top))
    }

    /// The highest ready priority whose rank is below this one.
    fn top_ready_below(&self, rank: usize) -> Option<Priority> {
        let below = |word: usize| match rank.saturating_sub(word * 64) {
            0 => 0,
            bits @ 1..64 => self.any_ready[word] & ((1 << bits) - 1),
            _ => self.any_ready[word],
        };
        let word = (0..WORDS).rfind(|&word| below(word) != 0)?;
        let rank = word * 64 + 63 - below(word).leading_zeros() as usize;
        // Rank 0 is NO_EXECUTE: ready or not, it never runs.
        (rank > 0).then(|| Priority::from_rank(rank))
    }
}

/// Storage for one wait that is submitted and not over. Start from [`Edge::default`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Edge {
    pub(crate) waiter: QueueId,
    pub(crate) cmd: u64,
    pub(crate) event: Option<EventRef>,
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn what_an_order_looks_at_is_in_two_cache_lines() {
        let priority = offset_of!(QueueInfo, hints) + offset_of!(Hints, priority);
        assert!(offset_of!(QueueSlot, info) + priority + size_of::<Priority>() <= 128);
        // The last line is read where a queue's progress is checked, and by no order.
        assert_eq!((offset_of!(QueueSlot, progress), size_of::<QueueSlot>()), (320, 384));
    }

    #[test]
    fn what_a_policy_looks_at_is_in_three_cache_lines() {
        let line = |offset: usize| offset / 64;
        let info = offset_of!(QueueSlot, info);
        let hints = info + offset_of!(QueueInfo, hints);
        assert_eq!((line(info), line(hints + offset_of!(Hints, deadline) + 15)), (1, 1));
        let report = info + offset_of!(QueueInfo, report);
        assert_eq!(line(report + offset_of!(Report, ready_since)), 2);
        let end = offset_of!(QueueSlot, changed_bits) + size_of::<u32>() - 1;
        assert_eq!((line(offset_of!(QueueSlot, words)), line(end)), (4, 4));
    }
}
