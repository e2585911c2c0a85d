//! The functions that are not just forwarded.
//!
//! `signatures!` makes a hook for each launch: it counts the call, and calls the driver. The
//! signatures of the other classes are in the list for hooks to come, and are compiled.

use crate::{Address, address, table};

/// The hooks: places in the list, and what is called instead of the driver.
pub(crate) fn all() -> impl Iterator<Item = (usize, Address)> {
    let lookups = address::hooks().into_iter();
    let lookups = lookups.filter_map(|(name, hook)| Some((table::index(name)?, hook)));
    table::hooks().into_iter().flatten().chain(lookups)
}

/// Defines the hooks, and a function that lists them.
macro_rules! signatures {
    ($($class:ident $index:literal $name:ident($($parameter:ident: $kind:ty),*);)*) => {
        $(hook! { $class $index $name($($parameter: $kind),*) })*

        /// The hooks of those functions that have one.
        pub(crate) fn hooks() -> impl IntoIterator<Item = Option<(usize, Address)>> {
            [$(place!($class $index $name)),*]
        }
    };
}
pub(crate) use signatures;

/// Defines the hook of one function, in a module so that its name is not that of the stub.
macro_rules! hook {
    (launch $index:literal $name:ident($($parameter:ident: $kind:ty),*)) => {
        #[allow(non_snake_case, reason = "the driver's name")]
        mod $name {
            use super::*;

            type Signature = unsafe extern "C" fn($($kind),*) -> Code;

            /// # Safety
            /// As of the driver's function of this name.
            pub(super) unsafe extern "C" fn launch($($parameter: $kind),*) -> Code {
                counts::launch($index);
                let real = driver::real($index);
                // SAFETY: the list says the signature of the driver's function of this name, and
                // what answers in its place takes any arguments.
                let real = unsafe { std::mem::transmute::<Address, Signature>(real) };
                // SAFETY: the caller promises what the driver asks for.
                unsafe { real($($parameter),*) }
            }
        }
    };
    ($class:ident $index:literal $name:ident($($parameter:ident: $kind:ty),*)) => {
        const _: Option<unsafe extern "C" fn($($kind),*) -> Code> = None;
    };
}
pub(crate) use hook;

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
