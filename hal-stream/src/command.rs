//! Commands of a stream.

use std::fmt;
use std::sync::Arc;

use crate::api::StreamApi;
use crate::reach::Reach;

/// Launches something into the stream it gets.
type Launch<A> =
    dyn Fn(<A as StreamApi>::Stream) -> Result<(), <A as StreamApi>::Error> + Send + Sync;

/// A command for a stream: a vendor's own, or a closure that launches something.
///
/// A launch happens exactly once, with the device current. Arguments that the launch call copies,
/// as kernel parameters are, need not outlive it.
///
/// ```
/// use xsched_hal_stream::{StreamApi, StreamCommand};
///
/// fn of_known_length<A: StreamApi>(native: A::Native) -> StreamCommand<A> {
///     // 250 µs of device time.
///     StreamCommand::native(native).expected_ns(250_000)
/// }
/// ```
pub struct StreamCommand<A: StreamApi> {
    pub(crate) body: Body<A>,
    pub(crate) kind: u32,
    pub(crate) expected_ns: Option<u64>,
    pub(crate) reach: Reach,
}

pub(crate) enum Body<A: StreamApi> {
    Native(A::Native),
    Closure(Arc<Launch<A>>),
    /// Nothing: its caller launches it.
    Caller,
}

impl<A: StreamApi> StreamCommand<A> {
    /// A command of the vendor's.
    #[must_use]
    pub const fn native(command: A::Native) -> Self {
        Self { body: Body::Native(command), kind: 0, expected_ns: None, reach: Reach::Ring }
    }

    /// A closure that launches one kernel, copy or graph into the stream it gets, and does not
    /// block. What it launches must not wait for another XQueue.
    #[must_use]
    pub fn new(launch: impl Fn(A::Stream) -> Result<(), A::Error> + Send + Sync + 'static) -> Self {
        let body = Body::Closure(Arc::new(launch));
        Self { body, kind: 0, expected_ns: None, reach: Reach::Ring }
    }

    /// Command for what a caller launches by itself, between [`Submit::begin_launch`] and its end.
    ///
    /// [`Submit::begin_launch`]: xsched_core::hal::Submit::begin_launch
    #[must_use]
    pub const fn of_caller() -> Self {
        Self { body: Body::Caller, kind: 0, expected_ns: None, reach: Reach::Ring }
    }

    /// Says that commands of this kind take about equally long, so that the measured times of some
    /// predict the rest. Any number; a queue tells 512 kinds apart. Commands that say
    /// nothing are of kind 0.
    #[must_use]
    pub const fn of_kind(mut self, kind: u32) -> Self {
        self.kind = kind;
        self
    }

    /// Says how long it will take, in nanoseconds of device time. Goes before what was measured of
    /// its kind. Gates are placed by this.
    #[must_use]
    pub const fn expected_ns(mut self, ns: u64) -> Self {
        self.expected_ns = Some(ns);
        self
    }

    /// Says which queues of the hardware it goes into. What is known of a vendor's own command is
    /// not taken back by this.
    #[must_use]
    pub const fn reaching(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// Queues of the hardware that it goes into.
    pub(crate) fn reach(&self, api: &A) -> Reach {
        match &self.body {
            Body::Native(command) => self.reach.max(api.reach_of(command)),
            Body::Closure(_) | Body::Caller => self.reach,
        }
    }

    /// Launches it, past any queue.
    ///
    /// # Errors
    /// If the driver refuses.
    ///
    /// # Safety
    /// The stream is alive and the device current.
    pub unsafe fn launch_into(&self, api: &A, stream: A::Stream) -> Result<(), A::Error> {
        match &self.body {
            // SAFETY: as promised by the caller, and by the maker of the command.
            Body::Native(command) => unsafe { api.launch_native(command, stream) },
            Body::Closure(launch) => launch(stream),
            Body::Caller => Ok(()),
        }
    }
}

impl<A: StreamApi> Clone for StreamCommand<A> {
    fn clone(&self) -> Self {
        let body = match &self.body {
            Body::Native(command) => Body::Native(command.clone()),
            Body::Closure(launch) => Body::Closure(Arc::clone(launch)),
            Body::Caller => Body::Caller,
        };
        let (kind, expected_ns, reach) = (self.kind, self.expected_ns, self.reach);
        Self { body, kind, expected_ns, reach }
    }
}

impl<A: StreamApi> fmt::Debug for StreamCommand<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("StreamCommand");
        match &self.body {
            Body::Native(command) => out.field("native", command),
            Body::Closure(_) => out.field("closure", &".."),
            Body::Caller => out.field("caller", &".."),
        };
        out.field("kind", &self.kind).field("expected_ns", &self.expected_ns);
        out.field("reach", &self.reach).finish()
    }
}
