//! Streams that wait for others on the device, for interposers.

use std::ffi::c_int;

use xsched_core::level::Level;
use xsched_hal_stream::{LastPoint, Point};

use crate::contention;
use crate::graphs::lock;
use crate::process::process;
use crate::refusal::{Refusal, answer};
use crate::types::{XQueueHandle, XResult};
use crate::xqueue::out;

/// For interposers: another stream is about to wait for what was launched in this XQueue.
///
/// The scheduler does not know of that, and might hold the XQueue for the other stream. So its
/// gates stay open from now on, and nothing interrupts it: a hold lets run what was launched, as at
/// level 1. Graphs that are launched in it have no gates any more, and a copy that has is waited
/// for. If the scheduler of the node holds the stream by itself, it has the highest priority of the
/// process from now on instead.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_awaited(xq: XQueueHandle) -> XResult {
    answer(|| {
        let process = process();
        let queue = process.queue(xq)?;
        if queue.level() > Level::Deactivate {
            queue.set_level(2)?;
            tracing::info!(xq, "another stream waits for this one, so nothing interrupts it");
        }
        if queue.hwq().hardware.note_awaited() {
            process.tell_node();
        }
        if queue.hwq().hardware.end_gates() {
            tracing::info!(xq, "another stream waits for this one, so its gates stay open");
            process.cuda.graphs.all().iter().for_each(|copy| lock(copy).ungate_for(xq));
        }
        Ok(())
    })
}

/// For interposers: has the stream of this XQueue say that it has got as far as now, if it has not
/// yet, and answers the point for [`xsched_private_wait_for`]. The word is 0 where that is of no
/// use: without the scheduler of a node, while that does not hold the process or nothing in a
/// stream can be held, or on a device whose streams cannot. `kXSchedErrorNotAllowed` if the stream
/// has to say it and `may_write` is 0; with that the driver is not called.
///
/// # Safety
/// Both are null or may be written to. The stream is alive and not captured.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_signal(
    xq: XQueueHandle,
    may_write: c_int,
    word: *mut u64,
    number: *mut u32,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let (word, number) = unsafe { (out(word)?, out(number)?) };
        let queue = process().queue(xq)?;
        let hardware = &queue.hwq().hardware;
        let last = match contention::may_node_hold() {
            true => hardware.last_point(),
            false => LastPoint::NotNeeded,
        };
        let point = match last {
            LastPoint::NotNeeded => None,
            LastPoint::At(point) => Some(point),
            LastPoint::Unwritten if may_write != 0 => hardware.signal(),
            LastPoint::Unwritten => {
                return Err(Refusal::not_allowed("the stream has not said how far it is"));
            }
        };
        word.write(point.map_or(0, |point| point.word));
        number.write(point.map_or(0, |point| point.number));
        Ok(())
    })
}

/// For interposers: has the stream of this XQueue wait until another one has got to a point.
///
/// # Safety
/// [`xsched_private_signal`] has answered the point. The stream is alive and not captured.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_wait_for(
    xq: XQueueHandle,
    word: u64,
    number: u32,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { process().queue(xq)?.hwq().hardware.wait_for(Point { word, number }) };
        Ok(())
    })
}
