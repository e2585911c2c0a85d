//! The functions that are not just forwarded.
//!
//! `signatures!` makes a hook for each launch, which has the engine count the call and call the
//! driver. The signatures of the other classes are in the list for hooks to come, and are compiled.

use crate::{Address, address, lifetimes, table};

/// The hooks: places in the list, and what is called instead of the driver.
pub(crate) fn all() -> impl Iterator<Item = (usize, Address)> {
    let lookups = address::hooks().into_iter();
    let lookups = lookups.chain(lifetimes::hooks());
    let lookups = lookups.filter_map(|(name, hook)| Some((table::index(name)?, hook)));
    table::hooks().into_iter().flatten().chain(lookups)
}

/// Defines the hooks, and a function that lists them.
macro_rules! signatures {
    ($($class:ident [$($stream:ident)*] $index:literal
        $name:ident($($parameter:ident: $kind:ty),*);)*) => {
        $(hook! { $class [$($stream)*] $index $name($($parameter: $kind),*) })*

        /// The hooks of those functions that have one.
        pub(crate) fn hooks() -> impl IntoIterator<Item = Option<(usize, Address)>> {
            [$(place!($class $index $name)),*]
        }
    };
}
pub(crate) use signatures;

/// Defines the hook of one function, in a module so that its name is not that of the stub.
macro_rules! hook {
    (launch [$($stream:ident)*] $index:literal $name:ident($($parameter:ident: $kind:ty),*)) => {
        #[allow(non_snake_case, reason = "the driver's name")]
        mod $name {
            use super::*;

            type Signature = unsafe extern "C" fn($($kind),*) -> Code;

            /// # Safety
            /// As of the driver's function of this name.
            pub(super) unsafe extern "C" fn launch($($parameter: $kind),*) -> Code {
                let real = driver::real($index);
                // SAFETY: the list says the signature of the driver's function of this name, and
                // what answers in its place takes any arguments.
                let real = unsafe { std::mem::transmute::<Address, Signature>(real) };
                let stream = stream!($($stream)*);
                // SAFETY: the caller promises what the driver asks for.
                engine::launch($index, stream, || unsafe { real($($parameter),*) })
            }
        }
    };
    ($class:ident [] $index:literal $name:ident($($parameter:ident: $kind:ty),*)) => {
        const _: Option<unsafe extern "C" fn($($kind),*) -> Code> = None;
    };
}
pub(crate) use hook;

/// The stream of a launch, from where the list says it is.
macro_rules! stream {
    (handle $default:ident $handle:ident) => {
        Stream::of($handle, stream!(none $default))
    };
    (config $default:ident $config:ident) => {
        // SAFETY: the caller promises the driver a configuration, or null.
        unsafe { Stream::of_config($config, stream!(none $default)) }
    };
    (none legacy) => {
        Stream::Legacy
    };
    (none per_thread) => {
        Stream::PerThread
    };
    (elsewhere) => {
        Stream::Elsewhere
    };
}
pub(crate) use stream;

/// The place and the hook of one function.
macro_rules! place {
    (launch $index:literal $name:ident) => {
        Some(($index, $name::launch as Address))
    };
    ($class:ident $index:literal $name:ident) => {
        None
    };
}
pub(crate) use place;
