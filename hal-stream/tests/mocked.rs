//! Queues of streams on a device in memory, whose clock the test sets.
#![allow(unsafe_code, reason = "drivers' handles")]

mod mock;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use mock::{LEGACY, Mock, Nature, PER_THREAD, Put};
use xsched_core::hal::{Backend, Halves, LevelAdapter, Retire, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Level, Step};
use xsched_hal_stream::{
    Holder, NoGate, PageSource, SHARED_WORDS, SharedPage, Spacing, StreamApi, StreamCommand,
    StreamConfig, StreamDevice, StreamDeviceConfig, StreamError, StreamPreempt, StreamRetire,
    StreamSubmit,
};

type Queue = Halves<StreamSubmit<Mock>, StreamRetire<Mock>, LevelAdapter<StreamPreempt<Mock>>>;

const US: u64 = 1_000;

fn with_entries(entries_max: Option<u32>) -> StreamDeviceConfig {
    let mut config = StreamDeviceConfig::default();
    config.entries_max = entries_max;
    // Calls are counted here.
    config.probe_every = Duration::ZERO;
    config
}

/// A device whose gates have been tested.
fn device(nature: Nature) -> StreamDevice<Mock> {
    tested(Mock::new(nature), with_entries(Some(64)))
}

fn tested(mock: Mock, config: StreamDeviceConfig) -> StreamDevice<Mock> {
    let device = StreamDevice::new(mock, config).expect("the driver refuses nothing that all need");
    let _ = device.level();
    device
}

fn open(device: &mut StreamDevice<Mock>, spacing_ns: u64) -> Queue {
    let config = StreamConfig::default().spacing(Spacing::of_ns(spacing_ns));
    device.open(QueueId::new(0, 0), config).expect("a queue")
}

/// A command that takes so long.
fn command(ns: u64) -> StreamCommand<Mock> {
    StreamCommand::native(ns)
}

/// What was put into the stream that was made last.
fn puts(device: &StreamDevice<Mock>) -> Vec<Put> {
    device.api().puts().pop().expect("a stream")
}

/// Launches commands with a fence each, numbered from `first`.
fn launch(queue: &mut Queue, first: u64, count: u64, ns: u64) {
    for n in first..first + count {
        queue.submit.launch(CmdId(n), &command(ns), true).expect("a launch");
    }
}

/// One past the newest command that has retired, and the device time told with it, if any has.
fn poll(queue: &mut Queue) -> Option<(u64, u64)> {
    let retired = queue.retire.poll_retired().expect("an answer")?;
    Some((retired.upto.count(), retired.busy.as_ns()))
}

mod busy_time {
    use super::*;

    #[test]
    fn it_adds_up_and_idle_time_is_none() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        let (mut sum, mut n) = (0, 0);
        for round in 1..=20 {
            launch(&mut queue, n, round, 100 * US);
            n += round;
            // Looks at odd times.
            while let Some(told) = {
                device.api().pass(70 * US);
                let told = poll(&mut queue);
                let over = told.is_some_and(|(upto, _)| upto == n);
                sum += told.map_or(0, |(_, busy)| busy);
                (!over).then_some(told)
            } {
                assert!(told.is_none_or(|(upto, _)| upto < n));
            }
            assert_eq!(sum, n * 100 * US, "after {round} rounds");
            device.api().pass(5_000 * US);
            assert_eq!(poll(&mut queue), None);
        }
    }

    #[test]
    fn it_counts_from_the_start_of_the_first_after_idleness() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        launch(&mut queue, 0, 1, 300 * US);
        device.api().pass(299 * US);
        assert_eq!(poll(&mut queue), None);
        device.api().pass(10_000 * US);
        assert_eq!(poll(&mut queue), Some((1, 300 * US)));
        // What was not looked at in time is not idle time: the stream was empty meanwhile.
        launch(&mut queue, 1, 2, 50 * US);
        device.api().pass(10_000 * US);
        assert_eq!(poll(&mut queue), Some((3, 100 * US)));
    }

    #[test]
    fn one_fence_may_cover_many_commands() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        for n in 0..8 {
            queue.submit.launch(CmdId(n), &command(20 * US), n % 4 == 3).expect("a launch");
        }
        device.api().pass(100 * US);
        let first = poll(&mut queue).expect("four have retired");
        device.api().pass(60 * US);
        let second = poll(&mut queue).expect("all have retired");
        assert_eq!((first.0, second.0, first.1 + second.1), (4, 8, 160 * US));
    }

    #[test]
    fn commands_without_a_fence_are_covered_by_one_that_is_put_later() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        for n in 0..3 {
            queue.submit.launch(CmdId(n), &command(20 * US), false).expect("a launch");
        }
        device.api().pass(1_000 * US);
        assert_eq!(poll(&mut queue), None);
        queue.submit.fence(CmdId(2)).expect("a fence");
        // Counted to the fence, since nothing tells when they ended.
        assert_eq!(poll(&mut queue), Some((3, 1_000 * US)));
    }

    /// A launch that fails leaves no time behind that would count for the next.
    #[test]
    fn time_after_a_launch_that_failed_is_not_counted() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        device.api().fail_all(Some("launch_native"));
        let failed = queue.submit.launch(CmdId(0), &command(20 * US), true);
        assert!(matches!(failed, Err(StreamError::Driver { .. })), "{failed:?}");
        device.api().heal();
        device.api().pass(10_000 * US);
        launch(&mut queue, 1, 1, 20 * US);
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue), Some((2, 20 * US)));
    }

    #[test]
    fn time_behind_a_closed_gate_is_not_counted() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 0);
        let told = command(100 * US).expected_ns(100 * US);
        queue.submit.launch(CmdId(0), &told, true).expect("a launch");
        queue.preempt.step(Step::Deactivate).expect("a step");
        queue.submit.launch(CmdId(1), &told, true).expect("a launch");
        let held = Instant::now();
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue), Some((1, 100 * US)));
        thread::sleep(Duration::from_millis(3));
        // The device's clock as far as the host's, and no further.
        device.api().pass(2_000 * US);
        assert_eq!(poll(&mut queue), None);
        queue.preempt.step(Step::Reactivate).expect("a step");
        assert!(held.elapsed() >= Duration::from_millis(3));
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue), Some((2, 100 * US)));
    }
}

/// Bursts of commands looks, fences and pauses in any order, on devices of both sorts.
#[test]
fn device_time_adds_up_whatever_happens() {
    for seed in 0..400_u64 {
        let mut draws = seed;
        let mut draw = |below: u64| {
            draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (draws >> 33) % below
        };
        let sees_ends = seed % 2 == 0;
        let mut device = device(Nature { sees_ends, ..Nature::default() });
        // Shorter than what the host takes, so that by its clock everything may have ended.
        let mut queue = open(&mut device, 1_000);
        let (mut n, mut ran, mut told, mut upto) = (0, 0, 0, 0);
        for _ in 0..80 {
            let choice = draw(4);
            let look = choice == 0 || !sees_ends;
            while look && let Some((to, busy)) = poll(&mut queue) {
                told += busy;
                assert!(to > upto, "seed {seed}: {to} after {upto}");
                upto = to;
            }
            match choice {
                1 | 2 => {
                    let burst = 1 + draw(4) * draw(2);
                    for left in (0..burst).rev() {
                        let kind = draw(3);
                        let command = command(100 * (kind + 1)).of_kind(kind as u32);
                        // Nothing comes later without a fence.
                        let fence = left == 0 || draw(2) == 0;
                        queue.submit.launch(CmdId(n), &command, fence).expect("a launch");
                        n += 1;
                        ran += 100 * (kind + 1);
                    }
                }
                3 => device.api().pass(draw(1_500)),
                _ if n > upto && draw(3) == 0 => {
                    queue.submit.fence(CmdId(n - 1)).expect("a fence");
                }
                _ => {}
            }
        }
        device.api().pass(1_000 * US);
        while let Some((to, busy)) = poll(&mut queue) {
            (told, upto) = (told + busy, to);
        }
        assert_eq!((upto, told), (n, ran), "seed {seed}");
        drop(queue);
        drop(open(&mut device, 0));
        assert_eq!(device.api().alive(), (0, 0, 1), "seed {seed}");
    }
}

mod ends {
    use super::*;

    fn sees_ends() -> Nature {
        Nature { sees_ends: true, ..Nature::default() }
    }

    fn events(device: &StreamDevice<Mock>) -> usize {
        puts(device).iter().filter(|put| **put == Put::Event).count()
    }

