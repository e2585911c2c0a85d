//! Commands that fail, and queues that go while they are held.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use xsched::{SubmitError, Ticket, WaitError, XQueueConfig};
use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Level, Step};
use xsched_hal_cuda::table::NOT_READY;
use xsched_hal_cuda::{CudaCommand, CudaKernel, Spacing, StreamCommand, StreamConfig};
use xsched_hal_stream::StreamApi;

use crate::Entry;
use crate::calls::Extra;
use crate::case::{Case, micros, millis, until};
use crate::scene::{COMMAND_US, Command, Counter, NAP, Queue, Scene, held};

const LOST: Result<(), WaitError> = Err(WaitError::Failed(Fault::DeviceLost));
/// Time after which what has not ended hangs.
const HANGS: Duration = Duration::from_secs(5);
/// Until a launched counting command has certainly counted, besides its own time: it writes to the
/// host's memory a few times.
const NOTE: Duration = micros(50);

pub(crate) fn entries() -> Vec<Entry> {
    vec![
        Entry::new("trap", trap),
        Entry::new("trap-while-held", trap_while_held),
        Entry::new("bad-launch/idle", |case| bad_launch(case, false)),
        Entry::new("bad-launch/busy", |case| bad_launch(case, true)),
        Entry::new("dropped/queue", |case| dropped(case, 5)),
        Entry::new("dropped/pending", |case| dropped(case, 40)),
        Entry::new("dropped/hardware-queue", dropped_below),
        Entry::new("dropped/user-stream", dropped_from_stream),
        Entry::new("dropped/dropping-commands", dropped_commands),
    ]
}

