//! Devices that stage steps: what is staged is carried out by the next commit, all of it.

use xsched_core::hal::{StepDone, Steps};
use xsched_core::level::{Level, Step as DeviceStep};

use super::{Check, list};
use crate::rig::{Device, Rig, device, in_time, stands_still, until};
use crate::subject::Subject;
use crate::verdict::{Step, ensure, skip};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "commit::nothing_is_answered_before",
        "`Backend::commit`: a step that was staged is not in effect, and not said to be",
        nothing_is_answered_before;
        "commit::all_that_is_staged",
        "`Backend::commit`: holds of several queues, and then their ends",
        all_that_is_staged;
        "commit::holds_and_ends_together",
        "`Backend::commit`: one queue's hold and the end of another one's",
        holds_and_ends_together;
        "commit::with_nothing_staged",
        "`Backend::commit`: a second commit with nothing staged succeeds",
        with_nothing_staged;
        "commit::after_a_queue_has_gone",
        "`Backend::commit`: a queue that was closed with a step staged does no harm",
        after_a_queue_has_gone;
        "commit::costs_one_preemption",
        "`Backend::commit`: several holds decided together cost one preemption",
        costs_one_preemption;
    }
}

/// Queues that are held together.
const QUEUES: u32 = 3;

/// The deepest hold that one step leads to, and its end.
fn pair<S: Subject>(rig: &Rig<'_, S>) -> Step<(DeviceStep, DeviceStep)> {
    match rig.caps.level {
        Level::Block => skip("the device has no steps"),
        // Alone, without a deactivation.
        Level::Interrupt if rig.caps.deactivate.is_none() => {
            Ok((DeviceStep::Interrupt, DeviceStep::Restore))
        }
        _ => Ok((DeviceStep::Deactivate, DeviceStep::Reactivate)),
    }
}

fn staging<S: Subject>(subject: &S) -> Step<Device<S>> {
    let device = device(subject)?;
    if !device.stages() {
        return skip("the device carries out its steps at once");
    }
    Ok(device)
}

/// Stages a step. If the device carries it out at once, it is answered now.
fn stage<S: Subject>(rig: &mut Rig<'_, S>, step: DeviceStep) -> Step<Option<StepDone>> {
    match rig.preempt.stage(step) {
        Ok(StepDone::Later) => Ok(None),
        Ok(done) => Ok(Some(done)),
        Err(fault) => crate::verdict::fail(format!("{step:?} was refused: {fault}")),
    }
}

/// Waits for the answer to a step that was committed.
fn answered<S: Subject>(rig: &mut Rig<'_, S>, step: DeviceStep) -> Step {
    let preempt = &mut rig.preempt;
    let mut done = None;
    until(rig.subject, &format!("the answer to {step:?} after the commit"), || {
        done = match preempt.poll_step() {
            Ok(Some(StepDone::Now(first))) => Some(first),
            Ok(None | Some(StepDone::Later)) => None,
            Err(fault) => return crate::verdict::fail(format!("{step:?} failed: {fault}")),
        };
        Ok(done.is_some())
    })?;
    rig.stepped(step, done.flatten()).map(drop)
}

/// Queues with a command that runs or waits for its turn, and more commands behind it.
fn busy<'a, S: Subject>(
    s: &'a S,
    device: &Device<S>,
    count: u32,
    ns: u64,
) -> Step<Vec<Rig<'a, S>>> {
    let mut rigs = (0..count).map(|n| Rig::on(s, device, n)).collect::<Step<Vec<_>>>()?;
    for rig in &mut rigs {
        pair(rig)?;
        rig.require_continue()?;
        rig.timed(ns, true)?;
        rig.timed(1_000, true)?;
    }
    rigs[0].started(0)?;
    Ok(rigs)
}

/// The steps of the deepest hold, as the core takes them.
fn deepest<S: Subject>(rig: &Rig<'_, S>) -> Step<Vec<DeviceStep>> {
    pair(rig)?;
    let mut steps = Vec::new();
    if rig.caps.deactivate.is_some() {
        steps.push(DeviceStep::Deactivate);
    }
    if rig.caps.level >= Level::Interrupt {
        steps.push(DeviceStep::Interrupt);
    }
    Ok(steps)
}

/// The way back from a step of a hold.
const fn back(step: DeviceStep) -> DeviceStep {
    match step {
        DeviceStep::Interrupt => DeviceStep::Restore,
        _ => DeviceStep::Reactivate,
    }
}

