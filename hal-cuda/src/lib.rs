//! CUDA streams for XSched, by the driver API, which is loaded at run time: this links and says
//! "no CUDA driver" on a machine without one.
//!
//! ```no_run
//! use xsched_hal_cuda::{CudaApi, StreamDevice, StreamDeviceConfig};
//!
//! let device = StreamDevice::new(CudaApi::open(0)?, StreamDeviceConfig::default())?;
//! println!("{}: {}", device.about().device, device.level());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![allow(unsafe_code)]

mod api;
mod command;
mod error;
mod exec;
mod graph;
mod spin;
pub mod table;

pub use api::{CudaApi, Entered, current_device, device_count};
pub use command::{CudaCommand, CudaKernel, PARAMETERS_MAX};
pub use error::{CudaError, LoadError};
pub use exec::CudaGraphExec;
pub use graph::{CudaGraph, NodeTimes};
pub use spin::Kernels;
pub use xsched_hal_stream::{
    ClockRead, GateWord, Holder, SharedGate, SharedGates, SharedPage, Spacing, SpinApi, SpinRate,
    StreamApi, StreamCommand, StreamConfig, StreamDevice, StreamDeviceConfig,
};

/// Reads a CUDA device's clock.
pub type ClockProbe = xsched_hal_stream::ClockProbe<CudaApi>;
/// Places where kernels of a CUDA device write down when they run.
pub type Stamps = xsched_hal_stream::Stamps<CudaApi>;
