//! Streams that stand still when one is held: at its gate, and by the driver.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xsched_hal_hip::{HipApi, WaitLowering};
use xsched_hal_kfd::KfdQueue;
use xsched_hal_kfd::mechanism::Mechanism;

use super::{BLOCKED, Gate, PATIENCE, Plan, Witness};
use crate::device::LabError;
use crate::device::gpu::Hip;
use crate::device::kfd::DriverAccess;
use crate::kernels::{BareStream, Place, PlacedWord, Ring};
use crate::stats::ns_of;

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// A name for it.
    pub(crate) name: String,
    /// How it was made: `own`, `shared` or `default`.
    pub(crate) ring: String,
    /// The queue of the driver's that was made for it.
    pub(crate) queue: Option<u32>,
    /// Why that is not known, or why there is none.
    pub(crate) no_queue: Option<String>,
}

/// A stream that is held, and another in which a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pair {
    /// How it is held: `gate`, or the driver's mechanism.
    pub(crate) by: String,
    /// The one that is held, by its place in the list.
    pub(crate) held: usize,
    /// The other.
    pub(crate) other: usize,
    /// How long the other's kernel took, in nanoseconds; `None` if it did not run before the hold's
    /// end.
    pub(crate) took_ns: Option<u64>,
    /// Set if the stream that was to be held was.
    pub(crate) was_held: bool,
}

/// Figures of all pairs of streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rings {
    /// The streams, in the order in which they were made.
    pub(crate) streams: Vec<Stream>,
    /// Every stream with every other.
    pub(crate) pairs: Vec<Pair>,
    /// Why no stream was held by the driver, if so.
    pub(crate) not_by_the_driver: Option<String>,
}

impl Rings {
    /// Streams that stand still when another one is held, both by name, and how that is held.
    pub(crate) fn stopped(&self) -> Vec<(&str, &str, &str)> {
        let name = |place: usize| self.streams.get(place).map_or("", |stream| &stream.name);
        let stopped = self.pairs.iter().filter(|pair| pair.took_ns.is_none());
        stopped.map(|pair| (name(pair.held), name(pair.other), &*pair.by)).collect()
    }

    /// Returns whether streams with rings of their own neither stop others nor are stopped by them,
    /// except the default stream, which waits for them whatever ring it is in. `None` without such
    /// streams, or without others.
    pub(crate) fn own_is_own(&self) -> Option<bool> {
        let ring = |place: usize| self.streams.get(place).map_or("", |stream| &*stream.ring);
        let (own, default) = (Ring::Own.name(), Ring::Default.name());
        let matters = |pair: &&Pair| {
            let rings = [ring(pair.held), ring(pair.other)];
            rings.contains(&own) && !rings.contains(&default)
        };
        let all: Vec<&Pair> = self.pairs.iter().filter(matters).collect();
        let own = all.iter().all(|pair| pair.took_ns.is_some() && pair.was_held);
        (!all.is_empty()).then_some(own)
    }
}

/// A stream, and what is known of it.
struct Made {
    stream: BareStream,
    witness: Witness,
    queue: Option<Arc<KfdQueue>>,
    facts: Stream,
}

/// Makes the streams, and holds each beside every other.
pub(super) fn measure(hip: &Hip, below: &DriverAccess, plan: &Plan) -> Result<Rings, LabError> {
    let api = hip.api();
    let mut all = Vec::new();
    for (ring, count) in [(Ring::Shared, plan.shared), (Ring::Own, plan.own), (Ring::Default, 1)] {
        for number in 0..count {
            all.push(make(api, below, ring, number)?);
        }
    }
    let mut pairs = Vec::new();
    let gate = gate(api)?;
    for_pairs(&all, |held, other| {
        pairs.push(by_gate(&gate, &all, (held, other))?);
        Ok(())
    })?;
    let not_by_the_driver = match &below.mechanism {
        Err(why) => Some(why.to_string()),
        Ok(_) if all.iter().all(|one| one.queue.is_none()) => {
            Some("no stream's queue is known".to_owned())
        }
        Ok(mechanism) => {
            for_pairs(&all, |held, other| {
                let queue = all.get(held).and_then(|one| one.queue.as_ref());
                if let Some(queue) = queue {
                    pairs.push(by_driver(&**mechanism, queue, &all, (held, other))?);
                }
                Ok(())
            })?;
            None
        }
    };
    let streams = all.into_iter().map(|one| one.facts).collect();
    Ok(Rings { streams, pairs, not_by_the_driver })
}

fn for_pairs(
    all: &[Made],
    mut each: impl FnMut(usize, usize) -> Result<(), LabError>,
) -> Result<(), LabError> {
    for held in 0..all.len() {
        for other in (0..all.len()).filter(|&other| other != held) {
            each(held, other)?;
        }
    }
    Ok(())
}

/// A word where gates have theirs.
fn gate(api: &Arc<HipApi>) -> Result<Gate, LabError> {
    let place = match api.lowering() {
        WaitLowering::SpinKernel => Place::HostCoherent,
        WaitLowering::CommandProcessor => Place::Signal,
    };
    let word = PlacedWord::new(api, place).map_err(LabError::new)?;
    Ok(Gate { word, writer: BareStream::new(api, Ring::Own).map_err(LabError::new)? })
}

