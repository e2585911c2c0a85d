//! `xsched sim paper`.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use xsched_console::Ending;
use xsched_console::machine::default_threads;
use xsched_console::output::{Output, Stream};
use xsched_console::progress::Progress;
use xsched_console::table::{grouped, table};
use xsched_paper::{PaperOptions, Record, Study, Summary, Verdict, page, run_paper};
use xsched_sim::report::write_json;

use crate::args::PaperArgs;
use crate::error::CliError;

/// Runs the experiments, writes records, figures and the page, and prints the verdicts.
pub(crate) fn execute(args: &PaperArgs) -> Result<Ending, CliError> {
    let folder = &args.out;
    fs::create_dir_all(folder).map_err(|source| cannot_write(folder, source))?;
    let page_path = folder.join("index.html");
    // Before the work, so that a mistake shows early.
    let page_output = Output::prepare(&page_path)?;
    let options = PaperOptions {
        only: args.only.clone(),
        small: args.small,
        threads: default_threads(),
        date: today(),
    };
    let progress = Progress::start();
    let result = run_paper(&options, &|part| progress.set(part));
    let wall = progress.finish();
    let studies = result?;
    for study in &studies {
        write_study(folder, study)?;
    }
    let summary_output = Output::prepare(&folder.join("summary.json"))?;
    summary_output.write(|out| write_json(out, &Summary::of(&studies)))?;
    page_output.write(|out| out.write_all(page(&studies).as_bytes()))?;
    let mut text: String = studies.iter().map(study_table).collect();
    text.push_str(&summary(&studies));
    text.push_str(&format!("{:.1} s; wrote {}\n", wall.as_secs_f64(), page_path.display()));
    Stream::Stdout.print(&text)?;
    Ok(Ending::new(studies.iter().any(Study::failed)))
}

fn cannot_write(place: &Path, source: std::io::Error) -> CliError {
    CliError::Write { place: place.display().to_string(), source }
}

/// Today, as `2026-11-21`.
fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

fn write_study(folder: &Path, study: &Study) -> Result<(), CliError> {
    let record = Output::prepare(&folder.join(format!("{}.json", study.id)))?;
    record.write(|out| write_json(out, &Record::of(study)))?;
    for (name, svg) in &study.figures {
        Output::prepare(&folder.join(name))?.write(|out| out.write_all(svg.as_bytes()))?;
    }
    Ok(())
}

fn study_table(study: &Study) -> String {
    let header = [
        "<value",
        "<paper",
        "<artifact",
        "simulated",
        "<off by",
        "<goal",
        "<verdict",
        "<parameters",
    ];
    let rows = study.rows.iter().map(|row| {
        vec![
            row.what.clone(),
            row.paper.to_owned(),
            row.artifact.to_owned(),
            row.shown(),
            row.distance().map(|distance| distance.to_string()).unwrap_or_default(),
            row.goal.map(|goal| goal.to_string()).unwrap_or_default(),
            row.judgement(),
            row.label().to_string(),
        ]
    });
    table(&format!("{} {}", study.id, study.name), &header, rows)
}

fn summary(studies: &[Study]) -> String {
    let count = |verdict| {
        let rows = studies.iter().flat_map(|study| &study.rows);
        rows.filter(|row| row.verdict() == verdict).count()
    };
    format!(
        "{} pass, {} fail, {} out of reach, {} undecided, {} deviate without a goal, {} without \
         a goal, {} not available yet\n\
         {}\nchecks: {} observations, {} violations\n",
        count(Verdict::Pass),
        count(Verdict::Fail),
        count(Verdict::OutOfReach),
        count(Verdict::Undecided),
        count(Verdict::Deviates),
        count(Verdict::NoGoal),
        count(Verdict::NotAvailable),
        Summary::of(studies),
        grouped(studies.iter().map(|study| study.observed).sum()),
        grouped(studies.iter().map(|study| study.violations).sum()),
    )
}
