//! `xsched lab join`: rows that were measured into several folders, as one report.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::console::Ending;
use crate::console::output::Stream;
use crate::error::CommandError;
use crate::rows::files::{FOLDERS, Folder};
use crate::rows::report;

#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Folders of `xsched lab run` or `all`. Of a row that several have, the last one counts.
    #[arg(value_name = "FROM")]
    from: Vec<PathBuf>,
    /// The folder that gets their rows, beside those that it has, and the report. It is made if it
    /// is not there.
    #[arg(long, value_name = "DIR")]
    report: PathBuf,
}

/// `xsched lab join`.
pub(in crate::commands) fn execute(args: &JoinArgs) -> Result<Ending, CommandError> {
    let folder = Folder::make(&args.report)?;
    for from in &args.from {
        copy(from, &folder.0)?;
    }
    report::write(&folder.0)?;
    Stream::Stdout.print(&format!("report: {}\n", args.report.display()))?;
    Ok(Ending::Fine)
}

/// Copies the documents of one folder into another.
fn copy(from: &Path, to: &Path) -> Result<(), CommandError> {
    for below in FOLDERS {
        let folder = from.join(below);
        // What programs said may have been left where it was measured.
        if below == "raw" && !folder.exists() {
            continue;
        }
        let unread = |source| CommandError::Read { place: folder.display().to_string(), source };
        for entry in fs::read_dir(&folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let (place, copied) = (entry.path(), to.join(below).join(entry.file_name()));
            fs::copy(&place, &copied).map_err(|source| CommandError::Write {
                place: copied.display().to_string(),
                source,
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_several_folders_come_together() {
        let place = tempfile::tempdir().unwrap();
        let (one, two, all) =
            (place.path().join("1"), place.path().join("2"), place.path().join("3"));
        for (folder, id, text) in [(&one, "5.1", "a"), (&one, "5.2", "a"), (&two, "5.2", "b")] {
            let folder = Folder::make(folder).unwrap();
            fs::write(folder.0.join("test_results").join(format!("{id}_x.json")), text).unwrap();
        }
        fs::remove_dir(two.join("raw")).unwrap();
        let args = JoinArgs { from: vec![one, two], report: all.clone() };
        assert_eq!(execute(&args).unwrap(), Ending::Fine);
        let read = |id: &str| fs::read_to_string(all.join(format!("test_results/{id}_x.json")));
        assert_eq!((read("5.1").unwrap(), read("5.2").unwrap()), ("a".to_owned(), "b".to_owned()));
        assert!(all.join("REPORT.md").exists());
        let none = JoinArgs { from: vec![place.path().join("none")], report: all };
        assert!(matches!(execute(&none), Err(CommandError::Read { .. })));
    }
}
