//! State that this process was started with, before Rust's standard library changed it.
//!
//! The library ignores SIGPIPE, has a program that this process becomes end by it, whatever was
//! before, and opens `/dev/null` for what is closed of standard input, output and error.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// True if SIGPIPE was ignored.
static IGNORES_PIPE: AtomicBool = AtomicBool::new(false);
/// Bits of the descriptors below 3 that were closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Has the loader call [`note`] before `main`.
// SAFETY: the section holds pointers to such functions.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set, and the answer may be written to; all zeros are an action as well.
    let action = unsafe {
        libc::sigaction(libc::SIGPIPE, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    IGNORES_PIPE.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    // SAFETY: any number may be asked for.
    let is_closed = |descriptor: &i32| unsafe { libc::fcntl(*descriptor, libc::F_GETFD) } < 0;
    let bits = (0..3).filter(is_closed).fold(0, |bits, descriptor| bits | 1 << descriptor);
    CLOSED.store(bits, Ordering::Relaxed);
}

/// Becomes a program, with the disposition of SIGPIPE and the open descriptors that this process
/// was started with. Returns only if that fails. For a program's own code: in a library this has
/// seen the state when the library was loaded.
#[must_use]
pub fn exec(command: &mut Command) -> io::Error {
    let (ignores, closed) = (IGNORES_PIPE.load(Ordering::Relaxed), CLOSED.load(Ordering::Relaxed));
    let restore = move || {
        if ignores {
            // SAFETY: no handler is set.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        for descriptor in (0..3).filter(|descriptor| closed >> descriptor & 1 == 1) {
            // SAFETY: Rust's library has opened it, and nothing of this process runs any more.
            unsafe { libc::close(descriptor) };
        }
        Ok(())
    };
    // SAFETY: it calls what may be called between a fork and the start of a program.
    unsafe { command.pre_exec(restore) };
    command.exec()
}
