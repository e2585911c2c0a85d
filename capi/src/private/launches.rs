//! Launches of interposers, and the levels of the XQueues that they go through.

use std::ffi::{c_char, c_int, c_void};

use xsched_hal_stream::Reach;

use crate::command::{Awaited, Launch};
use crate::process::process;
use crate::refusal::{Refusal, answer};
use crate::types::{LaunchCallback, XQueueHandle, XResult};
use crate::xqueue::out;

/// For interposers: calls `launch` on this thread when it is the XQueue's turn to launch it, and
/// returns after that. If the answer is not `kXSchedSuccess`, `launch` was not called and will not
/// be; that may be so with `kXSchedSuccess` too, if what waits was dropped. Launches of the same
/// `kind` into an XQueue take about equally long; 0 is any.
///
/// # Safety
/// `launch` may be called with `data`, once.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_launch(
    xq: XQueueHandle,
    kind: u32,
    launch: LaunchCallback,
    data: *mut c_void,
) -> XResult {
    launch_here(xq, launch, |launch| Awaited::new(launch, data, kind), data)
}

/// The same for what goes into other hardware queues than the stream's as well: with `reach` 1 into
/// that of a copy engine, with any greater number also into those of other streams, as the parallel
/// branches of a graph do.
///
/// # Safety
/// As [`xsched_private_launch`].
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_launch_reaching(
    xq: XQueueHandle,
    kind: u32,
    reach: u32,
    launch: LaunchCallback,
    data: *mut c_void,
) -> XResult {
    let reach = match reach {
        0 => Reach::Ring,
        1 => Reach::Copies,
        _ => Reach::All,
    };
    launch_here(xq, launch, |launch| Awaited::new(launch, data, kind).reaching(reach), data)
}

fn launch_here(
    xq: XQueueHandle,
    launch: LaunchCallback,
    make: impl FnOnce(Launch) -> Awaited,
    data: *mut c_void,
) -> XResult {
    answer(|| {
        let launch = launch.filter(|_| !data.is_null());
        let launch = launch.ok_or_else(|| Refusal::invalid("the function or its data is null"))?;
        let process = process();
        let queue = process.queue(xq)?;
        queue.hwq().hardware.place_gates(process.may_hold(&queue));
        if queue.is_to_be_narrow()
            && let Some(auto) = &process.env.auto
        {
            let threshold = auto.threshold(false);
            queue.set_window(threshold, auto.batch.min(threshold))?;
        }
        queue.launch_here(&make(launch))
    })
}

/// For interposers: the level of an XQueue, and as text that ends with zero why it has no higher
/// one, as much of it as there is room for.
///
/// # Safety
/// `level` is null or may be written to, and so many bytes may be written at `why`.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_level(
    xq: XQueueHandle,
    level: *mut c_int,
    why: *mut c_char,
    bytes: usize,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let level = unsafe { out(level) }?;
        let last = bytes.checked_sub(1).filter(|_| !why.is_null());
        let last = last.ok_or_else(|| Refusal::invalid("there is no room for a text"))?;
        let queue = process().queue(xq)?;
        let text = queue.why_no_higher();
        let text = &text.as_bytes()[..text.floor_char_boundary(last)];
        // SAFETY: as the caller promises, and it is not longer.
        unsafe {
            why.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
            why.add(text.len()).write(0);
        }
        level.write(queue.level().number().into());
        Ok(())
    })
}
