//! Calls that compilers put into programs: their code, which constructors make known, and launches
//! that are two calls.

use std::cell::RefCell;

use xsched_emulated_device::code::{INVALID_CONFIGURATION, INVALID_VALUE};

use super::kernels::Dim3;
use super::{Out, Text, exports};
use crate::runtime::runtime;

/// A configuration that waits for its launch.
type Configuration = (Dim3, Dim3, usize, usize);

thread_local! {
    static PUSHED: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

// SAFETY: the name is HIP's, and this library defines it once.
#[unsafe(no_mangle)]
extern "C" fn __hipRegisterFatBinary(_code: *const u8) -> *mut usize {
    runtime().count("__hipRegisterFatBinary");
    Box::into_raw(Box::new(0_usize))
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn __hipUnregisterFatBinary(modules: *mut usize) {
    if !modules.is_null() {
        // SAFETY: it was made above, and the caller promises that this is its end.
        drop(unsafe { Box::from_raw(modules) });
    }
}

exports! {
    fn __hipRegisterFunction(
        modules: *mut usize,
        host: usize,
        _device_function: Text,
        device_name: Text,
        _limit: u32,
        _thread: usize,
        _block: usize,
        _block_dim: usize,
        _grid_dim: usize,
        _size: usize,
    ) {
        if modules.is_null() {
            return Err(INVALID_VALUE);
        }
        runtime().add_stub(host, device_name.get()?);
        Ok(())
    }

    fn __hipPushCallConfiguration(grid: Dim3, block: Dim3, shared_bytes: usize, stream: usize) {
        PUSHED.with_borrow_mut(|pushed| pushed.push((grid, block, shared_bytes, stream)));
        Ok(())
    }

    fn __hipPopCallConfiguration(
        grid: Out<Dim3>,
        block: Out<Dim3>,
        shared_bytes: Out<usize>,
        stream: Out<usize>,
    ) {
        let last = PUSHED.with_borrow_mut(Vec::pop).ok_or(INVALID_CONFIGURATION)?;
        grid.set(last.0)?;
        block.set(last.1)?;
        shared_bytes.set(last.2)?;
        stream.set(last.3)
    }
}
