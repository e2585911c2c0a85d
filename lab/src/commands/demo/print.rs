//! Output of the demo, for people and for programs.

use std::fmt::Write;
use std::path::Path;

use crate::demo::device::Request;
use crate::demo::judge::{Criterion, Modes, Verdict, latency, ratio};
use crate::demo::quiet::Quiet;
use crate::demo::workload::{Task, name_on_node};
use crate::device::Described;
use crate::device::hal::{Choice, SpinHal};
use crate::error::UNUSABLE;
use crate::stats::FASTER_THAN_ALONE;
use clap::ValueEnum;
use serde::Serialize;
use xsched::RecordStats;
use xsched::node::SocketPath;
use xsched_console::machine::Machine;
use xsched_console::table::{count, number, percent, table};
use xsched_sim::report::{LatencyFigures, RunFigures};

/// Everything that came out, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Document {
    /// Device that ran the kernels.
    pub(super) device: Described,
    /// Where.
    pub(super) machine: Machine,
    /// Kernels of a request.
    pub(super) request: Request,
    /// The policy of the scheduled mode.
    pub(super) policy: &'static str,
    /// The deepest hold, 1 to 3.
    pub(super) level: u8,
    /// Measured on the device.
    pub(super) live: Modes,
    /// Predicted by the simulator, if a description of the device is part of the program.
    pub(super) simulated: Option<Modes>,
    /// How often other programs used the processors meanwhile.
    pub(super) quiet: Quiet,
    /// Set if the scheduler of the node may have held the device for other processes meanwhile.
    pub(super) may_share: bool,
    /// Criteria of the live figures.
    pub(super) criteria: Vec<Criterion>,
}

/// A figure of the latencies of a task.
type Figure = fn(&LatencyFigures) -> Option<f64>;

/// One of the modes.
type Of = fn(&Modes) -> &RunFigures;

/// Why the simulator may be off on the processor, where a policy may cost less than nothing.
const NOTE: &str = "\
note: a device made of threads wakes one at each change from queue to queue, without a policy after
each kernel; the simulator's device changes for free\n\n";

