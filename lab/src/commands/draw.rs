//! `xsched bench draw`: a picture of a record.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::console::Ending;
use crate::console::output::{Outputs, Places};
use crate::draw;
use crate::error::CommandError;

#[derive(Debug, Args)]
pub struct DrawArgs {
    /// What a bench wrote with `--json`.
    pub(crate) record: PathBuf,
    /// Where the picture goes.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: PathBuf,
}

/// `xsched bench draw`: a picture of a record.
///
/// # Errors
/// If the record cannot be read or is one of a bench that is not drawn, or the picture cannot be
/// written.
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
