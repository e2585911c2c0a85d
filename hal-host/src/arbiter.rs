//! The state of a device under one lock: which queues have its compute units.
//!
//! A queue *needs* a unit if it could start a command or continue a stopped one. Queues that need a
//! unit wait in a FIFO. A queue gives its unit up after each command if another queue waits. A
//! queue that needs no unit any more stays in the FIFO and is skipped when its turn comes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use xsched_core::id::CmdId;

use crate::command::HostCommand;
use crate::error::HostError;
use crate::gate::Request;
use crate::queue::Queue;
use crate::sys;

/// Next step of a queue's thread.
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

/// A run of commands that failed.
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
    /// The halves are gone, so nothing more is launched.
    closed: bool,
    /// Commands that have not started are to be dropped.
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

    /// True if it needs a unit and has none.
    fn needs_unit(&self) -> bool {
        match self.started {
            Some(started) => started.stopped && !self.interrupted,
            None => self.can_start(),
        }
    }

    /// True if it needs the unit that it has.
    fn uses_unit(&self) -> bool {
        self.started.is_some_and(|started| !started.stopped) || self.can_start()
    }

    /// Makes the last completion visible. Gives the waker to be woken.
    #[must_use]
    fn publish(&mut self) -> Option<Waker> {
        self.busy_fenced = self.busy;
        // Release: a reader of the count sees what the commands did.
        self.queue.visible.store(self.done, Ordering::Release);
        self.waker.take()
    }

    fn fail(&mut self, cmd: CmdId) {
        let (end, busy) = (cmd.count(), self.busy);
        let full = self.failed.len() >= self.entries_max;
        match self.failed.back_mut() {
            // Full only if completions are not polled. Then a run takes in the commands between two
            // failures.
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
        // Reserved here, so that later changes allocate nothing.
        self.line.reserve(self.slots.len() - self.line.len());
        self.vacant.reserve(self.slots.len() - self.vacant.len());
        index
    }

    /// Removes a queue whose thread has ended. Answers the commands that it did not run.
    pub(crate) fn remove(&mut self, index: usize) -> Vec<HostCommand> {
        let slot = &mut self.slots[index];
        let left = slot.ring.drain(..).map(|entry| entry.command).collect();
        slot.ring = VecDeque::new();
        slot.failed = VecDeque::new();
        self.line.retain(|&waiting| waiting != index);
        self.vacant.push(index);
        left
    }

    /// Updates units and the FIFO after a queue has changed.
    fn update(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if slot.unit && !slot.uses_unit() {
            slot.unit = false;
            self.free_units += 1;
        }
        if !slot.unit && !slot.in_line && slot.needs_unit() {
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
            if !slot.needs_unit() {
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

    fn a_queue_waits(&mut self) -> bool {
        while let Some(&index) = self.line.front() {
            if self.slots[index].needs_unit() {
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
        self.update(index);
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
        if self.slots[index].unit && self.a_queue_waits() {
            self.slots[index].unit = false;
            self.free_units += 1;
            // The waiting queues come first, then this queue if it has more commands.
            self.grant();
        }
        self.update(index);
        waker
    }

    pub(crate) fn deactivate(&mut self, index: usize, held: bool) {
        self.slots[index].deactivated = held;
        self.update(index);
    }

    /// Asks the running command to stop. True if it may stop soon.
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
                    self.update(index);
                    return Err(HostError::NotSent(error));
                }
            }
        }
        self.update(index);
        Ok(request != Request::Nothing)
    }

    /// True if nothing of an interrupted queue runs. Takes the unit away from a stopped command.
    pub(crate) fn is_stopped(&mut self, index: usize) -> bool {
        let slot = &mut self.slots[index];
        let Some(started) = &mut slot.started else { return true };
        if started.stopped || !started.interruptible {
            return started.stopped;
        }
        let Some(at) = slot.queue.gate.stopped_at() else { return slot.queue.gate.is_idle() };
        slot.busy += at.saturating_sub(started.since);
        started.stopped = true;
        self.update(index);
        true
    }

    /// True if nothing of a held queue runs, or starts before the end of the hold.
    pub(crate) fn is_quiet(&mut self, index: usize) -> bool {
        let Slot { deactivated, interrupted, started, .. } = &self.slots[index];
        if *interrupted { self.is_stopped(index) } else { *deactivated && started.is_none() }
    }

    pub(crate) fn restore(&mut self, index: usize) {
        self.slots[index].interrupted = false;
        self.withdraw_interrupt(index);
    }

    /// Withdraws an interrupt, which may or may not have stopped the command.
    fn withdraw_interrupt(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        if let Some(started) = &mut slot.started
            && started.interruptible
            && !started.stopped
        {
            slot.queue.gate.withdraw();
            if let Some(at) = slot.queue.gate.stopped_at() {
                // It stopped, and no queue has taken its unit yet.
                slot.busy += at.saturating_sub(started.since);
                started.since = sys::now_ns();
                slot.queue.gate.resume();
            }
        }
        self.update(index);
    }

    /// The last half of the queue was dropped.
    pub(crate) fn close(&mut self, index: usize) -> Option<Waker> {
        let slot = &mut self.slots[index];
        slot.closed = true;
        slot.discard = slot.deactivated || slot.interrupted;
        (slot.deactivated, slot.interrupted) = (false, false);
        slot.queue.turn.notify_one();
        let waker = slot.waker.take();
        self.withdraw_interrupt(index);
        waker
    }

    /// The first failure that has not been reported, and the device time at the newest fenced
    /// completion.
    pub(crate) fn completions(&mut self, index: usize) -> (&mut VecDeque<Failed>, u64) {
        let slot = &mut self.slots[index];
        (&mut slot.failed, slot.busy_fenced)
    }

    /// Keeps `waker` until there are more completions than `seen`. Answers a waker that is not kept
    /// any more, and whether there are more already.
    pub(crate) fn keep(&mut self, index: usize, seen: u64, waker: Waker) -> (Option<Waker>, bool) {
        let slot = &mut self.slots[index];
        if slot.queue.visible.load(Ordering::Relaxed) > seen {
            return (Some(waker), true);
        }
        (slot.waker.replace(waker), false)
    }
}
