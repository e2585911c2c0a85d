//! Benches to run, their options, and the experiments of the test plan that they show.

use std::time::Duration;

use serde_json::Value;

use crate::device::LabError;
use crate::device::hal::SpinHal;
use crate::judge::{self, Judged};

/// A bench that is run once, in a process of its own.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The bench, as on the command line.
    pub(super) bench: &'static str,
    /// Options of the bench beside the device and the outputs.
    pub(super) options: Vec<String>,
    /// Set if the bench has a picture.
    pub(super) drawn: bool,
    /// Part of the time, beside that of the others; about seconds on an MI308X if it is quick.
    pub(super) weight: u32,
    /// Longer is a hang, where there is no limit for all of them.
    pub(super) limit: Duration,
    /// Experiments that the bench shows.
    pub(super) parts: &'static [Part],
}

/// An experiment of the test plan.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct Part {
    /// Number in the test plan, or a name.
    pub(in crate::commands) id: &'static str,
    /// Subject of the experiment.
    pub(in crate::commands) name: &'static str,
    /// Result that reaches the goal.
    pub(in crate::commands) goal: &'static str,
    /// From the record of its bench to figures and a verdict.
    pub(in crate::commands) judge: fn(&Value) -> Result<Judged, LabError>,
}

/// The experiments that a bench's records show.
pub(in crate::commands) fn parts(bench: &str) -> &'static [Part] {
    match bench {
        "interrupt" => &INTERRUPT,
        "preempt" => &PREEMPT,
        "fixed-priority" => &PRIORITY,
        "partition" => &PARTITION,
        "threshold" => &THRESHOLD,
        "overhead" => &OVERHEAD,
        "graphs" => &GRAPHS,
        "requests" => &REQUESTS,
        "placement" => &PLACEMENT,
        "calibrate" => &CALIBRATE,
        _ => &[],
    }
}

const INTERRUPT: [Part; 4] = [
    Part {
        id: CANARY,
        name: "first careful interrupts",
        goal: "every step ends well, and the driver writes nothing to the kernel's log",
        judge: judge::canary,
    },
    Part {
        id: "lv3-latency",
        name: "what an interrupt costs, in all combinations",
        goal: "the victim is quiet within 100 µs at the P99, and nothing runs afterwards",
        judge: judge::interrupt_latency,
    },
    Part {
        id: "lv3-results",
        name: "results after 100,000 interrupts",
        goal: "every command ran once and had the right result",
        judge: judge::interrupt_results,
    },
    Part {
        id: "lv3-meanwhile",
        name: "allocations, copies and first launches meanwhile",
        goal: "none",
        judge: judge::interrupt_meanwhile,
    },
];
const PREEMPT: [Part; 3] = [
    Part {
        id: "7.3.1",
        name: "preemption latency per level",
        goal: "commands of 0.5 ms, 8 in flight: Lv1 about 8 commands, Lv2 about one, Lv3 P99 \
               below 100 µs",
        judge: judge::per_level,
    },
    Part {
        id: "7.3.2",
        name: "preemption latency over the length of commands",
        goal: "Lv1 about 8 commands, Lv3 P99 below 100 µs whatever the length",
        judge: judge::per_length,
    },
    Part {
        id: "4.1.1",
        name: "Lv3 against Lv1",
        goal: "P99 below 100 µs, at least 40 times sooner than Lv1, medians within a factor of 2 \
               over all lengths",
        judge: judge::interrupt,
    },
];
const PRIORITY: [Part; 1] = [Part {
    id: "7.2.1",
    name: "fixed priority beside an endless background",
    goal: "at a load of 20 % and by default: P99 below 1.30 times the P99 alone, and the \
           background has at least half of what the task leaves",
    judge: judge::fixed_priority,
}];
const PARTITION: [Part; 1] = [Part {
    id: "7.2.2",
    name: "bandwidth partition 75:25",
    goal: "by default: parts within 5 points of what was wanted, less than 1.5 % lost",
    judge: judge::parts,
}];
const THRESHOLD: [Part; 1] = [Part {
    id: "7.3.3",
    name: "cost of few commands in flight",
    goal: "below 1 % at Lv1 from 10 commands in flight on",
    judge: judge::thresholds,
}];
const OVERHEAD: [Part; 2] = [
    Part {
        id: "7.4.1",
        name: "cost of the runtime in time",
        goal: "rows of commands take less than 3.4 % longer at Lv1",
        judge: judge::in_time,
    },
    Part {
        id: "7.4.2",
        name: "cost of the runtime in processor time",
        goal: "by default, whatever the length of commands: less than 5 % of a core more than a \
               plain stream",
        judge: judge::in_processor,
    },
];
const GRAPHS: [Part; 1] = [Part {
    id: "8.3.1-graphs",
    name: "two BERT-shaped graphs at once",
    goal: "the urgent one's P99 at most 1.10 times that of it alone, with gates inside at the \
           default spacing",
    judge: judge::graphs,
}];
const REQUESTS: [Part; 1] = [Part {
    id: "5.2-kernels",
    name: "BERT-shaped requests, kernel by kernel and as graphs, of threads and processes",
    goal: "none: it shows what of a request is the host's",
    judge: judge::requests,
}];
const PLACEMENT: [Part; 3] = [
    Part {
        id: "lv2-rings",
        name: "what stands still while a stream is held",
        goal: "streams with rings of their own neither stop others nor are stopped by them",
        judge: judge::rings,
    },
    Part {
        id: "lv2-firsts",
        name: "first launches and other calls while a stream is held at its gate",
        goal: "none",
        judge: judge::firsts,
    },
    Part {
        id: "lv2-words",
        name: "how soon a stream sees its gate open, by the place of the gate's word",
        goal: "nothing passes a closed gate, and no stream is stuck",
        judge: judge::words,
    },
];
const PYTORCH: [Part; 1] = [Part {
    id: "4.2.1",
    name: "PyTorch on ROCm: operators forward and backward, BERT, under `xsched run`",
    goal: "the same results as without, bit for bit",
    judge: super::programs::judge,
}];
const CALIBRATE: [Part; 1] = [Part {
    id: "calibrate",
    name: "a description of the device for the simulator",
    goal: "none",
    judge: judge::calibration,
}];

