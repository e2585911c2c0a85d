//! Where the runtime comes from.

use std::ffi::{CStr, OsStr, OsString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use xsched_hal_process::environment::variable;
use xsched_hal_process::loader::{Library, RTLD_LAZY};

use crate::error::{HipError, Tried};
use crate::loaded;
use crate::raw::Table;

/// The variable of the environment that names the library to load, by its path or its name. If it
/// is set and not empty, nothing else is tried.
pub const LIBRARY_VARIABLE: &str = "XSCHED_HIP_LIB";

/// Names under which the runtime is installed, the newest first. The one without a number comes
/// with development packages only, and may lead to any version.
const NAMES: [&str; 4] =
    ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// A function by which HIP's interposer is known. It answers the path of the runtime behind it.
const OF_INTERPOSER: &CStr = c"xsched_shim_hip";

/// A function by which a runtime is known that is loaded already.
const OF_RUNTIME: &CStr = c"hipRuntimeGetVersion";

/// The path of the runtime behind an interposer, if the process has one.
fn behind_interposer() -> Option<OsString> {
    let there = loaded::symbol(OF_INTERPOSER, std::ptr::null())?;
    // SAFETY: no other library has a function of this name, which answers a text that ends with
    // zero and stays, or null.
    let path = unsafe {
        let ask =
            std::mem::transmute::<*mut c_void, extern "C" fn() -> *const c_char>(there.address);
        let path = ask();
        (!path.is_null()).then(|| CStr::from_ptr(path))?
    };
    Some(OsStr::from_bytes(path.to_bytes()).to_owned())
}

/// HIP's runtime, loaded, with its functions looked up once.
///
/// The library stays loaded until the process ends, because it has threads of its own that outlive
/// whatever is closed here.
#[derive(Debug)]
pub struct HipLibrary {
    table: Table,
    name: String,
}

impl HipLibrary {
    /// Takes what [`LIBRARY_VARIABLE`] names, or else the runtime that the process has loaded,
    /// under whatever name, since its streams are of that, and the one behind an interposer; or
    /// else loads the first of `libamdhip64.so.7`, `.so.6`, `.so.5` and `.so` that the system's
    /// loader finds.
    ///
    /// If several are loaded, the one that the program links or that is loaded for all counts, then
    /// the one that was loaded first.
    ///
    /// # Errors
    /// If none can be loaded, or the first that can lacks a function.
    pub fn find() -> Result<Arc<Self>, HipError> {
        if let Some(named) = variable(LIBRARY_VARIABLE) {
            let name = named.to_string_lossy().into_owned();
            // SAFETY: the user who sets the variable promises that it is a HIP runtime.
            let opened = unsafe { Self::open(&named) };
            return opened.map_err(|error| match error {
                HipError::NotFound { tried } => {
                    let why = tried.0.into_iter().map(|(_, why)| why).collect::<String>();
                    HipError::NamedNotFound { name, why }
                }
                other => other,
            });
        }
        if let Some(path) = behind_interposer() {
            // SAFETY: the interposer has opened it as HIP's runtime.
            return unsafe { Self::open(&path) };
        }
        if let Some(there) = loaded::symbol(OF_RUNTIME, std::ptr::null()) {
            // SAFETY: it is loaded, and has a function that only HIP's runtime has.
            match unsafe { Self::open(&there.library) } {
                // The program itself has it, and cannot be opened by its path.
                Err(HipError::NotFound { .. }) => {}
                other => return other,
            }
        }
        let mut tried = Tried::default();
        for name in NAMES {
            // SAFETY: these are the names of HIP's runtime.
            match unsafe { Self::open(name.as_ref()) } {
                Err(HipError::NotFound { tried: this }) => tried.0.extend(this.0),
                other => return other,
            }
        }
        Err(HipError::NotFound { tried })
    }

    /// Loads a library by its name or path.
    ///
    /// # Errors
    /// If it cannot be loaded or lacks a function.
    ///
    /// # Safety
    /// The file is HIP's runtime of version 5.2 or newer, or something with its interface.
    pub unsafe fn open(name: &OsStr) -> Result<Arc<Self>, HipError> {
        let shown = name.to_string_lossy().into_owned();
        // SAFETY: the caller promises that loading it does what loading HIP's runtime does.
        let library = match unsafe { Library::open(name, RTLD_LAZY) } {
            Ok(library) => library,
            Err(error) => {
                let tried = Tried(vec![(shown, error)]);
                return Err(HipError::NotFound { tried });
            }
        };
        // SAFETY: the caller promises that its functions are HIP's.
        match unsafe { Table::resolve(library) } {
            Ok(table) => Ok(Arc::new(Self { table, name: shown })),
            Err(symbol) => Err(HipError::SymbolMissing { symbol, library: shown }),
        }
    }

    /// Functions of the runtime.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// The name under which it was found.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The runtime's version: 10,000,000 times the major, 100,000 times the minor number, and the
    /// patch, as in 60,443,484. Works without a GPU.
    ///
    /// # Errors
    /// If the runtime refuses.
    pub fn version(&self) -> Result<u32, HipError> {
        let mut version = 0;
        // SAFETY: it may be written to.
        let code = unsafe { (self.table.hipRuntimeGetVersion)(&raw mut version) };
        HipError::check("hipRuntimeGetVersion", code)?;
        Ok(version.unsigned_abs())
    }

    /// How many GPUs there are; never 0.
    ///
    /// # Errors
    /// [`HipError::NoDevice`] if there is none, or what else the runtime says.
    pub fn devices(&self) -> Result<u32, HipError> {
        let mut count = 0;
        // SAFETY: it may be written to.
        let code = unsafe { (self.table.hipGetDeviceCount)(&raw mut count) };
        let result = HipError::check("hipGetDeviceCount", code);
        match result {
            Ok(()) if count > 0 => Ok(count.unsigned_abs()),
            Err(error) if !error.says_no_device() => Err(error),
            _ => Err(HipError::NoDevice { library: self.name.clone(), code }),
        }
    }
}
