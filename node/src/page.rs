//! Pages that processes share: [`PageHeader`] and gates, in memory that both have mapped.
#![expect(unsafe_code, reason = "a mapping of memory that other processes write")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstatfs, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

use crate::descriptors::apart;
use crate::layout::{GATES_PER_PAGE, PAGE_BYTES, PAGE_VERSION, PageGate, PageHeader, PageLayout};
use crate::wakeup::{begin_to_follow, has_follower};

/// The file system of files in memory whose pages are ordinary ones.
const TMPFS: u64 = 0x0102_1994;

/// A page of gates that several processes have mapped.
///
/// The process that owns a stream lets its device wait for a gate's word to be 0 (in
/// `xsched-hal-stream`, `StreamDevice::share` and `StreamConfig::in_page`). Any process that has
/// the page may close the gate ([`SharedPage::close`]) and open it. [`OWNER_BIT`](crate::OWNER_BIT)
/// is the owner's own. A process that holds a gate for longer renews its lease
/// ([`SharedPage::renew`]): after a lease of silence the owner opens the gate.
///
/// The page is a file in memory (`memfd`) that is sealed against truncation, so no process can
/// take it away from under the others. Another process of the same user opens it by
/// [`SharedPage::path`] as long as this value lives. A process that cannot see that path, in
/// another container for example, gets the descriptor ([`AsFd`]) through a Unix socket and calls
/// [`SharedPage::from_file`].
///
/// ```
/// use xsched_node::{Holder, SharedPage};
///
/// let ours = SharedPage::create()?;
/// // In another process, which was told the path:
/// let theirs = SharedPage::open(&ours.path())?;
/// let holder = Holder::new(1).expect("1 to 31");
/// theirs.close(0, holder);
/// assert!(ours.is_closed(0));
/// theirs.release(0, holder);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedPage {
    at: NonNull<PageLayout>,
    file: File,
}

