//! `xsched devices`: what can be scheduled here, and how well.

use serde::Serialize;
use xsched_hal_cuda::{CudaApi, StreamDevice, StreamDeviceConfig};
use xsched_hal_hip::{HipApi, HipConfig, HipLibrary, Rings};
use xsched_lab::{Bench, Host};

use crate::Ending;
use crate::args::DevicesArgs;
use crate::error::CliError;
use crate::machine::Machine;
use crate::output::{Outputs, Places};
use crate::table::table;

/// A device, or why a backend has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Entry {
    backend: &'static str,
    device: Option<String>,
    driver: Option<String>,
    pci: Option<String>,
    units: Option<u32>,
    /// The highest level of its queues.
    level: Option<u8>,
    /// Commands, gates and markers that a queue keeps in flight.
    entries_max: Option<u32>,
    /// Why the level is no higher, or why there is no device.
    why: Option<String>,
}

impl Entry {
    fn none(backend: &'static str, why: String) -> Self {
        Self { backend, why: Some(why), ..Self::default() }
    }

    fn row(&self) -> Vec<String> {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let number = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
        vec![
            self.backend.to_owned(),
            text(&self.device),
            text(&self.driver),
            text(&self.pci),
            number(self.units),
            self.level.map_or_else(|| "-".to_owned(), |level| format!("Lv{level}")),
            number(self.entries_max),
        ]
    }
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
    let mut devices = host();
    devices.extend(cuda());
    devices.extend(hip());
    let document = Document { machine: Machine::here(), devices };
    if let Some(output) = &outputs.json {
        output.write(|out| xsched_sim::report::write_json(out, &document))?;
    }
    outputs.tables().print(&report(&document))?;
    Ok(Ending::Fine)
}

fn report(document: &Document) -> String {
    let header = ["<backend", "<device", "<driver", "<PCI", "units", "<level", "entries"];
    let found = document.devices.iter().filter(|entry| entry.device.is_some());
    let mut text = table("devices", &header, found.map(Entry::row));
    for entry in &document.devices {
        let Some(why) = &entry.why else { continue };
        text += &match entry.level {
            Some(level) => format!("{}: no higher than Lv{level}: {why}\n", entry.backend),
            None => format!("{}: {why}\n", entry.backend),
        };
    }
    text
}

fn host() -> Vec<Entry> {
    vec![match Host::open() {
        Ok(host) => {
            let host = host.describe();
            Entry {
                backend: "host",
                device: Some(host.device),
                driver: Some(host.driver),
                units: Some(1),
                level: Some(host.level),
                entries_max: Some(host.entries_max),
                ..Entry::default()
            }
        }
        Err(error) => Entry::none("host", error.to_string()),
    }]
}

fn cuda() -> Vec<Entry> {
    let count = match xsched_hal_cuda::device_count() {
        Ok(0) => return vec![Entry::none("cuda", "the driver has no devices".to_owned())],
        Ok(count) => count,
        Err(error) => return vec![Entry::none("cuda", error.to_string())],
    };
    let open = |ordinal| {
        let device = CudaApi::open(ordinal).map_err(|error| error.to_string());
        entry("cuda", device)
    };
    (0..count).map(open).collect()
}

fn hip() -> Vec<Entry> {
    let found = HipLibrary::find().and_then(|library| Ok((library.devices()?, library)));
    let (count, library) = match found {
        Ok((0, _)) => return vec![Entry::none("hip", "the runtime has no devices".to_owned())],
        Ok(found) => found,
        Err(error) => return vec![Entry::none("hip", error.to_string())],
    };
    let open = |device| {
        let config = HipConfig { device, rings: Rings::Own };
        let api = HipApi::with_library(library.clone(), config).map_err(|error| error.to_string());
        entry("hip", api)
    };
    (0..count).map(open).collect()
}

/// A device with streams.
fn entry<A: xsched_hal_cuda::StreamApi>(backend: &'static str, api: Result<A, String>) -> Entry {
    let opened = api.and_then(|api| {
        StreamDevice::new(api, StreamDeviceConfig::default()).map_err(|error| error.to_string())
    });
    let device = match opened {
        Ok(device) => device,
        Err(why) => return Entry::none(backend, why),
    };
    let about = device.about();
    Entry {
        backend,
        device: Some(about.device.clone()),
        driver: Some(format!("{} ({})", about.driver, about.library)),
        pci: Some(about.pci.clone()),
        units: Some(about.units),
        level: Some(device.level().number()),
        entries_max: Some(device.entries_max()),
        why: device.no_gate().map(ToString::to_string),
    }
}
