//! Shared libraries, by the C library's own functions.
//!
//! Other libraries that are preloaded may export `dlsym` or `dlopen`, and answer with functions of
//! theirs when they are asked for a driver's: a library that takes these for the driver's and the
//! other one call each other for ever. So the functions here are not the ones that the linker
//! finds, but those of the C library's file, by its symbol table. They do the search themselves,
//! which has to know versions, dependencies and functions that choose an implementation.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

pub use libc::{RTLD_LAZY, RTLD_NOLOAD, RTLD_NOW};

use crate::elf;

/// Where glibc has the functions: from 2.34 on in the first, before that in the second.
const FILES: [&str; 2] = ["libc.so.6", "libdl.so.2"];

/// Defines functions that call the C library's of the same name, which the first call looks for. If
/// it is not found there, the one is called that the linker has found.
macro_rules! functions {
    ($($name:ident($($parameter:ident: $kind:ty),*) -> $answer:ty;)*) => {$(
        /// # Safety
        /// As of the C library's function of this name.
        unsafe fn $name($($parameter: $kind),*) -> $answer {
            type Function = unsafe extern "C" fn($($kind),*) -> $answer;
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            let mut found = FOUND.load(Ordering::Acquire);
            if found.is_null() {
                const NAME: &CStr = match CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                };
                found = elf::function(&FILES, NAME).unwrap_or(libc::$name as *mut c_void);
                FOUND.store(found, Ordering::Release);
            }
            // SAFETY: the C library's function of this name has this signature.
            let function = unsafe { transmute::<*mut c_void, Function>(found) };
            // SAFETY: as the caller promises.
            unsafe { function($($parameter),*) }
        }
    )*};
}

functions! {
    dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    dlclose(library: *mut c_void) -> c_int;
    dlerror() -> *mut c_char;
    dladdr(address: *const c_void, about: *mut libc::Dl_info) -> c_int;
}

/// A library that is open, and stays so unless it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library(*mut c_void);

// SAFETY: the loader's handles may be used on any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The program, with what it links and what is loaded for all.
    ///
    /// # Errors
    /// The loader's answer.
    pub fn program() -> Result<Self, String> {
        // SAFETY: null stands for the program, which is loaded.
        unsafe { Self::of(ptr::null(), RTLD_LAZY) }
    }

    /// Opens a library by its path or its name, with these flags of `dlopen`.
    ///
    /// # Errors
    /// The loader's answer.
    ///
    /// # Safety
    /// What the library runs when it is loaded may be run.
    pub unsafe fn open(name: &OsStr, flags: c_int) -> Result<Self, String> {
        let name = CString::new(name.as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the name ends with zero; as the caller promises.
        unsafe { Self::of(name.as_ptr(), flags) }
    }

    /// A library that is loaded already.
    #[must_use]
    pub fn loaded(name: &CStr) -> Option<Self> {
        // SAFETY: nothing is loaded, so nothing is run. The name ends with zero.
        unsafe { Self::of(name.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) }.ok()
    }

    /// # Safety
    /// As of `dlopen`.
    unsafe fn of(name: *const c_char, flags: c_int) -> Result<Self, String> {
        // SAFETY: as the caller promises.
        let handle = unsafe { dlopen(name, flags) };
        if handle.is_null() { Err(last_error()) } else { Ok(Self(handle)) }
    }

    /// The address of what the library, or one that it needs, exports by this name.
    #[must_use]
    pub fn find(self, name: &CStr) -> Option<*mut c_void> {
        find(self.0, name)
    }

    /// Returns a pointer to the function that the library, or one that it needs, exports by this
    /// name.
    ///
    /// # Safety
    /// `T` is such a pointer, of the signature that the function has.
    #[must_use]
    pub unsafe fn function<T: Copy>(self, name: &str) -> Option<T> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
        let address = self.find(&CString::new(name).ok()?)?;
        // SAFETY: it is as large, and as the caller promises.
        Some(unsafe { std::mem::transmute_copy::<*mut c_void, T>(&address) })
    }

    /// Closes it once.
    ///
    /// # Safety
    /// Nothing of it is used any more.
    pub unsafe fn close(self) {
        // SAFETY: the handle is one that was opened; as the caller promises.
        unsafe { dlclose(self.0) };
    }
}

/// The address of the function of this name that comes behind the calling library, in the order in
/// which the loader looks for names, or else that of the C library.
#[must_use]
pub fn next(name: &CStr) -> Option<*mut c_void> {
    find(libc::RTLD_NEXT, name).or_else(|| elf::function(&FILES, name))
}

fn find(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: it is a handle of the loader's, and the name ends with zero.
    let found = unsafe { dlsym(library, name.as_ptr()) };
    if found.is_null() {
        // What was not found is nothing that the program asked for.
        // SAFETY: it may be called at any time.
        unsafe { dlerror() };
    }
    (!found.is_null()).then_some(found)
}

/// The loader's answer about an address; `None` if it is in no file.
#[must_use]
pub fn about(address: usize) -> Option<libc::Dl_info> {
    let address = ptr::without_provenance(address);
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address may be asked for, and the answer may be written to.
    let is_known = unsafe { dladdr(address, &raw mut info) } != 0;
    (is_known && !info.dli_fname.is_null()).then_some(info)
}

/// The loader's message about this thread's last failure.
fn last_error() -> String {
    // SAFETY: it may be called at any time.
    let text = unsafe { dlerror() };
    if text.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: it ends with zero, and stays until this thread's next call of the loader.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_opened_and_asked() {
        // SAFETY: it is loaded already.
        let library = unsafe { Library::open("libc.so.6".as_ref(), RTLD_LAZY) };
        let library = library.expect("every program here has it");
        assert_eq!(library.find(c"dlsym"), elf::function(&FILES, c"dlsym"));
        assert_eq!(library.find(c"no_such_function"), None);
        assert_eq!(Library::loaded(c"libc.so.6"), Some(library));
        assert_eq!(Library::loaded(c"libnone.so"), None);
        // SAFETY: there is no such library.
        let error = unsafe { Library::open("libnone.so".as_ref(), RTLD_LAZY) };
        assert!(error.expect_err("no such library").contains("libnone.so"));
        let program = Library::program().expect("this one");
        assert_eq!(program.find(c"malloc"), library.find(c"malloc"));
        assert_eq!(next(c"write"), library.find(c"write"));
        assert!(about((libraries_are_opened_and_asked as *const c_void).addr()).is_some());
        assert!(about(0).is_none());
    }
}
