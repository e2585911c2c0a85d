//! The report of the rows that a folder has: `REPORT.md`, `report.html` and `figures.html`, with
//! each figure in a file of its own as well.

mod compare;
mod figures;
mod section;
mod summary;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use xsched_sim::report::charts_svg;

use self::compare::Pair;
use super::document::{Prediction, Row};
use crate::error::CommandError;
use crate::report::{self, Block, Tone};

/// The folder of drawings.
const DRAWINGS: &str = "figures";

/// Documents of a folder.
#[derive(Debug, Default)]
struct Input {
    /// In the order of the plan's chapters.
    rows: Vec<Row>,
    predictions: Vec<Prediction>,
    /// Values that are both predicted and measured.
    pairs: Vec<Pair>,
}

/// Writes the report of what `predictions` and `rows` of the folder have.
pub(crate) fn write(dir: &Path) -> Result<(), CommandError> {
    let input = Input::read(dir)?;
    let figures = drawings(&input.rows)?;
    let mut blocks = summary::blocks(&input);
    blocks.extend(figures.iter().cloned());
    blocks.extend(input.rows.iter().flat_map(|row| section::blocks(row, &input)));
    put(&dir.join("REPORT.md"), report::markdown(&blocks))?;
    let title = summary::title(&input.rows);
    put(&dir.join("report.html"), report::page(&title, &blocks))?;
    put(&dir.join("figures.html"), report::page(&format!("Figures: {title}"), &figures))?;
    let folder = dir.join(DRAWINGS);
    fs::create_dir_all(&folder).map_err(|source| unwritten(&folder, source))?;
    for figure in &figures {
        if let Block::Drawing { file, svg } = figure {
            put(&dir.join(file), svg)?;
        }
    }
    Ok(())
}

/// The figures of the plan, and of those that cannot be drawn the reason.
fn drawings(rows: &[Row]) -> Result<Vec<Block>, CommandError> {
    let mut blocks = vec![Block::Heading(2, "Figures".to_owned())];
    for figure in figures::figures(rows) {
        blocks.push(Block::Heading(3, format!("Figure {}: {}", figure.number, figure.title)));
        for (n, part) in figure.parts.into_iter().enumerate() {
            blocks.push(match part {
                Ok(chart) => Block::Drawing {
                    file: format!("{DRAWINGS}/{}-{}-{}.svg", figure.number, n + 1, chart.name),
                    svg: charts_svg(&[chart])?,
                },
                Err(why) => Block::Text(format!("Not drawn: {why}."), Tone::Faint),
            });
        }
    }
    Ok(blocks)
}

impl Input {
    fn read(dir: &Path) -> Result<Self, CommandError> {
        let mut rows: Vec<Row> = documents(&dir.join("rows"))?;
        rows.sort_by_key(|row| chapters(&row.id));
        let mut predictions: Vec<Prediction> = documents(&dir.join("predictions"))?;
        predictions.sort_by_key(|prediction| chapters(&prediction.id));
        Ok(Self::of(rows, predictions))
    }

    fn of(rows: Vec<Row>, predictions: Vec<Prediction>) -> Self {
        let joined = rows.iter().filter_map(|row| {
            let prediction = predictions.iter().find(|prediction| prediction.id == row.id)?;
            Some(compare::pairs(prediction, row))
        });
        let pairs = joined.flatten().collect();
        Self { rows, predictions, pairs }
    }

    fn prediction(&self, id: &str) -> Option<&Prediction> {
        self.predictions.iter().find(|prediction| prediction.id == id)
    }

    /// The pairs of a row.
    fn pairs_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Pair> {
        self.pairs.iter().filter(move |pair| pair.id == id)
    }
}

/// All documents of a folder. A folder that is not there has none.
fn documents<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>, CommandError> {
    let unread =
        |place: &Path, source| CommandError::Read { place: place.display().to_string(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread(folder, error)),
    };
    let mut places = Vec::new();
    for entry in entries {
        places.push(entry.map_err(|error| unread(folder, error))?.path());
    }
    places.retain(|place| place.extension().is_some_and(|ending| ending == "json"));
    places.sort();
    let read = |place: &PathBuf| {
        let text = fs::read(place).map_err(|error| unread(place, error))?;
        let place = place.display().to_string();
        serde_json::from_slice(&text).map_err(|source| CommandError::Document { place, source })
    };
    places.iter().map(read).collect()
}

/// Returns the key by which rows are ordered: chapters by number, then words.
fn chapters(id: &str) -> (bool, Vec<u32>, String) {
    let numbers: Vec<u32> = id.split('.').filter_map(|part| part.parse().ok()).collect();
    (numbers.is_empty(), numbers, id.to_owned())
}

fn unwritten(place: &Path, source: io::Error) -> CommandError {
    CommandError::Write { place: place.display().to_string(), source }
}

fn put(place: &Path, content: impl AsRef<[u8]>) -> Result<(), CommandError> {
    fs::write(place, content).map_err(|source| unwritten(place, source))
}