/// Stages a step for all, commits once, and waits for the answers.
fn apply<S: Subject>(device: &Device<S>, rigs: &mut [Rig<'_, S>], step: DeviceStep) -> Step {
    let mut staged = Vec::new();
    for rig in rigs.iter_mut() {
        staged.push(stage(rig, step)?);
    }
    device.commit()?;
    for (rig, done) in rigs.iter_mut().zip(staged) {
        match done {
            Some(StepDone::Now(first)) => drop(rig.stepped(step, first)?),
            _ => answered(rig, step)?,
        }
    }
    Ok(())
}

/// Holds or releases all queues by one commit, by one step each.
fn together<S: Subject>(device: &Device<S>, rigs: &mut [Rig<'_, S>], hold: bool) -> Step {
    let (down, up) = pair(&rigs[0])?;
    apply(device, rigs, if hold { down } else { up })
}

fn nothing_is_answered_before<S: Subject>(subject: &S) -> Step {
    let device = staging(subject)?;
    let mut rigs = busy(subject, &device, 1, subject.claims().unit_ns)?;
    let rig = &mut rigs[0];
    let (down, up) = pair(rig)?;
    for step in [down, up] {
        if let Some(StepDone::Now(first)) = stage(rig, step)? {
            rig.stepped(step, first)?;
            continue;
        }
        let mut answers = 0;
        for _ in 0..100 {
            answers += u64::from(rig.preempt.poll_step() != Ok(None));
        }
        ensure!(answers == 0, "{step:?} was answered before it was committed");
        device.commit()?;
        answered(rig, step)?;
    }
    rig.finish()
}

const LATE: &str = "everything had run before the holds were in effect";

fn all_that_is_staged<S: Subject>(subject: &S) -> Step {
    in_time(subject, LATE, |ns| {
        let device = staging(subject)?;
        let mut rigs = busy(subject, &device, QUEUES, ns)?;
        let steps = deepest(&rigs[0])?;
        for step in &steps {
            apply(&device, &mut rigs, *step)?;
        }
        let held = stays_held(subject, &rigs, steps.contains(&DeviceStep::Interrupt))?;
        for step in steps.into_iter().rev() {
            apply(&device, &mut rigs, back(step))?;
        }
        rigs.iter_mut().try_for_each(Rig::finish)?;
        Ok(held)
    })
}

/// At Lv3 nothing runs. At Lv2 what runs may end, and each queue may have started one command that
/// has not come to note it; then nothing starts. False if everything had run already.
fn stays_held<S: Subject>(subject: &S, rigs: &[Rig<'_, S>], deep: bool) -> Step<bool> {
    let starts = || rigs.iter().map(Rig::starts).sum::<u64>();
    let before = starts();
    if deep {
        let moves = || rigs.iter().map(|rig| rig.progress() + rig.starts()).sum();
        stands_still(subject, "commands of held queues run", moves)?;
    } else {
        std::thread::sleep(subject.settle());
        for rig in rigs {
            until(subject, "the end of what ran", || Ok(rig.starts() == rig.ends()))?;
        }
        let more = starts() - before;
        ensure!(more <= u64::from(QUEUES), "{more} commands of held queues started");
        stands_still(subject, "commands of held queues start", starts)?;
    }
    Ok(before < rigs.iter().map(Rig::launched).sum())
}

fn holds_and_ends_together<S: Subject>(subject: &S) -> Step {
    let device = staging(subject)?;
    let mut rigs = busy(subject, &device, 2, subject.claims().unit_ns)?;
    together(&device, &mut rigs[..1], true)?;
    for round in 0..4 {
        let (held, free) = (round % 2, (round + 1) % 2);
        let (down, up) = pair(&rigs[0])?;
        let steps = [(held, up), (free, down)];
        let mut done = Vec::new();
        for (n, step) in steps {
            done.push(stage(&mut rigs[n], step)?);
        }
        device.commit()?;
        for ((n, step), done) in steps.into_iter().zip(done) {
            match done {
                Some(StepDone::Now(first)) => drop(rigs[n].stepped(step, first)?),
                _ => answered(&mut rigs[n], step)?,
            }
        }
    }
    together(&device, &mut rigs[..1], false)?;
    rigs.iter_mut().try_for_each(Rig::finish)
}

fn with_nothing_staged<S: Subject>(subject: &S) -> Step {
    let device = staging(subject)?;
    device.commit()?;
    let mut rig = Rig::on(subject, &device, 0)?;
    for _ in 0..3 {
        let n = rig.empty(true)?;
        device.commit()?;
        rig.seen_upto(n + 1)?;
    }
    rig.finish()
}

fn after_a_queue_has_gone<S: Subject>(subject: &S) -> Step {
    let device = staging(subject)?;
    let mut rigs = busy(subject, &device, 2, subject.claims().unit_ns)?;
    let (down, _) = pair(&rigs[0])?;
    for rig in &mut rigs {
        if let Some(StepDone::Now(first)) = stage(rig, down)? {
            rig.stepped(down, first)?;
        }
    }
    let mut rest = rigs.split_off(1);
    drop(rigs);
    device.commit()?;
    if !rest[0].is_held() {
        answered(&mut rest[0], down)?;
    }
    together(&device, &mut rest, false)?;
    rest.iter_mut().try_for_each(Rig::finish)
}

fn costs_one_preemption<S: Subject>(subject: &S) -> Step {
    let device = staging(subject)?;
    let count = || device.with(|device| subject.preemptions(device));
    if count().is_none() {
        return skip("the device does not tell how many preemptions there were");
    }
    let mut rigs = busy(subject, &device, QUEUES, subject.claims().unit_ns)?;
    let down = deepest(&rigs[0])?;
    let up: Vec<_> = down.iter().rev().map(|step| back(*step)).collect();
    for step in down.into_iter().chain(up) {
        let before = count().unwrap_or_default();
        apply(&device, &mut rigs, step)?;
        let cost = count().unwrap_or_default() - before;
        ensure!(cost <= 1, "{QUEUES} steps in a commit cost {cost} preemptions");
    }
    rigs.iter_mut().try_for_each(Rig::finish)
}
