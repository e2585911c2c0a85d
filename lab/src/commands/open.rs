//! `xsched bench open`, which `bench all` starts to see whether a device can be used.

use clap::Args;

use super::args::SpinHal;
use super::on::on_device;
use crate::console::Ending;
use crate::error::CommandError;

#[derive(Debug, Args)]
pub struct OpenArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device, where there are several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,
}

/// Opens the device and ends.
pub(super) fn execute(args: &OpenArgs) -> Result<Ending, CommandError> {
    let opened = on_device!(args.hal, args.device, |bench| {
        drop(bench);
        Ok(())
    });
    opened.map_err(CommandError::device)?;
    Ok(Ending::Fine)
}
