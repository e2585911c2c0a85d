//! Pages of gate words that processes share.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::agree::Agreed;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstatfs, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use rustix::time::Timespec;

/// Bytes from one word to the next: each word has a cache line of its own.
pub(crate) const STRIDE: usize = 64;
/// Bytes of a page.
const BYTES: usize = 4_096;
/// Where a word's cache line holds the heartbeat of the holders, counted in words.
pub(crate) const HEARTBEAT: usize = 1;
/// Where the header of a [`PageSource`]'s page says who holds its gates.
pub(crate) const HELD: usize = 0;
/// Where it says that a call of the process has them open.
pub(crate) const OPEN: usize = 15;
/// Where its highest bit says whether others run at the same time. The rest is the holder's.
pub(crate) const OTHERS: usize = 10;
pub(crate) const BESIDE: u32 = 1 << 31;
/// The bit below says whether the process is held for none of them.
pub(crate) const SPARED: u32 = 1 << 30;

/// The file system of files in memory whose pages are ordinary ones.
const TMPFS: u64 = 0x0102_1994;

/// Words of a [`SharedPage`].
pub const SHARED_WORDS: usize = BYTES / STRIDE;

/// A page of gate words that several processes have mapped.
///
/// The process that owns a stream lets its device wait for a word
/// ([`crate::StreamDevice::share`], [`crate::StreamConfig::in_page`]). Any process that has the
/// page may close the gate ([`SharedPage::close`]) and open it. Bit 0 of a word is the owner's own.
/// A process that holds a gate for longer renews its lease ([`SharedPage::renew`]): after a lease
/// of silence the owner opens the gate.
///
/// The page is a file in memory (`memfd`) that is sealed against truncation, so no process can
/// take it away from under the others. Another process of the same user opens it by
/// [`SharedPage::path`] as long as this value lives. A process that cannot see that path, in
/// another container for example, gets the descriptor ([`AsFd`]) through a Unix socket and calls
/// [`SharedPage::from_file`].
///
/// ```
/// use xsched_hal_stream::{Holder, SharedPage};
///
/// let ours = SharedPage::create()?;
/// // In another process, which was told the path:
/// let theirs = SharedPage::open(&ours.path())?;
/// let holder = Holder::new(1).expect("1 to 31");
/// theirs.close(0, holder);
/// assert_ne!(ours.word(0).load(std::sync::atomic::Ordering::SeqCst), 0);
/// theirs.release(0, holder);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct SharedPage {
    at: NonNull<AtomicU32>,
    file: File,
}

