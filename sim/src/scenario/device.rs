//! Devices: the `[[device]]` tables of scenarios, and device files that they can refer to.
//!
//! A device file holds every parameter of a device once, and says for each where it comes from.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use xsched_core::cost::Reach;

use super::arrival::ReadFile;
use super::model::{Concurrency, DeviceSpec};
use super::raw::{Field, Number, RawDevice, RawDeviceFile};
use super::source::{Result, Source, span_of};
use super::{MAX_FILE_BYTES, ScenarioError, check_size, read_file, trace, units};

/// The parameters that a device file has to give, without their units, and the lowest `max_level`
/// with which they mean anything.
const PARAMETERS: [(&str, u8); 14] = [
    ("concurrency", 1),
    ("launch_latency", 1),
    ("host_launch", 1),
    ("host_sync", 1),
    ("detect", 1),
    ("launch_queue", 1),
    ("max_level", 1),
    ("gate", 2),
    ("gate_close", 2),
    ("gate_spacing", 2),
    ("save_fixed", 3),
    ("save_context", 3),
    ("restore_fixed", 3),
    ("restore_context", 3),
];

/// Whom an interrupt stops, as files say it.
const REACHES: [(&str, Reach); 2] = [("queue", Reach::Queue), ("device", Reach::Device)];

/// How a parameter was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginKind {
    /// Measured or documented, independently of what is simulated.
    Sourced,
    /// Chosen without a measurement of this device.
    Assumed,
    /// Chosen so that a simulated figure meets a measured one.
    Fitted,
}

impl OriginKind {
    const ALL: [(&str, Self); 3] =
        [("sourced", Self::Sourced), ("assumed", Self::Assumed), ("fitted", Self::Fitted)];
}

impl fmt::Display for OriginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// Where a parameter comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// In a word.
    pub kind: OriginKind,
    /// The source, why it was assumed, or what it was fitted to.
    pub note: String,
}

/// A device with the origin of each of its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFile {
    /// Description of the device, in a line.
    pub description: String,
    /// Parameters.
    pub spec: DeviceSpec,
    /// The origin of each parameter, by the name of its key without the unit.
    pub origins: BTreeMap<String, Origin>,
}

impl DeviceFile {
    /// Reads and checks a device file.
    ///
    /// # Errors
    /// If it cannot be read, or is not a device file that gives every parameter and its origin.
    pub fn load(path: &Path) -> std::result::Result<Self, ScenarioError> {
        let bytes = read_file(path).map_err(|error| ScenarioError::unread(path, &error))?;
        Self::parse(&bytes, path)
    }

    /// Checks a device file that is in memory; `file` is its name for messages.
    ///
    /// # Errors
    /// If it is not a device file that gives every parameter and its origin.
    pub fn parse(bytes: &[u8], file: &Path) -> std::result::Result<Self, ScenarioError> {
        check_size(bytes, file)?;
        let text = std::str::from_utf8(bytes);
        let text = text.map_err(|error| trace::not_utf8(bytes, error, file))?;
        let (source, raw) = Source::read_as::<RawDeviceFile>(text, file)?;
        source.device_file(text, &raw)
    }
}

/// Defaults of a device unless the scenario or a device file says otherwise.
fn defaults() -> DeviceSpec {
    let us = |us: u64| us * 1_000;
    DeviceSpec {
        launch_latency_ns: us(4),
        host_launch_ns: us(3),
        host_sync_ns: us(5),
        detect_ns: us(8),
        gate_ns: 2_200,
        gate_close_ns: us(1),
        gate_spacing_ns: us(200),
        save_fixed_ns: us(10),
        save_context_ns: us(10),
        restore_fixed_ns: us(10),
        restore_context_ns: us(10),
        ..DeviceSpec::ideal("")
    }
}

/// The device files of a scenario, each read once.
struct Files<'a> {
    read: ReadFile<'a>,
    known: BTreeMap<PathBuf, DeviceSpec>,
}

