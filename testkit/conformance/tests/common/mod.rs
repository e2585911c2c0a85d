//! A device in plain threads whose commands look at every tick whether they are to stop. Everything
//! that the suite knows of can be chosen: levels, what becomes of held commands, late answers.
#![allow(dead_code, reason = "each test binary uses a part")]

mod device;

use std::time::Duration;

use xsched_conformance::{Claims, Note, Subject, Work};
use xsched_core::level::{Level, Recovery};

pub(crate) use device::ModelDevice;

/// A defect inside of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Held commands are gone and count as done.
    DropsHeld,
    /// Held commands run last first.
    TurnsHeldRound,
    /// A stopped command keeps its compute unit.
    KeepsTheUnit,
    /// A stopped command begins anew.
    Restarts,
    /// A stopped command does not find what it had computed.
    LosesState,
    /// Commands said to be forgotten run all the same.
    KeepsForgotten,
    /// A panic in the thick of it.
    Panics,
}

/// Model of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    pub(crate) level: Level,
    pub(crate) recovery: Recovery,
    /// Answers steps later.
    pub(crate) later: bool,
    pub(crate) units: u32,
    /// Commands can be stopped.
    pub(crate) stops: bool,
    /// A failure loses the device.
    pub(crate) lost_on_failure: bool,
    pub(crate) queues_max: u32,
    pub(crate) flaw: Flaw,
    pub(crate) unit_ns: u64,
    pub(crate) rounds: u32,
    pub(crate) patience_ms: u64,
    /// Claims that commands can be stopped, whether or not they can.
    pub(crate) claims_to_stop: bool,
    /// The level that is claimed, if not the real one.
    pub(crate) claimed: Option<Level>,
    /// The number of queues that is claimed, if not the real one.
    pub(crate) claimed_queues: Option<u32>,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            level: Level::Interrupt,
            recovery: Recovery::Continue,
            later: false,
            units: 1,
            stops: true,
            lost_on_failure: false,
            queues_max: 8,
            flaw: Flaw::None,
            unit_ns: 100_000,
            rounds: 300,
            patience_ms: 10_000,
            claims_to_stop: false,
            claimed: None,
            claimed_queues: None,
        }
    }
}

/// Command of the model.
#[derive(Clone, Debug)]
pub(crate) enum ModelCommand {
    Empty,
    Timed(u64, Note),
    Failing,
}

impl Subject for Model {
    type Command = ModelCommand;
    type Backend = ModelDevice;

    fn claims(&self) -> Claims {
        Claims {
            units: self.units,
            unit_ns: self.unit_ns,
            stops_commands: self.claims_to_stop || self.stops && self.level == Level::Interrupt,
            queues_max: Some(self.claimed_queues.unwrap_or(self.queues_max)),
            ..Claims::at(self.claimed.unwrap_or(self.level))
        }
    }

    fn device(&self) -> Result<ModelDevice, String> {
        Ok(ModelDevice::new(*self))
    }

    fn config(&self, _: &mut ModelDevice) {}

    fn command(&self, work: Work) -> Option<ModelCommand> {
        Some(match work {
            Work::Empty => ModelCommand::Empty,
            Work::Timed { ns, note } => ModelCommand::Timed(ns, note),
            Work::Failing => ModelCommand::Failing,
        })
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    fn rounds(&self) -> u32 {
        self.rounds
    }
}
