//! Differences between the vendors' libraries.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::AtomicPtr;

use crate::errors::LastError;
use crate::kind::Reach;
use crate::{Address, Code};

/// Treatment of a function; the list of functions explains the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Work of a stream.
    Launch,
    /// Stays in order with the stream's launches.
    Ordered,
    /// May wait for the device.
    Waits,
    /// Begins or ends something.
    Lifetime,
    /// None of these.
    Forwarded,
}

/// Way in which a launch tells the program that something has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    /// None.
    Nothing,
    /// Returns only then.
    ByReturning,
    /// Has the device call a function of the program.
    ByCalling,
}

/// A vendor's library, and what its interposer does with it.
#[derive(Debug)]
pub struct Vendor {
    /// The functions.
    pub table: Table,
    /// The library.
    pub library: Library,
    /// Questions to the library.
    pub questions: Questions,
    /// The names of the functions of `libpreempt.so` for this vendor.
    pub preempt: Preempt,
}

/// The functions of the list, each at its place, sorted by name.
#[derive(Debug)]
pub struct Table {
    /// Names of the functions.
    pub names: &'static [&'static CStr],
    /// Classes of the functions.
    pub classes: &'static [Class],
    /// How those that launch tell the program that something has run.
    pub tells: &'static [Tells],
    /// Addresses that the stubs jump to.
    pub slots: &'static [AtomicPtr<c_void>],
    /// The exported functions.
    pub stubs: &'static [unsafe extern "C" fn()],
    /// Places in the list, and what is called instead of the library's function.
    pub hooks: fn() -> Vec<(usize, Address)>,
    /// Returns the hardware queues that the launch by the function at a place goes into, whatever
    /// its arguments.
    pub reach: fn(usize) -> Reach,
    /// Prefixes of the names that are left out.
    pub left_out: &'static [&'static str],
    /// Prefixes of the names of the library's functions.
    pub prefixes: &'static [&'static str],
}

/// Where the library is, and what answers in its place.
#[derive(Debug)]
pub struct Library {
    /// Name of the library in messages, with its vendor.
    pub title: &'static str,
    /// Name of the vendor in messages.
    pub vendor: &'static str,
    /// Advice for a user who lacks the library.
    pub advice: &'static str,
    /// The variable that names its file.
    pub variable: &'static str,
    /// Names of the library for the loader, those that are tried first in front.
    pub sonames: &'static [&'static str],
    /// True if programs bring the library along, so that it is looked for as their files say.
    pub comes_with_programs: bool,
    /// True if any call may initialise it, so that a child of a fork cannot use it afterwards.
    /// Otherwise the vendor's interposer says when it is.
    pub is_initialised_by_any: bool,
    /// Where it is on distributions and in containers.
    pub folders: &'static [&'static str],
    /// The function that every interposer of this vendor exports, and no library does.
    pub marker: &'static CStr,
    /// Answers in the place of a function that the library lacks.
    pub lacking: extern "C" fn() -> Code,
    /// Returns what answers without a library, for a function of the list.
    pub without: fn(&CStr) -> Address,
}

/// Questions to the library. Nothing is asked before it is open.
#[derive(Debug)]
pub struct Questions {
    /// Returns what stands for the default stream that a launch of this thread would go to, and is
    /// no stream's handle; `None` if there is none now.
    pub default_stream: fn() -> Option<usize>,
    /// A stream's priority; a lower number is more urgent.
    pub priority: fn(Address) -> c_int,
    /// The context of a stream, by its address; of null it is the current one. 0 if it is not
    /// known, or if the vendor's streams are of devices.
    pub context: fn(Address) -> usize,
    /// The device of a stream, or, for null, of this thread; −1 if there is none.
    pub device: fn(Address) -> c_int,
    /// Returns whether a stream is being captured. If the library does not say, it is.
    pub is_captured: fn(Address) -> bool,
    /// Returns whether the legacy default stream waits for this one; true if the library does not
    /// say.
    pub is_blocking: fn(Address) -> bool,
    /// Sets this thread's capture mode, and answers the one before.
    pub exchange_mode: fn(c_int) -> c_int,
    /// The last error, if the library keeps one for each thread.
    pub last_error: Option<LastError>,
}

/// The names of functions of `libpreempt.so`.
#[derive(Debug)]
pub struct Preempt {
    /// Says where the vendor's library is.
    pub library: &'static CStr,
    /// The hardware queue of a stream.
    pub queue: &'static CStr,
    /// Forgets a context, or a device if the vendor's streams are of devices.
    pub forget: &'static CStr,
}

impl Vendor {
    /// The place of a function in the list; `None` if it is not in it.
    #[must_use]
    pub fn index(&self, name: &CStr) -> Option<usize> {
        self.table.names.binary_search(&name).ok()
    }

    /// Returns whether the list says of a name that it is left out.
    pub(crate) fn is_left_out(&self, name: &str) -> bool {
        self.table.left_out.iter().any(|prefix| name.starts_with(prefix))
    }
}
