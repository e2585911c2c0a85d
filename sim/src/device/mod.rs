//! The device model: in-order streams, how they share the device, gates, saving and restoring.
//!
//! A command is ready once it has arrived (launch latency). The device starts the head of a ready
//! stream according to its [`Concurrency`], unless a closed gate is in front of it or its stream is
//! interrupted. Urgent streams go first, and where one command runs at a time also between
//! two waves of blocks of a command. Gates cost device time whenever they are passed. Saving stalls
//! the whole device; restoring comes before the command that continues. Where an interrupt reaches
//! the whole device, [`partition`] has it.

mod backend;
mod clients;
mod line;
mod partition;
mod sharing;
mod stream;

use xsched_core::cost::CostModel;

pub(crate) use backend::{Launch, SimBackend, SimRetire, SimSteps, SimSubmit, StreamConfig};
pub(crate) use clients::{Clients, Split};
pub(crate) use sharing::Sharing;
pub(crate) use stream::Stream;

use crate::clock::{Clock, Event};
use crate::scenario::DeviceSpec;
use line::NEXT;
use partition::Staged;
use stream::Launched;

/// The bit of a gate's word that is the process's own, and that of the daemon of the node.
pub(crate) const OWN: u8 = 1;
pub(crate) const DAEMON: u8 = 2;

/// Note of a device to the engine, for figures, checkers and the timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// A command started (`fresh`) or continued.
    Started { stream: u32, cmd: u64, gated: bool, fresh: bool },
    /// A command stopped: finished or interrupted.
    Stopped { stream: u32, cmd: u64, since_ns: u64, finished: bool },
    /// A stream that was being held runs nothing any more.
    Quiet { stream: u32, held_at_ns: u64 },
    /// A stream that may run has started after another stream was told to stop.
    Begun { stream: u32, held_at_ns: u64 },
    /// A save or restore took device time.
    Switched { stream: u32, from_ns: u64, to_ns: u64, save: bool },
}

/// All devices, their streams and the clock.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) devices: Vec<Device>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) notes: Vec<Note>,
    /// True if the engine wants every start and stop.
    pub(crate) verbose: bool,
}

/// One device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) spec: DeviceSpec,
    pub(crate) cost: CostModel,
    pub(crate) sharing: Sharing,
    /// Nothing runs before this time.
    stalled_until_ns: u64,
    busy_since_ns: Option<u64>,
    pub(crate) busy_ns: u64,
    pub(crate) overhead_ns: u64,
    /// The part of it that saving and restoring took.
    pub(crate) switch_ns: u64,
    /// Interrupts and restores, of the whole device where they reach all of it.
    pub(crate) switches: u64,
    /// True if it has streams that go before others.
    has_urgent: bool,
    /// Steps that wait for the next operation of the whole device.
    staged: Vec<Staged>,
    /// The operation that goes on.
    operation: Vec<Staged>,
    /// Since when a stream that may run waits for streams that were told to stop.
    waits_since_ns: Option<u64>,
}

impl Device {
    pub(crate) fn new(spec: DeviceSpec) -> Self {
        let cost = spec.cost();
        let sharing = Sharing::new(spec.concurrency);
        Self {
            spec,
            cost,
            sharing,
            stalled_until_ns: 0,
            busy_since_ns: None,
            busy_ns: 0,
            overhead_ns: 0,
            switch_ns: 0,
            switches: 0,
            has_urgent: false,
            staged: Vec::new(),
            operation: Vec::new(),
            waits_since_ns: None,
        }
    }

    /// Saving or restoring takes the device for this time.
    fn switch(&mut self, ns: u64) {
        self.switching(ns);
        self.switches += 1;
    }

    /// A part of saving or restoring took the device for this time.
    fn switching(&mut self, ns: u64) {
        self.overhead_ns += ns;
        self.switch_ns += ns;
    }

    /// Counts the time during which at least one command runs.
    fn account(&mut self, now_ns: u64) {
        match (self.sharing.is_running(), self.busy_since_ns) {
            (true, None) => self.busy_since_ns = Some(now_ns),
            (false, Some(since)) => {
                self.busy_ns += now_ns - since;
                self.busy_since_ns = None;
            }
            _ => {}
        }
    }

    /// Busy time up to now.
    pub(crate) fn busy_until(&self, now_ns: u64) -> u64 {
        self.busy_ns + self.busy_since_ns.map_or(0, |since| now_ns.saturating_sub(since))
    }
}

