//! Opening and dropping queues.

use std::sync::mpsc;
use std::thread;

use xsched_core::hal::Halves;
use xsched_core::level::Level;

use super::{Check, list};
use crate::rig::{Rig, device, open};
use crate::subject::Subject;
use crate::verdict::{Step, Stop, ensure, fail};

pub(super) fn checks<S: Subject>() -> Vec<Check<S>> {
    list! {
        "lifetime::halves_go_in_any_order",
        "`Backend::open`: a queue ends with its halves; the next one works",
        halves_go_in_any_order;
        "lifetime::many_queues",
        "invariant 8, Bounded: as many as claimed, an error beyond that, and all still work",
        many_queues;
    }
}

/// Checks of a queue that is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    Held,
}

/// The orders in which three halves can go.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

fn halves_go_in_any_order<S: Subject>(subject: &S) -> Step {
    for state in [State::Idle, State::Busy, State::Held] {
        for order in ORDERS {
            go(subject, state, order).map_err(|stop| match stop {
                Stop::Fail(why) => Stop::Fail(format!("{state:?}, dropped in {order:?}: {why}")),
                skip @ Stop::Skip(_) => skip,
            })?;
        }
    }
    Ok(())
}

/// Brings a queue into a state, drops its halves on another thread and uses a new queue.
fn go<S: Subject>(subject: &S, state: State, order: [usize; 3]) -> Step {
    let device = device(subject)?;
    let mut rig = Rig::on(subject, &device, 0)?;
    for _ in 0..3 {
        match rig.timed(subject.claims().unit_ns / 4, false) {
            Err(Stop::Skip(_)) => drop(rig.empty(false)?),
            other => drop(other?),
        }
    }
    match state {
        State::Idle => rig.finish()?,
        State::Held if rig.caps.level > Level::Block => rig.hold(rig.caps.level)?,
        State::Busy | State::Held => {}
    }
    let Rig { submit, retire, preempt, .. } = rig;
    let mut halves: [Box<dyn FnOnce() + Send>; 3] =
        [Box::new(|| drop(submit)), Box::new(|| drop(retire)), Box::new(|| drop(preempt))];
    let (sender, gone) = mpsc::channel();
    thread::spawn(move || {
        for n in order {
            std::mem::replace(&mut halves[n], Box::new(|| {}))();
        }
        // After a timeout the receiver is gone.
        let _ = sender.send(());
    });
    ensure!(gone.recv_timeout(subject.patience()).is_ok(), "dropping the halves has no end");
    let mut next = Rig::on(subject, &device, 1)?;
    next.empty(true)?;
    next.finish()
}

/// No more queues than this are opened.
const QUEUES_MAX: u32 = 64;

fn many_queues<S: Subject>(subject: &S) -> Step {
    let limit = subject.claims().queues_max;
    let count = limit.unwrap_or(24).min(QUEUES_MAX);
    let device = device(subject)?;
    let mut rigs = (0..count).map(|n| Rig::on(subject, &device, n)).collect::<Step<Vec<_>>>()?;
    let refused = || match open(subject, &device, count) {
        Ok(Halves { .. }) => fail(format!("a queue more than the claimed {count} is opened")),
        Err(_) => Ok(()),
    };
    for round in 0..2 {
        for rig in &mut rigs {
            match rig.timed(1_000, true) {
                Err(Stop::Skip(_)) => drop(rig.empty(true)?),
                other => drop(other?),
            }
        }
        for rig in &mut rigs {
            rig.finish()?;
        }
        if round == 0 && limit.is_some_and(|limit| limit <= QUEUES_MAX) {
            refused()?;
        }
    }
    Ok(())
}
