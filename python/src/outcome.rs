//! Pieces of an outcome, of which Python makes dataclasses.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use xsched_sim::outcome::{DeviceOutcome, Outcome, Span, SpanKind, TaskOutcome};
use xsched_sim::report::{Distributions, RunFigures, latency_svg, write_json, write_trace};
use xsched_sim::scenario::Scenario;

/// The outcome of a run.
#[pyclass(frozen, module = "xsched._native")]
pub(crate) struct RawOutcome {
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) outcome: Outcome,
}

/// Samples as the bytes of unsigned 64-bit numbers of this machine.
fn samples<'py>(py: Python<'py>, samples: &[u64]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}

fn task<'py>(py: Python<'py>, task: &TaskOutcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &task.name)?;
    dict.set_item("priority", task.priority)?;
    dict.set_item("latencies_ns", samples(py, &task.latencies_ns))?;
    dict.set_item("deadline_misses", task.deadline_misses)?;
    dict.set_item("failed", task.failed)?;
    dict.set_item("measured_ns", task.measured_ns)?;
    dict.set_item("device_time_ns", task.device_time_ns)?;
    Ok(dict)
}

fn device<'py>(py: Python<'py>, device: &DeviceOutcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &device.name)?;
    dict.set_item("busy_ns", device.busy_ns)?;
    dict.set_item("overhead_ns", device.overhead_ns)?;
    dict.set_item("preemptions", device.preemptions)?;
    dict.set_item("preempt_latency_ns", samples(py, &device.preempt_latency_ns))?;
    dict.set_item("quiet_latency_ns", samples(py, &device.quiet_latency_ns))?;
    dict.set_item("start_latency_ns", samples(py, &device.start_latency_ns))?;
    dict.set_item("switch_ns", device.switch_ns)?;
    dict.set_item("switches", device.switches)?;
    Ok(dict)
}

fn kind(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Command => "command",
        SpanKind::Request => "request",
        SpanKind::Unfinished => "unfinished",
        SpanKind::Hold => "hold",
        SpanKind::Save => "save",
        SpanKind::Restore => "restore",
    }
}

fn text(written: std::io::Result<()>, bytes: Vec<u8>) -> PyResult<String> {
    written?;
    String::from_utf8(bytes).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymethods]
impl RawOutcome {
    /// Everything but tasks, devices, checks and the timeline.
    fn head<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("scenario", &self.outcome.scenario)?;
        dict.set_item("policy", &self.outcome.policy)?;
        dict.set_item("level", self.outcome.level)?;
        dict.set_item("seed", self.outcome.seed)?;
        dict.set_item("duration_ns", self.outcome.duration_ns)?;
        dict.set_item("commands", self.outcome.commands)?;
        dict.set_item("events", self.outcome.events)?;
        Ok(dict)
    }

    fn tasks<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.outcome.tasks.iter().map(|outcome| task(py, outcome)).collect()
    }

    fn devices<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.outcome.devices.iter().map(|outcome| device(py, outcome)).collect()
    }

    /// Per checker: its name, what it looked at, what it found, the first finding.
    fn checks(&self) -> Vec<(&str, u64, u64, Option<&str>)> {
        let checks = self.outcome.checks.iter();
        let row = checks
            .map(|(&name, check)| (name, check.observed, check.violations, check.first.as_deref()));
        row.collect()
    }

    /// The timeline: task, kind, start, end, number.
    fn spans(&self) -> Vec<(u32, &'static str, u64, u64, u64)> {
        let spans = self.outcome.timeline.iter().flat_map(|timeline| &timeline.spans);
        let row = |&Span { task, kind: what, start_ns, end_ns, number }: &Span| {
            (task, kind(what), start_ns, end_ns, number)
        };
        spans.map(row).collect()
    }

    /// Spans that were not kept.
    fn spans_dropped(&self) -> u64 {
        self.outcome.timeline.as_ref().map_or(0, |timeline| timeline.dropped)
    }

    /// The figures as JSON, as `xsched sim run --json` writes them.
    fn to_json(&self) -> PyResult<String> {
        let mut bytes = Vec::new();
        text(write_json(&mut bytes, &RunFigures::of(&self.outcome)), bytes)
    }

    /// The timeline as JSON that Perfetto opens.
    fn trace_json(&self) -> PyResult<String> {
        let mut bytes = Vec::new();
        text(write_trace(&mut bytes, &self.outcome, &self.scenario), bytes)
    }

    /// A picture of the latencies.
    fn latency_svg(&self) -> PyResult<String> {
        let runs = Distributions::of(&self.outcome);
        latency_svg(&runs).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}
