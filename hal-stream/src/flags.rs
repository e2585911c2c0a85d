//! The words that gates are made of, in memory that host and device share.

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use xsched_hal_process::burst::Burst;
use xsched_node::{GATES_PER_PAGE, NodeRank, OWNER_BIT, PageGate, PageHeader, SharedPage};

use crate::api::{FlagMemory, StreamApi};
use crate::error::StreamError;
use crate::sync::Word;

/// A word has a cache line of its own, so that what one queue does does not slow the look at
/// another's down.
const STRIDE: usize = 64;
const PAGE: usize = 4_096;

/// A word in flag memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlagWord {
    host: NonNull<AtomicU32>,
    pub(crate) device: u64,
    /// The page of a [`PageSource`](xsched_node::PageSource) that it is in, if it is.
    unit: Option<UnitPage>,
    /// The device made the memory, so no other process has it.
    is_own: bool,
}

/// A page of a [`PageSource`](xsched_node::PageSource), whose gates another process holds together.
#[derive(Clone, Copy, Debug)]
struct UnitPage {
    header: NonNull<PageHeader>,
    /// The first gate is the only one that is used, and is held apart from the other gates of this
    /// process.
    is_alone: bool,
}

// SAFETY: it points to flag memory, which is touched by atomic operations only, and which is never
// given back while words of it are in use; see `Flags`.
unsafe impl Send for FlagWord {}
// SAFETY: see above.
unsafe impl Sync for FlagWord {}

impl FlagWord {
    /// The first word of flag memory.
    pub(crate) const fn first(memory: FlagMemory) -> Self {
        Self { host: memory.host, device: memory.device, unit: None, is_own: false }
    }

    /// Returns whether the device holds what waits for the word.
    pub(crate) fn is_set(&self) -> bool {
        self.atomic().load(Ordering::Relaxed) != 0
    }

    /// Returns the value that the device has written into the word last.
    pub(crate) fn value(&self) -> u32 {
        self.atomic().load(Ordering::Acquire)
    }

    /// Returns a number that changes with each hold of the unit, and whether the unit is held;
    /// `None` if the word is of none.
    pub(crate) fn unit_stamp(&self) -> Option<(u32, bool)> {
        let held = self.atomic().load(Ordering::Relaxed) & !OWNER_BIT != 0;
        self.header().map(|header| (header.heartbeat.load(Ordering::Relaxed), held))
    }

    /// Where the device sees the page that it is in, if it is the only word there.
    fn page_alone(&self) -> Option<u64> {
        self.is_alone().then(|| self.device - SharedPage::offset_of_gate(0) as u64)
    }

    /// Returns whether the holder of the word's unit says that others have the device in turns with
    /// it.
    pub(crate) fn is_time_sliced(&self) -> bool {
        self.header().is_some_and(PageHeader::is_time_sliced)
    }

    /// Returns whether the holder says that the unit is held for no others.
    pub(crate) fn is_spared(&self) -> bool {
        self.header().is_some_and(|header| header.rank() == NodeRank::Highest)
    }

    /// Holds of its unit that have ended; `None` if it is of none.
    pub(crate) fn holds_ended(&self) -> Option<u32> {
        self.header().map(|header| header.holds_ended.load(Ordering::Relaxed))
    }

    /// Names it as the word of the gate that launches within a burst look at.
    pub(crate) fn of_burst(&self, burst: &Burst) {
        // SAFETY: flag memory lives as long as words of it are in use, see `Flags`, and the queue
        // closes the burst before it gives its word back.
        unsafe { burst.set_gate(self.host.as_ptr().cast_const().cast()) };
    }

    /// Counts launches that no fence will tell of, if the word is of a unit.
    pub(crate) fn count_unseen(&self, launches: u64) {
        if let Some(header) = self.header() {
            header.retired.fetch_add(launches, Ordering::Relaxed);
        }
    }

    /// Returns whether the holder of the unit has no use for when the unit's work begins or ends.
    pub(crate) fn is_unattended(&self) -> bool {
        let wants = |header: &PageHeader| header.daemon_wants_wakeups.load(Ordering::Relaxed) != 0;
        self.header().is_some_and(|header| !wants(header))
    }

    fn header(&self) -> Option<&PageHeader> {
        // SAFETY: it is the begin of a page that is mapped as long as the word is in use, see
        // `Flags`, and that is touched by atomic operations only.
        self.unit.as_ref().map(|unit| unsafe { unit.header.as_ref() })
    }

    /// The header of its page, if it is the only word there.
    fn header_alone(&self) -> Option<&PageHeader> {
        self.header().filter(|_| self.is_alone())
    }

    fn heartbeat(&self) -> &AtomicU32 {
        let own = self.host.map_addr(|at| at.saturating_add(offset_of!(PageGate, heartbeat)));
        // SAFETY: flag memory has 8 bytes and more, and is touched by atomic operations only.
        self.header().map_or_else(|| unsafe { own.as_ref() }, |header| &header.heartbeat)
    }

    fn atomic(&self) -> &AtomicU32 {
        // SAFETY: it is part of flag memory that is alive; see `Flags`.
        unsafe { self.host.as_ref() }
    }
}

impl Word for FlagWord {
    fn set(&self, bits: u32) {
        self.atomic().fetch_or(bits, Ordering::SeqCst);
    }

    fn clear(&self, bits: u32) {
        self.atomic().fetch_and(!bits, Ordering::SeqCst);
    }

