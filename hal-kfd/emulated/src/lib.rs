//! `/dev/kfd` and its sysfs without a GPU, for tests.
#![allow(unsafe_code)]

mod config;
mod in_process;
mod memory;
pub mod model;
mod wire;

pub use config::{Config, Gpu, Latency, Private};
pub use in_process::InProcess;
