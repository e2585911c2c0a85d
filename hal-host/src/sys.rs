//! The system calls, in a form that a signal handler may use.

#[cfg(not(loom))]
use std::ptr;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU32;

/// Nanoseconds of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` may be written to. The clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// The id of the calling thread. Always enters the kernel, so signals that are pending for the
/// thread are handled before it returns.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Sends a signal to a thread of this process.
pub(crate) fn signal_thread(thread: i32, signal: i32) -> std::io::Result<()> {
    // SAFETY: the call touches no memory; a thread that does not exist is an error.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
    if sent == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Sleeps while `word` is `value`, at most `timeout_ns` if given. May return early.
#[cfg(not(loom))]
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, timeout_ns: Option<u64>) {
    let timeout = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the timeout, if any, live as long as the call. Errors mean an early
    // return, which callers expect.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout) };
}

/// Wakes all threads that sleep on `word`.
#[cfg(not(loom))]
pub(crate) fn futex_wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is only used as an address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, libc::c_int::MAX) };
}

/// The `errno` of the calling thread.
///
/// Each access goes through the raw address: a reference to `errno` must not live across a call
/// that may write it.
struct Errno(*mut libc::c_int);

impl Errno {
    fn here() -> Self {
        // SAFETY: the call has no arguments and cannot fail.
        Self(unsafe { libc::__errno_location() })
    }

    fn get(&self) -> libc::c_int {
        // SAFETY: valid as long as the thread, which `self` cannot leave: it is not `Send`.
        unsafe { self.0.read() }
    }

    fn set(&self, errno: libc::c_int) {
        // SAFETY: see `get`.
        unsafe { self.0.write(errno) };
    }
}

/// Runs `body` and leaves `errno` as it was.
pub(crate) fn keeping_errno(body: impl FnOnce()) {
    let errno = Errno::here();
    let before = errno.get();
    body();
    errno.set(before);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn errno_survives_calls_that_write_it() {
        let errno = Errno::here();
        errno.set(libc::EXDEV);
        keeping_errno(|| {
            assert_eq!(errno.get(), libc::EXDEV);
            // There is no thread with this id.
            assert!(signal_thread(libc::c_int::MAX, 0).is_err());
            assert_ne!(errno.get(), libc::EXDEV);
        });
        assert_eq!(errno.get(), libc::EXDEV);
    }

    /// No test can see a reference that lives too long, and Miri does not run in `cargo test`: so
    /// none is made at all.
    #[test]
    fn no_reference_to_errno_is_made() {
        let source = include_str!("sys.rs");
        let code = source.split("mod tests").next().unwrap_or(source);
        let derefs = code.matches("*libc::__errno_location()").count();
        assert_eq!(derefs, 0, "errno is read and written through its address alone");
    }
}
