//! GPU streams as hardware queues, for any vendor whose driver has streams, events and waits for a
//! word in memory: see [`StreamApi`].
#![allow(unsafe_code)]

mod api;
mod board;
mod clock;
mod command;
mod config;
mod device;
mod error;
mod flags;
mod gate;
mod graph;
#[cfg(all(test, loom))]
mod models;
mod occupancy;
mod open;
mod page;
mod predict;
mod preempt;
mod probe;
mod queue;
mod retire;
mod selftest;
mod shared;
mod spin;
mod submit;
mod sync;
mod teardown;
mod watch;
mod word;

pub use api::{About, FlagMemory, StreamApi, StreamKind};
pub use clock::{ClockProbe, ClockRead, Stamps};
pub use command::StreamCommand;
pub use config::{StreamConfig, StreamDeviceConfig};
pub use device::StreamDevice;
pub use error::StreamError;
pub use graph::{GraphError, GraphNode, gates_in_graph};
pub use page::{Holder, SHARED_WORDS, SharedPage};
pub use predict::Spacing;
pub use preempt::StreamPreempt;
pub use retire::StreamRetire;
pub use selftest::NoGate;
pub use shared::{SharedGate, SharedGates};
pub use spin::{SpinApi, SpinRate};
pub use submit::StreamSubmit;
pub use word::GateWord;
