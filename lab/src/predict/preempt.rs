//! How fast a busy queue stops: what `bench preempt` measures, in the simulator.

use xsched::policies::hpf::Hpf;
use xsched_sim::run::RunError;
use xsched_sim::scenario::{Concurrency, DeviceSpec};

use super::cells::simulate;
use super::scenario::{Endless, holder};
use super::{Cell, Pair, Prediction};
use crate::bench::preempt;
use crate::device::task::LaunchPath;
use crate::stats::P99_SAMPLES;
use crate::stats::Quantiles;

/// Predicts the rows of `bench preempt`: how long it is from a hold to the last instruction.
pub(crate) fn preempt(device: &DeviceSpec, rows: &[preempt::Row]) -> Result<Prediction, RunError> {
    // The holder of the real bench uses no device time. The simulated holder runs beside the
    // victim, and does not disturb it.
    let concurrency = Concurrency::ProcessorSharing { contention: 0.0 };
    let alone =
        DeviceSpec { concurrency, wake_ns: [].into(), queue_wake_ns: [].into(), ..device.clone() };
    let mut predicted = Vec::with_capacity(rows.len());
    for row in rows {
        let samples = u32::try_from(row.quiet.samples.max(P99_SAMPLES)).unwrap_or(u32::MAX);
        let victim = victim(row);
        let outcome = simulate(&holder(&alone, victim, samples), Hpf::default())?;
        let quiet = outcome.devices.first().map(|device| Quantiles::of(&device.quiet_latency_ns));
        let quiet = quiet.unwrap_or_default();
        let us = row.command_ns as f64 / 1e3;
        let pair = |(measured, predicted)| Pair::of(measured, predicted);
        predicted.push(Cell {
            name: vec![row.mode.to_string(), format!("{us:.0}"), row.threshold.to_string()],
            pairs: vec![
                Some(Pair::of(row.quiet.p50_us, quiet.p50_us)),
                row.quiet.p99_us.zip(quiet.p99_us).map(pair),
            ],
            counts: true,
        });
    }
    let figures = [("P50", false), ("P99", true)];
    Ok(Prediction::new(device, &["<way", "command", "in flight"], &figures, predicted))
}

fn victim(row: &preempt::Row) -> Endless {
    let threshold = row.threshold;
    let making = row.mode.making(false);
    let way = LaunchPath::Queue { making, priority: 0, threshold, batch: 1 };
    Endless { way, command_ns: row.command_ns, waves: 1, threshold, percent: None }
}
