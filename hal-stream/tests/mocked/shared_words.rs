//! Gate words in a page that other processes share.

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
    assert_eq!(theirs.gate(0).word.load(Ordering::SeqCst), 0);
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
    assert!(gates.take(3).is_none() && gates.take(GATES_PER_PAGE).is_none());
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
    assert_eq!(theirs.gate(3).word.load(Ordering::SeqCst), 0);
    theirs.release(3, holder);
    assert_eq!(theirs.gate(3).word.load(Ordering::SeqCst), 0);
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
    assert_eq!(theirs.gate(7).word.load(Ordering::SeqCst), 0);
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
    assert_eq!(theirs.gate(1).word.load(Ordering::SeqCst), 1);
    drop(queue);
    assert_eq!(theirs.gate(1).word.load(Ordering::SeqCst), 0);
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
