//! What people and programs read.

use std::fmt::Write;

use serde::Serialize;

use super::judge::{P99_SAMPLES, Quantiles, Row};
use super::threads::BusyThread;
use crate::machine::Machine;
use crate::table::{number, table};

/// Everything that came out, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Document {
    /// What was preempted.
    pub(super) device: &'static str,
    /// Where.
    pub(super) machine: Machine,
    /// Commands in flight.
    pub(super) threshold: u32,
    /// Device time of a command in microseconds, as measured.
    pub(super) command_us: f64,
    /// Where the moments of the holds follow from.
    pub(super) seed: u64,
    /// How long it took.
    pub(super) seconds: f64,
    /// Threads that were busy most of the time.
    pub(super) busy: Vec<BusyThread>,
    /// Whether they left a processor free.
    pub(super) enough_cores: bool,
    /// One for each level.
    pub(super) rows: Vec<Row>,
}

impl Document {
    /// Whether anything is not as it should be.
    pub(super) fn missed(&self) -> bool {
        !self.enough_cores || self.rows.iter().any(|row| row.goal.reached == Some(false))
    }
}

/// Everything below the progress bar.
pub(super) fn report(document: &Document) -> String {
    let Document { device, machine, threshold, command_us, seed, seconds, .. } = document;
    let mut text = format!(
        "device: {device}\nmachine: {machine}\nvictim: commands of {command_us:.0} µs, {threshold} \
         in flight; held at random moments, seed {seed}; {seconds:.1} s taken\n{}\n\n",
        busy_line(document)
    );
    let header = [
        "<level",
        "samples",
        "quiet min",
        "P50",
        "P90",
        "P99",
        "max",
        "detect P50",
        "P99",
        "restart P50",
        "P99",
        "<goal for quiet",
        "<verdict",
    ];
    let title = "times in µs: until the victim is quiet, until the runtime knows, until it goes on";
    text += &table(title, &header, document.rows.iter().map(row));
    for row in document.rows.iter().filter(|row| row.ran_on > 0) {
        let Row { level, ran_on, samples, .. } = row;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "FAIL Lv{level}: ran on after {ran_on} of {samples} holds");
    }
    text += &machine.warning();
    if document.rows.iter().any(|row| row.goal.reached.is_none()) {
        let _ = writeln!(text, "a P99 and a verdict need {P99_SAMPLES} samples");
    }
    text
}

fn busy_line(document: &Document) -> String {
    let threads = document.busy.iter();
    let threads: Vec<_> =
        threads.map(|thread| format!("{} {:.0}%", thread.name, thread.share * 100.0)).collect();
    let names = if threads.is_empty() { "none".to_owned() } else { threads.join(", ") };
    let most = document.machine.cores.saturating_sub(1);
    let verdict = if document.enough_cores { "PASS" } else { "FAIL" };
    format!("{verdict} busy threads: {} ({names}), at most {most}", document.busy.len())
}

fn row(row: &Row) -> Vec<String> {
    let mut cells = vec![format!("Lv{}", row.level), row.samples.to_string()];
    let Quantiles { min, p50, p90, p99, max } = row.quiet_us;
    cells.extend([min, p50, p90, p99, max].map(|us| number(us, 1)));
    for quantiles in [&row.detect_us, &row.restart_us] {
        cells.extend([quantiles.p50, quantiles.p99].map(|us| number(us, 1)));
    }
    let verdict = match row.goal.reached {
        Some(true) => "PASS",
        Some(false) => "FAIL",
        None => "too few samples",
    };
    cells.extend([row.goal.what.clone(), verdict.to_owned()]);
    cells
}

#[cfg(test)]
mod tests {
    use super::super::preempt::Times;
    use super::*;

    fn document(quiet_ns: u64, busy: usize) -> Document {
        let samples = vec![quiet_ns; 1_000];
        let (detect_ns, restart_ns) = (samples.clone(), samples.clone());
        let times = Times { level: 3, quiet_ns: samples, detect_ns, restart_ns };
        Document {
            device: "a device",
            machine: Machine { cores: 2, ..Machine::here() },
            threshold: 8,
            command_us: 500.0,
            seed: 1,
            seconds: 2.0,
            enough_cores: busy < 2,
            busy: vec![BusyThread { name: "queue".into(), share: 0.9 }; busy],
            rows: vec![Row::of(&times, 500_000)],
        }
    }

    #[test]
    fn a_good_run_says_so() {
        let good = document(20_000, 1);
        assert!(!good.missed());
        let text = report(&good);
        assert!(text.contains("PASS busy threads: 1 (queue 90%), at most 1"), "{text}");
        assert!(text.contains("P99 below 200 µs  PASS"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 160), "{text}");
    }

    #[test]
    fn a_missed_goal_and_too_many_threads_are_failures() {
        assert!(document(300_000, 1).missed());
        assert!(report(&document(300_000, 1)).contains("P99 below 200 µs  FAIL"));
        assert!(document(20_000, 2).missed());
        assert!(report(&document(20_000, 2)).contains("FAIL busy threads: 2"));
    }
}
