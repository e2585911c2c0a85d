//! GPU streams as hardware queues, for any vendor whose driver has streams, events and waits for a
//! word in memory.
//!
//! A driver implements [`StreamApi`]; [`StreamDevice`] makes a backend of it. A queue launches
//! [`StreamCommand`]s into its stream and sees them complete by events. *Gates*, waits for a word
//! in memory, lie between the commands: closing a gate is one store of the host, and holds what
//! was launched and has not started (Lv2). A device whose gates fail their self-test has queues at
//! Lv1, and [`StreamDevice::no_gate`] says why.
//!
//! ```
//! use xsched_core::hal::Backend;
//! use xsched_core::id::QueueId;
//! use xsched_hal_stream::{
//!     Spacing, StreamApi, StreamConfig, StreamDevice, StreamDeviceConfig, StreamError,
//! };
//!
//! fn open_queue<A: StreamApi>(api: A) -> Result<(), StreamError<A::Error>> {
//!     let mut device = StreamDevice::new(api, StreamDeviceConfig::default())?;
//!     if let Some(why) = device.no_gate() {
//!         println!("queues are at Lv1: {why}");
//!     }
//!     // A gate after each 100 µs of predicted work.
//!     let config = StreamConfig::default().spacing(Spacing::of_ns(100_000));
//!     let queue = device.open(QueueId::new(0, 0), config)?;
//!     println!("{}", queue.caps.level);
//!     Ok(())
//! }
//! ```
//!
//! `xsched-hal-cuda` and `xsched-hal-hip` are such drivers. A program gives the device to the
//! runtime of the crate `xsched`, which opens the queues.
#![expect(unsafe_code, reason = "calls drivers, and shares memory with devices")]

mod api;
mod blocked;
mod burst;
mod clock;
mod command;
mod config;
mod connections;
mod device;
mod device_time;
mod error;
mod events;
mod flags;
mod gate;
mod gate_closure;
mod gate_events;
mod gate_updates;
mod gated_stream;
mod graph;
mod growing_ring;
mod held_ring;
mod inner;
mod launches;
#[cfg(all(test, loom))]
mod models;
mod open;
mod preempt;
mod probe;
mod queue;
mod queue_config;
mod reach;
mod registry;
mod retire;
mod selftest;
mod shared;
mod spacing;
mod spin;
mod stops;
mod submit;
mod sync;
mod thread_state;
mod timeline;
mod word;

pub use api::{About, FlagMemory, StreamApi, StreamKind};
pub use clock::{ClockProbe, ClockRead, Stamps};
pub use command::StreamCommand;
pub use config::StreamDeviceConfig;
pub use device::{AllOpen, Gates, StreamDevice, StreamGpu};
pub use error::{NoGate, StreamError};
pub use graph::{GraphError, GraphNode, gates_in_graph, in_line, longest_path};
pub use held_ring::HeldRing;
pub use preempt::StreamPreempt;
pub use queue_config::{Reason, StreamConfig};
pub use reach::Reach;
pub use registry::CALLS;
pub use retire::StreamRetire;
pub use shared::{SharedGate, SharedGates};
pub use spacing::{GatesIn, HeldFor, Spacing, spacing_ns};
pub use spin::{SpinApi, SpinRate, enough_work};
pub use submit::StreamSubmit;
pub use timeline::{LastPoint, Point, Timeline};
pub use word::GateWord;
pub use xsched_node::{Holder, PageSource, SharedPage};
