//! State of the driver, for probes and metrics.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use xsched_node::SocketPath;

/// Time that the daemon has to accept a connection.
const PATIENCE: Duration = Duration::from_secs(1);
/// Limits of the classes of the histogram, in seconds.
const BOUNDS_S: [f64; 8] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0];

type Labels = [(&'static str, &'static str); 1];

/// State of the driver.
#[derive(Debug)]
pub struct State {
    /// Number of registrations that the kubelet has made.
    pub registrations: AtomicUsize,
    /// True while the GPUs are known to the scheduler of Kubernetes.
    pub published: AtomicBool,
    needed: usize,
    daemon: PathBuf,
    registry: Registry,
    prepared: Family<Labels, Counter>,
    unprepared: Family<Labels, Counter>,
    prepare_time: Histogram,
    claims: Gauge,
}

impl State {
    /// State of a driver that needs this number of registrations, beside the daemon with this
    /// socket.
    #[must_use]
    pub fn new(needed: usize, daemon: PathBuf) -> Self {
        let mut registry = Registry::with_prefix("xsched_kubernetes");
        let (prepared, unprepared) = (Family::default(), Family::default());
        let (prepare_time, claims) = (Histogram::new(BOUNDS_S), Gauge::default());
        registry.register("prepared", "Claims that were prepared, or not", prepared.clone());
        registry.register("unprepared", "Claims that were unprepared, or not", unprepared.clone());
        registry.register("claims", "Claims with a container device", claims.clone());
        registry.register_with_unit(
            "prepare_time",
            "Time to prepare a claim",
            Unit::Seconds,
            prepare_time.clone(),
        );
        Self {
            registrations: AtomicUsize::new(0),
            published: AtomicBool::new(false),
            needed,
            daemon,
            registry,
            prepared,
            unprepared,
            prepare_time,
            claims,
        }
    }

    /// Counts a claim that was prepared, or was not.
    pub fn count_prepared(&self, is_done: bool, took: Duration) {
        self.prepared.get_or_create(&labels(is_done)).inc();
        self.prepare_time.observe(took.as_secs_f64());
    }

    /// Counts a claim that was unprepared, or was not.
    pub fn count_unprepared(&self, is_done: bool) {
        self.unprepared.get_or_create(&labels(is_done)).inc();
    }

    /// Metrics in the OpenMetrics text format, where this number of claims has a container device.
    #[must_use]
    pub fn metrics(&self, claims: usize) -> String {
        self.claims.set(i64::try_from(claims).unwrap_or(i64::MAX));
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Everything that is missing for pods to be scheduled, a line each. Waits for the daemon.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.registrations.load(Ordering::Relaxed) < self.needed {
            lines.push("the kubelet has not registered this driver".to_owned());
        }
        if !self.published.load(Ordering::Relaxed) {
            lines.push("the GPUs of this node are not published".to_owned());
        }
        if let Err(error) = SocketPath::from(self.daemon.as_path()).connect(PATIENCE) {
            lines.push(format!("xschedd at {}: {error}", self.daemon.display()));
        }
        lines
    }
}

const fn labels(is_done: bool) -> Labels {
    [("result", if is_done { "done" } else { "error" })]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_of_the_daemon_is_named_once() {
        let state = State::new(0, "/nowhere/socket".into());
        state.published.store(true, Ordering::Relaxed);
        let lines = state.missing();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0].matches("socket").count(), 1, "{lines:?}");
    }
}
