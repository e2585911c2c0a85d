//! `xsched-lab join`: rows that were measured into several folders, as one report.

use std::collections::BTreeMap;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::CommandError;
use crate::rows::document::{Cell, Prediction, Row, Status};
use crate::rows::files::{FOLDERS, Folder};
use crate::rows::identity::{self, Identity};
use crate::rows::judge::verdicts;
use crate::rows::plan::Hal;
use crate::rows::quantities::figures;
use crate::rows::report;
use crate::rows::run::joined;
use crate::rows::table::{self, Definition, Setting};
use xsched_console::Ending;
use xsched_console::output::Stream;

#[derive(Debug, Args)]
pub(crate) struct JoinArgs {
    /// Folders of `xsched-lab run` or `all`. Of a row that several have, the one with the most
    /// measured cells counts, and of equals the last. It gets the groups of cells of which another
    /// one has more, or a later one as many, measured by the same build on the same device. All
    /// rows are judged again, by the goals of this program.
    #[arg(value_name = "FROM")]
    from: Vec<PathBuf>,
    /// The folder that gets their rows, beside those that it has, and the report. It is made if it
    /// is not there.
    #[arg(long, value_name = "DIR")]
    report: PathBuf,
    /// Join rows of several builds or machines as well; the report says so.
    #[arg(long)]
    mixed: bool,
}

/// `xsched-lab join`. Rows are judged again.
pub(in crate::commands) fn execute(args: &JoinArgs) -> Result<Ending, CommandError> {
    let folder = Folder::make(&args.report)?;
    if !args.mixed {
        refuse_several(args)?;
    }
    for from in &args.from {
        copy(from, &folder)?;
    }
    judge_again(&folder)?;
    report::write(&folder.0)?;
    Stream::Stdout.print(&format!("report: {}\n", args.report.display()))?;
    Ok(Ending::Fine)
}

/// Refuses folders with rows of several builds or machines.
fn refuse_several(args: &JoinArgs) -> Result<(), CommandError> {
    let mut wanted: Option<(Identity, String)> = None;
    for place in iter::once(&args.report).chain(&args.from) {
        let folder = Folder(place.clone());
        let ids = table::ids().into_iter();
        for found in identity::all(&ids.filter_map(|id| folder.row(id)).collect::<Vec<_>>()) {
            let wanted = wanted.get_or_insert_with(|| found.clone());
            if *wanted != found {
                return Err(CommandError::Mixed {
                    place: place.display().to_string(),
                    found: found.0.with(&found.1),
                    wanted: wanted.0.with(&wanted.1),
                });
            }
        }
    }
    Ok(())
}

/// Judges all rows by the goals of this program and by what was measured.
fn judge_again(folder: &Folder) -> Result<(), CommandError> {
    for place in files(&folder.0.join("rows"))? {
        let id = place.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Some(mut row) = folder.row(&id) else { continue };
        let Some((of, setting)) = definition(&row) else { continue };
        row.figures = figures(&of.plan, &row.cells);
        row.verdicts = verdicts(&of, &row.cells, setting);
        folder.write_row(&row, &of)?;
    }
    Ok(())
}

/// Returns what is planned for a row, if this program has such a row, and in which setting.
fn definition(row: &Row) -> Option<(Definition, Setting)> {
    let setting = Setting { hal: Hal::named(&row.hal)?, quick: row.quick };
    let of = table::all(setting).into_iter().find(|of| of.plan.id == row.id)?;
    Some((of, setting))
}

/// Copies the documents of the rows of one folder into another, but of those that more is known
/// about there.
fn copy(from: &Path, to: &Folder) -> Result<(), CommandError> {
    let from = Folder(from.to_owned());
    for row in files(&from.0.join("rows"))? {
        let id = row.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let before = to.row(&id).map(|row| (row, to.prediction(&id)));
        if measured(to, &id) > measured(&from, &id) {
            let more = from.row(&id).map(|row| (row, from.prediction(&id)));
            fill(to, more, true)?;
            continue;
        }
        for below in FOLDERS {
            let folder = from.0.join(below);
            // What is not of every row may have been left where it was measured.
            if below != "rows" && !folder.exists() {
                continue;
            }
            for place in files(&folder)?.iter().filter(|place| is_of(place, &id)) {
                let copied = to.0.join(below).join(place.file_name().unwrap_or_default());
                fs::copy(place, &copied).map_err(|source| CommandError::Write {
                    place: copied.display().to_string(),
                    source,
                })?;
            }
        }
        fill(to, before, false)?;
    }
    Ok(())
}

