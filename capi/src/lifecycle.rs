//! Making and destroying hardware queues and XQueues.

use std::sync::Arc;
use std::time::Duration;

use xsched::XQueueConfig;
use xsched_core::level::Level;
use xsched_core::window::WindowConfig;
use xsched_hal_stream::CALLS;

use crate::command::is_inside_callback;
use crate::hwqueue::HwQueue;
use crate::lenient::{About, Flags};
use crate::platform::Hardware;
use crate::process::Process;
use crate::queue::{Queue, WINDOW, outside_callbacks};
use crate::refusal::{Answer, Refusal};
use crate::side::Side;
use crate::types::XQueueCreateFlag;

const FLAGS: Flags =
    Flags { about: About::CreateFlags, function: "XQueueCreate", known: BLOCKING | LAUNCHER };
const BLOCKING: i64 = XQueueCreateFlag::kQueueCreateFlagBlockingSubmit as i64;
const LAUNCHER: i64 = XQueueCreateFlag::kQueueCreateFlagLauncherThread as i64;
/// For how long the end of a queue is waited for on the device's side.
const CLOSING: Duration = Duration::from_secs(2);

/// Gives hardware a handle.
pub(crate) fn create_hwq(process: &Process, hardware: Box<dyn Hardware>) -> Answer<Arc<HwQueue>> {
    let full = || Refusal::not_allowed("there are too many hardware queues; destroy some");
    process.hwqs.add(|handle| HwQueue::new(handle, hardware)).ok_or_else(full)
}

/// Waits until everything that was launched on a hardware queue has run.
pub(crate) fn synchronize_hwq(process: &Process, handle: u64) -> Answer {
    let hwq = process.hwq(handle)?;
    if is_inside_callback() {
        return Err(Refusal::not_allowed("a callback cannot wait for a hardware queue"));
    }
    let xqueue = *hwq.xqueue();
    if let Some(queue) = xqueue.and_then(|handle| process.queues.get(handle)) {
        queue.wait_launched_commands();
    }
    hwq.hardware.synchronize()
}

/// Destroys a hardware queue that has no XQueue.
pub(crate) fn destroy_hwq(process: &Process, handle: u64) -> Answer {
    let hwq = process.hwq(handle)?;
    let xqueue = hwq.xqueue();
    if xqueue.is_some() {
        return Err(Refusal::not_allowed("the hardware queue has an XQueue; destroy that first"));
    }
    // Still locked, so that no XQueue is made meanwhile, which the program could not destroy.
    process.hwqs.remove(handle);
    drop(xqueue);
    Ok(())
}

/// Makes an XQueue, or finds the one that the hardware queue has. If that cannot do the level,
/// `lower` says whether the highest there is will do.
pub(crate) fn create(
    process: &Process,
    hwq: u64,
    level: i64,
    flags: i64,
    lower: impl FnOnce(Refusal) -> Answer,
) -> Answer<u64> {
    let number = u8::try_from(level).ok().and_then(Level::from_number);
    let level = number.ok_or_else(|| Refusal::invalid("a level is 1 to 3"))?;
    let flags = FLAGS.known_of(&process.leniency, flags)?;
    let hwq = process.hwq(hwq)?;
    let mut attached = hwq.xqueue();
    if let Some(there) = attached.filter(|there| process.queues.get(*there).is_some()) {
        tracing::warn!("the hardware queue has an XQueue already; its handle is answered");
        return Ok(there);
    }
    // It may have been destroyed while this waited.
    process.hwq(hwq.handle)?;
    let blocks = flags & BLOCKING != 0;
    let side = Arc::new(Side::new(hwq.handle, blocks));
    let config = XQueueConfig::default()
        .with_level(level)
        .with_capacity(process.env.capacity)
        .with_launcher_thread(flags & LAUNCHER != 0)
        .with_window(WindowConfig::fixed(WINDOW.0 as u32, WINDOW.1 as u32));
    let xq = hwq.hardware.open(level, config, &side)?;
    if xq.caps().level == Level::Interrupt {
        // Queues are suspended without a word to the gates, so calls have to take them to be.
        CALLS.count_hold(false, true);
    }
    if xq.caps().level < level {
        lower(above(&hwq, xq.caps().level))?;
    }
    let make = |handle| Queue::new(handle, (xq, level), Arc::clone(&hwq), side, blocks);
    let queue = process.queues.add(make);
    let queue =
        queue.ok_or_else(|| Refusal::not_allowed("there are too many XQueues; destroy some"))?;
    process.commands.open_queue(queue.handle, process.env.capacity as u64);
    *attached = Some(queue.handle);
    Ok(queue.handle)
}

