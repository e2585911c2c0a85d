//! `cuGetProcAddress`: the driver answers, and a function of its that has a hook is exchanged.
//!
//! See [`xsched_shim_engine::exchange`].

use std::ffi::{CStr, c_char, c_int};

use xsched_shim_engine::exchange::exchange;
use xsched_shim_engine::{Address, Code, driver};

const FIRST: &CStr = c"cuGetProcAddress";
const SECOND: &CStr = c"cuGetProcAddress_v2";

/// The hooks by the names of their functions.
pub(crate) fn hooks() -> [(&'static CStr, Address); 2] {
    [(FIRST, first as Address), (SECOND, second as Address)]
}

fn real(name: &CStr) -> Address {
    driver::real(driver::place_of(name))
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
