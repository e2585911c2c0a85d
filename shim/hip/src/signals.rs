//! The runtime's thread for signals, which refers to what has run until it has handled its end.
//!
//! HIP 7.2.3 destroys some things on whichever thread drops the last reference to them, and waits
//! for that thread meanwhile. If it is the thread for signals itself, it waits for ever: see
//! `endings.rs` of `xsched-hal-hip`. The events that XQueues put into streams keep that thread
//! busy, and make it likely.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use xsched_shim_engine::engine::reentrant;
use xsched_shim_engine::{Address, Code, real};

/// A function that the runtime calls.
type Callback = unsafe extern "C" fn(Address, Code, *mut c_void);

/// `hipSuccess`.
const SUCCESS: Code = 0;
/// `hipStreamNonBlocking`.
const NON_BLOCKING: c_uint = 1;
/// Calls that the thread makes one after the other.
const CALLS: usize = 2;
/// For how long one may take. The program's own functions, which that thread calls too, may wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Waits until the thread refers to nothing that had run before, or for [`PATIENCE`]: until it has
/// called back twice, one call asked for after the other. Captures of other threads must not be
/// disturbed by this one.
pub(crate) fn wait() -> bool {
    are_over(call_back)
}

/// Does so when the process ends. The thread may have the last reference to a graph that was
/// destroyed, and that to the device; but the device is destroyed with the process.
pub(crate) fn wait_at_exit() {
    static ASKED: Once = Once::new();
    // SAFETY: the function stays, since this library is never unloaded. In the child of a fork it
    // does nothing.
    ASKED.call_once(|| _ = unsafe { libc::atexit(at_exit) });
}

extern "C" fn at_exit() {
    reentrant(wait);
}

/// Returns whether the turn of the runtime's thread is over, by calls of it, one after the other.
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
