//! The functions that are not just forwarded.
//!
//! `signatures!` makes a hook for each launch, which has the engine count the call and call the
//! driver, and for each call that may wait for the device. The signatures of the other classes are
//! in the list for hooks to come, and are compiled.
//! `lifetimes!` makes hooks that a vendor's crate writes by hand.

use crate::{Address, engine};

/// The handle of a stream whose null is the default stream of the thread.
#[must_use]
pub fn of_thread(stream: Address) -> Address {
    if stream.is_null() { std::ptr::without_provenance_mut(engine::PER_THREAD) } else { stream }
}

/// Defines a hook for each name. `$next` calls the driver in what it does.
#[macro_export]
macro_rules! lifetimes {
    ($(
        $names:literal: $hook:ident($($parameter:ident: $kind:ty),*) => |$next:ident| $does:expr;
    )*) => {
        /// The hooks by the names of their functions.
        pub(crate) fn hooks() -> impl Iterator<Item = (&'static std::ffi::CStr, $crate::Address)> {
            [$(($names, $hook::call as $crate::Address)),*].into_iter()
        }

        $(mod $hook {
            use super::*;

            /// # Safety
            /// As of the driver's function.
            pub(super) unsafe extern "C" fn call($($parameter: $kind),*) -> $crate::Code {
                let $next = || $crate::real!($names, ($($parameter),*): ($($kind),*));
                $does
            }
        })*
    };
}

/// Defines the hooks, and a function that lists them.
#[macro_export]
macro_rules! signatures {
    ($($class:ident [$($stream:ident)*] $index:literal
        $name:ident($($parameter:ident: $kind:ty),*);)*) => {
        $($crate::hook! { $class [$($stream)*] $index $name($($parameter: $kind),*) })*

        /// The hooks of those functions that have one.
        pub(crate) fn hooks() -> impl IntoIterator<Item = Option<(usize, $crate::Address)>> {
            [$($crate::place!($class [$($stream)*] $index $name)),*]
        }
    };
}

/// Defines the hook of one function, in a module so that its name is not that of the stub.
#[macro_export]
macro_rules! hook {
    (launch [$($stream:ident)*] $index:literal $name:ident($($parameter:ident: $kind:ty),*)) => {
        #[expect(non_snake_case, reason = "the driver's name")]
        mod $name {
            use super::*;

            type Signature = unsafe extern "C" fn($($kind),*) -> $crate::Code;

            /// # Safety
            /// As of the driver's function of this name.
            pub(super) unsafe extern "C" fn launch($($parameter: $kind),*) -> $crate::Code {
                let real = $crate::driver::real($index);
                // SAFETY: the list says the signature of the driver's function of this name, and
                // what answers in its place takes any arguments.
                let real = unsafe { std::mem::transmute::<$crate::Address, Signature>(real) };
                let stream = $crate::stream!($($stream)*);
                // SAFETY: the caller promises what the driver asks for.
                let real = || unsafe { real($($parameter),*) };
                let kind = || {
                    let kind = $crate::Kind::new($index);
                    $(let kind = kind.with($crate::part!($parameter $parameter));)*
                    kind
                };
                $crate::engine::launch($index, stream, kind, real)
            }
        }
    };
    (waits [$how:ident] $index:literal $name:ident($($parameter:ident: $kind:ty),*)) => {
        #[expect(non_snake_case, reason = "the driver's name")]
        mod $name {
            use super::*;

            type Signature = unsafe extern "C" fn($($kind),*) -> $crate::Code;

            /// # Safety
            /// As of the driver's function of this name.
            pub(super) unsafe extern "C" fn wait($($parameter: $kind),*) -> $crate::Code {
                let real = $crate::driver::real($index);
                // SAFETY: as for a launch.
                let real = unsafe { std::mem::transmute::<$crate::Address, Signature>(real) };
                // SAFETY: the caller promises what the driver asks for.
                $crate::wait!($how)(|| unsafe { real($($parameter),*) })
            }
        }
    };
    ($class:ident [] $index:literal $name:ident($($parameter:ident: $kind:ty),*)) => {
        const _: Option<unsafe extern "C" fn($($kind),*) -> $crate::Code> = None;
    };
}

/// How a call is made that waits for the device, always or maybe.
#[macro_export]
macro_rules! wait {
    (always) => {
        $crate::waits::wait
    };
    (may) => {
        $crate::waits::may_wait
    };
}

/// Part of a launch's kind, by the name of an argument.
#[macro_export]
macro_rules! part {
    (function $given:ident) => {
        $crate::Part::of_handle(&$given)
    };
    (function_address $given:ident) => {
        $crate::Part::of_handle(&$given)
    };
    (graph_exec $given:ident) => {
        $crate::Part::of_handle(&$given)
    };
    (config $given:ident) => {
        // SAFETY: the caller promises the driver a configuration, or null.
        unsafe { $crate::kind::of_config($given) }
    };
    // What is written or waited for may be another number each time.
    (value $given:ident) => {
        0
    };
    ($other:ident $given:ident) => {
        $crate::Part::part(&$given)
    };
}

/// The stream of a launch, from where the list says it is.
#[macro_export]
macro_rules! stream {
    (handle $default:ident $handle:ident) => {
        $crate::Stream::of($handle, $crate::stream!(none $default))
    };
    (config $default:ident $config:ident) => {
        // SAFETY: the caller promises the driver a configuration, or null.
        unsafe { $crate::Stream::of_config($config, $crate::stream!(none $default)) }
    };
    (none legacy) => {
        $crate::Stream::Legacy
    };
    (none per_thread) => {
        $crate::Stream::PerThread
    };
    (elsewhere) => {
        $crate::Stream::Elsewhere
    };
}

/// The place and the hook of one function.
#[macro_export]
macro_rules! place {
    (launch [$($stream:ident)*] $index:literal $name:ident) => {
        Some(($index, $name::launch as $crate::Address))
    };
    (waits [$how:ident] $index:literal $name:ident) => {
        Some(($index, $name::wait as $crate::Address))
    };
    ($class:ident [$($stream:ident)*] $index:literal $name:ident) => {
        None
    };
}
