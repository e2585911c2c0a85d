//! `cuGetProcAddress`: the driver answers, and a function of its that has a hook is exchanged.
//!
//! The exchange is by address. So which ABI version a program means, what flags do, and what the
//! status says is the driver's business. What is handed out is the stub that is exported by the
//! function's name.

use std::ffi::{CStr, c_char, c_int};

use crate::{Address, Code, counts, driver, table};

const FIRST: &CStr = c"cuGetProcAddress";
const SECOND: &CStr = c"cuGetProcAddress_v2";

/// The hooks by the names of their functions.
pub(crate) fn hooks() -> [(&'static CStr, Address); 2] {
    [(FIRST, first as Address), (SECOND, second as Address)]
}

fn real(name: &CStr) -> Address {
    driver::real(table::index(name).unwrap_or(usize::MAX))
}

/// # Safety
/// As of `cuGetProcAddress`.
unsafe extern "C" fn first(
    symbol: *const c_char,
    found: *mut Address,
    version: c_int,
    flags: u64,
) -> Code {
    type Signature = unsafe extern "C" fn(*const c_char, *mut Address, c_int, u64) -> Code;
    // SAFETY: the driver's function of this name has this signature, and what answers in its place
    // takes any arguments.
    let next = unsafe { std::mem::transmute::<Address, Signature>(real(FIRST)) };
    // SAFETY: the caller promises what the driver asks for.
    let code = unsafe { next(symbol, found, version, flags) };
    // SAFETY: the driver has written to `found` if it found something.
    unsafe { exchange(code, symbol, found) };
    code
}

/// # Safety
/// As of `cuGetProcAddress_v2`.
unsafe extern "C" fn second(
    symbol: *const c_char,
    found: *mut Address,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> Code {
    type Signature =
        unsafe extern "C" fn(*const c_char, *mut Address, c_int, u64, *mut c_int) -> Code;
    // SAFETY: as above.
    let next = unsafe { std::mem::transmute::<Address, Signature>(real(SECOND)) };
    // SAFETY: as above.
    let code = unsafe { next(symbol, found, version, flags, status) };
    // SAFETY: as above.
    unsafe { exchange(code, symbol, found) };
    code
}

/// Puts a hook's stub in the place of the driver's function.
///
/// # Safety
/// If `code` is success, `symbol` is a name that ends with zero, and `found` may be read and
/// written to; or they are null.
unsafe fn exchange(code: Code, symbol: *const c_char, found: *mut Address) {
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
