//! HIP's C interface over CUDA's driver, for tests: so the layer over HIP drives a real GPU where
//! only NVIDIA's are at hand.
//!
//! Built as a shared library that is loaded in place of `libamdhip64`. It has the functions that
//! `xsched-hal-hip` and simple programs use, and no others. It loads `libcuda.so.1` when the first
//! of them is called, so it builds anywhere; without that library there is no device. Handles are
//! CUDA's own, and so are the numbers of errors, which HIP took over.
//!
//! What is not as on an AMD GPU:
//!
//! * A mask of compute units is ignored. Such a stream is blocking, as HIP's is, and shares what
//!   CUDA has it share.
//! * A wait for a word is always the front end's, for any `GPU_STREAMOPS_CP_WAIT`, and looks
//!   at all its bits. There is no signal memory, and no fine-grained memory of the device.
//! * Graphs and cooperative launches are CUDA's: such a kernel is in its stream's own ring.
//! * Modules are PTX or CUDA binaries. Kernels are loaded when they are looked up, not when they
//!   are launched, where the driver can (CUDA 12.4 on): a first launch behind a held stream would
//!   wait for it.
//! * The kernels that a compiler has put into a program are taken from the PTX file that
//!   `HIP_OVER_CUDA_KERNELS` names, by their names.
//! * The version is 6.0, with CUDA's as the patch.
//!
//! It shows that calls, arguments and orders of calls work on hardware. It proves nothing about
//! AMD's runtime.
#![allow(unsafe_code, non_snake_case)]

/// Exports functions under their names.
macro_rules! exports {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)+) => {$(
        // SAFETY: the name is HIP's, and this library defines it once.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> u32 {
            let body = || -> Answer { $body };
            body().err().unwrap_or(0)
        }
    )+};
}

mod driver;
mod exports;
mod programs;
