//! Cases about processes: healthy ones, killed ones, and those whose device has no gates.

use std::io::{BufRead, BufReader, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use xsched::policies::hpf::Hpf;
use xsched_core::level::Level;
use xsched_hal_cuda::CudaApi;

use crate::case::{Case, RESULT, millis, until};
use crate::scene::{COMMAND_US, NAP, Scene, held};
use crate::{Entry, HEALTH, child};

/// A process that holds a queue until it is killed.
pub(crate) const HOLDER: &str = "holder";

pub(crate) fn entries() -> Vec<Entry> {
    let mut one = Entry::new("one-connection", one_connection);
    one.environment = Some(("CUDA_DEVICE_MAX_CONNECTIONS", "1"));
    vec![one, Entry::new("exit-held", exit_held), Entry::new("killed-held", killed)]
}

/// A queue runs a command, and can be held.
pub(crate) fn health(case: &Case) {
    let begin = Instant::now();
    let opened = CudaApi::open(0).expect("the first device");
    case.figure("open", begin.elapsed());
    let scene = Scene::open(case);
    drop(opened);
    case.step("running a command");
    let queue = scene.victim();
    let begin = Instant::now();
    let ticket = queue.submit(scene.empty()).expect("a command");
    queue.wait_timeout(ticket, Duration::from_secs(5)).expect("it ends");
    case.figure("first command", begin.elapsed());
    case.step("holding");
    scene.feed(&queue, 12);
    queue.suspend(Level::Deactivate);
    if let Err(error) = held(&queue, millis(1_000)) {
        case.fail(error);
    }
    queue.resume();
    queue.wait_all_timeout(Duration::from_secs(3)).expect("they end");
}

/// Where all streams share one connection, a gate would hold all of them. That is noticed, and
/// queues do without.
fn one_connection(case: &Case) {
    let scene = Scene::with(case, Hpf::default());
    let why = scene.device.no_gate().map(ToString::to_string).unwrap_or_default();
    case.note(format_args!("no gates: {why}"));
    case.check(why.contains("CUDA_DEVICE_MAX_CONNECTIONS"), "the reason is not given");
    let (winner, victim) = (scene.winner(), scene.victim());
    case.check(victim.caps().level == Level::Block, "a queue has gates all the same");
    case.step("running commands");
    scene.feed(&victim, 200);
    for _ in 0..10 {
        let begin = Instant::now();
        let ticket = winner.submit(scene.spin(COMMAND_US)).expect("a command");
        winner.wait_timeout(ticket, Duration::from_secs(3)).expect("it ends");
        // It waits for what the victim has in flight.
        case.figure("an urgent command", begin.elapsed());
    }
    let ended = victim.wait_all_timeout(Duration::from_secs(3));
    case.check(ended == Ok(()), format_args!("the victim's: {ended:?}"));
}

/// A process that returns from its main function with a queue held.
fn exit_held(case: &Case) {
    let scene = Scene::open(case);
    let queue = scene.victim();
    scene.feed(&queue, 12);
    queue.suspend(Level::Deactivate);
    if let Err(error) = held(&queue, millis(1_000)) {
        case.fail(error);
    }
    std::mem::forget((scene, queue));
}

/// Holds a queue with work behind its gate, says so, and waits to be killed.
pub(crate) fn hold_for_ever() {
    Case::run(|case| {
        let scene = Scene::open(case);
        let queue = scene.victim();
        scene.feed(&queue, 12);
        queue.suspend(Level::Deactivate);
        held(&queue, millis(1_000)).expect("a hold");
        println!("READY");
        let _ = std::io::stdout().flush();
        case.step("waiting to be killed");
        thread::sleep(Duration::from_secs(30));
    });
    std::process::abort();
}

/// Reads what a process that runs [`health`] says: how long the first command took, and how long it
/// took from its start to its result.
fn healthy(case: &Case) -> Option<(Duration, Duration)> {
    let begin = Instant::now();
    let output = child(HEALTH).output().expect("a process");
    let took = begin.elapsed();
    let text = String::from_utf8_lossy(&output.stdout);
    let result: Value = text
        .lines()
        .find_map(|line| line.strip_prefix(RESULT))
        .and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_default();
    if result["failures"].as_array().is_none_or(|failures| !failures.is_empty()) {
        case.fail(format_args!("a process finds the device out of order: {result}"));
        return None;
    }
    let figures = result["figures"].as_array()?;
    let first = figures.iter().find(|figure| figure["what"] == "first command")?;
    Some((Duration::from_secs_f64(first["us"].as_f64()? / 1e6), took))
}

/// A process is killed with gates closed and work behind them. The next works at once.
fn killed(case: &Case) {
    case.step("measuring how long a process takes");
    let (mut usual, mut usual_all) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..3 {
        let Some((first, all)) = healthy(case) else { return };
        (usual, usual_all) = (usual.max(first), usual_all.max(all));
    }
    case.figure("first command of a process", usual);
    case.figure("a process", usual_all);
    case.step("starting the process that is killed");
    let mut holder = child(HOLDER).spawn().expect("a process");
    let out = holder.stdout.take().expect("it is piped");
    let ready = BufReader::new(out).lines().map_while(Result::ok).any(|line| line == "READY");
    case.check(ready, "the process did not get to its hold");
    case.step("killing it");
    let begin = Instant::now();
    // SIGKILL, and not waited for: the next process may start before it is gone.
    holder.kill().expect("it can be killed");
    let next = healthy(case);
    let gone = until(Duration::from_secs(5), || matches!(holder.try_wait(), Ok(Some(_))));
    case.check(gone, "the killed process has not ended");
    case.figure("from the kill to the end of the next process", begin.elapsed());
    if let Some((first, all)) = next {
        case.within("first command of the next process", first, usual + NAP);
        // The driver takes the context of the killed one apart meanwhile.
        case.within("the next process", all, usual_all + millis(500));
    }
}