// SAFETY: the mapping lives as long as this value, and is touched by atomic operations only.
unsafe impl Send for SharedPage {}
// SAFETY: see above.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Makes a new page, with all gates open.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn create() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(apart(memfd_create("xsched-gates", flags)?));
        file.write_all(&[0; PAGE_BYTES])?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let page = Self::map(file)?;
        page.header().version.store(PAGE_VERSION, Ordering::Release);
        Ok(page)
    }

    /// Opens a page that another process has made, by its [`SharedPage::path`].
    ///
    /// # Errors
    /// If there is no such file, or as [`SharedPage::from_file`].
    pub fn open(path: &Path) -> Result<Self, PageError> {
        Self::from_file(OpenOptions::new().read(true).write(true).open(path)?)
    }

    /// Returns whether a descriptor is of a file in memory, which may be a page, and whose close
    /// waits for no process. No other kind of file is asked anything, so that this does not wait
    /// either.
    #[must_use]
    pub fn is_in_memory(file: impl AsFd) -> bool {
        fcntl_get_seals(file).is_ok()
    }

    /// Maps a page whose descriptor came from another process. It must be open for reading and
    /// writing.
    ///
    /// # Errors
    /// If the file is not such a page, or the system refuses.
    pub fn from_file(file: File) -> Result<Self, PageError> {
        // Files other than those of `memfd_create` have no seals.
        let seals = fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return Err(PageError::NotSealed);
        }
        // There need not be a huge page when it is touched, which would end this process.
        if fstatfs(&file).map_err(io::Error::from)?.f_type.cast_unsigned() != TMPFS {
            return Err(PageError::Huge);
        }
        let about = file.metadata()?;
        if about.len() < PAGE_BYTES as u64 {
            return Err(PageError::Short);
        }
        // Memory is charged to the process that touches it first.
        if about.blocks() * 512 < PAGE_BYTES as u64 {
            return Err(PageError::Hole);
        }
        let page = Self::map(file)?;
        match page.header().version.load(Ordering::Acquire) {
            PAGE_VERSION => Ok(page),
            version => Err(PageError::Version(version)),
        }
    }

    fn map(file: File) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the system chooses the address of the new mapping, so it replaces nothing.
        let at = unsafe { mmap(std::ptr::null_mut(), PAGE_BYTES, protection, flags, &file, 0) }?;
        let at = NonNull::new(at.cast());
        Ok(Self { at: at.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?, file })
    }

    /// The path by which other processes of this user open the page while this value lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// The address and the length in bytes of the mapping, for a driver that maps it for its
    /// device.
    #[must_use]
    pub const fn memory(&self) -> (NonNull<AtomicU32>, usize) {
        (self.at.cast(), PAGE_BYTES)
    }

    const fn layout(&self) -> &PageLayout {
        // SAFETY: mapped as long as `self` lives, at the begin of a page of memory, which has the
        // layout's size. The file is sealed, so the memory exists. Every bit pattern is a value of
        // the layout, and all that changes in it are atomic integers.
        unsafe { self.at.as_ref() }
    }

    /// The page's header.
    #[must_use]
    pub const fn header(&self) -> &PageHeader {
        &self.layout().header
    }

    /// A gate. `at` counts from 0, modulo [`GATES_PER_PAGE`].
    #[must_use]
    pub const fn gate(&self, at: usize) -> &PageGate {
        &self.layout().gates[at % GATES_PER_PAGE]
    }

    /// Bytes from the begin of a page to a gate's word, for a driver.
    #[must_use]
    pub const fn offset_of_gate(at: usize) -> usize {
        size_of::<PageHeader>() + at % GATES_PER_PAGE * size_of::<PageGate>()
    }

    /// Returns whether this holder has a gate closed.
    #[must_use]
    pub fn is_held_by(&self, gate: usize, holder: Holder) -> bool {
        self.gate(gate).word.load(Ordering::SeqCst) & holder.bit() != 0
    }

    /// Returns whether any holder, or the process itself, has a gate closed.
    #[must_use]
    pub fn is_closed(&self, gate: usize) -> bool {
        self.gate(gate).word.load(Ordering::SeqCst) != 0
    }

    /// Says that a thread is to be woken when a holder changes the first gate, and answers the
    /// gate's word by then.
    pub(crate) fn begin_to_follow(&self) -> u32 {
        begin_to_follow(&self.header().follower, &self.gate(0).word)
    }

    /// For a holder: wakes the process's thread that sleeps on the first gate, if there is one.
    /// After the gates were closed or opened. Never blocks.
    pub fn wake_follower(&self) {
        if has_follower(&self.header().follower) {
            let _ = futex::wake(&self.gate(0).word, futex::Flags::empty(), 1);
        }
    }

    fn gates(&self) -> impl Iterator<Item = &AtomicU32> + Clone {
        self.layout().gates.iter().map(|gate| &gate.word)
    }

    /// Ends all holds of this holder.
    pub fn release_all(&self, holder: Holder) {
        let header = self.header();
        if header.held.load(Ordering::Relaxed) & holder.bit() != 0 {
            // Before what was held can end.
            header.holds_ended.fetch_add(1, Ordering::Relaxed);
        }
        header.handshake(self.gates()).release(holder.bit());
    }

    /// Closes all gates of a [`PageSource`]'s page for a holder, and renews its lease of them.
    /// While a call of the process has them open that waits for the whole device, they close with
    /// its end.
    ///
    /// A holder calls this again and again while it holds. One that was stopped for about the lease
    /// may do so between the owner's last look at the heartbeat and its opening the gates; or one
    /// before it, with the same bit, opens them late. The next call closes them again.
    pub fn close_all(&self, holder: Holder) {
        self.header().heartbeat.fetch_add(1, Ordering::Relaxed);
        self.header().handshake(self.gates()).close(holder.bit());
    }

    /// Renews a holder's lease of all gates of a [`PageSource`]'s page, without a look at each.
    /// False if the holder's hold has ended meanwhile, and [`SharedPage::close_all`] is to be
    /// called. That a gate was opened late all the same is found by `close_all` alone.
    #[must_use]
    pub fn renew_all(&self, holder: Holder) -> bool {
        self.header().heartbeat.fetch_add(1, Ordering::Relaxed);
        self.header().held.load(Ordering::SeqCst) & holder.bit() != 0
    }

    /// For a process with a higher priority: closes all gates of a [`PageSource`]'s page until the
    /// node's scheduler has decided, which ends it with [`SharedPage::end_direct_hold`]. Does
    /// nothing where that scheduler holds the page. False then.
    #[must_use]
    pub fn hold_directly(&self) -> bool {
        let is_free = self.header().held.load(Ordering::SeqCst) & Holder::DAEMON.bit() == 0;
        if is_free {
            self.close_all(Holder::DIRECT);
        }
        is_free
    }

    /// For the node's scheduler, once it has decided: ends [`SharedPage::hold_directly`].
    pub fn end_direct_hold(&self) {
        let header = self.header();
        let was_alone = header.held.load(Ordering::Relaxed) == Holder::DIRECT.bit();
        if header.handshake(self.gates()).end_direct(Holder::DIRECT.bit()) && was_alone {
            header.holds_ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Closes a gate for a holder: what was launched and has not started waits. The bits of other
    /// holders stay.
    pub fn close(&self, gate: usize, holder: Holder) {
        self.renew(gate);
        self.gate(gate).word.fetch_or(holder.bit(), Ordering::SeqCst);
    }

    /// Ends the hold of this holder. The gate opens when no holder is left.
    pub fn release(&self, gate: usize, holder: Holder) {
        self.gate(gate).word.fetch_and(!holder.bit(), Ordering::SeqCst);
    }

    /// Renews the lease of the holders of this gate.
    pub fn renew(&self, gate: usize) {
        self.gate(gate).heartbeat.fetch_add(1, Ordering::Relaxed);
    }
}

/// Why a file is not a page that this process takes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// Another process could take the page away.
    #[error(
        "not a page of gates: another process could truncate the file; use one that \
         SharedPage::create has made"
    )]
    NotSealed,
    /// The page is in huge pages.
    #[error("a page of gates is not in huge pages; use memfd_create without them")]
    Huge,
    /// The file is too short.
    #[error("a page of gates has {PAGE_BYTES} bytes, and this file has fewer")]
    Short,
    /// The page has another layout.
    #[error(
        "the page has version {0} of the layout, and this process version {PAGE_VERSION}; install \
         one version of XSched for both and start the program again"
    )]
    Version(u32),
    /// The file has no memory yet, which would be charged to this process.
    #[error("a page of gates has memory, and this file is a hole; write zeros first")]
    Hole,
    /// The system refuses.
    #[error("the page cannot be mapped: {0}")]
    System(#[from] io::Error),
}