/// Gives a row of the folder the groups of cells of which another row, which may be a later one,
/// has more, with what was predicted there.
fn fill(
    folder: &Folder,
    more: Option<(Row, Option<Prediction>)>,
    is_later: bool,
) -> Result<(), CommandError> {
    let Some((more, predicted)) = more else { return Ok(()) };
    let Some(mut row) = folder.row(&more.id) else { return Ok(()) };
    let kind = |row: &Row| (row.hal.clone(), row.quick, row.hardware.clone(), row.identity.clone());
    let of = definition(&row).filter(|_| kind(&row) == kind(&more));
    let Some((of, _)) = of else { return Ok(()) };
    let (has, others) = (by_group(&of, &row), by_group(&of, &more));
    let is_better = |group: &str, cells: &[&Cell]| {
        let known = has.get(group).map_or(0, Vec::len);
        cells.len() > known || is_later && cells.len() == known
    };
    let better = others.iter().filter(|(group, cells)| is_better(group, cells));
    let new: BTreeMap<String, &Cell> =
        better.flat_map(|(_, cells)| cells).map(|cell| (cell.name.clone(), *cell)).collect();
    if new.is_empty() {
        return Ok(());
    }
    let taken: Vec<_> = new.keys().cloned().collect();
    row.cells =
        row.cells.iter().map(|cell| (*new.get(&cell.name).unwrap_or(&cell)).clone()).collect();
    row.seconds += more.seconds;
    if let Some(more) = predicted {
        let all = match folder.prediction(&row.id) {
            Some(mut before) => {
                before.figures.retain(|figure| !taken.contains(&figure.key.cell));
                joined(before, more)
            }
            None => more,
        };
        folder.write_prediction(&all)?;
    }
    folder.write_row(&row, &of)
}

/// The measured cells of a row, by the groups that are planned.
fn by_group<'a>(of: &'a Definition, row: &'a Row) -> BTreeMap<&'a str, Vec<&'a Cell>> {
    let mut groups: BTreeMap<&str, Vec<&Cell>> = BTreeMap::new();
    for cell in row.cells.iter().filter(|cell| cell.status == Status::Measured) {
        if let Some(planned) = of.plan.cells.iter().find(|planned| planned.name == cell.name) {
            groups.entry(&planned.group).or_default().push(cell);
        }
    }
    groups
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let unread = |source| CommandError::Read { place: folder.display().to_string(), source };
    let entries = fs::read_dir(folder).map_err(unread)?;
    entries.map(|entry| Ok(entry.map_err(unread)?.path())).collect()
}

/// How many cells of a row were measured, if it is there.
fn measured(folder: &Folder, id: &str) -> Option<usize> {
    let row = folder.row(id)?;
    Some(row.cells.iter().filter(|cell| cell.status == Status::Measured).count())
}

