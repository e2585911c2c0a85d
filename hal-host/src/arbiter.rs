//! Who has a compute unit: the state of a device, under one lock.
//!
//! A queue *wants* a unit if it could start a command or continue a stopped one. Queues that want
//! one wait in line; a queue gives its unit up after each command if another one waits. A queue
//! that stopped wanting stays in line and is skipped when its turn comes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use xsched_core::id::CmdId;

use crate::command::HostCommand;
use crate::error::HostError;
use crate::executor::Queue;
use crate::gate::Request;
use crate::sys;

/// What a queue's thread does now.
#[derive(Debug)]
pub(crate) enum Next {
    Run(HostCommand),
    Wait,
    Exit,
}

/// A launched command.
#[derive(Debug)]
struct Entry {
    cmd: CmdId,
    command: HostCommand,
    fence: bool,
}

/// The command of a queue that has started.
#[derive(Clone, Copy, Debug)]
struct Started {
    cmd: CmdId,
    fence: bool,
    interruptible: bool,
    /// Stopped, and without a unit.
    stopped: bool,
    /// Since when it has had its unit, in nanoseconds of the monotonic clock.
    since: u64,
}

/// Commands that failed one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) from: u64,
    /// One past the last.
    pub(crate) end: u64,
    /// The queue's device time when the last of them ended.
    pub(crate) busy: u64,
}

/// A hardware queue.
#[derive(Debug)]
struct Slot {
    queue: Arc<Queue>,
    ring: VecDeque<Entry>,
    entries_max: usize,
    started: Option<Started>,
    unit: bool,
    in_line: bool,
    deactivated: bool,
    interrupted: bool,
    /// A stop signal was sent for the command that has started.
    signalled: bool,
    /// Nobody can launch any more.
    closed: bool,
    /// What has not started is to be dropped.
    discard: bool,
    /// Device time used, in nanoseconds.
    busy: u64,
    /// One past the last command that has ended.
    done: u64,
    /// Device time at the newest fenced completion.
    busy_fenced: u64,
    failed: VecDeque<Failed>,
    waker: Option<Waker>,
}

impl Slot {
    fn new(queue: Arc<Queue>, entries_max: usize) -> Self {
        Self {
            queue,
            ring: VecDeque::with_capacity(entries_max),
            entries_max,
            started: None,
            unit: false,
            in_line: false,
            deactivated: false,
            interrupted: false,
            signalled: false,
            closed: false,
            discard: false,
            busy: 0,
            done: 0,
            busy_fenced: 0,
            failed: VecDeque::with_capacity(entries_max),
            waker: None,
        }
    }

    fn can_start(&self) -> bool {
        let held = self.deactivated || self.interrupted || self.discard;
        self.started.is_none() && !self.ring.is_empty() && !held
    }

    /// Whether it has a use for a unit that it does not have.
    fn wants(&self) -> bool {
        match self.started {
            Some(started) => started.stopped && !self.interrupted,
            None => self.can_start(),
        }
    }

    /// Whether it has a use for the unit that it has.
    fn uses(&self) -> bool {
        self.started.is_some_and(|started| !started.stopped) || self.can_start()
    }

    /// Makes the last completion visible. Gives the waker to be woken.
    #[must_use]
    fn publish(&mut self) -> Option<Waker> {
        self.busy_fenced = self.busy;
        // Release: whoever sees it sees what the commands did.
        self.queue.visible.store(self.done, Ordering::Release);
        self.waker.take()
    }

    fn fail(&mut self, cmd: CmdId) {
        let (end, busy) = (cmd.count(), self.busy);
        let full = self.failed.len() >= self.entries_max;
        match self.failed.back_mut() {
            // Full only if nobody looks at completions: then failures take in what is between them.
            Some(last) if full || last.end == cmd.0 => (last.end, last.busy) = (end, busy),
            _ => self.failed.push_back(Failed { from: cmd.0, end, busy }),
        }
    }
}

/// The state of a device.
#[derive(Debug)]
pub(crate) struct State {
    free_units: u32,
    line: VecDeque<usize>,
    slots: Vec<Slot>,
    vacant: Vec<usize>,
}

