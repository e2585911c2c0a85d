//! Which driver tests run on.

use std::env;
use std::sync::Once;

/// Names the emulated driver in `XSCHED_CUDA_LIB`, unless that names another one or the machine has
/// one.
pub(crate) fn choose_driver() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: NVIDIA's library may be loaded by any program.
        let is_there = || unsafe { libloading::Library::new("libcuda.so.1") }.is_ok();
        if env::var_os("XSCHED_CUDA_LIB").is_none() && !is_there() {
            let path = xsched_cuda_emulated::path().expect("a place next to this test");
            println!("no CUDA driver: on the emulated one");
            // SAFETY: other threads read variables by Rust's library alone, which takes its lock.
            unsafe { env::set_var("XSCHED_CUDA_LIB", path) };
        }
    });
}
