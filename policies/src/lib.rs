//! Scheduling policies, one file each. All of them run unchanged in the simulator and in
//! production, without an allocator.
//!
//! | name | decides |
//! |---|---|
//! | [`fcfs`](fcfs::Fcfs) | nothing: what the hardware does by itself |
//! | [`hpf`](hpf::Hpf) | highest priority first, per device |
#![no_std]
#![forbid(unsafe_code)]

pub mod any;
pub mod fcfs;
pub mod hpf;

pub use any::{Any, UnknownPolicy};
