//! Device that rows are run on.

use crate::commands::open;
use crate::device::hal::first_that_works;
use crate::error::CommandError;
use crate::rows::plan::Hal;
use xsched_console::note;

/// Devices in the order in which they are tried where none was asked for.
const ORDER: [Hal; 3] = [Hal::Cuda, Hal::Hip, Hal::Host];

/// The device that was asked for, or else the first that works.
pub(super) fn choose(asked: Option<Hal>) -> Result<Hal, CommandError> {
    let choice = first_that_works(asked, &ORDER, |hal| open::in_a_process(hal.name(), 0, &[]))?;
    for (hal, why) in &choice.passed_over {
        note(|| format!("{}: {why}", hal.name()));
    }
    Ok(choice.hal)
}
