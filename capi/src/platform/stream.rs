//! Streams of GPUs.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use xsched::{Device, Runtime, XQueue, XQueueConfig};
use xsched_core::level::Level;
use xsched_hal_cuda::table::{CuContext, CuStream};
use xsched_hal_cuda::{CudaApi, CudaError, GateAt, GateWord};
use xsched_hal_hip::{HipApi, HipConfig, HipLibrary, HipStream, raw};
use xsched_hal_stream::{
    Spacing, StreamApi, StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig, StreamSubmit,
};

use super::{Hardware, call_for, call_now};
use crate::backend::{Device as Wrapped, Lower};
use crate::command::{Command, Does};
use crate::graphs::Graphs;
use crate::refusal::{Answer, Refusal};
use crate::side::Side;
use crate::types::HwQueueHandle;

/// A device of the runtime, with what is below it.
#[derive(Debug)]
struct Pair<A: StreamApi> {
    below: StreamDevice<A>,
    device: Device<Wrapped<StreamDevice<A>>>,
}

impl<A: StreamApi> Clone for Pair<A> {
    fn clone(&self) -> Self {
        Self { below: self.below.clone(), device: self.device.clone() }
    }
}

impl<A: StreamApi> Pair<A> {
    fn open(runtime: &Runtime, api: Result<A, A::Error>) -> Answer<Self> {
        let api = api.map_err(|error| Refusal::hardware(error.to_string()))?;
        let below = StreamDevice::new(api, StreamDeviceConfig::default());
        let below = below.map_err(|error| Refusal::hardware(error.to_string()))?;
        let device = runtime.device(Wrapped(below.clone()))?;
        Ok(Self { below, device })
    }

    /// A queue on a stream that the caller vouches for.
    fn queue(
        self,
        stream: A::Stream,
        address: usize,
        spacing_us: Option<u32>,
    ) -> Answer<Box<dyn Hardware>> {
        let api = self.below.api();
        let entered = api.enter().map_err(|error| Refusal::hardware(error.to_string()))?;
        // SAFETY: the caller that made the hardware queue promised that the stream is alive.
        let kind = unsafe { api.stream_kind(stream) };
        drop(entered);
        kind.map_err(|error| Refusal::invalid(format!("the stream cannot be used: {error}")))?;
        let spacing = spacing_us.map(|us| Spacing::of_ns(u64::from(us) * 1_000));
        let spacing = spacing.unwrap_or_default();
        Ok(Box::new(StreamHardware {
            pair: self,
            stream,
            address,
            spacing,
            word: Mutex::default(),
        }))
    }
}

/// The devices of HIP that were used.
#[derive(Debug)]
pub(crate) struct HipDevices {
    known: Mutex<HipKnown>,
    /// Predicted work between two gates of a stream, if not as by default; see the environment.
    spacing_us: Option<u32>,
}

#[derive(Debug, Default)]
struct HipKnown {
    library: Option<Arc<HipLibrary>>,
    all: Vec<(u32, Pair<HipApi>)>,
}

impl HipDevices {
    /// None. Their streams have this much predicted work between two gates.
    pub(crate) fn new(spacing_us: Option<u32>) -> Self {
        Self { known: Mutex::default(), spacing_us }
    }

    /// A hardware queue on a stream.
    ///
    /// # Safety
    /// It is a live stream of HIP, and outlives the queue.
    pub(crate) unsafe fn queue(
        &self,
        runtime: &Runtime,
        stream: *mut c_void,
    ) -> Answer<Box<dyn Hardware>> {
        let address = checked_address(stream)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let library = match &known.library {
            Some(library) => Arc::clone(library),
            None => {
                let found = HipLibrary::find();
                let found = found.map_err(|error| Refusal::hardware(error.to_string()))?;
                Arc::clone(known.library.insert(found))
            }
        };
        // SAFETY: as the caller promises.
        let ordinal = unsafe { hip_device(&library, stream) }?;
        let pair = match known.all.iter().find(|(at, _)| *at == ordinal) {
            Some((_, pair)) => pair.clone(),
            None => {
                let config = HipConfig { device: ordinal, ..HipConfig::default() };
                let pair = Pair::open(runtime, HipApi::with_library(library, config))?;
                known.all.push((ordinal, pair.clone()));
                pair
            }
        };
        drop(known);
        pair.queue(HipStream::from_raw(stream), address, self.spacing_us)
    }
}