impl World {
    pub(crate) fn new(specs: &[DeviceSpec], verbose: bool) -> Self {
        Self {
            clock: Clock::default(),
            devices: specs.iter().cloned().map(Device::new).collect(),
            streams: Vec::new(),
            notes: Vec::new(),
            verbose,
        }
    }

    /// Carries out a device event; false if it is one for the engine.
    pub(crate) fn handle(&mut self, event: Event) -> bool {
        match event {
            Event::Arrive { stream } => {
                self.streams[stream as usize].arriving = false;
                self.offer(stream);
            }
            Event::Finish { device, token } => self.on_finish(u32::from(device), token),
            Event::Kick { device } => self.on_kick(device),
            Event::Operate { device } => self.operate(device),
            Event::Saved { device } => self.saved(device),
            Event::Operated { device } => self.operated(device),
            _ => return false,
        }
        true
    }

    /// Puts the head of a stream up for running, if it can run.
    pub(crate) fn offer(&mut self, stream: u32) {
        if self.line_up(stream) {
            self.start_next(self.streams[stream as usize].device);
        }
    }

    /// Puts it up once everything else that happens at this time has happened: streams that are let
    /// go together run in the order of their turns.
    fn offer_again(&mut self, stream: u32) {
        if self.line_up(stream) {
            let device = self.streams[stream as usize].device;
            self.clock.after(0, Event::Kick { device });
        }
    }

    /// True if the stream is in line now and was not before.
    fn line_up(&mut self, stream: u32) -> bool {
        let now = self.clock.now_ns();
        let s = &mut self.streams[stream as usize];
        let Some(head) = s.fifo.front() else { return false };
        if s.running || s.offered || s.is_blocked() {
            return false;
        }
        if head.ready_at_ns > now {
            if !s.arriving {
                s.arriving = true;
                self.clock.at(head.ready_at_ns, Event::Arrive { stream });
            }
            return false;
        }
        s.offered = true;
        self.devices[s.device as usize].sharing.offer(stream, s.urgent, &mut s.turn);
        true
    }

    /// Starts whatever the device can start now.
    fn start_next(&mut self, device: u32) {
        let now = self.clock.now_ns();
        let d = &mut self.devices[device as usize];
        if d.stalled_until_ns > now {
            return;
        }
        while let Some(stream) = d.sharing.take() {
            let s = &mut self.streams[stream as usize];
            s.offered = false;
            if s.is_blocked() || s.fifo.is_empty() {
                continue;
            }
            if !d.sharing.keeps() {
                s.turn = None;
            }
            let (note, overhead) = s.start(now, d.spec.gate_ns);
            d.overhead_ns += overhead;
            if let Some(held_at_ns) = d.waits_since_ns.take_if(|_| !s.held) {
                self.notes.push(Note::Begun { stream, held_at_ns });
            }
            let work = s.next_work_ns(d.sharing.has_waves());
            if let Some((at_ns, token)) = d.sharing.start(now, stream, work) {
                self.clock.at(at_ns, Event::Finish { device: device as u16, token });
            }
            if self.verbose {
                self.notes.push(note);
            }
        }
        d.account(now);
    }

    fn on_finish(&mut self, device: u32, token: u32) {
        let now = self.clock.now_ns();
        let Some(stream) = self.devices[device as usize].sharing.finish(now, token) else {
            // The end of a slice, if it is anything that is still of interest.
            let next = self.devices[device as usize].sharing.next_after_finish(now);
            self.schedule_finish(device, next);
            return;
        };
        if self.streams[stream as usize].is_restoring() {
            self.on_restored(device, stream);
            return;
        }
        if self.streams[stream as usize].next_wave() {
            self.on_wave(device, stream);
            return;
        }
        let s = &mut self.streams[stream as usize];
        if let Some(at_ns) = s.finish(now, &self.devices[device as usize].spec) {
            self.clock.at(at_ns, Event::Detect { stream });
        }
        if self.verbose {
            let (cmd, since_ns) = (s.finished - 1, s.started_ns);
            self.notes.push(Note::Stopped { stream, cmd, since_ns, finished: true });
        }
        let urgent = s.urgent;
        self.check_quiet(stream);
        if urgent {
            // Its next command is set up when this one has ended, and a stream that waits is
            // faster.
            self.start_next(device);
        }
        self.line_up(stream);
        let s = &mut self.streams[stream as usize];
        if !s.offered && !s.is_blocked() {
            // Drained.
            s.turn = None;
        }
        self.start_next(device);
        let next = self.devices[device as usize].sharing.next_after_finish(now);
        self.schedule_finish(device, next);
    }

