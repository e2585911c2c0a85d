//! Scheduling policies, one file each. All of them run unchanged in the simulator and in
//! production, without an allocator.
//!
//! | name | decides |
//! |---|---|
//! | [`fcfs`](fcfs::Fcfs) | nothing: what the hardware does by itself |
//! | [`hpf`](hpf::Hpf) | highest priority first, per device |
//! | [`hhpf`](hhpf::Hhpf) | highest priority first, across devices |
//! | [`edf`](edf::Edf) | earliest deadline first |
//! | [`kedf`](edf::Kedf) | the K earliest deadlines first |
//! | [`lax`](lax::Lax) | a lower priority for so long, then a higher one |
//! | [`awf`](awf::Awf) | the active window first |
//! | [`up`](up::Up) | device time in proportion to percentages |
//! | [`wfq`](wfq::Wfq) | device time in proportion to weights |
//!
//! Names are accepted in capitals too, and in full: `highest_priority_first`, say.
#![no_std]
#![forbid(unsafe_code)]

mod ageing;
pub mod any;
pub mod awf;
pub mod cfs;
mod choose;
pub mod chpf;
pub mod edf;
mod engine;
pub mod fcfs;
mod floors;
pub mod hhpf;
pub mod hpf;
pub mod lax;
mod ready;
mod share;
pub mod strict;
pub mod up;
pub mod wfq;

pub use any::{Any, UnknownPolicy};
