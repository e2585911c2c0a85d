//! A CUDA driver without a GPU, for tests: streams on threads behind CUDA's own C interface.
//!
//! Built as a shared library that calls itself `libcuda.so.1`. A program that has loaded it by its
//! path gets it for that name as well; [`place`] puts it into a folder under that name, for
//! `LD_LIBRARY_PATH`, and for programs that are linked with the driver. Streams, events, graphs and
//! memory are those of `xsched-emulated-device`. It keeps to what the real driver promises where a
//! scheduler or an interposer could notice:
//!
//! * Each stream runs its commands in order, on a thread of which there are as many as
//!   `CUDA_DEVICE_MAX_CONNECTIONS` says, or 8. A stream that gets work takes one that no other
//!   stream has work on; if there is none, it shares one until its work is done.
//! * The legacy default stream of a context and its blocking streams wait for each other. The
//!   functions that end in `_ptsz` and `_ptds` take the null stream for the thread's own default
//!   stream.
//! * As many kernels of a context run at once as there are units (`XSCHED_EMULATED_UNITS`, 1 if it
//!   is not set).
//! * A kernel that fails loses its context: every later call answers its error, until a primary
//!   context is reset or all who retain it release it.
//! * `cuMemFree` and `cuModuleUnload` wait for the context's streams. A copy from memory that is
//!   not page-locked takes the bytes at once; one to such memory waits for the stream.
//! * What is launched into a captured stream becomes a graph. Captures go to other streams by
//!   events. What a capture forbids spoils it, by its mode and the thread's.
//! * A graph's nodes run in an order that their edges allow, one at a time; a node that waits for a
//!   word holds up no other one. Launches of one executable run one after the other.
//! * Functions of the host's must not call the driver.
//! * In the child of a fork every call answers that the driver is not initialised.
//! * Handles that there are not, null pointers, and calls before `cuInit` get CUDA's errors.
//!
//! Not emulated: arrays, textures, virtual memory, memory shared between processes, peers, links,
//! profilers, green contexts, graphs' conditional nodes, parameters of graphs' nodes that are asked
//! for, the graph of a capture that is under way, export tables, and any timing. Memory is not
//! given back with its context. A context that is lost or ends does not carry out what was launched
//! and does not run yet, and its kernels that run end early.
//!
//! # Kernels
//!
//! Are functions of the host. `cuModuleLoadData` takes a text with a `.version`, and finds each
//! `.visible .entry NAME` in it; NAME must be one of these:
//!
//! | kernel | parameters | what it does |
//! |---|---|---|
//! | `xs_…` | | as in `hal-cuda/kernels/spin.ptx`; a cycle is a nanosecond |
//! | `xf_…` | | nothing; they are in the PTX of the tests of faults on CUDA devices |
//! | `xs_next` | `u64 cycles, *words, number` | as in `lab/kernels/next.ptx` |
//! | `vector_add` | `f32 *a, *b, *sum; u32 n` | adds |
//! | `fill` | `u32 *to; u32 value, n` | fills |
//! | `stray` | | accesses an illegal address |
//!
//! # Settings
//!
//! | variable | what it is | if not set |
//! |---|---|---|
//! | `XSCHED_EMULATED_CUDA_VERSION` | what `cuDriverGetVersion` answers | 13000 |
//! | `XSCHED_EMULATED_DEVICES` | number of devices | 1 |
//! | `XSCHED_EMULATED_MEMORY` | memory of a device, in MiB | 4096 |
//! | `XSCHED_EMULATED_UNITS` | kernels of a context that run at once | 1 |
//! | `XSCHED_EMULATED_DEPTH` | commands in a stream, before a launch blocks | 1024 |
//!
//! # Functions that CUDA does not have
//!
//! `cuEmulatedLaunches(const char *kernel)` answers how often a kernel has begun to run, or all if
//! it is null; `cuEmulatedCalls(const char *function)` how often an exported function was called;
//! `cuEmulatedHandles()` how many streams, events, modules, libraries and graphs there are. All
//! answer an `unsigned long long`, and may be called at any time.
#![allow(unsafe_code, non_snake_case)]

mod api;
mod attributes;
mod context;
mod driver;
mod exports;
mod graph;
mod kernels;

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// PTX of the kernels that are not in `hal-cuda/kernels/spin.ptx`, with a zero at its end. It
/// compiles for a GPU as well.
pub const PTX: &str = concat!(include_str!("../kernels/test.ptx"), "\0");
/// PTX of `hal-cuda/kernels/spin.ptx`, with a zero at its end.
pub const SPIN_PTX: &str = concat!(include_str!("../../../hal-cuda/kernels/spin.ptx"), "\0");

/// The name under which programs look for the driver.
pub const NAME: &str = "libcuda.so.1";

/// Where Cargo puts the library: next to the test that depends on this crate.
///
/// # Errors
/// If the test does not know where it is.
pub fn path() -> io::Result<PathBuf> {
    let test = env::current_exe()?;
    let folder = test.parent().ok_or(io::ErrorKind::NotFound)?;
    Ok(folder.join("libxsched_cuda_emulated.so"))
}

/// Puts the library into a folder, as `libcuda.so.1` and as `libcuda.so`. Where the first is.
///
/// # Errors
/// If the folder cannot be written to, or has other files of these names.
pub fn place(folder: &Path) -> io::Result<PathBuf> {
    let library = path()?;
    for name in [NAME, "libcuda.so"] {
        fs::copy(&library, folder.join(name))?;
    }
    Ok(folder.join(NAME))
}