    /// The context of a command is back: the command goes on at once.
    fn on_restored(&mut self, device: u32, stream: u32) {
        let now = self.clock.now_ns();
        let (d, s) = (&mut self.devices[device as usize], &mut self.streams[stream as usize]);
        let from_ns = s.started_ns;
        d.switching(s.restored(now));
        let work = s.next_work_ns(d.sharing.has_waves());
        let next = d.sharing.start(now, stream, work);
        if self.verbose {
            self.notes.push(Note::Switched { stream, from_ns, to_ns: now, save: false });
        }
        self.schedule_finish(device, next);
    }

    /// Between two waves of a command: an urgent stream takes the device over, and the command goes
    /// on next; or it goes on at once.
    fn on_wave(&mut self, device: u32, stream: u32) {
        let now = self.clock.now_ns();
        let (d, s) = (&mut self.devices[device as usize], &mut self.streams[stream as usize]);
        if s.urgent || !d.sharing.is_urgent_waiting() {
            let next = d.sharing.start(now, stream, s.wave());
            self.schedule_finish(device, next);
            return;
        }
        let left_ns = s.left_ns();
        let (cmd, since_ns) = s.stop(left_ns);
        s.turn = Some(NEXT);
        if self.verbose {
            self.notes.push(Note::Stopped { stream, cmd, since_ns, finished: false });
        }
        self.line_up(stream);
        self.start_next(device);
    }

    fn on_kick(&mut self, device: u32) {
        let now = self.clock.now_ns();
        let d = &mut self.devices[device as usize];
        if d.stalled_until_ns > now {
            return;
        }
        d.sharing.stall(now, false);
        self.reschedule(device);
        self.start_next(device);
    }

    /// After a change of who runs, the time of the next finish may be another.
    fn reschedule(&mut self, device: u32) {
        let now = self.clock.now_ns();
        let next = self.devices[device as usize].sharing.reschedule(now);
        self.schedule_finish(device, next);
    }

    fn schedule_finish(&mut self, device: u32, finish: Option<(u64, u32)>) {
        if let Some((at_ns, token)) = finish {
            // There are few devices.
            self.clock.at(at_ns, Event::Finish { device: device as u16, token });
        }
    }

    /// Tells the engine once a stream that is being held runs nothing and will start nothing.
    fn check_quiet(&mut self, stream: u32) {
        let s = &mut self.streams[stream as usize];
        if s.held_at_ns.is_some()
            && s.is_quiet()
            && let Some(held_at_ns) = s.held_at_ns.take()
        {
            self.notes.push(Note::Quiet { stream, held_at_ns });
        }
    }

    /// True if the device itself may let others go before a stream for ever: they are urgent, or
    /// keep an exclusive device that they always have work for.
    pub(crate) fn is_kept_out(&self, stream: u32) -> bool {
        let s = &self.streams[stream as usize];
        let Device { sharing, has_urgent, .. } = &self.devices[s.device as usize];
        let behind_others = sharing.keeps() || (*has_urgent && !s.urgent);
        behind_others && s.offered && sharing.is_running()
    }

    /// The engine has ordered a hold; returns whether the stream has anything on the device.
    pub(crate) fn hold_ordered(&mut self, stream: u32) -> bool {
        let now = self.clock.now_ns();
        let s = &mut self.streams[stream as usize];
        let occupied = !s.fifo.is_empty();
        s.held = true;
        if occupied && s.held_at_ns.is_none() {
            s.held_at_ns = Some(now);
            self.devices[s.device as usize].waits_since_ns.get_or_insert(now);
            self.check_quiet(stream);
        }
        occupied
    }

    /// The hold is over; if the stream never got quiet, there is nothing to report.
    pub(crate) fn hold_ended(&mut self, stream: u32) {
        let s = &mut self.streams[stream as usize];
        (s.held, s.held_at_ns) = (false, None);
        self.devices[s.device as usize].waits_since_ns = None;
    }

    /// The gates of a stream close or open for one that holds it, now.
    pub(crate) fn set_gate(&mut self, stream: u32, holder: u8, closed: bool) {
        let word = &mut self.streams[stream as usize].closed;
        *word = if closed { *word | holder } else { *word & !holder };
        if *word == 0 {
            self.resume(stream);
            self.offer_again(stream);
        } else {
            self.check_quiet(stream);
        }
    }

