//! Calls of other programs' kind while a stream is held at its gate: first launches, allocations,
//! copies. Some of them wait for the stream; that is found out without waiting for ever.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xsched_hal_hip::{HipApi, HipConfig};

use super::{BLOCKED, Gate, PATIENCE, Witness};
use crate::device::LabError;
use crate::device::gpu::Hip;
use crate::kernels::{BareStream, Place, PlacedWord, Ring, SideCalls, begin_anew};
use crate::stats::{Quantiles, ns_of};

/// Bytes of allocations and copies.
const BYTES: usize = 1 << 20;

/// Times of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct First {
    /// Name of the call.
    pub(crate) call: String,
    /// Set if a stream was held meanwhile.
    pub(crate) held: bool,
    /// How long it took, where it did not wait for that stream.
    pub(crate) time: Quantiles,
    /// Each of these, in nanoseconds.
    pub(crate) series_ns: Vec<u64>,
    /// Calls that did not return before the stream was let go.
    pub(crate) blocked: u32,
    /// Why it could not be done, if so.
    pub(crate) error: Option<String>,
}

type Call = Arc<dyn Fn() -> Result<(), LabError> + Send + Sync>;

/// Takes the time of each call `times` times, while a stream is not held and while it is.
pub(super) fn measure(hip: &Hip, times: u32, rows: &mut Vec<First>) -> Result<(), LabError> {
    let api = hip.api();
    let stream = |ring| BareStream::new(api, ring).map_err(LabError::new);
    let word = PlacedWord::new(api, Place::HostCoherent);
    // Signal memory is all that there is where the command processor waits.
    let word = word.and_then(|word| match api.lowering() {
        xsched_hal_hip::WaitLowering::SpinKernel => Ok(word),
        xsched_hal_hip::WaitLowering::CommandProcessor => PlacedWord::new(api, Place::Signal),
    });
    let gate = Gate { word: word.map_err(LabError::new)?, writer: stream(Ring::Own)? };
    let (held, witness) = (stream(Ring::Own)?, Witness::new(api)?);
    for (name, call) in calls(api)? {
        for is_held in [false, true] {
            let row = row((name, &call), is_held.then_some((&gate, &held, &witness)), times)?;
            rows.push(row);
        }
    }
    Ok(())
}

/// The calls. Each is made on a thread of its own.
fn calls(api: &Arc<HipApi>) -> Result<Vec<(&'static str, Call)>, LabError> {
    let launch = |ring, again: bool| -> Result<Call, LabError> {
        let api = Arc::clone(api);
        let there = BareStream::new(&api, ring).map_err(LabError::new)?;
        let witness = Witness::new(&api)?;
        Ok(Arc::new(move || {
            let new = if again { None } else { Some(BareStream::new(&api, ring)) };
            let new = new.transpose().map_err(LabError::new)?;
            let stream = new.as_ref().unwrap_or(&there);
            stream.launch(&witness.command).map_err(LabError::new)?;
            stream.synchronize().map_err(LabError::new)
        }))
    };
    let config = HipConfig { device: api.device(), rings: api.rings() };
    let side = HipApi::with_library(Arc::clone(api.library()), config);
    let side = side.and_then(|side| SideCalls::new(side, BYTES)).map_err(LabError::new)?;
    let side = Arc::new(Mutex::new(side));
    let beside = |call: fn(&SideCalls) -> Result<(), xsched_hal_hip::HipError>| -> Call {
        let side = Arc::clone(&side);
        Arc::new(move || {
            let side = side.lock().unwrap_or_else(PoisonError::into_inner);
            call(&side).map_err(LabError::new)
        })
    };
    // Kept until all is over, since to give modules back may wait for the device.
    let (anew, kept) = (Arc::clone(api), Mutex::new(Vec::new()));
    Ok(vec![
        ("launch in a stream that is there", launch(Ring::Own, true)?),
        ("new stream and its first launch", launch(Ring::Own, false)?),
        ("launch in the default stream", launch(Ring::Default, true)?),
        (
            "module loaded and its first launch",
            Arc::new(move || {
                let begun = begin_anew(&anew).map_err(LabError::new)?;
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(begun);
                Ok(())
            }),
        ),
        ("allocate and free", beside(SideCalls::allocate)),
        ("copy on the default stream", beside(SideCalls::copy)),
    ])
}

type Held<'a> = (&'a Gate, &'a BareStream, &'a Witness);

fn row(
    (name, call): (&'static str, &Call),
    held: Option<Held<'_>>,
    times: u32,
) -> Result<First, LabError> {
    let (mut series_ns, mut blocked, mut error) = (Vec::new(), 0, None);
    for _ in 0..times {
        let before = held.map(|held| close(held).map(|before| (held, before))).transpose()?;
        let answers = on_a_thread(call);
        let patience = if held.is_some() { BLOCKED } else { PATIENCE };
        let answered = answers.recv_timeout(patience).ok();
        if let Some(((gate, stream, witness), before)) = before {
            let passed = witness.at_ns() != before;
            gate.open()?;
            stream.synchronize().map_err(LabError::new)?;
            error = passed.then(|| "the stream was not held".to_owned());
        }
        let hangs = |_| LabError::new(format!("`{name}` hangs"));
        let (answer, in_time) = match answered {
            Some(answer) => (answer, true),
            None => (answers.recv_timeout(PATIENCE).map_err(hangs)?, false),
        };
        match answer {
            Ok(span) if in_time => series_ns.push(ns_of(span)),
            Ok(_) => blocked += 1,
            Err(why) => error = Some(why.to_string()),
        }
        if error.is_some() {
            break;
        }
    }
    let time = Quantiles::of(&series_ns);
    Ok(First { call: name.to_owned(), held: held.is_some(), time, series_ns, blocked, error })
}

/// Holds the stream with a kernel behind its gate. What that said before.
fn close((gate, stream, witness): Held<'_>) -> Result<u64, LabError> {
    gate.close()?;
    stream.hold(&gate.word).map_err(LabError::new)?;
    let before = witness.at_ns();
    stream.launch(&witness.command).map_err(LabError::new)?;
    Ok(before)
}

/// Makes a call. Its thread is not joined: one that hangs in a driver never ends.
fn on_a_thread(call: &Call) -> Receiver<Result<Duration, LabError>> {
    let (answer, answers) = channel();
    let call = Arc::clone(call);
    thread::spawn(move || {
        let start = Instant::now();
        let done = call();
        // The measurement may have given up on this call already.
        let _ = answer.send(done.map(|()| start.elapsed()));
    });
    answers
}
