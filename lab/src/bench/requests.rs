//! Requests in the shape of a model's, kernel by kernel and as one graph, from one thread, from
//! several at once, and from several processes: how much of a request's time is the host's and how
//! much the device's.
//!
//! The rows of the test plan that were measured on an MI308X (5.1 and 5.2) have one thread and
//! three, 20 requests each and pauses of 20 ms, but only the whole time of a request. With the time
//! to submit taken apart, and with two threads, one can tell a device that takes kernels in turns
//! from threads that wait for each other. Processes share no lock of the host's, and a graph hardly
//! needs the host: what is left of the time in common is the device's.

mod processes;

use std::fmt;
use std::str::FromStr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched::policies::fcfs::Fcfs;
use xsched::{Device, Runtime};

use crate::bench::graphs::BERT_BASE_FP32;
use crate::device::mode::Mode;
use crate::device::task::{LaunchPath, Runner};
use crate::device::{BenchDevice, Described, LabError};
use crate::pace::Pace;
use crate::stats::{Quantiles, ns_of};

pub(crate) use processes::{Client, Launcher, client};

/// Commands that a queue keeps in flight, and per fence.
const WINDOW: (u32, u32) = (64, 16);
/// Requests before the first that is counted, and for how long there are more than one.
const WARM_UP: u32 = 3;
/// See above.
const WARM_UP_TIME: Duration = Duration::from_millis(500);
/// Why something is left out.
const NO_TIME: &str = "the time for this bench was used up";

/// How a request is launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// Kernel by kernel.
    #[default]
    Kernels,
    /// As one graph.
    Graph,
}

impl Form {
    /// Name of the form in records and on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Graph => "graph",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Form {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let found = [Self::Kernels, Self::Graph].into_iter().find(|form| form.name() == text);
        found.ok_or_else(|| {
            LabError::new(format!("requests have no form `{text}`; there are kernels, graph"))
        })
    }
}

/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// How requests are launched.
    pub(crate) forms: Vec<Form>,
    /// Numbers of threads, each with a stream or a queue of its own.
    pub(crate) threads: Vec<u32>,
    /// Numbers of processes, each with one thread and a stream past XSched.
    pub(crate) processes: Vec<u32>,
    /// Requests of each thread.
    pub(crate) requests: u32,
    /// Between two requests of a thread, in nanoseconds.
    pub(crate) pause_ns: u64,
    /// How kernels reach the device: `plain` or `lv1`.
    pub(crate) modes: Vec<Mode>,
}

/// A request, in nanoseconds from the beginning of its combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The thread or process, from 0.
    pub(crate) thread: u32,
    /// Before the first kernel was launched.
    pub(crate) start_ns: u64,
    /// When the last launch had returned.
    pub(crate) submitted_ns: u64,
    /// When the thread knew that all had run.
    pub(crate) end_ns: u64,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// How kernels reached the device.
    pub(crate) mode: Mode,
    /// How they were launched.
    #[serde(default)]
    pub(crate) form: Form,
    /// How many threads there were.
    pub(crate) threads: u32,
    /// Number of processes with one client each; 0 if all clients were in this process.
    #[serde(default)]
    pub(crate) processes: u32,
    /// Whole requests.
    pub(crate) whole: Quantiles,
    /// The launches of a request.
    pub(crate) submit: Quantiles,
    /// From the last launch to the end.
    pub(crate) rest: Quantiles,
    /// Requests per second of all threads.
    pub(crate) per_second: f64,
    /// Every request.
    pub(crate) series: Vec<Request>,
}

/// Figures of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// Lengths of the kernels of a request, in nanoseconds, in order.
    pub(crate) kernels_ns: Vec<u64>,
    /// Each combination.
    pub(crate) rows: Vec<Row>,
    /// Combinations that cannot be run here, and why.
    pub(crate) left_out: Vec<(String, String)>,
}

