//! The driver, as one call.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::io::Errno;

/// Where the driver is.
pub const KFD_PATH: &str = "/dev/kfd";

/// The kernel driver, or what stands for it in a test: one call.
pub trait Driver: Debug + Send + Sync {
    /// Makes a call. `request` is the whole number ([`crate::uapi::Call::request`]), `argument`
    /// is read and written in place. What comes back is the call's result, which is not negative:
    /// suspending and resuming queues by `DBG_TRAP` answer a count, all others 0.
    ///
    /// # Errors
    /// What the driver answered.
    ///
    /// # Safety
    /// `argument` must be what the request takes, and memory that it names by address must be valid
    /// for what the driver does with it: ids of queues are read and written, masks read, entries of
    /// snapshots written. It must stay so until the call has returned.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno>;
}

impl<D: Driver + ?Sized> Driver for &D {
    // SAFETY: what is asked of the caller is what the trait asks.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).ioctl(request, argument) }
    }
}

impl<D: Driver + ?Sized> Driver for std::sync::Arc<D> {
    // SAFETY: what is asked of the caller is what the trait asks.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        // SAFETY: the caller's promise is passed on.
        unsafe { (**self).ioctl(request, argument) }
    }
}

/// The driver of this machine.
///
/// A file belongs to the process that opened it: in a child it answers `EBADF`, and the child opens
/// one of its own. All files of a process know the same queues, those of ROCm's runtime included,
/// unless somebody made a process of its own for a file (`CREATE_PROCESS`, from 1.19).
#[derive(Debug)]
pub struct Kfd {
    file: File,
}

impl Kfd {
    /// Opens [`KFD_PATH`].
    ///
    /// # Errors
    /// If there is no driver, or this user may not use it.
    pub fn open() -> io::Result<Self> {
        Self::open_at(Path::new(KFD_PATH))
    }

    /// Opens the driver at another place.
    ///
    /// # Errors
    /// If there is none, or this user may not use it.
    pub fn open_at(path: &Path) -> io::Result<Self> {
        // The standard library sets `O_CLOEXEC`; a child could not use the file anyway.
        Ok(Self { file: OpenOptions::new().read(true).write(true).open(path)? })
    }
}

impl Driver for Kfd {
    // SAFETY: what is asked of the caller is what the trait asks.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        // Not by libc's function `ioctl`, which rustix calls as well where any crate of the program
        // asks it to: the preloaded library takes its calls for those of the queues' owner.
        // SAFETY: the caller promises that the argument is what the request takes.
        let answer = unsafe {
            let (number, file) = (libc::SYS_ioctl, self.file.as_raw_fd());
            libc::syscall(number, file, libc::c_ulong::from(request), argument.as_mut_ptr())
        };
        if answer < 0 {
            let error = io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        }
        // If it ever were more, it would be no count.
        Ok(u32::try_from(answer).unwrap_or(0))
    }
}
