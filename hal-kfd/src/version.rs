//! The driver's version, without which no other call is made.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::driver::{Driver, KFD_PATH, Kfd};
use crate::error::KfdError;
use crate::uapi::{self, Call};

/// A call that a signal interrupts is repeated at most this often. The driver's calls can be
/// repeated; the limit is for a driver that always answers `EINTR`.
const INTERRUPTED_MAX: u32 = 64;

/// The version of the driver's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The major version. There has been 1 only.
    pub major: u32,
    /// The minor version, which grows with each new call.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KFD {}.{}", self.major, self.minor)
    }
}

/// A driver whose version is known. All calls but the one for the version go through it, so that
/// none is made that means another call to the driver in hand.
#[derive(Debug)]
pub struct Versioned<D> {
    driver: D,
    version: Version,
}

impl Versioned<Kfd> {
    /// Opens the driver of this machine and asks for its version.
    ///
    /// # Errors
    /// [`KfdError::NoDriver`] or [`KfdError::NotOpened`] if it cannot be opened, and those of
    /// [`Versioned::ask`].
    pub fn open() -> Result<Self, KfdError> {
        Self::open_at(Path::new(KFD_PATH))
    }

    /// Opens the driver at another path and asks for its version.
    ///
    /// # Errors
    /// Those of [`Versioned::open`].
    pub fn open_at(path: &Path) -> Result<Self, KfdError> {
        let opened = Kfd::open_at(path);
        Self::ask(opened.map_err(|error| KfdError::of_open(&path.to_string_lossy(), &error))?)
    }
}

impl<D: Driver> Versioned<D> {
    /// Asks a driver for its version.
    ///
    /// # Errors
    /// The driver's error, or [`KfdError::UnsupportedMajor`].
    pub fn ask(driver: D) -> Result<Self, KfdError> {
        let mut argument = uapi::GetVersion::default();
        let call = uapi::GET_VERSION;
        // SAFETY: the argument is the request's and names no memory.
        let asked = unsafe { repeat(&driver, call.request, argument.as_mut_bytes()) };
        asked.map_err(|errno| KfdError::of_call(call.name, errno))?;
        let uapi::GetVersion { major, minor } = argument;
        if major != uapi::MAJOR {
            return Err(KfdError::UnsupportedMajor { major, minor });
        }
        Ok(Self { driver, version: Version { major, minor } })
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Makes a call. `Ok(Err(_))` is the driver's errno, whose meaning depends on the call.
    ///
    /// # Errors
    /// [`KfdError::TooOld`] if the driver has no such call. No call was made then.
    ///
    /// # Safety
    /// Memory that the argument names by address must be valid for what the driver does with it, as
    /// for [`Driver::ioctl`].
    pub unsafe fn call<T>(
        &self,
        call: &Call<T>,
        argument: &mut T,
    ) -> Result<Result<u32, Errno>, KfdError>
    where
        T: FromBytes + IntoBytes + Immutable,
    {
        if self.version.minor < call.since {
            let (needs, has) = (call.since, self.version.minor);
            return Err(KfdError::TooOld { call: call.name, needs, has });
        }
        // SAFETY: the type is the call's, and the caller's obligation covers memory that it names.
        Ok(unsafe { repeat(&self.driver, call.request, argument.as_mut_bytes()) })
    }
}

/// Bytes of the largest argument of a call that is repeated.
const ARGUMENT_BYTES_MAX: usize = 128;

/// Makes a call, and repeats it if a signal interrupts it. The argument is restored first: the
/// driver writes to it after an error too, and may leave a count there that is larger than the
/// room.
///
/// # Safety
/// That of [`Driver::ioctl`].
unsafe fn repeat(driver: &impl Driver, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
    let mut space = [0; ARGUMENT_BYTES_MAX];
    let Some(before) = space.get_mut(..argument.len()) else {
        // SAFETY: the caller's obligation is passed on.
        return unsafe { driver.ioctl(request, argument) };
    };
    before.copy_from_slice(argument);
    for _ in 0..INTERRUPTED_MAX {
        // SAFETY: the caller's obligation is passed on.
        match unsafe { driver.ioctl(request, argument) } {
            Err(Errno::INTR) => argument.copy_from_slice(before),
            answer => return answer,
        }
    }
    Err(Errno::INTR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;

    fn answers(major: u32, minor: u32) -> Scripted {
        Scripted::new(move |request, argument| {
            assert_eq!(request, uapi::GET_VERSION.request);
            argument.copy_from_slice(uapi::GetVersion { major, minor }.as_bytes());
            Ok(0)
        })
    }

    #[test]
    fn the_version_is_asked_first() {
        let driver = answers(1, 17);
        let asked = Versioned::ask(&driver).expect("it answers");
        assert_eq!(asked.version().to_string(), "KFD 1.17");
        assert_eq!(driver.requests(), [uapi::GET_VERSION.request]);
    }

    #[test]
    fn another_major_version_is_refused() {
        let error = Versioned::ask(answers(2, 0)).expect_err("it is another interface");
        assert_eq!(error, KfdError::UnsupportedMajor { major: 2, minor: 0 });
    }

    #[test]
    fn nothing_is_sent_to_a_driver_that_lacks_the_call() {
        let driver = answers(1, 11);
        let asked = Versioned::ask(&driver).expect("it answers");
        let mut argument = uapi::DbgTrap::default();
        // SAFETY: the driver is a script that reads no memory.
        let answer = unsafe { asked.call(&uapi::DBG_TRAP, &mut argument) };
        assert_eq!(answer, Err(KfdError::TooOld { call: "DBG_TRAP", needs: 13, has: 11 }));
        assert_eq!(driver.requests().len(), 1);
    }

    #[test]
    fn a_driver_that_is_always_interrupted_ends() {
        let driver = Scripted::new(|_, _| Err(Errno::INTR));
        let error = Versioned::ask(&driver).expect_err("it never answers");
        assert_eq!(error, KfdError::Driver { call: "GET_VERSION", errno: Errno::INTR });
        assert_eq!(driver.requests().len(), 64);
    }
}
