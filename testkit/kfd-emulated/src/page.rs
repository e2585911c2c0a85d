//! Page shared with the program that plays the hardware: one slot for each queue id.
//!
//! The page is what `mmap` of the emulated `/dev/kfd` shows, at offset 0. Code that runs a queue's
//! commands keeps to this:
//!
//! * It puts its thread and the signal by which that can be stopped into the slot, then sets
//!   `running` before a command and clears it after; it looks at `active` between the two, and runs
//!   nothing while that is 0.
//! * On the signal it clears `running`, waits until `active` is 1, and sets `running` again.
//!
//! * A value of 2 says that the queue was reset: nothing of it ever runs again.
//!
//! The driver clears `active`, sends the signal if `running` is set, and does not answer the call
//! before `running` is 0: what it said was suspended has stopped.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::model::{QUEUES_MAX, Saved};

/// One queue's slot.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Slot {
    /// A [`State`]: 1 while the queue is on the run list. A futex.
    pub active: AtomicU32,
    /// 1 while a command of the queue runs.
    pub running: AtomicU32,
    /// The thread that runs commands, or 0.
    pub thread: AtomicU32,
    /// The signal that stops it. Without one the thread looks at `active` by itself, which is a
    /// futex that is woken by each change.
    pub signal: AtomicU32,
    /// 1 if a device writes to save areas, else 0.
    pub saves: AtomicU32,
    /// Bytes of the save area's control stack that are used, while the queue is stopped.
    pub control_bytes: AtomicU32,
    /// Bytes of the waves' state that are used, while the queue is stopped.
    pub wave_bytes: AtomicU32,
    /// Nothing yet.
    pub reserved: AtomicU32,
}

impl Slot {
    /// Wakes what waits for `active`.
    pub fn wake(&self) {
        let word = self.active.as_ptr();
        // SAFETY: the word is only used as an address; it is shared, so no private futex.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }
}

/// State of a queue in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing of the queue may run.
    Inactive = 0,
    /// The queue is on the run list.
    Active = 1,
    /// The queue was reset.
    Reset = 2,
}

impl State {
    pub(crate) const fn of(is_active: bool) -> Self {
        if is_active { Self::Active } else { Self::Inactive }
    }
}

/// Bytes of the page.
pub const PAGE_BYTES: usize = QUEUES_MAX as usize * size_of::<Slot>();
/// Where doorbells start in the file.
const DOORBELLS_AT: u64 = 1 << 16;
/// Bytes of the doorbells of one GPU: 8 for each queue.
pub const DOORBELL_BYTES: u64 = QUEUES_MAX as u64 * 8;

/// Where the doorbells of a GPU are in the file, by its place in the configuration.
///
/// The real driver puts the kind of mapping into the upper bits of such an offset, and an emulated
/// file can be mapped at places that it has alone. Programs do not look into it.
#[must_use]
pub const fn doorbell_offset(gpu: usize) -> u64 {
    DOORBELLS_AT + gpu as u64 * DOORBELL_BYTES
}

/// A mapping of the page.
#[derive(Debug)]
pub(crate) struct Page {
    slots: *mut Slot,
}

// SAFETY: the slots are atomics in shared memory, which any thread may touch; the mapping ends
// once, when its owner is dropped.
unsafe impl Send for Page {}

impl Page {
    /// Maps the page of a file that has this many bytes.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub(crate) fn map(file: impl std::os::fd::AsFd) -> Result<Self, Errno> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a fresh mapping, at an address that the kernel chooses.
        let start = unsafe { mmap(std::ptr::null_mut(), PAGE_BYTES, protection, flags, file, 0)? };
        Ok(Self { slots: start.cast() })
    }

    /// A queue's slot. Ids above the last share one slot.
    pub(crate) const fn slot(&self, id: u32) -> &Slot {
        let id = if id < QUEUES_MAX { id } else { QUEUES_MAX - 1 };
        // SAFETY: the mapping has this many slots, lives as long as this, and zeros are valid.
        unsafe { &*self.slots.add(id as usize) }
    }

    /// Says what becomes of a queue.
    pub(crate) fn set(&self, pid: u32, id: u32, state: State) {
        let slot = self.slot(id);
        slot.active.store(state as u32, Ordering::SeqCst);
        slot.wake();
        if state == State::Inactive && slot.running.load(Ordering::SeqCst) != 0 {
            let thread = slot.thread.load(Ordering::SeqCst);
            let signal = slot.signal.load(Ordering::SeqCst);
            if thread != 0 && signal != 0 {
                // SAFETY: the call touches no memory; a thread that is gone is an error, and then
                // nothing runs.
                unsafe { libc::syscall(libc::SYS_tgkill, pid, thread, signal) };
            }
        }
    }

    /// How much of a queue's save area is used, if a device says so.
    pub(crate) fn saved(&self, id: u32) -> Option<Saved> {
        let slot = self.slot(id);
        (slot.saves.load(Ordering::SeqCst) != 0).then(|| Saved {
            control_bytes: slot.control_bytes.load(Ordering::SeqCst),
            wave_bytes: slot.wave_bytes.load(Ordering::SeqCst),
        })
    }

    /// True if nothing of a queue runs.
    pub(crate) fn has_stopped(&self, id: u32) -> bool {
        let slot = self.slot(id);
        slot.running.load(Ordering::SeqCst) == 0 || slot.active.load(Ordering::SeqCst) != 0
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference into it is left.
        let _ = unsafe { munmap(self.slots.cast(), PAGE_BYTES) };
    }
}