    #[test]
    fn lone_commands_are_seen_without_events() {
        let mut device = device(sees_ends());
        let mut queue = open(&mut device, 200 * US);
        let mut sum = 0;
        for n in 0..160 {
            launch(&mut queue, n, 1, 30 * US);
            device.api().pass(29 * US);
            assert_eq!(poll(&mut queue), None);
            device.api().pass(1_000 * US);
            let (upto, busy) = poll(&mut queue).expect("it has retired");
            assert_eq!(upto, n + 1);
            sum += busy;
        }
        assert_eq!(sum, 160 * 30 * US);
        // One in sixteen is measured, from one event to another.
        assert_eq!(events(&device), 2 * 160 / 16);
    }

    #[test]
    fn the_prediction_follows_what_is_measured_now_and_then() {
        let mut device = device(sees_ends());
        let mut queue = open(&mut device, 200 * US);
        let mut last = 0;
        for n in 0..1_000 {
            launch(&mut queue, n, 1, if n == 0 { 30 * US } else { 60 * US });
            device.api().pass(1_000 * US);
            last = poll(&mut queue).expect("it has retired").1;
        }
        assert!((59 * US..=60 * US).contains(&last), "{last}");
    }

    /// The fence gets its event when something follows, and both are told apart.
    #[test]
    fn a_fence_is_recorded_late_when_something_follows() {
        let mut device = device(sees_ends());
        let mut queue = open(&mut device, 200 * US);
        launch(&mut queue, 0, 1, 60 * US);
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue), Some((1, 60 * US)));
        let before = events(&device);
        launch(&mut queue, 1, 1, 60 * US);
        assert_eq!(events(&device), before);
        device.api().pass(10 * US);
        launch(&mut queue, 2, 1, 100 * US);
        assert_eq!(events(&device), before + 2);
        device.api().pass(55 * US);
        assert_eq!(poll(&mut queue), Some((2, 60 * US)));
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue), Some((3, 100 * US)));
    }

    /// Both have ended before the first poll: the first is seen by the end, and the second is
    /// measured all the same, though it is of a kind that is not known.
    #[test]
    fn a_fence_that_comes_again_is_where_the_next_is_measured_from() {
        let mut device = device(sees_ends());
        let mut queue = open(&mut device, 200 * US);
        launch(&mut queue, 0, 1, 30 * US);
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue), Some((1, 30 * US)));
        launch(&mut queue, 1, 1, 30 * US);
        let other = command(50 * US).of_kind(1);
        queue.submit.launch(CmdId(2), &other, true).expect("a launch");
        device.api().pass(1_000 * US);
        assert_eq!(poll(&mut queue), Some((3, 80 * US)));
        assert_eq!(poll(&mut queue), None);
    }

    /// A thread that launches now and then and never looks: the stream was empty in between.
    #[test]
    fn idle_time_between_two_polls_is_not_counted() {
        for kinds in [1, 3] {
            let mut device = device(sees_ends());
            let mut queue = open(&mut device, 200 * US);
            let mut sum = 0;
            for n in 0..90 {
                let command = command(20 * US).of_kind(n as u32 % kinds);
                queue.submit.launch(CmdId(n), &command, true).expect("a launch");
                // On the host's clock as well, by which it is predicted when the stream ends.
                thread::sleep(Duration::from_micros(30));
                device.api().pass(100 * US);
                if n % 10 == 9 {
                    let (upto, busy) = poll(&mut queue).expect("all have retired");
                    assert_eq!(upto, n + 1);
                    sum += busy;
                }
            }
            assert_eq!(sum, 90 * 20 * US, "{kinds} kinds");
        }
    }

    /// As the runtime does for a missed fence. It stands for the same command, whose time is from
    /// its launch.
    #[test]
    fn a_fence_that_is_put_again_says_the_same() {
        let mut device = device(sees_ends());
        let mut queue = open(&mut device, 200 * US);
        launch(&mut queue, 0, 1, 30 * US);
        device.api().pass(10_000 * US);
        assert_eq!(poll(&mut queue), Some((1, 30 * US)));
        launch(&mut queue, 1, 1, 30 * US);
        device.api().pass(10 * US);
        device.api().fail_all(Some("record"));
        assert!(queue.submit.fence(CmdId(1)).is_err());
        device.api().heal();
        queue.submit.fence(CmdId(1)).expect("a fence");
        assert_eq!(poll(&mut queue), None);
        queue.submit.fence(CmdId(1)).expect("a fence");
        device.api().pass(1_000 * US);
        assert_eq!(poll(&mut queue), Some((2, 30 * US)));
        launch(&mut queue, 2, 1, 30 * US);
        device.api().pass(1_000 * US);
        assert_eq!(poll(&mut queue), Some((3, 30 * US)));
    }

    #[test]
    fn a_late_fence_that_cannot_be_recorded_is_put_again() {
        let mut device = device(sees_ends());
        let mut queue = open(&mut device, 200 * US);
        launch(&mut queue, 0, 1, 30 * US);
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue), Some((1, 30 * US)));
        launch(&mut queue, 1, 1, 30 * US);
        device.api().fail_all(Some("record"));
        launch(&mut queue, 2, 1, 30 * US);
        device.api().heal();
        device.api().pass(40 * US);
        assert_eq!(poll(&mut queue), None);
        queue.submit.fence(CmdId(2)).expect("a fence");
        device.api().pass(40 * US);
        assert_eq!(poll(&mut queue).expect("both have retired").0, 3);
    }
}

mod forecasts {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn what_is_left_is_what_was_predicted_less_what_has_gone() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        assert_eq!(queue.retire.forecast(CmdId(0)), None);
        let start = Instant::now();
        for n in 0..3 {
            let long = command(S).expected_ns(S);
            queue.submit.launch(CmdId(n), &long, true).expect("a launch");
        }
        for n in 0..3 {
            let forecast = queue.retire.forecast(CmdId(n)).expect("all is predicted");
            let gone = u64::try_from(start.elapsed().as_nanos()).expect("it is short");
            let total = (n + 1) * S;
            assert!((total.saturating_sub(gone)..=total).contains(&forecast.left.as_ns()));
            assert_eq!(forecast.overdue.as_ns(), 0);
        }
    }

    #[test]
    fn what_should_have_ended_is_overdue() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        let short = command(S).expected_ns(1);
        queue.submit.launch(CmdId(0), &short, true).expect("a launch");
        thread::sleep(Duration::from_millis(2));
        let forecast = queue.retire.forecast(CmdId(0)).expect("it is predicted");
        assert_eq!(forecast.left.as_ns(), 0);
        assert!(forecast.overdue.as_ns() >= 1_999 * US, "{forecast:?}");
    }

    #[test]
    fn what_was_not_measured_is_overdue_from_the_start() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        launch(&mut queue, 0, 1, 10 * US);
        let forecast = queue.retire.forecast(CmdId(0)).expect("something is in flight");
        assert_eq!(forecast.left.as_ns(), 0);
        assert!(forecast.overdue.as_ns() > 0);
        device.api().pass(100 * US);
        assert_eq!(poll(&mut queue), Some((1, 10 * US)));
        launch(&mut queue, 1, 1, 10 * US);
        assert!(queue.retire.forecast(CmdId(1)).is_some());
    }

    #[test]
    fn a_queue_that_is_held_has_nothing_to_report_soon() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        queue.preempt.step(Step::Deactivate).expect("a step");
        let short = command(1).expected_ns(1);
        queue.submit.launch(CmdId(0), &short, true).expect("a launch");
        // What ran before the hold may go on to the next gate.
        thread::sleep(Duration::from_micros(250));
        let forecast = queue.retire.forecast(CmdId(0)).expect("it is predicted");
        assert!(forecast.left.as_ns() >= 1_000 * US, "{forecast:?}");
    }
}

mod gates {
    use super::*;

    /// Which commands have a gate in front of them.
    fn gated(device: &StreamDevice<Mock>) -> Vec<bool> {
        let puts = puts(device);
        let mut gate = false;
        let mut answer = Vec::new();
        for put in puts {
            match put {
                Put::Wait(_) => gate = true,
                Put::Run(_) => answer.push(std::mem::take(&mut gate)),
                Put::Event => {}
            }
        }
        answer
    }

