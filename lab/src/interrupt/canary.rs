//! The first steps on a GPU where nothing of this has run before: from one small kernel to a full
//! device, each step after a look at the kernel's log, and none after a bad one.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xsched_hal_kfd::log::Watch;

use super::queues::Queues;
use crate::device::LabError;
use crate::device::interruptible::Interruptible;
use crate::device::load::{Kind, Load, Share};

/// Device time of the kernels, in nanoseconds.
const NS: u64 = 2_000_000;

/// A step that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StepParams {
    what: &'static str,
    share: Share,
    queues: u32,
    /// Set if the queue is busy when it is interrupted.
    busy: bool,
    interrupts: u32,
}

const fn params(
    what: &'static str,
    share: Share,
    (queues, busy, interrupts): (u32, bool, u32),
) -> StepParams {
    StepParams { what, share, queues, busy, interrupts }
}

/// The steps, the most careful first.
const STEPS: [StepParams; 8] = [
    params("a kernel of one workgroup, not interrupted", Share::One, (1, true, 0)),
    params("one interrupt of an idle queue", Share::One, (1, false, 1)),
    params("one interrupt of one workgroup", Share::One, (1, true, 1)),
    params("ten interrupts of one workgroup", Share::One, (1, true, 10)),
    params("ten interrupts of half of the device", Share::Half, (1, true, 10)),
    params("ten interrupts of the full device", Share::Full, (1, true, 10)),
    params("ten interrupts of four queues at once", Share::Full, (4, true, 10)),
    params("a hundred interrupts of the full device", Share::Full, (1, true, 100)),
];

/// Outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// With which mechanism.
    pub(crate) mechanism: String,
    /// Step that was done.
    pub(crate) what: String,
    /// Why nothing more is done, if so.
    pub(crate) stopped: Option<String>,
}

/// Tries the steps with a mechanism until something is wrong. `begin` is told what comes next,
/// before it is done: it may be the last thing that this machine does.
pub(crate) fn run_steps<K: Interruptible>(
    device: &K,
    mechanism: &str,
    watch: &mut Watch,
    begin: &mut dyn FnMut(&str),
) -> Vec<Step> {
    let mut steps = Vec::new();
    for params in &STEPS {
        begin(params.what);
        let stopped = guarded(watch, || attempt(device, mechanism, params));
        let is_last = stopped.is_some();
        steps.push(Step { mechanism: mechanism.to_owned(), what: params.what.to_owned(), stopped });
        if is_last {
            break;
        }
    }
    steps
}

/// Does it between two looks at the log. What was wrong, if anything was.
fn guarded(watch: &mut Watch, attempt: impl FnOnce() -> Result<(), LabError>) -> Option<String> {
    if let Err(line) = watch.check() {
        return Some(format!("before it began, {line}"));
    }
    let ended = attempt();
    watch.check().err().or_else(|| ended.err().map(|error| error.to_string()))
}

fn attempt<K: Interruptible>(
    device: &K,
    mechanism: &str,
    params: &StepParams,
) -> Result<(), LabError> {
    let load = Load { kind: Kind::Alu, share: params.share, ns: NS };
    let mut queues = Queues::open(device, mechanism, load, params.queues)?;
    if params.interrupts == 0 {
        queues.run_one()?;
    }
    for _ in 0..params.interrupts {
        if params.busy {
            queues.run()?;
        }
        queues.hold()?;
        thread::sleep(queues.settled());
        let marks = queues.marks();
        thread::sleep(Duration::from_nanos(NS).max(queues.settled()));
        let ran_on = queues.marks() != marks;
        queues.resume()?;
        if ran_on {
            return Err(LabError::new("a victim ran though the backend said that it does not"));
        }
    }
    queues.drain()?;
    // One that was idle shows only now that it has been let go.
    queues.run_one()?;
    let (sums, launched) = queues.sums()?;
    if sums.wrong > 0 || sums.finished != launched {
        return Err(LabError::new(format!(
            "of {launched} commands {} ran, and {} had wrong results",
            sums.finished, sums.wrong
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::log::tests::Scripted;
    use super::*;
    use crate::device::host::Host;

    #[test]
    fn all_steps_succeed_on_the_host() {
        let mut began = 0;
        let mut quiet = Scripted::after(1_000, "");
        let steps = run_steps(&Host::open().unwrap(), "signal", &mut quiet, &mut |_| began += 1);
        assert_eq!((steps.len(), began), (STEPS.len(), STEPS.len()));
        assert!(steps.iter().all(|step| step.stopped.is_none()), "{steps:?}");
    }

    #[test]
    fn a_new_line_of_the_driver_ends_the_steps() {
        let host = Host::open().unwrap();
        // Two looks at each step: the fifth is before the third.
        for (looks, steps) in [(0, 1), (1, 1), (4, 3), (5, 3)] {
            let mut watch = Scripted::after(looks, "amdgpu: HIQ MQD's queue_doorbell_id0 is not 0");
            let tried = run_steps(&host, "signal", &mut watch, &mut |_| {});
            assert_eq!(tried.len(), steps, "{tried:?}");
            let last = tried.last().unwrap().stopped.as_deref().unwrap();
            assert!(last.contains("HIQ"), "{last}");
            assert_eq!(last.starts_with("before"), looks % 2 == 0, "{last}");
        }
    }

    #[test]
    fn an_unknown_mechanism_ends_the_steps_at_once() {
        let mut quiet = Scripted::after(1_000, "");
        let steps = run_steps(&Host::open().unwrap(), "magic", &mut quiet, &mut |_| {});
        assert_eq!(steps.len(), 1);
        assert!(steps[0].stopped.as_deref().unwrap().contains("magic"));
    }
}
