//! Checks of a queue's claims.

use xsched_core::fault::Fault;
use xsched_core::hal::Steps;
use xsched_core::level::{Level, Step as DeviceStep};

use super::{Check, list};
use crate::rig::{Rig, device, open};
use crate::subject::Subject;
use crate::verdict::{Step, ensure, skip};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "level::caps_are_consistent",
        "`Caps`: what the core computes windows and steps from",
        caps_are_consistent;
        "level::is_what_is_claimed",
        "`Caps::level` is the claimed one, and there is code for it",
        is_what_is_claimed;
        "level::other_steps_are_refused",
        "`Steps::step`: `Fault::NotSupported` where there is no code for it",
        other_steps_are_refused;
    }
}

fn caps_are_consistent<S: Subject>(subject: &S) -> Step {
    let caps = open(subject, &device(subject)?, 0)?.caps;
    let (level, deactivate, interrupt) = (caps.level, caps.deactivate, caps.interrupt);
    ensure!(caps.entries_max >= 4, "entries_max is {}, and must be 4 or more", caps.entries_max);
    ensure!(
        interrupt.is_some() == (level == Level::Interrupt),
        "at {level}, what an interrupt does is {interrupt:?}"
    );
    // At Lv3 a hold may need no deactivation.
    ensure!(
        level == Level::Interrupt || deactivate.is_some() == (level == Level::Deactivate),
        "at {level}, what a deactivation does is {deactivate:?}"
    );
    Ok(())
}

fn is_what_is_claimed<S: Subject>(subject: &S) -> Step {
    let claimed = subject.claims().level;
    let queue = open(subject, &device(subject)?, 0)?;
    let (level, code) = (queue.caps.level, queue.preempt.level());
    ensure!(level == claimed, "the queue has {level}, and {claimed} is claimed");
    ensure!(code >= level, "the queue has {level}, and there is code for {code} only");
    Ok(())
}

fn other_steps_are_refused<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    let code = rig.preempt.level();
    if code == Level::Interrupt {
        return skip("there is code for all steps");
    }
    for step in
        [DeviceStep::Deactivate, DeviceStep::Interrupt, DeviceStep::Restore, DeviceStep::Reactivate]
    {
        let deactivates = matches!(step, DeviceStep::Deactivate | DeviceStep::Reactivate);
        if deactivates && code >= Level::Deactivate {
            continue;
        }
        let answer = rig.preempt.step(step);
        let refused = answer == Err(Fault::NotSupported);
        ensure!(refused, "there is code for {code}, and {step:?} is answered with {answer:?}");
    }
    let n = rig.empty(true)?;
    rig.seen_upto(n + 1)
}
