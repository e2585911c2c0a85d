//! Messages between the processes of a node and its scheduler, `xschedd`, and the processes'
//! half of it.
//!
//! A process connects to a Unix socket ([`SocketPath`]) and says what it is ([`Request::Hello`]).
//! For each of its GPUs it hands over pages of gates ([`SharedPage`], [`Request::Attach`]). From
//! then on the daemon holds the process by closing all its gates, which needs no help of it. Where
//! queues have none, or are held deeper than by gates, a thread of the process sleeps on a gate,
//! which the daemon wakes, and holds them ([`Unit::follow`]). The process says in the page's header
//! whether it has work ([`Load`]), and wakes the daemon by an eventfd.
//!
//! The process is never stuck with a daemon that is gone: the end of the socket opens its gates at
//! once, and a daemon that is silent loses its holds after [`LEASE`].

mod descriptors;
pub mod entity;
mod follow;
mod grant;
mod handshake;
mod layout;
mod link;
mod load;
#[cfg(all(test, loom))]
mod models;
mod page;
mod socket;
mod status_parts;
mod wakeup;
mod watch;
mod wire;
mod words;

pub use grant::{Grant, Grantee};
pub use layout::{GATES_PER_PAGE, NodeRank, PAGE_VERSION, PageGate, PageHeader};
pub use link::{Link, PAGES_BELOW_MAX, Unit, socket_path};
pub use load::Load;
pub use page::{Holder, PageError, PageSource, SharedPage};
pub use socket::SocketPath;
pub use status_parts::Entry;
pub use watch::{wake_watch, watch, watch_page};
pub use wire::{
    Answer, Changed, ClientStatus, GpuStatus, MESSAGE_MAX, NodeError, Outsider, Place, Request,
    SCHEMA, Status, VERSION, Wire,
};
pub use words::OWNER_BIT;

use std::time::Duration;

/// A daemon that is silent for longer loses its holds. It renews them every quarter of this.
pub const LEASE: Duration = Duration::from_millis(100);
