//! The end of streams that programs make with masks of compute units, each in a hardware ring of
//! its own.
//!
//! HIP 7.2.3 may wait for ever when such a stream is destroyed while the runtime's thread for
//! signals still refers to it: see `endings.rs` of `xsched-hal-hip`. The events that XQueues put
//! into streams make that likely. So such a stream is waited for first, which its destruction does
//! as well, and then that thread.

use std::collections::HashSet;
use std::ffi::{c_int, c_uint};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use xsched_shim_engine::{Address, Code, engine, lifetimes, real};

use crate::{signals, vendor};

/// `hipSuccess`.
const SUCCESS: Code = 0;
/// `hipStreamCaptureModeRelaxed`: captures of other threads are not disturbed.
const RELAXED: c_int = 2;

/// The streams, by their handles.
static MASKED: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);

fn masked() -> MutexGuard<'static, HashSet<usize>> {
    MASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until nothing refers to a stream any more that is about to be destroyed, if it has a mask.
pub(crate) fn wait_out(stream: Address) {
    // A child of a fork has no such streams, and waits for no thread of its parent.
    if !engine::is_on() || !masked().remove(&stream.addr()) {
        return;
    }
    let mode = vendor::exchange_mode(RELAXED);
    let code = real!(c"hipStreamSynchronize", (stream): (Address));
    // What cannot be waited for is destroyed as without this library.
    if code == SUCCESS {
        signals::wait();
    }
    vendor::exchange_mode(mode);
}

lifetimes! {
    c"hipExtStreamCreateWithCUMask": create(
        stream: *mut Address, words: c_uint, mask: *const c_uint
    ) => |next| {
        let code = next();
        if code == SUCCESS && !stream.is_null() && engine::is_on() {
            // SAFETY: the runtime has written a handle there.
            masked().insert(unsafe { stream.read() }.addr());
        }
        code
    };
}
