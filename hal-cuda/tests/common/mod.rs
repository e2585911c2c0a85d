//! The driver that tests run on.

use std::env;
use std::sync::OnceLock;

/// Names the emulated driver in `XSCHED_CUDA_LIB`, unless that names another one or the machine has
/// one. Whether it is the emulated one.
pub(crate) fn choose_driver() -> bool {
    static IS_EMULATED: OnceLock<bool> = OnceLock::new();
    *IS_EMULATED.get_or_init(|| {
        // SAFETY: NVIDIA's library may be loaded by any program.
        let is_there = || unsafe { libloading::Library::new("libcuda.so.1") }.is_ok();
        let emulated = xsched_cuda_emulated::path().expect("a place next to this test");
        if let Some(named) = env::var_os("XSCHED_CUDA_LIB") {
            return named == emulated;
        }
        if is_there() {
            return false;
        }
        println!("no CUDA driver: on the emulated one");
        // SAFETY: other threads read variables by Rust's library alone, which takes its lock.
        unsafe {
            env::set_var("XSCHED_CUDA_LIB", emulated);
            // As many short kernels at once as the suite counts on.
            env::set_var("XSCHED_EMULATED_UNITS", "8");
        }
        true
    })
}
