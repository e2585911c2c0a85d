//! An interpreter of one gfx942 (CDNA3) compute unit, for tests without a GPU.
//!
//! A device that is emulated gives it a dispatch packet, memory and a clock, lets it run some
//! instructions at a time, and may save what is under way as a context image and restore it:
//!
//! ```
//! # use xsched_gfx942::{Clock, Config, Error, Execution, Memory, PACKET_BYTES, Progress};
//! fn run(
//!     packet: &[u8; PACKET_BYTES],
//!     at: u64,
//!     memory: &impl Memory,
//!     clock: &impl Clock,
//! ) -> Result<(), Error> {
//!     let mut execution = Execution::start(packet, at, memory, &Config::default())?;
//!     while execution.run(memory, clock, 10_000)? != Progress::Done {}
//!     Ok(())
//! }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `memory`, `error` | what a compute unit reaches outside of itself, and why it stops |
//! | `packet` | dispatch packets, kernel descriptors (code objects 4 and 5), registers at the
//! start |
//! | `execution` | resident workgroups, turns, barriers |
//! | `image` | context images |
//! | `wave` | registers of a wave |
//! | `code`, `decode`, `inst` | decoding, and what was decoded |
//! | `ops` | tables of opcodes: number, name, what it does |
//! | `lanes`, `value`, `float` | how vector instructions read, compute and write |
//!
//! # What is emulated
//!
//! Scalar instructions; vector instructions on whole numbers, `f64`, `f32`, `f16` and packed ones,
//! with SDWA, DPP and modifiers; comparisons; flat, global, scratch and buffer memory with all
//! atomics; scalar loads; the local data share; matrix multiplications of `i8`, `f16`, `bf16`,
//! `f32` and `f64`; functions, indexing of vector registers, sleeping. A wave that needs anything
//! else stops with [`Error::NotEmulated`], and one that is not gfx942's with
//! [`Error::IllegalInstruction`].
//!
//! # What is not
//!
//! - **Rounding and flushing.** Numbers are rounded to the nearest, to the even one of two, and
//!   subnormal ones are kept. A kernel whose mode says otherwise can run, but its arithmetic of
//!   that length is not emulated. `v_exp`, `v_log`, `v_rcp`, `v_rsq`, `v_sin` and such have more
//!   correct digits than the hardware gives. Matrix multiplications add in the order of `k`, each
//!   sum rounded.
//! - **Exceptions and traps.** No exception is raised or noted. `s_trap` ends the execution.
//! - **Images, typed buffers, the global data share, sparse and 8-bit float matrices**, scalar
//!   stores and scalar atomics.
//! - **Hazards.** Every instruction is complete before the next one, so that a missing `s_waitcnt`
//!   or
//!   `s_nop` does no harm here. Nothing is cached, and instructions are decoded once in an
//!   execution unless `s_icache_inv` is executed.
//! - **Time.** [`Clock`] says what time it is. Waves have turns of 256 instructions, one after the
//!   other.
//! - **Other waves' memory.** Scratch memory belongs to the execution and is not in [`Memory`];
//!   what is not allocated cannot be used, where the hardware would answer 0.
//!
//! No GPU has been compared with it: it was held against LLVM's disassembler and against results
//! that were computed on the processor.
#![forbid(unsafe_code)]

mod code;
mod decode;
mod error;
mod execution;
mod float;
mod image;
mod inst;
mod lanes;
mod memory;
mod ops;
mod packet;
mod value;
mod wave;

#[cfg(test)]
mod restored;
#[cfg(test)]
extern crate self as xsched_gfx942;

pub use error::{Error, ImageError, Space};
pub use execution::{Config, Execution, PACKET_BYTES, Progress};
pub use image::checksum;
pub use memory::{Clock, Fault, Memory};