/// The number of the stream's device; where HIP is too old to say, of this thread's.
///
/// # Safety
/// The stream is alive.
unsafe fn hip_device(library: &HipLibrary, stream: *mut c_void) -> Answer<u32> {
    let table = library.table();
    let mut device: c_int = 0;
    let (call, code) = match table.hipStreamGetDevice {
        // SAFETY: the stream is alive, and the number may be written to.
        Some(get) => ("hipStreamGetDevice", unsafe { get(stream, &raw mut device) }),
        // SAFETY: the number may be written to.
        None => ("hipGetDevice", unsafe { (table.hipGetDevice)(&raw mut device) }),
    };
    if code != raw::SUCCESS {
        return Err(Refusal::invalid(format!("{call} answered {code}; is it a live stream?")));
    }
    u32::try_from(device).map_err(|_| Refusal::hardware(format!("{call} gave device {device}")))
}

/// The devices of CUDA that were used.
#[derive(Debug)]
pub(crate) struct CudaDevices {
    /// The program's graphs.
    pub(crate) graphs: Graphs,
    all: Mutex<Vec<(u32, Pair<CudaApi>)>>,
    /// Predicted work between two gates of a stream, if not as by default; see the environment.
    spacing_us: Option<u32>,
}

impl CudaDevices {
    /// None. Their streams have this much predicted work between two gates.
    pub(crate) fn new(spacing_us: Option<u32>) -> Self {
        Self { graphs: Graphs::default(), all: Mutex::default(), spacing_us }
    }

    /// A hardware queue on a stream of the current context's device.
    ///
    /// # Safety
    /// It is a live stream of CUDA, of the device's primary context, and outlives the queue.
    pub(crate) unsafe fn queue(
        &self,
        runtime: &Runtime,
        stream: *mut c_void,
    ) -> Answer<Box<dyn Hardware>> {
        let address = checked_address(stream)?;
        self.pair(runtime)?.queue(CuStream(stream), address, self.spacing_us)
    }

    /// A hardware queue on a stream, or, for null, on the legacy default stream of the current
    /// context, whose address stands for it.
    ///
    /// # Safety
    /// As [`CudaDevices::queue`], but the stream may be of another context.
    pub(crate) unsafe fn queue_of_any(
        &self,
        runtime: &Runtime,
        stream: *mut c_void,
    ) -> Answer<Box<dyn Hardware>> {
        let address = self.address(stream)?;
        let pair = self.pair(runtime)?;
        if current()? != pair.below.api().context() {
            return Err(Refusal::not_supported(
                "the stream is of a context of the program's own, and not of the primary one",
            ));
        }
        pair.queue(CuStream(stream), address, self.spacing_us)
    }

    /// What a stream is found by; for null it is the current context.
    pub(crate) fn address(&self, stream: *mut c_void) -> Answer<usize> {
        if stream.is_null() {
            Ok(current()?.0.expose_provenance())
        } else {
            checked_address(stream)
        }
    }

    /// Forgets the device with this number, which its queues have left.
    pub(crate) fn forget(&self, ordinal: u32) {
        self.graphs.forget(ordinal);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = all.extract_if(.., |(at, _)| *at == ordinal).collect();
        drop(all);
        drop(gone);
    }

    /// The device whose context is current on this thread.
    fn pair(&self, runtime: &Runtime) -> Answer<Pair<CudaApi>> {
        let failed = |error: CudaError| Refusal::hardware(error.to_string());
        let current = xsched_hal_cuda::current_device().map_err(failed)?;
        let ordinal = current.ok_or_else(no_context)?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pair)) = all.iter().find(|(at, _)| *at == ordinal) {
            return Ok(pair.clone());
        }
        let pair = Pair::open(runtime, CudaApi::open(ordinal))?;
        all.push((ordinal, pair.clone()));
        Ok(pair)
    }
}

