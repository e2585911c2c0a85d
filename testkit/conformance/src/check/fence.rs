//! A completion is reported if, and only if, a fence covers it.

use std::time::Instant;

use xsched_core::hal::Retire;

use super::{Check, list};
use crate::rig::{Rig, in_time};
use crate::subject::Subject;
use crate::verdict::{Step, Stop, ensure};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "fence::fenced_is_seen",
        "`Submit::launch`: with a fence its completion is seen",
        fenced_is_seen;
        "fence::unfenced_is_not_seen",
        "`Submit::launch`: no fence, no completion; what a fence costs is paid on demand only",
        unfenced_is_not_seen;
        "fence::put_after_the_fact",
        "invariant 5, No lost wake-up; `Submit::fence`: shows what has ended already",
        put_after_the_fact;
        "fence::put_while_running",
        "invariant 4, Wait; `Submit::fence`: shows a batch in its midst, when that has ended",
        put_while_running;
        "fence::put_behind_nothing",
        "`Submit::fence`: with nothing in flight it tells nothing new and does no harm",
        put_behind_nothing;
    }
}

fn fenced_is_seen<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    for _ in 0..50 {
        let n = rig.empty(true)?;
        rig.seen_upto(n + 1)?;
    }
    // One fence shows all before it.
    for n in 0..3 {
        rig.empty(n == 2)?;
    }
    rig.finish()
}

/// Launches a few commands without a fence and lets them end.
fn unfenced<S: Subject>(rig: &mut Rig<'_, S>) -> Step {
    for _ in 0..3 {
        match rig.timed(1_000, false) {
            Ok(n) => rig.ended(n)?,
            // Commands that cannot be seen running show it as well, if less surely.
            Err(Stop::Skip(_)) => drop(rig.empty(false)?),
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

fn unfenced_is_not_seen<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    rig.empty(true)?;
    rig.seen_upto(1)?;
    unfenced(&mut rig)?;
    let end = Instant::now() + subject.settle();
    while Instant::now() < end {
        // `poll` fails for what no fence covers.
        ensure!(rig.poll()?.is_none(), "a completion without a fence is reported");
    }
    rig.finish()
}

fn put_after_the_fact<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    for _ in 0..20 {
        unfenced(&mut rig)?;
        rig.fence()?;
        rig.seen_upto(rig.launched())?;
    }
    rig.finish()
}

fn put_while_running<S: Subject>(subject: &S) -> Step {
    in_time(subject, "the fence was put when the first command had ended", |ns| {
        let mut rig = Rig::new(subject)?;
        let first = rig.timed(ns, false)?;
        for _ in 0..3 {
            rig.timed(ns / 10, false)?;
        }
        rig.started(first)?;
        rig.fence()?;
        let in_time = rig.ends() == 0;
        rig.seen_upto(rig.launched())?;
        rig.finish()?;
        Ok(in_time)
    })
}

fn put_behind_nothing<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    for _ in 0..10 {
        rig.empty(true)?;
        rig.seen_upto(rig.launched())?;
        rig.fence()?;
        let end = Instant::now() + subject.settle() / 10;
        while Instant::now() < end {
            let again = rig.retire.poll_retired().ok().flatten();
            // Telling the same again would do no harm.
            let known = again.is_none_or(|retired| retired.upto.count() <= rig.seen);
            ensure!(known, "a fence behind nothing shows {again:?}");
        }
    }
    rig.finish()
}
