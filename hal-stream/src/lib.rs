//! GPU streams as hardware queues, for any vendor whose driver has streams, events and waits for a
//! word in memory: see [`StreamApi`].
#![allow(unsafe_code)]

mod api;
mod clock;
mod command;
mod config;
mod device;
mod error;
mod flags;
mod gate;
mod graph;
mod inner;
mod launches;
#[cfg(all(test, loom))]
mod models;
mod occupancy;
mod open;
mod page;
mod predict;
mod preempt;
mod probe;
mod queue;
mod queue_config;
mod registry;
mod retire;
mod selftest;
mod shared;
mod spin;
mod submit;
mod sync;
mod word;

pub use api::{About, FlagMemory, StreamApi, StreamKind};
pub use clock::{ClockProbe, ClockRead, Stamps};
pub use command::StreamCommand;
pub use config::StreamDeviceConfig;
pub use device::StreamDevice;
pub use error::{NoGate, StreamError};
pub use graph::{GraphError, GraphNode, gates_in_graph};
pub use page::{Holder, SHARED_WORDS, SharedPage};
pub use predict::Spacing;
pub use preempt::StreamPreempt;
pub use queue_config::StreamConfig;
pub use retire::StreamRetire;
pub use shared::{SharedGate, SharedGates};
pub use spin::{SpinApi, SpinRate};
pub use submit::StreamSubmit;
pub use word::GateWord;
