//! Questions that are withdrawn, and room that is handed on.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use super::board::Board;
use super::{Bench, explore, join, start};
use crate::completion::{Awaited, Notify, Parker, Until, WaiterId};
use crate::error::Error;
use crate::workers::DeviceQueue;

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
            while handle.serve() {}
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

/// Of three futures that wait for room two go away: room that was meant for them is the third
/// one's. A completion may notify two of them for one place.
#[test]
fn room_is_handed_on() {
    explore("question::room_is_handed_on", 2, || {
        let bench = Bench::new(4);
        for name in 0..4 {
            bench.submit(name);
        }
        let leaving = [(); 2].map(|()| wait_for_room(&bench, Notify::Wake(noop())));
        let parker = Parker::current();
        wait_for_room(&bench, Notify::Wake(parker.waker().clone()));
        let device = bench.start_device(1);
        let other = bench.clone();
        let goes = start(move || {
            leaving.into_iter().for_each(|id| other.queue.unregister(Until::Room, id));
        });
        let other = bench.clone();
        let reaper = start(move || {
            while !other.queue.reap() {
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

fn wait_for_room(bench: &Bench, notify: Notify) -> WaiterId {
    let mut id = None;
    assert!(bench.queue.register(Until::Room, &mut id, notify).is_none());
    id.expect("it is registered")
}

fn noop() -> std::task::Waker {
    std::task::Waker::noop().clone()
}
