//! Streams that wait for others on the device, by events.
//!
//! The scheduler does not know of that, and might hold the one for the other. So the gates of a
//! stream stay open once another stream waits for an event in it that has not completed.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::engine::{self, beside};
use crate::{Address, Code, Stream, streams};

type Awaited = unsafe extern "C" fn(u64) -> c_int;

/// The XQueues in whose streams events were recorded last, by the handles of the events.
static RECORDED: LazyLock<Mutex<HashMap<usize, u64>>> = LazyLock::new(Mutex::default);

fn recorded() -> MutexGuard<'static, HashMap<usize, u64>> {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records an event in a stream by what `next` does.
pub fn record(event: Address, stream: Address, next: impl FnOnce() -> Code) -> Code {
    let stream = Stream::of(stream, Stream::Legacy);
    if engine::are_apart() && !engine::is_captured(stream) {
        recorded().insert(event.addr(), streams::xqueue_of(stream));
    }
    next()
}

/// A stream is about to wait for an event. `is_done` asks the driver whether that has completed.
pub fn await_event(stream: Address, event: Address, is_done: impl FnOnce() -> bool) {
    static AWAITED: OnceLock<Option<Awaited>> = OnceLock::new();
    if !engine::are_apart() {
        return;
    }
    let stream = Stream::of(stream, Stream::Legacy);
    if engine::is_captured(stream) {
        return;
    }
    let xq = recorded().get(&event.addr()).copied().filter(|xq| *xq != 0);
    let Some(xq) = xq.filter(|xq| *xq != streams::xqueue_of(stream)) else { return };
    let find = || {
        let found = engine::function(c"xsched_private_awaited")?;
        // SAFETY: the library has it with this signature: they are of one version.
        Some(unsafe { std::mem::transmute::<Address, Awaited>(found) })
    };
    beside(|| {
        // What was recorded and has run keeps nothing waiting.
        if !is_done()
            && let Some(awaited) = AWAITED.get_or_init(find)
        {
            // SAFETY: any number may be given.
            unsafe { awaited(xq) };
        }
    });
}
