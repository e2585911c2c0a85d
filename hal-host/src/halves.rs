//! The halves of an open hardware queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use xsched_core::fault::Fault;
use xsched_core::hal::{
    Deactivate, ErrorType, Interrupt, Kept, Lv3, Preempt, Retire, StepDone, Submit,
};
use xsched_core::id::CmdId;
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

use crate::command::HostCommand;
use crate::error::HostError;
use crate::executor;
use crate::inner::Device;
use crate::queue::Queue;

/// State that the halves share. The last of them closes the queue.
#[derive(Debug)]
struct Handle {
    device: Arc<Device>,
    queue: Arc<Queue>,
    index: usize,
    /// The queue has a thread, which it gets with its first command.
    has_thread: AtomicBool,
}

impl Handle {
    /// Starts the queue's thread if there is none. Only the launching half calls it.
    fn ensure_thread(&self) -> Result<(), HostError> {
        if !self.has_thread.load(Ordering::Relaxed) {
            executor::start(&self.device, self.index, &self.queue).map_err(HostError::Thread)?;
            self.has_thread.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.device.lock();
        let waker = state.close(self.index);
        // Otherwise its thread removes the queue.
        let left = (!*self.has_thread.get_mut()).then(|| state.remove(self.index));
        drop(state);
        // After the lock was released: dropping a waker runs code of the user.
        drop((waker, left));
    }
}

pub(crate) fn of(
    device: Arc<Device>,
    index: usize,
    queue: Arc<Queue>,
) -> (HostSubmit, HostRetire, HostPreempt) {
    let has_thread = AtomicBool::new(false);
    let handle = Arc::new(Handle { device, queue, index, has_thread });
    let submit = HostSubmit { handle: Arc::clone(&handle) };
    let retire = HostRetire { handle: Arc::clone(&handle), seen: 0, busy: 0 };
    (submit, retire, HostPreempt { handle, pending: false })
}

/// Launches into a hardware queue of a [`HostDevice`](crate::HostDevice).
#[derive(Debug)]
pub struct HostSubmit {
    handle: Arc<Handle>,
}

impl ErrorType for HostSubmit {
    type Error = HostError;
}

impl Submit for HostSubmit {
    type Payload = HostCommand;

    /// Never blocks. A fence takes no entry.
    fn launch(&mut self, cmd: CmdId, payload: &HostCommand, fence: bool) -> Result<(), HostError> {
        self.handle.ensure_thread()?;
        let Handle { device, index, .. } = &*self.handle;
        let command = payload.clone();
        let launched = device.lock().launch(*index, cmd, command, fence);
        launched.map_err(|_| HostError::Full { entries_max: device.config.entries_max })
    }

    fn fence(&mut self, _: CmdId) -> Result<(), HostError> {
        let waker = self.handle.device.lock().fence(self.handle.index);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

/// Watches the completions of a hardware queue of a [`HostDevice`](crate::HostDevice).
#[derive(Debug)]
pub struct HostRetire {
    handle: Arc<Handle>,
    /// One past the last command that was reported.
    seen: u64,
    /// Device time that was reported, in nanoseconds.
    busy: u64,
}

impl ErrorType for HostRetire {
    type Error = HostError;
}

impl Retire for HostRetire {
    const RUNS_ON_THREADS: bool = true;

    /// One answer covers either a run of failed commands or none that failed. Call it until it
    /// answers `None`.
    fn poll_retired(&mut self) -> Result<Option<Retired>, HostError> {
        // Acquire: sees what the commands did.
        let visible = self.handle.queue.visible.load(Ordering::Acquire);
        if visible <= self.seen {
            return Ok(None);
        }
        let mut state = self.handle.device.lock();
        let visible = self.handle.queue.visible.load(Ordering::Acquire);
        let (failures, mut busy) = state.completions(self.handle.index);
        let (mut end, mut outcome) = (visible, Outcome::Ok);
        if let Some(first) = failures.front_mut()
            && first.from < visible
        {
            end = first.end.min(visible);
            busy = busy.min(first.busy);
            outcome = Outcome::Failed { from: CmdId(first.from), fault: Fault::Panicked };
            first.from = end;
            if first.from >= first.end {
                failures.pop_front();
            }
        }
        drop(state);
        self.seen = end;
        let used = busy.saturating_sub(self.busy);
        self.busy = self.busy.max(busy);
        let upto = CmdId(end - 1);
        Ok(Some(Retired { upto, busy: Duration::from_ns(used), outcome }))
    }

    fn kept_by_caller(&self) -> Kept {
        let Handle { device, index, .. } = &*self.handle;
        match executor::running(device) {
            Some(running) if running == *index => Kept::FromEnding,
            Some(_) if device.config.compute_units == 1 => Kept::FromStarting,
            _ => Kept::FromNothing,
        }
    }

    /// The waker is woken on the queue's thread, which waits until it returns, or on the thread
    /// that puts the [fence](Submit::fence).
    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        let mine = waker.clone();
        let (dropped, now) = self.handle.device.lock().keep(self.handle.index, self.seen, mine);
        drop(dropped);
        if now {
            waker.wake_by_ref();
        }
        true
    }
}

/// Preempts a hardware queue of a [`HostDevice`](crate::HostDevice).
#[derive(Debug)]
pub struct HostPreempt {
    handle: Arc<Handle>,
    /// An interrupt is on its way.
    pending: bool,
}

impl ErrorType for HostPreempt {
    type Error = HostError;
}

impl Preempt for HostPreempt {
    type Top = Lv3;

    fn poll_step(&mut self) -> Result<Option<StepDone>, HostError> {
        if !self.pending || !self.handle.device.lock().is_stopped(self.handle.index) {
            return Ok(None);
        }
        self.pending = false;
        Ok(Some(StepDone::Now(None)))
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, HostError> {
        let Handle { device, index, .. } = &*self.handle;
        Ok(Some(device.lock().is_quiet(*index)))
    }
}

impl Deactivate for HostPreempt {
    fn deactivate(&mut self) -> Result<StepDone, HostError> {
        self.handle.device.lock().deactivate(self.handle.index, true);
        Ok(StepDone::Now(None))
    }

    fn reactivate(&mut self) -> Result<StepDone, HostError> {
        self.handle.device.lock().deactivate(self.handle.index, false);
        Ok(StepDone::Now(None))
    }
}

impl Interrupt for HostPreempt {
    /// [`StepDone::Later`] if the running command may not be stopped, or does not get to the
    /// processor within [`stop_wait`](crate::HostConfig::stop_wait).
    fn interrupt(&mut self) -> Result<StepDone, HostError> {
        let Handle { device, queue, index, .. } = &*self.handle;
        let wait = device.lock().interrupt(*index, device.signal)?;
        if wait {
            let limit = device.config.stop_wait.as_nanos();
            queue.gate.wait_stopped(u64::try_from(limit).unwrap_or(u64::MAX));
        }
        self.pending = true;
        Ok(self.poll_step()?.unwrap_or(StepDone::Later))
    }

    fn restore(&mut self) -> Result<StepDone, HostError> {
        self.pending = false;
        self.handle.device.lock().restore(self.handle.index);
        Ok(StepDone::Now(None))
    }
}
