//! What the host device's interposer, `libshimhost.so`, is made of; those of vendors' libraries are
//! made of `xsched-shim-engine`. It is preloaded into programs that know nothing of XQueues: a
//! stream that the program makes gets an XQueue as
//! `XSCHED_AUTO_XQUEUE` and its companions say, and what the program launches into it is handed
//! over to that.
//!
//! A launch returns when it was handed to the driver, and not before, as it would without the
//! interposer; so its arguments need not be copied, and whatever the program does with the stream
//! afterwards (events, waits, graphs) comes after it. If the scheduler holds the queue, or its
//! window is full, the launch takes that long, as one into a full stream does.
//!
//! It fails open: what the library refuses is launched past it. Unless `XSCHED_AUTO_XQUEUE` is `ON`
//! it hands everything on, and starts nothing.
#![expect(
    unsafe_code,
    reason = "it calls the library, and what comes after it in the search order"
)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{PoisonError, RwLock};

/// `XResult`.
pub type XResult = c_int;
/// `kXSchedSuccess`.
pub const SUCCESS: XResult = 0;
/// `kXSchedErrorHardware`.
const ERROR_HARDWARE: XResult = 1;
/// `kXSchedErrorNotFound`.
pub const NOT_FOUND: XResult = 3;

type LaunchCallback = unsafe extern "C" fn(hwq: u64, data: *mut c_void) -> XResult;

// The interposers link with `libpreempt.so`.
// SAFETY: these are declared as `libpreempt.so` defines them.
unsafe extern "C" {
    fn xsched_private_interposed() -> c_int;
    fn xsched_private_loaded(name: *const c_char, not: *const c_void) -> *mut c_void;
    fn xsched_private_auto_queue(xq: *mut u64, hwq: u64) -> XResult;
    fn xsched_private_launch(
        xq: u64,
        kind: u32,
        launch: Option<LaunchCallback>,
        data: *mut c_void,
    ) -> XResult;
    fn XQueueDestroy(xq: u64) -> XResult;
    fn XHintPriority(xq: u64, priority: c_int) -> XResult;
    fn XSchedGetLastErrorString() -> *const c_char;
}

/// A function that an interposer stands in front of, looked up once: that of the library that comes
/// after it in the search order. A library that was loaded for its loader alone (`RTLD_LOCAL`) is
/// not in that order, though its calls are interposed; then it is that of the first library loaded
/// that has one.
#[derive(Debug)]
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// The function with this name.
    #[must_use]
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; `None` if no library has one.
    #[must_use]
    pub fn address(&self) -> Option<*mut c_void> {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return Some(known);
        }
        // SAFETY: the name ends with zero.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            let own = Self::address as *const c_void;
            // SAFETY: the name ends with zero.
            found = unsafe { xsched_private_loaded(self.name.as_ptr(), own) };
        }
        self.found.store(found, Ordering::Relaxed);
        (!found.is_null()).then_some(found)
    }
}

/// A stream's queues.
#[derive(Clone, Copy, Debug)]
struct Queues {
    hwq: u64,
    xq: u64,
}

/// The streams, or whatever else a program launches into, that have an XQueue.
#[derive(Debug, Default)]
pub struct Streams {
    known: RwLock<Option<HashMap<u64, Queues>>>,
    said_so: AtomicBool,
}

impl Streams {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { known: RwLock::new(None), said_so: AtomicBool::new(false) }
    }

    /// Gives a new stream an XQueue, if the environment asks for one; if not, nothing happens.
    /// `make` makes its hardware queue; `priority` counts unless `XSCHED_AUTO_XQUEUE_PRIORITY` is
    /// set. If that fails, it is said once on standard error, and the stream stays as it is.
    ///
    /// Returns the hardware queue if it got no XQueue. The caller destroys it if the caller made
    /// it.
    pub fn attach(
        &self,
        stream: u64,
        priority: c_int,
        make: impl FnOnce(*mut u64) -> XResult,
    ) -> Option<u64> {
        let (mut hwq, mut xq) = (0, 0);
        // SAFETY: it may be called at any time.
        if unsafe { xsched_private_interposed() } == 0 {
            return None;
        }
        if make(&raw mut hwq) != SUCCESS {
            self.complain();
            return None;
        }
        // SAFETY: the handle may be written to.
        if unsafe { xsched_private_auto_queue(&raw mut xq, hwq) } != SUCCESS {
            self.complain();
            return Some(hwq);
        }
        if xq == 0 {
            return Some(hwq);
        }
        if priority != 0 && std::env::var_os("XSCHED_AUTO_XQUEUE_PRIORITY").is_none() {
            // SAFETY: any handle and number may be given.
            unsafe { XHintPriority(xq, priority) };
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().insert(stream, Queues { hwq, xq });
        None
    }

    fn complain(&self) {
        if self.said_so.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: the text ends with zero, and stays until this thread's next call that fails.
        let why = unsafe { CStr::from_ptr(XSchedGetLastErrorString()) };
        eprintln!("xsched: a stream runs unscheduled: {}", why.to_string_lossy());
    }

    /// Destroys the XQueue of a stream that is about to end, after everything in it has run.
    /// Returns the hardware queue, which the caller destroys if the caller made it.
    pub fn detach(&self, stream: u64) -> Option<u64> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let queues = known.as_mut()?.remove(&stream)?;
        drop(known);
        // SAFETY: any handle may be given.
        unsafe { XQueueDestroy(queues.xq) };
        Some(queues.hwq)
    }

    /// The XQueue of a stream, if it has one.
    #[must_use]
    pub fn queue(&self, stream: u64) -> Option<u64> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref()?.get(&stream).map(|queues| queues.xq)
    }

    /// Launches something into a stream: through its XQueue if it has one, else at once. What
    /// `launch` answered; 0 is success. If the command was dropped, that is 0 as well.
    pub fn launch(&self, stream: u64, launch: impl FnOnce() -> c_int) -> c_int {
        let Some(xq) = self.queue(stream) else { return launch() };
        let mut call = Call { launch: Some(launch), code: None };
        let submitted = call.submit(xq);
        match (call.code, call.launch.take()) {
            (Some(code), _) => code,
            // The library refused it, for example because the process is a fork's child.
            (None, Some(launch)) if submitted != SUCCESS => launch(),
            (None, _) => 0,
        }
    }
}

/// A launch that is handed over, and what came of it.
struct Call<F> {
    launch: Option<F>,
    code: Option<c_int>,
}

impl<F: FnOnce() -> c_int> Call<F> {
    /// Returns when it was launched, or never will be.
    fn submit(&mut self, xq: u64) -> XResult {
        let data: *mut c_void = (&raw mut *self).cast();
        // SAFETY: any handle may be given, and the function may be called with `self` until this
        // returns, which it is on this thread.
        unsafe { xsched_private_launch(xq, 0, Some(Self::run), data) }
    }

    /// # Safety
    /// `data` is the call, and nothing else uses it meanwhile.
    unsafe extern "C" fn run(_: u64, data: *mut c_void) -> XResult {
        // SAFETY: as the caller promises.
        let call = unsafe { &mut *data.cast::<Self>() };
        let Some(launch) = call.launch.take() else { return ERROR_HARDWARE };
        let code = launch();
        call.code = Some(code);
        if code == 0 { SUCCESS } else { ERROR_HARDWARE }
    }
}
