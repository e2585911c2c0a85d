//! Names by which a program opens the vendor's library, where it brings that along.
//!
//! A library has one SONAME, and the loader gives an interposer to a program that opens the
//! vendor's library by that name alone. A vendor's library that comes with programs has a SONAME
//! for each version. So the name is taken from the program's call, whatever version it says.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use crate::search;
use crate::vendor::Library;

/// Returns whether a call of `dlopen` opens the library by a name without a path, and the loader
/// would find one of that name. A call that only asks whether it is loaded does not.
///
/// # Safety
/// `path` is null or a text that ends with zero.
#[must_use]
pub unsafe fn is_library(library: &Library, path: *const c_char, flags: c_int) -> bool {
    if path.is_null() || flags & libc::RTLD_NOLOAD != 0 {
        return false;
    }
    // SAFETY: as the caller promises.
    let name = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
    if !search::is_name_of(library, name) {
        return false;
    }
    // SAFETY: errno's place is the calling thread's for as long as it lives.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    let is_there = search::is_there(library, name);
    if is_there && !name.as_bytes().ends_with(b".so") {
        search::asked_for(name);
    }
    // SAFETY: as above.
    unsafe { errno.write(before) };
    is_there
}
