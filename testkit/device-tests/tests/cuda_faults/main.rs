//! Faults on the first CUDA device, if there is one. Each case is a process of its own, since a
//! kernel that fails takes the context with it, and after each another process must find the device
//! in order.
//!
//! Arguments are parts of names of cases; `--list` lists them. `XSCHED_FAULTS_JSON` names a file
//! that gets everything that was measured.
#![allow(unsafe_code, reason = "calls the driver directly, as programs do")]

mod calls;
mod case;
mod cases;
mod filling;
mod losses;
mod scene;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xsched_hal_cuda::{CudaApi, device_count};
use xsched_hal_stream::StreamApi;

use case::{Case, RESULT};

/// Names the case that a process is to run.
const CASE: &str = "XSCHED_FAULTS_CASE";
/// Names the file for the results.
const JSON: &str = "XSCHED_FAULTS_JSON";
/// A case has this long, and its process this long to end afterwards.
const LIMIT: Duration = Duration::from_secs(20);
const END_LIMIT: Duration = Duration::from_secs(5);
/// Says what the device is, or that there is none.
const ABOUT: &str = "about";
/// Name of the check that is run after each case.
const HEALTH: &str = "health";

type Run = Box<dyn FnOnce(&Case)>;

/// A case: what it is called, what it needs in its environment, and what it does.
struct Entry {
    name: String,
    environment: Option<(&'static str, &'static str)>,
    run: Run,
}

impl Entry {
    fn new(name: impl Into<String>, run: impl FnOnce(&Case) + 'static) -> Self {
        Self { name: name.into(), environment: None, run: Box::new(run) }
    }
}

fn entries() -> Vec<Entry> {
    let mut all = vec![Entry::new(HEALTH, cases::health)];
    all.extend(losses::entries());
    all.extend(cases::entries());
    all.extend(filling::entries());
    all.extend(calls::entries());
    all
}

fn main() -> ExitCode {
    if let Ok(name) = std::env::var(CASE) {
        return in_child(&name);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let chosen: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let mut all = entries();
    all.retain(|entry| chosen.is_empty() || chosen.iter().any(|part| entry.name.contains(*part)));
    if arguments.iter().any(|word| word == "--list") {
        all.iter().for_each(|entry| println!("{}: test", entry.name));
        return ExitCode::SUCCESS;
    }
    // Asked in a process of its own: this one must not become one of the device's.
    let about = outcome_of(ABOUT, None);
    if let Some(why) = about.failures.first() {
        println!("skipped: {why}");
        return ExitCode::SUCCESS;
    }
    let device = about.result["notes"][0].clone();
    println!("{}", device.as_str().unwrap_or_default());
    run_all(&all, &device)
}

fn in_child(name: &str) -> ExitCode {
    match name {
        ABOUT => Case::run(|case| match device_count() {
            Ok(0) => case.fail("there is no CUDA device"),
            Ok(_) => {
                let api = CudaApi::open(0).expect("the first device");
                let about = api.about();
                case.note(format_args!("{}, {}", about.device, about.driver));
            }
            Err(error) => case.fail(error),
        }),
        cases::HOLDER => cases::hold_for_ever(),
        _ => match entries().into_iter().find(|entry| entry.name == name) {
            Some(entry) => Case::run(entry.run),
            None => return ExitCode::FAILURE,
        },
    }
    ExitCode::SUCCESS
}

/// A process of this program that runs a case.
fn child(name: &str) -> Command {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.env(CASE, name).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Outcome of a case.
#[derive(Default)]
struct Outcome {
    failures: Vec<String>,
    result: Value,
    took: Duration,
}

impl Outcome {
    fn figures(&self) -> impl Iterator<Item = &Value> {
        self.result["figures"].as_array().into_iter().flatten()
    }
}

/// Lines that a process writes, as they come.
fn lines(child: &mut Child) -> Receiver<String> {
    let (lines, read) = mpsc::channel();
    let out = child.stdout.take().expect("it is piped");
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    read
}

/// Runs a case in a process of its own, which is killed if it takes too long.
fn outcome_of(name: &str, environment: Option<(&str, &str)>) -> Outcome {
    let start = Instant::now();
    let mut outcome = Outcome::default();
    let mut command = child(name);
    command.envs(environment);
    match command.spawn() {
        Ok(mut child) => {
            follow(&mut child, start, &mut outcome);
            // Of a process that has ended nothing is left but its number.
            let _ = child.kill();
            let _ = child.wait();
        }
        Err(error) => outcome.failures.push(format!("no process for it: {error}")),
    }
    outcome.took = start.elapsed();
    outcome
}

fn follow(child: &mut Child, start: Instant, outcome: &mut Outcome) {
    let lines = lines(child);
    let result = loop {
        match lines.recv_timeout(LIMIT.saturating_sub(start.elapsed())) {
            Ok(line) => match line.split_once(RESULT) {
                Some(("", result)) => break result.to_owned(),
                _ => println!("     {line}"),
            },
            Err(RecvTimeoutError::Timeout) => {
                return outcome.failures.push(format!("killed after {} s", LIMIT.as_secs()));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let ended = child.wait().map_or_else(|error| error.to_string(), |s| s.to_string());
                return outcome.failures.push(format!("it ended without a result: {ended}"));
            }
        }
    };
    outcome.result = serde_json::from_str(&result).unwrap_or_default();
    match outcome.result["failures"].as_array() {
        Some(failures) => {
            let texts = failures.iter().filter_map(Value::as_str).map(ToOwned::to_owned);
            outcome.failures.extend(texts);
        }
        None => outcome.failures.push(format!("its result makes no sense: {result}")),
    }
    match ended(child) {
        Some(status) if status.success() => {}
        Some(status) => outcome.failures.push(format!("its process ended badly: {status}")),
        None => {
            let seconds = END_LIMIT.as_secs();
            outcome.failures.push(format!("its process did not end within {seconds} s"));
        }
    }
}

/// Waits for the end of a process.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if start.elapsed() < END_LIMIT => thread::sleep(Duration::from_millis(5)),
            _ => return None,
        }
    }
}

