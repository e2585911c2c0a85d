//! The driver behind one function, `ioctl`.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::io::Errno;

/// The path of the driver's device file.
pub const KFD_PATH: &str = "/dev/kfd";

/// The kernel driver, or an emulated one in a test.
pub trait Driver: Debug + Send + Sync {
    /// Makes a call. `request` is the whole number ([`crate::uapi::Call::request`]); `argument` is
    /// read and written in place. The answer is a count for the operations of `DBG_TRAP` that
    /// suspend and resume queues, and 0 for all other calls.
    ///
    /// # Errors
    /// The driver's errno.
    ///
    /// # Safety
    /// `argument` must be what the request takes, and memory that it names by address must be valid
    /// for what the driver does with it: ids of queues are read and written, masks read, entries of
    /// snapshots written. It must stay so until the call has returned.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno>;
}

impl<D: Driver + ?Sized> Driver for &D {
    // SAFETY: the caller's obligation is the trait's.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        // SAFETY: the caller's obligation is passed on.
        unsafe { (**self).ioctl(request, argument) }
    }
}

impl<D: Driver + ?Sized> Driver for std::sync::Arc<D> {
    // SAFETY: the caller's obligation is the trait's.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        // SAFETY: the caller's obligation is passed on.
        unsafe { (**self).ioctl(request, argument) }
    }
}

/// The driver of this machine.
///
/// A file belongs to the process that opened it: in a child process it answers `EBADF`, and the
/// child opens one of its own. All files of a process see the same queues, including those of
/// ROCm's runtime, unless a file was given a process of its own (`CREATE_PROCESS`, from KFD 1.19).
#[derive(Debug)]
pub struct Kfd {
    file: File,
}

impl Kfd {
    /// Opens [`KFD_PATH`].
    ///
    /// # Errors
    /// The system's error, if there is no driver or this user may not open it.
    pub fn open() -> io::Result<Self> {
        Self::open_at(Path::new(KFD_PATH))
    }

    /// Opens the driver at another path.
    ///
    /// # Errors
    /// The system's error, if there is no driver or this user may not open it.
    pub fn open_at(path: &Path) -> io::Result<Self> {
        // The standard library sets `O_CLOEXEC`; a child could not use the file anyway.
        Ok(Self { file: OpenOptions::new().read(true).write(true).open(path)? })
    }
}

impl Driver for Kfd {
    // SAFETY: the caller's obligation is the trait's.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        // This is not libc's function `ioctl`, which rustix can call as well: the preloaded library
        // takes its calls for those of the queues' owner.
        // SAFETY: the caller promises that the argument is what the request takes.
        let answer = unsafe {
            let (number, file) = (libc::SYS_ioctl, self.file.as_raw_fd());
            libc::syscall(number, file, libc::c_ulong::from(request), argument.as_mut_ptr())
        };
        if answer < 0 {
            let error = io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        // Answers are counts of queues or zero, which fit.
        Ok(u32::try_from(answer).unwrap_or(0))
    }
}
