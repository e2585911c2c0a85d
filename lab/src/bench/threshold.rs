//! Costs of small thresholds (row 7.3.3 of the XSched paper): commands in a row take longer if the
//! device runs out of them before the host has seen one end.

use serde::{Deserialize, Serialize};
use xsched::Runtime;
use xsched::policies::hpf::Hpf;

use crate::bench::overhead::{self, Row};
use crate::device::mode::Mode;
use crate::device::{BenchDevice, Described, LabError};
use crate::pace::Pace;

/// Overhead that counts as little.
pub(crate) const LITTLE: f64 = 0.03;

/// Runs to make, with their sizes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// Device times of commands, in nanoseconds.
    pub(crate) commands_ns: Vec<u64>,
    /// Levels and gates.
    pub(crate) modes: Vec<Mode>,
    /// Commands in flight; a fence for each half of them.
    pub(crate) thresholds: Vec<u32>,
    /// Device time of a row of commands, in nanoseconds.
    pub(crate) row_ns: u64,
    /// Rows for each, taken in turns, of which the median counts.
    pub(crate) rounds: u32,
}

/// One threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Commands in flight.
    pub(crate) threshold: u32,
    /// Commands per fence.
    pub(crate) batch: u32,
    /// Figures, one row for each way, the plain stream first.
    pub(crate) rows: Vec<Row>,
}

/// The smallest threshold that costs little.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Least {
    /// How commands reached the device.
    pub(crate) mode: Mode,
    /// Device time of a command, in nanoseconds.
    pub(crate) command_ns: u64,
    /// From this threshold on the overhead is below [`LITTLE`]; `None` if it is at none.
    pub(crate) threshold: Option<u32>,
}

/// Figures of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Results {
    /// On what.
    pub(crate) device: Described,
    /// Plan that was run.
    pub(crate) plan: Plan,
    /// Each threshold for each length.
    pub(crate) cells: Vec<Cell>,
    /// From where on the overhead is small.
    pub(crate) least: Vec<Least>,
}

/// Runs all combinations. `pace` is told the share that is done.
pub(crate) fn run<B: BenchDevice>(
    bench: &B,
    plan: &Plan,
    pace: &Pace<'_>,
) -> Result<Results, LabError> {
    let runtime = Runtime::new(Hpf::default()).map_err(LabError::new)?;
    let device = runtime.device(bench.device()?).map_err(LabError::new)?;
    let mut modes = vec![Mode::Plain];
    modes.extend(&plan.modes);
    let total = plan.commands_ns.len() * plan.thresholds.len();
    let mut cells = Vec::with_capacity(total);
    for &command_ns in &plan.commands_ns {
        for &threshold in &plan.thresholds {
            let batch = (threshold / 2).max(1);
            let how = overhead::Plan {
                commands_ns: plan.commands_ns.clone(),
                row_ns: plan.row_ns,
                rounds: plan.rounds,
                lone: 0,
                threshold,
                batch,
            };
            let part = (cells.len() + 1) as f64 / total as f64;
            let rows = overhead::row(bench, &device, &how, (&modes, command_ns), (pace, part))?;
            cells.push(Cell { threshold, batch, rows });
            pace.show(part);
        }
    }
    let least = least(plan, &cells);
    Ok(Results { device: bench.describe(), plan: plan.clone(), cells, least })
}

/// From which threshold on each way costs little, for each length.
fn least(plan: &Plan, cells: &[Cell]) -> Vec<Least> {
    let lengths = plan.commands_ns.iter();
    let all = lengths.flat_map(|&ns| plan.modes.iter().map(move |&mode| (ns, mode)));
    let of = |(command_ns, mode): (u64, Mode)| {
        let of_all = cells.iter().flat_map(|cell| {
            let rows = cell.rows.iter();
            let ours = rows.filter(|row| row.command_ns == command_ns && row.mode == mode);
            ours.map(|row| (cell.threshold, row.overhead))
        });
        let mut costs: Vec<(u32, f64)> = of_all.collect();
        costs.sort_by_key(|(threshold, _)| *threshold);
        let small = costs.iter().rev().take_while(|(_, overhead)| *overhead < LITTLE).last();
        Least { mode, command_ns, threshold: small.map(|(threshold, _)| *threshold) }
    };
    all.map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Quantiles;

    #[test]
    fn the_least_threshold_is_that_from_which_on_all_cost_little() {
        let plan = Plan {
            commands_ns: vec![10],
            modes: vec![Mode::Lv1],
            thresholds: vec![4, 1, 2, 8],
            row_ns: 1,
            rounds: 1,
        };
        let cells = |costs: [f64; 4]| -> Vec<Cell> {
            let row = |overhead| Row {
                mode: Mode::Lv1,
                command_ns: 10,
                commands: 1,
                row: Quantiles::default(),
                overhead,
                processors: 0.0,
            };
            let each = plan.thresholds.iter().zip(costs);
            let cell = |(&threshold, cost)| Cell { threshold, batch: 1, rows: vec![row(cost)] };
            each.map(cell).collect()
        };
        let least = |costs| least(&plan, &cells(costs))[0].threshold;
        assert_eq!(least([0.02, 0.5, 0.1, 0.01]), Some(4));
        // A lucky one below does not count.
        assert_eq!(least([0.05, 0.01, 0.1, 0.01]), Some(8));
        assert_eq!(least([0.05; 4]), None);
    }
}
