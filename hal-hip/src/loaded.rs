//! What the process has loaded, under whatever names.

use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use libloading::os::unix::{Library, RTLD_LAZY, Symbol};

/// A function, and the library that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub address: *mut c_void,
    /// The library's path, as the loader knows it.
    pub library: OsString,
}

/// Looks a function up in what the process has loaded, other than the library that the address
/// `not` is in (null: any).
///
/// What the program links and what is loaded for all comes first, in the loader's order. Libraries
/// that were loaded for their loader alone (`RTLD_LOCAL`), with what they link, follow in the order
/// in which they were loaded.
#[must_use]
pub fn symbol(name: &CStr, not: *const c_void) -> Option<Found> {
    let not = origin(not).map(|(base, _)| base);
    let found = |library: Library| {
        // SAFETY: what is found is not called here, only its address is looked at.
        let address = unsafe { library.get::<*mut c_void>(name.to_bytes_with_nul()) };
        let address = address.ok().map(Symbol::as_raw_ptr)?;
        let (base, path) = origin(address)?;
        (Some(base) != not).then_some(Found { address, library: path })
    };
    found(Library::this()).or_else(|| loaded().iter().filter_map(|path| open(path)).find_map(found))
}

/// The start and the path of the library that an address is in.
fn origin(address: *const c_void) -> Option<(usize, OsString)> {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: the answer may be written to.
    if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: it is a text of the loader's, which stays while the library is loaded, and the
    // address is in it.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some((info.dli_fbase.addr(), OsStr::from_bytes(path.to_bytes()).to_owned()))
}

/// A library that is loaded. It stays as it is.
fn open(path: &CStr) -> Option<Library> {
    let path = OsStr::from_bytes(path.to_bytes());
    // SAFETY: it is loaded already, or nothing happens.
    unsafe { Library::open(Some(path), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok()
}

/// The paths of what is loaded, in that order.
fn loaded() -> Vec<CString> {
    // SAFETY: the loader calls it with what `dl_iterate_phdr` says.
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        paths: *mut c_void,
    ) -> c_int {
        // SAFETY: it is the list below, which only this call has.
        let paths = unsafe { &mut *paths.cast::<Vec<CString>>() };
        // SAFETY: the loader gives a description that lives for this call.
        let name = unsafe { (*info).dlpi_name };
        // The program itself has no name.
        if !name.is_null() {
            // SAFETY: it is a text of the loader's.
            paths.push(unsafe { CStr::from_ptr(name) }.to_owned());
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: the function takes what it is given.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut paths).cast()) };
    paths.retain(|path| !path.is_empty());
    paths
}
