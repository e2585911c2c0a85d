//! Libraries that the process has loaded, under whatever names.

use std::ffi::{CStr, CString, OsStr, OsString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use xsched_hal_process::loader::{self, Library};

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
/// Libraries that the program links or loads for all come first, in the loader's order. Libraries
/// that were loaded for their loader alone (`RTLD_LOCAL`), with what they link, follow in the order
/// in which they were loaded.
#[must_use]
pub fn symbol(name: &CStr, not: *const c_void) -> Option<Found> {
    let not = origin(not).map(|(base, _)| base);
    let found = |library: Library| {
        let address = library.find(name)?;
        let (base, path) = origin(address)?;
        (Some(base) != not).then_some(Found { address, library: path })
    };
    let of_program = Library::program().ok().and_then(found);
    of_program.or_else(|| {
        // Each is as before when it has been asked.
        loaded().iter().filter_map(|path| Library::loaded(path)).find_map(|library| {
            let found = found(library);
            // SAFETY: it is loaded as well without this handle, of which nothing is used.
            unsafe { library.close() };
            found
        })
    })
}

/// The start and the path of the library that an address is in.
fn origin(address: *const c_void) -> Option<(usize, OsString)> {
    let info = loader::about(address.addr())?;
    // SAFETY: it is a text of the loader's, which stays while the library is loaded, and the
    // address is in it.
    let path = unsafe { CStr::from_ptr(info.dli_fname) };
    Some((info.dli_fbase.addr(), OsStr::from_bytes(path.to_bytes()).to_owned()))
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
