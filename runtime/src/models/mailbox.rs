//! What queues and handles send to the scheduler.

use std::sync::Arc;

use xsched_core::policy::{Changed, Decisions, Policy};
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Attach, Heap, QueueTable, Scheduler};
use xsched_core::time::Instant;

use super::{Bench, ID, explore, join, notices, start};
use crate::hub::{Brain, Hub};
use crate::policy::Guest;
use crate::shared::{Api, Until};

/// Lets everybody run.
struct Free {
    quick: bool,
}

impl Policy for Free {
    fn name(&self) -> &'static str {
        "free"
    }

    fn is_quick(&self) -> bool {
        self.quick
    }

    fn decide(&mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, _: &mut Decisions<'_>) {}
}

/// Wants to be asked again, always at the same time.
struct Timed;

impl Policy for Timed {
    fn name(&self) -> &'static str {
        "timed"
    }

    fn is_quick(&self) -> bool {
        true
    }

    fn decide(&mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, out: &mut Decisions<'_>) {
        out.wake_at(Instant::from_ns(100));
    }
}

fn brain(hub: &Arc<Hub>, policy: impl Policy + Send + 'static) -> Brain {
    let scheduler = Scheduler::new(Guest::new(policy, hub), Heap::new(1, 1, 1));
    let mut brain = Recorded::new(scheduler);
    let id = brain.attach(Instant::from_ns(1), Attach::default()).expect("there is room");
    assert_eq!(id, ID);
    brain
}

/// The scheduler ends up knowing what has become of a queue, each question is answered, and it
/// ends when it is told to.
fn mail(quick: bool) {
    let bench = Bench::new(1);
    bench.hub.register(ID, Arc::clone(&bench.queue) as _);
    bench.hub.seat(brain(&bench.hub, Free { quick }));
    let hub = Arc::clone(&bench.hub);
    let scheduler = start(move || {
        let mut slept = None;
        while hub.serve(&mut slept) {}
        drop(hub.unseat());
    });
    let hub = Arc::clone(&bench.hub);
    let asker = start(move || assert_eq!(hub.ask(|_, _| 7).ok(), Some(7)));
    // Ready, and idle again.
    let cmd = bench.submit(0);
    bench.board.complete(1);
    assert_eq!(bench.queue.poll(Until::Ended(cmd)), Some(Ok(())));
    // Nobody else wakes the scheduler meanwhile.
    join(asker);
    // The round that answers first takes the report as well.
    assert!(bench.hub.ask(|_, _| ()).is_ok());
    let known = bench.hub.ask(|_, brain| brain.table().get(ID).map(|queue| queue.report));
    let counts = known.ok().flatten().map(|report| (report.submitted, report.retired));
    assert_eq!(counts, Some((1, 1)), "a report was lost");
    // It ends with the last queue.
    bench.hub.stop();
    bench.hub.detach(ID);
    join(scheduler);
    bench.end_without_reaper();
}

/// With rounds on the scheduler's thread alone.
#[test]
fn mail_arrives() {
    explore("mailbox::mail_arrives", 3, || mail(false));
}

/// With rounds on the threads of those who ring.
#[test]
fn others_run_rounds() {
    explore("mailbox::others_run_rounds", 3, || mail(true));
}

/// A thread that sleeps does so until the policy wants to be asked, whoever ran the last round.
#[test]
fn no_timer_is_lost() {
    explore("mailbox::no_timer_is_lost", 3, || {
        let bench = Bench::new(1);
        bench.hub.register(ID, Arc::clone(&bench.queue) as _);
        bench.hub.seat(brain(&bench.hub, Timed));
        let hub = Arc::clone(&bench.hub);
        let scheduler = start(move || {
            let mut slept = None;
            while hub.serve(&mut slept) {}
            drop(hub.unseat());
        });
        let cmd = bench.submit(0);
        bench.board.complete(1);
        assert_eq!(bench.queue.poll(Until::Ended(cmd)), Some(Ok(())));
        assert!(!bench.hub.is_timer_lost(), "a timer was lost");
        bench.hub.stop();
        bench.hub.detach(ID);
        join(scheduler);
        bench.end_without_reaper();
    });
}

#[test]
fn asleep_for_no_longer_than_due() {
    let model = "models::mailbox::no_timer_is_lost";
    notices(model, "asleep for no longer than due", "a timer was lost");
}

const OTHERS: &str = "models::mailbox::others_run_rounds";

#[test]
fn rounds_without_an_end() {
    notices(OTHERS, "rounds without an end", "deadlock");
}

#[test]
fn no_look_back() {
    notices(OTHERS, "no look back", "deadlock");
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
