//! Streams that the program asks for and `libpreempt.so` makes, each in a hardware ring of its own:
//! those that are to have level 3, which stops a whole ring.
//!
//! HIP has such streams only as blocking ones of normal priority. What the program asks for with
//! other properties is made as it says, and its ring is stopped while all that is in it is held.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint};
use std::ptr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use xsched_shim_engine::engine::{self, reentrant};
use xsched_shim_engine::{Address, Code, captures, lifetimes, streams};

use crate::{masks, vendor};

/// `xsched_private_hip_stream_queue_create`.
type Create = unsafe extern "C" fn(*mut u64, *mut Address, i64) -> c_int;
/// `HwQueueDestroy`.
type Destroy = unsafe extern "C" fn(u64) -> c_int;

/// Streams with rings of their own at a time. A GPU has 24 rings or more for all processes, and
/// with more it goes through them in turns.
const STREAMS_MAX: usize = 16;
/// The level that needs them.
const INTERRUPT: i64 = 3;
/// `hipStreamDefault`.
const BLOCKING: c_uint = 0;
/// `hipSuccess`.
const SUCCESS: Code = 0;

/// The hardware queues of the streams, and their devices, by their handles.
static MADE: LazyLock<Mutex<HashMap<usize, (u64, c_int)>>> = LazyLock::new(Mutex::default);

fn made() -> MutexGuard<'static, HashMap<usize, (u64, c_int)>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a stream with these flags and this priority; by what `next` does if it need not be in a
/// ring of its own, or cannot be.
///
/// # Safety
/// `stream` is null or may be written to.
unsafe fn create(
    stream: *mut Address,
    flags: c_uint,
    priority: c_int,
    next: impl FnOnce() -> Code,
) -> Code {
    let is_such = flags == BLOCKING && priority == 0 && !stream.is_null();
    if is_such
        && engine::level() >= INTERRUPT
        && made().len() < STREAMS_MAX
        && let Some((handle, queue)) = reentrant(own).flatten()
    {
        made().insert(handle.addr(), (queue, vendor::device(ptr::null_mut())));
        // SAFETY: the program says where its handle is to go.
        unsafe { stream.write(handle) };
        return SUCCESS;
    }
    next()
}

/// A stream in a ring of its own, and its hardware queue.
fn own() -> Option<(Address, u64)> {
    let create = engine::function(c"xsched_private_hip_stream_queue_create")?;
    // SAFETY: the library has it with this signature: they are of one version.
    let create = unsafe { std::mem::transmute::<Address, Create>(create) };
    let (mut queue, mut stream) = (0, ptr::null_mut());
    // SAFETY: both may be written to.
    let code = unsafe { create(&raw mut queue, &raw mut stream, INTERRUPT) };
    (code == 0 && !stream.is_null()).then_some((stream, queue))
}

/// Ends a stream, by what `next` does if the program's call has made it.
fn destroy(stream: Address, next: impl FnOnce() -> Code) -> Code {
    streams::end_stream(stream);
    captures::end_stream(stream, || {
        // A child of a fork has no such streams, and waits for no thread of its parent.
        let found = if engine::is_on() { made().remove(&stream.addr()) } else { None };
        let Some((queue, _)) = found else {
            masks::wait_out(stream);
            return next();
        };
        end(&[queue]);
        SUCCESS
    })
}

/// A device is about to lose its streams, whose XQueues have ended.
pub(crate) fn end_device(device: c_int) {
    if !engine::is_on() {
        return;
    }
    let gone: Vec<_> = made().extract_if(|_, (_, of)| *of == device).collect();
    end(&gone.iter().map(|(_, (queue, _))| *queue).collect::<Vec<_>>());
}

/// Ends hardware queues, with which their streams end. Those of streams that were launched into
/// have ended by now.
fn end(queues: &[u64]) {
    if queues.is_empty() {
        return;
    }
    reentrant(|| {
        let destroy = engine::function(c"HwQueueDestroy")?;
        // SAFETY: as above.
        let destroy = unsafe { std::mem::transmute::<Address, Destroy>(destroy) };
        for queue in queues {
            // SAFETY: any handle may be given.
            unsafe { destroy(*queue) };
        }
        Some(())
    });
}

lifetimes! {
    c"hipStreamCreate": create_plain(stream: *mut Address) => |next| {
        // SAFETY: as the caller of the hook promises.
        unsafe { create(stream, BLOCKING, 0, next) }
    };
    c"hipStreamCreateWithFlags": create_with_flags(
        stream: *mut Address, flags: c_uint
    // SAFETY: as above.
    ) => |next| unsafe { create(stream, flags, 0, next) };
    c"hipStreamCreateWithPriority": create_with_priority(
        stream: *mut Address, flags: c_uint, priority: c_int
    // SAFETY: as above.
    ) => |next| unsafe { create(stream, flags, priority, next) };
    c"hipStreamDestroy": destroy_stream(stream: Address) => |next| destroy(stream, next);
}
