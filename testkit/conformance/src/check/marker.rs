//! A completion is reported if, and only if, a marker covers it.

use std::time::Instant;

use xsched_core::hal::Retire;

use super::{Check, list};
use crate::rig::{Rig, in_time};
use crate::subject::Subject;
use crate::verdict::{Step, Stop, ensure};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "marker::marked_is_seen",
        "`Submit::launch`: with a marker its completion is seen",
        marked_is_seen;
        "marker::unmarked_is_not_seen",
        "`Submit::launch`: no marker, no completion; what a marker costs is paid on demand only",
        unmarked_is_not_seen;
        "marker::put_after_the_fact",
        "invariant 5, No lost wake-up; `Submit::mark`: shows what has ended already",
        put_after_the_fact;
        "marker::put_while_running",
        "invariant 4, Wait; `Submit::mark`: shows a batch in its midst, when that has ended",
        put_while_running;
        "marker::put_behind_nothing",
        "`Submit::mark`: with nothing in flight it tells nothing new and does no harm",
        put_behind_nothing;
    }
}

fn marked_is_seen<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    for _ in 0..50 {
        let n = rig.empty(true)?;
        rig.seen_upto(n + 1)?;
    }
    // One marker shows all before it.
    for n in 0..3 {
        rig.empty(n == 2)?;
    }
    rig.finish()
}

/// Launches a few commands without a marker and lets them end.
fn unmarked<S: Subject>(rig: &mut Rig<'_, S>) -> Step {
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

fn unmarked_is_not_seen<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    rig.empty(true)?;
    rig.seen_upto(1)?;
    unmarked(&mut rig)?;
    let end = Instant::now() + subject.settle();
    while Instant::now() < end {
        // `poll` fails for what no marker covers.
        ensure!(rig.poll()?.is_none(), "a completion without a marker is reported");
    }
    rig.finish()
}

fn put_after_the_fact<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    for _ in 0..20 {
        unmarked(&mut rig)?;
        rig.mark()?;
        rig.seen_upto(rig.launched())?;
    }
    rig.finish()
}

fn put_while_running<S: Subject>(subject: &S) -> Step {
    in_time(subject, "the marker was put when the first command had ended", |ns| {
        let mut rig = Rig::new(subject)?;
        let first = rig.timed(ns, false)?;
        for _ in 0..3 {
            rig.timed(ns / 10, false)?;
        }
        rig.started(first)?;
        rig.mark()?;
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
        rig.mark()?;
        let end = Instant::now() + subject.settle() / 10;
        while Instant::now() < end {
            let again = rig.retire.poll_retired().ok().flatten();
            // Telling the same again would do no harm.
            let known = again.is_none_or(|retired| retired.upto.count() <= rig.seen);
            ensure!(known, "a marker behind nothing shows {again:?}");
        }
    }
    rig.finish()
}
