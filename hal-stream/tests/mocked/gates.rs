//! Where gates are put, and when they are closed.

use super::*;

/// Returns for each command whether it has a gate in front of it.
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
pub(crate) fn in_unit(nature: Nature) -> (Arc<SharedPage>, StreamDevice<Mock>) {
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
    page.close_all(Holder::DAEMON);
    launch(&mut queue, 0, 2, US);
    launch(&mut other, 0, 2, US);
    device.api().pass(1_000 * US);
    assert_eq!(poll(&mut queue), None);
    assert_eq!(poll(&mut other).map(|(upto, _)| upto), Some(2));
    // A call for the whole device opens it, and it is closed again after that.
    let mut third = apart(&mut device).0;
    device.with_gates_open(|| {
        assert!(!page.is_held_by(0, Holder::DAEMON));
        page.close_all(Holder::DAEMON);
        assert!(!page.is_held_by(0, Holder::DAEMON));
        device.api().pass(1_000 * US);
        assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(2));
    });
    assert!(page.is_held_by(0, Holder::DAEMON));
    launch(&mut queue, 2, 2, US);
    launch(&mut third, 0, 2, US);
    device.api().pass(1_000 * US);
    assert_eq!(poll(&mut queue), None);
    assert_eq!(poll(&mut third).map(|(upto, _)| upto), Some(2));
    // Not if the hold has ended meanwhile.
    device.with_gates_open(|| page.release_all(Holder::DAEMON));
    assert!(!page.is_held_by(0, Holder::DAEMON));
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
    let holder = Holder::DAEMON;
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

/// Work beside what others have launched may take longer, and counts as predicted.
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
    page.close_all(Holder::DAEMON);
    page.release_all(Holder::DAEMON);
    let expected = told(2, 20 * US);
    assert!(expected < Some(12 * US), "it is not known how long it was held: {expected:?}");
    assert_eq!(told(3, 20 * US), expected);
    assert_eq!(told(4, 5 * US), expected, "some take less");
    thread::sleep(Duration::from_millis(5));
    assert_eq!(told(5, 20 * US), Some(20 * US));
}