impl State {
    pub(crate) const fn new(units: u32) -> Self {
        Self { free_units: units, line: VecDeque::new(), slots: Vec::new(), vacant: Vec::new() }
    }

    pub(crate) fn add(&mut self, queue: Arc<Queue>, entries_max: usize) -> usize {
        let slot = Slot::new(queue, entries_max);
        let index = if let Some(index) = self.vacant.pop() {
            self.slots[index] = slot;
            index
        } else {
            self.slots.push(slot);
            self.slots.len() - 1
        };
        // So that nothing allocates later.
        self.line.reserve(self.slots.len() - self.line.len());
        self.vacant.reserve(self.slots.len() - self.vacant.len());
        index
    }

    /// The queue's thread has ended. Gives back what it did not run.
    pub(crate) fn remove(&mut self, index: usize) -> Vec<HostCommand> {
        let slot = &mut self.slots[index];
        let left = slot.ring.drain(..).map(|entry| entry.command).collect();
        slot.ring = VecDeque::new();
        slot.failed = VecDeque::new();
        self.line.retain(|&other| other != index);
        self.vacant.push(index);
        left
    }

    /// Brings units and the line in agreement with what has become of a queue.
    fn settle(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.unit && !slot.uses() {
            slot.unit = false;
            self.free_units += 1;
        }
        if !slot.unit && !slot.in_line && slot.wants() {
            slot.in_line = true;
            self.line.push_back(index);
        }
        self.grant();
    }

    fn grant(&mut self) {
        while self.free_units > 0 {
            let Some(index) = self.line.pop_front() else { return };
            let slot = &mut self.slots[index];
            slot.in_line = false;
            if !slot.wants() {
                continue;
            }
            slot.unit = true;
            self.free_units -= 1;
            if let Some(started) = &mut slot.started {
                started.stopped = false;
                started.since = sys::now_ns();
                slot.queue.gate.resume();
            } else {
                slot.queue.turn.notify_one();
            }
        }
    }

    fn somebody_waits(&mut self) -> bool {
        while let Some(&index) = self.line.front() {
            if self.slots[index].wants() {
                return true;
            }
            self.slots[index].in_line = false;
            self.line.pop_front();
        }
        false
    }

    pub(crate) fn launch(
        &mut self,
        index: usize,
        cmd: CmdId,
        command: HostCommand,
        fence: bool,
    ) -> Result<(), HostCommand> {
        let slot = &mut self.slots[index];
        if slot.ring.len() >= slot.entries_max {
            return Err(command);
        }
        slot.ring.push_back(Entry { cmd, command, fence });
        self.settle(index);
        Ok(())
    }

    #[must_use]
    pub(crate) fn fence(&mut self, index: usize) -> Option<Waker> {
        let slot = &mut self.slots[index];
        if let Some(entry) = slot.ring.back_mut() {
            entry.fence = true;
        } else if let Some(started) = &mut slot.started {
            started.fence = true;
        } else {
            return slot.publish();
        }
        None
    }

    pub(crate) fn next(&mut self, index: usize) -> Next {
        let slot = &mut self.slots[index];
        if slot.closed && (slot.discard || slot.ring.is_empty()) {
            return Next::Exit;
        }
        if !slot.unit || !slot.can_start() {
            return Next::Wait;
        }
        let Some(Entry { cmd, command, fence }) = slot.ring.pop_front() else { return Next::Wait };
        let interruptible = command.is_interruptible();
        if interruptible {
            slot.queue.gate.prepare();
        }
        let since = sys::now_ns();
        slot.started = Some(Started { cmd, fence, interruptible, stopped: false, since });
        Next::Run(command)
    }

