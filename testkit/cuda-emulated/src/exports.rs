//! How functions are exported, counted and found by their names.

use std::cell::Cell;

use xsched_emulated_device::code::{Answer, NOT_INITIALIZED, NOT_PERMITTED, SUCCESS};

use crate::driver::{count, driver};

/// Functions that may be called before `cuInit`.
const EARLY: [&str; 7] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuGetExportTable",
];

thread_local! {
    static IS_PER_THREAD: Cell<bool> = const { Cell::new(false) };
    /// The thread is a stream's, and calls a function of the host's.
    static IS_ON_HOST: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function of the host's, which must not call the driver.
pub(crate) fn on_host(body: impl FnOnce()) {
    IS_ON_HOST.set(true);
    body();
    IS_ON_HOST.set(false);
}

/// True if the null stream is the thread's default one in the function that is being called.
pub(crate) fn is_per_thread() -> bool {
    IS_PER_THREAD.get()
}

/// Counts a call, and answers what its body does.
pub(crate) fn answer(name: &'static str, per_thread: bool, body: impl FnOnce() -> Answer) -> u32 {
    if driver().is_forked() {
        return NOT_INITIALIZED;
    }
    count(&driver().calls, name);
    if !driver().is_initialised() && !EARLY.contains(&name) {
        return NOT_INITIALIZED;
    }
    if IS_ON_HOST.get() && !EARLY.contains(&name) {
        return NOT_PERMITTED;
    }
    IS_PER_THREAD.set(per_thread);
    body().err().unwrap_or(SUCCESS)
}

/// Exports functions under their names; behind `also` are those of functions that do the same. In
/// brackets are names under which the null stream is the thread's default one. `table` lists what
/// was exported.
macro_rules! exports {
    (
        $($([$($twin:ident),+])? $(also $($same:ident),+)? fn $name:ident $args:tt $body:block)+
    ) => {
        $(
            $crate::exports::export!($name $args $body false);
            $($($crate::exports::export!($same $args $body false);)+)?
            $($($crate::exports::export!($twin $args $body true);)+)?
        )+

        pub(crate) fn table() -> Vec<(&'static str, usize)> {
            vec![$(
                (stringify!($name), $name as *const () as usize),
                $($((stringify!($same), $same as *const () as usize),)+)?
                $($((stringify!($twin), $twin as *const () as usize),)+)?
            )+]
        }
    };
}

macro_rules! export {
    ($name:ident ($($arg:ident: $type:ty),* $(,)?) $body:block $per_thread:literal) => {
        // SAFETY: the name is CUDA's or our own, and this library defines it once.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> u32 {
            $crate::exports::answer(stringify!($name), $per_thread, || $body)
        }
    };
}

pub(crate) use {export, exports};
