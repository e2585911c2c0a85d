//! A device without hardware, for tests: what emulated drivers and runtimes have in common.
//!
//! * A [`Device`] has [`Stream`]s, which carry out [`Work`] in order, on threads of their own or
//!   shared ones ([`ring`]), and an error that loses it.
//! * A legacy default stream waits for all blocking streams, and they for it.
//! * What is launched into a stream that is captured becomes a [`Graph`], whose nodes run in an
//!   order that their edges allow; a node that waits holds up no other one.
//! * [`Memory`] knows which addresses may be touched, and [`Handles`] which handles exist.
//!
//! Answers are the numbers that CUDA and HIP share ([`code`]). Device memory is the host's.
#![allow(unsafe_code)]

pub mod c;
mod capture;
pub mod code;
mod device;
mod event;
mod graph;
mod handles;
mod memory;
pub mod ring;
mod slices;
pub mod spin;
mod stream;
mod work;

pub use capture::{Capture, exchange_mode};
pub use device::{Device, MakeLeave, Place, Units, check_safe};
pub use event::{Event, Record};
pub use graph::{Graph, Node};
pub use handles::Handles;
pub use memory::{Kind as MemoryKind, Memory, pointer, word32, word64};
pub use ring::await_condition;
pub use stream::{NON_BLOCKING, Stream};
pub use work::{Compare, Kind, Work};