/// The experiment that has to end well before anything else is done at Lv3 on a GPU.
pub(super) const CANARY: &str = "lv3-canary";

/// Experiments of the test plan that this program cannot run: what they are, and why.
pub(super) const ELSEWHERE: [(&str, &str, &str); 7] = [
    ("7.1.1", "portability", "needs an application under the library to preload"),
    ("7.2.3", "heterogeneous", "needs an NPU; reproduced by `xsched sim paper`"),
    ("8.1.1", "harvesting, training", "needs PyTorch; reproduced by `xsched sim paper`"),
    ("8.1.2", "harvesting, mixed", "needs Rodinia; reproduced by `xsched sim paper`"),
    ("8.2.1", "video conferencing", "needs both models; reproduced by `xsched sim paper`"),
    ("8.3.2", "against Paella", "needs Paella; reproduced by `xsched sim paper`"),
    ("4.2.2", "MIOpen and hipBLAS", "needs the libraries and the C interface"),
];

/// The bench that is PyTorch's programs and no bench.
pub(super) const PROGRAMS: &str = "programs";
/// All benches with few samples take no longer, however slow the device is.
pub(super) const QUICK_MAX: Duration = Duration::from_secs(570);

/// Half an hour; interrupts of everything in all ways may take longer.
fn limit(bench: &str) -> Duration {
    Duration::from_secs(if bench == "interrupt" { 10_800 } else { 1_800 })
}

/// Returns the part of the time of a bench, beside that of the others.
fn weight(bench: &str) -> u32 {
    match bench {
        "interrupt" => 9,
        "fixed-priority" | "requests" | "placement" | PROGRAMS => 3,
        _ => 2,
    }
}

/// Returns a bench's part, by weight, of the time that is left for it and those behind it.
pub(super) fn share_of(left: Duration, run: &Run, behind: &[Run]) -> Duration {
    let all: u32 = behind.iter().map(|run| run.weight).sum::<u32>() + run.weight;
    left * run.weight / all.max(1)
}

