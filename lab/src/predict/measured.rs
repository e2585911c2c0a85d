//! Measured figures to compare with predictions, from a record that a bench has written.

use serde::Deserialize;
use xsched_sim::run::RunError;
use xsched_sim::scenario::DeviceSpec;

use super::Prediction;
use super::cells::{fixed_priority, partition};
use super::preempt::preempt;
use crate::bench::{partition, preempt, priority};
use crate::error::CommandError;
use crate::record::read;
use crate::stats::Quantiles;

/// The part of a record of `bench fixed-priority` that is predicted.
#[derive(Debug, Deserialize)]
pub(crate) struct FixedPriority {
    plan: priority::Plan,
    alone: Quantiles,
    alone_queue: Quantiles,
    cells: Vec<priority::Cell>,
}

/// The part of a record of `bench partition` that is predicted.
#[derive(Debug, Deserialize)]
pub(crate) struct Partition {
    plan: partition::Plan,
    cells: Vec<partition::Cell>,
}

/// The part of a record of `bench preempt` that is predicted.
#[derive(Debug, Deserialize)]
pub(crate) struct Preempt {
    rows: Vec<preempt::Row>,
}

/// The part of a record that is predicted.
#[derive(Debug)]
pub(crate) enum Measured {
    FixedPriority(FixedPriority),
    Partition(Partition),
    Preempt(Preempt),
}

impl Measured {
    /// Reads the record of a bench, which is at this place.
    pub(crate) fn read(bench: &str, text: &str, place: &str) -> Result<Self, CommandError> {
        Ok(match bench {
            "fixed-priority" => Self::FixedPriority(read(text, place)?),
            "partition" => Self::Partition(read(text, place)?),
            "preempt" => Self::Preempt(read(text, place)?),
            _ => {
                let (place, bench) = (place.to_owned(), bench.to_owned());
                return Err(CommandError::NotPredicted { place, bench });
            }
        })
    }

    /// Predicts it.
    pub(crate) fn predict(&self, device: &DeviceSpec) -> Result<Prediction, RunError> {
        match self {
            Self::FixedPriority(FixedPriority { plan, alone, alone_queue, cells }) => {
                fixed_priority(device, plan, [alone, alone_queue], cells)
            }
            Self::Partition(Partition { plan, cells }) => partition(device, plan, cells),
            Self::Preempt(Preempt { rows }) => preempt(device, rows),
        }
    }
}
