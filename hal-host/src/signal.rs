//! The signal that stops commands, and the threads that it is sent to.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::{io, mem, ptr};

use crate::error::HostError;
use crate::gate::Gate;
use crate::sys;

thread_local! {
    /// The gate of the hardware queue that this thread runs, or null. Constant and without a
    /// destructor, so the handler may read it.
    static GATE: Cell<*const Gate> = const { Cell::new(ptr::null()) };
}

/// Serializes installing.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Signals that the kernel raises for a fault of the thread itself. Blocking them would hide
/// crashes.
const OWN_FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT];

extern "C" fn handler(_: libc::c_int) {
    sys::keeping_errno(|| {
        let gate = GATE.try_with(Cell::get).unwrap_or(ptr::null());
        // SAFETY: a pointer that is not null was put there by `Executing`, which outlives it and
        // belongs to this thread.
        if let Some(gate) = unsafe { gate.as_ref() } {
            gate.on_signal();
        }
    });
}

/// Installs the handler for `SIGRTMIN + offset` unless it is there, and gives the signal's number.
pub(crate) fn install(offset: u32) -> Result<libc::c_int, HostError> {
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    let max = u32::try_from(last - first).unwrap_or(0);
    let signal = match libc::c_int::try_from(offset) {
        Ok(n) if offset <= max => first + n,
        _ => return Err(HostError::NoSuchSignal { offset, max }),
    };
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    match disposition(signal)? {
        there if there == ours() => Ok(signal),
        libc::SIG_DFL => put_handler(signal, offset),
        _ => Err(HostError::SignalTaken { signal, offset }),
    }
}

fn ours() -> libc::sighandler_t {
    let handler: extern "C" fn(libc::c_int) = handler;
    handler as libc::sighandler_t
}

fn disposition(signal: libc::c_int) -> Result<libc::sighandler_t, HostError> {
    let mut there = no_action();
    // SAFETY: `there` may be written to; nothing is installed.
    if unsafe { libc::sigaction(signal, ptr::null(), &raw mut there) } != 0 {
        return Err(HostError::Handler(io::Error::last_os_error()));
    }
    Ok(there.sa_sigaction)
}

fn put_handler(signal: libc::c_int, offset: u32) -> Result<libc::c_int, HostError> {
    let (mut action, mut before) = (no_action(), no_action());
    action.sa_sigaction = ours();
    action.sa_flags = libc::SA_RESTART;
    action.sa_mask = all_but_own_faults();
    // SAFETY: the handler has the type that goes without SA_SIGINFO, and does only what a handler
    // may: atomics, a constant thread local, `errno`, the clock and the futex.
    if unsafe { libc::sigaction(signal, &raw const action, &raw mut before) } != 0 {
        return Err(HostError::Handler(io::Error::last_os_error()));
    }
    if before.sa_sigaction != libc::SIG_DFL {
        // Other code installed a handler in between.
        // SAFETY: puts that handler back.
        unsafe { libc::sigaction(signal, &raw const before, ptr::null_mut()) };
        return Err(HostError::SignalTaken { signal, offset });
    }
    Ok(signal)
}

fn no_action() -> libc::sigaction {
    // SAFETY: zero is valid in all fields: SIG_DFL, no flags, an empty mask, no restorer.
    unsafe { mem::zeroed() }
}

fn no_signals() -> libc::sigset_t {
    // SAFETY: an integer array, for which zero is valid.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` may be written to.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}

fn all_but_own_faults() -> libc::sigset_t {
    let mut set = no_signals();
    // SAFETY: `set` may be written to.
    unsafe { libc::sigfillset(&raw mut set) };
    for signal in OWN_FAULTS {
        // SAFETY: `set` may be written to, and the signal exists.
        unsafe { libc::sigdelset(&raw mut set, signal) };
    }
    set
}

/// Blocks all signals of the thread that made it, and of threads that this one starts, until it is
/// dropped.
#[derive(Debug)]
pub(crate) struct Blocked {
    before: libc::sigset_t,
    /// The mask is one thread's, so this must not move to another one.
    thread: PhantomData<*const ()>,
}

impl Blocked {
    pub(crate) fn new() -> Self {
        let (all, mut before) = (all_but_own_faults(), no_signals());
        // SAFETY: both sets are valid, `before` may be written to.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
        Self { before, thread: PhantomData }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the mask that this thread had before.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}

/// Lets `signal` stop the thread that made it, through `gate`, until it is dropped.
#[derive(Debug)]
pub(crate) struct Executing<'a> {
    gate: PhantomData<&'a Gate>,
    /// The gate is known to one thread, so this must not move to another one.
    thread: PhantomData<*const ()>,
}

impl<'a> Executing<'a> {
    pub(crate) fn new(gate: &'a Gate, signal: libc::c_int) -> Self {
        GATE.set(ptr::from_ref(gate));
        let mut set = no_signals();
        // SAFETY: `set` may be written to, and the signal was installed, so it exists.
        unsafe { libc::sigaddset(&raw mut set, signal) };
        // SAFETY: the set is valid, and the handler is installed.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
        Self { gate: PhantomData, thread: PhantomData }
    }
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        GATE.set(ptr::null());
    }
}
