//! Memory that the device may touch.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

use crate::code::{
    Answer, HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE,
    OUT_OF_MEMORY,
};

/// Blocks have pages of their own, as a driver's have.
const PAGE: usize = 4_096;
/// Byte that fills fresh memory, so that no program relies on zeros.
const FRESH: u8 = 0xa5;

/// Kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The device's.
    Device,
    /// The host's, which the device may touch.
    Host,
    /// Words that streams wait for.
    Signal,
    /// Moves between them.
    Managed,
    /// The program's own.
    Registered,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: usize,
    kind: Kind,
}

/// All blocks, by their addresses.
#[derive(Debug, Default)]
pub struct Memory(Mutex<BTreeMap<usize, Block>>);

impl Memory {
    fn with<R>(&self, body: impl FnOnce(&mut BTreeMap<usize, Block>) -> R) -> R {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a block.
    ///
    /// # Errors
    /// If there is none.
    pub fn allocate(&self, bytes: usize, kind: Kind) -> Answer<usize> {
        if bytes == 0 {
            return Ok(0);
        }
        let layout = layout(bytes).ok_or(OUT_OF_MEMORY)?;
        // SAFETY: the size is not 0.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        // SAFETY: this many bytes were just allocated.
        unsafe { ptr::write_bytes(start, FRESH, bytes) };
        let start = start.expose_provenance();
        self.with(|blocks| blocks.insert(start, Block { bytes, kind }));
        Ok(start)
    }

    /// True if a block of one of these kinds starts there.
    pub fn starts(&self, start: usize, kinds: &[Kind]) -> bool {
        self.with(|blocks| blocks.get(&start).is_some_and(|block| kinds.contains(&block.kind)))
    }

    /// Gives a block back that starts there and is of one of these kinds. The device is done with
    /// it.
    ///
    /// # Errors
    /// If there is none.
    pub fn free(&self, start: usize, kinds: &[Kind]) -> Answer {
        let block = self.with(|blocks| {
            let fits = blocks.get(&start).is_some_and(|block| kinds.contains(&block.kind));
            fits.then(|| blocks.remove(&start)).flatten()
        });
        let Block { bytes, .. } = block.ok_or(INVALID_VALUE)?;
        let layout = layout(bytes).ok_or(INVALID_VALUE)?;
        // SAFETY: it was allocated with this layout, and was in the table until now.
        unsafe { dealloc(ptr::with_exposed_provenance_mut(start), layout) };
        Ok(())
    }

    /// Lets the device touch the program's own memory.
    ///
    /// # Errors
    /// If it may already, or there are no bytes.
    pub fn register(&self, start: usize, bytes: usize) -> Answer {
        if start == 0 || bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let block = Block { bytes, kind: Kind::Registered };
        self.with(|blocks| {
            if overlap(blocks, start, bytes) {
                return Err(HOST_MEMORY_ALREADY_REGISTERED);
            }
            blocks.insert(start, block);
            Ok(())
        })
    }

    /// Ends that.
    ///
    /// # Errors
    /// If no block that was registered starts there.
    pub fn unregister(&self, start: usize) -> Answer {
        let remove = |blocks: &mut BTreeMap<usize, Block>| {
            let registered = |block: &Block| block.kind == Kind::Registered;
            blocks.get(&start).is_some_and(registered).then(|| blocks.remove(&start))
        };
        self.with(remove).map(drop).ok_or(HOST_MEMORY_NOT_REGISTERED)
    }

    /// The kind of the block that these bytes are in, if they are in one.
    pub fn kind(&self, start: usize, bytes: usize) -> Option<Kind> {
        let end = start.checked_add(bytes)?;
        let (first, size, kind) = self.block(start)?;
        (end <= first + size).then_some(kind)
    }

    /// The block that an address is in, if it is in one: its start, its bytes and its kind.
    pub fn block(&self, address: usize) -> Option<(usize, usize, Kind)> {
        self.with(|blocks| {
            let (first, block) = blocks.range(..=address).next_back()?;
            (address <= first + block.bytes).then_some((*first, block.bytes, block.kind))
        })
    }

    /// How many bytes of a kind there are.
    pub fn total(&self, kind: Kind) -> usize {
        self.with(|blocks| {
            blocks.values().filter(|block| block.kind == kind).map(|block| block.bytes).sum()
        })
    }
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_next_multiple_of(PAGE)?, PAGE).ok()
}

fn overlap(blocks: &BTreeMap<usize, Block>, start: usize, bytes: usize) -> bool {
    let before = blocks.range(..start.saturating_add(bytes)).next_back();
    before.is_some_and(|(first, block)| first + block.bytes > start)
}

/// A place in memory.
#[must_use]
pub const fn pointer(address: usize) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address)
}

/// A word that streams wait for.
#[must_use]
pub fn word32(address: usize) -> &'static AtomicU32 {
    let word: *const AtomicU32 = ptr::with_exposed_provenance(address);
    // SAFETY: the launch found it in the table, aligned, and freeing waits for what was launched;
    // no caller keeps the answer for longer. Other threads write to the memory atomically.
    unsafe { &*word }
}

/// A word of 8 bytes that streams wait for.
#[must_use]
pub fn word64(address: usize) -> &'static AtomicU64 {
    let word: *const AtomicU64 = ptr::with_exposed_provenance(address);
    // SAFETY: as for `word32`.
    unsafe { &*word }
}