/// Runs all combinations. `pace` is told the share that is done. Other processes are started by
/// what `launcher` makes. What the device has no graphs or no processes for is left out, with the
/// reason.
pub(crate) fn run<B: BenchDevice>(
    bench: &B,
    plan: &Plan,
    launcher: Launcher<'_>,
    pace: &Pace<'_>,
) -> Result<Results, LabError>
where
    B::Stream: Send,
{
    let runtime = Runtime::new(Fcfs).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let kernels_ns = BERT_BASE_FP32.lengths();
    let each = plan.modes.len() * plan.threads.len() + plan.processes.len();
    let total = (plan.forms.len() * each).max(1) as f64;
    let (mut rows, mut left_out, mut done) = (Vec::new(), Vec::new(), 0.0);
    for &form in &plan.forms {
        let commands = match commands(bench, form, &kernels_ns) {
            Ok(commands) => commands,
            Err(why) => {
                left_out.push((format!("requests as one {form}"), why.to_string()));
                continue;
            }
        };
        for &mode in &plan.modes {
            for &threads in &plan.threads {
                done += 1.0;
                if pace.is_late(1.0) {
                    left_out.push((format!("{threads} threads, {form}"), NO_TIME.to_owned()));
                    continue;
                }
                let on = Share { until: pace.until(done / total) };
                let series = series(bench, &device, plan, &commands, (mode, threads, on))?;
                rows.push(summary((mode, form), (threads, 0), series));
                pace.show(done / total);
            }
        }
        for &count in &plan.processes {
            done += 1.0;
            if pace.is_late(1.0) {
                left_out.push((format!("{count} processes, {form}"), NO_TIME.to_owned()));
                continue;
            }
            // They do not know of the time.
            let requests = if pace.is_late((done - 1.0) / total) { 1 } else { plan.requests };
            let wanted = Client { form, requests, pause_ns: plan.pause_ns };
            match processes::series(launcher, &wanted, count) {
                Ok(series) => rows.push(summary((Mode::Plain, form), (count, count), series)),
                Err(why) => left_out.push((format!("{count} processes, {form}"), why.to_string())),
            }
            pace.show(done / total);
        }
    }
    Ok(Results { device: bench.describe(), plan: plan.clone(), kernels_ns, rows, left_out })
}

/// The commands of a request.
fn commands<B: BenchDevice>(
    bench: &B,
    form: Form,
    lengths_ns: &[u64],
) -> Result<Vec<B::Command>, LabError> {
    match form {
        Form::Kernels => lengths_ns.iter().map(|&ns| bench.command(ns, 1)).collect(),
        Form::Graph => Ok(vec![bench.graph(lengths_ns)?]),
    }
}

/// Requests that are not counted: one on a slow device.
fn warm_up(mut request: impl FnMut() -> Result<(), LabError>) -> Result<(), LabError> {
    let began = Instant::now();
    for n in 0..WARM_UP {
        if n > 0 && began.elapsed() > WARM_UP_TIME {
            break;
        }
        request()?;
    }
    Ok(())
}

/// A share of the bench's time. Clients on several threads look at it.
#[derive(Clone, Copy, Debug)]
struct Share {
    until: Option<Instant>,
}

impl Share {
    fn is_late(self) -> bool {
        self.until.is_some_and(|until| Instant::now() > until)
    }
}

