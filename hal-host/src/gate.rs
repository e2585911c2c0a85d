//! The word by which a running command is stopped and continued.
//!
//! ```text
//!   IDLE ──prepare──▶ READY ──enter──▶ RUNNING ──leave──▶ IDLE
//!                      │ ▲               │ ▲
//!              request │ │ withdraw      │ │ withdraw
//!                      ▼ │       request ▼ │
//!                  STOP_EARLY           STOP ──leave──▶ IDLE
//!                      └──enter──▶ STOPPED ◀──signal
//!                                     └──resume──▶ RUNNING
//! ```
//!
//! Three parties: the queue's thread (`prepare`, `enter`, `leave`), the handler on that thread
//! (`on_signal`), and the thread that holds the device's lock (`request`, `withdraw`, `resume`).
//!
//! `READY` is there because the queue's thread decides to start a command under the device's lock,
//! and releasing a lock takes more than one instruction: stopped in between, it would block all
//! other users of the lock. So signals stop it only from `RUNNING` on, and `enter` heeds a request
//! that came earlier.
//!
//! A signal that comes late finds another state than `STOP` and does nothing, or finds a `STOP`
//! that was asked for since, and does what the next signal would.

use std::hint;
use std::sync::atomic::Ordering;

use crate::sync::{AtomicU32, AtomicU64, futex_wait, futex_wake, now_ns, signal_point};

const IDLE: u32 = 0;
const READY: u32 = 1;
const RUNNING: u32 = 2;
const STOP_EARLY: u32 = 3;
const STOP: u32 = 4;
const STOPPED: u32 = 5;

/// Looks at the word this often before sleeping.
const SPINS: u32 = if cfg!(loom) { 1 } else { 200 };

/// Answer to a request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A command that runs: send the signal, then wait.
    Signal,
    /// A command that is about to run, or that was asked already: wait.
    Wait,
    /// A command that is stopped or has ended.
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    word: AtomicU32,
    stopped_at: AtomicU64,
}

impl Gate {
    fn turn(&self, from: u32, to: u32) -> bool {
        signal_point();
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is(&self, state: u32) -> bool {
        signal_point();
        self.word.load(Ordering::Acquire) == state
    }

    /// The queue's thread has chosen an interruptible command. Under the device's lock.
    pub(crate) fn prepare(&self) {
        self.word.store(READY, Ordering::Release);
    }

    /// The queue's thread starts it. Not under the device's lock.
    pub(crate) fn enter(&self) {
        while !self.turn(READY, RUNNING) {
            if self.stop_from(STOP_EARLY) {
                break;
            }
        }
    }

    /// The command has ended. Not under the device's lock.
    pub(crate) fn leave(&self) {
        signal_point();
        if self.word.swap(IDLE, Ordering::AcqRel) == STOP {
            futex_wake(&self.word);
        }
    }

    /// The signal has come. Called from the handler: only atomics and system calls.
    pub(crate) fn on_signal(&self) {
        if self.is(STOP) {
            self.stop_from(STOP);
        }
    }

    /// Stops here until resumed, if `state` is the state.
    fn stop_from(&self, state: u32) -> bool {
        self.stopped_at.store(now_ns(), Ordering::Relaxed);
        if !self.turn(state, STOPPED) {
            return false;
        }
        futex_wake(&self.word);
        while self.is(STOPPED) {
            futex_wait(&self.word, STOPPED, None);
        }
        true
    }

    /// Asks the command to stop. Under the device's lock.
    pub(crate) fn request(&self) -> Request {
        loop {
            match self.word.load(Ordering::Acquire) {
                RUNNING if self.turn(RUNNING, STOP) => return Request::Signal,
                READY if self.turn(READY, STOP_EARLY) => return Request::Wait,
                STOP | STOP_EARLY => return Request::Wait,
                IDLE | STOPPED => return Request::Nothing,
                _ => {}
            }
        }
    }

    /// Takes the request back. Under the device's lock.
    pub(crate) fn withdraw(&self) {
        let _ = self.turn(STOP, RUNNING) || self.turn(STOP_EARLY, READY);
    }

    /// Waits until a request has been heeded, or the command has ended, but not for longer than
    /// `timeout_ns`. Not under the device's lock.
    pub(crate) fn wait_stopped(&self, timeout_ns: u64) {
        let until = now_ns().saturating_add(timeout_ns);
        let mut spins = 0;
        loop {
            let word = self.word.load(Ordering::Acquire);
            if !matches!(word, STOP | STOP_EARLY) {
                return;
            }
            if spins < SPINS {
                spins += 1;
                hint::spin_loop();
                continue;
            }
            let left = until.saturating_sub(now_ns());
            if left == 0 {
                return;
            }
            futex_wait(&self.word, word, Some(left));
        }
    }

    /// When the command stopped, in nanoseconds of the monotonic clock, if it is stopped.
    pub(crate) fn stopped_at(&self) -> Option<u64> {
        self.is(STOPPED).then(|| self.stopped_at.load(Ordering::Relaxed))
    }

    /// True if the command that was prepared last has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.is(IDLE)
    }

    /// Lets a stopped command continue. Under the device's lock.
    pub(crate) fn resume(&self) {
        if self.turn(STOPPED, RUNNING) {
            futex_wake(&self.word);
        }
    }
}

// Models have gates of another kind.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_request_before_the_start_stops_the_command_there() {
        let gate = Gate::default();
        gate.prepare();
        assert_eq!(gate.request(), Request::Wait);
        // A late signal must not stop the thread before it has let go of the lock.
        gate.on_signal();
        assert_eq!(gate.stopped_at(), None);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| gate.enter());
            gate.wait_stopped(u64::MAX);
            assert!(gate.stopped_at().is_some());
            assert_eq!(gate.request(), Request::Nothing);
            assert!(!thread.is_finished());
            gate.resume();
        });
        assert!(gate.is(RUNNING));
        gate.leave();
        assert!(gate.is_idle());
    }

    #[test]
    fn a_late_signal_does_nothing() {
        let gate = Gate::default();
        gate.on_signal();
        assert_eq!(gate.request(), Request::Nothing);
        gate.prepare();
        gate.enter();
        gate.on_signal();
        assert_eq!(gate.request(), Request::Signal);
        assert_eq!(gate.request(), Request::Wait);
        gate.withdraw();
        gate.on_signal();
        assert!(gate.is(RUNNING));
        assert_eq!(gate.request(), Request::Signal);
        gate.leave();
        gate.on_signal();
        assert!(gate.is_idle());
    }

    #[test]
    fn waiting_for_a_stop_ends() {
        let gate = Gate::default();
        gate.prepare();
        gate.enter();
        assert_eq!(gate.request(), Request::Signal);
        gate.wait_stopped(1_000_000);
        assert_eq!(gate.stopped_at(), None);
        std::thread::scope(|scope| {
            scope.spawn(|| gate.wait_stopped(u64::MAX));
            gate.leave();
        });
        assert!(gate.is_idle());
    }
}
