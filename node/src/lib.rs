//! What the processes of a node and its scheduler, `xschedd`, say to each other, and the processes'
//! half of it.
//!
//! A process connects to a Unix socket ([`socket_path`]) and says what it is ([`Request::Hello`]).
//! For each of its GPUs it hands over pages of gate words ([`Request::Attach`]). From then on the
//! daemon holds the process by closing all its gates, which needs no help of it. Where queues have
//! none, or are held deeper than by gates, a thread of the process sleeps on a gate, which the
//! daemon wakes, and holds them ([`Unit::follow`]). The process says in the page's header whether
//! it has work ([`Load`]), and wakes the daemon by an eventfd.
//!
//! The process is never stuck with a daemon that is gone: the end of the socket opens its gates at
//! once, and a daemon that is silent loses its holds after [`LEASE`].

mod follow;
mod link;
mod load;
#[cfg(all(test, loom))]
mod models;
mod pages;
mod wire;

pub use follow::tell;
pub use link::{Link, Unit, socket_path};
pub use load::{
    Load, Others, count_waited, is_loaded, levels, loaded_queues, others, past, retired,
    set_others, set_unwanted, set_wanted, used_ns, waited_us,
};
pub use pages::Entry;
pub use wire::{
    Answer, Changed, ClientStatus, GpuStatus, MESSAGE_MAX, NodeError, Outsider, Place, Request,
    SCHEMA, Status, VERSION, Wire, holder,
};

use std::time::Duration;

pub use xsched_hal_stream::{PageSource, SharedPage};

/// A daemon that is silent for longer loses its holds. It renews them every quarter of this.
pub const LEASE: Duration = Duration::from_millis(100);
