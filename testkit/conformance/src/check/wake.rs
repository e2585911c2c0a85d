//! Being woken instead of looking.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use xsched_core::hal::Retire;
use xsched_core::rng::SplitMix64;

use super::{Check, list};
use crate::rig::Rig;
use crate::subject::Subject;
use crate::verdict::{Step, Stop, ensure, skip};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "wake::asked_before_the_launch",
        "invariant 5, No lost wake-up; `Retire::wake_on_retire`",
        asked_before_the_launch;
        "wake::asked_after_the_end",
        "`Retire::wake_on_retire`: at once if there is a completion already",
        asked_after_the_end;
        "wake::the_newest_waker_counts",
        "`Retire::wake_on_retire`: a later call replaces the waker of an earlier one",
        the_newest_waker_counts;
        "wake::asked_at_random_times",
        "invariant 5, No lost wake-up: however asking and the completion meet",
        asked_at_random_times;
    }
}

/// Counts how often it was woken.
#[derive(Debug, Default)]
struct WakeCount {
    woken: Mutex<u64>,
    changed: Condvar,
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }
}

impl WakeCount {
    fn is_woken_within(&self, patience: Duration) -> bool {
        let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(woken, patience, |woken| *woken == 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 > 0
    }
}

/// Asks to be woken.
fn ask<S: Subject>(rig: &mut Rig<'_, S>) -> Step<Arc<WakeCount>> {
    let wakes = Arc::new(WakeCount::default());
    if !rig.retire.wake_on_retire(&Waker::from(Arc::clone(&wakes))) {
        return skip("the device wakes no waker");
    }
    Ok(wakes)
}

/// Waits to be woken, and takes what there is to see.
fn woken<S: Subject>(rig: &mut Rig<'_, S>, wakes: &WakeCount, when: &str) -> Step {
    let n = rig.launched();
    ensure!(
        wakes.is_woken_within(rig.subject.patience()),
        "asked {when}: not woken for command {}",
        n - 1
    );
    ensure!(rig.poll()?.is_some(), "asked {when}: woken, and no completion is there");
    ensure!(rig.seen == n, "asked {when}: woken, and only {} of {n} are reported", rig.seen);
    Ok(())
}

/// A command that may take a little time where that is possible.
fn launch<S: Subject>(rig: &mut Rig<'_, S>, ns: u64) -> Step {
    match rig.timed(ns, true) {
        Err(Stop::Skip(_)) => rig.empty(true).map(drop),
        other => other.map(drop),
    }
}

fn asked_before_the_launch<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    for round in 0..100 {
        let wakes = ask(&mut rig)?;
        launch(&mut rig, round * 500)?;
        woken(&mut rig, &wakes, "before the launch")?;
    }
    Ok(())
}

fn asked_after_the_end<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    // The only way to know that the completion is there, without taking it, is to wait for long.
    for _ in 0..10 {
        launch(&mut rig, 1_000)?;
        std::thread::sleep(subject.settle());
        let wakes = ask(&mut rig)?;
        woken(&mut rig, &wakes, "after the end")?;
    }
    Ok(())
}

fn the_newest_waker_counts<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    for _ in 0..20 {
        let _old = ask(&mut rig)?;
        let new = ask(&mut rig)?;
        launch(&mut rig, 10_000)?;
        woken(&mut rig, &new, "twice")?;
    }
    Ok(())
}

fn asked_at_random_times<S: Subject>(subject: &S) -> Step {
    let mut rig = Rig::new(subject)?;
    let mut rng = SplitMix64::new(subject.seed());
    let span = subject.claims().unit_ns / 8;
    for _ in 0..subject.rounds().min(2_000) {
        let (ns, after_ns) = (rng.below(span), rng.below(2 * span));
        launch(&mut rig, ns)?;
        let start = std::time::Instant::now();
        while start.elapsed().as_nanos() < u128::from(after_ns) {
            std::hint::spin_loop();
        }
        let wakes = ask(&mut rig)?;
        woken(&mut rig, &wakes, "at a random time")?;
    }
    Ok(())
}