#[cfg(test)]
pub(crate) mod samples;

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::super::document::Status;
    use super::samples::{self, cell, figure, fixed_priority, prediction, row, verdict};
    use super::*;

    /// Text that is written for these documents.
    struct Written {
        markdown: String,
        html: String,
        folder: tempfile::TempDir,
    }

    fn written(rows: &[Row], predictions: &[Prediction]) -> Written {
        let folder = tempfile::tempdir().unwrap();
        let keep = |part: &str, id: &str, document: &dyn erased::Json| {
            fs::create_dir_all(folder.path().join(part)).unwrap();
            fs::write(folder.path().join(part).join(format!("{id}.json")), document.json())
                .unwrap();
        };
        rows.iter().for_each(|row| keep("rows", &row.id, row));
        predictions.iter().for_each(|one| keep("predictions", &one.id, one));
        write(folder.path()).unwrap();
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        Written { markdown: text("REPORT.md"), html: text("report.html"), folder }
    }

    mod erased {
        use super::Serialize;

        pub(super) trait Json {
            fn json(&self) -> String;
        }

        impl<T: Serialize> Json for T {
            fn json(&self) -> String {
                serde_json::to_string(self).unwrap()
            }
        }
    }

    #[test]
    fn rows_are_in_the_order_of_chapters() {
        let mut ids = ["llm", "8.1.1", "10.1", "5.4", "5.10"];
        ids.sort_by_key(|id| chapters(id));
        assert_eq!(ids, ["5.4", "5.10", "8.1.1", "10.1", "llm"]);
    }

    #[test]
    fn verdicts_cells_and_errors_are_in_every_form() {
        let (row, predicted) = fixed_priority();
        let report = written(&[row], &[predicted]);
        for text in ["1 of 3 goals missed", "1.07 (1.050 to 1.090)", "MPS does not start"] {
            assert!(report.markdown.contains(text) && report.html.contains(text), "{text}");
        }
        assert!(report.markdown.contains("Over all 2 predicted values"), "{}", report.markdown);
        assert!(report.markdown.contains("the median error is 5.6 %"), "{}", report.markdown);
        assert!(report.markdown.contains("Not counted are 1 values"), "{}", report.markdown);
        assert!(report.markdown.contains("| 2.00 | 1.80 | 11.1 % |"), "{}", report.markdown);
        assert!(report.markdown.contains("no kernels were said"));
        for text in [">missed<", ">11.1 %<", ">xsched<", "7.2.1, eager, processes: latencies of"] {
            assert!(report.html.contains(text), "{text}");
        }
        let drawing = report.folder.path().join("figures/9-1-fixed-priority.svg");
        assert!(fs::read_to_string(drawing).unwrap().starts_with("<svg"));
        assert!(report.markdown.contains("figures/9-1-fixed-priority.svg"));
    }

    #[test]
    fn figures_without_data_say_why() {
        let mut away = row("8.3.2", "Log-normal arrivals", Vec::new(), Vec::new());
        away.status = Status::NotRun("TorchVision is not installed".to_owned());
        let report = written(&[away], &[]);
        for text in [
            "row 7.2.2 is not in this folder",
            "row 8.3.2 was not run: TorchVision is not installed",
            "`xsched-lab bench all` measures them",
        ] {
            assert!(report.markdown.contains(text), "{text}: {}", report.markdown);
            assert!(report.html.contains(text), "{text}");
        }
    }

    #[test]
    fn each_figure_is_drawn_from_its_rows() {
        let harvest = |quantity, values: [f64; 2]| {
            let ways = ["processes, native", "processes, xsched"].into_iter().zip(values);
            ways.map(|(cell, value)| figure(cell, "foreground", quantity, value)).collect()
        };
        let both = |group: &str| vec![cell(group, "native", 9.0), cell(group, "xsched", 5.3)];
        let settings =
            ["bert eager, threshold 1", "bert eager, threshold 8", "bert eager, level 1"];
        let set = |name: &&str| super::super::document::Cell {
            name: (*name).to_owned(),
            ..cell("", "xsched", 5.0)
        };
        let over = |name: &&str| figure(name, "foreground", "over_native", 1.02);
        let rows = [
            row("7.2.1", "Priority", both("eager, processes"), Vec::new()),
            row("7.2.2", "Parts", both("eager, processes"), Vec::new()),
            row(
                "7.3.3",
                "Thresholds",
                settings[..2].iter().map(set).collect(),
                settings.iter().map(over).collect(),
            ),
            row("7.4.1", "Runtime", vec![set(&settings[2])], vec![over(&settings[2])]),
            row(
                "7.4.2",
                "Processor",
                both("bert eager"),
                vec![figure("bert eager, xsched", "all", "cores_over_native_percent", 3.0)],
            ),
            row("8.1.1", "Training", both("processes"), harvest("kept", [0.5, 0.97])),
            row("8.1.2", "Mixed", both("processes"), harvest("mean_over_alone", [1.7, 1.04])),
            row("8.2.1", "Video", both("processes"), harvest("max_ms", [3_500.0, 2_000.0])),
            row("8.3.1", "Server", both("triton"), Vec::new()),
            row(
                "8.3.2",
                "Arrivals",
                [both("100 per s"), both("1000 per s")].concat(),
                ["100 per s, xsched", "1000 per s, xsched"]
                    .map(|cell| figure(cell, "foreground", "p95_ms", 7.0))
                    .into(),
            ),
        ];
        let drawn = |number: &str| {
            let figures = figures::figures(&rows);
            let figure = figures.into_iter().find(|figure| figure.number == number).unwrap();
            let parts = figure.parts.into_iter();
            parts.filter_map(Result::ok).map(|chart| chart.name).collect::<Vec<_>>()
        };
        assert_eq!(drawn("9"), ["fixed-priority", "partition"]);
        assert_eq!(drawn("11"), ["threshold"]);
        assert_eq!(drawn("12"), ["runtime", "processor"]);
        assert_eq!(drawn("13"), ["training", "mixed"]);
        assert_eq!(drawn("14"), ["frames", "longest"]);
        assert_eq!(drawn("15"), ["served", "arrivals"]);
        let report = written(&rows, &[]);
        assert!(report.html.contains("P95, too few for a P99"));
    }

    #[test]
    fn rows_of_several_builds_are_no_single_total() {
        let (one, _) = fixed_priority();
        let mut other = row("8.1.1", "Harvesting", Vec::new(), Vec::new());
        other.verdicts = vec![verdict(Some(true))];
        let first_line = |rows: &[Row]| {
            let text = written(rows, &[]).markdown;
            (text.lines().nth(2).unwrap_or_default().to_owned(), text)
        };
        let (first, text) = first_line(&[one.clone(), other.clone()]);
        assert!(first.contains("2 rows; the plan has 4 goals (2 met, 1 missed, 1 open)"), "{text}");
        for change in [0, 1] {
            let mut other = other.clone();
            match change {
                0 => other.identity.build = "another".to_owned(),
                _ => other.hardware = "another GPU".to_owned(),
            }
            let (first, text) = first_line(&[one.clone(), other]);
            assert!(first.contains("of 2 builds or machines"), "{text}");
            assert!(text.contains("1 rows; the plan has 3 goals (1 met, 1 missed, 1 open)"));
            assert!(text.contains("1 rows; the plan has 1 goals (1 met, 0 missed, 0 open)"));
        }
    }

    #[test]
    fn quick_runs_and_rows_to_come_are_said() {
        let mut quick = row("8.1.1", "Harvesting", vec![cell("p", "native", 6.0)], Vec::new());
        quick.quick = true;
        quick.verdicts = vec![verdict(None)];
        let report = written(&[quick], &[prediction("5.1", Vec::new())]);
        let absent = "Nothing of these rows is in this folder: 4.2.1, 4.2.2, 5.2,";
        for text in ["too few samples for a P99", "not measured yet", "no verdict", absent] {
            assert!(report.markdown.contains(text), "{text}: {}", report.markdown);
        }
    }

    #[test]
    fn the_report_begins_with_a_table_of_all_rows_and_names_stand_ins() {
        let (row, predicted) = fixed_priority();
        let mut away = samples::row("8.1.1", "Harvesting", Vec::new(), Vec::new());
        away.hardware = String::new();
        let report = written(&[row.clone(), away.clone()], &[predicted]);
        let at = |text: &str| {
            let text = text.to_owned();
            report.markdown.find(&text).unwrap_or_else(|| panic!("{text}: {}", report.markdown))
        };
        assert!(at("| row | about | outcome | first goal |") < at("## The machine"));
        assert!(
            at("| 7.2.1 | Fixed Priority Policy | 1 of 3 goals missed |") < at("## The machine")
        );
        assert!(report.markdown.contains("real programs") && !report.markdown.contains("stand-in"));
        assert!(
            report.markdown.contains("on a device that was not reached"),
            "{}",
            report.markdown
        );
        let host = [row, away].map(|row| Row { hal: "host".to_owned(), ..row });
        let report = written(&host, &[]);
        for text in [
            "with stand-ins on the processor",
            "Fixed Priority Policy (stand-in)",
            "| resnet152 (stand-in) |",
            "open: the interval contains the goal",
        ] {
            assert!(report.markdown.contains(text), "{text}: {}", report.markdown);
            assert!(report.html.contains(text.trim_matches(['|', ' '])), "{text}");
        }
        assert!(!report.markdown.contains("real programs"));
    }

    #[test]
    fn an_empty_folder_has_a_report_and_a_wrong_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join("REPORT.md")).unwrap();
        assert!(text.contains("No row has been measured"), "{text}");
        fs::create_dir(folder.path().join("rows")).unwrap();
        fs::write(folder.path().join("rows/5.1.json"), "{}").unwrap();
        let error = write(folder.path()).unwrap_err().to_string();
        assert!(error.contains("rows/5.1.json: not as `xsched-lab` writes it"), "{error}");
    }
}
