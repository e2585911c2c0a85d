//! The thread of a hardware queue.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use crate::arbiter::Next;
use crate::command::HostCommand;
use crate::inner::Device;
use crate::queue::Queue;
use crate::signal::Executing;
use crate::sys;

thread_local! {
    /// The device of this thread's queue, by its address, and the queue's index, while a command
    /// runs.
    static RUNNING: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// The queue of the device whose command the calling thread runs.
pub(crate) fn running(device: &Arc<Device>) -> Option<usize> {
    let (of, index) = RUNNING.try_with(Cell::get).ok()??;
    (of == Arc::as_ptr(device).addr()).then_some(index)
}

/// Runs the commands of a queue until it is closed.
pub(crate) fn run(device: &Device, index: usize, queue: &Queue) {
    let _executing = Executing::new(&queue.gate, device.signal);
    let mut state = device.lock();
    queue.thread.store(sys::thread_id(), Ordering::Relaxed);
    loop {
        match state.next(index) {
            Next::Run(command) => {
                drop(state);
                RUNNING.set(Some((std::ptr::from_ref(device).addr(), index)));
                let (ended, failed) = execute(queue, command);
                RUNNING.set(None);
                state = device.lock();
                if let Some(waker) = state.finish(index, ended, failed) {
                    drop(state);
                    catching_panics(|| Waker::wake(waker));
                    state = device.lock();
                }
            }
            Next::Wait => {
                state = queue.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            Next::Exit => break,
        }
    }
    let left = state.remove(index);
    drop(state);
    for command in left {
        catching_panics(|| drop(command));
    }
}

/// Runs a command. When it ended, and whether it failed.
fn execute(queue: &Queue, command: HostCommand) -> (u64, bool) {
    let interruptible = command.is_interruptible();
    if interruptible {
        queue.gate.enter();
    }
    let result = catch_unwind(AssertUnwindSafe(|| command.call()));
    if interruptible {
        queue.gate.leave();
    }
    let ended = sys::now_ns();
    catching_panics(|| drop(command));
    let failed = result.is_err();
    // What a command panicked with may panic when it is dropped.
    catching_panics(|| drop(result));
    (ended, failed)
}

/// Runs code of the user, whose panic must not end the queue's thread.
fn catching_panics(body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        // Dropping the payload could panic again.
        std::mem::forget(panic);
    }
}

/// Starts the thread of a queue.
pub(crate) fn start(device: &Arc<Device>, index: usize, queue: &Arc<Queue>) -> std::io::Result<()> {
    let (device, queue) = (Arc::clone(device), Arc::clone(queue));
    let _blocked = crate::signal::Blocked::new();
    let builder = std::thread::Builder::new().name(format!("xsched-host-{index}"));
    builder.spawn(move || run(&device, index, &queue)).map(drop)
}
