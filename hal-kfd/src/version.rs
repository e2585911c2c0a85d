//! The version is asked first; only then there is something that can make other calls.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::driver::{Driver, KFD_PATH, Kfd};
use crate::error::KfdError;
use crate::uapi::{self, Call};

/// How often a call is made again that a signal interrupted. The driver's calls can be repeated;
/// the limit is for a driver that never answers anything else.
const INTERRUPTED_MAX: u32 = 64;

/// The version of the driver's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 1 so far.
    pub major: u32,
    /// What tells drivers apart.
    pub minor: u32,
}

impl Version {
    /// Whether it is newer than what was read when this was written. What is used here has kept its
    /// form in all versions so far.
    #[must_use]
    pub const fn is_newer_than_known(self) -> bool {
        self.minor > uapi::NEWEST_KNOWN_MINOR
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KFD {}.{}", self.major, self.minor)
    }
}

/// A driver that has said which version it is. All other calls need one of these, so that nothing
/// is sent to a driver that may mean something else by it.
#[derive(Debug)]
pub struct Versioned<D> {
    driver: D,
    version: Version,
}

impl Versioned<Kfd> {
    /// Opens the driver of this machine and asks for its version.
    ///
    /// # Errors
    /// [`KfdError::NoDriver`] or [`KfdError::NotOpened`] if it cannot be opened, and the errors of
    /// [`Versioned::ask`].
    pub fn open() -> Result<Self, KfdError> {
        Self::open_at(Path::new(KFD_PATH))
    }

    /// Opens the driver at another place and asks for its version.
    ///
    /// # Errors
    /// As [`Versioned::open`].
    pub fn open_at(path: &Path) -> Result<Self, KfdError> {
        let opened = Kfd::open_at(path);
        Self::ask(opened.map_err(|error| KfdError::of_open(&path.to_string_lossy(), &error))?)
    }
}

impl<D: Driver> Versioned<D> {
    /// Asks a driver for its version.
    ///
    /// # Errors
    /// What the driver answered, or [`KfdError::OtherMajor`].
    pub fn ask(driver: D) -> Result<Self, KfdError> {
        let mut argument = uapi::GetVersion::default();
        let call = uapi::GET_VERSION;
        // SAFETY: the argument is the request's and names no memory.
        let asked = unsafe { repeat(&driver, call.request, argument.as_mut_bytes()) };
        asked.map_err(|errno| KfdError::of_call(call.name, errno))?;
        let uapi::GetVersion { major, minor } = argument;
        if major != uapi::MAJOR {
            return Err(KfdError::OtherMajor { major, minor });
        }
        Ok(Self { driver, version: Version { major, minor } })
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Makes a call. `Ok(Err(_))` is what the driver answered, for whoever knows what that means.
    ///
    /// # Errors
    /// [`KfdError::TooOld`] if the driver has no such call; nothing was sent then.
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
        // SAFETY: the type is the call's, and the caller vouches for memory that it names.
        Ok(unsafe { repeat(&self.driver, call.request, argument.as_mut_bytes()) })
    }
}

/// Arguments of calls that are made again have at most so many bytes.
const ARGUMENT_BYTES_MAX: usize = 128;

/// Makes a call again when a signal interrupted it, with the argument as it was: the driver writes
/// to it after an error too, and a count that it left there may be more than there is room for.
///
/// # Safety
/// As [`Driver::ioctl`].
unsafe fn repeat(driver: &impl Driver, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
    let mut space = [0; ARGUMENT_BYTES_MAX];
    let Some(before) = space.get_mut(..argument.len()) else {
        // SAFETY: passed on.
        return unsafe { driver.ioctl(request, argument) };
    };
    before.copy_from_slice(argument);
    for _ in 0..INTERRUPTED_MAX {
        // SAFETY: passed on.
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
        assert_eq!(error, KfdError::OtherMajor { major: 2, minor: 0 });
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
