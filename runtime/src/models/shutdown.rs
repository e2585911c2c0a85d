//! The end of a queue and of the scheduler.

use std::sync::Arc;
use std::time::Duration;

use super::{Bench, explore, join, start, watchdog};
use crate::completion::{Until, wait_until};
use crate::error::Error;
use crate::scheduler::{Mail, SchedulerHandle};

/// When the last handle goes, what was submitted still runs, the scheduler is told once that the
/// queue has gone, and the threads of the device end.
#[test]
fn the_last_handle_goes() {
    explore("shutdown::the_last_handle_goes", 3, || {
        let bench = Bench::new(1);
        let handle = Arc::clone(&bench.scheduler);
        handle.register(super::ID, Arc::clone(&bench.queue) as _);
        let device = bench.start_device(1);
        let reaper = bench.start_reaper();
        bench.submit(0);
        let board = bench.close();
        join(device);
        join(reaper);
        assert_eq!(board.lock().completed, 1);
        assert!(handle.queue(super::ID).is_none(), "the register still has it");
        let mut mail = Mail::default();
        handle.stop();
        handle.wait();
        handle.collect(&mut mail);
        assert_eq!(mail.requests.len(), 1, "requests to detach it");
    });
}

/// The last handle goes after a wait, whose thread took the completion while the reaper rests with
/// the queue: the reaper is told, and the queue ends.
#[test]
fn the_last_handle_goes_after_a_wait() {
    explore("shutdown::the_last_handle_goes_after_a_wait", 2, || {
        let bench = Bench::new(1);
        let handle = Arc::clone(&bench.scheduler);
        handle.register(super::ID, Arc::clone(&bench.queue) as _);
        let device = bench.start_device(1);
        let reaper = bench.start_reaper();
        let cmd = bench.submit(0);
        wait_until(&*bench.queue, Until::Ended(cmd), None).expect("it retires");
        bench.close();
        join(device);
        join(reaper);
        assert!(handle.queue(super::ID).is_none(), "the register still has it");
    });
}

/// A thread that asks the scheduler when it ends gets an answer, or learns that there will be none.
#[test]
fn the_scheduler_ends_with_a_question_open() {
    explore("shutdown::the_scheduler_ends_with_a_question_open", 5, || {
        let handle = Arc::new(SchedulerHandle::new(Duration::from_secs(1), watchdog()));
        let asked = Arc::clone(&handle);
        let asker = start(move || {
            let answer = asked.ask(|_, _| 7);
            // No thread runs requests here.
            assert!(matches!(answer, Err(Error::SchedulerGone)), "{answer:?}");
        });
        let ended = Arc::clone(&handle);
        let scheduler = start(move || {
            ended.wait();
            ended.set_gone();
        });
        handle.stop();
        join(scheduler);
        join(asker);
        assert!(handle.is_gone());
    });
}
