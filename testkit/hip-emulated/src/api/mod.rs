//! HIP's functions, by their own names.

mod addresses;
mod devices;
mod errors;
mod events;
mod graphs;
mod kernels;
mod memory;
mod programs;
mod streams;

pub(crate) use xsched_emulated_device::c::{In, Out, Text, write_text};
use xsched_emulated_device::code::{Answer, SUCCESS};

use crate::runtime::runtime;

/// Exports functions under their names. Each first answers the error that a test injected, if one
/// was, and then what its body says.
macro_rules! exports {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)+) => {$(
        // SAFETY: the name is HIP's or our own, and this library defines it once.
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> u32 {
            $crate::api::answer(stringify!($name), || $body)
        }
    )+};
}
pub(crate) use exports;

/// Answer of a function.
pub(crate) fn answer(name: &'static str, body: impl FnOnce() -> Answer) -> u32 {
    runtime().count(name);
    let code = runtime().demanded(name).and_then(|()| body()).err().unwrap_or(SUCCESS);
    if !name.starts_with("xsched_") {
        errors::note(code);
    }
    code
}