    /// The command of a queue has ended.
    #[must_use]
    pub(crate) fn finish(&mut self, index: usize, ended: u64, failed: bool) -> Option<Waker> {
        let slot = &mut self.slots[index];
        let started = slot.started.take()?;
        slot.busy += ended.saturating_sub(started.since);
        slot.done = started.cmd.count();
        if std::mem::take(&mut slot.signalled) {
            // The signal may still be pending. Entering the kernel makes it come now, and not in
            // the midst of the next command, whose system calls it would cut short.
            sys::thread_id();
        }
        if failed {
            slot.fail(started.cmd);
        }
        let waker = if started.fence { slot.publish() } else { None };
        if self.slots[index].unit && self.somebody_waits() {
            self.slots[index].unit = false;
            self.free_units += 1;
            // First those who wait, then this queue if it has more.
            self.grant();
        }
        self.settle(index);
        waker
    }

    pub(crate) fn deactivate(&mut self, index: usize, held: bool) {
        self.slots[index].deactivated = held;
        self.settle(index);
    }

    /// Asks the command that runs to stop. Whether it pays to wait for that.
    pub(crate) fn interrupt(&mut self, index: usize, signal: i32) -> Result<bool, HostError> {
        let slot = &mut self.slots[index];
        let before = std::mem::replace(&mut slot.interrupted, true);
        let request = match slot.started {
            Some(started) if started.interruptible && !started.stopped => slot.queue.gate.request(),
            _ => Request::Nothing,
        };
        if request == Request::Signal {
            slot.signalled = true;
            // Under the lock, so that the thread cannot go on to another command meanwhile, or end.
            let thread = slot.queue.thread.load(Ordering::Relaxed);
            if let Err(error) = sys::signal_thread(thread, signal) {
                slot.queue.gate.withdraw();
                if slot.queue.gate.stopped_at().is_none() {
                    slot.interrupted = before;
                    self.settle(index);
                    return Err(HostError::NotSent(error));
                }
            }
        }
        self.settle(index);
        Ok(request != Request::Nothing)
    }

    /// Whether nothing of an interrupted queue runs. Takes the unit away from a stopped command.
    pub(crate) fn is_stopped(&mut self, index: usize) -> bool {
        let slot = &mut self.slots[index];
        let Some(started) = &mut slot.started else { return true };
        if started.stopped || !started.interruptible {
            return started.stopped;
        }
        let Some(at) = slot.queue.gate.stopped_at() else { return slot.queue.gate.is_idle() };
        slot.busy += at.saturating_sub(started.since);
        started.stopped = true;
        self.settle(index);
        true
    }

    pub(crate) fn restore(&mut self, index: usize) {
        self.slots[index].interrupted = false;
        self.go_on(index);
    }

    /// Takes an interrupt back that may be anywhere on its way.
    fn go_on(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let Some(started) = &mut slot.started
            && started.interruptible
            && !started.stopped
        {
            slot.queue.gate.withdraw();
            if let Some(at) = slot.queue.gate.stopped_at() {
                // It stopped and nobody has taken its unit yet.
                slot.busy += at.saturating_sub(started.since);
                started.since = sys::now_ns();
                slot.queue.gate.resume();
            }
        }
        self.settle(index);
    }

    /// Nobody holds the queue's halves any more.
    pub(crate) fn close(&mut self, index: usize) -> Option<Waker> {
        let slot = &mut self.slots[index];
        slot.closed = true;
        slot.discard = slot.deactivated || slot.interrupted;
        (slot.deactivated, slot.interrupted) = (false, false);
        slot.queue.turn.notify_one();
        let waker = slot.waker.take();
        self.go_on(index);
        waker
    }

    /// The first failure that has not been reported, and the device time at the newest fenced
    /// completion.
    pub(crate) fn completions(&mut self, index: usize) -> (&mut VecDeque<Failed>, u64) {
        let slot = &mut self.slots[index];
        (&mut slot.failed, slot.busy_fenced)
    }

    /// Keeps `waker` until there is more to see than `seen`. Gives back one that is not kept any
    /// more, and whether there is more.
    pub(crate) fn keep(&mut self, index: usize, seen: u64, waker: Waker) -> (Option<Waker>, bool) {
        let slot = &mut self.slots[index];
        if slot.queue.visible.load(Ordering::Relaxed) > seen {
            return (Some(waker), true);
        }
        (slot.waker.replace(waker), false)
    }
}
