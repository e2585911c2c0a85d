//! `libshimcuda.so`: preloaded, it takes the place of CUDA's driver library in a program, forwards
//! every function to it, and launches through XQueues.
//!
//! **How it gets in.** Its SONAME is `libcuda.so.1`. The loader gives it to whatever asks for that
//! name: a program that is linked with the driver, or one that opens the driver itself. The loader
//! compares names with SONAMEs, of which a library has one: a program that opens the driver as
//! `libcuda.so` gets here if a second library of that SONAME is preloaded as well, which has this
//! one as its auxiliary library (`cargo xtask install` makes it). One that opens the driver by a
//! path goes past. The file must not be in a folder that `ldconfig` looks at: that would make it
//! the system's `libcuda.so.1`.
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
mod attached;
mod graphs;
mod lifetimes;
mod primary;
mod table;
mod times;
mod vendor;
