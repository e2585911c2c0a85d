//! One in-order hardware queue.

use std::collections::VecDeque;

use super::Note;
use crate::scenario::DeviceSpec;

/// A launched command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launched {
    pub(crate) cmd: u64,
    /// Device time that is left, gates included and restores not.
    pub(crate) left_ns: u64,
    /// Device time of the command itself.
    pub(crate) work_ns: u64,
    pub(crate) ready_at_ns: u64,
    pub(crate) gated: bool,
    pub(crate) fence: bool,
    pub(crate) started: bool,
    /// Time that restoring takes before the command goes on, if it was interrupted. `None` while it
    /// is saved, and from when it goes on.
    pub(crate) restore_ns: Option<u64>,
}

/// A fence that has completed and that the host has not seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) upto: u64,
    pub(crate) seen_at_ns: u64,
    pub(crate) busy_ns: u64,
}

/// A stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Place among the streams.
    pub(crate) number: u32,
    pub(crate) device: u32,
    pub(crate) fifo: VecDeque<Launched>,
    pub(crate) fences: VecDeque<Fence>,
    /// The gates are closed: a bit for each that has closed them.
    pub(crate) closed: u8,
    pub(crate) interrupted: bool,
    /// The head is running.
    pub(crate) running: bool,
    /// The head waits for its turn on the device.
    pub(crate) offered: bool,
    /// Turn, until it has used it.
    pub(crate) turn: Option<u64>,
    /// An arrival event is scheduled.
    pub(crate) arriving: bool,
    pub(crate) started_ns: u64,
    /// Commands that have finished, by number.
    pub(crate) finished: u64,
    /// Commands that have finished.
    pub(crate) completed: u64,
    /// Device time since the last fence.
    pub(crate) busy_ns: u64,
    pub(crate) busy_total_ns: u64,
    pub(crate) context_permille: u32,
    /// Device time that the scheduler is told of, for a thousand of what was used.
    pub(crate) counted_permille: u32,
    /// The next command starts no earlier, because of the fence before it.
    pub(crate) fenced_until_ns: u64,
    /// Waves of blocks of its commands.
    pub(crate) waves: u32,
    /// Goes before the streams that are not urgent.
    pub(crate) urgent: bool,
    /// Work of the running command after its present wave.
    pub(crate) after_wave_ns: u64,
    /// The scheduler wants it held.
    pub(crate) held: bool,
    /// The operation that a step waited for is over.
    pub(crate) stepped: bool,
    /// When a hold was ordered that has not taken effect.
    pub(crate) held_at_ns: Option<u64>,

    /// True if gates are put at all.
    pub(crate) gates: bool,
    /// Predicted work since the last gate, and of one command.
    pub(crate) since_gate_ns: u64,
    pub(crate) predicted_ns: u64,
    /// Entries (commands, gates, fences) on the device.
    pub(crate) entries: u32,
    pub(crate) entries_most: u32,
}

impl Stream {
    /// The head may not start, even if it is the stream's turn.
    pub(crate) fn is_blocked(&self) -> bool {
        let at_gate = |head: &Launched| head.gated && !head.started;
        self.interrupted || (self.closed != 0 && self.fifo.front().is_some_and(at_gate))
    }

    /// The head's context is being put back; nothing of the command itself runs yet.
    pub(crate) fn is_restoring(&self) -> bool {
        self.running && self.fifo.front().is_some_and(|head| head.restore_ns.is_some())
    }

    /// The head has its context again, after this much device time for that.
    pub(crate) fn restored(&mut self, now_ns: u64) -> u64 {
        self.started_ns = now_ns;
        self.fifo.front_mut().and_then(|head| head.restore_ns.take()).unwrap_or(0)
    }

