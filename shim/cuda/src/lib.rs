//! `libshimcuda.so`: preloaded, it takes the place of CUDA's driver library in a program, forwards
//! every function to it, and launches through XQueues.
//!
//! **How it gets in.** Its SONAME is `libcuda.so.1`. The loader gives it to whatever asks for that
//! name: a program that is linked with the driver, or one that opens the driver itself. A program
//! that opens the driver by a path, or as `libcuda.so`, goes past it. Its file must not be in a
//! folder that `ldconfig` looks at: that would make it the system's `libcuda.so.1`.
//!
//! **How it works** is in `xsched-shim-engine`. `functions.toml` lists the functions that the
//! driver exports.
//!
//! **What differs from the driver alone.** A function that the list has and the driver lacks
//! answers `CUDA_ERROR_NOT_FOUND`, where `dlsym` would have found nothing. A function that the
//! driver has and the list lacks cannot be found with `dlsym`; `cuGetProcAddress` finds it, and the
//! file of counts names it. Without a driver calls answer `CUDA_ERROR_STUB_LIBRARY`, and one line
//! on standard error says why.
#![expect(unsafe_code, reason = "it takes the place of C functions")]

mod address;
mod graphs;
mod lifetimes;
mod table;
mod vendor;