/// The requests of some threads.
fn series<B: BenchDevice>(
    bench: &B,
    device: &Device<B::Backend>,
    plan: &Plan,
    commands: &[B::Command],
    (mode, threads, on): (Mode, u32, Share),
) -> Result<Vec<Request>, LabError> {
    let (threshold, batch) = WINDOW;
    let way = match mode {
        Mode::Plain => LaunchPath::Plain { urgent: false },
        _ => LaunchPath::Queue { making: mode.making(false), priority: 0, threshold, batch },
    };
    let runners: Result<Vec<Runner<B>>, LabError> =
        (0..threads).map(|_| Runner::new(bench, device, way)).collect();
    let (barrier, origin) = (Barrier::new(threads as usize), Instant::now());
    let client = |(thread, mut runner): (u32, Runner<B>)| {
        barrier.wait();
        let mut series = Vec::new();
        warm_up(|| request(&mut runner, commands, (thread, origin)).map(drop))?;
        while series.len() < plan.requests as usize && (series.is_empty() || !on.is_late()) {
            series.push(request(&mut runner, commands, (thread, origin))?);
            thread::sleep(Duration::from_nanos(plan.pause_ns));
        }
        Ok(series)
    };
    let client = &client;
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .zip(runners?)
            .map(|client_of| scope.spawn(move || client(client_of)))
            .collect();
        let mut all = Vec::new();
        for thread in started {
            let ended: Result<Vec<Request>, LabError> =
                thread.join().map_err(|_| LabError::new("a client panicked"))?;
            all.extend(ended?);
        }
        Ok::<_, LabError>(all)
    })
}

/// All kernels of a request, and a wait for the last.
fn request<B: BenchDevice>(
    runner: &mut Runner<B>,
    commands: &[B::Command],
    (thread, origin): (u32, Instant),
) -> Result<Request, LabError> {
    let now_ns = || ns_of(origin.elapsed());
    let start_ns = now_ns();
    let mut last = None;
    for command in commands {
        last = runner.launch(command)?;
    }
    let submitted_ns = now_ns();
    runner.wait(last)?;
    Ok(Request { thread, start_ns, submitted_ns, end_ns: now_ns() })
}

fn summary(
    (mode, form): (Mode, Form),
    (threads, processes): (u32, u32),
    series: Vec<Request>,
) -> Row {
    let of =
        |span: fn(&Request) -> u64| Quantiles::of(&series.iter().map(span).collect::<Vec<_>>());
    let first = series.iter().map(|request| request.start_ns).min().unwrap_or(0);
    let last = series.iter().map(|request| request.end_ns).max().unwrap_or(0);
    let seconds = last.saturating_sub(first) as f64 / 1e9;
    let per_second = if seconds > 0.0 { series.len() as f64 / seconds } else { 0.0 };
    Row {
        mode,
        form,
        threads,
        processes,
        whole: of(|request| request.end_ns - request.start_ns),
        submit: of(|request| request.submitted_ns - request.start_ns),
        rest: of(|request| request.end_ns - request.submitted_ns),
        per_second,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::host::Host;

    #[test]
    fn every_request_of_every_thread_is_in_the_series() {
        let plan = Plan {
            forms: vec![Form::Kernels, Form::Graph],
            threads: vec![1, 2],
            processes: vec![3],
            requests: 2,
            pause_ns: 1_000,
            modes: vec![Mode::Plain, Mode::Lv1],
        };
        let none = |_: &Client| Err(std::io::Error::other("there is but one processor"));
        let outcome = run(&Host::open().unwrap(), &plan, &none, &Pace::free()).unwrap();
        let rows: Vec<_> = outcome.rows.iter().map(|row| (row.mode, row.threads)).collect();
        let modes = [Mode::Plain, Mode::Lv1];
        assert_eq!(rows, modes.map(|mode| [(mode, 1), (mode, 2)]).concat());
        let [processes, graphs] = &*outcome.left_out else { panic!("{:?}", outcome.left_out) };
        assert!(processes.0 == "3 processes, kernels" && processes.1.contains("one processor"));
        assert!(graphs.0.contains("graph") && graphs.1.contains("one by one"), "{graphs:?}");
        assert_eq!(outcome.kernels_ns.len(), 157);
        for row in &outcome.rows {
            assert_eq!(row.series.len(), 2 * row.threads as usize);
            let ordered = |r: &Request| r.start_ns <= r.submitted_ns && r.submitted_ns <= r.end_ns;
            assert!(row.series.iter().all(ordered) && row.per_second > 0.0, "{row:?}");
        }
    }
}
