//! `hipGetProcAddress` and `hipGetDriverEntryPoint`: the runtime answers, and a function of its
//! that has a hook is exchanged. See [`xsched_shim_engine::exchange`].

use std::ffi::{c_char, c_int};

use xsched_shim_engine::exchange::exchange;
use xsched_shim_engine::{Address, lifetimes};

lifetimes! {
    c"hipGetProcAddress": by_version(
        symbol: *const c_char, found: *mut Address, version: c_int, flags: u64, status: *mut c_int
    ) => |next| {
        let code = next();
        // SAFETY: the caller promises what the runtime asks for, which has written to `found` if it
        // found something.
        unsafe { exchange(code, symbol, found) };
        code
    };
    c"hipGetDriverEntryPoint": by_name(
        symbol: *const c_char, found: *mut Address, flags: u64, status: *mut c_int
    ) => |next| {
        let code = next();
        // SAFETY: as above.
        unsafe { exchange(code, symbol, found) };
        code
    };
    c"hipGetDriverEntryPoint_spt": by_name_spt(
        symbol: *const c_char, found: *mut Address, flags: u64, status: *mut c_int
    ) => |next| {
        let code = next();
        // SAFETY: as above.
        unsafe { exchange(code, symbol, found) };
        code
    };
}