    #[test]
    fn they_are_a_spacing_apart() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        for n in 0..7 {
            let told = command(70 * US).expected_ns(70 * US);
            queue.submit.launch(CmdId(n), &told, true).expect("a launch");
        }
        // Three take 210 µs, which is nearer to 200 than two.
        assert_eq!(gated(&device), [false, false, false, true, false, false, true]);
    }

    #[test]
    fn a_spacing_of_nothing_is_a_gate_for_all_but_the_first() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 0);
        for n in 0..4 {
            let told = command(US).expected_ns(US);
            queue.submit.launch(CmdId(n), &told, true).expect("a launch");
        }
        assert_eq!(gated(&device), [false, true, true, true]);
        device.api().pass(1_000 * US);
        assert!(poll(&mut queue).is_some());
        queue.submit.launch(CmdId(4), &command(US), true).expect("a launch");
        assert_eq!(gated(&device).last(), Some(&false), "the queue was idle");
    }

    #[test]
    fn unknown_commands_have_one_until_they_are_measured() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        launch(&mut queue, 0, 3, 10 * US);
        device.api().pass(1_000 * US);
        assert!(poll(&mut queue).is_some());
        launch(&mut queue, 3, 3, 10 * US);
        assert_eq!(gated(&device), [false, true, true, false, false, false]);
    }

    #[test]
    fn a_change_of_the_spacing_is_for_the_next_launch() {
        let mut device = device(Nature::default());
        let spacing = Spacing::of_ns(0);
        let config = StreamConfig::default().spacing(spacing.clone());
        let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        for n in 0..4 {
            let told = command(US).expected_ns(US);
            queue.submit.launch(CmdId(n), &told, true).expect("a launch");
            spacing.set_ns(if n == 1 { 1_000 * US } else { spacing.ns() });
        }
        assert_eq!(gated(&device), [false, true, false, false]);
    }

    #[test]
    fn a_held_queue_has_one_in_front_of_every_command_and_runs_none() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        queue.preempt.step(Step::Deactivate).expect("a step");
        launch(&mut queue, 0, 2, US);
        assert_eq!(gated(&device), [true, true]);
        device.api().pass(10_000 * US);
        assert_eq!(poll(&mut queue), None);
        queue.preempt.step(Step::Reactivate).expect("a step");
        device.api().pass(10 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(2));
    }

    /// The pages of a process, as its scheduler has them as well.
    #[derive(Debug)]
    struct Pages(Arc<SharedPage>);

    impl PageSource for Pages {
        fn page(&self) -> io::Result<Arc<SharedPage>> {
            Ok(Arc::clone(&self.0))
        }
    }

    /// A device that the scheduler of the node holds by a page.
    fn in_unit(nature: Nature) -> (Arc<SharedPage>, StreamDevice<Mock>) {
        let page = Arc::new(SharedPage::create().expect("a page"));
        let (source, config) = (Arc::new(Pages(Arc::clone(&page))), with_entries(Some(64)));
        let device = StreamDevice::in_unit(Mock::new(nature), config, source).expect("a device");
        let _ = device.level();
        (page, device)
    }

    /// A queue of a page of its own, and the page.
    fn apart(device: &mut StreamDevice<Mock>) -> (Queue, Arc<SharedPage>) {
        let page = Arc::new(SharedPage::create().expect("a page"));
        let word = device.gate_word_of(&Pages(Arc::clone(&page))).expect("a word");
        let config = StreamConfig::default().with_gate(&word);
        drop(word);
        (device.open(QueueId::new(0, 0), config).expect("a queue"), page)
    }

    #[test]
    fn a_queue_of_a_page_of_its_own_is_held_apart_and_gives_it_back() {
        let mut device = device(Nature::default());
        let pages = device.api().registered();
        let (mut queue, page) = apart(&mut device);
        assert_eq!(device.api().registered(), pages + 1);
        assert!(queue.caps.in_unit);
        let mut other = open(&mut device, 200 * US);
        page.close_all(Holder::FIRST);
        launch(&mut queue, 0, 2, US);
        launch(&mut other, 0, 2, US);
        device.api().pass(1_000 * US);
        assert_eq!(poll(&mut queue), None);
        assert_eq!(poll(&mut other).map(|(upto, _)| upto), Some(2));
        // A call for the whole device opens it, and it is closed again after that.
        let mut third = apart(&mut device).0;
        device.with_gates_open(|| {
            assert!(!page.is_held_by(1, Holder::FIRST));
            page.renew_all(Holder::FIRST);
            assert!(!page.is_held_by(1, Holder::FIRST));
            device.api().pass(1_000 * US);
            assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(2));
        });
        assert!(page.is_held_by(1, Holder::FIRST));
        launch(&mut queue, 2, 2, US);
        launch(&mut third, 0, 2, US);
        device.api().pass(1_000 * US);
        assert_eq!(poll(&mut queue), None);
        assert_eq!(poll(&mut third).map(|(upto, _)| upto), Some(2));
        // Not if the hold has ended meanwhile.
        device.with_gates_open(|| page.release_all(Holder::FIRST));
        assert!(!page.is_held_by(1, Holder::FIRST));
        device.api().pass(1_000 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(4));
        drop((queue, other, third));
        assert_eq!(device.api().registered(), pages);
        assert_eq!(Arc::strong_count(&page), 1);
    }

    /// A command each that takes a microsecond, so that no other gate is due.
    #[test]
    fn a_process_that_is_held_has_one_for_each_hold() {
        let (page, mut device) = in_unit(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        let told = |queue: &mut Queue, n| {
            let told = command(US).expected_ns(US);
            queue.submit.launch(CmdId(n), &told, true).expect("a launch");
        };
        let holder = Holder::FIRST;
        page.close_all(holder);
        (0..3).for_each(|n| told(&mut queue, n));
        // It was open in between, so what was launched first may be running.
        page.release_all(holder);
        page.close_all(holder);
        (3..6).for_each(|n| told(&mut queue, n));
        assert_eq!(gated(&device), [true, false, false, true, false, false]);
        page.release_all(holder);
        device.api().pass(10 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(6));
        page.close_all(holder);
        told(&mut queue, 6);
        assert_eq!(gated(&device).last(), Some(&true));
    }

    /// What runs beside what others have launched may take longer, and counts as predicted.
    #[test]
    fn a_process_that_takes_turns_is_not_charged_for_what_others_run() {
        let (page, mut device) = in_unit(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        let mut told = |n, ns| {
            launch(&mut queue, n, 1, ns);
            device.api().pass(100 * US);
            poll(&mut queue).map(|(_, busy)| busy)
        };
        assert_eq!(told(0, 10 * US), Some(10 * US));
        assert_eq!(told(1, 20 * US), Some(20 * US));
        page.close_all(Holder::FIRST);
        page.release_all(Holder::FIRST);
        let expected = told(2, 20 * US);
        assert!(expected < Some(12 * US), "it is not known how long it was held: {expected:?}");
        assert_eq!(told(3, 20 * US), expected);
        assert_eq!(told(4, 5 * US), expected, "some take less");
        thread::sleep(Duration::from_millis(5));
        assert_eq!(told(5, 20 * US), Some(20 * US));
    }

    /// A fence for two commands that take differently long.
    #[test]
    fn kinds_that_are_launched_together_are_known_each() {
        let (page, mut device) = in_unit(Nature { sees_ends: true, ..Nature::default() });
        let mut queue = open(&mut device, 100 * US);
        let mut n = 0;
        let mut pair = |is_held: bool| {
            for (kind, ns) in [(1, 2 * US), (2, 1_500 * US)] {
                let command = command(ns).of_kind(kind);
                queue.submit.launch(CmdId(n), &command, kind == 2).expect("a launch");
                n += 1;
            }
            if is_held {
                page.close_all(Holder::FIRST);
                page.release_all(Holder::FIRST);
            }
            device.api().pass(3_000 * US);
            let mut sum = 0;
            while let Some((_, busy)) = poll(&mut queue) {
                sum += busy;
            }
            sum
        };
        assert_eq!(pair(false), 1_502 * US);
        for _ in 0..100 {
            assert_eq!(pair(true), 1_502 * US, "it is not known how long it was held");
        }
    }

    #[test]
    fn all_are_open_while_a_host_call_is_made() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 0);
        queue.preempt.step(Step::Deactivate).expect("a step");
        launch(&mut queue, 0, 1, US);
        let mut again = device.clone();
        let mut late = device.with_gates_open(|| {
            device.api().pass(10 * US);
            assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(1));
            // A queue that comes now, and is held, is open as well.
            let mut late = open(&mut again, 0);
            late.preempt.step(Step::Deactivate).expect("a step");
            launch(&mut late, 0, 1, US);
            device.api().pass(10 * US);
            assert_eq!(poll(&mut late).map(|(upto, _)| upto), Some(1));
            late
        });
        launch(&mut queue, 1, 1, US);
        launch(&mut late, 1, 1, US);
        device.api().pass(10 * US);
        assert_eq!((poll(&mut queue), poll(&mut late)), (None, None));
    }

    /// More than the hardware queue takes, behind a closed gate: the watch lets it go.
    #[test]
    fn a_launch_that_blocks_behind_a_gate_opens_it() {
        let nature = Nature { ring: Some(6), ..Nature::default() };
        let mut device = device(nature);
        let mut queue = open(&mut device, 0);
        queue.preempt.step(Step::Deactivate).expect("a step");
        assert_eq!(device.forced_open(), 0);
        launch(&mut queue, 0, 6, 0);
        assert!(device.forced_open() > 0);
    }
}