// SAFETY: the mapping lives as long as this value, and is touched by atomic operations only.
unsafe impl Send for SharedPage {}
// SAFETY: see above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Makes a new page. All words are zero.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("xsched-gates", flags)?);
        file.write_all(&[0; BYTES])?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Self::map(file)
    }

    /// Opens a page that another process has made, by its [`SharedPage::path`].
    ///
    /// # Errors
    /// If there is no such file, or as [`SharedPage::from_file`].
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::from_file(OpenOptions::new().read(true).write(true).open(path)?)
    }

    /// Maps a page whose descriptor came from another process. It must be open for reading and
    /// writing.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the file is not sealed against truncation, has fewer bytes
    /// than a page, or is in huge pages. Otherwise if the system refuses.
    pub fn from_file(file: File) -> io::Result<Self> {
        // Files other than those of `memfd_create` have no seals.
        let seals = fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            let why = "not a page of gate words: another process could truncate the file; use one \
                       that SharedPage::create has made";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        // There need not be a huge page when it is touched, which would end this process.
        if fstatfs(&file)?.f_type.cast_unsigned() != TMPFS {
            let why = "a page of gate words is not in huge pages; use memfd_create without them";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if file.metadata()?.len() < BYTES as u64 {
            let why = format!("a page of gate words has {BYTES} bytes, and this file has fewer");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Self::map(file)
    }

    fn map(file: File) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the system chooses the address of the new mapping, so it replaces nothing.
        let at = unsafe { mmap(std::ptr::null_mut(), BYTES, protection, flags, &file, 0) }?;
        let at = NonNull::new(at.cast());
        Ok(Self { at: at.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?, file })
    }

    /// The path by which other processes of this user open the page while this value lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// The address and the length in bytes of the mapping.
    pub(crate) const fn memory(&self) -> (NonNull<AtomicU32>, usize) {
        (self.at, BYTES)
    }

    fn part(&self, word: usize, part: usize) -> &AtomicU32 {
        let at = (word % SHARED_WORDS) * STRIDE + part * size_of::<u32>();
        // SAFETY: within the page, which is mapped as long as `self` lives, and aligned. The file
        // is sealed, so the page exists.
        unsafe { self.at.byte_add(at).as_ref() }
    }

    /// A number of the first word's cache line, where a page of a [`PageSource`] has no gate. `at`
    /// counts from 0, modulo 16. Number 0 has the bits of the holders, number 1 is their heartbeat,
    /// the highest bits of number 10 are those of [`SharedPage::set_beside`] and
    /// [`SharedPage::set_spared`], and number 15 is not 0 while a call of the process has the gates
    /// open.
    #[must_use]
    pub fn header(&self, at: usize) -> &AtomicU32 {
        self.part(0, at % (STRIDE / size_of::<u32>()))
    }

    /// For a holder: whether others have the device in turns with this process while it runs, so
    /// that what is measured may contain theirs.
    pub fn set_beside(&self, beside: bool) {
        self.tell(BESIDE, beside);
    }

    /// For a holder: whether this process is held for no others, so that its streams may fill their
    /// hardware queues.
    pub fn set_spared(&self, spared: bool) {
        self.tell(SPARED, spared);
    }

    fn tell(&self, bit: u32, is_so: bool) {
        let number = self.header(OTHERS);
        if is_so {
            number.fetch_or(bit, Ordering::Relaxed);
        } else {
            number.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Two numbers of the header as one: [`SharedPage::header`] of twice `at`, and the next. `at`
    /// counts from 0, modulo 8.
    #[must_use]
    pub fn wide_header(&self, at: usize) -> &AtomicU64 {
        let at = at % (STRIDE / size_of::<u64>()) * size_of::<u64>();
        // SAFETY: as for `part`, and at a multiple of 8 bytes. Code that reads one of the two
        // numbers alone does so with an atomic operation as well.
        unsafe { self.at.byte_add(at).cast().as_ref() }
    }

    /// Whether this holder has a word closed.
    #[must_use]
    pub fn is_held_by(&self, word: usize, holder: Holder) -> bool {
        self.word(word).load(Ordering::SeqCst) & holder.bit() != 0
    }

    /// The heartbeat of those that hold all gates of a [`PageSource`]'s page.
    #[must_use]
    pub fn heartbeat(&self) -> u32 {
        self.part(0, HEARTBEAT).load(Ordering::Relaxed)
    }

    /// Sleeps until a thread calls [`SharedPage::wake`] with this word, in whatever process, at
    /// most for so long. Returns at once if the word is not `seen` any more. It may return early.
    pub fn sleep(&self, word: usize, seen: u32, at_most: Duration) {
        let time = Timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // Whatever it answers, the caller looks again.
        let _ = futex::wait(self.word(word), futex::Flags::empty(), seen, Some(&time));
    }

    /// Wakes one thread that [sleeps](SharedPage::sleep) on a word. Never blocks.
    pub fn wake(&self, word: usize) {
        let _ = futex::wake(self.word(word), futex::Flags::empty(), 1);
    }

    /// Ends all holds of this holder: those of words 1 and up.
    pub fn release_all(&self, holder: Holder) {
        self.agreed().release(holder.bit());
    }

    /// Closes all gates of a [`PageSource`]'s page for a holder: those of words 1 and up. While a
    /// call of the process has them open that waits for the whole device, they close with its end.
    pub fn close_all(&self, holder: Holder) {
        self.renew(0);
        self.agreed().close(holder.bit());
    }

    /// All gates of a [`PageSource`]'s page.
    fn agreed(&self) -> Agreed<'_, AtomicU32, impl Iterator<Item = &AtomicU32> + Clone> {
        let words = (1..SHARED_WORDS).map(|word| self.word(word));
        Agreed { held: self.header(HELD), open: self.header(OPEN), words }
    }

    /// Renews the lease of a holder of all gates of a [`PageSource`]'s page, which have one
    /// heartbeat, in the header, and closes those again that have been opened for it.
    ///
    /// A holder that was stopped for about the lease may go on between the owner's last look at the
    /// heartbeat and its opening the gates; or one before it, with the same bit, opens them late.
    pub fn renew_all(&self, holder: Holder) {
        self.close_all(holder);
    }

    /// A word. `word` counts from 0, modulo [`SHARED_WORDS`].
    #[must_use]
    pub fn word(&self, word: usize) -> &AtomicU32 {
        self.part(word, 0)
    }

    /// Closes a gate for a holder: what was launched and has not started waits. The bits of other
    /// holders stay.
    pub fn close(&self, word: usize, holder: Holder) {
        self.renew(word);
        self.word(word).fetch_or(holder.bit(), Ordering::SeqCst);
    }

    /// Ends the hold of this holder. The gate opens when no holder is left.
    pub fn release(&self, word: usize, holder: Holder) {
        self.word(word).fetch_and(!holder.bit(), Ordering::SeqCst);
    }

    /// Renews the lease of the holders of this gate.
    pub fn renew(&self, word: usize) {
        self.part(word, HEARTBEAT).fetch_add(1, Ordering::Relaxed);
    }
}

/// Where a device has the words of its gates from that a scheduler in another process holds as one
/// unit.
///
/// Each page is used from word 1 on; word 0 is a [header](SharedPage::header) of the source's.
pub trait PageSource: std::fmt::Debug + Send + Sync {
    /// A new page, which the scheduler has as well. The device keeps it to its end.
    ///
    /// # Errors
    /// If there is none. The device then uses memory of its own, whose gates no other process
    /// closes.
    fn page(&self) -> io::Result<Arc<SharedPage>>;
}

impl AsFd for SharedPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`. References to its words do not outlive `self`, and a device that
        // waits for one of them owns the page. Nothing depends on the answer.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), BYTES) };
    }
}

/// The number of a process that closes gates of another process: 1 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(u8);

impl Holder {
    /// The holder with the number 1.
    pub const FIRST: Self = Self(1);

    /// The holder with this number. `None` unless it is 1 to 31.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number < 32 { Some(Self(number)) } else { None }
    }

    const fn bit(self) -> u32 {
        1 << self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_are_the_same_words() {
        let one = SharedPage::create().unwrap();
        let other = SharedPage::open(&one.path()).unwrap();
        let holder = Holder::new(3).unwrap();
        one.close(5, holder);
        assert_eq!(other.word(5).load(Ordering::SeqCst), 8);
        assert_eq!(other.word(4).load(Ordering::SeqCst), 0);
        other.release(5, holder);
        assert_eq!(one.word(5).load(Ordering::SeqCst), 0);
        assert_eq!(one.part(5, HEARTBEAT).load(Ordering::SeqCst), 1);
        drop(one);
        other.close(5, holder);
    }

    #[test]
    fn a_renewal_closes_what_was_opened() {
        let page = SharedPage::create().unwrap();
        let (one, other) = (Holder::FIRST, Holder::new(3).unwrap());
        page.close_all(one);
        page.close(7, other);
        page.release_all(one);
        page.word(9).fetch_or(1, Ordering::SeqCst);
        let beat = || page.part(0, HEARTBEAT).load(Ordering::SeqCst);
        let before = beat();
        page.renew_all(one);
        assert_eq!(beat(), before + 1);
        let mut expected = [2; SHARED_WORDS];
        (expected[7], expected[9]) = (2 | 8, 2 | 1);
        let words = || (0..SHARED_WORDS).map(|word| page.word(word).load(Ordering::SeqCst));
        assert_eq!(words().collect::<Vec<_>>(), expected);
        page.renew_all(one);
        assert_eq!(words().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_page_is_never_shorter_than_its_mapping() {
        let page = SharedPage::create().unwrap();
        let file = OpenOptions::new().write(true).open(page.path()).unwrap();
        assert_eq!(file.set_len(0).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        page.close(0, Holder::new(1).unwrap());
        let refused = |file: &File| SharedPage::from_file(file.try_clone().unwrap()).unwrap_err();
        let short = memfd_create("short", MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&short, SealFlags::SHRINK).unwrap();
        assert_eq!(refused(&short.into()).kind(), io::ErrorKind::InvalidData);
        let unsealed: File = memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap().into();
        unsealed.set_len(BYTES as u64).unwrap();
        assert_eq!(refused(&unsealed).kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_file_that_can_be_truncated_is_refused() {
        let path = std::env::temp_dir().join(format!("xsched-page-{}", std::process::id()));
        std::fs::write(&path, [0; BYTES]).unwrap();
        let opened = SharedPage::open(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_bit_of_the_owner_is_no_holder() {
        assert_eq!([0, 32, 255].map(Holder::new), [None; 3]);
        assert_eq!([1, 31].map(|n| Holder::new(n).map(Holder::bit)), [Some(2), Some(1 << 31)]);
    }
}
