//! The end of streams that programs make with masks of compute units, each in a hardware ring of
//! its own.
//!
//! HIP 7.2.3 may wait for ever when such a stream is destroyed while the runtime's thread for
//! signals still refers to it: see `endings.rs` of `xsched-hal-hip`. The events that XQueues put
//! into streams make that likely. So such a stream is waited for first, which its destruction does
//! as well, and then that thread: until it has called back twice, one call asked for after the
//! other.

use std::collections::HashSet;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use xsched_shim_engine::{Address, Code, lifetimes, real};

use crate::vendor;

/// A function that the runtime calls.
type Callback = unsafe extern "C" fn(Address, Code, *mut c_void);

/// `hipSuccess`.
const SUCCESS: Code = 0;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// `hipStreamCaptureModeRelaxed`: captures of other threads are not disturbed.
const RELAXED: c_int = 2;
/// Calls that the runtime's thread makes one after the other.
const CALLS: usize = 2;
/// For how long one may take. The program's own functions, which that thread calls too, may wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// The streams, by their handles.
static MASKED: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);

fn masked() -> MutexGuard<'static, HashSet<usize>> {
    MASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until nothing refers to a stream any more that is about to be destroyed, if it has a mask.
pub(crate) fn wait_out(stream: Address) {
    if !masked().remove(&stream.addr()) {
        return;
    }
    let mode = vendor::exchange_mode(RELAXED);
    let code = real!(c"hipStreamSynchronize", (stream): (Address));
    // What cannot be waited for is destroyed as without this library.
    if code == SUCCESS {
        are_over(call_back);
    }
    vendor::exchange_mode(mode);
}

/// Whether the turn of the runtime's thread is over, by calls of it, one after the other.
fn are_over(mut call: impl FnMut() -> Option<()>) -> bool {
    (0..CALLS).all(|_| call().is_some())
}

/// Has the runtime's thread call back. `None` if it does not.
fn call_back() -> Option<()> {
    static CALLING: OnceLock<Option<usize>> = OnceLock::new();
    let calling = (*CALLING.get_or_init(|| {
        let mut made: Address = ptr::null_mut();
        let code = real!(
            c"hipStreamCreateWithFlags", (&raw mut made, NON_BLOCKING): (*mut Address, c_uint)
        );
        (code == SUCCESS).then(|| made.expose_provenance())
    }))?;
    let (sender, receiver) = channel::<()>();
    let data = Box::into_raw(Box::new(sender)).cast::<c_void>();
    let stream: Address = ptr::with_exposed_provenance_mut(calling);
    let code = real!(
        c"hipStreamAddCallback", (stream, called, data, 0):
        (Address, Callback, *mut c_void, c_uint)
    );
    // After an error it may still come, so its data stays.
    (code == SUCCESS).then(|| receiver.recv_timeout(PATIENCE).ok()).flatten()
}

/// # Safety
/// The data is a boxed sender, and nothing else uses it.
unsafe extern "C" fn called(_: Address, _: Code, data: *mut c_void) {
    // SAFETY: the caller's promise.
    let sender = unsafe { Box::from_raw(data.cast::<Sender<()>>()) };
    // The wait may have been given up.
    let _ = sender.send(());
}

lifetimes! {
    c"hipExtStreamCreateWithCUMask": create(
        stream: *mut Address, words: c_uint, mask: *const c_uint
    ) => |next| {
        let code = next();
        if code == SUCCESS && !stream.is_null() {
            // SAFETY: the runtime has written a handle there.
            masked().insert(unsafe { stream.read() }.addr());
        }
        code
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_calls_twice_or_is_given_up() {
        for (calls, expected) in [(2, true), (1, false), (0, false)] {
            let mut asked = 0;
            let call = || {
                asked += 1;
                (asked <= calls).then_some(())
            };
            assert_eq!(are_over(call), expected);
            assert_eq!(asked, 2.min(calls + 1));
        }
    }
}