mod quiet {
    use super::*;

    /// Whether the queue is quiet, a moment after what came before.
    fn is_quiet(queue: &mut Queue) -> Option<bool> {
        // By the host's clock: events are seen a little late.
        thread::sleep(Duration::from_micros(20));
        queue.preempt.is_quiet().expect("an answer")
    }

    fn hold(queue: &mut Queue) {
        queue.preempt.step(Step::Deactivate).expect("a step");
    }

    fn release(queue: &mut Queue) {
        queue.preempt.step(Step::Reactivate).expect("a step");
    }

    fn launch_told(queue: &mut Queue, first: u64, count: u64, ns: u64) {
        for n in first..first + count {
            queue.submit.launch(CmdId(n), &command(ns).expected_ns(ns), true).expect("a launch");
        }
    }

    #[test]
    fn it_is_when_what_is_in_front_of_the_next_gate_has_run() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 200 * US);
        launch_told(&mut queue, 0, 4, 70 * US);
        assert_eq!(is_quiet(&mut queue), Some(false), "it is not held");
        hold(&mut queue);
        assert_eq!(is_quiet(&mut queue), Some(false));
        device.api().pass(209 * US);
        assert_eq!(is_quiet(&mut queue), Some(false), "the third runs");
        device.api().pass(US);
        assert_eq!(is_quiet(&mut queue), Some(true));
        // What is launched now is behind the gate, and behind one of its own.
        launch_told(&mut queue, 4, 1, 70 * US);
        device.api().pass(10_000 * US);
        assert_eq!((is_quiet(&mut queue), device.api().ran()), (Some(true), 3));
        release(&mut queue);
        assert_eq!(is_quiet(&mut queue), Some(false));
        device.api().pass(10 * US);
        hold(&mut queue);
        assert_eq!(is_quiet(&mut queue), Some(false), "it has passed the gate");
        device.api().pass(60 * US);
        assert_eq!((is_quiet(&mut queue), device.api().ran()), (Some(true), 4));
    }

    #[test]
    fn with_no_gate_in_front_it_is_when_all_has_retired() {
        for sees_ends in [false, true] {
            let mut device = device(Nature { sees_ends, ..Nature::default() });
            let mut queue = open(&mut device, 200 * US);
            launch_told(&mut queue, 0, 1, 70 * US);
            hold(&mut queue);
            device.api().pass(69 * US);
            assert_eq!((poll(&mut queue), is_quiet(&mut queue)), (None, Some(false)));
            device.api().pass(US);
            // By the end of the stream, or else only once it has been seen to retire.
            assert_eq!(is_quiet(&mut queue), Some(sees_ends));
            assert!(poll(&mut queue).is_some());
            assert_eq!(is_quiet(&mut queue), Some(true));
        }
    }

    #[test]
    fn it_is_not_while_a_launch_is_under_way_that_began_before_the_hold() {
        let mut device = device(Nature::default());
        let Queue { mut submit, mut preempt, .. } = open(&mut device, 200 * US);
        let barrier = Arc::new(Barrier::new(2));
        let (api, there) = (device.clone(), Arc::clone(&barrier));
        let slow = StreamCommand::new(move |stream| {
            there.wait();
            there.wait();
            // SAFETY: the stream is the queue's.
            unsafe { api.api().launch_native(&(70 * US), stream) }
        });
        thread::scope(|scope| {
            let launching = scope.spawn(move || submit.launch(CmdId(0), &slow, true));
            // It has found the gate open, and has not put the command into the stream.
            barrier.wait();
            preempt.step(Step::Deactivate).expect("a step");
            thread::sleep(Duration::from_micros(50));
            let quiet = preempt.is_quiet().expect("an answer");
            // Asserted later, so that the launch ends in any case.
            barrier.wait();
            launching.join().expect("no panic").expect("a launch");
            assert_eq!(quiet, Some(false), "the launch is under way");
        });
        assert_eq!(preempt.is_quiet().expect("an answer"), Some(false), "the command runs");
    }

    #[test]
    fn it_is_not_while_gates_are_forced_open() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 0);
        launch_told(&mut queue, 0, 3, 70 * US);
        hold(&mut queue);
        device.api().pass(70 * US);
        assert_eq!(is_quiet(&mut queue), Some(true));
        device.with_gates_open(|| {
            assert_eq!(is_quiet(&mut queue), Some(false));
            device.api().pass(10 * US);
        });
        assert_eq!(is_quiet(&mut queue), Some(false), "the second passed its gate");
        device.api().pass(60 * US);
        assert_eq!((is_quiet(&mut queue), device.api().ran()), (Some(true), 2));
    }

    #[test]
    fn a_gate_without_events_makes_it_unknown() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 0);
        launch_told(&mut queue, 0, 2, 70 * US);
        device.api().fail_all(Some("record"));
        let told = command(70 * US).expected_ns(70 * US);
        queue.submit.launch(CmdId(2), &told, false).expect("a launch");
        device.api().heal();
        queue.submit.launch(CmdId(3), &told, true).expect("a launch");
        device.api().pass(100 * US);
        hold(&mut queue);
        device.api().pass(40 * US);
        assert_eq!(is_quiet(&mut queue), None, "it waits at the third gate, or runs what follows");
        release(&mut queue);
        device.api().pass(10 * US);
        hold(&mut queue);
        assert_eq!(is_quiet(&mut queue), None);
        device.api().pass(60 * US);
        assert_eq!((is_quiet(&mut queue), device.api().ran()), (Some(true), 3));
    }

    #[test]
    fn a_driver_that_cannot_be_asked_is_an_error() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 0);
        launch_told(&mut queue, 0, 2, 70 * US);
        hold(&mut queue);
        thread::sleep(Duration::from_micros(20));
        device.api().fail_all(Some("query"));
        assert!(queue.preempt.is_quiet().is_err());
    }

    #[test]
    fn a_queue_without_gates_cannot_tell() {
        let mut device = device(Nature::default());
        let config = StreamConfig::default().level_max(Level::Block);
        let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        assert_eq!(queue.preempt.is_quiet().expect("an answer"), None);
    }

    /// Events beside gates are recorded again and again.
    #[test]
    fn gates_make_few_events() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device, 0);
        let mut most = 0;
        for round in 0..100 {
            launch_told(&mut queue, 8 * round, 8, US);
            device.api().pass(100 * US);
            assert!(poll(&mut queue).is_some());
            let events = device.api().alive().1;
            most = if round < 2 { events } else { most };
            assert!(events <= most, "{events} after {most}");
        }
        drop(queue);
        drop(open(&mut device, 0));
        assert_eq!(device.api().alive(), (0, 0, 1));
    }

    /// Holds at any time, with commands launched meanwhile.
    #[test]
    fn nothing_runs_in_a_quiet_queue_whatever_happens() {
        for seed in 0..200_u64 {
            let mut draws = seed;
            let mut draw = |below: u64| {
                draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (draws >> 33) % below
            };
            let mut device = device(Nature { sees_ends: draw(2) == 0, ..Nature::default() });
            let mut queue = open(&mut device, 150 * US * draw(3));
            let (mut n, mut upto) = (0, 0);
            for _ in 0..12 {
                let mut launch = |queue: &mut Queue, most: u64, fences: u64| {
                    for _ in 0..most.min(24 + upto - n) {
                        let ns = US + 1_000 * (n % 7) * (n % 11);
                        let told = command(ns).expected_ns(ns);
                        queue.submit.launch(CmdId(n), &told, n % fences == 0).expect("a launch");
                        n += 1;
                    }
                };
                launch(&mut queue, draw(24), 3);
                device.api().pass(draw(400) * US);
                hold(&mut queue);
                launch(&mut queue, draw(2) * draw(4), 1);
                if n > upto {
                    // As a waiter asks for it: commands that no gate follows are seen by a fence.
                    queue.submit.fence(CmdId(n - 1)).expect("a fence");
                }
                let mut looks = 0;
                while is_quiet(&mut queue) != Some(true) {
                    device.api().pass(1 + draw(30) * US);
                    upto = poll(&mut queue).map_or(upto, |(upto, _)| upto);
                    looks += 1;
                    assert!(looks < 1_000, "seed {seed}: it is never quiet");
                }
                let ran = device.api().ran();
                device.api().pass(50_000 * US);
                assert_eq!(device.api().ran(), ran, "seed {seed}: commands of a quiet queue");
                release(&mut queue);
            }
        }
    }
}

mod levels {
    use super::*;

    fn level_on(device: &mut StreamDevice<Mock>, stream: u64) -> Level {
        // SAFETY: the device in memory has the stream for as long as it lives.
        let config = unsafe { StreamConfig::default().on_stream(stream) };
        device.open(QueueId::new(0, 0), config).expect("a queue").caps.level
    }

