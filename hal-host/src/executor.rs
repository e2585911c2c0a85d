//! The thread of a hardware queue.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::task::Waker;

use crate::arbiter::Next;
use crate::command::HostCommand;
use crate::device::Device;
use crate::gate::Gate;
use crate::signal::Executing;
use crate::sys;

/// The part of a hardware queue that is used without the device's lock.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Stops and continues the running command.
    pub(crate) gate: Gate,
    /// Its thread sleeps here when it has no turn.
    pub(crate) turn: Condvar,
    /// One past the newest fenced command that has ended.
    pub(crate) visible: AtomicU64,
    /// The id of its thread.
    pub(crate) thread: AtomicI32,
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
                let (ended, failed) = execute(queue, command);
                state = device.lock();
                if let Some(waker) = state.finish(index, ended, failed) {
                    drop(state);
                    quietly(|| Waker::wake(waker));
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
        quietly(|| drop(command));
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
    quietly(|| drop(command));
    let failed = result.is_err();
    // What a command panicked with may panic when it is dropped.
    quietly(|| drop(result));
    (ended, failed)
}

/// Runs code of others whose panic must not end the queue's thread.
fn quietly(body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        // Dropping it could panic again, and so on.
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
