//! Pages of gate words that processes share, so that a scheduler in one can close the gates of
//! another's streams with one store.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::api::FlagMemory;

/// A word has a cache line of its own.
const STRIDE: usize = 64;
const BYTES: usize = 4_096;

/// Words of a page.
pub const SHARED_WORDS: usize = BYTES / STRIDE;

/// A page of words in a file that several processes have mapped, best below `/dev/shm`.
///
/// The process that owns a stream lets its device wait for a word
/// ([`crate::StreamDevice::share`], [`crate::StreamConfig::in_page`]). Any process that has the
/// file may close the gate ([`SharedPage::close`]) and open it. Bit 0 of a word is the owner's own.
/// Whoever closes a gate for longer than a moment says now and then that it is alive
/// ([`SharedPage::alive`]): after a lease of silence the owner opens it.
#[derive(Debug)]
pub struct SharedPage {
    at: NonNull<AtomicU32>,
}

// SAFETY: the mapping lives as long as this does, and is touched by atomic operations only.
unsafe impl Send for SharedPage {}
// SAFETY: see above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Makes a new page in a new file, that only this user may open. All words are zero.
    ///
    /// # Errors
    /// If there is such a file already, or the system refuses.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
        file.set_len(BYTES as u64)?;
        Self::map(&file)
    }

    /// Opens a page that another process has made.
    ///
    /// # Errors
    /// If there is no such file, it is too short, or the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() < BYTES as u64 {
            let why = format!("a page of gate words has {BYTES} bytes, and this file has fewer");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Self::map(&file)
    }

    fn map(file: &File) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping where the system likes, so nothing else is there.
        let at = unsafe { mmap(std::ptr::null_mut(), BYTES, protection, flags, file, 0) }?;
        let at = NonNull::new(at.cast());
        Ok(Self { at: at.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))? })
    }

    pub(crate) const fn memory(&self) -> (NonNull<AtomicU32>, usize) {
        (self.at, BYTES)
    }

    fn part(&self, word: usize, part: usize) -> &AtomicU32 {
        let at = (word % SHARED_WORDS) * STRIDE + part * size_of::<u32>();
        // SAFETY: within the page, which lives as long as `self`, and aligned.
        unsafe { self.at.byte_add(at).as_ref() }
    }

    /// A word. Counted from 0; a number beyond [`SHARED_WORDS`] begins anew.
    #[must_use]
    pub fn word(&self, word: usize) -> &AtomicU32 {
        self.part(word, 0)
    }

    /// Closes a gate for a holder, 1 to 31, whose bit is set: what was launched and has not started
    /// waits. Others' bits stay.
    pub fn close(&self, word: usize, holder: Holder) {
        self.alive(word);
        self.word(word).fetch_or(holder.bit(), Ordering::SeqCst);
    }

    /// Opens a gate, as far as this holder is concerned.
    pub fn release(&self, word: usize, holder: Holder) {
        self.word(word).fetch_and(!holder.bit(), Ordering::SeqCst);
    }

    /// Says that whoever holds this gate is alive.
    pub fn alive(&self, word: usize) {
        self.part(word, BEAT).fetch_add(1, Ordering::Relaxed);
    }
}

/// Where in a word's line the holders say that they are alive, in words.
pub(crate) const BEAT: usize = 1;

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; references to its words do not outlive `self`, and a device that
        // looks at it keeps it. Nothing depends on the answer.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), BYTES) };
    }
}

/// Who closes a gate from another process: 1 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(u8);

impl Holder {
    /// A holder with this number, if it is 1 to 31.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number < 32 { Some(Self(number)) } else { None }
    }

    const fn bit(self) -> u32 {
        1 << self.0
    }
}

/// A shared page as a device sees it.
#[derive(Clone, Debug)]
pub struct SharedGates {
    page: Arc<SharedPage>,
    memory: FlagMemory,
    taken: Arc<AtomicU64>,
}

impl SharedGates {
    pub(crate) fn new(page: Arc<SharedPage>, memory: FlagMemory) -> Self {
        Self { page, memory, taken: Arc::new(AtomicU64::new(0)) }
    }

    /// The page.
    #[must_use]
    pub fn page(&self) -> &SharedPage {
        &self.page
    }

    /// A word of it for a queue's gate. `None` if there is no such word, or a queue had it before.
    #[must_use]
    pub fn take(&self, word: usize) -> Option<SharedGate> {
        if word >= SHARED_WORDS {
            return None;
        }
        let bit = 1_u64 << word;
        let before = self.taken.fetch_or(bit, Ordering::AcqRel);
        let at = word * STRIDE;
        // SAFETY: within the page.
        let host = unsafe { self.memory.host.byte_add(at) };
        let memory = FlagMemory { host, device: self.memory.device + at as u64, bytes: STRIDE };
        (before & bit == 0).then_some(SharedGate(memory))
    }
}

/// A word in a shared page, for one queue.
#[derive(Debug)]
pub struct SharedGate(FlagMemory);

impl SharedGate {
    pub(crate) const fn word(self) -> FlagMemory {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_the_same_words() {
        let path = std::env::temp_dir().join(format!("xsched-page-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let one = SharedPage::create(&path).unwrap();
        assert_eq!(SharedPage::create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let other = SharedPage::open(&path).unwrap();
        let holder = Holder::new(3).unwrap();
        one.close(5, holder);
        assert_eq!(other.word(5).load(Ordering::SeqCst), 8);
        assert_eq!(other.word(4).load(Ordering::SeqCst), 0);
        other.release(5, holder);
        assert_eq!(one.word(5).load(Ordering::SeqCst), 0);
        assert_eq!(one.part(5, BEAT).load(Ordering::SeqCst), 1);
        std::fs::write(&path, "short").unwrap();
        assert_eq!(SharedPage::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_owners_bit_is_nobody_elses() {
        assert_eq!([0, 32, 255].map(Holder::new), [None; 3]);
        assert_eq!([1, 31].map(|n| Holder::new(n).map(Holder::bit)), [Some(2), Some(1 << 31)]);
    }
}