    /// Nothing runs and nothing will start.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.running && (self.fifo.is_empty() || self.is_blocked())
    }

    /// The head starts or continues; returns what to tell and the time that its gate and the fence
    /// before it take.
    pub(crate) fn start(&mut self, now_ns: u64, gate_ns: u64) -> (Note, u64) {
        self.running = true;
        self.started_ns = now_ns;
        let Some(head) = self.fifo.front_mut() else {
            return (Note::Started { stream: self.number, cmd: 0, gated: false, fresh: false }, 0);
        };
        let fresh = !head.started;
        let fence_ns = self.fenced_until_ns.saturating_sub(now_ns);
        let gate_ns = if head.gated { gate_ns } else { 0 };
        let overhead = if fresh { gate_ns + fence_ns } else { 0 };
        head.left_ns += overhead;
        head.started = true;
        head.restore_ns = head.restore_ns.filter(|ns| *ns > 0);
        let (cmd, gated) = (head.cmd, head.gated);
        (Note::Started { stream: self.number, cmd, gated, fresh }, overhead)
    }

    /// Device time that the head still needs.
    pub(crate) fn left_ns(&self) -> u64 {
        self.fifo.front().map_or(0, |head| head.left_ns)
    }

    /// Returns the time of what runs next: the restore of the head if it is due, or else the head,
    /// or its next wave.
    pub(crate) fn next_work_ns(&mut self, has_waves: bool) -> u64 {
        let restore_ns = self.fifo.front().and_then(|head| head.restore_ns);
        restore_ns.unwrap_or_else(|| if has_waves { self.wave() } else { self.left_ns() })
    }

    /// The head's next wave: how long it takes.
    pub(crate) fn wave(&mut self) -> u64 {
        let Some(head) = self.fifo.front() else { return 0 };
        let length_ns = head.work_ns.div_ceil(u64::from(self.waves.max(1))).max(1);
        // Whatever is not a whole wave, as a gate, comes first.
        let waves = if self.waves > 1 { head.left_ns.saturating_sub(1) / length_ns } else { 0 };
        self.after_wave_ns = waves * length_ns;
        head.left_ns - self.after_wave_ns
    }

    /// The head's wave is over and further waves follow.
    pub(crate) fn next_wave(&mut self) -> bool {
        let left_ns = std::mem::take(&mut self.after_wave_ns);
        if let Some(head) = self.fifo.front_mut().filter(|_| left_ns > 0) {
            head.left_ns = left_ns;
        }
        left_ns > 0
    }

    /// The head has finished; returns when the host will see it, if it carries a fence.
    pub(crate) fn finish(&mut self, now_ns: u64, spec: &DeviceSpec) -> Option<u64> {
        self.running = false;
        let head = self.fifo.pop_front()?;
        self.finished = head.cmd + 1;
        self.completed += 1;
        let told_ns = u128::from(head.work_ns) * u128::from(self.counted_permille) / 1_000;
        self.busy_ns = self.busy_ns.saturating_add(u64::try_from(told_ns).unwrap_or(u64::MAX));
        self.busy_total_ns += head.work_ns;
        self.predicted_ns = if self.predicted_ns == 0 {
            head.work_ns
        } else {
            (self.predicted_ns * 7 + head.work_ns) / 8
        };
        let entries = 1 + u32::from(head.gated) + u32::from(head.fence);
        self.entries = self.entries.saturating_sub(entries);
        if head.fence {
            self.fenced_until_ns = now_ns + spec.fence_ns;
        }
        head.fence.then(|| self.complete_fence(head.cmd, now_ns + spec.detect_ns))
    }

    pub(crate) fn complete_fence(&mut self, upto: u64, seen_at_ns: u64) -> u64 {
        let busy_ns = std::mem::take(&mut self.busy_ns);
        self.fences.push_back(Fence { upto, seen_at_ns, busy_ns });
        seen_at_ns
    }

    /// The restore of the head is interrupted with `left_ns` of it left to do: what is saved is
    /// good for another one. Returns the command and the device time that the restore took.
    pub(crate) fn stop_restore(&mut self, left_ns: u64) -> (u64, u64) {
        self.running = false;
        let Some(head) = self.fifo.front_mut() else { return (0, 0) };
        (head.cmd, head.restore_ns.take().unwrap_or(0).saturating_sub(left_ns))
    }

    /// The head is interrupted with this much left to do.
    pub(crate) fn stop(&mut self, left_ns: u64) -> (u64, u64) {
        self.running = false;
        let left_ns = left_ns + std::mem::take(&mut self.after_wave_ns);
        let since = self.started_ns;
        match self.fifo.front_mut() {
            Some(head) => {
                head.left_ns = left_ns;
                (head.cmd, since)
            }
            None => (0, since),
        }
    }

    /// True if a command launched now gets a gate: once more work than the spacing has gone by
    /// since the last, and when nothing is in flight only if it must not start.
    pub(crate) fn wants_gate(&mut self, spacing_ns: u64) -> bool {
        if self.fifo.is_empty() {
            self.since_gate_ns = self.predicted_ns;
            return self.gates && self.closed != 0;
        }
        let ahead = self.since_gate_ns.saturating_add(self.predicted_ns);
        // Before the first completion nothing can be predicted.
        let gate = self.gates && (self.predicted_ns == 0 || ahead > spacing_ns);
        self.since_gate_ns = if gate { self.predicted_ns } else { ahead };
        gate
    }
}
