//! The ready queues of a device, in the order of a key.
//!
//! Those that wait are in a heap, and those that were chosen to run in a list.
//! The heap is a pairing heap: looking at the best is constant, inserting too, and taking one out
//! takes the logarithm of their number on average.
//!
//! Both run through the state that the table keeps for the policy, so there is no memory to run out
//! of. Links are places in the table plus one: a zeroed state is an empty set.

use xsched_core::id::{DeviceId, QueueId};
use xsched_core::policy::{
    Changed, DEVICE_WORDS, Decisions, Field, PolicyState, QUEUE_WORDS, QueueInfo, QueueTable,
    StateCell, Verdict, policy_state,
};
use xsched_core::time::{Duration, Instant};

use crate::engine::{HOLD, each_changed};

/// Where a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The queue is not ready, as far as the policy knows.
    Out,
    /// The queue is ready and waits to be chosen.
    Waiting,
    /// The queue was chosen.
    Chosen,
    /// The queue is not ready, and held all the same.
    Parked,
}

/// Key that queues are ordered by: the class first. Lower comes before higher.
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

/// A place in the table plus one; 0 is none.
type Link = u32;

impl Field for Place {
    const BITS: u32 = 2;

    #[inline]
    fn to_bits(self) -> u64 {
        self as u64
    }

    #[inline]
    fn from_bits(bits: u64) -> Self {
        match bits {
            1 => Self::Waiting,
            2 => Self::Chosen,
            3 => Self::Parked,
            _ => Self::Out,
        }
    }
}

/// A class of a [`Key`].
#[derive(Clone, Copy, Debug)]
struct Class(u16);

impl Field for Class {
    const BITS: u32 = 10;

    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(self.0)
    }

    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self(bits as u16)
    }
}

/// A number below 2^20.
#[derive(Clone, Copy, Debug)]
struct Tag(u32);

impl Field for Tag {
    const BITS: u32 = 20;

    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(self.0)
    }

    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
}

policy_state! {
    /// State of a queue.
    struct Node {
        /// Key of the queue, with `class`.
        within: u64,
        /// The first of those below it in the heap.
        child: Link,
        /// The next one below the same parent, or in the list.
        next: Link,
        /// The parent if it is the first child; otherwise the one before.
        previous: Link,
        place: Place,
        tag: Tag,
        class: Class,
        /// Usage of the queue, in the unit of the policy.
        used: u64,
        /// Since when it waits.
        since: Instant,
    }
}

policy_state! {
    /// Where the heap and the lists of a device begin.
    struct Heads {
        /// The best of those that wait.
        root: Link,
        /// The latest of those that were chosen.
        chosen: Link,
        chosen_count: u32,
        /// The latest of those that were parked.
        parked: Link,
    }
}

policy_state! {
    /// The turn of a queue that has waited for too long: see [`crate::ageing`].
    pub(crate) struct AgedTurn {
        /// When it began; zero if there is none.
        pub(crate) started: Instant,
        /// The device time that it has used.
        pub(crate) used: Duration,
        /// Until when the ordinary order holds.
        pub(crate) rest: Instant,
        /// When to look for such a queue again.
        pub(crate) look: Instant,
    }
}

impl Heads {
    /// The list of those that are parked or chosen.
    fn list(&mut self, place: Place) -> &mut Link {
        if place == Place::Parked { &mut self.parked } else { &mut self.chosen }
    }
}

/// State of a device: `D` is the policy's own part.
type Device<'t, D> = StateCell<'t, (Heads, (AgedTurn, D)), DEVICE_WORDS>;

/// The ready queues of a device; see the module. `D` is what the policy remembers of the device
/// beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready<'t, D: PolicyState> {
    pub(crate) queues: QueueTable<'t>,
    pub(crate) id: DeviceId,
    device: Device<'t, D>,
}

impl<'t, D: PolicyState> Ready<'t, D> {
    /// Ready queues of a device; `None` if there is no such device.
    pub(crate) fn on(queues: &QueueTable<'t>, device: DeviceId) -> Option<Self> {
        Some(Self { queues: *queues, id: device, device: queues.device_state(device)? })
    }

