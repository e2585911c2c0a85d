//! CUDA's driver: where it is, and the addresses of its functions.
//!
//! It is the library that `XSCHED_CUDA_DRIVER` names, and no other if that is set. Else it is the
//! first that can be opened of `libcuda.so.1` in the folders of `LD_LIBRARY_PATH`, in the loader's
//! cache, and in [`FOLDERS`]. What a program's RPATH says does not count.
//!
//! It is opened by its absolute path, which the loader compares with what is loaded by device and
//! inode, and not by SONAME. A candidate that is this library, or a copy of it, is known by
//! [`xsched_shim_cuda`] and passed over.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use once_cell::race::OnceBox;

use crate::environment::variable;
use crate::table::{COUNT, NAMES, STUBS};
use crate::{Address, Code, cache, counts, engine, hooks, stubs};

/// Names the driver's library.
const VARIABLE: &str = "XSCHED_CUDA_DRIVER";
const SONAME: &str = "libcuda.so.1";
/// Where drivers are, on distributions, in containers and in WSL.
const FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/cuda/compat",
];
/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID_VALUE: Code = 1;
/// `CUDA_ERROR_STUB_LIBRARY`.
const STUB_LIBRARY: Code = 34;
/// `CUDA_ERROR_NOT_FOUND`.
const NOT_FOUND: Code = 500;

/// By this function an interposer knows another one, and itself. It answers the version of what
/// these agree on.
// SAFETY: no other library has this name.
#[unsafe(no_mangle)]
extern "C" fn xsched_shim_cuda() -> c_int {
    1
}

/// The driver, once it is open, for ever.
#[derive(Debug)]
pub(crate) struct Driver {
    path: PathBuf,
    /// The addresses of its functions, or of what answers in the place of those that it lacks.
    real: Vec<Address>,
    /// What the stubs jump to: hooks, and the driver's functions.
    targets: Vec<Address>,
    /// Addresses of its functions and of the stubs, and their places in the list, sorted.
    places: Vec<(Address, usize)>,
}

// SAFETY: its addresses are those of functions, which every thread may call.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

static DRIVER: OnceBox<Driver> = OnceBox::new();

/// The driver, which the first call opens; `None` if there is none.
///
/// What several threads open at once is one library, so one [`Driver`] stays and the others go.
pub(crate) fn get() -> Option<&'static Driver> {
    if let Some(driver) = opened() {
        return Some(driver);
    }
    let first = match open() {
        Ok(driver) => DRIVER.set(Box::new(driver)).is_ok(),
        Err(why) => {
            complain(&why);
            return None;
        }
    };
    let driver = opened()?;
    if first {
        for (index, target) in driver.targets.iter().enumerate() {
            stubs::set(index, *target);
        }
        counts::start();
        engine::start();
    }
    Some(driver)
}

/// The driver, if a call has opened it.
pub(crate) fn opened() -> Option<&'static Driver> {
    DRIVER.get()
}

/// The driver's function at this place of the list.
pub(crate) fn real(index: usize) -> Address {
    let real = opened().and_then(|driver| driver.real.get(index));
    real.copied().unwrap_or(not_found as Address)
}

impl Driver {
    /// What the stub at this place of the list jumps to.
    pub(crate) fn target(&self, index: usize) -> Address {
        self.targets.get(index).copied().unwrap_or(not_found as Address)
    }

    /// The place of the function with this address; `None` if the list lacks it.
    pub(crate) fn place(&self, address: Address) -> Option<usize> {
        let at = self.places.binary_search_by_key(&address, |(known, _)| *known).ok()?;
        self.places.get(at).map(|(_, index)| *index)
    }

    /// What is handed out for the function at this place: its stub, if it has a hook.
    pub(crate) fn instead(&self, index: usize) -> Option<Address> {
        let hooked = self.targets.get(index)? != self.real.get(index)?;
        STUBS.get(index).filter(|_| hooked).map(|stub| *stub as Address)
    }

    /// The library's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn new(path: PathBuf, library: Library) -> Self {
        let mut places = Vec::with_capacity(2 * COUNT);
        let mut real = Vec::with_capacity(COUNT);
        for (index, name) in NAMES.iter().enumerate() {
            let address = library.find(name);
            places.extend(address.map(|address| (address, index)));
            real.push(address.unwrap_or(not_found as Address));
        }
        // A driver may find the stubs where it looks for its own functions.
        places.extend(STUBS.iter().enumerate().map(|(index, stub)| (*stub as Address, index)));
        places.sort_unstable();
        let mut targets = real.clone();
        for (index, hook) in hooks::all() {
            if let Some(target) = targets.get_mut(index) {
                *target = hook;
            }
        }
        // What was not found is nothing that the program asked for.
        // SAFETY: it may be called at any time.
        unsafe { libc::dlerror() };
        Self { path, real, targets, places }
    }
}

