//! Checks of the half that watches completions.

use std::time::Instant;

use xsched_core::rng::SplitMix64;

use super::{Check, list};
use crate::rig::{Rig, device, in_time};
use crate::subject::Subject;
use crate::verdict::{Step, ensure, skip};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "retire::goes_up_and_never_ahead",
        "`Retire::poll_retired`: the newest completion not reported yet, of what was launched",
        goes_up_and_never_ahead;
        "retire::busy_time_is_plausible",
        "`Retired::busy`: device time used; what policies account with",
        busy_time_is_plausible;
        "retire::asking_does_not_block",
        "`Retire::poll_retired`: must not block",
        asking_does_not_block;
    }
}

fn goes_up_and_never_ahead<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    let mut rng = SplitMix64::new(subject.seed());
    for _ in 0..1_000 {
        rig.make_room()?;
        rig.empty(rng.chance(500))?;
        for _ in 0..rng.below(4) {
            // Every answer is checked.
            rig.poll()?;
        }
    }
    rig.finish()
}

fn busy_time_is_plausible<S: Subject>(subject: &S) -> Step {
    let claims = subject.claims();
    if claims.busy_permille == 0 {
        return skip("the device cannot measure busy time");
    }
    let device = device(subject)?;
    let start = Instant::now();
    let mut rigs =
        (0..=claims.units).map(|n| Rig::on(subject, &device, n)).collect::<Step<Vec<_>>>()?;
    let per_queue = 6;
    for round in 0..per_queue {
        for rig in &mut rigs {
            rig.timed(claims.unit_ns * 2, round % 2 == 1)?;
        }
    }
    let (mut busy_ns, mut longest_ns) = (0_u64, 0_u64);
    for rig in &mut rigs {
        rig.finish()?;
        busy_ns += rig.busy_ns;
        longest_ns = longest_ns.max(rig.busy_ns);
    }
    let wall_ns = start.elapsed().as_nanos();
    let commands = per_queue * rigs.len() as u64;
    let least_ns = commands * claims.unit_ns * 2 * u64::from(claims.busy_permille) / 1_000;
    let units = u128::from(claims.units);
    ensure!(busy_ns >= least_ns, "busy for {busy_ns} ns, and commands took {least_ns} ns or more");
    ensure!(u128::from(longest_ns) <= wall_ns, "a queue busy for {longest_ns} ns in {wall_ns} ns");
    let alone = !claims.busy_alone || u128::from(busy_ns) <= wall_ns * units;
    ensure!(alone, "busy for {busy_ns} ns in {wall_ns} ns");
    Ok(())
}

fn asking_does_not_block<S: Subject>(subject: &S) -> Step {
    in_time(subject, "asking a hundred times took until the command had ended", |ns| {
        let mut rig = Rig::new(subject)?;
        let n = rig.timed(ns, true)?;
        rig.started(n)?;
        for _ in 0..100 {
            rig.poll()?;
        }
        let in_time = rig.log.ends(n..n + 1) == 0;
        rig.finish()?;
        Ok(in_time)
    })
}