    /// Ready queues of each device.
    pub(crate) fn on_all(queues: &QueueTable<'t>) -> impl Iterator<Item = Self> + use<'t, D> {
        let queues = *queues;
        queues.devices().filter_map(move |device| Self::on(&queues, device))
    }

    /// Looks at each queue that may have changed and is still there, with those of its device: see
    /// [`each_changed`].
    pub(crate) fn each_changed(
        changed: Changed<'_>,
        queues: &QueueTable<'t>,
        mut follow: impl FnMut(&QueueInfo, &Self),
    ) {
        each_changed(changed, queues, |info| {
            Self::on(queues, info.device).iter().for_each(|ready| follow(info, ready));
        });
    }

    fn info(&self, link: Link) -> Option<&'t QueueInfo> {
        self.queues.at((link as usize).checked_sub(1)?)
    }

    fn cell(&self, link: Link) -> Option<StateCell<'t, Node, QUEUE_WORDS>> {
        self.queues.state_at((link as usize).checked_sub(1)?)
    }

    fn get(&self, link: Link) -> Node {
        self.cell(link).map_or_else(Node::zeroed, |cell| cell.get())
    }

    fn set(&self, link: Link, change: impl FnOnce(&mut Node)) {
        if let Some(cell) = self.cell(link) {
            cell.update(change);
        }
    }

    fn heads(&self) -> Heads {
        self.device.get().0
    }

    fn set_heads(&self, change: impl FnOnce(&mut Heads)) {
        self.device.update(|(heads, _)| change(heads));
    }

    fn set_next(&self, link: Link, next: Link) {
        self.set(link, |node| node.next = next);
    }

    fn set_previous(&self, link: Link, previous: Link) {
        self.set(link, |node| node.previous = previous);
    }

    fn key_of(&self, link: Link) -> Key {
        let node = self.get(link);
        Key { class: node.class.0, within: node.within }
    }

    fn set_root(&self, root: Link) {
        self.set_heads(|heads| heads.root = root);
        self.set_previous(root, 0);
    }

    fn link(queue: QueueId) -> Link {
        queue.index() as u32 + 1
    }

    /// Returns the policy's state of the device.
    pub(crate) fn state(&self) -> D {
        self.device.get().1.1
    }

    /// Changes some of that.
    pub(crate) fn update(&self, change: impl FnOnce(&mut D)) {
        self.device.update(|(_, (_, own))| change(own));
    }

    /// The turn of a queue that has waited for too long.
    pub(crate) fn aged_turn(&self) -> AgedTurn {
        self.device.get().1.0
    }

    /// Changes some of it.
    pub(crate) fn update_aged_turn(&self, change: impl FnOnce(&mut AgedTurn)) {
        self.device.update(|(_, (turn, _))| change(turn));
    }

    /// A number that a queue carries, below 2^20: a weight, or a level.
    pub(crate) fn tag(&self, queue: QueueId) -> u32 {
        self.get(Self::link(queue)).tag.0
    }

    /// Sets it.
    pub(crate) fn set_tag(&self, queue: QueueId, tag: u32) {
        self.set(Self::link(queue), |node| node.tag = Tag(tag));
    }

    /// Returns a queue's usage, in the unit of the policy.
    pub(crate) fn used(&self, queue: QueueId) -> u64 {
        self.get(Self::link(queue)).used
    }

    /// Sets it.
    pub(crate) fn set_used(&self, queue: QueueId, used: u64) {
        self.set(Self::link(queue), |node| node.used = used);
    }

    /// Since when a queue waits.
    pub(crate) fn since(&self, queue: QueueId) -> Instant {
        self.get(Self::link(queue)).since
    }

    /// Sets it.
    pub(crate) fn set_since(&self, queue: QueueId, since: Instant) {
        self.set(Self::link(queue), |node| node.since = since);
    }

    /// Where a queue is.
    pub(crate) fn place(&self, queue: QueueId) -> Place {
        self.get(Self::link(queue)).place
    }

    /// The key that a queue came in with. It keeps it when it goes.
    pub(crate) fn key(&self, queue: QueueId) -> Key {
        self.key_of(Self::link(queue))
    }

    /// How many are chosen.
    pub(crate) fn chosen_count(&self) -> u32 {
        self.heads().chosen_count
    }

    /// Queues that are chosen, the latest first.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = QueueId> + use<'t, D> {
        let this = *self;
        let known = move |link: Link| this.info(link).map(|info| (link, info.id));
        let next = move |link: Link| known(this.get(link).next);
        core::iter::successors(known(self.heads().chosen), move |(link, _)| next(*link))
            .map(|(_, id)| id)
    }

    /// The one with the lowest key that waits, and the key.
    pub(crate) fn best(&self) -> Option<(QueueId, Key)> {
        let root = self.heads().root;
        self.info(root).map(|info| (info.id, self.key_of(root)))
    }

    /// Puts a queue among those that wait. It must be out.
    pub(crate) fn insert(&self, queue: QueueId, key: Key) {
        let link = Self::link(queue);
        let class = Class(key.class.min(Key::CLASS_MAX));
        self.set(link, |node| {
            (node.child, node.next, node.previous) = (0, 0, 0);
            (node.place, node.class, node.within) = (Place::Waiting, class, key.within);
        });
        self.set_root(self.meld(self.heads().root, link));
    }

    /// Takes a queue out, wherever it is.
    pub(crate) fn remove(&self, queue: QueueId) {
        let link = Self::link(queue);
        match self.place(queue) {
            Place::Out => return,
            Place::Waiting => self.unheap(link),
            place => self.unlist(link, place),
        }
        self.set(link, |node| node.place = Place::Out);
    }

    /// Chooses the best of those that wait.
    fn choose_best(&self) -> Option<QueueId> {
        let (queue, _) = self.best()?;
        let link = Self::link(queue);
        self.unheap(link);
        self.enlist(link, Place::Chosen);
        self.set_heads(|heads| heads.chosen_count += 1);
        Some(queue)
    }

    /// A queue has to wait, with this key.
    pub(crate) fn put_back(&self, queue: QueueId, key: Key) {
        self.remove(queue);
        self.insert(queue, key);
    }

    fn enlist(&self, link: Link, place: Place) {
        let head = *self.heads().list(place);
        self.set(link, |node| {
            (node.child, node.next, node.previous, node.place) = (0, head, 0, place);
        });
        self.set_previous(head, link);
        self.set_heads(|heads| *heads.list(place) = link);
    }

    fn unlist(&self, link: Link, place: Place) {
        let Node { previous: before, next: after, .. } = self.get(link);
        if before == 0 {
            self.set_heads(|heads| *heads.list(place) = after);
        } else {
            self.set_next(before, after);
        }
        self.set_previous(after, before);
        self.set_heads(|heads| heads.chosen_count -= u32::from(place == Place::Chosen));
    }

    /// Puts a queue that is out among the parked.
    pub(crate) fn park(&self, queue: QueueId) {
        self.enlist(Self::link(queue), Place::Parked);
    }

    /// Returns whether a queue is parked.
    pub(crate) fn any_parked(&self) -> bool {
        self.heads().parked != 0
    }

    /// Takes all of the parked out, and lets them run.
    pub(crate) fn release_parked(&self, out: &mut Decisions<'_>) {
        while let Some(QueueInfo { id, .. }) = self.info(self.heads().parked) {
            self.remove(*id);
            out.set(*id, Verdict::Run);
        }
    }

    /// Has a queue wait from now on, with this key.
    pub(crate) fn wait(&self, now: Instant, queue: QueueId, key: Key, out: &mut Decisions<'_>) {
        self.put_back(queue, key);
        self.set_since(queue, now);
        out.set(queue, HOLD);
    }

    /// Chooses the best of those that wait, and lets it run.
    pub(crate) fn run_best(&self, out: &mut Decisions<'_>) -> Option<QueueId> {
        let queue = self.choose_best()?;
        out.set(queue, Verdict::Run);
        Some(queue)
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
        let child = self.get(above).child;
        self.set(below, |node| (node.next, node.previous) = (child, above));
        self.set_previous(child, below);
        self.set(above, |node| node.child = below);
        above
    }

    fn unheap(&self, link: Link) {
        let orphans = self.meld_siblings(self.get(link).child);
        if link == self.heads().root {
            self.set_root(orphans);
            return;
        }
        let Node { previous: before, next: after, .. } = self.get(link);
        if self.get(before).child == link {
            self.set(before, |node| node.child = after);
        } else {
            self.set_next(before, after);
        }
        self.set_previous(after, before);
        self.set_root(self.meld(self.heads().root, orphans));
    }

    /// One heap of a row of siblings: pairs from left to right, then all from right to left.
    fn meld_siblings(&self, first: Link) -> Link {
        let (mut left, mut pairs) = (first, 0);
        while left != 0 {
            let right = self.get(left).next;
            let rest = if right == 0 { 0 } else { self.get(right).next };
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
            let rest = self.get(pairs).next;
            self.set_next(pairs, 0);
            heap = self.meld(heap, pairs);
            pairs = rest;
        }
        heap
    }
}