    #[test]
    fn streams_that_cannot_be_held_alone_are_at_lv1() {
        let mut device = device(Nature::default());
        let stream = device.api().create_stream(None).expect("a stream");
        assert_eq!(level_on(&mut device, stream), Level::Deactivate);
        assert_eq!(open(&mut device, 0).caps.level, Level::Deactivate);
        let nature = Nature { blocking: true, ..Nature::default() };
        let mut blocking = self::device(nature);
        let stream = blocking.api().create_stream(None).expect("a stream");
        assert_eq!(
            level_on(&mut blocking, stream),
            Level::Block,
            "a blocking stream of the caller"
        );
        assert_eq!(open(&mut blocking, 0).caps.level, Level::Deactivate, "one of its own");
        let nature = Nature { own_ring: Some(false), ..Nature::default() };
        assert_eq!(open(&mut self::device(nature), 0).caps.level, Level::Block, "a shared ring");
        let nature = Nature { own_ring: Some(true), ..Nature::default() };
        assert_eq!(open(&mut self::device(nature), 0).caps.level, Level::Deactivate);
    }

    #[test]
    fn the_legacy_default_stream_is_at_lv1() {
        let mut device = device(Nature::default());
        // SAFETY: a constant of the driver.
        let config = unsafe { StreamConfig::default().on_stream(LEGACY) };
        let queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        assert_eq!(queue.caps.level, Level::Block);
    }

    #[test]
    fn the_stream_of_each_thread_is_refused() {
        let mut device = device(Nature::default());
        // SAFETY: a constant of the driver.
        let config = unsafe { StreamConfig::default().on_stream(PER_THREAD) };
        let opened = device.open(QueueId::new(0, 0), config);
        assert!(matches!(opened, Err(StreamError::Driver { .. })));
    }

    #[test]
    fn a_queue_is_no_higher_than_asked() {
        let mut device = device(Nature::default());
        let config = StreamConfig::default().level_max(Level::Block);
        let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        assert_eq!(queue.caps.level, Level::Block);
        launch(&mut queue, 0, 3, US);
        assert!(!puts(&device).iter().any(|put| matches!(put, Put::Wait(_))));
        let mut config = with_entries(Some(64));
        config.level_max = Level::Block;
        let before = tested(Mock::new(Nature::default()), config);
        assert_eq!(before.no_gate(), Some(&NoGate::Configured));
        assert_eq!((before.level(), before.api().puts().len()), (Level::Block, 0));
    }

    #[test]
    fn fences_are_bounded() {
        let config = with_entries(Some(4));
        let mut device = tested(Mock::new(Nature::default()), config);
        let mut queue = open(&mut device, 0);
        assert_eq!(queue.caps.entries_max, 4);
        queue.submit.launch(CmdId(0), &command(US), true).expect("a launch");
        let refused = (0..20).find_map(|_| queue.submit.fence(CmdId(0)).err());
        assert!(matches!(refused, Some(StreamError::FencesFull { fences: 8 })), "{refused:?}");
        device.api().pass(10 * US);
        assert_eq!(poll(&mut queue), Some((1, US)));
        queue.submit.fence(CmdId(0)).expect("there is room again");
    }
}

mod self_test {
    use super::*;

    fn outcome(nature: Nature) -> Option<NoGate> {
        device(nature).no_gate().cloned()
    }

    #[test]
    fn a_device_as_it_should_be_passes() {
        assert_eq!(outcome(Nature::default()), None);
    }

    #[test]
    fn a_device_that_does_not_wait_is_noticed() {
        let nature = Nature { ignores_waits: true, ..Nature::default() };
        assert_eq!(outcome(nature), Some(NoGate::NotHeld));
    }

    #[test]
    fn a_device_that_holds_all_streams_is_noticed() {
        let nature = Nature { one_ring: true, ..Nature::default() };
        assert_eq!(outcome(nature), Some(NoGate::OtherStreamsHeld));
    }

    #[test]
    fn a_device_that_does_not_go_on_is_noticed() {
        let nature = Nature { never_opens: true, ..Nature::default() };
        assert_eq!(outcome(nature), Some(NoGate::NotOpened));
    }

    #[test]
    fn a_device_that_blocks_at_once_is_noticed() {
        let nature = Nature { ring: Some(1), ..Nature::default() };
        assert_eq!(outcome(nature), Some(NoGate::Blocks));
    }

    #[test]
    fn a_thread_that_is_late_again_and_again_is_not_taken_for_blocked() {
        assert_eq!(outcome(Nature { away_ms: 30, ..Nature::default() }), None);
    }

    #[test]
    fn a_device_that_others_keep_for_a_while_passes() {
        assert_eq!(outcome(Nature { kept_ms: 1_200, ..Nature::default() }), None);
    }

    #[test]
    fn the_drivers_words_are_passed_on() {
        let nature = Nature { no_waits: Some("too old".to_owned()), ..Nature::default() };
        let device = device(nature);
        assert_eq!(device.no_gate(), Some(&NoGate::NoWaits("too old".to_owned())));
        assert_eq!(device.level(), Level::Block);
    }

    #[test]
    fn calls_that_fail_are_named() {
        for name in ["flag_memory", "wait_zero", "launch_nothing", "record", "query"] {
            let mock = Mock::new(Nature::default());
            mock.fail_all(Some(name));
            let device = tested(mock, with_entries(Some(64)));
            let Some(NoGate::Failed(why)) = device.no_gate() else { panic!("{name} fails") };
            assert!(why.contains(name), "{why}");
        }
        for name in ["create_stream", "create_event"] {
            let mock = Mock::new(Nature::default());
            mock.fail_all(Some(name));
            let device = tested(mock, with_entries(Some(64)));
            assert!(matches!(device.no_gate(), Some(NoGate::Failed(_))));
            assert_eq!(device.api().alive().0, 0, "a stream is left");
            assert_eq!(device.api().alive().1, 0, "an event is left");
        }
    }

    /// A quarter of what the hardware queue takes, by trying.
    #[test]
    fn the_depth_is_measured() {
        let nature = Nature { ring: Some(200), ..Nature::default() };
        let device = tested(Mock::new(nature), with_entries(None));
        assert_eq!(device.no_gate(), None);
        assert!((49..=51).contains(&device.entries_max()), "{}", device.entries_max());
    }

    /// As on a machine that is busy with other things.
    #[test]
    fn a_thread_that_is_late_once_is_not_taken_for_blocked() {
        let mock = Mock::new(Nature::default());
        mock.stall("wait_zero", 0);
        let device = tested(mock, with_entries(Some(64)));
        assert_eq!(device.no_gate(), None);
        let mock = Mock::new(Nature { ring: Some(200), ..Nature::default() });
        mock.stall("wait_zero", 10);
        let device = tested(mock, with_entries(None));
        assert!((49..=51).contains(&device.entries_max()), "{}", device.entries_max());
    }

    #[test]
    fn it_runs_when_the_first_gate_is_wanted() {
        let mut device = StreamDevice::new(Mock::new(Nature::default()), with_entries(Some(64)))
            .expect("a device");
        let block = StreamConfig::default().level_max(Level::Block);
        let first = device.open(QueueId::new(0, 0), block).expect("a queue");
        assert_eq!(first.caps.level, Level::Block);
        let (streams, _, _) = device.api().alive();
        assert_eq!((streams, device.api().puts().len()), (1, 1), "nothing was tested");
        let second = device.open(QueueId::new(1, 0), StreamConfig::default()).expect("a queue");
        assert_eq!(second.caps.level, Level::Deactivate);
        assert!(device.api().puts().len() > 2, "streams were made for the test");
    }

    #[test]
    fn a_depth_without_end_is_bounded() {
        let mock = Mock::new(Nature::default());
        let device = tested(mock, with_entries(None));
        assert_eq!(device.entries_max(), 1_024);
    }
}

mod flags {
    use super::*;

    /// The word of a new queue, which it is held for at once.
    fn word(device: &mut StreamDevice<Mock>) -> (Queue, u64) {
        let mut queue = open(device, 0);
        queue.preempt.step(Step::Deactivate).expect("a step");
        launch(&mut queue, 0, 1, US);
        let word = device.api().last_word().expect("there is a gate");
        (queue, word)
    }

    #[test]
    fn queues_have_words_of_their_own_and_get_them_again() {
        let mut device = device(Nature::default());
        let (first, a) = word(&mut device);
        let (second, b) = word(&mut device);
        assert_eq!(a.abs_diff(b), 64);
        // Held when it is dropped: it is given back only after the stream got past its gate.
        drop(second);
        let (third, c) = word(&mut device);
        assert!(c != a && c != b);
        device.api().pass(10 * US);
        let (fourth, d) = word(&mut device);
        assert_eq!(d, b);
        drop((first, third, fourth));
        device.api().pass(10 * US);
        assert_eq!(device.api().alive().2, 1);
    }

