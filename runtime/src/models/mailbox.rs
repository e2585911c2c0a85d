//! Reports and requests of queues and handles to the scheduler.

use std::sync::Arc;

use xsched_core::policy::{Changed, Decisions, Policy};
use xsched_core::record::Recorded;
use xsched_core::scheduler::{Attach, Heap, QueueTable, Scheduler as Machine};
use xsched_core::time::Instant;

use super::{Bench, ID, explore, join, start};
use crate::completion::{Awaited, Until};
use crate::scheduler::{IsolatedPolicy, Scheduler, SchedulerHandle};

/// Lets every queue run.
struct Free;

impl Policy for Free {
    fn name(&self) -> &'static str {
        "free"
    }

    fn decide(&mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, _: &mut Decisions<'_>) {}
}

/// Wants to be asked again, always at the same time.
struct Timed;

impl Policy for Timed {
    fn name(&self) -> &'static str {
        "timed"
    }

    fn decide(&mut self, _: Instant, _: Changed<'_>, _: &QueueTable<'_>, out: &mut Decisions<'_>) {
        out.wake_at(Instant::from_ns(100));
    }
}

fn scheduler(
    handle: &Arc<SchedulerHandle>,
    policy: impl Policy + Send + 'static,
    is_trusted: bool,
) -> Scheduler {
    let policy = IsolatedPolicy::new(policy, Arc::clone(handle) as _, is_trusted);
    let machine = Machine::new(policy, Heap::new(1, 1, 1));
    let mut scheduler = Recorded::new(machine);
    let id = scheduler.attach(Instant::from_ns(1), Attach::default()).expect("there is room");
    assert_eq!(id, ID);
    scheduler
}

/// A scheduler with one queue, that lets it run.
pub(super) fn free(handle: &Arc<SchedulerHandle>) -> Scheduler {
    scheduler(handle, Free, false)
}

/// The scheduler ends up knowing what has become of a queue, each question is answered, and it
/// ends when it is told to.
fn mail(is_trusted: bool) {
    let bench = Bench::new(1);
    bench.scheduler.register(ID, Arc::clone(&bench.queue) as _);
    bench.scheduler.begin_rounds(scheduler(&bench.scheduler, Free, is_trusted));
    let handle = Arc::clone(&bench.scheduler);
    let scheduler = start(move || {
        while handle.serve() {}
        drop(handle.end_rounds());
    });
    let handle = Arc::clone(&bench.scheduler);
    let asker = start(move || assert_eq!(handle.ask(|_, _| 7).ok(), Some(7)));
    // Ready, and idle again.
    let cmd = bench.submit(0);
    bench.board.complete(1);
    assert_eq!(bench.queue.poll(Until::Ended(cmd), None), Some(Ok(())));
    // No other thread wakes the scheduler meanwhile.
    join(asker);
    // The round that answers first takes the report as well.
    assert!(bench.scheduler.ask(|_, _| ()).is_ok());
    let known =
        bench.scheduler.ask(|_, scheduler| scheduler.table().get(ID).map(|queue| queue.report));
    let counts = known.ok().flatten().map(|report| (report.submitted, report.retired));
    assert_eq!(counts, Some((1, 1)), "a report was lost");
    // It ends with the last queue.
    bench.scheduler.stop();
    bench.scheduler.detach(ID);
    join(scheduler);
    bench.end_without_reaper();
}

/// With rounds on the scheduler's thread alone.
#[test]
fn mail_arrives() {
    explore("mailbox::mail_arrives", 3, || mail(false));
}

/// With rounds on the threads that notify the scheduler.
#[test]
fn submitters_run_rounds() {
    explore("mailbox::submitters_run_rounds", 3, || mail(true));
}

/// A thread that sleeps does so until the policy wants to be asked, whichever thread ran the last
/// round.
#[test]
fn no_timer_is_lost() {
    explore("mailbox::no_timer_is_lost", 3, || {
        let bench = Bench::new(1);
        bench.scheduler.register(ID, Arc::clone(&bench.queue) as _);
        bench.scheduler.begin_rounds(scheduler(&bench.scheduler, Timed, true));
        let handle = Arc::clone(&bench.scheduler);
        let scheduler = start(move || {
            while handle.serve() {}
            drop(handle.end_rounds());
        });
        let cmd = bench.submit(0);
        bench.board.complete(1);
        assert_eq!(bench.queue.poll(Until::Ended(cmd), None), Some(Ok(())));
        assert!(!bench.scheduler.is_timer_lost(), "a timer was lost");
        bench.scheduler.stop();
        bench.scheduler.detach(ID);
        join(scheduler);
        bench.end_without_reaper();
    });
}
