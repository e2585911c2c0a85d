//! Streams of CUDA.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use xsched::Runtime;
use xsched_hal_cuda::table::{CuContext, CuStream, STREAM_PER_THREAD};
use xsched_hal_cuda::{CudaApi, CudaError};
use xsched_hal_stream::Gates;
use xsched_node::Link;

use super::units::Units;
use super::{Pair, checked_address};
use crate::graphs::Graphs;
use crate::platform::Hardware;
use crate::refusal::{Answer, Refusal};

/// The contexts of CUDA that were used.
#[derive(Debug)]
pub(crate) struct CudaDevices {
    /// The program's graphs.
    pub(crate) graphs: Graphs,
    all: Mutex<Vec<CudaContext>>,
    /// As that of [`super::HipDevices`].
    pub(crate) link: OnceLock<Arc<Link>>,
    /// Predicted work between two gates of a stream, if not as by default; see the environment.
    spacing_us: Option<u32>,
    /// With the scheduler of the node, it holds each stream by itself.
    streams_apart: bool,
}

#[derive(Debug)]
struct CudaContext {
    context: CuContext,
    /// Number of the device.
    ordinal: u32,
    pair: Pair<CudaApi>,
}

impl CudaDevices {
    /// None. Their streams have this much predicted work between two gates.
    pub(crate) fn new(spacing_us: Option<u32>, streams_apart: bool) -> Self {
        let (graphs, all, link) = (Graphs::default(), Mutex::default(), OnceLock::new());
        Self { graphs, all, link, spacing_us, streams_apart }
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
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = all.extract_if(.., |known| known.context == context).collect();
        drop(all);
        drop(gone);
    }

    /// As that of [`super::HipDevices`].
    pub(crate) fn unopened(&self) -> Option<impl Sized + '_> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.is_empty().then_some(all)
    }

    /// The gates of all contexts.
    pub(crate) fn gates(&self) -> Vec<Gates> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|known| known.pair.below.gates()).collect()
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
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| known.context == context) {
            return Ok(known.pair.clone());
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
        let pair = match all.iter().find(|known| known.ordinal == ordinal) {
            Some(beside) => beside.pair.in_context(api)?,
            None => {
                let link = self.link.get();
                let mut pair = Pair::open(runtime, api, link, false)?;
                let apart = link.filter(|_| self.streams_apart);
                pair.units = apart.map(|link| Units::new(link, runtime));
                pair
            }
        };
        all.push(CudaContext { context, ordinal, pair: pair.clone() });
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
