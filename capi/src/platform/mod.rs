//! Parts of hardware queues.

mod gpu;
mod host;
mod stream;

use std::fmt::Debug;
use std::sync::Arc;

use xsched::{XQueue, XQueueConfig};
use xsched_core::hint::{Hints, Priority};
use xsched_core::level::Level;
use xsched_hal_cuda::GateAt;
use xsched_hal_process::burst::Burst;
use xsched_hal_stream::{LastPoint, Point};

pub(crate) use host::HostDevices;
pub(crate) use stream::{CudaDevices, HipDevices};

use crate::command::{Command, Launch, call};
use crate::refusal::{Answer, Refusal};
use crate::side::Side;
use crate::types::{HwQueueHandle, XQueueHandle};

/// A hardware queue of some platform.
pub(crate) trait Hardware: Debug + Send + Sync {
    /// Opens an XQueue on it. Its level is what can be had, at most what is asked for.
    fn open(&self, level: Level, config: XQueueConfig, side: &Arc<Side>)
    -> Answer<XQueue<Command>>;

    /// Launches a command past the XQueue.
    fn launch(&self, command: Command, hwq: HwQueueHandle) -> Answer;

    /// Waits until everything that was launched past the XQueue has run, and on streams everything
    /// that was launched.
    fn synchronize(&self) -> Answer;

    /// Why the XQueue that was opened last has no higher level than this, in words for the user.
    fn why_no_higher(&self, level: Level) -> String;

    /// Special properties of holds of that XQueue, which has this level.
    fn how_held(&self, _: Level) -> Option<String> {
        None
    }

    /// Tells the interposer, if one is preloaded, that the program has made this XQueue for it.
    fn tell_interposer(&self, _xq: XQueueHandle) {}

    /// Tells the interposer, if one is preloaded, that this XQueue is not there any more.
    fn tell_interposer_of_end(&self, _xq: XQueueHandle) {}

    /// Returns whether the queue has the commands of the host device.
    fn is_host(&self) -> bool;

    /// The stream's address, or 0 if there is none.
    fn stream(&self) -> usize;

    /// Returns whether the scheduler of the node holds the present XQueue by gates, whatever its
    /// level.
    fn has_gates_of_process(&self) -> bool {
        false
    }

    /// The burst of the XQueue that was opened last, in which an interposer launches.
    fn burst(&self) -> Option<Burst> {
        None
    }

    /// From now on its XQueues' gates are close together, or so far apart that they cost nothing,
    /// since hardly anything may hold what is launched.
    fn place_gates(&self, _are_close: bool) {}

    /// Where graphs of CUDA get gates of the present XQueue's, if it has any.
    fn gates_of_graphs(&self) -> Option<GateAt> {
        None
    }

    /// The last point of the stream, for [`Hardware::wait_for`].
    fn last_point(&self) -> LastPoint {
        LastPoint::NotNeeded
    }

    /// Has the stream say that it has got as far as now, for [`Hardware::wait_for`]: `None` where
    /// no other process takes turns with this one, or it cannot.
    fn signal(&self) -> Option<Point> {
        None
    }

    /// Has the stream wait until another one has got to a point.
    ///
    /// # Safety
    /// [`Hardware::signal`] of any hardware queue answered the point.
    unsafe fn wait_for(&self, _: Point) {}

    /// Tells the scheduler of the node what the XQueue was told, and what the highest priority of
    /// the process's XQueues is. False if it holds the stream together with the process.
    fn tell_node(&self, _: &Hints, _: Priority) -> bool {
        false
    }

    /// Returns whether a stream has waited for one of those that the scheduler of the node holds
    /// together with the process, where it holds others apart.
    fn is_rest_awaited(&self) -> bool {
        false
    }

    /// Another stream waits for this one. True if the scheduler of the node is to hear of that.
    fn note_awaited(&self) -> bool {
        false
    }

    /// The present XQueue's gates stay open, and graphs get none of them. Whether it had gates.
    fn end_gates(&self) -> bool {
        false
    }
}

/// Calls a callback past all queues.
fn call_now(function: Launch, hwq: HwQueueHandle, data: usize) -> Answer {
    match call(function, hwq, data) {
        0 => Ok(()),
        answer => {
            let side = Side::new(hwq, false);
            side.note_refused(0, answer);
            let why = side.answer_of(0);
            Err(why.unwrap_or_else(|| Refusal::hardware("the command's callback failed")))
        }
    }
}

/// Calls a callback for a command of an XQueue, and notes its failure.
fn call_for(function: Launch, data: usize, side: &Side, number: u64) {
    let answer = side.run(number, || call(function, side.hwq, data));
    if answer != 0 {
        side.note_refused(number, answer);
    }
}
