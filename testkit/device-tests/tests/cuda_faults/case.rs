//! Findings of a case, and their way to the process that started it.

use std::fmt::Display;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A line of a case that begins with this is its result.
pub(crate) const RESULT: &str = "RESULT ";
/// Lateness that counts as in time.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(1);
/// After this long a case tells what it knows and where it hangs, and somewhat later it ends.
const PATIENCE: Duration = Duration::from_secs(12);
const MERCY: Duration = Duration::from_secs(3);

/// A case in its own process.
#[derive(Clone)]
pub(crate) struct Case(Arc<Mutex<Found>>);

#[derive(Default)]
struct Found {
    step: String,
    figures: Vec<Value>,
    notes: Vec<String>,
    failures: Vec<String>,
    told: bool,
}

impl Case {
    fn found<T>(&self, change: impl FnOnce(&mut Found) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes what the case is about to do, in case it hangs.
    pub(crate) fn step(&self, what: &str) {
        self.found(|found| what.clone_into(&mut found.step));
    }

    pub(crate) fn note(&self, what: impl Display) {
        self.found(|found| found.notes.push(what.to_string()));
    }

    pub(crate) fn fail(&self, what: impl Display) {
        self.found(|found| found.failures.push(what.to_string()));
    }

    pub(crate) fn check(&self, holds: bool, what: impl Display) {
        if !holds {
            self.fail(what);
        }
    }

    /// A time that nothing is said about.
    pub(crate) fn figure(&self, what: &str, took: Duration) {
        self.found(|found| found.figures.push(json!({ "what": what, "us": us(took) })));
    }

    /// A time that has a bound: it fails if it is over that by more than [`TOLERANCE`].
    pub(crate) fn within(&self, what: &str, took: Duration, bound: Duration) {
        let figure = json!({ "what": what, "us": us(took), "bound_us": us(bound) });
        self.found(|found| found.figures.push(figure));
        let (took_us, bound_us) = (us(took), us(bound));
        self.check(
            took <= bound + TOLERANCE,
            format_args!("{what}: {took_us} µs, more than 1 ms over its bound of {bound_us} µs"),
        );
    }

    /// Tells the result, once.
    fn tell(&self) {
        let line = self.found(|found| {
            let line = json!({
                "failures": found.failures, "figures": found.figures, "notes": found.notes,
            });
            (!std::mem::replace(&mut found.told, true)).then_some(line)
        });
        if let Some(line) = line {
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "{RESULT}{line}");
            let _ = out.flush();
        }
    }

    /// Runs a case in this process and tells what comes of it.
    pub(crate) fn run(run: impl FnOnce(&Self)) {
        let case = Self(Arc::default());
        let watched = case.clone();
        thread::spawn(move || {
            thread::sleep(PATIENCE);
            let step = watched.found(|found| found.step.clone());
            watched.fail(format_args!("it hangs while {step}"));
            watched.tell();
            thread::sleep(MERCY);
            std::process::abort();
        });
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(&case))) {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            let step = case.found(|found| found.step.clone());
            case.fail(format_args!("{} (while {step})", text.unwrap_or_default()));
        }
        case.tell();
    }
}

/// Microseconds, to a tenth.
pub(crate) fn us(time: Duration) -> f64 {
    (time.as_nanos() as f64 / 100.0).round() / 10.0
}

/// Waits until something holds. False if it did not within `patience`.
pub(crate) fn until(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > patience {
            return false;
        }
        thread::sleep(Duration::from_micros(20));
    }
    true
}

pub(crate) const fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}
