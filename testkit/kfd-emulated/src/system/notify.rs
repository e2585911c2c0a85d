//! Calls that arrive, and their answers.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// A call of a child, which waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Number that the kernel uses for it.
    pub(super) id: u64,
    /// The thread.
    pub(super) thread: u32,
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

/// The file on which calls arrive.
#[derive(Debug)]
pub(super) struct Listener(pub(super) OwnedFd);

/// Answer to give.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// The kernel carries the call out as if there were no filter.
    GoOn,
    Result(Result<u32, Errno>),
}

impl Listener {
    fn ioctl<T>(&self, request: libc::Ioctl, argument: &mut T) -> io::Result<i32> {
        // SAFETY: every request here is used with the kernel's own type for it.
        let done =
            unsafe { libc::ioctl(self.0.as_raw_fd(), request, std::ptr::from_mut(argument)) };
        if done >= 0 { Ok(done) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes a call. `None` if the thread that made it has ended.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn take(&self) -> io::Result<Option<Call>> {
        // SAFETY: integers, for which zero is valid; the kernel requires zero.
        let mut notif: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        match self.ioctl(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut notif) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        Ok(Some(Call {
            id: notif.id,
            thread: notif.pid,
            number: i64::from(notif.data.nr),
            arguments: notif.data.args,
        }))
    }

    /// True if the call still waits: its thread may have been killed.
    pub(super) fn waits(&self, id: u64) -> bool {
        let mut id = id;
        self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id).is_ok()
    }

    /// Answers a call. One that does not wait any more needs no answer.
    pub(super) fn answer(&self, id: u64, answer: Answer) {
        let (val, error, flags) = match answer {
            Answer::GoOn => (0, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Result(Ok(value)) => (i64::from(value), 0, 0),
            Answer::Result(Err(errno)) => (0, -errno.raw_os_error(), 0),
        };
        let mut response = libc::seccomp_notif_resp { id, val, error, flags };
        // It fails only if no thread waits for the answer.
        let _ = self.ioctl(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response);
    }

    /// Puts a file into the process that waits, and says under which number. `answers` makes that
    /// the call's answer as well.
    ///
    /// # Errors
    /// If it can have no more, or is gone.
    pub(super) fn give(
        &self,
        id: u64,
        file: BorrowedFd<'_>,
        closes_on_exec: bool,
        answers: bool,
    ) -> Result<u32, Errno> {
        let mut request = libc::seccomp_notif_addfd {
            id,
            flags: if answers { libc::SECCOMP_ADDFD_FLAG_SEND as u32 } else { 0 },
            srcfd: file.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: if closes_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        let given = self.ioctl(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut request);
        let given = given
            .map_err(|error| error.raw_os_error().map_or(Errno::BADF, Errno::from_raw_os_error))?;
        Ok(given.cast_unsigned())
    }
}
