//! `xsched-lab list`.

use clap::Args;
use serde::Serialize;

use super::LabHal;
use crate::error::CommandError;
use crate::rows::plan::{Hal, Way};
use crate::rows::table::{self, Definition, Setting};
use xsched_console::Ending;
use xsched_console::output::Stream;
use xsched_console::table::table;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// As it is on this device.
    #[arg(long, value_enum, default_value_t = LabHal::Cuda)]
    hal: LabHal,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

/// A row of the list.
#[derive(Debug, Serialize)]
struct Listed {
    id: &'static str,
    name: &'static str,
    needs: &'static str,
    figure: Option<&'static str>,
    goals: Vec<String>,
    ways: Vec<&'static str>,
    cells: Vec<String>,
}

impl Listed {
    fn of(row: &Definition) -> Self {
        let goals = row.goals.iter();
        Self {
            id: row.plan.id,
            name: row.plan.name,
            needs: row.needs,
            figure: row.figure,
            goals: goals.map(|goal| format!("{} {}", goal.what, goal.goal)).collect(),
            ways: row.ways().into_iter().map(Way::name).collect(),
            cells: row.plan.cells.iter().map(|cell| cell.name.clone()).collect(),
        }
    }
}

/// Prints all rows.
pub(in crate::commands) fn execute(args: &ListArgs) -> Result<Ending, CommandError> {
    let rows = table::all(Setting { hal: Hal::from(args.hal), quick: false });
    let rows: Vec<Listed> = rows.iter().map(Listed::of).collect();
    let text = if args.json {
        serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n"
    } else {
        let line = |row: &Listed| {
            vec![
                row.id.to_owned(),
                row.name.to_owned(),
                row.figure.unwrap_or("-").to_owned(),
                row.cells.len().to_string(),
                row.ways.join(" "),
                row.needs.to_owned(),
            ]
        };
        let header = ["<row", "<name", "figure", "cells", "<ways", "<needs"];
        let mut text = table("rows", &header, rows.iter().map(line));
        for row in &rows {
            text.extend(row.goals.iter().map(|goal| format!("{}: {goal}\n", row.id)));
        }
        text
    };
    Stream::Stdout.print(&text)?;
    Ok(Ending::Fine)
}
