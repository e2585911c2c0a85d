//! `libpreempt.so`, which schedules: the one that the process has, or else the one beside this
//! library, or in the folder above.
//!
//! It is opened at the first launch that is to be scheduled, and not before. A program that uses
//! XQueues itself has it already, so the process has one scheduler.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::vendor::Preempt;
use crate::{Address, counts, driver};

/// `XResult`.
pub(crate) type XResult = c_int;
/// `kXSchedSuccess`.
pub(crate) const SUCCESS: XResult = 0;
/// `kXSchedErrorNotFound`.
pub(crate) const ERROR_NOT_FOUND: XResult = 3;
/// `kXSchedErrorHardware`.
pub(crate) const ERROR_HARDWARE: XResult = 1;

const NAME: &CStr = c"libpreempt.so";
/// Bytes of a text that says why an XQueue has no higher level.
const WHY_MAX: usize = 1024;

/// A launch, called with its XQueue's hardware queue and its data.
pub(crate) type Launch = unsafe extern "C" fn(hwq: u64, data: Address) -> XResult;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:expr => ($($kind:ty),*);)*) => {
        /// What is called of the library.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $($(#[$doc])* pub(crate) $name: unsafe extern "C" fn($($kind),*) -> XResult,)*
            last_error: unsafe extern "C" fn() -> *const c_char,
            library: usize,
            apart: &'static AtomicU32,
            node: &'static AtomicPtr<AtomicU32>,
        }

        impl Functions {
            fn find(library: Address, names: &Preempt) -> Option<Self> {
                $(
                    let address = symbol(library, ($symbol)(names))?;
                    // SAFETY: the library has it with this signature: they are of one version.
                    let $name = unsafe {
                        std::mem::transmute::<Address, unsafe extern "C" fn($($kind),*) -> XResult>(
                            address,
                        )
                    };
                )*
                let address = symbol(library, c"XSchedGetLastErrorString")?;
                // SAFETY: as above.
                let last_error = unsafe {
                    std::mem::transmute::<Address, unsafe extern "C" fn() -> *const c_char>(address)
                };
                let address = symbol(library, c"xsched_private_apart")?;
                // SAFETY: as above.
                let apart = unsafe {
                    std::mem::transmute::<Address, unsafe extern "C" fn() -> *mut u32>(address)
                };
                // SAFETY: it may be called at any time, and answers where an atomic of the library
                // is, which stays as the library does.
                let apart = unsafe { AtomicU32::from_ptr(apart()) };
                let address = symbol(library, c"xsched_private_node")?;
                // SAFETY: as above.
                let node = unsafe {
                    std::mem::transmute::<Address, unsafe extern "C" fn() -> *mut *mut AtomicU32>(
                        address,
                    )
                };
                // SAFETY: as above.
                let node = unsafe { AtomicPtr::from_ptr(node()) };
                let library = library.expose_provenance();
                Some(Self { $($name,)* last_error, library, apart, node })
            }
        }
    };
}

functions! {
    /// Says where the driver is.
    driver = |names: &Preempt| names.library => (*const c_char);
    /// Whether streams are to get XQueues: 1 or 0.
    interposed = |_: &Preempt| c"xsched_private_interposed" => ();
    /// The hardware queue of a stream of the current context.
    queue = |names: &Preempt| names.queue => (*mut u64, Address);
    /// The XQueue of a hardware queue.
    auto_queue = |_: &Preempt| c"xsched_private_auto_queue" => (*mut u64, u64);
    /// Launches when it is an XQueue's turn.
    launch = |_: &Preempt| c"xsched_private_launch" => (u64, u32, Launch, Address);
    /// The same for what goes into other hardware queues as well.
    launch_reaching = |_: &Preempt| c"xsched_private_launch_reaching"
        => (u64, u32, u32, Launch, Address);
    /// Sets an XQueue's priority, that of its stream.
    priority = |_: &Preempt| c"xsched_private_stream_priority" => (u64, c_int);
    /// The level of an XQueue, and in so many bytes why it has no higher one.
    level = |_: &Preempt| c"xsched_private_level" => (u64, *mut c_int, *mut c_char, usize);
    /// Counts that the program has waited for the device for so long, in nanoseconds.
    waited = |_: &Preempt| c"xsched_private_waited" => (u64);
    /// Looks whether everything in an XQueue has run.
    look = |_: &Preempt| c"xsched_private_look" => (u64);
    /// Waits until everything in an XQueue has run.
    wait_all = |_: &Preempt| c"XQueueWaitAll" => (u64);
    /// Ends an XQueue, once what was launched has run.
    end_queue = |_: &Preempt| c"XQueueDestroy" => (u64);
    /// Ends a hardware queue.
    end_hardware = |_: &Preempt| c"HwQueueDestroy" => (u64);
    /// Whether nothing that went into an XQueue is to run yet: writes 1 then.
    query = |_: &Preempt| c"XQueueQuery" => (u64, *mut c_int);
    /// Calls a function while no gate holds anything.
    wait = |_: &Preempt| c"xsched_private_wait" => (unsafe extern "C" fn(Address), Address);
    /// Says where launches are counted that go past, for ever.
    past = |_: &Preempt| c"xsched_private_past" => (*const u64);
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
            return None;
        }
        // SAFETY: the path ends with zero.
        if unsafe { (found.driver)(driver.as_ptr()) } != SUCCESS {
            found.complain_of_last();
            return None;
        }
        // SAFETY: this library is never unloaded, so the number stays. Without an answer the
        // scheduler of the node does not know the count.
        unsafe { (found.past)(counts::all_past()) };
        Some(found)
    }

    /// The address of a function of the library that not every vendor needs.
    pub(crate) fn function(&self, name: &CStr) -> Option<Address> {
        symbol(std::ptr::with_exposed_provenance_mut(self.library), name)
    }

    /// Whether something tells the streams of the process apart, or the process from others.
    pub(crate) fn are_apart(&self) -> bool {
        // SAFETY: it is null, or a word that stays for ever.
        let node = || unsafe { self.node.load(Ordering::Acquire).as_ref() };
        self.apart.load(Ordering::Acquire) != 0
            || node().is_some_and(|word| word.load(Ordering::Acquire) != 0)
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
        eprintln!("xsched: a stream of {vendor} runs unscheduled: {why}");
    }
}

fn symbol(library: Address, name: &CStr) -> Option<Address> {
    // SAFETY: the library is open, and the name ends with zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The library's handle, which is never closed.
fn library() -> Option<Address> {
    let open = |name: &CStr, flags| {
        // SAFETY: the name ends with zero. What the library runs when it is loaded is its own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | flags) };
        (!handle.is_null()).then_some(handle)
    };
    let there = open(NAME, libc::RTLD_NOLOAD);
    there.or_else(|| {
        let own = own_path()?;
        let mut folders = own.ancestors().skip(1).take(2);
        folders.find_map(|folder| {
            let path = folder.join(NAME.to_str().ok()?);
            open(&CString::new(path.into_os_string().into_vec()).ok()?, libc::RTLD_LOCAL)
        })
    })
}

/// Where this library is.
fn own_path() -> Option<PathBuf> {
    let mut about = MaybeUninit::<libc::Dl_info>::uninit();
    let here = own_path as *const libc::c_void;
    // SAFETY: it may be asked for any address, and what it writes to is ours.
    if unsafe { libc::dladdr(here, about.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: it was written. The name ends with zero, and stays while this library is loaded.
    let name = unsafe { CStr::from_ptr(about.assume_init().dli_fname) };
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}