fn run(
    (bench, drawn): (&'static str, bool),
    parts: &'static [Part],
    (quick, few, many): (bool, &str, &str),
) -> Run {
    let options = if quick { few } else { many };
    let options = options.split_whitespace().map(str::to_owned).collect();
    Run { bench, options, drawn, weight: weight(bench), limit: limit(bench), parts }
}

/// All that is run on a device, in order: what matters most first.
pub(super) fn runs(hal: SpinHal, quick: bool) -> Vec<Run> {
    let of = |few, many| (quick, few, many);
    let lengths = "--threshold 8 --commands-us 10,50,100,200,500,1000,2000";
    let mut runs = vec![
        run(("preempt", true), &PREEMPT, of("--samples 30 --commands-us 500", lengths)),
        run(
            ("fixed-priority", true),
            &PRIORITY,
            of(
                "--samples 10 --background-us 500 --commands 50 --load 20",
                "--commands 50 --load 20",
            ),
        ),
        run(("partition", true), &PARTITION, of("--seconds 1", "")),
        run(
            ("threshold", true),
            &THRESHOLD,
            of("--rounds 1 --commands-us 1000 --threshold 2,10", ""),
        ),
        run(("overhead", true), &OVERHEAD, of("--rounds 1 --commands-us 1000", "")),
        run(("requests", false), &REQUESTS, of("--requests 3 --pause-ms 1", "")),
        run(("calibrate", false), &CALIBRATE, of("--samples 20 --rounds 2", "")),
    ];
    if matches!(hal, SpinHal::Host | SpinHal::Kfd) {
        let few = "--trials 3 --interrupts 300 --calls 2 --queues 1,4 --command-us 500 \
                   --processes 0";
        let here = if hal == SpinHal::Host { "--processes 0" } else { "" };
        runs.insert(0, run(("interrupt", true), &INTERRUPT, of(few, here)));
    }
    if matches!(hal, SpinHal::Hip | SpinHal::Kfd) {
        runs.push(run(("placement", false), &PLACEMENT, of("--trials 20 --calls 2", "")));
        runs.push(run((PROGRAMS, false), &PYTORCH, of("", "")));
    }
    if hal == SpinHal::Cuda {
        runs.push(run(("graphs", true), &GRAPHS, of("--samples 30 --requests 30", "")));
    }
    runs
}

/// The names of all records.
pub(super) fn ids() -> Vec<&'static str> {
    let runs = [runs(SpinHal::Kfd, true), runs(SpinHal::Cuda, true)];
    let parts = runs.iter().flatten().flat_map(|run| run.parts).map(|part| part.id);
    let mut ids = Vec::new();
    for id in parts.chain(ELSEWHERE.map(|(id, ..)| id)) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_has_its_own_name() {
        for hal in [SpinHal::Host, SpinHal::Cuda, SpinHal::Hip, SpinHal::Kfd] {
            let runs = runs(hal, false);
            let parts = runs.iter().flat_map(|run| run.parts).map(|part| part.id);
            let mut names: Vec<_> = parts.chain(ELSEWHERE.map(|(id, ..)| id)).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
            assert!(names.iter().all(|id| ids().contains(id) && !id.contains(['/', ' '])));
        }
    }

    #[test]
    fn on_a_gpu_the_careful_steps_come_first() {
        assert_eq!(runs(SpinHal::Kfd, true)[0].parts[0].id, CANARY);
    }

    #[test]
    fn what_one_bench_leaves_of_its_time_is_for_those_behind_it() {
        let runs = runs(SpinHal::Kfd, true);
        let mut left = QUICK_MAX;
        for (number, run) in runs.iter().enumerate() {
            let share = share_of(left, run, &runs[number + 1..]);
            assert!(share >= Duration::from_secs(20), "{}: {share:?}", run.bench);
            left -= share;
        }
        assert!(left < Duration::from_secs(1), "each took all of its share: {left:?}");
        let last = runs.last().unwrap();
        assert_eq!(share_of(QUICK_MAX, last, &[]), QUICK_MAX);
    }

    #[test]
    fn graphs_are_for_cuda_alone() {
        let has = |hal| runs(hal, false).iter().any(|run| run.bench == "graphs");
        assert!(has(SpinHal::Cuda) && !has(SpinHal::Host) && !has(SpinHal::Hip));
    }
}
