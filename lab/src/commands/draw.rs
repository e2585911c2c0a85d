//! `xsched-lab bench draw`: a picture of a record.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::draw;
use crate::error::CommandError;
use xsched_console::Ending;
use xsched_console::output::{Outputs, Places};

#[derive(Debug, Args)]
pub(crate) struct DrawArgs {
    /// Record that a bench wrote with `--json`.
    pub(crate) record: PathBuf,
    /// Where the picture goes.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: PathBuf,
}

/// `xsched-lab bench draw`: a picture of a record.
pub(super) fn execute(args: &DrawArgs) -> Result<Ending, CommandError> {
    let places = Places { svg: Some(&args.svg), ..Places::default() };
    let outputs = Outputs::prepare(places)?;
    let place = args.record.display().to_string();
    let text = fs::read_to_string(&args.record)
        .map_err(|source| CommandError::Read { place: place.clone(), source })?;
    let svg = draw::picture(&text, &place)?;
    if let Some(output) = &outputs.svg {
        output.write(|out| out.write_all(svg.as_bytes()))?;
    }
    Ok(Ending::Fine)
}
