//! The ready queues of a device, in the order of a key: those that wait, as a heap, and those that
//! were chosen to run, as a list. Both run through the words that the table keeps for the policy,
//! so there is no memory to run out of.
//!
//! The heap is a pairing heap: looking at the best is constant, inserting too, and taking one out
//! takes the logarithm of their number on average.
//!
//! A queue's words: what it is ordered by; the first child and the next sibling (or list member);
//! the previous one, the place, a tag and the class; one word that is the policy's own; since when
//! it waits. A device's words: the root of the heap and the head of the list; the number of those
//! chosen and the head of a list of parked ones; ten words that are the policy's own. Links are
//! stored plus one, so that zeroed words are an empty set.

use core::cell::Cell;

use xsched_core::id::{DeviceId, QueueId};
use xsched_core::policy::{DeviceData, PolicyData};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::Instant;

/// Where a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is not ready, as far as the policy knows.
    Out,
    /// It would like to run.
    Waiting,
    /// It was chosen.
    Chosen,
    /// It is not ready, and held all the same.
    Parked,
}

/// What queues are ordered by: the class first. Lower comes before higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// 0 to [`Key::CLASS_MAX`].
    pub(crate) class: u16,
    /// Within a class.
    pub(crate) within: u64,
}

impl Key {
    /// The last class.
    pub(crate) const CLASS_MAX: u16 = 1_023;
}

/// The bits of a [`Place`]; the tag is above them, and the class above that.
const PLACE: u32 = 3;
/// Bits of a tag.
const TAG_BITS: u32 = 20;
const TAG: u32 = ((1 << TAG_BITS) - 1) << 2;
const CLASS_AT: u32 = 2 + TAG_BITS;

/// The device's words whose upper halves are heads of lists.
const CHOSEN: usize = 0;
const PARKED: usize = 1;

/// A place in the table plus one; 0 is none.
type Link = u32;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready<'t> {
    queues: QueueTable<'t>,
    words: &'t Cell<DeviceData>,
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Changes the words of a queue or of a device.
pub(crate) fn update<W: Copy>(cell: &Cell<W>, change: impl FnOnce(&mut W)) {
    let mut words = cell.get();
    change(&mut words);
    cell.set(words);
}

impl<'t> Ready<'t> {
    /// Those of a device; `None` if there is no such device.
    pub(crate) fn on(queues: &QueueTable<'t>, device: DeviceId) -> Option<Self> {
        Some(Self { queues: *queues, words: queues.device_data(device)? })
    }

