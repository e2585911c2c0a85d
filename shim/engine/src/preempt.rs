//! `libpreempt.so`, which schedules: the one that the process has, or else the one beside this
//! library, or in the folder above.
//!
//! It is opened at the first launch that is to be scheduled, and not before. A program that uses
//! XQueues itself has it already, so the process has one scheduler.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use xsched_hal_process::burst::BurstState;
use xsched_hal_process::calls::Calls;
use xsched_hal_process::loader::{self, Library};
use xsched_hal_process::message;

use crate::vendor::Preempt;
use crate::{Address, Code, activity, counts, direct, driver};

/// `XResult`.
pub(crate) type XResult = c_int;
/// `kXSchedSuccess`.
pub(crate) const SUCCESS: XResult = 0;
/// `kXSchedErrorNotFound`.
pub(crate) const ERROR_NOT_FOUND: XResult = 3;
/// `kXSchedErrorNotAllowed`.
pub(crate) const ERROR_NOT_ALLOWED: XResult = 4;

const NAME: &CStr = c"libpreempt.so";
/// Where the library says in which word it is whether scheduling is required. Null until it is
/// open.
static CONTENTION: AtomicPtr<AtomicPtr<AtomicU32>> = AtomicPtr::new(ptr::null_mut());

static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

/// The library's functions, which the first call looks for.
pub(crate) fn open() -> Option<&'static Functions> {
    let functions = FUNCTIONS.get_or_init(Functions::open);
    if functions.is_none() {
        activity::end();
    }
    functions.as_ref()
}

/// The library's functions, once it is in use.
pub(crate) fn functions() -> Option<&'static Functions> {
    FUNCTIONS.get()?.as_ref()
}

/// Returns whether the library was looked for and is not to be had.
pub(crate) fn is_missing() -> bool {
    FUNCTIONS.get().is_some_and(Option::is_none)
}

/// The library's functions, if scheduling is required now.
pub(crate) fn contended() -> Option<&'static Functions> {
    if is_contended() { functions() } else { None }
}

/// Returns whether a scheduler has a use for when the work of a stream begins or ends.
pub(crate) fn is_attended() -> bool {
    functions().is_none_or(|functions| is_set(functions.attended))
}

/// Returns whether a word is not 0 that the library names in this place.
#[inline]
fn is_set(place: &AtomicPtr<AtomicU32>) -> bool {
    // SAFETY: it is the address of a word that stays for ever.
    let word = unsafe { place.load(Ordering::Acquire).as_ref() };
    word.is_some_and(|word| word.load(Ordering::Acquire) != 0)
}

/// Returns whether scheduling is required now: something tells the streams of the process apart,
/// or the process from others.
#[inline]
pub(crate) fn is_contended() -> bool {
    // SAFETY: it is null, or the address of an atomic of the library, which stays as that does.
    unsafe { CONTENTION.load(Ordering::Acquire).as_ref() }.is_some_and(is_set)
}

/// The burst of an XQueue.
pub(crate) fn burst(xq: u64) -> Option<(&'static BurstState, u32)> {
    let functions = functions()?;
    let (mut state, mut number) = (ptr::null(), 0);
    // SAFETY: both may be written to.
    unsafe { (functions.burst)(xq, &raw mut state, &raw mut number) };
    // SAFETY: it is null, or a state that stays for ever, of a library of the same version.
    Some((unsafe { state.as_ref() }?, number))
}

/// Counts a call that may wait for a whole device, if scheduling is required now.
pub(crate) fn counted(call: impl FnOnce() -> Code) -> Code {
    let Some(functions) = contended() else { return call() };
    functions.calls.begin(direct::thread_number());
    let code = call();
    functions.calls.end();
    code
}

