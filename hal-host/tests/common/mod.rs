//! Common code of the tests. None depends on how fast anything is, only on what comes after what.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xsched_core::hal::{Backend, Halves, LevelAdapter, Retire, StepDone, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::Step;
use xsched_core::queue::{Outcome, Retired};
use xsched_hal_host::{HostCommand, HostConfig, HostDevice, HostPreempt, HostRetire, HostSubmit};

pub(crate) type Open = Halves<HostSubmit, HostRetire, LevelAdapter<HostPreempt>>;

pub(crate) fn device(compute_units: u32) -> HostDevice {
    HostDevice::new(HostConfig::default().with_compute_units(compute_units)).unwrap()
}

pub(crate) fn open(device: &HostDevice) -> Open {
    device.clone().open(QueueId::new(0, 0), ()).unwrap()
}

/// Waits, for a time that only a hang exceeds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Polls until everything up to `last` has retired. The answers.
pub(crate) fn retire(half: &mut impl Retire, last: u64) -> Vec<Retired> {
    let mut answers = Vec::new();
    until("retire", || {
        if let Some(retired) = half.poll_retired().unwrap() {
            assert!(retired.upto <= CmdId(last));
            answers.push(retired);
        }
        answers.last().is_some_and(|retired| retired.upto == CmdId(last))
    });
    answers
}

pub(crate) fn all_ok(answers: &[Retired]) -> bool {
    answers.iter().all(|retired| retired.outcome == Outcome::Ok)
}

/// Carries out a step to its end.
pub(crate) fn step(half: &mut impl Steps, step: Step) {
    let mut done = half.step(step).unwrap();
    until("step", || {
        if done == StepDone::Later {
            done = half.poll_step().unwrap().unwrap_or(StepDone::Later);
        }
        done != StepDone::Later
    });
    assert_eq!(done, StepDone::Now(None));
}

pub(crate) fn hold(half: &mut impl Steps) {
    step(half, Step::Deactivate);
    step(half, Step::Interrupt);
}

pub(crate) fn release(half: &mut impl Steps) {
    step(half, Step::Restore);
    step(half, Step::Reactivate);
}

/// Puts `n` on a list; not interruptible.
pub(crate) fn push(list: &Arc<std::sync::Mutex<Vec<u64>>>, n: u64) -> HostCommand {
    let list = Arc::clone(list);
    HostCommand::new(move || list.lock().unwrap().push(n))
}

/// A command that counts until told to end.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    pub(crate) count: AtomicU64,
    pub(crate) end: AtomicBool,
}

impl Spin {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn counts(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.end.store(true, Ordering::Relaxed);
    }

    pub(crate) fn until_running(&self) {
        let before = self.counts();
        until("progress", || self.counts() > before);
    }

    pub(crate) fn stubborn(self: &Arc<Self>) -> HostCommand {
        let spin = Arc::clone(self);
        HostCommand::new(move || {
            while !spin.end.load(Ordering::Relaxed) {
                spin.count.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    pub(crate) fn command(self: &Arc<Self>) -> HostCommand {
        // SAFETY: it loads and adds, and the Arc that it holds is given up after it has ended.
        unsafe { self.stubborn().interruptible() }
    }
}

pub(crate) fn launch(submit: &mut impl Submit<Payload = HostCommand>, n: u64, c: &HostCommand) {
    submit.launch(CmdId(n), c, true).unwrap();
}
