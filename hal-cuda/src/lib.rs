//! CUDA devices as backends of XSched, by the driver API.
//!
//! Nothing is linked. The driver, `libcuda.so.1` or the library that `XSCHED_CUDA_LIB` names, is
//! loaded when a device is opened, so a program with this crate builds and starts on a machine
//! without one, where [`CudaApi::open`] answers [`CudaError::Load`].
//!
//! ```no_run
//! use xsched_core::hal::{Backend, Submit};
//! use xsched_core::id::{CmdId, QueueId};
//! use xsched_hal_cuda::{
//!     CudaApi, CudaCommand, StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig,
//! };
//!
//! let mut device = StreamDevice::new(CudaApi::open(0)?, StreamDeviceConfig::default())?;
//! println!("{}: {}", device.about().device, device.level());
//! let mut queue = device.open(QueueId::new(0, 0), StreamConfig::default())?;
//! let empty = CudaCommand::kernel(device.api().kernels().empty());
//! queue.submit.launch(CmdId(0), &StreamCommand::native(empty), true)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * [`CudaApi`] is a device, by its primary context or another one; [`StreamDevice`] makes a
//!   backend of it.
//! * [`CudaCommand`] is a command: a kernel ([`CudaKernel`]), a copy, a fill or a graph.
//! * [`CudaGraph`] is a graph with gates of its own, so that a hold need not wait for its end.
//! * [`Kernels`] are kernels of a known length, for calibrated load.
//! * [`table`] has the driver's functions that are used.
#![expect(unsafe_code, reason = "calls drivers, and shares memory with devices")]

mod api;
mod command;
mod driver;
mod error;
mod exec;
mod gated;
mod graph;
mod kernels;
mod launch_order;
mod spin;
pub mod table;

pub use api::{CudaApi, context_of, current_context, device_count, device_of, driver_version};
pub use command::{CudaCommand, CudaKernel, PARAMETERS_MAX};
pub use driver::{Entered, leave_captures_alone};
pub use error::CudaError;
pub use exec::CudaGraphExec;
pub use gated::{GateAt, GatedCopy, launch as launch_graph};
pub use graph::{CudaGraph, NodeTimes};
pub use kernels::Kernels;
pub use table::LoadError;
pub use xsched_hal_stream::{
    ClockRead, GateWord, Holder, PageSource, SharedGate, SharedGates, SharedPage, Spacing, SpinApi,
    SpinRate, StreamApi, StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig,
};

/// Reads a CUDA device's clock.
pub type ClockProbe = xsched_hal_stream::ClockProbe<CudaApi>;
/// Places where kernels of a CUDA device write down when they run.
pub type Stamps = xsched_hal_stream::Stamps<CudaApi>;
