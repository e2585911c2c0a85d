//! How soon a stream sees that the word it waits for has become 0, for words in all places.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched_core::rng::SplitMix64;
use xsched_hal_stream::ClockProbe;

use super::{Gate, PATIENCE, Witness, since_ns};
use crate::device::LabError;
use crate::device::clocks::DeviceClock;
use crate::device::gpu::Hip;
use crate::kernels::{BareStream, Place, PlacedWord, Ring};
use crate::pace::Pace;
use crate::stats::Quantiles;

/// Least time for which a stream is held; at most it is twice that.
const HELD_NS: u64 = 300_000;
/// Where random moments follow from.
const SEED: u64 = 1;

/// The moments of one wait, in nanoseconds from the beginning of its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// When the word was 1 and the wait and the kernel behind it were launched.
    pub(crate) launched_ns: u64,
    /// Before the word was written again.
    pub(crate) open_ns: u64,
    /// After that call.
    pub(crate) opened_ns: u64,
    /// The first instruction behind the wait.
    pub(crate) first_ns: u64,
    /// By how much that may be off.
    pub(crate) unsure_ns: u64,
    /// When the host saw that it had run.
    pub(crate) seen_ns: u64,
    /// Set if it ran though the word was not 0.
    pub(crate) passed: bool,
}

/// Figures of a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Name of the place.
    pub(crate) place: String,
    /// Writer of the word: the host, or a stream.
    pub(crate) written_by: String,
    /// From the write to the first instruction behind the wait.
    pub(crate) latency: Quantiles,
    /// From the write until the host saw it.
    pub(crate) seen: Quantiles,
    /// By how much the device's moments may be off, in microseconds.
    pub(crate) unsure_us: f64,
    /// Waits that ended though the word was not 0.
    pub(crate) passed: u32,
    /// Every trial.
    pub(crate) trials: Vec<Trial>,
    /// Why it cannot be used, or not for all trials, if so.
    pub(crate) error: Option<String>,
}

/// Measures all places.
pub(super) fn measure(
    hip: &Hip,
    trials: u32,
    rows: &mut Vec<Row>,
    pace: &Pace<'_>,
) -> Result<(), LabError> {
    for place in Place::ALL {
        let (mut all, mut stuck) = (Vec::new(), false);
        let part = 0.4 + 0.6 * (rows.len() + 1) as f64 / Place::ALL.len() as f64;
        let ended = trials_of(hip, place, (trials, pace, part), &mut all, &mut stuck);
        let error = ended.err().map(|why| why.to_string());
        rows.push(row(place, all, error.clone()));
        if stuck {
            let why = error.unwrap_or_default();
            return Err(LabError::new(format!("a stream that waits in {place} is stuck: {why}")));
        }
        pace.show(part);
    }
    Ok(())
}

fn trials_of(
    hip: &Hip,
    place: Place,
    (count, pace, part): (u32, &Pace<'_>, f64),
    all: &mut Vec<Trial>,
    stuck: &mut bool,
) -> Result<(), LabError> {
    let api = hip.api();
    let stream = |ring| BareStream::new(api, ring).map_err(LabError::new);
    let (held, writer) = (stream(Ring::Own)?, stream(Ring::Own)?);
    let word = PlacedWord::new(api, place).map_err(LabError::new)?;
    let (gate, witness) = (Gate { word, writer }, Witness::new(api)?);
    let mut probe = ClockProbe::new(std::sync::Arc::clone(api)).map_err(LabError::new)?;
    let (origin, mut random) = (Instant::now(), SplitMix64::new(SEED));
    while all.len() < count as usize && pace.wants_more(all.len(), part) {
        gate.close()?;
        held.hold(&gate.word).map_err(LabError::new)?;
        // From here on the stream has to be let go.
        *stuck = true;
        let before = witness.at_ns();
        held.launch(&witness.command).map_err(LabError::new)?;
        let launched_ns = since_ns(origin);
        thread::sleep(Duration::from_nanos(HELD_NS + random.below(HELD_NS)));
        let passed = witness.at_ns() != before;
        let open_ns = since_ns(origin);
        gate.open()?;
        let opened_ns = since_ns(origin);
        if witness.since(before, PATIENCE).is_none() {
            let seconds = PATIENCE.as_secs();
            return Err(LabError::new(format!("the wait did not end for {seconds} s")));
        }
        let seen_ns = since_ns(origin);
        held.synchronize().map_err(LabError::new)?;
        *stuck = false;
        let clock = DeviceClock::estimate(&mut probe, origin)?;
        let first_ns = u64::try_from(clock.host_ns(witness.at_ns())).unwrap_or(0);
        let unsure_ns = clock.uncertain_ns;
        all.push(Trial { launched_ns, open_ns, opened_ns, first_ns, unsure_ns, seen_ns, passed });
    }
    Ok(())
}

fn row(place: Place, trials: Vec<Trial>, error: Option<String>) -> Row {
    let held = || trials.iter().filter(|trial| !trial.passed);
    let spans = |to: fn(&Trial) -> u64| {
        let spans = held().map(|trial| to(trial).saturating_sub(trial.open_ns));
        Quantiles::of(&spans.collect::<Vec<_>>())
    };
    let (latency, seen) = (spans(|trial| trial.first_ns), spans(|trial| trial.seen_ns));
    let passed = u32::try_from(trials.len() - held().count()).unwrap_or(u32::MAX);
    let written_by = if place.is_host_visible() { "the host" } else { "a stream" }.to_owned();
    let unsure_us = trials.iter().map(|trial| trial.unsure_ns).max().unwrap_or(0) as f64 / 1e3;
    Row {
        place: place.name().to_owned(),
        written_by,
        latency,
        seen,
        unsure_us,
        passed,
        trials,
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_ended_early_have_no_latency_and_are_counted() {
        let held = Trial {
            open_ns: 1_000,
            first_ns: 4_000,
            seen_ns: 6_000,
            unsure_ns: 500,
            ..Trial::default()
        };
        let passed = Trial { first_ns: 500, passed: true, ..held };
        let row = row(Place::DeviceCoarse, vec![held, passed], None);
        assert_eq!((row.latency.samples, row.passed, row.trials.len()), (1, 1, 2));
        assert_eq!((row.latency.p50_us, row.seen.p50_us, row.unsure_us), (3.0, 5.0, 0.5));
        assert_eq!((&*row.place, &*row.written_by), ("device, coarse-grained", "a stream"));
    }
}
