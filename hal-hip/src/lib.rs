//! AMD GPUs as devices: HIP's streams behind [`StreamApi`](xsched_hal_stream::StreamApi).
//!
//! Nothing is linked. The runtime, `libamdhip64`, is looked for when a device is opened
//! ([`HipLibrary`]), so programs with this crate build and start on machines without ROCm and get
//! an error that says what was tried.
//!
//! * [`HipApi`] is a device.
//! * [`HipNative`] is a command: a kernel, a graph, a fill or a copy.
//! * [`HipGraph`] is a row of commands that is launched as one.
//! * [`HipModule`] and [`HipFunction`] are where kernels come from.
//! * [`WaitLowering`] is what the runtime makes of a wait for a word.
//! * [`raw`] has the declarations of HIP's C interface that are used, and no others.
//!
//! `docs/hip.md` says which versions were checked, how, and what has not run on a GPU yet.
#![allow(unsafe_code)]

mod api;
mod arguments;
mod error;
mod graph;
mod library;
mod lowering;
mod memory;
mod native;
pub mod raw;
mod spin;

pub use api::{Entered, HipApi, HipConfig, HipEvent, HipStream, Rings};
pub use arguments::{Argument, Arguments};
pub use error::{HipError, Tried};
pub use graph::HipGraph;
pub use library::{HipLibrary, LIBRARY_VARIABLE};
pub use lowering::WaitLowering;
pub use native::{Direction, HipFunction, HipModule, HipNative};
pub use spin::KERNELS_VARIABLE;