    /// What is left when the device goes, seen through what its drop calls.
    #[test]
    fn everything_is_given_back() {
        let mut device = device(Nature::default());
        for round in 0..3 {
            let (mut queue, _) = word(&mut device);
            queue.preempt.step(Step::Reactivate).expect("a step");
            launch(&mut queue, 1, 5, US);
            // Without a fence, so that its start event is still to be used.
            device.api().pass(100 * US);
            assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(6));
            queue.submit.launch(CmdId(6), &command(US), false).expect("a launch");
            device.api().pass(10 * US);
            drop(queue);
            // The queue's end is seen with the next.
            drop(open(&mut device, 0));
            assert_eq!(device.api().alive(), (0, 0, 1), "round {round}");
        }
    }

    #[test]
    fn halves_may_go_in_any_order() {
        let mut device = device(Nature::default());
        for first in 0..2 {
            let mut queue = open(&mut device, 0);
            launch(&mut queue, 0, 3, US);
            let Queue { submit, mut retire, preempt, .. } = queue;
            if first == 0 {
                drop(submit);
                device.api().pass(10 * US);
                assert!(retire.poll_retired().expect("an answer").is_some());
                drop((retire, preempt));
            } else {
                drop((preempt, retire, submit));
                device.api().pass(10 * US);
            }
            drop(open(&mut device, 0));
            assert_eq!(device.api().alive(), (0, 0, 1), "{first}");
        }
    }

    #[test]
    fn words_may_come_one_at_a_time() {
        let nature = Nature { flags_max: Some(8), ..Nature::default() };
        let mut device = device(nature);
        assert_eq!(device.no_gate(), None);
        let (first, a) = word(&mut device);
        let (second, b) = word(&mut device);
        assert!(a != b);
        assert_eq!(device.api().alive().2, 2, "the first is that of the self-test");
        drop((first, second));
        device.api().pass(10 * US);
        let (_third, c) = word(&mut device);
        assert!(c == a || c == b);
        assert_eq!(device.api().alive().2, 2);
    }

    /// A gate in the stream whose command was never launched still looks at the word.
    #[test]
    fn a_word_is_kept_while_a_gate_without_a_command_looks_at_it() {
        let mut device = device(Nature::default());
        let stream = device.api().create_stream(None).expect("a stream");
        // SAFETY: it was just made, and is not destroyed.
        let config = unsafe { StreamConfig::default().on_stream(stream) };
        let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        // SAFETY: see above. The user launches past the queue.
        unsafe { device.api().launch_native(&(100 * US), stream) }.expect("a launch");
        queue.preempt.step(Step::Deactivate).expect("a step");
        device.api().fail_all(Some("launch_native"));
        assert!(queue.submit.launch(CmdId(0), &command(US), true).is_err());
        device.api().heal();
        let kept = device.api().last_word().expect("there is a gate");
        drop(queue);
        let (_second, word) = word(&mut device);
        assert!(word != kept, "the stream has not got past the gate");
        device.api().pass(200 * US);
        let (_third, word) = self::word(&mut device);
        assert_eq!(word, kept);
    }
}

mod shared_words {
    use super::*;

    /// A scheduler in another process holds the queue by a bit of its own.
    #[test]
    fn the_bits_of_other_processes_hold_as_well_and_stay() {
        let mut device = device(Nature::default());
        let memory = device.api().flag_memory(64).expect("memory");
        // SAFETY: it is used for this queue alone, and lives as long as the device.
        let config = unsafe { StreamConfig::default().with_flag(memory) };
        let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        assert_eq!(queue.caps.level, Level::Deactivate);
        // SAFETY: see above.
        let word = unsafe { memory.host.as_ref() };
        word.fetch_or(2, Ordering::SeqCst);
        launch(&mut queue, 0, 1, US);
        queue.preempt.step(Step::Deactivate).expect("a step");
        assert_eq!(word.load(Ordering::SeqCst), 3);
        queue.preempt.step(Step::Reactivate).expect("a step");
        device.api().pass(10 * US);
        assert_eq!((word.load(Ordering::SeqCst), poll(&mut queue)), (2, None));
        word.fetch_and(!2, Ordering::SeqCst);
        device.api().pass(10 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(1));
        drop(queue);
        // It is not ours to give to another queue.
        let mut next = open(&mut device, 0);
        next.preempt.step(Step::Deactivate).expect("a step");
        launch(&mut next, 0, 1, US);
        assert!(device.api().last_word() != Some(memory.device));
    }

    /// A page as two processes have it.
    fn page() -> (SharedPage, SharedPage) {
        let ours = SharedPage::create().expect("a page");
        let theirs = SharedPage::open(&ours.path()).expect("the same page");
        (ours, theirs)
    }

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The holder is alive, and does not know that a launch waits for it.
    #[test]
    fn a_launch_that_blocks_behind_a_gate_of_another_process_opens_it() {
        let mut device = device(Nature { ring: Some(6), ..Nature::default() });
        let (ours, theirs) = page();
        let gate = device.share(ours).expect("a shared page").take(0).expect("a word");
        let config = StreamConfig::default().spacing(Spacing::of_ns(0)).in_page(gate);
        let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        theirs.close(0, Holder::new(1).expect("a number"));
        let done = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    theirs.renew(0);
                    thread::sleep(Duration::from_millis(10));
                }
            });
            launch(&mut queue, 0, 6, 0);
            done.store(true, Ordering::Relaxed);
        });
        assert!(device.forced_open() > 0);
        assert_eq!(theirs.word(0).load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_hold_of_another_process_lasts_as_long_as_it_renews_its_lease() {
        let lease = Duration::from_millis(400);
        let mut config = StreamDeviceConfig::default();
        config.hold_lease = lease;
        let mut device = tested(Mock::new(Nature::default()), config);
        let (ours, theirs) = page();
        let gates = device.share(ours).expect("a shared page");
        let gate = gates.take(3).expect("a word");
        assert!(gates.take(3).is_none() && gates.take(SHARED_WORDS).is_none());
        let config = StreamConfig::default().in_page(gate);
        let mut queue = device.open(QueueId::new(0, 0), config).expect("a queue");
        let holder = Holder::new(1).expect("a number");
        theirs.close(3, holder);
        launch(&mut queue, 0, 1, US);
        for _ in 0..24 {
            thread::sleep(lease / 8);
            theirs.renew(3);
            device.api().pass(10 * US);
            assert_eq!((poll(&mut queue), device.forced_open()), (None, 0));
        }
        // Now it is silent.
        until("the lease does not end", || device.forced_open() == 1);
        device.api().pass(10 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(1));
        assert_eq!(theirs.word(3).load(Ordering::SeqCst), 0);
        theirs.release(3, holder);
        assert_eq!(theirs.word(3).load(Ordering::SeqCst), 0);
    }

    /// A word of a page is of no use to another device, even when the first is gone.
    #[test]
    fn a_gate_of_another_device_is_refused() {
        let first = device(Nature::default());
        let (ours, theirs) = page();
        let gates = first.share(ours).expect("a shared page");
        let gate = gates.take(7).expect("a word");
        drop((gates, first));
        let mut second = device(Nature::default());
        let config = StreamConfig::default().in_page(gate);
        let refused = second.open(QueueId::new(0, 0), config).map(drop);
        assert!(matches!(refused, Err(StreamError::WordOfOtherDevice)));
        assert_eq!(second.api().alive().0, 0, "a stream is left");
        assert_eq!(theirs.word(7).load(Ordering::SeqCst), 0);
    }

    /// A queue whose gate is word 1 of the page that is given back. Its device is dropped.
    fn with_shared_gate() -> (Queue, SharedPage) {
        let mut device = device(Nature::default());
        let (ours, theirs) = page();
        let gates = device.share(ours).expect("a shared page");
        let config = StreamConfig::default().in_page(gates.take(1).expect("a word"));
        (device.open(QueueId::new(0, 0), config).expect("a queue"), theirs)
    }

    /// A gate keeps the memory of its word, whatever else is dropped.
    #[test]
    fn a_queue_keeps_the_page_of_its_gate() {
        let (mut queue, theirs) = with_shared_gate();
        queue.preempt.step(Step::Deactivate).expect("a step");
        assert_eq!(theirs.word(1).load(Ordering::SeqCst), 1);
        drop(queue);
        assert_eq!(theirs.word(1).load(Ordering::SeqCst), 0);
    }

    /// The watch is woken by the first hold, and may still have the gate when its page is unmapped.
    #[test]
    fn the_watch_does_not_touch_the_word_of_a_queue_that_has_gone() {
        for _ in 0..100 {
            let (mut queue, _theirs) = with_shared_gate();
            queue.preempt.step(Step::Deactivate).expect("a step");
        }
    }

    /// The driver could not take the page back, so the device may still read it.
    #[test]
    fn a_page_that_the_driver_keeps_stays_mapped() {
        use std::os::unix::fs::MetadataExt;

        let device = device(Nature::default());
        let ours = SharedPage::create().expect("a page");
        let inode = std::fs::metadata(ours.path()).expect("a file").ino().to_string();
        let is_mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's mappings");
            maps.lines().any(|line| line.split_whitespace().nth(4) == Some(&inode))
        };
        drop(device.share(ours).expect("a shared page"));
        assert!(is_mapped());
        device.api().fail_all(Some("enter"));
        drop(device);
        assert!(is_mapped(), "unmapped while it is registered");
    }
}