    /// Takes the device away from a stream. Returns when that is done.
    fn interrupt(&mut self, stream: u32) -> u64 {
        let now = self.clock.now_ns();
        let s = &mut self.streams[stream as usize];
        let device = s.device;
        let d = &mut self.devices[device as usize];
        s.interrupted = true;
        if !s.running {
            // Nothing to save, but the driver's round trip still takes its time.
            return now + d.spec.save_fixed_ns;
        }
        if s.is_restoring() {
            return self.interrupt_restore(stream);
        }
        let left_ns = d.sharing.stop(now, stream);
        let (cmd, since_ns) = s.stop(left_ns);
        let done = now + d.cost.save(s.context_permille).as_ns();
        d.switch(done - now);
        d.stalled_until_ns = d.stalled_until_ns.max(done);
        d.sharing.stall(now, d.stalled_until_ns > now);
        d.account(now);
        // Not at once even if saving is free: streams that are taken off together must not start
        // one after the other in between.
        self.clock.at(d.stalled_until_ns, Event::Kick { device });
        if self.verbose {
            self.notes.push(Note::Stopped { stream, cmd, since_ns, finished: false });
            self.notes.push(Note::Switched { stream, from_ns: now, to_ns: done, save: true });
        }
        self.reschedule(device);
        done
    }

    /// Takes the device away from a stream whose command is being restored. There is nothing to
    /// save, but the driver's round trip.
    fn interrupt_restore(&mut self, stream: u32) -> u64 {
        let now = self.clock.now_ns();
        let s = &mut self.streams[stream as usize];
        let device = s.device;
        let d = &mut self.devices[device as usize];
        let left_ns = d.sharing.stop(now, stream);
        let (cmd, took_ns) = s.stop_restore(left_ns);
        d.switching(took_ns);
        d.account(now);
        self.clock.after(0, Event::Kick { device });
        if self.verbose {
            let from_ns = s.started_ns;
            self.notes.push(Note::Switched { stream, from_ns, to_ns: now, save: false });
            self.notes.push(Note::Stopped { stream, cmd, since_ns: now, finished: false });
        }
        let done_ns = now + d.spec.save_fixed_ns;
        self.reschedule(device);
        done_ns
    }

    /// Lets an interrupted stream continue; its command is restored when it has its turn.
    fn restore(&mut self, stream: u32) {
        let s = &mut self.streams[stream as usize];
        let d = &mut self.devices[s.device as usize];
        s.interrupted = false;
        // What was interrupted again before its turn came is still saved.
        let saved = |head: &&mut Launched| head.started && head.restore_ns.is_none();
        if let Some(head) = s.fifo.front_mut().filter(saved) {
            let restore_ns = d.cost.restore(s.context_permille).as_ns();
            head.restore_ns = Some(restore_ns);
            d.switches += 1;
        }
        self.resume(stream);
        self.offer_again(stream);
    }

    /// A hold is over: what had not begun begins a little later.
    fn resume(&mut self, stream: u32) {
        let now = self.clock.now_ns();
        let s = &mut self.streams[stream as usize];
        let resume_ns = self.devices[s.device as usize].spec.resume_ns;
        if let Some(head) = s.fifo.front_mut().filter(|head| !head.started) {
            head.ready_at_ns = head.ready_at_ns.max(now.saturating_add(resume_ns));
        }
    }

    /// The device behind a stream is gone, and with it what ran there.
    pub(crate) fn kill(&mut self, stream: u32) {
        let now = self.clock.now_ns();
        let s = &mut self.streams[stream as usize];
        let device = s.device;
        if s.running {
            self.devices[device as usize].sharing.stop(now, stream);
            let (cmd, since_ns) = s.stop(0);
            if self.verbose {
                self.notes.push(Note::Stopped { stream, cmd, since_ns, finished: false });
            }
        }
        self.abandon(stream);
        self.devices[device as usize].account(now);
        self.reschedule(device);
        self.start_next(device);
    }

    /// The process behind a stream has died: what has not started never will.
    pub(crate) fn abandon(&mut self, stream: u32) {
        self.unstage(stream);
        let s = &mut self.streams[stream as usize];
        let keep = usize::from(s.running);
        s.fifo.truncate(keep);
        s.fences.clear();
        s.closed = 0;
        s.interrupted = false;
        s.held_at_ns = None;
        s.turn = None;
    }
}
