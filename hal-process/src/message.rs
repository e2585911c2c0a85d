//! Messages to standard error, which may be closed, full, or a pipe without a reader.
//!
//! A message must not end the program, nor wait: its thread may have a lock that the reader waits
//! for. So what cannot be written at once is left out. Signals that a write may cause are
//! kept from the program by the thread's mask, and no disposition is changed: that is the whole
//! process's.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Standard error.
const STDERR: i32 = 2;
/// Signals that a write may cause, and the error that comes with each: there is no reader, a file
/// would get too large, and a process in the background writes to its terminal. The last comes
/// without an error, and not while it is blocked.
const SIGNALS: [(i32, i32); 3] =
    [(libc::SIGPIPE, libc::EPIPE), (libc::SIGXFSZ, libc::EFBIG), (libc::SIGTTOU, 0)];

/// Writes to standard error as messages are. A writer that never fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

impl io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line to standard error.
pub fn line(text: fmt::Arguments<'_>) {
    write(format!("{text}\n").as_bytes());
}

/// Writes bytes to standard error, as many as it takes at once.
fn write(bytes: &[u8]) {
    // SAFETY: errno's place is the calling thread's for as long as it lives.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    for part in bytes.chunks(libc::PIPE_BUF) {
        if !is_writable() {
            break;
        }
        without_signals(|| {
            // SAFETY: the bytes may be read. A program that has closed the descriptor gets an
            // error.
            let written = unsafe { libc::write(STDERR, part.as_ptr().cast(), part.len()) };
            // SAFETY: as above.
            if written < 0 { unsafe { errno.read() } } else { 0 }
        });
    }
    // SAFETY: as above.
    unsafe { errno.write(before) };
}

/// Returns whether a write of at most `PIPE_BUF` bytes returns at once.
fn is_writable() -> bool {
    let mut asked = libc::pollfd { fd: STDERR, events: libc::POLLOUT, revents: 0 };
    // SAFETY: it is one descriptor, which may be written to.
    let answers = unsafe { libc::poll(&raw mut asked, 1, 0) };
    answers == 1 && asked.revents == libc::POLLOUT
}

/// Calls something that answers its error number, and takes the signal that came with it from this
/// thread.
fn without_signals(call: impl FnOnce() -> i32) {
    let all = set_of(SIGNALS.iter().map(|(signal, _)| *signal));
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let mut pending = set_of([]);
    // SAFETY: both sets may be read or written to, and this thread's mask is put back below.
    unsafe {
        libc::sigpending(&raw mut pending);
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, before.as_mut_ptr()) != 0 {
            return;
        }
    }
    let error = call();
    for (signal, _) in SIGNALS.iter().filter(|(_, with)| *with == error && error != 0) {
        // SAFETY: it is a set.
        if unsafe { libc::sigismember(&raw const pending, *signal) } == 0 {
            let one = set_of([*signal]);
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the set and the time may be read; nothing is to be known of the signal.
            unsafe { libc::sigtimedwait(&raw const one, ptr::null_mut(), &raw const now) };
        }
    }
    // SAFETY: it was written to above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
}

fn set_of(signals: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: it may be written to, and is a set from then on; the signals are the C library's.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}
