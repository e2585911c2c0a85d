//! Environment variables.

use std::env;
use std::ffi::OsString;

/// What a variable says; `None` if it is empty or not set, or if the program has more rights than
/// its user, who could otherwise choose a library for it to load or a file for it to write.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    // SAFETY: it may be called at any time.
    let more_rights = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    env::var_os(name).filter(|value| !more_rights && !value.is_empty())
}
