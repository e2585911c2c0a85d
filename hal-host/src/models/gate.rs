//! The gate word, between a queue's thread with its signals and the thread that stops commands.

use std::sync::Arc;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering};

use super::harness::{explore, join, long, start};
use crate::gate::{Gate, Request};
use crate::sync::modelled::{Signals, handle_here, signal_point};

/// State under the device's lock.
#[derive(Debug, Default)]
struct Device {
    /// A command was chosen and has not been seen to end.
    started: bool,
    /// The command is known to be stopped, and was not resumed.
    stopped: bool,
    /// Nothing is to start.
    interrupted: bool,
}

/// State that a queue's thread and the interrupting thread share.
#[derive(Clone)]
struct Queue {
    gate: Arc<Gate>,
    signals: Arc<Signals>,
    device: Arc<Mutex<Device>>,
}

impl Queue {
    fn new() -> Self {
        let gate = Arc::new(Gate::default());
        let signalled = Arc::clone(&gate);
        let handler = Box::new(move || signalled.on_signal());
        let signals = Signals { handler, pending: AtomicBool::new(false) };
        Self { gate, signals: Arc::new(signals), device: Arc::new(Mutex::new(Device::default())) }
    }

    /// The queue's thread: runs one command, as the executor does.
    fn run(&self) {
        handle_here(&self.signals);
        let mut device = self.device.lock().expect("no thread panics");
        if device.interrupted {
            return;
        }
        self.gate.prepare();
        device.started = true;
        drop(device);
        self.gate.enter();
        // The command: an instruction, and a look at whether it should run at all.
        signal_point();
        assert!(!self.device.lock().expect("no thread panics").stopped, "a stopped command runs");
        self.gate.leave();
        self.device.lock().expect("no thread panics").started = false;
        // A late one.
        signal_point();
    }

    /// Stops the running command, as `HostPreempt::interrupt` does, and waits for that.
    fn interrupt(&self) {
        let mut device = self.device.lock().expect("no thread panics");
        device.interrupted = true;
        let request = if device.started { self.gate.request() } else { Request::Nothing };
        if request == Request::Signal {
            self.signals.pending.store(true, Ordering::Release);
        }
        drop(device);
        if request != Request::Nothing {
            self.gate.wait_stopped(u64::MAX);
        }
        let mut device = self.device.lock().expect("no thread panics");
        device.stopped = device.started && self.gate.stopped_at().is_some();
        let ended = !device.started || self.gate.is_idle();
        assert!(device.stopped || ended, "neither stopped nor ended");
    }

    /// Lets it go on, as `State::grant` does.
    fn restore(&self) {
        let mut device = self.device.lock().expect("no thread panics");
        device.interrupted = false;
        if std::mem::take(&mut device.stopped) {
            self.gate.resume();
        }
    }

    /// Asks for a stop and takes it back at once, as `State::withdraw_interrupt` does.
    fn ask_and_withdraw(&self) {
        let device = self.device.lock().expect("no thread panics");
        let request = if device.started { self.gate.request() } else { Request::Nothing };
        if request == Request::Signal {
            self.signals.pending.store(true, Ordering::Release);
        }
        drop(device);
        let device = self.device.lock().expect("no thread panics");
        if device.started {
            self.gate.withdraw();
            if self.gate.stopped_at().is_some() {
                self.gate.resume();
            }
        }
    }
}

/// A command that is stopped, early, late or in between, stops or ends, and goes on when it may.
#[test]
fn a_stop() {
    explore("gate::a_stop", 6, || {
        let queue = Queue::new();
        let thread = queue.clone();
        let thread = start(move || thread.run());
        for _ in 0..if long() { 2 } else { 1 } {
            queue.interrupt();
            queue.restore();
        }
        join(thread);
    });
}

/// A request that is taken back leaves nothing behind, though its signal may still come.
#[test]
fn a_request_that_is_taken_back() {
    explore("gate::a_request_that_is_taken_back", 6, || {
        let queue = Queue::new();
        let thread = queue.clone();
        let thread = start(move || thread.run());
        for _ in 0..if long() { 2 } else { 1 } {
            queue.ask_and_withdraw();
        }
        join(thread);
    });
}

/// A stop after a request that was taken back: the signal of either stops the command.
#[test]
fn a_stop_after_a_request_that_was_taken_back() {
    explore("gate::a_stop_after_a_request_that_was_taken_back", 5, || {
        let queue = Queue::new();
        let thread = queue.clone();
        let thread = start(move || thread.run());
        queue.ask_and_withdraw();
        queue.interrupt();
        queue.restore();
        join(thread);
    });
}
