//! GPU streams as hardware queues, for any vendor whose driver has streams, events and waits for a
//! word in memory: see [`StreamApi`].
#![allow(unsafe_code)]

mod api;
mod command;

pub use api::{About, FlagMemory, StreamApi, StreamKind};
pub use command::StreamCommand;