fn no_context() -> Refusal {
    Refusal::not_allowed("no context is current on this thread; make the stream's current")
}

/// The context that is current on this thread.
fn current() -> Answer<CuContext> {
    let current = xsched_hal_cuda::current_context();
    current.map_err(|error| Refusal::hardware(error.to_string()))?.ok_or_else(no_context)
}

/// The address of a stream that may have a queue.
fn checked_address(stream: *mut c_void) -> Answer<usize> {
    match stream.expose_provenance() {
        // The legacy default stream, and the one of each thread.
        0..=2 => Err(Refusal::not_supported(
            "a default stream cannot have an XQueue; create a stream for it",
        )),
        address => Ok(address),
    }
}

/// A stream.
#[derive(Debug)]
struct StreamHardware<A: StreamApi> {
    pair: Pair<A>,
    stream: A::Stream,
    address: usize,
    /// Predicted work between two gates of the stream.
    spacing: Spacing,
    /// That of the gates of the XQueue that was opened last, if it has gates.
    word: Mutex<Option<GateWord<A>>>,
}

impl<A: StreamApi> Hardware for StreamHardware<A> {
    fn open(
        &self,
        level: Level,
        config: XQueueConfig,
        side: &Arc<Side>,
    ) -> Answer<XQueue<Command>> {
        // SAFETY: the caller that made the hardware queue promised that the stream outlives it.
        let stream = unsafe { StreamConfig::default().on_stream(self.stream) };
        let mut stream =
            stream.level_max(level.min(Level::Deactivate)).spacing(self.spacing.clone());
        // Known before, so that graphs can have it in gates of their own.
        let word = if level > Level::Block { self.pair.below.gate_word().ok() } else { None };
        if let Some(word) = &word {
            stream = stream.with_gate(word);
        }
        let xq = self.pair.device.queue(config, (stream, Arc::clone(side)))?;
        let word = word.filter(|_| xq.caps().level > Level::Block);
        *self.word.lock().unwrap_or_else(PoisonError::into_inner) = word;
        Ok(xq)
    }

    fn launch(&self, command: Command, hwq: HwQueueHandle) -> Answer {
        let Does::Launch(function, data) = command.does() else {
            return Err(Refusal::invalid("the command is one for the host device"));
        };
        let entered = self.pair.below.api().enter();
        let entered = entered.map_err(|error| Refusal::hardware(error.to_string()))?;
        let called = call_now(function, hwq, data);
        drop(entered);
        called
    }

    fn synchronize(&self) -> Answer {
        let failed = |error: A::Error| Refusal::hardware(error.to_string());
        let api = self.pair.below.api();
        let entered = api.enter().map_err(failed)?;
        // SAFETY: the caller that made the hardware queue promised that the stream is alive.
        let done = unsafe { api.synchronize(self.stream) };
        drop(entered);
        done.map_err(failed)
    }

    fn why_no_higher(&self) -> String {
        match self.pair.below.no_gate() {
            Some(why) => why.to_string(),
            None if self.pair.below.level() > Level::Block => {
                "others may wait for the stream; with XLOG_LEVEL=WARN the log says why".to_owned()
            }
            None => "it has no gates".to_owned(),
        }
    }

    fn is_host(&self) -> bool {
        false
    }

    fn stream(&self) -> usize {
        self.address
    }

    fn gates_of_graphs(&self) -> Option<GateAt> {
        let this = (self as &dyn Any).downcast_ref::<StreamHardware<CudaApi>>()?;
        let word = this.word.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(GateAt { device: this.pair.below.clone(), word, spacing_ns: this.spacing.ns() })
    }

    fn end_gates_of_graphs(&self) -> bool {
        self.word.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

impl<A: StreamApi> Lower for StreamSubmit<A> {
    fn lower(does: Does, side: &Arc<Side>, number: u64) -> StreamCommand<A> {
        let side = Arc::clone(side);
        StreamCommand::new(move |_| {
            // Others are refused when they are submitted.
            match does {
                Does::Launch(function, data) => call_for(function, data, &side, number),
                Does::Run(..) | Does::Compute(_) => {}
            }
            Ok(())
        })
    }
}