    fn is_of_unit(&self) -> bool {
        self.unit.is_some_and(|unit| !unit.is_alone)
    }

    fn is_alone(&self) -> bool {
        self.unit.is_some_and(|unit| unit.is_alone)
    }

    fn may_be_held_by_others(&self) -> bool {
        !self.is_own
    }

    fn is_hold_requested(&self) -> bool {
        let held = |header: &PageHeader| header.held.load(Ordering::Relaxed) & !OWNER_BIT != 0;
        self.foreign_heartbeat().is_some() || self.header_alone().is_some_and(held)
    }

    fn end_foreign(&self) {
        match self.header_alone() {
            Some(header) => header.end_holds(self.atomic()),
            None => self.clear(!OWNER_BIT),
        }
    }

    fn begin_call(&self) {
        match self.header_alone() {
            Some(header) => header.open_for_call(self.atomic()),
            None => self.clear(!OWNER_BIT),
        }
    }

    fn end_call(&self) {
        if let Some(header) = self.header_alone() {
            header.close_after_call(self.atomic());
        }
    }

    fn foreign_heartbeat(&self) -> Option<u32> {
        let is_held = self.atomic().load(Ordering::Relaxed) & !OWNER_BIT != 0;
        is_held.then(|| self.heartbeat().load(Ordering::Relaxed))
    }
}

/// Words of a page.
fn words(page: &FlagMemory) -> usize {
    (page.bytes / STRIDE).max(1)
}

/// A gate's word in a page of a [`PageSource`](xsched_node::PageSource).
fn gate_of(page: &FlagMemory, at: usize, is_alone: bool) -> FlagWord {
    let offset = SharedPage::offset_of_gate(at);
    // SAFETY: within the page.
    let host = unsafe { page.host.byte_add(offset) };
    let unit = Some(UnitPage { header: page.host.cast(), is_alone });
    FlagWord { host, device: page.device + offset as u64, unit, is_own: false }
}

/// The only word that is used of a page of a [`PageSource`](xsched_node::PageSource), which another
/// process holds apart from the other gates of this process.
pub(crate) fn word_alone(page: &FlagMemory) -> FlagWord {
    gate_of(page, 0, true)
}

/// All flag memory of a device. Words are given back when the stream has got past them; the memory
/// itself with the device.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pages: Vec<FlagMemory>,
    free: Vec<FlagWord>,
    /// Words of pages of a [`PageSource`](xsched_node::PageSource).
    units: Vec<FlagWord>,
    /// Where the device sees pages whose only word was given back.
    ended: Vec<u64>,
    /// Words with more than one user, by where the device sees them, and how many more there are.
    shared: Vec<(u64, u32)>,
}

impl Flags {
    /// A word of a unit that is in use nowhere.
    pub(crate) fn take_of_unit(&mut self) -> Option<FlagWord> {
        self.units.pop()
    }

    /// Adds the words of a page of a [`PageSource`](xsched_node::PageSource).
    pub(crate) fn add_unit(&mut self, page: FlagMemory) {
        self.units.extend((0..GATES_PER_PAGE).rev().map(|at| gate_of(&page, at, false)));
    }

    /// A word that is in use nowhere, and of no unit.
    pub(crate) fn take<A: StreamApi>(
        &mut self,
        api: &A,
    ) -> Result<FlagWord, StreamError<A::Error>> {
        if let Some(word) = self.free.pop() {
            return Ok(word);
        }
        // Some have words one at a time.
        let page = api.flag_memory(PAGE).or_else(|_| api.flag_memory(size_of::<u64>()));
        let page = page.map_err(StreamError::during("allocating flags"))?;
        self.pages.push(page);
        for offset in (0..words(&page)).rev().map(|at| at * STRIDE) {
            // SAFETY: within the page: its begin, or offset + STRIDE ≤ bytes.
            let host = unsafe { page.host.byte_add(offset) };
            let device = page.device + offset as u64;
            self.free.push(FlagWord { host, device, unit: None, is_own: true });
        }
        self.free.pop().ok_or(StreamError::NoFlags)
    }

    /// Counts one more user of a word, which will give it back as well.
    pub(crate) fn share(&mut self, word: FlagWord) {
        match self.shared.iter_mut().find(|(at, _)| *at == word.device) {
            Some((_, more)) => *more += 1,
            None => self.shared.push((word.device, 1)),
        }
    }

    /// Takes a word back from one of its users, on whose behalf nothing waits for it any more.
    pub(crate) fn give_back(&mut self, word: FlagWord) {
        let Some(at) = self.shared.iter().position(|(at, _)| *at == word.device) else {
            match word.page_alone() {
                Some(page) => self.ended.push(page),
                None if word.is_of_unit() => self.units.push(word),
                None => self.free.push(word),
            }
            return;
        };
        self.shared[at].1 -= 1;
        if self.shared[at].1 == 0 {
            self.shared.swap_remove(at);
        }
    }

    /// Where the device sees pages whose only word was given back since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ended)
    }

    /// Gives all memory back, if every word has been given back; otherwise leaves it to the end of
    /// the process, since the device may still look at it.
    pub(crate) fn close<A: StreamApi>(&mut self, api: &A) {
        let words: usize = self.pages.iter().map(words).sum();
        if self.free.len() < words {
            return;
        }
        self.free.clear();
        for page in self.pages.drain(..) {
            // SAFETY: from `flag_memory`, and all its words were given back.
            unsafe { api.free_flags(page) };
        }
    }
}
