//! Queues that come and go, and the table.

use super::*;

#[test]
fn a_slot_that_is_used_again_has_another_id() {
    let mut rig = Rig::new();
    let first = rig.attach(0);
    rig.detach(first);
    let second = rig.attach(0);
    assert_eq!(first.index(), second.index());
    assert_ne!(first, second);
    assert!(rig.s.table().get(first).is_none());
    assert!(rig.s.table().get(second).is_some());
}

#[test]
fn nothing_is_done_for_a_queue_that_is_gone() {
    let mut rig = Rig::new();
    let gone = rig.attach(0);
    let other = rig.attach(0);
    rig.detach(gone);
    rig.attach(0);
    let never = QueueId::new(99, 1);
    let now = rig.now;
    for id in [gone, never] {
        let s = &mut rig.s;
        assert_eq!(s.detach(now, id), Err(SchedulerError::UnknownQueue));
        let report = Report { submitted: 1, ..Report::default() };
        assert_eq!(s.handle_report(now, id, &report), Err(SchedulerError::UnknownQueue));
        assert_eq!(s.set_hints(now, id, hints(3)), Err(SchedulerError::UnknownQueue));
        let choice = LevelChoice::UpTo(Level::Block);
        assert_eq!(s.set_level(id, choice), Err(SchedulerError::UnknownQueue));
        let wait = s.admit_wait(id, CmdId(0), event(other, 0));
        assert_eq!(wait, Err(SchedulerError::UnknownQueue));
        let wait = s.admit_wait(other, CmdId(0), event(id, 0));
        assert_eq!(wait, Err(SchedulerError::UnknownQueue));
        assert_eq!(s.table().verdict(id), None);
        assert!(s.table().state::<Full>(id).is_none());
        assert_eq!(s.table().ready_since(id), None);
    }
    rig.say(gone, HOLD);
    rig.say(never, HOLD);
    assert_eq!(rig.orders(), "", "a verdict about an unknown queue does nothing");
}

#[test]
fn a_full_table_says_so_until_a_queue_leaves() {
    let mut rig = Rig::new();
    let queues: Vec<_> = (0..8).map(|_| rig.attach(0)).collect();
    let full = rig.s.attach(rig.now, Attach::default());
    assert_eq!(full, Err(SchedulerError::TableFull));
    rig.detach(queues[3]);
    assert_eq!(rig.attach(0).index(), 3);
    assert!(rig.s.attach(rig.now, Attach::default()).is_err());
}

#[test]
fn devices_must_exist() {
    let mut rig = Rig::new();
    let attach = Attach { device: DeviceId(2), ..Attach::default() };
    assert_eq!(rig.s.attach(rig.now, attach), Err(SchedulerError::UnknownDevice));
    let cost = CostModel::default();
    assert_eq!(rig.s.set_cost(DeviceId(2), cost), Err(SchedulerError::UnknownDevice));
    assert_eq!(rig.s.set_cost(DeviceId(1), cost), Ok(()));
}

#[test]
fn tables_of_no_size_are_full() {
    let mut s: Scheduler<Puppet, _> = Scheduler::new(Puppet::default(), Inline::<0, 1, 0>::new());
    let full = s.attach(Instant::ZERO, Attach::default());
    assert_eq!(full, Err(SchedulerError::TableFull));
    assert_eq!(s.poll_order(Instant::ZERO), None);
    let mut s: Scheduler<Puppet, _> = Scheduler::new(Puppet::default(), Inline::<1, 0, 0>::new());
    let unknown = s.attach(Instant::ZERO, Attach::default());
    assert_eq!(unknown, Err(SchedulerError::UnknownDevice));
    assert_eq!(s.poll_order(Instant::ZERO), None);
}

#[test]
fn lent_tables_are_cleared() {
    let mut queues = [QueueSlot::default(), QueueSlot::default()];
    let mut devices = [DeviceSlot::default()];
    let mut edges = [Edge::default()];
    for _ in 0..2 {
        let slices = Slices { queues: &mut queues, devices: &mut devices, edges: &mut edges };
        let mut s = Scheduler::new(Puppet::default(), slices);
        let queue = s.attach(Instant::ZERO, Attach::default()).unwrap();
        let report = Report { submitted: 1, ..Report::default() };
        s.handle_report(Instant::ZERO, queue, &report).unwrap();
        assert_eq!(s.table().iter().count(), 1);
        assert_eq!(s.table().top_ready(DeviceId(0)), Some(Priority::DEFAULT));
        s.attach(Instant::ZERO, Attach::default()).unwrap();
    }
}