mod failing_drivers {
    use super::*;

    /// What a queue does in its life. Errors are told, and nothing else happens.
    fn life(device: &mut StreamDevice<Mock>) -> Result<(), StreamError<mock::MockError>> {
        let config = StreamConfig::default().spacing(Spacing::of_ns(0));
        let mut queue = device.open(QueueId::new(0, 0), config)?;
        let mut worst = Ok(());
        let mut note = |result: Result<(), _>| {
            if worst.is_ok() {
                worst = result;
            }
        };
        for n in 0..6 {
            note(queue.submit.launch(CmdId(n), &command(US), n % 2 == 1));
            if n == 2 {
                assert!(queue.preempt.step(Step::Deactivate).is_ok(), "it is a store");
            }
            device.api().pass(2 * US);
            note(queue.retire.poll_retired().map(|_| ()));
            if n == 4 {
                assert!(queue.preempt.step(Step::Reactivate).is_ok(), "it is a store");
            }
            let _ = queue.retire.forecast(CmdId(n));
        }
        note(queue.submit.fence(CmdId(5)));
        device.api().pass(100 * US);
        note(queue.retire.poll_retired().map(|_| ()));
        worst
    }

    fn natures() -> [Nature; 3] {
        let plain = Nature::default();
        let ends = Nature { sees_ends: true, ..Nature::default() };
        let words = Nature { flags_max: Some(8), ..Nature::default() };
        [plain, ends, words]
    }

    /// Any call of a queue fails, alone or with all that come later. What was made is given back,
    /// unless destroying is what failed.
    #[test]
    fn any_call_of_a_queue_may_fail() {
        for nature in natures() {
            let mut sound = device(nature.clone());
            let before = sound.api().calls();
            life(&mut sound).expect("nothing fails");
            drop(open(&mut sound, 0));
            let calls = sound.api().calls() - before;
            assert!(calls > 20, "{calls}");
            for number in 0..calls {
                for for_good in [false, true] {
                    let mut device = device(nature.clone());
                    device.api().fail(number, for_good);
                    let _ = life(&mut device);
                    device.api().heal();
                    // Another one is as good as ever.
                    life(&mut device).expect("it has healed");
                    drop(open(&mut device, 0));
                    let (_, events, pages) = device.api().alive();
                    assert!(pages <= 3, "{pages} pages");
                    assert!(for_good || events <= 1, "call {number}: {events} events are left");
                }
            }
        }
    }

    /// Any call of the self-test fails: there is a device, at Lv1 or Lv2.
    #[test]
    fn any_call_of_the_self_test_may_fail() {
        for nature in natures() {
            let calls = device(nature.clone()).api().calls();
            // Most ask again and again whether something has completed.
            for number in (0..calls.min(40)).chain([calls - 1]) {
                for for_good in [false, true] {
                    let mock = Mock::new(nature.clone());
                    mock.fail(number, for_good);
                    let device = tested(mock, with_entries(Some(64)));
                    device.api().heal();
                    life(&mut device.clone()).expect("it has healed");
                }
            }
        }
    }

    /// A stream that was made for a queue that could not be opened is destroyed.
    #[test]
    fn a_queue_that_cannot_be_opened_leaves_no_stream() {
        let mut device = device(Nature { flags_max: Some(8), ..Nature::default() });
        let kept = open(&mut device, 0);
        for name in ["stream_kind", "flag_memory"] {
            device.api().fail_all(Some(name));
            let config = StreamConfig::default();
            assert!(device.open(QueueId::new(0, 0), config).is_err(), "{name} fails");
            device.api().heal();
            assert_eq!(device.api().alive().0, 1, "{name}");
        }
        drop(kept);
    }
}

mod graphs {
    use super::*;
    use xsched_hal_stream::GateWord;

    /// As a graph of kernels with a gate between any two of them.
    fn graph(
        device: &StreamDevice<Mock>,
        word: &GateWord<Mock>,
        kernels: u64,
        ns: u64,
    ) -> StreamCommand<Mock> {
        let (device, word) = (device.clone(), word.clone());
        StreamCommand::new(move |stream| {
            let api = device.api();
            for n in 0..kernels {
                // SAFETY: the stream is the queue's, and the word is kept by this.
                unsafe {
                    if n > 0 {
                        api.wait_zero(stream, word.address())?;
                    }
                    api.launch_native(&ns, stream)?;
                }
            }
            Ok(())
        })
    }

    fn with_word(device: &mut StreamDevice<Mock>, word: &GateWord<Mock>) -> Queue {
        device.open(QueueId::new(0, 0), StreamConfig::default().with_gate(word)).expect("a queue")
    }

    #[test]
    fn a_hold_stops_a_graph_at_its_next_gate() {
        let mut device = device(Nature::default());
        let word = device.gate_word().expect("a word");
        let mut queue = with_word(&mut device, &word);
        let command = graph(&device, &word, 10, 100 * US);
        queue.submit.launch(CmdId(0), &command, true).expect("a launch");
        device.api().pass(250 * US);
        queue.preempt.step(Step::Deactivate).expect("a hold");
        // The third ends, and nothing else starts.
        device.api().pass(10_000 * US);
        assert_eq!(poll(&mut queue), None);
        queue.preempt.step(Step::Reactivate).expect("the end of it");
        device.api().pass(699 * US);
        assert_eq!(poll(&mut queue), None);
        device.api().pass(1_000 * US);
        assert!(poll(&mut queue).is_some_and(|(upto, _)| upto == 1));
    }

    /// It may wait at a gate of its own, which has no events, or still run.
    #[test]
    fn a_queue_whose_graph_is_held_is_quiet_or_unknown() {
        let mut device = device(Nature::default());
        let word = device.gate_word().expect("a word");
        let mut queue = with_word(&mut device, &word);
        let command = graph(&device, &word, 10, 100 * US).expected_ns(1_000 * US);
        queue.submit.launch(CmdId(0), &command, true).expect("a launch");
        queue.preempt.step(Step::Deactivate).expect("a hold");
        let quiet = |queue: &mut Queue| queue.preempt.is_quiet().expect("an answer");
        assert_eq!(quiet(&mut queue), Some(false));
        device.api().pass(10_000 * US);
        // For as long as commands of this length may run on.
        thread::sleep(Duration::from_micros(1_100));
        assert_eq!(quiet(&mut queue), None);
        queue.preempt.step(Step::Reactivate).expect("the end of it");
        device.api().pass(10_000 * US);
        assert!(poll(&mut queue).is_some());
        queue.preempt.step(Step::Deactivate).expect("a hold");
        thread::sleep(Duration::from_micros(20));
        assert_eq!(quiet(&mut queue), Some(true));
    }

    /// What is known some time after a hold of a queue with this word in which a command runs that
    /// was predicted to take 10 s.
    fn known_of_a_hold(tells: bool, asks: bool) -> Option<bool> {
        let mut device = device(Nature::default());
        let word = device.gate_word().expect("a word");
        let mut queue = with_word(&mut device, &word);
        let (there, api) = (word.clone(), device.clone());
        let command = StreamCommand::new(move |stream| {
            if tells {
                there.has_gates_inside();
            }
            if asks {
                let _ = there.address();
            }
            // SAFETY: the stream is the queue's.
            unsafe { api.api().launch_native(&(10_000_000 * US), stream) }
        });
        let command = command.expected_ns(10_000_000 * US);
        queue.submit.launch(CmdId(0), &command, true).expect("a launch");
        queue.preempt.step(Step::Deactivate).expect("a hold");
        // More than the spacing.
        thread::sleep(Duration::from_micros(1_100));
        queue.preempt.is_quiet().expect("an answer")
    }

    #[test]
    fn a_command_with_gates_of_its_own_runs_on_for_a_spacing() {
        assert_eq!(known_of_a_hold(true, true), None, "it may wait at a gate of its own");
        assert_eq!(known_of_a_hold(false, true), Some(false), "it may run for seconds");
    }

