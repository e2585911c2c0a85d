//! The runtime on the host device: real commands, really stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use xsched::policies::{fcfs::Fcfs, hpf::Hpf};
use xsched::{Device, Drain, Runtime, RuntimeConfig, SubmitError, WaitError, XQueue, XQueueConfig};
use xsched_core::fault::Fault;
use xsched_core::hint::Priority;
use xsched_core::level::Level;
use xsched_core::message::HoldState;
use xsched_core::window::WindowConfig;
use xsched_hal_host::{BusyLoop, HostCommand, HostConfig, HostDevice, HostValueError};

fn host(runtime: &Runtime) -> Device<HostDevice> {
    runtime.device(HostDevice::new(HostConfig::default()).unwrap()).unwrap()
}

fn queue(device: &Device<HostDevice>, priority: i32) -> XQueue<HostCommand> {
    let config = XQueueConfig::default()
        .with_priority(Priority::new(priority).unwrap())
        .with_window(WindowConfig::fixed(8, 4));
    device.queue(config, ()).unwrap()
}

fn sleeper(span: Duration) -> HostCommand {
    HostCommand::new(move || std::thread::sleep(span))
}

fn soon(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn commands_run_in_order_and_waiters_learn_of_it() {
    let device = host(&Runtime::new(Fcfs).unwrap());
    let queue = queue(&device, 0);
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut last = None;
    for n in 0..200 {
        let theirs = log.clone();
        let command = HostCommand::new(move || theirs.lock().unwrap().push(n));
        last = Some(queue.submit(command).unwrap());
        if n % 17 == 0 {
            queue.wait(last.unwrap()).unwrap();
            assert_eq!(log.lock().unwrap().len(), n + 1);
        }
    }
    queue.wait(last.unwrap()).unwrap();
    assert_eq!(*log.lock().unwrap(), (0..200).collect::<Vec<_>>());
}

/// The answer of `asks` in a command of this queue, about another one or the same.
fn asked_inside<T: Send + 'static>(
    queue: &XQueue<HostCommand>,
    about: &XQueue<HostCommand>,
    asks: impl Fn(&XQueue<HostCommand>) -> T + Send + Sync + 'static,
) -> T {
    let (answer, answers) = std::sync::mpsc::channel();
    let about = about.clone();
    queue.submit(HostCommand::new(move || drop(answer.send(asks(&about))))).unwrap();
    answers.recv_timeout(Duration::from_secs(20)).expect("the command does not wait for itself")
}

/// Answers of calls that wait, for a command that has not run yet.
fn waits(queue: &XQueue<HostCommand>) -> [Result<(), WaitError>; 4] {
    let minute = Duration::from_secs(60);
    let ticket = queue.submit(HostCommand::new(|| {})).unwrap();
    let answers = [
        queue.wait(ticket),
        queue.wait_timeout(ticket, minute),
        queue.wait_all_timeout(minute),
        queue.suspend_after(Drain::All, Level::Block, None),
    ];
    queue.resume();
    answers
}

#[test]
fn a_command_that_would_wait_for_itself_is_refused() {
    const REFUSED: Result<(), WaitError> = Err(WaitError::InCommand);
    let runtime = Runtime::new(Fcfs).unwrap();
    let device = host(&runtime);
    let (own, other) = (queue(&device, 0), queue(&device, 0));
    let before = own.submit(HostCommand::new(|| {})).unwrap();
    own.wait(before).unwrap();
    // What has ended can be waited for, and the command itself not.
    let itself = |own: &XQueue<HostCommand>| own.ticket_of(own.stats().submitted - 1).unwrap();
    let both = asked_inside(&own, &own, move |own| [own.wait(before), own.wait(itself(own))]);
    assert_eq!(both, [Ok(()), REFUSED]);
    assert_eq!(asked_inside(&own, &own, waits), [REFUSED; 4]);
    // The command has the only compute unit.
    assert_eq!(asked_inside(&own, &other, waits), [REFUSED; 4]);
    for level in [Level::Block, Level::Deactivate, Level::Interrupt] {
        let quiet = asked_inside(&own, &own, move |own| {
            own.suspend(level);
            let quiet = own.wait_quiet(None);
            own.resume();
            quiet
        });
        assert_eq!(quiet, Err(WaitError::InCommand), "{level:?}");
    }
    // Without an error to say it with, they come back.
    asked_inside(&own, &own, XQueue::wait_all);
    asked_inside(&own, &own, XQueue::close);
    assert_eq!(own.wait_all_timeout(Duration::from_secs(20)), Ok(()));
}

