//! Progress of a role in a simulation, in the form of what is measured.

use xsched_sim::outcome::TaskOutcome;

use crate::rows::document::Progress;
use crate::rows::protocol::Load;
use crate::stats::Quantiles;

/// Simulated requests that a P99 needs.
const P99_SAMPLES: usize = 200;
const NONE_ENDED: &str = "no request ended in the simulation";
const OVERLOADED: &str = "requests come faster than they are served, so that latencies depend on how long it is measured";

/// Progress of a role in a simulation.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// Without latencies if those say nothing.
    pub(super) progress: Progress,
    /// Why latencies say nothing.
    pub(super) doubt: Option<&'static str>,
}

impl Said {
    /// Reads the outcome of a task; the host adds `extra_ns` to each request.
    pub(super) fn of(task: &TaskOutcome, extra_ns: u64, load: &Load) -> Self {
        let latencies: Vec<u64> = task.latencies_ns.iter().map(|ns| ns + extra_ns).collect();
        let seconds = task.measured_ns as f64 / 1e9;
        let ended = task.completed_in_window() as f64;
        let is_open = !matches!(load, Load::Closed { .. } | Load::Endless { .. });
        let arrived = latencies.len() as u64 + task.unfinished;
        let doubt = match () {
            () if latencies.is_empty() => Some(NONE_ENDED),
            () if is_open && task.unfinished >= 10 && task.unfinished * 20 >= arrived => {
                Some(OVERLOADED)
            }
            () => None,
        };
        let latency = match doubt {
            Some(_) => Quantiles::default(),
            None => Quantiles::with_p99_from(P99_SAMPLES, &latencies),
        };
        let rate_per_s = if seconds > 0.0 { ended / seconds } else { 0.0 };
        Self { progress: Progress { latency, rate_per_s, ..Progress::default() }, doubt }
    }
}
