//! The words that gates are made of, in memory that host and device share.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::agree::Agreed;
use crate::api::{FlagMemory, StreamApi};
use crate::error::StreamError;
use crate::page::{BESIDE, HEARTBEAT, HELD, OPEN, OTHERS, SPARED};
use crate::sync::OWN;
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
    /// Where it is in a page of a [`crate::PageSource`], if it is.
    place: Option<PagePlace>,
}

/// Where a word is in a page of a [`crate::PageSource`], whose words another process holds
/// together.
#[derive(Clone, Copy, Debug)]
struct PagePlace {
    /// So many bytes before it is the page's header, which has the heartbeat of all its words.
    before: u16,
    /// It is the only word of its page, and is held apart from the other gates of this process.
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
        Self { host: memory.host, device: memory.device, place: None }
    }

    /// Whether the device holds what waits for it.
    pub(crate) fn is_set(&self) -> bool {
        self.atomic().load(Ordering::Relaxed) != 0
    }

    /// What the device has written into it last.
    pub(crate) fn value(&self) -> u32 {
        self.atomic().load(Ordering::Acquire)
    }

    /// What changes with each hold of the unit, and whether it is held; `None` if it is of none.
    pub(crate) fn unit_stamp(&self) -> Option<(u32, bool)> {
        let held = self.atomic().load(Ordering::Relaxed) & !OWN != 0;
        self.place.map(|_| (self.beat().load(Ordering::Relaxed), held))
    }

    /// Where the device sees the page that it is in, if it is the only word there.
    fn page_alone(&self) -> Option<u64> {
        let place = self.place.filter(|place| place.is_alone)?;
        Some(self.device - u64::from(place.before))
    }

    /// Whether the one that holds its unit says that others run at the same time.
    pub(crate) fn runs_beside(&self) -> bool {
        self.others() & BESIDE != 0
    }

    /// Whether it says that the unit is held for no others.
    pub(crate) fn is_spared(&self) -> bool {
        self.others() & SPARED != 0
    }

    /// What it says of others; 0 if the word is of no unit.
    fn others(&self) -> u32 {
        let others = |place: PagePlace| {
            // SAFETY: so many bytes before the word is a page's header of 64 bytes, which is
            // touched by atomic operations only.
            unsafe { self.host.byte_sub(usize::from(place.before)).add(OTHERS).as_ref() }
        };
        self.place.map_or(0, |place| others(place).load(Ordering::Relaxed))
    }

    fn beat(&self) -> &AtomicU32 {
        let before = self.place.map_or(0, |place| usize::from(place.before));
        // SAFETY: flag memory has 8 bytes and more, and is touched by atomic operations only. A
        // word of a unit is so many bytes behind the begin of its memory.
        unsafe { self.host.byte_sub(before).add(HEARTBEAT).as_ref() }
    }

    /// What it and its holders agree on, if it is the only word of a page.
    fn agreed(&self) -> Option<Agreed<'_, AtomicU32, impl Iterator<Item = &AtomicU32> + Clone>> {
        let before = usize::from(self.place.filter(|place| place.is_alone)?.before);
        // SAFETY: such a page has a header of 64 bytes, so many before the word, and is touched by
        // atomic operations only.
        let header = |at| unsafe { self.host.byte_sub(before).add(at).as_ref() };
        let words = std::iter::once(self.atomic());
        Some(Agreed { held: header(HELD), open: header(OPEN), words })
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
        self.place.is_some_and(|place| !place.is_alone)
    }

    fn is_alone(&self) -> bool {
        self.place.is_some_and(|place| place.is_alone)
    }

    fn end_foreign(&self) {
        match self.agreed() {
            Some(agreed) => agreed.release(!OWN),
            None => self.clear(!OWN),
        }
    }

    fn begin_call(&self) {
        match self.agreed() {
            Some(agreed) => agreed.begin_call(),
            None => self.clear(!OWN),
        }
    }

    fn end_call(&self) {
        if let Some(agreed) = self.agreed() {
            agreed.end_call();
        }
    }

    fn foreign_heartbeat(&self) -> Option<u32> {
        if self.atomic().load(Ordering::Relaxed) & !OWN == 0 {
            return None;
        }
        Some(self.beat().load(Ordering::Relaxed))
    }
}

/// Words of a page.
fn words(page: &FlagMemory) -> usize {
    (page.bytes / STRIDE).max(1)
}

/// A word of a page, which has that many. `is_alone` is as in [`PagePlace`], if the page is of a
/// [`crate::PageSource`].
fn word_at(page: &FlagMemory, at: usize, is_alone: Option<bool>) -> FlagWord {
    let offset = at * STRIDE;
    // SAFETY: within the page: the first word, or at * STRIDE + STRIDE ≤ bytes.
    let host = unsafe { page.host.byte_add(offset) };
    let place = is_alone.map(|is_alone| PagePlace { before: offset as u16, is_alone });
    FlagWord { host, device: page.device + offset as u64, place }
}

/// The only word that is used of a page of a [`crate::PageSource`], which another process holds
/// apart from the other gates of this process.
pub(crate) fn word_alone(page: &FlagMemory) -> FlagWord {
    word_at(page, 1, Some(true))
}

/// All flag memory of a device. Words are given back when the stream has got past them; the memory
/// itself with the device.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pages: Vec<FlagMemory>,
    free: Vec<FlagWord>,
    /// Words of pages of a [`crate::PageSource`].
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

    /// Adds the words of a page of a [`crate::PageSource`], but for the first one.
    pub(crate) fn add_unit(&mut self, page: FlagMemory) {
        for at in (1..words(&page)).rev() {
            self.units.push(word_at(&page, at, Some(false)));
        }
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
        for at in (0..words(&page)).rev() {
            self.free.push(word_at(&page, at, None));
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