fn above(hwq: &HwQueue, level: Level) -> Refusal {
    let why = hwq.hardware.why_no_higher(level);
    let level = level.number();
    Refusal::not_supported(format!("the hardware queue can do level {level} at most: {why}"))
}

/// Lets everything of an XQueue run, and destroys it.
pub(crate) fn destroy(process: &Process, handle: u64) -> Answer {
    process.queue(handle)?;
    outside_callbacks()?;
    let queue = release(process, handle)?;
    queue.finish();
    let hwq = Arc::clone(queue.hwq());
    close(process, queue);
    hwq.hardware.tell_interposer_of_end(handle);
    Ok(())
}

/// Destroys an XQueue without a wait for what was submitted, which runs all the same.
pub(crate) fn forget(process: &Process, handle: u64) -> Answer {
    let queue = release(process, handle)?;
    if queue.is_idle() && !is_inside_callback() {
        close(process, queue);
    } else {
        process.commands.close_queue(handle);
    }
    Ok(())
}

/// An XQueue whose stream has ended before what was launched there.
#[derive(Debug)]
pub(crate) struct Leaving {
    queue: Arc<Queue>,
    /// The context or the device of its stream, as interposers number them.
    place: u64,
}

impl Leaving {
    /// Lets it go for the process's exit.
    pub(crate) fn abandon(&self) {
        self.queue.abandon();
    }
}

/// Destroys an XQueue and its hardware queue without a wait for what was launched, and touches its
/// stream, of this context or device, no more.
pub(crate) fn leave(process: &Process, handle: u64, place: u64) -> Answer {
    let queue = process.queue(handle)?;
    if !queue.seal() {
        return Err(Refusal::not_supported("what was launched has to be waited for"));
    }
    let queue = release(process, queue.handle)?;
    process.hwqs.remove(queue.hwq().handle);
    let mut leaving = process.leaving();
    let done: Vec<_> = leaving.extract_if(.., |left| left.queue.is_idle()).collect();
    leaving.push(Leaving { queue, place });
    drop(leaving);
    done.into_iter().for_each(|done| close(process, done.queue));
    Ok(())
}

/// Waits until everything has run that was launched in a context or device that is about to end, by
/// streams that have ended.
pub(crate) fn end_leaving(process: &Process, place: u64) {
    let mut leaving = process.leaving();
    let here: Vec<_> = leaving.extract_if(.., |left| left.place == place).collect();
    drop(leaving);
    for left in here {
        left.queue.finish();
        close(process, left.queue);
    }
}

/// Ends whatever holds an XQueue, here and in the scheduler of the node, and takes it out of the
/// table.
fn release(process: &Process, handle: u64) -> Answer<Arc<Queue>> {
    process.queue(handle)?.release();
    // While it is in the table, by which the hints of the process are told.
    process.tell_node();
    take(process, handle)
}

/// Takes an XQueue out of the table and off its hardware queue.
fn take(process: &Process, handle: u64) -> Answer<Arc<Queue>> {
    let queue = process.queues.remove(handle);
    // Of two at a time, the second finds nothing.
    let queue = queue.map_or_else(|| process.queue(handle), Ok)?;
    {
        let mut attached = queue.hwq().xqueue();
        if *attached == Some(handle) {
            *attached = None;
        }
    }
    Ok(queue)
}

/// Ends an XQueue that has nothing to do any more.
fn close(process: &Process, queue: Arc<Queue>) {
    process.commands.close_queue(queue.handle);
    let end = queue.end();
    drop(queue);
    // The device's halves have it too; when they have gone, nothing touches the stream any more.
    end.wait(CLOSING);
}
