//! `xsched sim lv3`.

use std::fs;

use xsched_console::Ending;
use xsched_console::machine::default_threads;
use xsched_console::output::{Output, Stream};
use xsched_paper::lv3::{page, study};
use xsched_sim::report::write_json;

use crate::args::Lv3Args;
use crate::error::CliError;

/// Runs the simulations, writes the files if wanted, and prints the tables.
pub(crate) fn execute(args: &Lv3Args) -> Result<Ending, CliError> {
    let files = match &args.out {
        None => None,
        Some(folder) => {
            let place = folder.display().to_string();
            fs::create_dir_all(folder).map_err(|source| CliError::Write { place, source })?;
            // Before the work, so that a mistake shows early.
            let tables = Output::prepare(&folder.join("lv3.md"))?;
            Some((tables, Output::prepare(&folder.join("lv3.json"))?))
        }
    };
    let study = study(args.requests, default_threads())?;
    let text = page(&study);
    if let Some((tables, figures)) = files {
        tables.write(|out| out.write_all(text.as_bytes()))?;
        figures.write(|out| write_json(out, &study))?;
    }
    Stream::Stdout.print(&text)?;
    Ok(Ending::new(study.violations > 0))
}
