//! Arguments of `bench all` and of the benches that only it needs.

use std::path::PathBuf;

use clap::Args;

use super::SpinHal;

#[derive(Debug, Args)]
pub(crate) struct AllArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device, where there are several.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) device: u32,
    /// The folder for records, raw data, report.md and report.html. It is made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: PathBuf,
    /// A look in two minutes, with too few samples for verdicts.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Do only what has no record of a completed run in the folder.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Only these experiments, by the names of their records, with commas between.
    #[arg(long, value_name = "ID,ID", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}