/// Bytes of a text that says why an XQueue has no higher level.
const WHY_MAX: usize = 1024;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:expr => ($($kind:ty),*);)*) => {
        /// Functions of the library that are called.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $($(#[$doc])* pub(crate) $name: unsafe extern "C" fn($($kind),*) -> XResult,)*
            last_error: unsafe extern "C" fn() -> *const c_char,
            library: Library,
            contention: &'static AtomicPtr<AtomicU32>,
            attended: &'static AtomicPtr<AtomicU32>,
            pub(crate) calls: &'static Calls,
        }

        impl Functions {
            fn find(library: Library, names: &Preempt) -> Option<Self> {
                $(
                    let address = library.find(($symbol)(names))?;
                    // SAFETY: the library has it with this signature: they are of one version.
                    let $name = unsafe {
                        std::mem::transmute::<Address, unsafe extern "C" fn($($kind),*) -> XResult>(
                            address,
                        )
                    };
                )*
                let address = library.find(c"XSchedGetLastErrorString")?;
                // SAFETY: as above.
                let last_error = unsafe {
                    std::mem::transmute::<Address, unsafe extern "C" fn() -> *const c_char>(address)
                };
                let place = |name| {
                    let address = library.find(name)?;
                    // SAFETY: as above.
                    let place = unsafe {
                        std::mem::transmute::<
                            Address,
                            unsafe extern "C" fn() -> *mut *mut AtomicU32,
                        >(address)
                    };
                    // SAFETY: it may be called at any time, and answers where an atomic of the
                    // library is, which stays as the library does.
                    Some(unsafe { AtomicPtr::from_ptr(place()) })
                };
                let contention = place(c"xsched_private_contention")?;
                let attended = place(c"xsched_private_attended")?;
                let address = library.find(c"xsched_private_calls")?;
                // SAFETY: as above.
                let calls = unsafe {
                    std::mem::transmute::<Address, unsafe extern "C" fn() -> *const Calls>(address)
                };
                // SAFETY: it may be called at any time, and answers what stays as the library does.
                let calls = unsafe { calls().as_ref() }?;
                Some(Self { $($name,)* last_error, library, contention, attended, calls })
            }
        }
    };
}

functions! {
    /// Says where the driver is.
    driver = |names: &Preempt| names.library => (*const c_char);
    /// Tells whether streams are to get XQueues: 1 or 0.
    interposed = |_: &Preempt| c"xsched_private_interposed" => ();
    /// The hardware queue of a stream of the current context.
    queue = |names: &Preempt| names.queue => (*mut u64, Address);
    /// The hardware queue that a stream has.
    queue_of = |_: &Preempt| c"xsched_private_stream_queue_get" => (*mut u64, Address);
    /// The XQueue that a hardware queue has.
    xqueue_of = |_: &Preempt| c"XQueueGet" => (*mut u64, u64);
    /// The XQueue of a hardware queue, which it gets unless it has one.
    auto_queue = |_: &Preempt| c"xsched_private_auto_queue" => (*mut u64, u64);
    /// Returns when it is an XQueue's turn, and this thread is to launch.
    begin_launch = |_: &Preempt| c"xsched_private_begin_launch" => (u64, u32, u32, *mut u64);
    /// The driver has answered a launch that was begun.
    end_launch = |_: &Preempt| c"xsched_private_end_launch" => (u64, c_int);
    /// The burst of an XQueue, and its number.
    burst = |_: &Preempt| c"xsched_private_burst" => (u64, *mut *const BurstState, *mut u32);
    /// Sets an XQueue's priority, that of its stream.
    priority = |_: &Preempt| c"xsched_private_stream_priority" => (u64, c_int);
    /// Writes the level of an XQueue, and in at most this number of bytes why it has no higher one.
    level = |_: &Preempt| c"xsched_private_level" => (u64, *mut c_int, *mut c_char, usize);
    /// Counts that the program has waited for the device for this number of nanoseconds.
    waited = |_: &Preempt| c"xsched_private_waited" => (u64);
    /// How many holds of an XQueue, and of the process by the scheduler of the node, have ended.
    holds_ended = |_: &Preempt| c"xsched_private_holds_ended" => (u64, *mut u64);
    /// Looks whether everything in an XQueue has run.
    look = |_: &Preempt| c"xsched_private_look" => (u64);
    /// Waits until everything in an XQueue has run.
    wait_all = |_: &Preempt| c"XQueueWaitAll" => (u64);
    /// Touches the stream of an XQueue no more until its next launch.
    seal = |_: &Preempt| c"xsched_private_seal" => (u64);
    /// Ends an XQueue and its hardware queue, whose stream ends in a place, at once.
    leave = |_: &Preempt| c"xsched_private_leave" => (u64, u64);
    /// Ends an XQueue, once what was launched has run.
    end_queue = |_: &Preempt| c"XQueueDestroy" => (u64);
    /// Ends a hardware queue.
    end_hardware = |_: &Preempt| c"HwQueueDestroy" => (u64);
    /// Writes 1 if nothing that went into an XQueue is to run yet.
    query = |_: &Preempt| c"XQueueQuery" => (u64, *mut c_int);
    /// No gate holds anything from now on.
    begin_wait = |_: &Preempt| c"xsched_private_begin_wait" => (*mut u64);
    /// The call has returned for which that was.
    end_wait = |_: &Preempt| c"xsched_private_end_wait" => (u64);
    /// Says where launches are counted that bypass XQueues, for ever.
    bypassed = |_: &Preempt| c"xsched_private_bypassed" => (*const u64);
    /// Forgets a context or a device.
    forget = |names: &Preempt| names.forget => (u64);
}