/// Returns whether a file is a row's: `ID.json`, `ID_NAME.json` or `ID-CELL.…`.
fn is_of(place: &Path, id: &str) -> bool {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let rest = name.strip_prefix(id);
    rest.is_some_and(|rest| rest == ".json" || rest.starts_with(['_', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::document::Figure;
    use crate::rows::report::samples;

    /// A folder with a row of two cells, of which `done` were measured.
    fn folder(place: &Path, id: &str, done: usize, text: &str) -> PathBuf {
        let folder = Folder::make(place).unwrap();
        let mut row = samples::row(id, "a row", Vec::new(), Vec::new());
        text.clone_into(&mut row.command);
        row.cells = ["native", "xsched"].map(|way| samples::cell("cell", way, 1.0)).into();
        for cell in row.cells.iter_mut().skip(done) {
            cell.status = Status::NotRun("there was no time left".to_owned());
        }
        let text_of = |below: &str, name: String| fs::write(folder.0.join(below).join(name), text);
        fs::write(folder.0.join(format!("rows/{id}.json")), serde_json::to_vec(&row).unwrap())
            .unwrap();
        text_of("test_results", format!("{id}_x.json")).unwrap();
        text_of("raw", format!("{id}-cell.0.jsonl")).unwrap();
        place.to_owned()
    }

    #[test]
    fn of_each_row_what_most_is_known_of_counts_and_of_equals_the_last() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let from = vec![
            folder(&at("1"), "5.1", 2, "a"),
            folder(&at("2"), "5.1", 1, "b"),
            folder(&at("3"), "5.2", 1, "a"),
            folder(&at("3"), "5.21", 2, "c"),
            folder(&at("4"), "5.2", 1, "b"),
            folder(&at("4"), "5.21", 1, "d"),
        ];
        fs::remove_dir_all(at("3").join("raw")).unwrap();
        fs::remove_dir_all(at("1").join("predictions")).unwrap();
        let all = at("all");
        let args = JoinArgs { from, report: all.clone(), mixed: false };
        assert_eq!(execute(&args).unwrap(), Ending::Fine);
        let read = |name: &str| fs::read_to_string(all.join(name)).unwrap();
        let results = |id: &str| read(&format!("test_results/{id}_x.json"));
        assert_eq!(["5.1", "5.2", "5.21"].map(results), ["a", "b", "c"]);
        let row = |id: &str| Folder(all.clone()).row(id).unwrap();
        assert_eq!(["5.1", "5.2"].map(|id| row(id).command), ["a", "b"]);
        assert!(!row("5.1").verdicts.is_empty(), "it is judged again");
        assert!(row("5.21").verdicts.is_empty(), "there is no such row");
        assert_eq!(read("raw/5.1-cell.0.jsonl"), "a");
        assert!(all.join("REPORT.md").exists());
        let none = JoinArgs { from: vec![at("none")], report: all, mixed: false };
        assert!(matches!(execute(&none), Err(CommandError::Read { .. })));
    }

    #[test]
    fn groups_of_cells_that_only_another_folder_has_are_taken_from_it() {
        let place = tempfile::tempdir().unwrap();
        let part = |name: &str, group: &str, hardware: &str| {
            let folder = Folder::make(&place.path().join(name)).unwrap();
            let mut row = samples::row("5.1", "BERT, one task", Vec::new(), Vec::new());
            hardware.clone_into(&mut row.hardware);
            let of = |group: &str| ["native", "xsched"].map(|way| samples::cell(group, way, 1.0));
            row.cells = ["eager", "graph"].map(of).into_iter().flatten().collect();
            for cell in row.cells.iter_mut().filter(|cell| !cell.name.starts_with(group)) {
                cell.status = Status::NotRun("it was left out".to_owned());
            }
            folder.write_row(&row, &definition(&row).unwrap().0).unwrap();
            folder.0
        };
        let eager = part("eager", "eager", "a GPU");
        for (hardware, all) in [("a GPU", 4), ("another GPU", 2)] {
            let graph = part(hardware, "graph", hardware);
            let report = place.path().join(format!("all of {hardware}"));
            let from = vec![eager.clone(), graph];
            let args = JoinArgs { from, report: report.clone(), mixed: all == 2 };
            if all == 2 {
                let refused = execute(&JoinArgs {
                    from: args.from.clone(),
                    report: place.path().join("no"),
                    mixed: false,
                });
                assert!(matches!(&refused, Err(CommandError::Mixed { .. })), "{refused:?}");
            }
            assert_eq!(execute(&args).unwrap(), Ending::Fine);
            let row = Folder(report.clone()).row("5.1").unwrap();
            assert_eq!(measured(&Folder(report), "5.1"), Some(all), "{row:?}");
            let is_eager = |figure: &Figure| figure.key.cell.starts_with("eager");
            assert_eq!(row.figures.iter().any(is_eager), all == 4, "they are of all cells");
        }
    }

    #[test]
    fn of_a_group_that_both_have_whole_the_last_counts() {
        let place = tempfile::tempdir().unwrap();
        let part = |name: &str, groups: &[&str], ms: f64| {
            let folder = Folder::make(&place.path().join(name)).unwrap();
            let mut row = samples::row("5.1", "BERT, one task", Vec::new(), Vec::new());
            let of = |group: &str| ["native", "xsched"].map(|way| samples::cell(group, way, ms));
            row.cells = ["eager", "graph"].map(of).into_iter().flatten().collect();
            for cell in &mut row.cells {
                if !groups.iter().any(|group| cell.name.starts_with(group)) {
                    cell.status = Status::NotRun("it was left out".to_owned());
                }
            }
            folder.write_row(&row, &definition(&row).unwrap().0).unwrap();
            folder.0
        };
        let all = part("all", &["eager", "graph"], 1.0);
        let graph = part("graph", &["graph"], 2.0);
        for (from, graphs_ms) in [([&all, &graph], 2.0), ([&graph, &all], 1.0)] {
            let report = place.path().join(format!("{graphs_ms}"));
            let from = from.map(Clone::clone).into();
            let args = JoinArgs { from, report: report.clone(), mixed: false };
            assert_eq!(execute(&args).unwrap(), Ending::Fine);
            let row = Folder(report).row("5.1").unwrap();
            let of = |cell: &Cell| 1e3 / cell.roles[0].beside.clone().unwrap().rate_per_s;
            let ms: Vec<f64> = row.cells.iter().map(of).collect();
            assert_eq!(ms, [1.0, 1.0, graphs_ms, graphs_ms]);
        }
    }
}