    fn info(&self, link: Link) -> Option<&'t QueueInfo> {
        self.queues.at((link as usize).checked_sub(1)?)
    }

    fn cell(&self, link: Link) -> Option<&'t Cell<PolicyData>> {
        self.queues.data_at((link as usize).checked_sub(1)?)
    }

    fn get(&self, link: Link) -> PolicyData {
        self.cell(link).map_or([0; 5], Cell::get)
    }

    fn set(&self, link: Link, change: impl FnOnce(&mut PolicyData)) {
        if let Some(cell) = self.cell(link) {
            update(cell, change);
        }
    }

    fn child(&self, link: Link) -> Link {
        halves(self.get(link)[1]).0
    }

    fn next(&self, link: Link) -> Link {
        halves(self.get(link)[1]).1
    }

    fn previous(&self, link: Link) -> Link {
        halves(self.get(link)[2]).0
    }

    fn set_child(&self, link: Link, child: Link) {
        self.set(link, |words| words[1] = joined(child, halves(words[1]).1));
    }

    fn set_next(&self, link: Link, next: Link) {
        self.set(link, |words| words[1] = joined(halves(words[1]).0, next));
    }

    fn set_previous(&self, link: Link, previous: Link) {
        self.set(link, |words| words[2] = joined(previous, halves(words[2]).1));
    }

    fn set_place(&self, link: Link, place: Place) {
        self.set(link, |words| {
            let (previous, rest) = halves(words[2]);
            words[2] = joined(previous, rest & !PLACE | place as u32);
        });
    }

    /// A number that a queue carries, below 2^20.
    pub(crate) fn tag(&self, queue: QueueId) -> u32 {
        (halves(self.get(Self::link(queue))[2]).1 & TAG) >> 2
    }

    /// Sets it.
    pub(crate) fn set_tag(&self, queue: QueueId, tag: u32) {
        self.set(Self::link(queue), |words| {
            let (previous, rest) = halves(words[2]);
            words[2] = joined(previous, rest & !TAG | tag << 2 & TAG);
        });
    }

    fn set_key(&self, link: Link, key: Key) {
        self.set(link, |words| {
            let (previous, rest) = halves(words[2]);
            let class = u32::from(key.class.min(Key::CLASS_MAX)) << CLASS_AT;
            words[0] = key.within;
            words[2] = joined(previous, rest & (PLACE | TAG) | class);
        });
    }

    fn key_of(&self, link: Link) -> Key {
        let words = self.get(link);
        Key { class: (halves(words[2]).1 >> CLASS_AT) as u16, within: words[0] }
    }

    fn root(&self) -> Link {
        halves(self.words.get()[0]).0
    }

    fn set_root(&self, root: Link) {
        update(self.words, |words| words[0] = joined(root, halves(words[0]).1));
        self.set_previous(root, 0);
    }

    fn head(&self, list: usize) -> Link {
        halves(self.words.get()[list]).1
    }

    fn set_head(&self, list: usize, head: Link) {
        update(self.words, |words| words[list] = joined(halves(words[list]).0, head));
    }

    fn enlist(&self, link: Link, list: usize, place: Place) {
        let head = self.head(list);
        self.set(link, |words| words[1] = joined(0, head));
        self.set_previous(link, 0);
        self.set_place(link, place);
        self.set_previous(head, link);
        self.set_head(list, link);
    }

    fn link(queue: QueueId) -> Link {
        queue.index() as u32 + 1
    }

    /// The device's words; the first two are taken.
    pub(crate) const fn words(&self) -> &'t Cell<DeviceData> {
        self.words
    }

    /// The word of a queue that is the policy's own.
    pub(crate) fn own(&self, queue: QueueId) -> u64 {
        self.get(Self::link(queue))[3]
    }

    /// Sets it.
    pub(crate) fn set_own(&self, queue: QueueId, own: u64) {
        self.set(Self::link(queue), |words| words[3] = own);
    }

    /// Since when a queue waits.
    pub(crate) fn since(&self, queue: QueueId) -> Instant {
        Instant::from_ns(self.get(Self::link(queue))[4])
    }

    /// Sets it.
    pub(crate) fn set_since(&self, queue: QueueId, since: Instant) {
        self.set(Self::link(queue), |words| words[4] = since.as_ns());
    }

    /// Where a queue is.
    pub(crate) fn place(&self, queue: QueueId) -> Place {
        match halves(self.get(Self::link(queue))[2]).1 & PLACE {
            1 => Place::Waiting,
            2 => Place::Chosen,
            3 => Place::Parked,
            _ => Place::Out,
        }
    }

    /// The key that a queue came in with. It keeps it when it goes.
    pub(crate) fn key(&self, queue: QueueId) -> Key {
        self.key_of(Self::link(queue))
    }

    /// How many are chosen.
    pub(crate) fn chosen_count(&self) -> u32 {
        halves(self.words.get()[1]).0
    }

    fn count_chosen(&self, change: i32) {
        update(self.words, |words| {
            let (count, rest) = halves(words[1]);
            words[1] = joined(count.saturating_add_signed(change), rest);
        });
    }

    /// Those that are chosen, the latest first.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = QueueId> + use<'t> {
        let this = *self;
        let known = move |link: Link| this.info(link).map(|info| (link, info.id));
        core::iter::successors(known(self.head(CHOSEN)), move |(link, _)| known(this.next(*link)))
            .map(|(_, id)| id)
    }

    /// The one with the lowest key that waits, and the key.
    pub(crate) fn best(&self) -> Option<(QueueId, Key)> {
        let root = self.root();
        self.info(root).map(|info| (info.id, self.key_of(root)))
    }

    /// Puts a queue among those that wait. It must be out.
    pub(crate) fn insert(&self, queue: QueueId, key: Key) {
        let link = Self::link(queue);
        self.set(link, |words| words[1] = 0);
        self.set_key(link, key);
        self.set_previous(link, 0);
        self.set_place(link, Place::Waiting);
        self.set_root(self.meld(self.root(), link));
    }

    /// Takes a queue out, wherever it is.
    pub(crate) fn remove(&self, queue: QueueId) {
        let link = Self::link(queue);
        match self.place(queue) {
            Place::Out => return,
            Place::Waiting => self.unheap(link),
            Place::Chosen => self.unlist(link, CHOSEN),
            Place::Parked => self.unlist(link, PARKED),
        }
        self.set_place(link, Place::Out);
    }

    /// Chooses the best of those that wait.
    pub(crate) fn choose_best(&self) -> Option<QueueId> {
        let (queue, _) = self.best()?;
        let link = Self::link(queue);
        self.unheap(link);
        self.enlist(link, CHOSEN, Place::Chosen);
        self.count_chosen(1);
        Some(queue)
    }

    /// A queue has to wait, with this key.
    pub(crate) fn put_back(&self, queue: QueueId, key: Key) {
        self.remove(queue);
        self.insert(queue, key);
    }

    fn unlist(&self, link: Link, list: usize) {
        let (before, after) = (self.previous(link), self.next(link));
        if before == 0 {
            self.set_head(list, after);
        } else {
            self.set_next(before, after);
        }
        self.set_previous(after, before);
        if list == CHOSEN {
            self.count_chosen(-1);
        }
    }

    /// Puts a queue that is out among the parked.
    pub(crate) fn park(&self, queue: QueueId) {
        self.enlist(Self::link(queue), PARKED, Place::Parked);
    }

    /// Whether one is parked.
    pub(crate) fn any_parked(&self) -> bool {
        self.head(PARKED) != 0
    }

    /// Takes one of the parked out.
    pub(crate) fn release_parked(&self) -> Option<QueueId> {
        let id = self.info(self.head(PARKED))?.id;
        self.remove(id);
        Some(id)
    }

    /// The heap of both, without a previous one. At equal keys the first stays above.
    fn meld(&self, first: Link, second: Link) -> Link {
        if first == 0 || second == 0 {
            return first | second;
        }
        let (above, below) = if self.key_of(second) < self.key_of(first) {
            (second, first)
        } else {
            (first, second)
        };
        let child = self.child(above);
        self.set_next(below, child);
        self.set_previous(below, above);
        self.set_previous(child, below);
        self.set_child(above, below);
        above
    }

    fn unheap(&self, link: Link) {
        let orphans = self.meld_siblings(self.child(link));
        if link == self.root() {
            self.set_root(orphans);
            return;
        }
        let (before, after) = (self.previous(link), self.next(link));
        if self.child(before) == link {
            self.set_child(before, after);
        } else {
            self.set_next(before, after);
        }
        self.set_previous(after, before);
        self.set_root(self.meld(self.root(), orphans));
    }

    /// One heap of a row of siblings: pairs from left to right, then all from right to left.
    fn meld_siblings(&self, first: Link) -> Link {
        let (mut left, mut pairs) = (first, 0);
        while left != 0 {
            let right = self.next(left);
            let rest = if right == 0 { 0 } else { self.next(right) };
            self.set_next(left, 0);
            self.set_next(right, 0);
            let pair = self.meld(left, right);
            // The last pair becomes the first of the row to come.
            self.set_next(pair, pairs);
            pairs = pair;
            left = rest;
        }
        let mut heap = 0;
        while pairs != 0 {
            let rest = self.next(pairs);
            self.set_next(pairs, 0);
            heap = self.meld(heap, pairs);
            pairs = rest;
        }
        heap
    }
}