#[test]
fn a_command_can_wait_for_queues_that_get_on_beside_it() {
    let runtime = Runtime::new(Fcfs).unwrap();
    let config = HostConfig::default().with_compute_units(2);
    let device = runtime.device(HostDevice::new(config).unwrap()).unwrap();
    let (own, other) = (queue(&device, 0), queue(&device, 0));
    assert_eq!(asked_inside(&own, &other, waits), [Ok(()); 4]);
    let elsewhere = queue(&host(&runtime), 0);
    assert_eq!(asked_inside(&own, &elsewhere, waits), [Ok(()); 4]);
    assert_eq!(asked_inside(&own, &own, waits), [Err(WaitError::InCommand); 4]);
}

#[test]
fn a_command_that_fills_its_own_queue_gets_the_next_one_back() {
    let device = host(&Runtime::new(Fcfs).unwrap());
    let queue = device.queue(XQueueConfig::default().with_capacity(4), ()).unwrap();
    let taken = asked_inside(&queue, &queue, |queue| {
        let submits = || queue.submit(HostCommand::new(|| {}));
        (0..64).take_while(|_| !matches!(submits(), Err(SubmitError::Full(_)))).count()
    });
    assert_eq!(taken, 3);
    // It is in no line any more.
    for _ in 0..20 {
        queue.submit(HostCommand::new(|| {})).unwrap();
    }
    queue.close();
    assert_eq!(queue.stats().retired, 24);
}

#[test]
fn a_command_that_panics_fails_alone() {
    let device = host(&Runtime::new(Fcfs).unwrap());
    let queue = queue(&device, 0);
    let before = queue.submit(HostCommand::new(|| {})).unwrap();
    let bad = queue.submit(HostCommand::new(|| panic!("as the test wants it"))).unwrap();
    let after = queue.submit(HostCommand::new(|| {})).unwrap();
    assert_eq!(queue.wait(after), Ok(()));
    assert_eq!(queue.wait(before), Ok(()));
    let error = queue.wait(bad).unwrap_err();
    assert_eq!(error, WaitError::Failed(Fault::Panicked));
    assert_eq!(error.to_string(), "the command panicked; what it said is on standard error");
    assert_eq!(queue.stats().failed, 1);
}

#[test]
fn a_command_returns_its_value_or_the_message_of_its_panic() {
    let device = host(&Runtime::new(Fcfs).unwrap());
    let queue = queue(&device, 0);
    let owned = String::from("moved in, ");
    let (command, value) = HostCommand::once(move || owned + "and out");
    queue.wait(queue.submit(command).unwrap()).unwrap();
    assert_eq!(value.take().unwrap(), "moved in, and out");
    let (command, value) = HostCommand::once(|| -> u8 { panic!("no such file: {}", "x") });
    let ticket = queue.submit(command).unwrap();
    assert_eq!(queue.wait(ticket), Err(WaitError::Failed(Fault::Panicked)));
    assert_eq!(value.take().unwrap_err().to_string(), "the command panicked: no such file: x");
    queue.suspend(Level::Block);
    let (command, value) = HostCommand::once(|| ());
    let ticket = queue.submit(command).unwrap();
    assert!(queue.cancel(ticket));
    assert_eq!(value.take(), Err(HostValueError::NotRun));
}

/// Panics again when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        std::panic::panic_any(Self);
    }
}

#[test]
fn a_panic_that_panics_again_when_dropped_fails_its_command_alone() {
    let device = host(&Runtime::new(Fcfs).unwrap());
    let queue = queue(&device, 0);
    let bad = queue.submit(HostCommand::new(|| std::panic::panic_any(Grenade))).unwrap();
    let kept = Grenade;
    let dropped = queue.submit(HostCommand::new(move || _ = &kept)).unwrap();
    let after = queue.submit(HostCommand::new(|| {})).unwrap();
    assert_eq!(queue.wait(after), Ok(()));
    assert_eq!(queue.wait(bad), Err(WaitError::Failed(Fault::Panicked)));
    assert_eq!(queue.wait(dropped), Ok(()), "it ran, and only its destructor panicked");
}

#[test]
fn the_urgent_queue_goes_first_and_the_other_ends() {
    let device = host(&Runtime::new(Hpf::default()).unwrap());
    let (low, high) = (queue(&device, -1), queue(&device, 1));
    let done = Arc::new(AtomicU64::new(0));
    for _ in 0..40 {
        let done = done.clone();
        low.submit(HostCommand::new(move || {
            std::thread::sleep(Duration::from_millis(1));
            done.fetch_add(1, Ordering::SeqCst);
        }))
        .unwrap();
    }
    let mut most = 0;
    for _ in 0..5 {
        let mut last = None;
        for _ in 0..4 {
            last = Some(high.submit(sleeper(Duration::from_millis(1))).unwrap());
        }
        // What runs may finish, and one more may have its turn before the hold is there.
        let before = done.load(Ordering::SeqCst);
        high.wait(last.unwrap()).unwrap();
        most = most.max(done.load(Ordering::SeqCst) - before);
    }
    low.wait_all();
    assert_eq!(done.load(Ordering::SeqCst), 40);
    assert!(most <= 3, "{most} commands of the low queue ran beside four urgent ones");
}