/// Makes a stream and looks which queue was made for it.
fn make(
    api: &Arc<HipApi>,
    below: &DriverAccess,
    ring: Ring,
    number: u32,
) -> Result<Made, LabError> {
    let before = below.attribution.before();
    let stream = BareStream::new(api, ring).map_err(LabError::new)?;
    let queue = before.and_then(|before| below.attribution.single_since(&before));
    let queue = queue
        .map_err(|why| why.to_string())
        .and_then(|facts| KfdQueue::new(facts).map(Arc::new).map_err(|why| why.to_string()));
    let witness = Witness::new(api)?;
    // So that no first launch is among what is timed.
    stream.launch(&witness.command).map_err(LabError::new)?;
    stream.synchronize().map_err(LabError::new)?;
    let id = queue.as_ref().ok().map(|queue| queue.facts().id);
    let name = format!("{} {number}", ring.name());
    let (ring, no_queue) = (ring.name().to_owned(), queue.as_ref().err().cloned());
    let facts = Stream { name, ring, queue: id, no_queue };
    Ok(Made { stream, witness, queue: queue.ok(), facts })
}

/// Both streams of a pair.
fn both(all: &[Made], (held, other): (usize, usize)) -> Result<(&Made, &Made), LabError> {
    let none = || LabError::new("there is no such stream");
    Ok((all.get(held).ok_or_else(none)?, all.get(other).ok_or_else(none)?))
}

fn by_gate(gate: &Gate, all: &[Made], places: (usize, usize)) -> Result<Pair, LabError> {
    let (held, other) = both(all, places)?;
    let before = [held.witness.at_ns(), other.witness.at_ns()];
    gate.close()?;
    held.stream.hold(&gate.word).map_err(LabError::new)?;
    let launched = [held, other].map(|one| one.stream.launch(&one.witness.command));
    let took = other.witness.since(before[1], BLOCKED);
    let was_held = held.witness.at_ns() == before[0];
    gate.open()?;
    launched.into_iter().collect::<Result<Vec<_>, _>>().map_err(LabError::new)?;
    let_go([held, other], before)?;
    Ok(Pair {
        by: "gate".to_owned(),
        held: places.0,
        other: places.1,
        took_ns: took.map(ns_of),
        was_held,
    })
}

fn by_driver(
    mechanism: &dyn Mechanism,
    queue: &Arc<KfdQueue>,
    all: &[Made],
    places: (usize, usize),
) -> Result<Pair, LabError> {
    let (held, other) = both(all, places)?;
    let before = [held.witness.at_ns(), other.witness.at_ns()];
    let done = |answers: Vec<Result<(), _>>| answers.into_iter().collect::<Result<(), _>>();
    let queues = [Arc::clone(queue)];
    done(mechanism.suspend(&queues)).map_err(LabError::new)?;
    let launched = [held, other].map(|one| one.stream.launch(&one.witness.command));
    let took = other.witness.since(before[1], BLOCKED);
    let was_held = held.witness.at_ns() == before[0];
    done(mechanism.resume(&queues)).map_err(LabError::new)?;
    launched.into_iter().collect::<Result<Vec<_>, _>>().map_err(LabError::new)?;
    let_go([held, other], before)?;
    let by = mechanism.kind().name().to_owned();
    Ok(Pair { by, held: places.0, other: places.1, took_ns: took.map(ns_of), was_held })
}

/// Waits until both have run.
fn let_go(both: [&Made; 2], before: [u64; 2]) -> Result<(), LabError> {
    for (one, before) in both.into_iter().zip(before) {
        if one.witness.since(before, PATIENCE).is_none() {
            let name = &one.facts.name;
            return Err(LabError::new(format!("stream `{name}` does not go on after a hold")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(name: &str, ring: Ring) -> Stream {
        Stream { name: name.into(), ring: ring.name().into(), queue: None, no_queue: None }
    }

    fn pair(held: usize, other: usize, runs: bool) -> Pair {
        Pair { by: "gate".into(), held, other, took_ns: runs.then_some(9), was_held: true }
    }

    #[test]
    fn who_stops_whom_is_told_from_the_pairs() {
        let streams = vec![
            stream("shared 0", Ring::Shared),
            stream("own 0", Ring::Own),
            stream("default 0", Ring::Default),
        ];
        let pairs = vec![pair(0, 1, true), pair(0, 2, false), pair(1, 0, true), pair(1, 2, false)];
        let rings = Rings { streams, pairs, not_by_the_driver: None };
        let stopped = [("shared 0", "default 0", "gate"), ("own 0", "default 0", "gate")];
        assert_eq!(rings.stopped(), stopped);
        assert_eq!(rings.own_is_own(), Some(true));
        let mut shared = rings.clone();
        shared.pairs[2].took_ns = None;
        assert_eq!(shared.own_is_own(), Some(false));
        let mut loose = rings;
        loose.pairs[0].was_held = false;
        assert_eq!(loose.own_is_own(), Some(false), "a stream that was not held shows nothing");
        loose.pairs.clear();
        assert_eq!(loose.own_is_own(), None);
    }
}
