//! Functions that programs ask for by their names.

use std::ffi::{CStr, c_char, c_int};

use xsched_emulated_device::code::{INVALID_VALUE, NOT_FOUND};

use super::{Out, Text, exports};

/// `HIP_GET_PROC_ADDRESS_SUCCESS` and `HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
const FOUND: (u32, u32) = (0, 1);
/// `HIP_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// The address of a function of this library's; 0 if there is none.
fn own(name: &str) -> usize {
    let text: Vec<u8> = name.bytes().chain([0]).collect();
    let Ok(name) = CStr::from_bytes_with_nul(&text) else { return 0 };
    let mut about = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    let here = own as *const libc::c_void;
    // SAFETY: it may be asked for any address, and what it writes to is ours.
    if unsafe { libc::dladdr(here, about.as_mut_ptr()) } == 0 {
        return 0;
    }
    // SAFETY: it was written, and the name ends with zero. The library is loaded and stays.
    let handle = unsafe {
        let path: *const c_char = about.assume_init().dli_fname;
        libc::dlopen(path, libc::RTLD_NOW | libc::RTLD_NOLOAD)
    };
    if handle.is_null() {
        return 0;
    }
    // SAFETY: the handle is a library's, and the name ends with zero.
    unsafe { libc::dlsym(handle, name.as_ptr()) }.expose_provenance()
}

fn find(name: &str, flags: u64) -> usize {
    match (flags, own(&format!("{name}_spt"))) {
        (PER_THREAD, found) if found != 0 => found,
        _ => own(name),
    }
}

exports! {
    fn hipGetProcAddress(
        name: Text,
        found: Out<usize>,
        _version: c_int,
        flags: u64,
        status: Out<u32>,
    ) {
        if found.is_null() {
            return Err(INVALID_VALUE);
        }
        let address = find(&name.get()?, flags);
        found.offer(address);
        let asked = !status.is_null();
        status.offer(if address == 0 { FOUND.1 } else { FOUND.0 });
        if address == 0 && !asked { Err(NOT_FOUND) } else { Ok(()) }
    }

    fn hipGetDriverEntryPoint(name: Text, found: Out<usize>, flags: u64, status: Out<u32>) {
        let address = find(&name.get()?, flags);
        found.set(address)?;
        status.offer(if address == 0 { FOUND.1 } else { FOUND.0 });
        if address == 0 { Err(NOT_FOUND) } else { Ok(()) }
    }
}