#[test]
fn holds_by_hand_stop_at_every_level() {
    let device = host(&Runtime::new(Fcfs).unwrap());
    for level in [Level::Block, Level::Deactivate, Level::Interrupt] {
        let queue = queue(&device, 0);
        for _ in 0..16 {
            queue.submit(sleeper(Duration::from_micros(300))).unwrap();
        }
        queue.suspend(level);
        soon("the hold is in effect", || matches!(queue.stats().hold, HoldState::Held(_)));
        // At Lv1 what is in flight ends, at Lv2 the command that runs.
        soon("nothing ends any more", || {
            let before = queue.stats().retired;
            std::thread::sleep(Duration::from_millis(20));
            queue.stats().retired == before
        });
        let before = queue.stats();
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(queue.stats().retired, before.retired);
        assert!(before.retired < 16);
        queue.resume();
        queue.wait_all();
        assert_eq!(queue.stats().retired, 16);
    }
}

#[test]
fn waits_of_many_threads_on_one_queue_all_end() {
    let device = host(&Runtime::new(Fcfs).unwrap());
    let queue = queue(&device, 0);
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let queue = queue.clone();
            scope.spawn(move || {
                for n in 0..100 {
                    let span = Duration::from_micros((thread * 7 + n) % 90);
                    let ticket = queue.submit(sleeper(span)).unwrap();
                    if n % 3 == thread % 3 {
                        // Some give up early, and must leave a thread that looks for the rest.
                        let _ = queue.wait_timeout(ticket, Duration::from_micros(n % 200));
                    } else {
                        queue.wait(ticket).unwrap();
                    }
                }
            });
        }
    });
    queue.suspend_after(Drain::Idle, Level::Block, Some(Duration::from_secs(20))).unwrap();
    assert_eq!(queue.stats().retired, 600);
}

#[test]
fn a_completion_without_a_waiter_is_noticed() {
    let device = host(&Runtime::new(Fcfs).unwrap());
    let queue = queue(&device, 0);
    for round in 1..=20 {
        queue.submit(sleeper(Duration::from_millis(2))).unwrap();
        soon("the reaper has it", || queue.stats().retired == round);
    }
    // Queues that go leave no hardware queue behind.
    drop(queue);
}

#[test]
fn a_stop_that_takes_its_time_is_seen_by_a_reaper_that_rests() {
    let runtime = Runtime::new(Fcfs).unwrap();
    // No waiting for the stop: it is nearly always on its way when the step returns.
    let config = HostConfig::default().with_stop_wait(Duration::ZERO);
    let device = runtime.device(HostDevice::new(config).unwrap()).unwrap();
    let queue = queue(&device, 0);
    let last = queue.submit(BusyLoop::calibrate().command(200_000_000)).unwrap();
    for _ in 0..10 {
        // Longer than the reaper stays awake.
        std::thread::sleep(Duration::from_millis(5));
        queue.suspend(Level::Interrupt);
        soon("held", || queue.stats().hold == HoldState::Held(Level::Interrupt));
        queue.resume();
        soon("running", || queue.stats().hold == HoldState::Running);
    }
    queue.wait(last).unwrap();
}

/// Keeps the reaper polling: completions come all the time, and callbacks wait for them.
fn with_load<T>(device: &Device<HostDevice>, work: impl FnOnce() -> T) -> T {
    let (load, stop) = (queue(device, 0), Arc::new(AtomicU64::new(0)));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        while stopped.load(Ordering::Relaxed) == 0 {
            let ticket = load.submit(HostCommand::new(|| {})).unwrap();
            load.on_retired(ticket, drop).unwrap();
        }
        load.wait_all();
    });
    let result = work();
    stop.store(1, Ordering::Relaxed);
    thread.join().unwrap();
    result
}

#[test]
fn queues_that_come_and_go_beside_load_find_room() {
    let config = RuntimeConfig::default().with_queues(16);
    let runtime = Runtime::with_config(Hpf::default(), config).unwrap();
    let device = host(&runtime);
    let refused = with_load(&device, || {
        (0..2_000).find_map(|n| Some((n, device.queue(XQueueConfig::default(), ()).err()?)))
    });
    assert!(refused.is_none(), "{refused:?}");
}
