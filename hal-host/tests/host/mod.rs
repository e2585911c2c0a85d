//! The host device as the suite sees it.
#![allow(unsafe_code, reason = "promises that commands are interruptible")]

use xsched_conformance::{Claims, Subject, Work};
use xsched_core::level::Level;
use xsched_hal_host::{HostCommand, HostConfig, HostDevice};

/// The host device.
pub(crate) struct Host {
    pub(crate) compute_units: u32,
    /// Commands that take a time let themselves be stopped.
    pub(crate) interruptible: bool,
}

impl Subject for Host {
    type Command = HostCommand;
    type Backend = HostDevice;

    fn claims(&self) -> Claims {
        Claims {
            units: self.compute_units,
            stops_commands: self.interruptible,
            ..Claims::at(Level::Interrupt)
        }
    }

    fn device(&self) -> Result<HostDevice, String> {
        let config = HostConfig::default().with_compute_units(self.compute_units);
        HostDevice::new(config).map_err(|error| error.to_string())
    }

    fn config(&self, _: &mut HostDevice) {}

    fn command(&self, work: Work) -> Option<HostCommand> {
        Some(match work {
            Work::Empty => HostCommand::function(|_, _| {}, 0, 0),
            Work::Timed { ns, note } => {
                let command = HostCommand::new(move || note.run_for(ns, || false));
                if !self.interruptible {
                    return Some(command);
                }
                // SAFETY: it reads the clock and touches atomics, in memory that it gives up after
                // it has ended. Other threads wait for none of them.
                unsafe { command.interruptible() }
            }
            // Not `panic!`, which would print.
            Work::Failing => HostCommand::new(|| std::panic::resume_unwind(Box::new(()))),
        })
    }
}
