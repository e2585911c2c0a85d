//! What queues and handles send to the scheduler.

use std::sync::Arc;

use xsched_core::policy::{Changed, Decisions, Policy};
use xsched_core::record::Recorded;
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
    let scheduler = Scheduler::new(Guest::new(Free, hub), Heap::new(1, 1, 1));
    let mut brain = Recorded::new(scheduler);
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
            let (mut brain, mut mail, mut known) = (brain(&hub), Mail::default(), None);
            while round(&hub, &mut brain, &mut mail) {
                known = brain.table().get(ID).map(|queue| queue.report).or(known);
            }
            let counts = known.map(|report| (report.submitted, report.retired));
            assert_eq!(counts, Some((1, 1)), "a report was lost");
        });
        let hub = Arc::clone(&bench.hub);
        let asker = start(move || assert_eq!(hub.ask(|_, _| 7).ok(), Some(7)));
        // Ready, and idle again.
        let cmd = bench.submit(0);
        bench.board.complete(1);
        assert_eq!(bench.queue.poll(Until::Ended(cmd)), Some(Ok(())));
        // The round that answers first takes the report as well, after the answer.
        assert!(bench.hub.ask(|_, _| ()).is_ok());
        assert!(bench.hub.ask(|_, _| ()).is_ok());
        join(asker);
        // It ends with the last queue.
        bench.hub.stop();
        bench.hub.detach(ID);
        join(scheduler);
        bench.end_without_reaper();
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

#[test]
fn asleep_without_a_word() {
    notices(MAIL, "asleep without a word", "deadlock");
}
