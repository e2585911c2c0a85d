//! What queues and handles send to the scheduler.

use std::sync::Arc;

use xsched_core::policy::{Changed, Decisions, Policy};
use xsched_core::scheduler::{Attach, Heap, QueueTable, Scheduler};
use xsched_core::time::Instant;

use super::{Bench, ID, explore, join, notices, start};
use crate::hub::{Brain, Hub, Mail};
use crate::policy::Guest;
use crate::scheduler::round;
use crate::shared::{Api, Until};

/// Lets everybody run.
struct Free;

impl Policy for Free {
    fn name(&self) -> &'static str {
        "free"
    }

    fn decide(&mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, _: &mut Decisions<'_>) {}
}

fn brain(hub: &Arc<Hub>) -> Brain {
    let mut brain = Scheduler::new(Guest::new(Free, hub), Heap::new(1, 1, 1));
    let id = brain.attach(Instant::from_ns(1), Attach::default()).expect("there is room");
    assert_eq!(id, ID);
    brain
}

/// The scheduler ends up knowing what has become of a queue, each question is answered, and it
/// ends when it is told to.
#[test]
fn mail_arrives() {
    explore("mailbox::mail_arrives", 3, || {
        let bench = Bench::new(1);
        bench.hub.register(ID, Arc::clone(&bench.queue) as _);
        let hub = Arc::clone(&bench.hub);
        let scheduler = start(move || {
            let (mut brain, mut mail) = (brain(&hub), Mail::default());
            while round(&hub, &mut brain, &mut mail) {}
            let known = *brain.table().get(ID).expect("it is attached");
            assert_eq!((known.report.submitted, known.report.retired), (1, 1), "a report was lost");
        });
        let hub = Arc::clone(&bench.hub);
        let asker = start(move || assert_eq!(hub.ask(|_, _| 7).ok(), Some(7)));
        // Ready, and idle again.
        let cmd = bench.submit(0);
        bench.board.complete(1);
        assert_eq!(bench.queue.poll(Until::Ended(cmd)), Some(Ok(())));
        join(asker);
        bench.hub.stop();
        join(scheduler);
        bench.end_without_reaper();
        bench.hub.detach(ID);
    });
}

const MAIL: &str = "models::mailbox::mail_arrives";

#[test]
fn the_inbox_is_emptied_in_two_steps() {
    notices(MAIL, "the inbox is emptied in two steps", "a report was lost");
}

#[test]
fn a_report_is_fetched_in_two_steps() {
    notices(MAIL, "a report is fetched in two steps", "a report was lost");
}

#[test]
fn requests_make_no_noise() {
    notices(MAIL, "requests make no noise", "deadlock");
}
