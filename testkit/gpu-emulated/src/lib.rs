//! Plays a GPU of AMD's in the process that uses it: a library to preload, on the emulated driver
//! (`kfd-emulate --gpu`).
//!
//! AMD's own runtime makes its calls to the emulated driver, which answers them. This library sees
//! them at the C library's `ioctl`, maps the memory that the driver gave, and runs a thread for each
//! queue, which carries out its packets: kernels by the interpreter of `xsched-gfx942`, barriers,
//! signals with their times and events, and copies.
//!
//! * What waves and packets use is looked up in what was mapped to the GPU. A wrong address, an
//!   unknown packet or a broken kernel ends the queue, with the exception that the real driver
//!   reports, and not the process.
//! * A queue that the driver stops is written into its save area and goes on from there, so that
//!   a damaged area shows in the results. Queues of copies stop between packets.
//! * Packets of a queue are carried out one after the other, also where a GPU overlaps them.
//! * Scratch memory is the interpreter's own, not what the runtime allocates for it.
//!
//! It shows nothing about time, firmware or the real driver. Not yet run on MI308X.
#![allow(unsafe_code)]

mod access;
mod aql;
mod device;
mod drm;
mod engine;
mod failure;
mod guarded;
mod hardware;
mod interpose;
mod occupancy;
mod sdma;

pub use access::{Map, View};
pub use aql::Aql;
pub use engine::{Engine, Kind, Ring, Step};
pub use failure::Failure;
pub use hardware::{Monotonic, Queue, Report};
pub use interpose::ioctl;
pub use sdma::Sdma;
