//! Requests in the shape of a model's, one kernel after the other, from one thread and from several
//! at once: how much of a request's time is the host's and how much the device's.
//!
//! The rows of the test plan that were measured on an MI308X (5.1 and 5.2) have one thread and
//! three, 20 requests each and pauses of 20 ms, but only the whole time of a request. With the time
//! to submit taken apart, and with two threads, one can tell a device that takes kernels in turns
//! from threads that wait for each other.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched::policies::fcfs::Fcfs;
use xsched::{Device, Runtime};

use crate::bench::{Bench, Described, LabError, Plain};
use crate::graphs::BERT_BASE_FP32;
use crate::mode::Mode;
use crate::stats::{Quantiles, ns_of};
use crate::task::{Runner, Way};

/// Commands that a queue keeps in flight, and per marker.
const WINDOW: (u32, u32) = (64, 16);
/// Requests before the first that is counted.
const WARM_UP: u32 = 3;

/// What is run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Numbers of threads, each with a stream or a queue of its own.
    pub threads: Vec<u32>,
    /// Requests of each thread.
    pub requests: u32,
    /// Between two requests of a thread, in nanoseconds.
    pub pause_ns: u64,
    /// How kernels reach the device: `plain` or `lv1`.
    pub modes: Vec<Mode>,
}

/// A request, in nanoseconds from the beginning of its combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The thread, from 0.
    pub thread: u32,
    /// Before the first kernel was launched.
    pub start_ns: u64,
    /// When the last launch had returned.
    pub submitted_ns: u64,
    /// When the thread knew that all had run.
    pub end_ns: u64,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// How kernels reached the device.
    pub mode: Mode,
    /// How many threads there were.
    pub threads: u32,
    /// Whole requests.
    pub whole: Quantiles,
    /// The launches of a request.
    pub submit: Quantiles,
    /// From the last launch to the end.
    pub rest: Quantiles,
    /// Requests per second of all threads.
    pub per_second: f64,
    /// Every request.
    pub series: Vec<Request>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// On what.
    pub device: Described,
    /// What was run.
    pub plan: Plan,
    /// Lengths of the kernels of a request, in nanoseconds, in order.
    pub kernels_ns: Vec<u64>,
    /// Each combination.
    pub rows: Vec<Row>,
}

/// Runs all combinations. `progress` gets the share that is done.
///
/// # Errors
/// If the device or the runtime refuses, or a kernel fails.
pub fn run<B: Bench>(bench: &B, plan: &Plan, progress: &dyn Fn(f64)) -> Result<Outcome, LabError>
where
    B::Stream: Send,
{
    let runtime = Runtime::new(Fcfs).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let kernels_ns = BERT_BASE_FP32.lengths();
    let commands = kernels_ns.iter().map(|&ns| bench.command(ns, 1));
    let commands: Vec<B::Command> = commands.collect::<Result<_, _>>()?;
    let total = plan.modes.len() * plan.threads.len();
    let mut rows = Vec::with_capacity(total);
    for &mode in &plan.modes {
        for &threads in &plan.threads {
            rows.push(row(bench, &device, plan, &commands, (mode, threads))?);
            progress(rows.len() as f64 / total as f64);
        }
    }
    Ok(Outcome { device: bench.describe(), plan: plan.clone(), kernels_ns, rows })
}

fn row<B: Bench>(
    bench: &B,
    device: &Device<B::Backend>,
    plan: &Plan,
    commands: &[B::Command],
    (mode, threads): (Mode, u32),
) -> Result<Row, LabError> {
    let (threshold, batch) = WINDOW;
    let way = match mode {
        Mode::Plain => Way::Plain { urgent: false },
        _ => Way::Queue { making: mode.making(false), priority: 0, threshold, batch },
    };
    let runners: Result<Vec<Runner<B>>, LabError> =
        (0..threads).map(|_| Runner::new(bench, device, way)).collect();
    let (barrier, origin) = (Barrier::new(threads as usize), Instant::now());
    let client = |(thread, mut runner): (u32, Runner<B>)| {
        barrier.wait();
        let mut series = Vec::new();
        for n in 0..WARM_UP + plan.requests {
            let request = request(&mut runner, commands, (thread, origin))?;
            series.extend((n >= WARM_UP).then_some(request));
            thread::sleep(Duration::from_nanos(plan.pause_ns));
        }
        Ok(series)
    };
    let client = &client;
    let series = thread::scope(|scope| {
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
    })?;
    Ok(summary(mode, threads, series))
}

/// All kernels of a request, and a wait for the last.
fn request<B: Bench>(
    runner: &mut Runner<B>,
    commands: &[B::Command],
    (thread, origin): (u32, Instant),
) -> Result<Request, LabError> {
    let now_ns = || ns_of(origin.elapsed());
    let start_ns = now_ns();
    let submitted_ns = match runner {
        Runner::Plain(stream) => {
            commands.iter().try_for_each(|command| stream.launch(command))?;
            let submitted_ns = now_ns();
            stream.wait()?;
            submitted_ns
        }
        Runner::Queue(queue) => {
            let mut last = None;
            for command in commands {
                let ticket = queue.submit(command.clone());
                last = Some(ticket.map_err(|_| LabError::new("the device was lost"))?);
            }
            let submitted_ns = now_ns();
            last.map_or(Ok(()), |last| queue.wait(last)).map_err(LabError::new)?;
            submitted_ns
        }
    };
    Ok(Request { thread, start_ns, submitted_ns, end_ns: now_ns() })
}

fn summary(mode: Mode, threads: u32, series: Vec<Request>) -> Row {
    let of =
        |span: fn(&Request) -> u64| Quantiles::of(&series.iter().map(span).collect::<Vec<_>>());
    let first = series.iter().map(|request| request.start_ns).min().unwrap_or(0);
    let last = series.iter().map(|request| request.end_ns).max().unwrap_or(0);
    let seconds = last.saturating_sub(first) as f64 / 1e9;
    let per_second = if seconds > 0.0 { series.len() as f64 / seconds } else { 0.0 };
    Row {
        mode,
        threads,
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
    use crate::host::Host;

    #[test]
    fn every_request_of_every_thread_is_in_the_series() {
        let plan = Plan {
            threads: vec![1, 2],
            requests: 2,
            pause_ns: 1_000,
            modes: vec![Mode::Plain, Mode::Lv1],
        };
        let outcome = run(&Host::open().unwrap(), &plan, &|_| {}).unwrap();
        let rows: Vec<_> = outcome.rows.iter().map(|row| (row.mode, row.threads)).collect();
        let modes = [Mode::Plain, Mode::Lv1];
        assert_eq!(rows, modes.map(|mode| [(mode, 1), (mode, 2)]).concat());
        assert_eq!(outcome.kernels_ns.len(), 157);
        for row in &outcome.rows {
            assert_eq!(row.series.len(), 2 * row.threads as usize);
            let ordered = |r: &Request| r.start_ns <= r.submitted_ns && r.submitted_ns <= r.end_ns;
            assert!(row.series.iter().all(ordered) && row.per_second > 0.0, "{row:?}");
        }
    }
}