impl Files<'_> {
    /// The device in the file that a scenario names, relative to the scenario's folder.
    fn load(&mut self, source: &Source<'_>, name: &Spanned<String>) -> Result<DeviceSpec> {
        if name.get_ref().is_empty() {
            return Err(source.error(name.span(), "must not be empty"));
        }
        let path = source.file().parent().unwrap_or(Path::new("")).join(name.get_ref());
        if let Some(spec) = self.known.get(&path) {
            return Ok(spec.clone());
        }
        let bytes = (self.read)(&path).map_err(|error: io::Error| {
            source.error(name.span(), format_args!("cannot read {}: {error}", path.display()))
        })?;
        if bytes.len() > MAX_FILE_BYTES {
            let message = format!("{} is too large for a device file", path.display());
            return Err(source.error(name.span(), message));
        }
        let spec = DeviceFile::parse(&bytes, &path)?.spec;
        self.known.insert(path, spec.clone());
        Ok(spec)
    }
}

impl Source<'_> {
    /// The devices of a scenario.
    pub(super) fn device_specs(
        &self,
        raw: &[Spanned<RawDevice>],
        read: ReadFile<'_>,
    ) -> Result<Vec<DeviceSpec>> {
        let mut files = Files { read, known: BTreeMap::new() };
        let one = |raw: &Spanned<RawDevice>| {
            let base = match &raw.get_ref().file {
                Some(file) => files.load(self, file)?,
                None => defaults(),
            };
            self.device(raw, base)
        };
        raw.iter().map(one).collect()
    }

    /// A device that is as `base` where the table says nothing.
    fn device(&self, raw: &Spanned<RawDevice>, base: DeviceSpec) -> Result<DeviceSpec> {
        let table = raw.span();
        let raw = raw.get_ref();
        let time = |field, base| self.time(field).map(|time| time.unwrap_or(base));
        Ok(DeviceSpec {
            name: self.required(&table, "name", self.name(&raw.name)?)?,
            concurrency: self.concurrency(raw, base.concurrency)?,
            launch_latency_ns: time(&raw.launch_latency, base.launch_latency_ns)?,
            host_launch_ns: time(&raw.host_launch, base.host_launch_ns)?,
            host_sync_ns: time(&raw.host_sync, base.host_sync_ns)?,
            detect_ns: time(&raw.detect, base.detect_ns)?,
            fence_ns: time(&raw.fence, base.fence_ns)?,
            launch_queue: self
                .integer(&raw.launch_queue, 4..=1_048_576)?
                .unwrap_or(base.launch_queue),
            max_level: self.integer(&raw.max_level, 1..=3)?.unwrap_or(base.max_level),
            gate_ns: time(&raw.gate, base.gate_ns)?,
            gate_close_ns: time(&raw.gate_close, base.gate_close_ns)?,
            gate_spacing_ns: time(&raw.gate_spacing, base.gate_spacing_ns)?,
            save_fixed_ns: time(&raw.save_fixed, base.save_fixed_ns)?,
            save_context_ns: time(&raw.save_context, base.save_context_ns)?,
            restore_fixed_ns: time(&raw.restore_fixed, base.restore_fixed_ns)?,
            restore_context_ns: time(&raw.restore_context, base.restore_context_ns)?,
            grace_ns: time(&raw.grace, base.grace_ns)?,
            resume_ns: time(&raw.resume, base.resume_ns)?,
            reach: self.choice(&raw.interrupt_stops, &REACHES)?.unwrap_or(base.reach),
            batches: raw.batches.as_ref().map_or(base.batches, |batches| *batches.get_ref()),
            wake_ns: self.times(&raw.wake)?.unwrap_or(base.wake_ns),
            queue_wake_ns: self.times(&raw.queue_wake)?.unwrap_or(base.queue_wake_ns),
        })
    }

    /// An array of times.
    fn times(&self, field: &Field<Vec<Spanned<Number>>>) -> Result<Option<Arc<[u64]>>> {
        let Some(times) = field else { return Ok(None) };
        let unit = self.unit_at(&times.span());
        let times = times.get_ref().iter().map(|time| self.time_in(time, unit));
        times.collect::<Result<_>>().map(Some)
    }

    fn concurrency(&self, raw: &RawDevice, base: Concurrency) -> Result<Concurrency> {
        let (base_shares, base_contention) = match base {
            Concurrency::ProcessorSharing { contention } => (true, contention),
            _ => (false, 1.0),
        };
        let contention = self.number(&raw.contention, 0.0..=10.0)?.unwrap_or(base_contention);
        let sharing = Concurrency::ProcessorSharing { contention };
        let choices = [
            ("round_robin", Concurrency::RoundRobin),
            ("processor_sharing", sharing),
            ("exclusive", Concurrency::Exclusive),
        ];
        let otherwise = if base_shares { sharing } else { base };
        let concurrency = self.choice(&raw.concurrency, &choices)?.unwrap_or(otherwise);
        if concurrency != sharing {
            let when = "with concurrency = \"processor_sharing\"";
            self.unused(span_of(&raw.contention), when)?;
        }
        Ok(concurrency)
    }

    fn device_file(&self, text: &str, raw: &RawDeviceFile) -> Result<DeviceFile> {
        let device = raw.device.as_ref();
        let device = device.ok_or_else(|| self.error_at_top("device", "missing"))?;
        if let Some(file) = &device.get_ref().file {
            return Err(self.error(file.span(), "a device file cannot refer to another"));
        }
        let spec = self.device(device, defaults())?;
        let mut origins = BTreeMap::new();
        for (key, entry) in raw.origin.iter().flat_map(Spanned::get_ref) {
            let stem = units::split(key).map_or(key.as_str(), |(stem, _)| stem);
            origins.insert(stem.to_owned(), self.origin(entry)?);
        }
        let given = given(text);
        for (stem, entry) in raw.origin.iter().flat_map(Spanned::get_ref) {
            if !given.contains_key(stem.as_str()) {
                return Err(self.error(entry.span(), "no such key in [device]"));
            }
        }
        for (key, span) in &given {
            let stem = units::split(key).map_or(key.as_str(), |(stem, _)| stem);
            if !matches!(stem, "name" | "file") && !origins.contains_key(stem) {
                let message = format!("has no origin; add `{key}` to [origin]");
                return Err(self.error(span.clone(), message));
            }
        }
        for (stem, level) in PARAMETERS {
            if spec.max_level >= level && !origins.contains_key(stem) {
                let message = "missing; a device file has to give every parameter";
                return Err(self.error_in(&device.span(), stem, message));
            }
        }
        let description = raw.description.as_ref().map_or("", |text| text.get_ref()).to_owned();
        Ok(DeviceFile { description, spec, origins })
    }

    /// `sourced: …`, `assumed: …` or `fitted: …`.
    fn origin(&self, entry: &Spanned<String>) -> Result<Origin> {
        let parts = entry.get_ref().split_once(':').map(|(kind, note)| (kind.trim(), note.trim()));
        let known = |name: &str| OriginKind::ALL.iter().find(|(known, _)| *known == name);
        match parts.map(|(kind, note)| (known(kind), note)) {
            Some((Some((_, kind)), note)) if !note.is_empty() => {
                Ok(Origin { kind: *kind, note: note.to_owned() })
            }
            _ => {
                let message =
                    "must read \"sourced: where\", \"assumed: why\" or \"fitted: to what\"";
                Err(self.error(entry.span(), message))
            }
        }
    }
}

/// The keys of `[device]` and where they stand.
fn given(text: &str) -> BTreeMap<String, std::ops::Range<usize>> {
    let Ok(document) = DeTable::parse(text) else { return BTreeMap::new() };
    match document.get_ref().get("device").map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => {
            table.iter().map(|(key, _)| (key.get_ref().to_string(), key.span())).collect()
        }
        _ => BTreeMap::new(),
    }
}
