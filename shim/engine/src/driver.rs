//! The vendor's library, the driver: where it is, and the addresses of its functions.
//!
//! It is the library that the vendor's variable names, and no other if that is set. Else it is the
//! first that can be opened where `search` says.
//!
//! It is opened by its absolute path, which the loader compares with what is loaded by device and
//! inode, and not by SONAME. A candidate that is this library, or a copy of it, is known by the
//! vendor's marker and passed over. The loader's functions are those of the C library, and its
//! functions are the driver's, whatever another interposer answers: see [`loader`].

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::race::OnceBox;
use xsched_hal_process::environment::variable;
use xsched_hal_process::loader::{self, Library};
use xsched_hal_process::message;

use crate::counts::{self, Calls};
use crate::vendor::Vendor;
use crate::{Address, Code, activity, search};

/// The driver, once it is open, for ever.
#[derive(Debug)]
pub struct Driver {
    vendor: &'static Vendor,
    path: PathBuf,
    /// The addresses of its functions, or of what answers in the place of those that it lacks.
    real: Vec<Address>,
    /// Addresses that the stubs jump to: hooks, and the driver's functions.
    targets: Vec<Address>,
    /// Addresses of its functions and of the stubs, and their places in the list, sorted.
    places: Vec<(Address, usize)>,
    /// How often each of the functions was called.
    calls: Vec<Calls>,
}

// SAFETY: its addresses are those of functions, which every thread may call.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

static DRIVER: OnceBox<Driver> = OnceBox::new();

/// The driver, which the first call opens; `None` if there is none.
///
/// What several threads open at once is one library, so one [`Driver`] stays and the others go.
pub fn get(vendor: &'static Vendor) -> Option<&'static Driver> {
    if let Some(driver) = opened() {
        return Some(driver);
    }
    let first = match open(vendor) {
        Ok(driver) => DRIVER.set(Box::new(driver)).is_ok(),
        Err(why) => {
            complain(vendor, &why);
            return None;
        }
    };
    let driver = opened()?;
    if first {
        for (slot, target) in vendor.table.slots.iter().zip(&driver.targets) {
            slot.store(*target, Ordering::Release);
        }
        counts::start();
        activity::start(vendor.library.is_initialised_by_any);
    }
    Some(driver)
}

/// The driver, if a call has opened it.
#[must_use]
pub fn opened() -> Option<&'static Driver> {
    DRIVER.get()
}

/// The place of a function in the list; beyond all places if it is not in it.
#[must_use]
pub fn place_of(name: &CStr) -> usize {
    opened().and_then(|driver| driver.vendor.index(name)).unwrap_or(usize::MAX)
}

/// The driver's function at this place of the list.
#[must_use]
pub fn real(index: usize) -> Address {
    let real = opened().and_then(|driver| driver.real.get(index));
    real.copied().unwrap_or(unopened as Address)
}

/// Answers in the place of a function that the list lacks: that it was not found, with the number
/// that CUDA and HIP have for that.
extern "C" fn unopened() -> Code {
    500
}

impl Driver {
    /// The vendor.
    #[must_use]
    pub fn vendor(&self) -> &'static Vendor {
        self.vendor
    }

    /// How often each of the functions was called.
    pub(crate) fn calls(&self) -> &[Calls] {
        &self.calls
    }

    /// Returns the address that the stub at this place of the list jumps to.
    pub(crate) fn target(&self, index: usize) -> Address {
        self.targets.get(index).copied().unwrap_or(unopened as Address)
    }

    /// The place of the function with this address; `None` if the list lacks it.
    pub(crate) fn place(&self, address: Address) -> Option<usize> {
        let at = self.places.binary_search_by_key(&address, |(known, _)| *known).ok()?;
        self.places.get(at).map(|(_, index)| *index)
    }

    /// Returns the address to hand out for the function at this place: its stub, if it has a hook.
    pub(crate) fn instead(&self, index: usize) -> Option<Address> {
        let hooked = self.targets.get(index)? != self.real.get(index)?;
        self.vendor.table.stubs.get(index).filter(|_| hooked).map(|stub| *stub as Address)
    }

    /// The library's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn new(vendor: &'static Vendor, path: PathBuf, library: Library) -> Self {
        let table = &vendor.table;
        let mut places = Vec::with_capacity(2 * table.names.len());
        let mut real = Vec::with_capacity(table.names.len());
        for (index, name) in table.names.iter().enumerate() {
            let address = library.find(name);
            places.extend(address.map(|address| (address, index)));
            real.push(address.unwrap_or(vendor.library.lacking as Address));
        }
        // A driver may find the stubs where it looks for its own functions.
        let stubs = table.stubs.iter().enumerate();
        places.extend(stubs.map(|(index, stub)| (*stub as Address, index)));
        places.sort_unstable();
        let mut targets = real.clone();
        for (index, hook) in (table.hooks)() {
            if let Some(target) = targets.get_mut(index) {
                *target = hook;
            }
        }
        let calls = table.names.iter().map(|_| Calls::default()).collect();
        Self { vendor, path, real, targets, places, calls }
    }
}

/// Opens the driver, or says why not.
fn open(vendor: &'static Vendor) -> Result<Driver, String> {
    let library = &vendor.library;
    let opened = |path: PathBuf| match open_library(&path, library.marker)? {
        Some(opened) => Ok(Some(Driver::new(vendor, path, opened))),
        None => Ok(None),
    };
    let named = library.variable;
    if let Some(path) = variable(named).map(PathBuf::from) {
        let there = path.canonicalize();
        let there = there.map_err(|error| format!("{named} names {}: {error}", path.display()))?;
        return opened(there)?
            .ok_or_else(|| format!("{} is an interposer, and no driver", path.display()));
    }
    let soname = library.sonames.first().map_or("library", |soname| soname);
    let mut why = format!("no {soname} found; {}, or set {named}", library.advice);
    for search in [search::loaded, search::candidates] {
        for candidate in search(library) {
            // A path without links and from the root, so that the loader searches for nothing.
            let Ok(path) = candidate.canonicalize() else { continue };
            match opened(path) {
                Ok(Some(driver)) => return Ok(driver),
                Ok(None) => {}
                Err(error) => why = error,
            }
        }
    }
    Err(why)
}

/// Opens a library; `None` if it is an interposer.
fn open_library(path: &Path, marker: &CStr) -> Result<Option<Library>, String> {
    // SAFETY: what the library runs when it is loaded is the driver's.
    let library = unsafe { Library::open(path.as_os_str(), loader::RTLD_NOW) }?;
    if library.find(marker).is_none() {
        return Ok(Some(library));
    }
    // SAFETY: it was opened just now, and nothing of it is in use.
    unsafe { library.close() };
    Ok(None)
}

fn complain(vendor: &Vendor, why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        message::line(format_args!("xsched: {} cannot be used: {why}", vendor.library.title));
    }
}

/// Returns the function that answers without a driver.
pub(crate) fn answer_without(vendor: &Vendor, index: usize) -> Address {
    let name = vendor.table.names.get(index);
    name.map_or(unopened as Address, |name| (vendor.library.without)(name))
}