    #[test]
    fn a_queue_whose_word_is_used_by_nothing_else_is_known_to_run() {
        assert_eq!(known_of_a_hold(true, false), Some(false));
    }

    #[test]
    fn a_word_that_no_queue_uses_holds_nothing() {
        let device = device(Nature::default());
        let word = device.gate_word().expect("a word");
        let api = device.api();
        let stream = api.create_stream(None).expect("a stream");
        // SAFETY: it is alive, and so is the word.
        unsafe { graph(&device, &word, 3, US).launch_into(api, stream) }.expect("a launch");
        api.pass(3 * US);
        // SAFETY: it is alive.
        assert!(unsafe { api.is_done(stream) }.expect("an answer"));
    }

    #[test]
    fn a_word_is_kept_by_its_clones_its_queue_and_what_that_was_given() {
        let mut device = device(Nature::default());
        let free = |device: &StreamDevice<Mock>| {
            let word = device.gate_word().expect("a word");
            word.address()
        };
        let word = device.gate_word().expect("a word");
        let address = word.address();
        assert_ne!(free(&device), address, "another clone has it");
        let mut queue = with_word(&mut device, &word);
        let command = graph(&device, &word, 3, 100 * US);
        queue.submit.launch(CmdId(0), &command, true).expect("a launch");
        drop(command);
        drop(word);
        assert_ne!(free(&device), address, "the queue has it");
        drop(queue);
        assert_ne!(free(&device), address, "the device is busy");
        device.api().pass(300 * US);
        // Looked at when the next queue is opened.
        drop(open(&mut device, 200 * US));
        assert_eq!(free(&device), address);
    }

    #[test]
    fn a_word_goes_back_after_an_event() {
        let mut device = device(Nature::default());
        let word = device.gate_word().expect("a word");
        let address = word.address();
        let api = device.api();
        let stream = api.create_stream(None).expect("a stream");
        let event = api.create_event().expect("an event");
        // SAFETY: all is alive, and the event is forgotten.
        unsafe {
            graph(&device, &word, 3, 100 * US).launch_into(api, stream).expect("a launch");
            api.record(event, stream).expect("a record");
            word.give_back_after(Some(event));
        }
        let taken = device.gate_word().expect("a word");
        assert_ne!(taken.address(), address, "the device is busy");
        device.api().pass(300 * US);
        drop(open(&mut device, 200 * US));
        assert_eq!(device.gate_word().expect("a word").address(), address);
    }

    #[test]
    fn a_word_without_an_event_never_goes_back() {
        let device = device(Nature::default());
        let word = device.gate_word().expect("a word");
        let address = word.address();
        // SAFETY: there is no event.
        unsafe { word.give_back_after(None) };
        let words: Vec<_> = (0..200).map(|_| device.gate_word().expect("a word")).collect();
        assert!(words.iter().all(|word| word.address() != address));
    }

    #[test]
    fn a_word_is_for_one_queue_at_a_time_of_its_own_device() {
        let mut first = device(Nature::default());
        let mut second = device(Nature::default());
        let word = first.gate_word().expect("a word");
        let config = || StreamConfig::default().with_gate(&word);
        let queue = first.open(QueueId::new(0, 0), config()).expect("a queue");
        let streams = |device: &StreamDevice<Mock>| device.api().alive().0;
        let before = (streams(&first), streams(&second));
        let again = first.open(QueueId::new(1, 0), config()).map(|_| ());
        assert!(matches!(again, Err(StreamError::WordTaken)), "{again:?}");
        let other = second.open(QueueId::new(0, 0), config()).map(|_| ());
        assert!(matches!(other, Err(StreamError::WordOfOtherDevice)), "{other:?}");
        assert_eq!((streams(&first), streams(&second)), before, "a stream was left");
        drop(queue);
        first.open(QueueId::new(1, 0), config()).expect("a queue");
    }

    #[test]
    fn the_gate_is_open_when_the_queue_has_gone() {
        let mut device = device(Nature::default());
        let word = device.gate_word().expect("a word");
        let mut queue = with_word(&mut device, &word);
        queue.submit.launch(CmdId(0), &graph(&device, &word, 2, US), true).expect("a launch");
        queue.preempt.step(Step::Deactivate).expect("a hold");
        drop(queue);
        device.api().pass(2 * US);
        let mut queue = with_word(&mut device, &word);
        launch(&mut queue, 0, 1, US);
        device.api().pass(US);
        assert!(poll(&mut queue).is_some());
    }

    #[test]
    fn without_gates_there_are_no_words() {
        let nature = Nature { no_waits: Some("none".to_owned()), ..Nature::default() };
        let word = device(nature).gate_word().map(|_| ());
        assert!(matches!(word, Err(StreamError::NoGate(NoGate::NoWaits(_)))), "{word:?}");
    }
}

mod stream_of_thread {
    use super::*;

    fn open(device: &mut StreamDevice<Mock>) -> Queue {
        let stream = device.api().create_stream(None).expect("a stream");
        // SAFETY: it is alive, and this thread alone launches.
        let config = unsafe { StreamConfig::default().on_stream_of_thread(stream) };
        device.open(QueueId::new(0, 0), config).expect("a queue")
    }

    #[test]
    fn each_command_has_a_fence_and_other_threads_put_none() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device);
        assert_eq!(queue.caps.level, Level::Block);
        for n in 0..3 {
            queue.submit.launch(CmdId(n), &command(20 * US), false).expect("a launch");
            device.api().pass(20 * US);
            assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(n + 1));
        }
        queue.submit.launch(CmdId(3), &command(20 * US), false).expect("a launch");
        let before = puts(&device);
        queue.submit.fence(CmdId(3)).expect("there is one");
        assert_eq!(puts(&device), before);
        device.api().pass(20 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(4));
    }

    #[test]
    fn a_fence_that_was_missed_comes_with_the_next_command() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device);
        launch(&mut queue, 0, 1, 20 * US);
        device.api().fail_all(Some("record"));
        launch(&mut queue, 1, 1, 20 * US);
        device.api().heal();
        let missed = queue.submit.fence(CmdId(1));
        assert!(matches!(missed, Err(StreamError::OtherThread)), "{missed:?}");
        launch(&mut queue, 2, 1, 20 * US);
        device.api().pass(60 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(3));
    }

    #[test]
    fn a_queue_that_closes_leaves_the_stream_alone() {
        let mut device = device(Nature::default());
        let mut queue = open(&mut device);
        launch(&mut queue, 0, 2, 20 * US);
        let before = puts(&device);
        drop(queue);
        assert_eq!(puts(&device), before);
    }
}

mod contexts {
    use super::*;

    #[test]
    fn each_has_streams_of_its_own_and_gates_open_together() {
        let mut first = device(Nature::default());
        let mut second = first.in_context(Mock::new(Nature::default()));
        assert_eq!(second.level(), Level::Deactivate);
        let mut queues = [open(&mut first, 0), open(&mut second, 0)];
        for (device, queue) in [&first, &second].into_iter().zip(&mut queues) {
            queue.preempt.step(Step::Deactivate).expect("a step");
            launch(queue, 0, 2, 20 * US);
            device.api().pass(100 * US);
        }
        assert_eq!([first.api().ran(), second.api().ran()], [0; 2]);
        first.with_gates_open(|| {
            assert!(second.gates_open()());
            [&first, &second].into_iter().for_each(|device| device.api().pass(100 * US));
        });
        assert_eq!([first.api().ran(), second.api().ran()], [2; 2]);
    }

    #[test]
    fn one_without_gates_has_queues_at_level_1() {
        let first = device(Nature::default());
        let nature = Nature { ignores_waits: true, ..Nature::default() };
        let mut second = first.in_context(Mock::new(nature));
        assert_eq!((first.no_gate(), second.no_gate()), (None, Some(&NoGate::NotHeld)));
        assert_eq!(open(&mut second, 0).caps.level, Level::Block);
    }

    #[test]
    fn the_end_of_one_waits_for_a_call_of_its_probe() {
        let mut config = with_entries(Some(64));
        config.probe_every = Duration::from_millis(1);
        let mut first = tested(Mock::new(Nature::default()), config);
        let second = first.in_context(Mock::new(Nature::default()));
        assert_eq!(second.level(), Level::Deactivate);
        let mut queue = open(&mut first, 0);
        queue.preempt.step(Step::Deactivate).expect("a step");
        let stalled = Arc::clone(&second.api().stalled);
        second.api().stall("create_event", 0);
        let start = Instant::now();
        while stalled.load(Ordering::SeqCst) == 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "no probe");
            thread::yield_now();
        }
        drop(second);
        assert_eq!(stalled.load(Ordering::SeqCst), 0);
    }
}
