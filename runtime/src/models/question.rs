//! Questions that are withdrawn, and room that is handed on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use super::board::Board;
use super::{Bench, explore, join, start};
use crate::completion::{Awaited, Notify, Parker, Until};
use crate::error::Error;

/// A question with an effect, whose asker has no patience: with an answer the effect is there, and
/// without one it is not, in the end.
#[test]
fn a_question_that_is_withdrawn() {
    explore("question::a_question_that_is_withdrawn", 5, || {
        // A lease of nothing: each wait for an answer is over at once.
        let bench = Bench::with(Board::new(1, false), Duration::ZERO);
        bench.scheduler.begin_rounds(super::mailbox::free(&bench.scheduler));
        let handle = Arc::clone(&bench.scheduler);
        let scheduler = start(move || {
            let mut slept = None;
            while handle.serve(&mut slept) {}
            drop(handle.end_rounds());
        });
        let effect = Arc::new(AtomicI32::new(0));
        let (done, undone) = (Arc::clone(&effect), Arc::clone(&effect));
        let answer = bench.scheduler.ask_or_undo(
            move |_, _| {
                done.fetch_add(1, Ordering::Relaxed);
                7
            },
            move |_, _, answer| {
                assert_eq!(answer, 7);
                undone.fetch_sub(1, Ordering::Relaxed);
            },
        );
        bench.scheduler.stop();
        join(scheduler);
        let expected = match answer {
            Ok(7) => 1,
            Err(Error::SchedulerSilent) => 0,
            other => unreachable!("{other:?}"),
        };
        assert_eq!(effect.load(Ordering::Relaxed), expected, "an effect without an answer");
        bench.end_without_reaper();
    });
}

/// Of two futures that wait for room one goes away: the room that was meant for it is the other
/// one's.
#[test]
fn room_is_handed_on() {
    explore("question::room_is_handed_on", 2, || {
        let bench = Bench::new(1);
        for name in 0..4 {
            bench.submit(name);
        }
        let mut first = None;
        assert!(bench.queue.register(Until::Room, &mut first, Notify::Wake(noop())).is_none());
        let first = first.expect("it is registered");
        let parker = Parker::current();
        let mut second = None;
        let notify = Notify::Wake(parker.waker().clone());
        assert!(bench.queue.register(Until::Room, &mut second, notify).is_none());
        let device = bench.start_device(1);
        let other = bench.clone();
        let goes = start(move || other.queue.unregister(Until::Room, first));
        let other = bench.clone();
        let reaper = start(move || {
            while other.queue.poll(Until::Room, None).is_none() {
                loom::thread::yield_now();
            }
        });
        parker.park(None);
        join(goes);
        join(device);
        join(reaper);
        bench.end_without_reaper();
    });
}

fn noop() -> std::task::Waker {
    std::task::Waker::noop().clone()
}