/// Why there is nothing to compare with.
const NOT_SIMULATED: &str = "\
note: no description of this device is part of the program, so nothing was simulated; `xsched-lab bench
calibrate` measures one\n\n";

/// Says which device was chosen, why none that comes before it, and how to choose another.
pub(super) fn chosen<D>(device: &str, choice: &Choice<SpinHal, D>, is_asked_for: bool) -> String {
    let hal = choice.hal.name();
    let others = SpinHal::value_variants().iter().map(|hal| hal.name()).filter(|&name| name != hal);
    let others = others.collect::<Vec<_>>().join(", ");
    let why = match (is_asked_for, choice.passed_over.is_empty()) {
        (true, _) => ", as asked for",
        (_, true) => "",
        (_, false) => ", since no better one works",
    };
    let mut text = format!("device: {device} ({hal}{why}); --hal takes another: {others}\n");
    for (hal, why) in &choice.passed_over {
        // Writing to a string cannot fail.
        let why = why.to_string();
        let _ = writeln!(text, "{}: {}", hal.name(), why.trim_start_matches(UNUSABLE));
    }
    text
}

/// Says whether the scheduler of the node holds the device, which the environment asks it for.
pub(super) fn node(is_connected: bool, device: &Described) -> String {
    let (at, name) = (SocketPath::from_env(), name_on_node(device));
    if is_connected {
        let at = at.found();
        let at = at.display();
        return format!("scheduled with other processes on `{name}` by xschedd at {at}\n");
    }
    format!(
        "no xschedd answers at {at}: this process is scheduled by itself until one does, then as \
         one on `{name}`\n"
    )
}

/// Everything below the progress bar.
pub(super) fn report(document: &Document, tasks: &[Task], svg: Option<&Path>) -> String {
    let Document { device, machine, request, policy, level, live, quiet, criteria, .. } = document;
    let nothing = Modes::default();
    let simulated = document.simulated.as_ref().unwrap_or(&nothing);
    let mut text = format!(
        "machine: {machine}\nrequest: {} kernels of {} µs, in place of the 157 in 4.60 ms of \
         BERT-base on an H200\n",
        request.kernels,
        request.kernel_ns / 1_000
    );
    for task in tasks {
        let pause = match task.think_ns {
            0 => "sends requests without a pause".to_owned(),
            ns => format!(
                "pauses for {} ms ± {} µs after each",
                ns / 1_000_000,
                task.jitter_ns() / 1_000
            ),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "task {}: priority {}, {pause}", task.name, task.priority);
    }
    text += "\nlatency in ms, as measured (and as simulated); ratios to the same task alone\n\n";
    let unscheduled = "unscheduled: each kernel goes straight to its hardware queue (policy fcfs, \
                       which never holds a queue)";
    let scheduled = format!("scheduled: policy {policy}, Lv{level}");
    text += &mode("alone: each task by itself", tasks, &live.alone, &simulated.alone);
    text += &against_alone(unscheduled, tasks, [live, simulated], |m| &m.unscheduled);
    text += &against_alone(&scheduled, tasks, [live, simulated], |m| &m.scheduled);
    text += &throughput(tasks, live, simulated);
    text += match &document.simulated {
        Some(_) if device.hal == "host" => NOTE,
        Some(_) => "",
        None => NOT_SIMULATED,
    };
    for criterion in criteria {
        let _ = writeln!(text, "{}", line(criterion));
    }
    text += &verdict(criteria, *quiet, document.may_share);
    if let Some(svg) = svg {
        let _ = writeln!(text, "latency distributions: {}", svg.display());
    }
    text
}

/// Returns the verdict of all criteria together.
fn verdict(criteria: &[Criterion], quiet: Quiet, may_share: bool) -> String {
    let has = |verdict| criteria.iter().any(|criterion| criterion.verdict == verdict);
    let Quiet { looks, disturbed } = quiet;
    let shares = if may_share { "; xschedd may have held it for other processes" } else { "" };
    let noise = match quiet.is_quiet() {
        true => String::new(),
        false if looks == 0 => "; the system does not say what other programs did".to_owned(),
        false => format!(
            "; other programs used processors at {disturbed} of {looks} looks, a quarter of a \
             second apart"
        ),
    };
    let words = match (has(Verdict::Fail), has(Verdict::Inconclusive)) {
        (true, _) => "failed: the priority did not take effect as it should",
        (_, true) => "inconclusive: run it again on a quiet machine, with 1000 requests or more",
        _ => "passed: the priority took effect",
    };
    format!("\n{words}{shares}{noise}\n")
}

/// Says what was recorded, and what for.
pub(super) fn record(stats: RecordStats, path: &Path) -> String {
    let (bytes, path) = (count(stats.bytes, "byte"), path.display());
    let lost = match stats.lost {
        0 => String::new(),
        n => format!("; {n} more were lost, since the processors were too busy"),
    };
    format!("record of the scheduled part: {path}, {bytes}{lost}; see `xsched replay {path}`\n")
}

/// A measured figure with the simulated one behind it.
fn pair(live: Option<f64>, simulated: Option<f64>, decimals: usize) -> String {
    format!("{} ({})", number(live, decimals), number(simulated, decimals))
}

const FIGURES: [Figure; 3] = [|l| l.mean, |l| l.p50, |l| l.p99];

fn first_cells(task: &Task, place: usize, live: &RunFigures, sim: &RunFigures) -> Vec<String> {
    let requests = live.tasks.get(place).map_or(0, |task| task.completed);
    let mut row = vec![task.name.to_owned(), task.priority.to_string(), requests.to_string()];
    let cell = |figure| pair(latency(live, place, figure), latency(sim, place, figure), 2);
    row.extend(FIGURES.map(cell));
    row
}

fn mode(title: &str, tasks: &[Task], live: &RunFigures, sim: &RunFigures) -> String {
    let header = ["<task", "priority", "requests", "mean", "P50", "P99"];
    let rows = tasks.iter().enumerate().map(|(place, task)| first_cells(task, place, live, sim));
    table(title, &header, rows)
}

fn against_alone(title: &str, tasks: &[Task], [live, sim]: [&Modes; 2], of: Of) -> String {
    let header = [
        "<task",
        "priority",
        "requests",
        "mean",
        "P50",
        "P99",
        "alone P50",
        "alone P99",
        "P50 ratio",
        "P99 ratio",
    ];
    let row = |(place, task)| {
        let mut row = first_cells(task, place, of(live), of(sim));
        let tails: [Figure; 2] = [FIGURES[1], FIGURES[2]];
        let alone = |modes: &Modes, figure| latency(&modes.alone, place, figure);
        row.extend(tails.map(|figure| number(alone(live, figure), 2)));
        let share = |modes, figure| ratio(latency(of(modes), place, figure), alone(modes, figure));
        row.extend(tails.map(|figure| pair(share(live, figure), share(sim, figure), 2)));
        row
    };
    table(title, &header, tasks.iter().enumerate().map(row))
}

/// Requests per second, what the policy costs of them, and how far the tasks are apart.
fn throughput(tasks: &[Task], live: &Modes, sim: &Modes) -> String {
    let mut header = vec!["<mode", "all"];
    header.extend(tasks.iter().map(|task| task.name));
    header.extend(["cost of all", "low/high mean", "low/high P99"]);
    let row = |(name, of): (&str, Of)| {
        let (live_run, sim_run) = (of(live), of(sim));
        let mut row = vec![name.to_owned()];
        row.push(pair(live_run.throughput_rps, sim_run.throughput_rps, 1));
        for place in 0..tasks.len() {
            let rate = |run: &RunFigures| run.tasks.get(place).and_then(|task| task.throughput_rps);
            row.push(pair(rate(live_run), rate(sim_run), 1));
        }
        let cost = |modes| {
            let share = ratio(of(modes).throughput_rps, modes.unscheduled.throughput_rps);
            percent(share.map(|share| 1.0 - share))
        };
        row.push(format!("{} ({})", cost(live), cost(sim)));
        let spread = |run, figure| {
            ratio(latency(run, tasks.len().saturating_sub(1), figure), latency(run, 0, figure))
        };
        for figure in [FIGURES[0], FIGURES[2]] {
            row.push(pair(spread(live_run, figure), spread(sim_run, figure), 2));
        }
        row
    };
    let modes: [(&str, Of); 2] =
        [("unscheduled", |m| &m.unscheduled), ("scheduled", |m| &m.scheduled)];
    table("requests per second, as measured (and as simulated)", &header, modes.map(row))
}

fn line(criterion: &Criterion) -> String {
    let &Criterion { ref what, value, at_least, at_most, verdict, decimals, .. } = criterion;
    let word = match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Inconclusive => "INCONCLUSIVE",
    };
    let mut text = format!("{word} {what}: {}", number(value, decimals));
    for (words, bound) in [("at least", at_least), ("at most", at_most)] {
        if bound.is_some() {
            // Writing to a string cannot fail.
            let _ = write!(text, ", {words} {}", number(bound, decimals));
        }
    }
    if criterion.is_disturbed() {
        // Writing to a string cannot fail.
        let _ = write!(text, "; {FASTER_THAN_ALONE}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::judge::judge;
    use crate::demo::workload::tasks;
    use crate::error::CommandError;
    use xsched_core::level::Level;
    use xsched_sim::outcome::{Outcome, TaskOutcome};

    /// Figures of three tasks with ten requests each, of these latencies in milliseconds.
    fn figures(latencies_ms: [u64; 3]) -> RunFigures {
        let task = |(name, ms): (&str, u64)| TaskOutcome {
            name: name.to_owned(),
            latencies_ns: vec![ms * 1_000_000; 10],
            measured_ns: 1_000_000_000,
            ..TaskOutcome::default()
        };
        let tasks = ["high", "mid", "low"].into_iter().zip(latencies_ms).map(task).collect();
        RunFigures::of(&Outcome { tasks, ..Outcome::default() })
    }

    /// The modes with these latencies of the first task in milliseconds.
    fn modes(alone: u64, unscheduled: u64, scheduled: u64) -> Modes {
        Modes {
            alone: figures([alone, 100, 100]),
            unscheduled: figures([unscheduled, 150, 200]),
            scheduled: figures([scheduled, 170, 400]),
        }
    }

    fn device(hal: &'static str) -> Described {
        let (device, driver, pci) = ("a device".to_owned(), String::new(), String::new());
        Described { hal, device, driver, pci, level: 3, no_gate: None, entries_max: 8 }
    }

    #[test]
    fn the_report_names_every_figure() {
        let (tasks, request) = (tasks(10), Request { kernels: 24, kernel_ns: 192_000 });
        let live = modes(100, 200, 110);
        let document = Document {
            device: device("host"),
            machine: Machine::here(),
            request,
            policy: "hpf",
            level: 3,
            criteria: judge(&live, &tasks, (request, Level::Interrupt), true),
            quiet: Quiet { looks: 180, disturbed: 0 },
            may_share: false,
            live,
            simulated: Some(modes(100, 210, 100)),
        };
        let text = report(&document, &tasks, Some(Path::new("a.svg")));
        for words in [
            "200.00 (210.00)     100.00     100.00  2.00 (2.10)  2.00 (2.10)",
            "PASS high: P50 scheduled / P50 alone: 1.10, at most 1.15",
            "PASS mid: requests scheduled: 10, at least 2",
            "scheduled: policy hpf, Lv3",
            "3.64 (4.00)",
            "distributions: a.svg",
            "a device made of threads",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 140), "{text}");

        let unknown = Document { device: device("cuda"), simulated: None, ..document };
        let text = report(&unknown, &tasks, None);
        for words in ["200.00 (-)", "2.00 (-)", "nothing was simulated"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("made of threads"), "{text}");
    }

    #[test]
    fn the_first_line_says_which_device_and_how_to_take_another() {
        let found = Choice { hal: SpinHal::Cuda, device: (), passed_over: Vec::new() };
        assert_eq!(
            chosen("NVIDIA H200", &found, false),
            "device: NVIDIA H200 (cuda); --hal takes another: host, hip, kfd\n"
        );
        let passed_over = vec![(SpinHal::Cuda, CommandError::device("no driver"))];
        let fallback = Choice { hal: SpinHal::Host, device: (), passed_over };
        assert_eq!(
            chosen("the processor", &fallback, false),
            "device: the processor (host, since no better one works); --hal takes another: cuda, \
             hip, kfd\ncuda: no driver\n"
        );
        let asked = Choice { hal: SpinHal::Host, device: (), passed_over: Vec::new() };
        let text = chosen("the processor", &asked, true);
        assert!(text.starts_with("device: the processor (host, as asked for); "), "{text}");
    }

    #[test]
    fn a_missed_criterion_is_a_line_that_says_so() {
        let criteria = judge(
            &modes(100, 100, 300),
            &tasks(100),
            (Request { kernels: 1, kernel_ns: 1 }, Level::Interrupt),
            true,
        );
        assert_eq!(
            line(&criteria[0]),
            "FAIL high: P50 unscheduled / P50 alone: 1.00, at least 1.60"
        );
        assert!(line(&criteria[4]).starts_with("FAIL high: requests"));
        let quiet = Quiet { looks: 180, disturbed: 0 };
        assert!(verdict(&criteria, quiet, false).starts_with("\nfailed: "));
    }

    #[test]
    fn a_disturbed_run_alone_is_named() {
        let live = modes(200, 400, 108);
        let request = Request { kernels: 24, kernel_ns: 192_000 };
        let criteria = judge(&live, &tasks(10), (request, Level::Interrupt), true);
        assert_eq!(
            line(&criteria[1]),
            "INCONCLUSIVE high: P50 scheduled / P50 alone: 0.54, at most 1.15; faster than alone, \
             so the run alone was disturbed; measure again"
        );
        let text = verdict(&criteria, Quiet { looks: 180, disturbed: 0 }, false);
        assert!(text.starts_with("\ninconclusive: "), "{text}");
    }

    #[test]
    fn a_machine_that_was_not_quiet_is_named() {
        let live = modes(100, 130, 120);
        let request = Request { kernels: 24, kernel_ns: 192_000 };
        let criteria = judge(&live, &tasks(10), (request, Level::Interrupt), false);
        let expected = "INCONCLUSIVE high: P50 scheduled / P50 alone: 1.20, at most 1.15";
        assert_eq!(line(&criteria[1]), expected);
        let text = verdict(&criteria, Quiet { looks: 180, disturbed: 60 }, true);
        assert!(text.starts_with("\ninconclusive: "), "{text}");
        assert!(text.contains("other programs used processors at 60 of 180 looks"), "{text}");
        assert!(text.contains("xschedd may have held it"), "{text}");
    }
}
