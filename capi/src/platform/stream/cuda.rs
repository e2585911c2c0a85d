//! Streams of CUDA.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use xsched::{Device, Runtime};
use xsched_hal_cuda::table::{CuContext, CuStream, STREAM_PER_THREAD};
use xsched_hal_cuda::{CudaApi, CudaError};
use xsched_hal_stream::{Gates, StreamGpu};
use xsched_node::Link;

use super::units::Units;
use super::{Pair, Vendor, Wrapped, checked_address};
use crate::graphs::Graphs;
use crate::platform::Hardware;
use crate::refusal::{Answer, Refusal};

/// The contexts of CUDA that were used.
#[derive(Debug)]
pub(crate) struct CudaDevices {
    /// The program's graphs.
    pub(crate) graphs: Graphs,
    known: Mutex<CudaKnown>,
    /// As that of [`super::HipDevices`].
    pub(crate) link: OnceLock<Arc<Link>>,
    /// Predicted work between two gates of a stream, if not as by default; see the environment.
    spacing_us: Option<u32>,
    /// With the scheduler of the node, it holds each stream by itself.
    streams_apart: bool,
}

/// A GPU of the runtime, whatever driver contexts there are.
#[derive(Debug)]
struct OpenedGpu {
    below: StreamGpu,
    device: Device<Wrapped<<CudaApi as Vendor>::Gpu>>,
    units: Option<Units>,
}

impl OpenedGpu {
    fn of(pair: &Pair<CudaApi>) -> Self {
        let Pair { below, device, lv3: (), units } = pair.clone();
        Self { below: below.gpu(), device, units }
    }

    /// The GPU by another driver context.
    fn in_context(&self, api: Result<CudaApi, CudaError>) -> Answer<Pair<CudaApi>> {
        let api = api.map_err(|error| Refusal::hardware(error.to_string()))?;
        let (device, units) = (self.device.clone(), self.units.clone());
        Ok(Pair { below: self.below.in_context(api), device, lv3: (), units })
    }
}

#[derive(Debug, Default)]
struct CudaKnown {
    contexts: Vec<(CuContext, Pair<CudaApi>)>,
    /// GPUs by their devices' numbers. They stay when their contexts end.
    gpus: Vec<(u32, OpenedGpu)>,
}

impl CudaDevices {
    /// None. Their streams have this much predicted work between two gates.
    pub(crate) fn new(spacing_us: Option<u32>, streams_apart: bool) -> Self {
        let (graphs, known, link) = (Graphs::default(), Mutex::default(), OnceLock::new());
        Self { graphs, known, link, spacing_us, streams_apart }
    }

    fn known(&self) -> MutexGuard<'_, CudaKnown> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hardware queue on a stream. One of a context other than a primary one can have one only if
    /// something tells when that context ends.
    ///
    /// # Safety
    /// It is a live stream of CUDA, and outlives the queue.
    pub(crate) unsafe fn queue(
        &self,
        runtime: &Runtime,
        stream: *mut c_void,
        ends_are_told: bool,
    ) -> Answer<Box<dyn Hardware>> {
        let address = checked_address(stream)?;
        let stream = CuStream(stream);
        // SAFETY: as the caller promises.
        let pair = unsafe { self.pair(runtime, stream, ends_are_told) }?;
        pair.queue(stream, address, self.spacing_us)
    }

    /// A hardware queue on a stream; or, for null, on the legacy default stream of the current
    /// context, whose address stands for it; or, for `CU_STREAM_PER_THREAD`, on this thread's.
    ///
    /// # Safety
    /// As [`CudaDevices::queue`]. The end of each context is told.
    pub(crate) unsafe fn queue_of_any(
        &self,
        runtime: &Runtime,
        stream: *mut c_void,
    ) -> Answer<Box<dyn Hardware>> {
        let address = self.address(stream)?;
        let stream = CuStream(stream);
        // SAFETY: as the caller promises.
        let pair = unsafe { self.pair(runtime, stream, true) }?;
        match address {
            Some(address) => pair.queue(stream, address, self.spacing_us),
            None => Ok(pair.queue_of_thread(stream)),
        }
    }

    /// Key of a stream: for null it is the current context, and a thread's default stream
    /// is not found.
    pub(crate) fn address(&self, stream: *mut c_void) -> Answer<Option<usize>> {
        if CuStream(stream) == STREAM_PER_THREAD {
            return Ok(None);
        }
        if stream.is_null() {
            return Ok(Some(current()?.0.expose_provenance()));
        }
        checked_address(stream).map(Some)
    }

    /// Forgets a context, which its queues have left.
    pub(crate) fn forget(&self, context: CuContext) {
        self.graphs.forget(context);
        let mut known = self.known();
        let gone: Vec<_> = known.contexts.extract_if(.., |(one, _)| *one == context).collect();
        drop(known);
        drop(gone);
    }

    /// As that of [`super::HipDevices`].
    pub(crate) fn unopened(&self) -> Option<impl Sized + '_> {
        let known = self.known();
        known.gpus.is_empty().then_some(known)
    }

    /// The gates of all contexts.
    pub(crate) fn gates(&self) -> Vec<Gates> {
        self.known().contexts.iter().map(|(_, pair)| pair.below.gates()).collect()
    }

    /// The device of a stream's context.
    ///
    /// # Safety
    /// The stream is alive.
    unsafe fn pair(
        &self,
        runtime: &Runtime,
        stream: CuStream,
        ends_are_told: bool,
    ) -> Answer<Pair<CudaApi>> {
        // SAFETY: as the caller promises.
        let context = unsafe { xsched_hal_cuda::context_of(stream) }.map_err(failed)?;
        let mut known = self.known();
        if let Some((_, pair)) = known.contexts.iter().find(|(one, _)| *one == context) {
            return Ok(pair.clone());
        }
        // SAFETY: it has a live stream, or is current.
        let (ordinal, is_primary) =
            unsafe { xsched_hal_cuda::device_of(context) }.map_err(failed)?;
        if !is_primary && !ends_are_told {
            return Err(Refusal::not_supported(
                "the stream is of a context of the program's own, and without an interposer \
                 nothing tells when that ends; use streams of the primary context",
            ));
        }
        let api = if is_primary {
            CudaApi::open(ordinal)
        } else {
            // SAFETY: it is forgotten before it ends.
            unsafe { CudaApi::in_context(context) }
        };
        let pair = match known.gpus.iter().find(|(at, _)| *at == ordinal) {
            Some((_, gpu)) => gpu.in_context(api)?,
            None => {
                let link = self.link.get();
                let mut pair = Pair::open(runtime, api, link, false)?;
                let apart = link.filter(|_| self.streams_apart);
                pair.units = apart.map(|link| Units::new(link, runtime));
                known.gpus.push((ordinal, OpenedGpu::of(&pair)));
                pair
            }
        };
        known.contexts.push((context, pair.clone()));
        Ok(pair)
    }
}

fn failed(error: CudaError) -> Refusal {
    match error {
        CudaError::NoContext => Refusal::not_allowed(error.to_string()),
        error => Refusal::hardware(error.to_string()),
    }
}

/// The context that is current on this thread.
fn current() -> Answer<CuContext> {
    let current = xsched_hal_cuda::current_context().map_err(failed)?;
    current.ok_or_else(|| failed(CudaError::NoContext))
}
