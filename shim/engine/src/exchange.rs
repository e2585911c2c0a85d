//! Functions that the vendor's library hands out at a program's request: those that have a hook are
//! exchanged.
//!
//! The exchange is by address. So which ABI version a program means, what flags do, and what the
//! status says is the library's business. What is handed out is the stub that is exported by the
//! function's name.

use std::ffi::{CStr, c_char};

use crate::{Address, Code, counts, driver};

/// Puts a hook's stub in the place of the driver's function.
///
/// # Safety
/// If `code` is success, `symbol` is a name that ends with zero, and `found` may be read and
/// written to; or they are null.
pub unsafe fn exchange(code: Code, symbol: *const c_char, found: *mut Address) {
    let Some(driver) = driver::opened().filter(|_| code == 0 && !found.is_null()) else { return };
    // SAFETY: as the caller promises.
    let address = unsafe { found.read() };
    if address.is_null() {
        return;
    }
    match driver.place(address) {
        Some(index) => {
            if let Some(stub) = driver.instead(index) {
                // SAFETY: as the caller promises.
                unsafe { found.write(stub) };
            }
        }
        // SAFETY: as the caller promises.
        None if !symbol.is_null() => counts::past(unsafe { CStr::from_ptr(symbol) }),
        None => {}
    }
}