impl Functions {
    /// Opens the library, and tells it of the driver. `None` if it is not to be used, or cannot be,
    /// of which one line on standard error says why.
    pub(crate) fn open() -> Option<Self> {
        let opened = driver::opened()?;
        let driver = CString::new(opened.path().as_os_str().as_bytes()).ok()?;
        let library = library().or_else(|| {
            complain(&format!("no {} beside the interposer", NAME.to_string_lossy()));
            None
        })?;
        let Some(found) = Self::find(library, &opened.vendor().preempt) else {
            complain(&format!("{} is of another version", NAME.to_string_lossy()));
            return None;
        };
        // SAFETY: it may be called at any time.
        if unsafe { (found.interposed)() } == 0 {
            activity::leave_own_queues();
        }
        // SAFETY: the path ends with zero.
        if unsafe { (found.driver)(driver.as_ptr()) } != SUCCESS {
            found.complain_of_last();
            return None;
        }
        // SAFETY: this library is never unloaded, so the number stays. Without an answer the
        // scheduler of the node does not know the count.
        unsafe { (found.bypassed)(counts::all_bypassed()) };
        CONTENTION.store(ptr::from_ref(found.contention).cast_mut(), Ordering::Release);
        Some(found)
    }

    /// The address of a function of the library that not every vendor needs.
    pub(crate) fn function(&self, name: &CStr) -> Option<Address> {
        self.library.find(name)
    }

    /// How many holds of an XQueue, and of the process by the scheduler of the node, have ended.
    pub(crate) fn holds_ended_of(&self, xq: u64) -> u64 {
        let mut holds = 0;
        // SAFETY: the number may be written to.
        unsafe { (self.holds_ended)(xq, &raw mut holds) };
        holds
    }

    /// Why the last call of this thread that failed did.
    pub(crate) fn last_error(&self) -> String {
        // SAFETY: the text ends with zero, and stays until this thread's next call that fails.
        unsafe { CStr::from_ptr((self.last_error)()) }.to_string_lossy().into_owned()
    }

    /// Says once that the last call of this thread failed.
    pub(crate) fn complain_of_last(&self) {
        complain(&self.last_error());
    }

    /// The level of an XQueue, and why it has no higher one.
    pub(crate) fn level_of(&self, xq: u64) -> Option<(c_int, String)> {
        let (mut level, mut why) = (0, [0 as c_char; WHY_MAX]);
        // SAFETY: both may be written to, the text as far as it says.
        let code = unsafe { (self.level)(xq, &raw mut level, why.as_mut_ptr(), why.len()) };
        // SAFETY: the text ends with zero, as it does where nothing was written.
        let why = unsafe { CStr::from_ptr(why.as_ptr()) }.to_string_lossy().into_owned();
        (code == SUCCESS).then_some((level, why))
    }
}

fn complain(why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        let vendor = driver::opened().map_or("the vendor", |driver| driver.vendor().library.vendor);
        message::line(format_args!("xsched: a stream of {vendor} runs unscheduled: {why}"));
    }
}

/// The library, which is never closed.
fn library() -> Option<Library> {
    Library::loaded(NAME).or_else(|| {
        let own = own_path()?;
        let mut folders = own.ancestors().skip(1).take(2);
        folders.find_map(|folder| {
            let path = folder.join(NAME.to_str().ok()?);
            // SAFETY: what the library runs when it is loaded is its own.
            unsafe { Library::open(path.as_os_str(), loader::RTLD_NOW) }.ok()
        })
    })
}

/// Where this library is.
fn own_path() -> Option<PathBuf> {
    let about = loader::about((own_path as *const libc::c_void).addr())?;
    // SAFETY: the name ends with zero, and stays while this library is loaded.
    let name = unsafe { CStr::from_ptr(about.dli_fname) };
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}
