//! A driver whose answers are bytes.

use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use xsched_hal_kfd::Driver;

use xsched_kfd_emulated::wire::{Argument, nr, nr_of, op};

/// Bytes in a row, from the front or the back.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    bytes: Arc<[u8]>,
    at: usize,
    backwards: bool,
}

impl Bytes {
    fn forwards(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), at: 0, backwards: false }
    }

    pub(super) fn backwards(bytes: &[u8]) -> Self {
        Self { backwards: true, ..Self::forwards(bytes) }
    }

    pub(super) fn next(&mut self) -> Option<u8> {
        let last = self.bytes.len().checked_sub(self.at + 1)?;
        let byte = self.bytes[if self.backwards { last } else { self.at }];
        self.at += 1;
        Some(byte)
    }

    /// The next four bytes; zeros after the end.
    fn word(&mut self) -> u32 {
        u32::from_ne_bytes([(); 4].map(|()| self.next().unwrap_or(0)))
    }
}

/// Answers anything.
#[derive(Clone, Debug)]
pub(super) struct Arbitrary {
    bytes: Arc<Mutex<Bytes>>,
    /// Calls that the present operation may still make.
    left: Arc<AtomicUsize>,
}

/// Calls that may be made before the first operation, to set up.
const SETUP_CALLS: usize = 4_096;
/// Entries of a list that are written at most.
const ENTRIES_MAX: usize = 64;
/// Bytes of an entry of a snapshot.
const ENTRY_BYTES: usize = 64;

impl Arbitrary {
    pub(super) fn new(data: &[u8]) -> Self {
        let bytes = Arc::new(Mutex::new(Bytes::forwards(data)));
        Self { bytes, left: Arc::new(AtomicUsize::new(SETUP_CALLS)) }
    }

    pub(super) fn start_operation(&self, calls: usize) {
        self.left.store(calls, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Bytes> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Errors that a driver answers, the usual ones first.
const ERRNOS: [Errno; 16] = [
    Errno::INVAL,
    Errno::FAULT,
    Errno::TIME,
    Errno::IO,
    Errno::ACCESS,
    Errno::PERM,
    Errno::NOTTY,
    Errno::INTR,
    Errno::AGAIN,
    Errno::BADF,
    Errno::SRCH,
    Errno::EXIST,
    Errno::BUSY,
    Errno::ALREADY,
    Errno::NODEV,
    Errno::NOMEM,
];

/// Writes bytes where a driver would: at most what the argument makes room for.
///
/// # Safety
/// `bytes` bytes may be written at `address`, unless that is 0.
unsafe fn scribble(address: u64, bytes: usize, from: &mut Bytes) {
    let start = address as usize;
    if start == 0 {
        return;
    }
    let place: *mut u8 = std::ptr::with_exposed_provenance_mut(start);
    for at in 0..bytes {
        let Some(byte) = from.next() else { return };
        // SAFETY: the caller promises this many.
        unsafe { place.add(at).write(byte) };
    }
}

/// Writes what a call leaves behind where its argument points to.
///
/// # Safety
/// The argument is the request's, and memory that it names is what the driver may write to.
unsafe fn write_behind(request: u32, argument: &Argument<'_>, from: &mut Bytes) {
    let (address, bytes) = match (nr_of(request), argument.u32(4)) {
        (nr::DBG_TRAP, op::ENABLE) => (argument.u64(16), argument.u32(24).min(16) as usize),
        (nr::DBG_TRAP, op::SUSPEND_QUEUES) => (argument.u64(16), argument.u32(24) as usize * 4),
        (nr::DBG_TRAP, op::RESUME_QUEUES) => (argument.u64(8), argument.u32(16) as usize * 4),
        (nr::DBG_TRAP, op::GET_QUEUE_SNAPSHOT) => {
            let count = (argument.u32(24) as usize).min(ENTRIES_MAX);
            (argument.u64(16), count * (argument.u32(28) as usize).min(ENTRY_BYTES))
        }
        (nr::GET_PROCESS_APERTURES_NEW, _) => {
            (argument.u64(0), (argument.u32(8) as usize).min(ENTRIES_MAX) * 56)
        }
        _ => return,
    };
    // SAFETY: the argument makes room for this many bytes there, or more.
    unsafe { scribble(address, bytes, from) };
}

impl Driver for Arbitrary {
    // SAFETY: what the caller has to promise is used for what it says.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        assert!(left > 0, "an operation makes calls without an end");
        let mut bytes = self.lock();
        let how = bytes.next().unwrap_or(0);
        if nr_of(request) == nr::GET_VERSION && how < 0xc0 {
            // Else hardly anything would get further.
            let mut version = Argument(argument);
            version.set_u32(0, 1);
            version.set_u32(4, u32::from(how) % 32);
            return Ok(0);
        }
        if how & 1 != 0 {
            // SAFETY: the caller's promise is passed on.
            unsafe { write_behind(request, &Argument(argument), &mut bytes) };
        }
        if how & 2 != 0 {
            for byte in argument.iter_mut() {
                *byte = bytes.next().unwrap_or(*byte);
            }
        }
        if nr_of(request) == nr::SMI_EVENTS {
            // A file that is closed must not belong to another owner.
            let file = std::fs::File::open("/dev/null").map_err(|_| Errno::MFILE)?;
            Argument(argument).set_u32(4, file.into_raw_fd().cast_unsigned());
            return Ok(0);
        }
        match how >> 2 & 7 {
            0..=3 => Ok(0),
            4 => Ok(u32::from(bytes.next().unwrap_or(1))),
            5 => Ok(bytes.word()),
            6 => Err(Errno::from_raw_os_error(1 + i32::from(bytes.next().unwrap_or(0)) % 133)),
            _ => Err(ERRNOS[usize::from(bytes.next().unwrap_or(0)) % ERRNOS.len()]),
        }
    }
}
