//! The end of a queue and of the scheduler.

use std::sync::Arc;
use std::time::Duration;

use super::{Bench, explore, join, notices, start, watchdog};
use crate::error::Error;
use crate::hub::{Hub, Mail};

/// When the last handle goes, what was submitted still runs, the scheduler is told once that the
/// queue has gone, and the threads of the device end.
#[test]
fn the_last_handle_goes() {
    explore("shutdown::the_last_handle_goes", 3, || {
        let bench = Bench::new(1);
        let hub = Arc::clone(&bench.hub);
        hub.register(super::ID, Arc::clone(&bench.queue) as _);
        let device = bench.start_device(1);
        let reaper = bench.start_reaper();
        bench.submit(0);
        let board = bench.close();
        join(device);
        join(reaper);
        assert_eq!(board.lock().completed, 1);
        assert!(hub.member(super::ID).is_none(), "the register still has it");
        let mut mail = Mail::default();
        hub.stop();
        hub.wait(&mut None);
        hub.collect(&mut mail);
        assert_eq!(mail.requests.len(), 1, "requests to detach it");
    });
}

const LAST: &str = "models::shutdown::the_last_handle_goes";

#[test]
fn the_reaper_is_not_told_that_it_is_over() {
    notices(LAST, "over without hurry", "deadlock");
}

#[test]
fn a_closing_queue_is_let_go_of_late() {
    notices(LAST, "closed and forgotten", "deadlock");
}

/// Whoever asks the scheduler when it ends gets an answer, or learns that there will be none.
#[test]
fn the_scheduler_ends_with_a_question_open() {
    explore("shutdown::the_scheduler_ends_with_a_question_open", 5, || {
        let hub = Arc::new(Hub::new(Duration::from_secs(1), watchdog()));
        let asked = Arc::clone(&hub);
        let asker = start(move || {
            let answer = asked.ask(|_, _| 7);
            // Nobody runs requests here.
            assert!(matches!(answer, Err(Error::SchedulerGone)), "{answer:?}");
        });
        let ended = Arc::clone(&hub);
        let scheduler = start(move || {
            ended.wait(&mut None);
            ended.set_gone();
        });
        hub.stop();
        join(scheduler);
        join(asker);
        assert!(hub.is_gone());
    });
}

const QUESTION: &str = "models::shutdown::the_scheduler_ends_with_a_question_open";

#[test]
fn the_inbox_stays_open() {
    notices(QUESTION, "not closed", "deadlock");
}

#[test]
fn open_questions_are_kept() {
    notices(QUESTION, "questions kept", "deadlock");
}
