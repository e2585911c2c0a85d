//! Bounds of the halves of a queue that several threads share.

use xsched_core::hal::{Retire, Steps, Submit};

/// A half that launches commands which any thread may submit.
pub(crate) trait Launching: Submit<Payload: Sized + Send> + Send + 'static {}
/// A half that watches completions on any thread.
pub(crate) trait Retiring: Retire + Send + 'static {}
/// A half that preempts on any thread.
pub(crate) trait Stepping: Steps + Send + 'static {}

impl<S: Submit<Payload: Sized + Send> + Send + 'static> Launching for S {}
impl<R: Retire + Send + 'static> Retiring for R {}
impl<P: Steps + Send + 'static> Stepping for P {}
