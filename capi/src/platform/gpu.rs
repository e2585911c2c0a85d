//! GPUs as devices of the runtime, and what adds level 3 to those of AMD.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use xsched_core::hal::{Backend, DeviceInfo, ErrorType, HalError, Halves, Retire, Steps};
use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_hal_cuda::CudaApi;
use xsched_hal_hip::HipApi;
use xsched_hal_kfd::hip::HipLv3;
use xsched_hal_kfd::probe::ProbeConfig;
use xsched_hal_kfd::{KfdDevice, KfdQueueConfig, KfdSubmit, Reason};
use xsched_hal_stream::{HeldRing, StreamApi, StreamConfig, StreamDevice};

use crate::backend::Lower;
use crate::command::Does;
use crate::interposer::Interposer;
use crate::side::Side;

/// A GPU, whose queues are each opened on one of its devices: the same GPU has one for each driver
/// context. So queues of all of them are scheduled with each other.
#[derive(Debug)]
pub(super) struct Gpu<A>(&'static str, PhantomData<fn() -> A>);

impl<A: StreamApi> ErrorType for Gpu<A> {
    type Error = <StreamDevice<A> as ErrorType>::Error;
}

impl<A: StreamApi> Backend for Gpu<A> {
    type Config = (StreamDevice<A>, StreamConfig<A>);
    type Submit = <StreamDevice<A> as Backend>::Submit;
    type Retire = <StreamDevice<A> as Backend>::Retire;
    type Preempt = <StreamDevice<A> as Backend>::Preempt;

    fn open(
        &mut self,
        id: QueueId,
        (mut below, config): Self::Config,
    ) -> Result<Halves<Self::Submit, Self::Retire, Self::Preempt>, Self::Error> {
        below.open(id, config)
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: self.0, units: 0 }
    }
}

/// A queue that is to be opened.
#[derive(Debug)]
pub(super) struct Asked<A: StreamApi> {
    pub(super) below: StreamDevice<A>,
    pub(super) config: StreamConfig<A>,
    pub(super) stream: A::Stream,
    pub(super) level: Level,
    /// Where it is said why it has no level 3.
    pub(super) reason: Reason,
    /// Source that knows whether its ring is held as a whole.
    pub(super) held: HeldRing,
}

/// A vendor whose streams are hardware queues.
pub(super) trait Vendor: StreamApi {
    /// Interposer of its programs.
    const INTERPOSER: Interposer;

    /// A GPU of the vendor's, up to the highest level that there is.
    type Gpu: Backend<
            Submit: Lower<Payload: Send> + Send + 'static,
            Retire: Retire + Send + 'static,
            Preempt: Steps + Send + 'static,
            Error: HalError,
        > + Debug
        + Send
        + 'static;
    /// Driver that adds level 3.
    type Lv3: Clone + Debug + Send + Sync + 'static;

    /// A GPU whose first device is `below`.
    fn gpu(below: &StreamDevice<Self>) -> (Self::Gpu, Self::Lv3)
    where
        Self: Sized;

    /// The configuration of a queue.
    fn config(asked: Asked<Self>) -> <Self::Gpu as Backend>::Config
    where
        Self: Sized;
}

impl Vendor for CudaApi {
    const INTERPOSER: Interposer = Interposer::Cuda;

    type Gpu = Gpu<Self>;
    type Lv3 = ();

    fn gpu(below: &StreamDevice<Self>) -> (Gpu<Self>, ()) {
        (Gpu(below.api().name(), PhantomData), ())
    }

    fn config(asked: Asked<Self>) -> (StreamDevice<Self>, StreamConfig<Self>) {
        (asked.below, asked.config)
    }
}

impl Vendor for HipApi {
    const INTERPOSER: Interposer = Interposer::Hip;

    type Gpu = KfdDevice<Gpu<Self>>;
    type Lv3 = Arc<HipLv3>;

    fn gpu(below: &StreamDevice<Self>) -> (Self::Gpu, Arc<HipLv3>) {
        // It makes no call about a queue until the first one at level 3.
        let lv3 = Arc::new(HipLv3::open(below.clone(), ProbeConfig::from_environment()));
        (lv3.device(Gpu(below.api().name(), PhantomData)), lv3)
    }

    fn config(asked: Asked<Self>) -> <Self::Gpu as Backend>::Config {
        let Asked { below, config, stream, level, reason, held } = asked;
        let stream = stream.as_raw().expose_provenance();
        let config = KfdQueueConfig::new((below, config)).level_max(level);
        let config = config.for_stream(stream).reason_to(reason);
        config.held_together(Arc::new(move || held.is_held()))
    }
}

impl<S: Lower> Lower for KfdSubmit<S> {
    fn lower(does: Does, side: &Arc<Side>, number: u64) -> Self::Payload {
        S::lower(does, side, number)
    }
}

/// Answer of a queue about level 3.
pub(super) fn said(reason: &Reason) -> Option<String> {
    reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A place for that.
pub(super) fn reason() -> Reason {
    Arc::new(Mutex::new(None))
}
