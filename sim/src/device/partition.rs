//! Devices whose driver takes all queues off and puts those back that may go on, whenever one is
//! to be interrupted or restored. Nothing runs meanwhile. What is ordered at the same time is one
//! such operation, or one operation after the other, as the device has it.

use xsched_core::cost::Reach;

use super::line::NEXT;
use super::{Note, World};
use crate::clock::Event;

/// A step of a stream that waits for an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    stream: u32,
    /// Or restore.
    interrupt: bool,
}

impl World {
    /// Has a stream interrupted or restored by the next operation, which begins when everything
    /// else that happens at this time has happened. False if the device has no such operations.
    pub(super) fn stage(&mut self, stream: u32, interrupt: bool) -> bool {
        let s = &mut self.streams[stream as usize];
        let d = &mut self.devices[s.device as usize];
        if d.cost.reach != Reach::Device {
            return false;
        }
        s.stepped = false;
        d.staged.push(Staged { stream, interrupt });
        if d.operation.is_empty() {
            self.clock.after(0, Event::Operate { device: s.device });
        }
        true
    }

    /// Forgets what was staged for a stream that has gone.
    pub(super) fn unstage(&mut self, stream: u32) {
        let d = &mut self.devices[self.streams[stream as usize].device as usize];
        d.staged.retain(|staged| staged.stream != stream);
    }

    /// Begins an operation: everything stops, and is saved.
    pub(super) fn operate(&mut self, device: u32) {
        let now = self.clock.now_ns();
        let d = &mut self.devices[device as usize];
        if !d.operation.is_empty() || d.staged.is_empty() {
            return;
        }
        let steps = if d.cost.batches { d.staged.len() } else { 1 };
        d.operation = d.staged.drain(..steps).collect();
        let saved = self.stop_all(device);
        let (mut resumes, mut suspends) = (false, false);
        let mut restored = saved.clone();
        for step in &self.devices[device as usize].operation {
            let s = &mut self.streams[step.stream as usize];
            if step.interrupt {
                suspends = true;
                s.interrupted = true;
                restored.retain(|stream| *stream != step.stream);
            } else {
                resumes = true;
                restored.extend(s.fifo.front().filter(|head| head.started).map(|_| step.stream));
            }
        }
        let (saved, restored) = (self.context_of(&saved), self.context_of(&restored));
        let d = &mut self.devices[device as usize];
        let saved_ns = now + d.cost.operation(suspends, resumes, saved, 0).as_ns();
        let done_ns = now + d.cost.operation(suspends, resumes, saved, restored).as_ns();
        d.switch(done_ns - now);
        d.stalled_until_ns = done_ns;
        d.sharing.stall(now, true);
        d.account(now);
        self.clock.at(saved_ns, Event::Saved { device });
        self.clock.at(done_ns, Event::Operated { device });
        if self.verbose {
            for step in &self.devices[device as usize].operation {
                let Staged { stream, interrupt: save } = *step;
                self.notes.push(Note::Switched { stream, from_ns: now, to_ns: done_ns, save });
            }
        }
    }

    /// Stops whatever runs on a device. It goes on first.
    fn stop_all(&mut self, device: u32) -> Vec<u32> {
        let now = self.clock.now_ns();
        let mut stopped = Vec::new();
        for stream in 0..self.streams.len() as u32 {
            let s = &mut self.streams[stream as usize];
            if s.device != device || !s.running {
                continue;
            }
            let d = &mut self.devices[device as usize];
            let left_ns = d.sharing.stop(now, stream);
            let (cmd, since_ns) = s.stop(left_ns);
            if !d.sharing.keeps() {
                s.turn = Some(if s.urgent { 0 } else { NEXT });
            }
            stopped.push(stream);
            if self.verbose {
                self.notes.push(Note::Stopped { stream, cmd, since_ns, finished: false });
            }
        }
        self.reschedule(device);
        stopped
    }

    /// The part of the device's context that streams use, in permille: all of it at most.
    fn context_of(&self, streams: &[u32]) -> u32 {
        let used = streams.iter().map(|stream| self.streams[*stream as usize].context_permille);
        used.sum::<u32>().min(1_000)
    }

    /// Everything is saved: those who are interrupted are quiet.
    pub(super) fn saved(&mut self, device: u32) {
        for step in self.devices[device as usize].operation.clone() {
            if step.interrupt {
                self.check_quiet(step.stream);
            }
        }
    }

    /// An operation is over: who may run is back on the device.
    pub(super) fn operated(&mut self, device: u32) {
        let steps = std::mem::take(&mut self.devices[device as usize].operation);
        for step in &steps {
            let s = &mut self.streams[step.stream as usize];
            s.stepped = true;
            s.interrupted = step.interrupt;
            self.clock.after(0, Event::Stepped { stream: step.stream });
        }
        for stream in 0..self.streams.len() as u32 {
            if self.streams[stream as usize].device == device {
                self.line_up(stream);
            }
        }
        self.on_kick(device);
        if !self.devices[device as usize].staged.is_empty() {
            self.clock.after(0, Event::Operate { device });
        }
    }
}
