//! `xsched devices`: what can be scheduled here, and how well.

mod list;

use serde::Serialize;
use xsched_console::Ending;
use xsched_console::machine::Machine;
use xsched_console::output::{Outputs, Places};
use xsched_console::table::table;

pub(crate) use self::list::{Entry, list};
use crate::args::DevicesArgs;
use crate::error::CliError;

fn row(entry: &Entry) -> Vec<String> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
    vec![
        entry.backend.to_owned(),
        text(&entry.device),
        text(&entry.driver),
        text(&entry.pci),
        number(entry.units),
        entry.level.map_or_else(|| "-".to_owned(), |level| format!("Lv{level}")),
        number(entry.entries_max),
    ]
}

/// Everything, as `--json` writes it.
#[derive(Debug, Serialize)]
struct Document {
    machine: Machine,
    devices: Vec<Entry>,
}

/// Lists the devices.
pub(crate) fn execute(args: &DevicesArgs) -> Result<Ending, CliError> {
    let outputs = Outputs::prepare(Places { json: args.json.as_deref(), ..Places::default() })?;
    let document = Document { machine: Machine::here(), devices: list() };
    if let Some(output) = &outputs.json {
        output.write(|out| xsched_sim::report::write_json(out, &document))?;
    }
    outputs.tables().print(&report(&document))?;
    Ok(Ending::Fine)
}

fn report(document: &Document) -> String {
    let header = ["<backend", "<device", "<driver", "<PCI", "units", "<level", "entries"];
    let found = document.devices.iter().filter(|entry| entry.device.is_some());
    let mut text = table("devices", &header, found.map(row));
    for entry in &document.devices {
        if let Some(mechanism) = &entry.mechanism {
            text += &format!("{}: Lv3 by {mechanism}\n", entry.backend);
        }
        let Some(why) = &entry.why else { continue };
        text += &match entry.level {
            Some(level) => format!("{}: no higher than Lv{level}: {why}\n", entry.backend),
            None => format!("{}: {why}\n", entry.backend),
        };
    }
    text
}
