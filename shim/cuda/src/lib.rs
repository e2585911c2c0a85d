//! `libshimcuda.so`: preloaded, it takes the place of CUDA's driver library in a program, forwards
//! every function to it, and launches through XQueues.
//!
//! **How it gets in.** Its SONAME is `libcuda.so.1`. The loader gives it to whatever asks for that
//! name: a program that is linked with the driver, or one that opens the driver itself. A program
//! that opens the driver by a path, or as `libcuda.so`, goes past it. Its file must not be in a
//! folder that `ldconfig` looks at: that would make it the system's `libcuda.so.1`.
//!
//! **How it forwards.** `functions.toml` lists the functions that the driver exports. Each is
//! exported here as a stub that jumps to the address in its slot. Until a program calls one of them
//! every slot holds the address of `stubs::first_call`, and this library has done nothing: it links
//! no library of CUDA and opens none, starts no thread and reads no file. The first call looks for
//! the driver as `driver` says, and fills all slots.
//!
//! **How it schedules.** If `XSCHED_AUTO_XQUEUE` is `ON`, launches go through `libpreempt.so`,
//! which the first of them opens: `engine` says how, and which go past.
//!
//! **What differs from the driver alone.** A function that the list has and the driver lacks
//! answers `CUDA_ERROR_NOT_FOUND`, where `dlsym` would have found nothing. A function that the
//! driver has and the list lacks cannot be found with `dlsym`; `cuGetProcAddress` finds it, and the
//! file of counts names it. Without a driver calls answer `CUDA_ERROR_STUB_LIBRARY`, and one line
//! on standard error says why.
//!
//! **Locks.** There are none in forwarding: what two threads do at once they both do, and the first
//! counts. So a driver whose initialisation calls its own functions does not wait for itself, nor
//! does the child of a fork wait for a thread that it does not have. Scheduling has locks; what a
//! thread calls of the driver meanwhile, and what the child of a fork calls, goes past them.
#![expect(unsafe_code, reason = "it takes the place of C functions")]

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("the stubs are for x86_64 Linux; for aarch64, write those of src/stubs.rs first");

mod address;
mod cache;
mod captures;
mod counts;
mod driver;
mod engine;
mod environment;
mod hooks;
mod lifetimes;
mod preempt;
mod streams;
mod stubs;
mod table;

use std::ffi::{c_int, c_void};

/// The address of a function, whatever its signature.
type Address = *mut c_void;
/// `CUresult`.
type Code = c_int;