/// Opens the driver, or says why not.
fn open() -> Result<Driver, String> {
    let mut why = format!("no {SONAME} found; install NVIDIA's driver, or set {VARIABLE}");
    for candidate in candidates() {
        // A path without links and from the root, so that the loader searches for nothing.
        let path = match candidate.canonicalize() {
            Ok(path) => path,
            Err(error) if variable(VARIABLE).is_some() => {
                return Err(format!("{VARIABLE} names {}: {error}", candidate.display()));
            }
            Err(_) => continue,
        };
        match Library::open(&path) {
            Ok(library) => return Ok(Driver::new(path, library)),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Where the driver may be.
fn candidates() -> Vec<PathBuf> {
    if let Some(path) = variable(VARIABLE) {
        return vec![path.into()];
    }
    let folders = variable("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = folders.as_bytes().split(|byte| b":;".contains(byte));
    let folders = folders.filter(|folder| !folder.is_empty()).map(OsStr::from_bytes);
    let from_loader =
        folders.map(|folder| Path::new(folder).join(SONAME)).chain(cache::find(SONAME));
    from_loader.chain(FOLDERS.iter().map(|folder| Path::new(folder).join(SONAME))).collect()
}

/// A library that stays open.
#[derive(Debug)]
struct Library(Address);

impl Library {
    /// Opens a library that is no interposer.
    fn open(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the path ends with zero. What the library runs when it is loaded is the driver's.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(last_error());
        }
        let library = Self(handle);
        if library.find(c"xsched_shim_cuda").is_some() {
            // SAFETY: it was opened just now, and nothing of it is in use.
            unsafe { libc::dlclose(handle) };
            return Err(format!("{} is an interposer, and no driver", path.display()));
        }
        Ok(library)
    }

    /// The address of what the library, or one that it needs, exports by this name.
    fn find(&self, name: &CStr) -> Option<Address> {
        // SAFETY: the library is open, and the name ends with zero.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }
}

/// What the loader says of the last failure.
fn last_error() -> String {
    // SAFETY: it may be called at any time.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: it ends with zero, and stays until this thread's next call of the loader.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn complain(why: &str) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        eprintln!("xsched: CUDA's driver cannot be used: {why}");
    }
}

/// What answers in the place of a function that the driver lacks.
extern "C" fn not_found() -> Code {
    NOT_FOUND
}

/// What answers without a driver.
pub(crate) fn answer_without(index: usize) -> Address {
    match NAMES.get(index).map(|name| name.to_bytes()) {
        Some(b"cuGetErrorName" | b"cuGetErrorString") => error_text as Address,
        _ => no_driver as Address,
    }
}

extern "C" fn no_driver() -> Code {
    STUB_LIBRARY
}

/// The name of the error that calls answer without a driver; a program may print it unseen.
///
/// # Safety
/// `text` may be written to, or is null.
unsafe extern "C" fn error_text(code: Code, text: *mut *const c_char) -> Code {
    let known = code == STUB_LIBRARY && !text.is_null();
    if !text.is_null() {
        let name = if known { c"CUDA_ERROR_STUB_LIBRARY".as_ptr() } else { ptr::null() };
        // SAFETY: as the caller promises.
        unsafe { text.write(name) };
    }
    if known { 0 } else { INVALID_VALUE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_without_a_driver_have_a_name() {
        let mut text = ptr::null();
        // SAFETY: the text may be written to.
        let code = unsafe { error_text(STUB_LIBRARY, &raw mut text) };
        // SAFETY: the text ends with zero.
        let name = unsafe { CStr::from_ptr(text) };
        assert_eq!((code, name), (0, c"CUDA_ERROR_STUB_LIBRARY"));
        // SAFETY: as above; null is allowed.
        let codes = unsafe { (error_text(7, &raw mut text), error_text(7, ptr::null_mut())) };
        assert_eq!((codes, text), ((INVALID_VALUE, INVALID_VALUE), ptr::null()));
    }
}