/// Others take the device in the middle of what is measured.
#[test]
fn what_is_measured_beside_others_says_nothing_of_commands() {
    let (page, mut device) = in_unit(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    let mut told = |n, ns| {
        launch(&mut queue, n, 1, ns);
        device.api().pass(5_000 * US);
        poll(&mut queue).map(|(_, busy)| busy)
    };
    assert_eq!(told(0, 10 * US), Some(10 * US));
    page.header().set_time_sliced(true);
    for n in 1..100 {
        assert_eq!(told(n, 2_000 * US), Some(10 * US));
    }
    page.header().set_time_sliced(false);
    assert_eq!(told(100, 2_000 * US), Some(10 * US), "that began before");
    thread::sleep(Duration::from_millis(5));
    assert_eq!(told(101, 10 * US), Some(10 * US));
    assert_eq!(told(102, 20 * US), Some(20 * US));
}

/// The turn that ended between two polls is a disturbance of what began in it.
#[test]
fn what_began_beside_others_is_not_measured_once_they_have_gone() {
    let (page, mut device) = in_unit(Nature::default());
    let mut queue = open(&mut device, 200 * US);
    let mut told = |n, ns| {
        launch(&mut queue, n, 1, ns);
        device.api().pass(5_000 * US);
        page.header().set_time_sliced(false);
        poll(&mut queue).map(|(_, busy)| busy)
    };
    assert_eq!(told(0, 10 * US), Some(10 * US));
    page.header().set_time_sliced(true);
    assert_eq!(told(1, 2_000 * US), Some(2_000 * US), "no sample of it was beside others");
    page.header().set_time_sliced(true);
    launch(&mut queue, 2, 1, 10 * US);
    device.api().pass(10 * US);
    assert_eq!(poll(&mut queue).map(|(upto, _)| upto), Some(3));
    thread::sleep(Duration::from_millis(5));
    launch(&mut queue, 3, 1, 2_000 * US);
    device.api().pass(5_000 * US);
    page.header().set_time_sliced(false);
    let told = poll(&mut queue).map(|(_, busy)| busy);
    assert!(told < Some(1_500 * US), "it began beside others: {told:?}");
}

/// Little work that waits to be measured is finished with the first command behind a hold.
#[test]
fn a_hold_counts_for_no_command_whose_measurement_ends_behind_it() {
    let (page, mut device) = in_unit(Nature { sees_ends: true, ..Nature::default() });
    let mut queue = open(&mut device, 0);
    let little = command(10 * US).of_kind(1).expected_ns(10 * US);
    queue.submit.launch(CmdId(0), &command(20 * US).of_kind(2), true).expect("a launch");
    queue.submit.launch(CmdId(1), &little, false).expect("a launch");
    queue.submit.launch(CmdId(2), &command(30 * US).of_kind(3), true).expect("a launch");
    // The second one runs, and the third one waits at its gate then.
    device.api().pass(25 * US);
    page.close_all(Holder::DAEMON);
    let mut busy = 0;
    for us in [20, 10_000, 1_000] {
        device.api().pass(us * US);
        busy += poll(&mut queue).map_or(0, |(_, busy)| busy);
        if us == 10_000 {
            page.release_all(Holder::DAEMON);
        }
    }
    assert_eq!(poll(&mut queue), None);
    assert!(busy <= 100 * US, "{busy} ns, where others had 10 ms");
}

/// A gate is due in front of each command, or of none.
#[test]
fn there_is_room_for_as_many_as_the_hardware_queue_takes() {
    for (spacing, least) in [(0, 25), (10_000 * US, 90)] {
        let (page, mut device) = in_unit(Nature { sees_ends: true, ..Nature::default() });
        // As if each had a gate, two events beside it, and a fence.
        let (mut queue, max) = (open(&mut device, spacing), 64 * 2);
        assert_eq!(queue.submit.room(), Some(max / 5));
        page.close_all(Holder::DAEMON);
        let mut n = 0;
        while queue.submit.room().is_some_and(|room| room > 0) {
            let told = command(US).expected_ns(US);
            queue.submit.launch(CmdId(n), &told, n % 8 == 0).expect("a launch");
            n += 1;
        }
        let put = puts(&device).len();
        assert!(n >= least && put <= max as usize, "{n} launches, {put} entries");
        page.release_all(Holder::DAEMON);
        device.api().pass(1_000 * US);
        queue.submit.fence(CmdId(n - 1)).expect("a fence");
        device.api().pass(1_000 * US);
        while poll(&mut queue).is_some() {}
        assert_eq!(queue.submit.room(), Some(max / 5), "all has run");
    }
}

#[test]
fn who_is_held_for_no_others_may_fill_its_hardware_queue() {
    let page = Arc::new(SharedPage::create().expect("a page"));
    let (source, config) = (Arc::new(Pages(Arc::clone(&page))), with_entries(None));
    let mut device =
        StreamDevice::in_unit(Mock::new(Nature::default()), config, source).expect("a device");
    let queue = open(&mut device, 10_000 * US);
    let room = || queue.submit.room().expect("it is in a unit");
    assert_eq!(room(), device.entries_max() * 2 / 5);
    page.header().set_rank(NodeRank::Highest);
    assert_eq!(room(), device.entries_max() * 3 / 5);
    page.header().set_rank(NodeRank::Contended);
    assert_eq!(room(), device.entries_max() * 2 / 5);
}

#[test]
fn what_the_host_takes_to_launch_is_no_device_time() {
    // The device begins a little later, so not all of it can be taken off.
    for (ns, told_ns) in [(20 * US, 20 * US), (2 * US, 17 * US / 4)] {
        let nature = Nature { sees_ends: true, launching_ns: 15 * US, ..Nature::default() };
        let (_page, mut device) = in_unit(nature);
        let mut queue = open(&mut device, 10_000 * US);
        for n in 0..100 {
            launch(&mut queue, n, 1, ns);
            device.api().pass(100 * US);
            assert_eq!(poll(&mut queue), Some((n + 1, told_ns)));
        }
    }
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
            page.close_all(Holder::DAEMON);
            page.release_all(Holder::DAEMON);
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

/// The device time of the last thousand of four thousand commands, in µs. They take 20 µs each, but
/// the first hundred 400. The host launches one each 200 µs or slower, if it pauses. It looks right
/// after a launch, so that the stream is never seen to have nothing to do.
fn told_us(kinds: u32, pauses: bool) -> u64 {
    let (_page, mut device) = in_unit(Nature { sees_ends: true, ..Nature::default() });
    let mut queue = open(&mut device, 10_000 * US);
    let (mut told, mut passed) = (0, Instant::now());
    for n in 0..4_000 {
        let ns = if n < 100 { 400 * US } else { 20 * US };
        let command = command(ns).of_kind(n as u32 % kinds);
        queue.submit.launch(CmdId(n), &command, n % 4 == 3).expect("a launch");
        let busy = poll(&mut queue).map_or(0, |(_, busy)| busy / US);
        told += if n < 3_000 { 0 } else { busy };
        if pauses {
            thread::sleep(Duration::from_micros(200));
            // The device's clock goes with the host's.
            let now = Instant::now();
            device.api().pass(now.duration_since(passed).as_nanos() as u64);
            passed = now;
        } else {
            device.api().pass(ns);
        }
    }
    told
}

#[test]
fn pauses_of_the_host_are_no_device_time() {
    for kinds in [1, 3] {
        let told = [false, true].map(|pauses| told_us(kinds, pauses));
        assert!(told.iter().all(|us| (18_000..25_000).contains(us)), "{told:?}, {kinds} kinds");
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
