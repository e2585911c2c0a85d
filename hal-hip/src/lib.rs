//! AMD GPUs as devices: HIP's streams behind [`StreamApi`](xsched_hal_stream::StreamApi).
//!
//! Nothing is linked. The runtime, `libamdhip64`, is looked for when a device is opened
//! ([`HipLibrary`]), so programs with this crate build and start on machines without ROCm and get
//! an error that says what was tried.
//!
//! ```no_run
//! use xsched_core::hal::{Backend, Submit};
//! use xsched_core::id::{CmdId, QueueId};
//! use xsched_hal_hip::{HipApi, HipConfig};
//! use xsched_hal_stream::{SpinApi, StreamCommand, StreamConfig, StreamDevice};
//!
//! let api = HipApi::open(HipConfig::default())?;
//! api.load_spin_kernels()?;
//! let mut device = StreamDevice::new(api, Default::default())?;
//! let mut queue = device.open(QueueId::new(0, 0), StreamConfig::default())?;
//! let empty = device.api().empty_kernel()?;
//! queue.submit.launch(CmdId(0), &StreamCommand::native(empty), true)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * [`HipApi`] is a device.
//! * [`HipNative`] is a command: a kernel, a graph, a fill or a copy.
//! * [`HipGraph`] is a row of commands that is launched as one.
//! * [`HipModule`] and [`HipFunction`] are where kernels come from.
//! * [`WaitLowering`] is what the runtime makes of a wait for a word.
//! * [`loaded`] finds what the process has loaded, under whatever names.
//! * [`raw`] has the declarations of HIP's C interface that are used, and no others.
//!
//! `docs/src/guides/amd.md` says which versions were checked, how, and what has not run on a
//! GPU yet.
#![expect(unsafe_code, reason = "calls drivers, and shares memory with devices")]

mod api;
mod arguments;
mod driver;
mod endings;
mod error;
mod function;
mod graph;
mod kernels;
mod library;
pub mod loaded;
mod lowering;
mod memory;
mod module;
mod native;
pub mod raw;
mod reset;
mod ring;
mod rings;
mod spin;

pub use api::{HipApi, HipConfig, Rings};
pub use arguments::{Argument, Arguments};
pub use driver::{Entered, HipEvent, HipStream, leave_captures_alone};
pub use error::{HipError, Tried};
pub use function::HipFunction;
pub use graph::HipGraph;
pub use library::{HipLibrary, LIBRARY_VARIABLE};
pub use lowering::WaitLowering;
pub use module::HipModule;
pub use native::{Direction, HipNative};
pub use ring::HipRing;
pub use rings::RingObserver;
pub use spin::KERNELS_VARIABLE;
pub use xsched_hal_stream::{StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig};