/// Waits for a command on a thread of its own: when it ended, and how.
fn waiter(
    queue: &Queue,
    ticket: Ticket,
    to: &mpsc::Sender<(&'static str, Instant, Result<(), WaitError>)>,
    what: &'static str,
) {
    let (queue, to) = (queue.clone(), to.clone());
    thread::spawn(move || {
        let ended = queue.wait_timeout(ticket, HANGS);
        let _ = to.send((what, Instant::now(), ended));
    });
}

/// Watches the driver for the error, past all queues. When it was first told.
fn sentinel(scene: &Scene) -> mpsc::Receiver<Instant> {
    let (told, when) = mpsc::channel();
    let (device, stream, long) = (scene.device.clone(), scene.stream(), scene.spin(1_000_000));
    {
        let _entered = device.api().enter().expect("the device");
        // SAFETY: the stream is never destroyed.
        unsafe { long.launch_into(device.api(), stream) }.expect("a launch");
    }
    thread::spawn(move || {
        let begin = Instant::now();
        let table = device.api().table();
        while begin.elapsed() < HANGS {
            // SAFETY: see above.
            if !matches!(unsafe { (table.stream_query)(stream) }, 0 | NOT_READY) {
                let _ = told.send(Instant::now());
                return;
            }
            thread::sleep(micros(20));
        }
    });
    when
}

/// Everything ends with the error, and in time after the driver told it first.
fn all_lost(
    case: &Case,
    ended: &mpsc::Receiver<(&'static str, Instant, Result<(), WaitError>)>,
    count: usize,
    told: &mpsc::Receiver<Instant>,
    begin: Instant,
) {
    let mut waiters = Vec::new();
    for _ in 0..count {
        match ended.recv_timeout(HANGS + millis(500)) {
            Ok(waiter) => waiters.push(waiter),
            Err(_) => return case.fail("a waiter waits for ever"),
        }
    }
    let Ok(told) = told.recv_timeout(millis(500)) else {
        return case.fail("the driver tells no error");
    };
    case.figure("until the driver told the error", told.saturating_duration_since(begin));
    for (what, when, result) in waiters {
        case.check(result == LOST, format_args!("{what}: {result:?}"));
        case.within(what, when.saturating_duration_since(told), NAP);
    }
}

/// A queue on a lost device takes nothing more.
fn stays_lost(case: &Case, scene: &Scene, queues: &[&Queue]) {
    case.step("submitting to a lost device");
    for queue in queues {
        case.check(queue.stats().lost, format_args!("not known to be lost: {:?}", queue.stats()));
        let begin = Instant::now();
        match queue.try_submit(scene.empty()) {
            Err(SubmitError::Lost(_)) => {}
            other => case.fail(format_args!("a command was taken: {other:?}")),
        }
        case.within("the refusal", begin.elapsed(), Duration::ZERO);
        case.check(queue.wait_all_timeout(millis(100)).is_ok(), "something has not retired");
    }
    case.step("opening a queue on a lost device");
    let opened = scene.on.queue(XQueueConfig::default(), StreamConfig::default());
    case.check(opened.is_err(), "a queue was opened");
    case.note(format_args!("a new queue: {}", opened.map(drop).unwrap_err()));
}

/// Waiters of a command that fails, and of all later ones on the same context, get the error.
fn trap(case: &Case) {
    let scene = Scene::open(case);
    // Neither holds the other.
    let (first, second) = (scene.victim(), scene.victim());
    for queue in [&first, &second] {
        queue.submit(scene.empty()).expect("a command");
        queue.wait_all_timeout(HANGS).expect("it ends");
    }
    let told = sentinel(&scene);
    case.step("waiting for commands after a trap");
    let (to, ended) = mpsc::channel();
    let begin = Instant::now();
    for what in ["the other queue's", "the other queue's next"] {
        let ticket = second.submit(scene.spin(200_000)).expect("a command");
        waiter(&second, ticket, &to, what);
    }
    first.submit(scene.spin(2_000)).expect("a command");
    let ticket = first.submit(scene.trap()).expect("a command");
    waiter(&first, ticket, &to, "the trap's");
    for what in ["the next", "the one after"] {
        // It may be known before the launch returns.
        if let Ok(ticket) = first.submit(scene.empty()) {
            waiter(&first, ticket, &to, what);
        } else {
            case.note(format_args!("{what} was not taken"));
            let _ = to.send((what, Instant::now(), LOST));
        }
    }
    all_lost(case, &ended, 5, &told, begin);
    stays_lost(case, &scene, &[&first, &second]);
    case.step("dropping everything");
    let begin = Instant::now();
    drop((first, second, scene));
    case.within("dropping everything", begin.elapsed(), millis(100));
}

/// Traps with work behind a closed gate, and with work that has not been launched.
fn trap_while_held(case: &Case) {
    let scene = Scene::open(case);
    let (held_one, other) = (scene.victim(), scene.winner());
    let told = sentinel(&scene);
    scene.feed(&held_one, 30);
    held_one.suspend(Level::Deactivate);
    if let Err(error) = held(&held_one, millis(1_000)) {
        return case.fail(error);
    }
    case.step("waiting for commands of a held queue after a trap");
    let (to, ended) = mpsc::channel();
    let ticket = held_one.submit(scene.empty()).expect("a command");
    waiter(&held_one, ticket, &to, "the held queue's last");
    let begin = Instant::now();
    let ticket = other.submit(scene.trap()).expect("a command");
    waiter(&other, ticket, &to, "the trap's");
    all_lost(case, &ended, 2, &told, begin);
    stays_lost(case, &scene, &[&held_one, &other]);
    case.step("ending the hold");
    let begin = Instant::now();
    held_one.resume();
    drop((held_one, other, scene));
    case.within("dropping everything", begin.elapsed(), millis(100));
}

/// A block of more threads than there can be.
fn too_large(case: &Case, scene: &Scene) -> Command {
    let extra = Extra::of(case, scene);
    let function = extra.function(extra.load(), c"xf_quick");
    extra.load_function(function);
    // SAFETY: it has no parameters and touches no memory; the module stays loaded.
    let kernel = unsafe { CudaKernel::new(function, [1; 3], [4_096, 1, 1]) };
    StreamCommand::native(CudaCommand::kernel(kernel))
}

/// A launch with bad parameters fails, and nothing else does.
fn bad_launch(case: &Case, busy: bool) {
    let scene = Scene::open(case);
    let queue = scene.victim();
    let (bad, counter) = (too_large(case, &scene), scene.counter());
    queue.submit(scene.empty()).expect("a command");
    queue.wait_all_timeout(HANGS).expect("it ends");
    for round in 0..3 {
        case.step("launching with bad parameters");
        if busy {
            scene.feed(&queue, 30);
        }
        let begin = Instant::now();
        let refused = queue.submit(bad.clone()).expect("a command");
        let next = queue.submit(scene.count(0, &counter)).expect("a command");
        let ended = queue.wait_timeout(refused, HANGS);
        let work = if busy { micros(COMMAND_US * 30) } else { Duration::ZERO };
        case.within("until its failure", begin.elapsed(), work + NAP);
        let expected = Err(WaitError::Failed(Fault::Launch));
        case.check(ended == expected, format_args!("the command: {ended:?}"));
        let ended = queue.wait_timeout(next, HANGS);
        case.check(ended == Ok(()), format_args!("the next command: {ended:?}"));
        case.within("until the next has run", begin.elapsed(), work + NAP + NAP + NOTE);
        case.check(counter.get() == round + 1, "the next command has not run");
        let stats = queue.stats();
        let failed = stats.failed == round + 1 && !stats.lost;
        case.check(failed, format_args!("the queue: {stats:?}"));
    }
}

/// Checks that the counter reaches a number, within the time of this many commands since `begin`.
fn counts(case: &Case, counter: &Counter, goal: u64, left: u64, begin: Instant) {
    let counted = until(HANGS, || counter.get() >= goal);
    let took = begin.elapsed();
    let count = counter.get();
    case.check(counted && count == goal, format_args!("{count} commands of {goal} have run"));
    let each = micros(COMMAND_US) + NOTE;
    case.within("until all have run", took, each * u32::try_from(left).expect("few") + NAP);
}

/// The last handle of a held queue goes: the hold by hand ends, and what was submitted runs,
/// whether or not it was launched.
fn dropped(case: &Case, count: u64) {
    let scene = Scene::open(case);
    let (queue, counter) = (scene.victim(), scene.counter());
    scene.feed(&queue, 10);
    for _ in 0..count {
        queue.submit(scene.count(COMMAND_US, &counter)).expect("a command");
    }
    queue.suspend(Level::Deactivate);
    if let Err(error) = held(&queue, millis(1_000)) {
        return case.fail(error);
    }
    let before = counter.get();
    case.check(before < count, "all have run before the hold");
    case.step("dropping a held queue");
    let begin = Instant::now();
    drop(queue);
    case.within("the drop", begin.elapsed(), Duration::ZERO);
    // What it was fed with may be behind the gate as well.
    counts(case, &counter, count, 10 + count - before, begin);
    thread::sleep(millis(5));
    case.check(counter.get() == count, "commands have run twice");
}

/// Drops a held queue below the runtime: what was launched runs.
fn dropped_below(case: &Case) {
    let scene = Scene::open(case);
    let counter = scene.counter();
    let config = StreamConfig::default().spacing(Spacing::of_ns(0));
    let mut queue = scene.device.clone().open(QueueId::new(9, 0), config).expect("a queue");
    let command = scene.count(COMMAND_US, &counter);
    case.step("launching behind a closed gate");
    queue.submit.launch(CmdId(0), &scene.spin(COMMAND_US), true).expect("a launch");
    queue.preempt.step(Step::Deactivate).expect("a hold");
    for n in 1..=5 {
        queue.submit.launch(CmdId(n), &command, true).expect("a launch");
    }
    thread::sleep(millis(20));
    let before = counter.get();
    case.check(before == 0, format_args!("{before} commands have run though they were held"));
    case.step("dropping a held hardware queue");
    let begin = Instant::now();
    drop(queue);
    case.within("the drop", begin.elapsed(), Duration::ZERO);
    counts(case, &counter, 5, 5, begin);
}

/// Drops a held queue on a stream of the user's, which is destroyed then.
fn dropped_from_stream(case: &Case) {
    let scene = Scene::open(case);
    let (stream, counter) = (scene.stream(), scene.counter());
    // SAFETY: it is destroyed after the queue has been dropped and everything has run.
    let config = unsafe { StreamConfig::default().on_stream(stream) };
    let queue = scene.victim_on(config);
    case.check(queue.level() == Level::Deactivate, "the queue has no gates");
    let command = scene.count(COMMAND_US, &counter);
    scene.feed(&queue, 3);
    for _ in 0..20 {
        queue.submit(command.clone()).expect("a command");
    }
    queue.suspend(Level::Deactivate);
    if let Err(error) = held(&queue, millis(1_000)) {
        return case.fail(error);
    }
    let api = scene.device.api();
    let _entered = api.enter().expect("the device");
    case.step("launching into a held stream");
    // SAFETY: the stream is alive.
    unsafe { command.launch_into(api, stream) }.expect("a launch of the user's");
    let before = counter.get();
    case.check(before < 20, "all have run before the hold");
    case.step("dropping a held queue");
    let begin = Instant::now();
    drop(queue);
    case.within("the drop", begin.elapsed(), Duration::ZERO);
    counts(case, &counter, 21, 3 + 21 - before, begin);
    // The queue's own end is seen by the reaper.
    thread::sleep(millis(20));
    let begin = Instant::now();
    // SAFETY: made above, and the queue is gone.
    let destroyed = unsafe { api.destroy_stream(stream) };
    case.check(destroyed.is_ok(), format_args!("the end of the stream: {destroyed:?}"));
    case.within("the end of the stream", begin.elapsed(), Duration::ZERO);
}

/// A hold is ended with what was not launched dropped: that fails, and what was launched runs.
fn dropped_commands(case: &Case) {
    let scene = Scene::open(case);
    let (queue, counter) = (scene.victim(), scene.counter());
    scene.feed(&queue, 5);
    let command = scene.count(COMMAND_US, &counter);
    let tickets: Vec<Ticket> =
        (0..40).map(|_| queue.submit(command.clone()).expect("a command")).collect();
    queue.suspend(Level::Deactivate);
    if let Err(error) = held(&queue, millis(1_000)) {
        return case.fail(error);
    }
    let launched = queue.stats().launched - 5;
    case.step("dropping commands of a held queue");
    let begin = Instant::now();
    queue.resume_and_drop();
    let ended: Vec<_> = tickets.iter().map(|&t| queue.wait_timeout(t, HANGS)).collect();
    let each = micros(COMMAND_US) + NOTE;
    case.within("until all have ended", begin.elapsed(), each * 16 + NAP);
    let ran = ended.iter().filter(|result| result.is_ok()).count() as u64;
    let cancelled = Err(WaitError::Failed(Fault::Cancelled));
    let dropped = ended.iter().filter(|&result| *result == cancelled).count() as u64;
    case.check(ran == launched, format_args!("{launched} were launched, and {ran} ran"));
    case.check(ran + dropped == 40, format_args!("{ran} ran and {dropped} were dropped, of 40"));
    case.check(counter.get() == ran, format_args!("{} counted, of {ran}", counter.get()));
}
