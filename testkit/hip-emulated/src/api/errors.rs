//! The last error of a thread: that of its last call, as before HIP 7.

use std::cell::Cell;
use std::ffi::{CStr, c_char};

use xsched_emulated_device::code::{NO_DEVICE, NOT_READY, SUCCESS};

use crate::runtime::runtime;

thread_local! {
    static LAST: Cell<u32> = const { Cell::new(SUCCESS) };
}

/// A call has answered this.
pub(super) fn note(code: u32) {
    // A thread that ends may call as well.
    let _ = LAST.try_with(|last| last.set(code));
}

// SAFETY: the name is HIP's, and this library defines it once.
#[unsafe(no_mangle)]
extern "C" fn hipPeekAtLastError() -> u32 {
    runtime().count("hipPeekAtLastError");
    LAST.get()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn hipGetLastError() -> u32 {
    runtime().count("hipGetLastError");
    LAST.replace(SUCCESS)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(code: u32) -> *const c_char {
    let name: &CStr = match code {
        SUCCESS => c"hipSuccess",
        NO_DEVICE => c"hipErrorNoDevice",
        NOT_READY => c"hipErrorNotReady",
        _ => c"hipErrorUnknown",
    };
    name.as_ptr()
}