#[test]
fn the_table_shows_what_is_known() {
    let mut rig = Rig::new();
    let process = ProcessId(5);
    let on_1 = Attach { device: DeviceId(1), process, hints: hints(9), ..Attach::default() };
    let a = rig.attach(3);
    let b = rig.attach_as(on_1);
    rig.now = Instant::from_ns(40);
    rig.submit(b, 2);
    let table = rig.s.table();
    assert_eq!(table.iter().map(|q| q.id).collect::<Vec<_>>(), [a, b]);
    assert_eq!(table.on_device(DeviceId(1)).map(|q| q.id).collect::<Vec<_>>(), [b]);
    assert_eq!(table.of_process(process).map(|q| q.id).collect::<Vec<_>>(), [b]);
    assert_eq!(table.devices().collect::<Vec<_>>(), [DeviceId(0), DeviceId(1)]);
    let info = table.get(b).unwrap();
    assert!(info.ready && info.running && info.held.is_none());
    assert_eq!((info.device, info.process, info.report.submitted), (DeviceId(1), process, 2));
    assert_eq!(table.ready_since(b), Some(Instant::from_ns(40)));
    assert_eq!(table.top_ready(DeviceId(0)), None);
    assert_eq!(table.top_ready(DeviceId(1)), Some(Priority::new(9).unwrap()));
    assert_eq!(table.top_ready(DeviceId(7)), None);
    assert_eq!(table.verdict(a), Some(Verdict::Run));
    table.state(a).unwrap().set(FULL);
    assert_eq!(table.state::<Full>(a).unwrap().get(), FULL);
    assert_eq!(table.state::<Full>(b).unwrap().get(), EMPTY);
}

#[test]
fn attaching_and_detaching_are_observed() {
    let mut rig = Rig::new();
    let a = rig.attach(0);
    rig.submit(a, 1);
    rig.detach(a);
    assert_eq!(rig.events(), [(0, Event::Attached), (0, Event::Ready), (0, Event::Detached)]);
    rig.orders();
    assert_eq!(rig.s.table().iter().count(), 0);
}

#[test]
fn a_queue_that_goes_frees_the_device_for_others() {
    let mut rig = Rig::hpf();
    let high = rig.attach(5);
    let low = rig.attach(1);
    rig.submit(low, 1);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "1 hold1");
    rig.detach(high);
    assert_eq!(rig.orders(), "1 run");
}

#[test]
fn a_reused_slot_starts_from_scratch() {
    let mut rig = Rig::hpf();
    let high = rig.attach(5);
    let low = rig.attach(1);
    rig.submit(high, 1);
    assert_eq!(rig.orders(), "1 hold1");
    rig.s.table().state(low).unwrap().set(FULL);
    rig.detach(low);
    rig.drain(high);
    let fresh = rig.attach(1);
    assert_eq!(fresh.index(), low.index());
    assert_eq!(rig.orders(), "", "it runs, as a new queue does");
    assert_eq!(rig.s.table().state::<Full>(fresh).unwrap().get(), EMPTY);
    let info = *rig.s.table().get(fresh).unwrap();
    assert_eq!((info.held, info.report), (None, Report::default()));
    rig.submit(high, 1);
    let (queue, order) = rig.s.poll_order(rig.now).unwrap();
    assert_eq!((queue, order), (fresh, Order::Hold { epoch: 1, level: Level::Block }));
}

#[test]
fn going_while_orders_are_due_leaves_none_behind() {
    let mut rig = Rig::hpf();
    let queues: Vec<_> = (0..4).map(|p| rig.attach(p)).collect();
    rig.submit(queues[3], 1);
    rig.s.poll_order(rig.now).unwrap();
    for &queue in &queues {
        rig.detach(queue);
    }
    assert_eq!(rig.orders(), "");
    let again = rig.attach(0);
    rig.submit(again, 1);
    assert_eq!(rig.orders(), "");
    assert!(rig.running(again));
}

/// Beside queues that claim little of the device the next priority is to run, and no lower one.
#[test]
fn the_floor_is_that_of_a_look_at_all_queues() {
    let mut rig = Rig::new();
    let queues: Vec<_> = [9, 9, 3, 3, -7, 0].map(|priority| rig.attach(priority)).into();
    let mut number = 1_u64;
    for _ in 0..2_000 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let queue = queues[(number >> 40) as usize % queues.len()];
        if number >> 60 == 0 {
            let priority = [9, 3, -7][(number >> 50) as usize % 3];
            rig.s.set_hints(rig.now, queue, hints(priority)).unwrap();
        } else {
            let (submitted, is_modest) = (number >> 50 & 1, number >> 51 & 1 == 1);
            let claim = if is_modest { Claim::Little } else { Claim::Part };
            let report = Report { submitted, claim, ..Report::default() };
            rig.s.handle_report(rig.now, queue, &report).unwrap();
        }
        let table = rig.s.table();
        let priority = |info: &QueueInfo| info.hints.priority;
        let ready = || table.iter().filter(|info| info.ready);
        let top = ready().map(priority).max();
        let is_modest =
            |info: &QueueInfo| info.report.claim == Claim::Little || Some(priority(info)) != top;
        let below = ready().map(priority).filter(|low| Some(*low) != top).max();
        let expected = if ready().all(is_modest) { below.or(top) } else { top };
        assert_eq!(table.ready_floor(DeviceId(0)), expected);
        assert_eq!(table.top_ready(DeviceId(0)), top);
    }
    assert_eq!(rig.s.table().ready_floor(DeviceId(7)), None);
}