fn run_all(all: &[Entry], device: &Value) -> ExitCode {
    let (mut data, mut failed) = (Vec::new(), 0);
    for entry in all {
        let mut outcome = outcome_of(&entry.name, entry.environment);
        let health = outcome_of(HEALTH, None);
        if let Some(failure) = health.failures.first() {
            outcome.failures.push(format!("afterwards the device is not in order: {failure}"));
        }
        failed += usize::from(!outcome.failures.is_empty());
        print(&entry.name, &outcome);
        data.push(json!({
            "case": entry.name,
            "verdict": if outcome.failures.is_empty() { "pass" } else { "fail" },
            "failures": outcome.failures,
            "figures": outcome.result["figures"],
            "notes": outcome.result["notes"],
            "seconds": outcome.took.as_secs_f64(),
        }));
    }
    println!("{} cases, {failed} failed", all.len());
    if let Ok(path) = std::env::var(JSON) {
        let text = format!("{:#}\n", json!({ "device": device, "cases": data }));
        if let Err(error) = std::fs::write(&path, text) {
            println!("{path} was not written: {error}");
            return ExitCode::FAILURE;
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(name: &str, outcome: &Outcome) {
    let verdict = if outcome.failures.is_empty() { "PASS" } else { "FAIL" };
    let figures: Vec<String> = outcome.figures().map(figure).collect();
    println!("{verdict} {name} ({:.1} s): {}", outcome.took.as_secs_f64(), figures.join(", "));
    let notes = outcome.result["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    notes.for_each(|note| println!("     {note}"));
    outcome.failures.iter().for_each(|failure| println!("     failed: {failure}"));
}

fn figure(figure: &Value) -> String {
    let what = figure["what"].as_str().unwrap_or_default();
    match figure["bound_us"].as_f64() {
        Some(bound) => format!("{what} {} (bound {bound}) µs", figure["us"]),
        None => format!("{what} {} µs", figure["us"]),
    }
}