/// Where a device has the words of its gates from that a scheduler in another process holds as one
/// unit.
///
/// The device uses the gates of a page; its header is the source's.
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
        let _ = unsafe { munmap(self.at.as_ptr().cast(), PAGE_BYTES) };
    }
}

/// The number of who closes gates of another process: 1 to 31. [`Holder::DAEMON`] and
/// [`Holder::DIRECT`] have the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder(u8);

impl Holder {
    /// The node's scheduler, which has the number 1.
    pub const DAEMON: Self = Self(1);
    /// Processes of the same user that hold lower priorities until the node's scheduler has
    /// decided: the number 2, for all of them.
    pub const DIRECT: Self = Self(2);

    /// The holder with this number. `None` unless it is 1 to 31.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number >= 1 && number < 32 { Some(Self(number)) } else { None }
    }

    /// The bit of a gate's word that is this holder's.
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn words(page: &SharedPage) -> Vec<u32> {
        page.gates().map(|word| word.load(Ordering::SeqCst)).collect()
    }

    #[test]
    fn two_mappings_are_the_same_words() {
        let one = SharedPage::create().unwrap();
        let other = SharedPage::open(&one.path()).unwrap();
        let holder = Holder::new(3).unwrap();
        one.close(5, holder);
        assert_eq!(other.gate(5).word.load(Ordering::SeqCst), 8);
        assert!(!other.is_closed(4));
        other.release(5, holder);
        assert!(!one.is_closed(5));
        assert_eq!(one.gate(5).heartbeat.load(Ordering::SeqCst), 1);
        drop(one);
        other.close(5, holder);
    }

    #[test]
    fn a_gate_is_where_a_driver_looks_for_it() {
        let page = SharedPage::create().unwrap();
        let (begin, bytes) = page.memory();
        for at in [0, 1, GATES_PER_PAGE - 1] {
            let offset = SharedPage::offset_of_gate(at);
            let word = std::ptr::from_ref(&page.gate(at).word);
            assert_eq!(word.addr() - begin.addr().get(), offset);
            assert!(offset + size_of::<PageGate>() <= bytes);
        }
    }

    #[test]
    fn a_renewal_closes_what_was_opened() {
        let page = SharedPage::create().unwrap();
        let (one, other) = (Holder::DAEMON, Holder::new(3).unwrap());
        page.close_all(one);
        page.close(7, other);
        page.release_all(one);
        page.gate(9).word.fetch_or(1, Ordering::SeqCst);
        let beat = || page.header().heartbeat.load(Ordering::SeqCst);
        let before = beat();
        page.close_all(one);
        assert_eq!(beat(), before + 1);
        let mut expected = [2; GATES_PER_PAGE];
        (expected[7], expected[9]) = (2 | 8, 2 | 1);
        assert_eq!(words(&page), expected);
        page.close_all(one);
        assert_eq!(words(&page), expected);
    }

    #[test]
    fn a_hold_counts_once_it_has_ended() {
        let page = SharedPage::create().unwrap();
        let ended = || page.header().holds_ended.load(Ordering::Relaxed);
        page.release_all(Holder::DAEMON);
        page.close_all(Holder::DAEMON);
        page.close_all(Holder::DAEMON);
        assert_eq!(ended(), 0);
        page.release_all(Holder::DAEMON);
        page.release_all(Holder::DAEMON);
        assert_eq!(ended(), 1);
    }

    #[test]
    fn a_direct_hold_counts_where_no_other_follows() {
        let page = SharedPage::create().unwrap();
        let ended = || page.header().holds_ended.load(Ordering::Relaxed);
        page.end_direct_hold();
        assert_eq!(ended(), 0);
        assert!(page.hold_directly() && page.is_held_by(7, Holder::DIRECT));
        page.end_direct_hold();
        assert!(ended() == 1 && !page.is_closed(7));
        assert!(page.hold_directly());
        page.close_all(Holder::DAEMON);
        page.end_direct_hold();
        assert!(ended() == 1 && page.is_closed(7), "the scheduler has decided so");
        assert!(!page.hold_directly() && !page.is_held_by(7, Holder::DIRECT));
        page.release_all(Holder::DAEMON);
        assert_eq!((ended(), words(&page)), (2, vec![0; GATES_PER_PAGE]));
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
        assert!(matches!(refused(&short.into()), PageError::Short));
        let unsealed: File = memfd_create("open", MemfdFlags::ALLOW_SEALING).unwrap().into();
        unsealed.set_len(PAGE_BYTES as u64).unwrap();
        assert!(matches!(refused(&unsealed), PageError::NotSealed));
    }

    #[test]
    fn a_file_that_can_be_truncated_is_refused() {
        let path = std::env::temp_dir().join(format!("xsched-page-{}", std::process::id()));
        std::fs::write(&path, [0; PAGE_BYTES]).unwrap();
        let opened = SharedPage::open(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(opened, Err(PageError::NotSealed)));
    }

    #[test]
    fn a_page_of_another_version_is_refused() {
        let page = SharedPage::create().unwrap();
        // Those of version 0.1 begin with the bits of the holders.
        for version in [0, Holder::DAEMON.bit(), PAGE_VERSION + 1] {
            page.header().version.store(version, Ordering::SeqCst);
            let refused = SharedPage::open(&page.path()).unwrap_err();
            assert!(matches!(refused, PageError::Version(found) if found == version));
        }
    }

    #[test]
    fn the_bit_of_the_owner_is_no_holder() {
        assert_eq!([0, 32, 255].map(Holder::new), [None; 3]);
        assert_eq!([1, 31].map(|n| Holder::new(n).map(Holder::bit)), [Some(2), Some(1 << 31)]);
    }
}
