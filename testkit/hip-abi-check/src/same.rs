//! When two declarations of a function are the same.

use std::ffi::{c_char, c_void};

use xsched_hal_hip::raw::{StreamCallback, Table};

/// Types that a C compiler passes in the same way.
pub(crate) trait Same<T> {}
/// Types that a pointer may lead to where another declaration has `T`.
pub(crate) trait SameBehind<T> {}

macro_rules! same {
    ($($ours:ty, $theirs:ty;)+) => {$(
        impl Same<$theirs> for $ours {}
        impl SameBehind<$theirs> for $ours {}
    )+};
}

same! {
    u32, u32;
    i32, i32;
    f32, f32;
    usize, usize;
}

impl SameBehind<Self> for c_char {}
impl SameBehind<Self> for c_void {}
impl<O: SameBehind<T>, T> Same<*mut T> for *mut O {}
impl<O: SameBehind<T>, T> Same<*const T> for *const O {}
impl<O: SameBehind<T>, T> SameBehind<*mut T> for *mut O {}

/// Handles lead to something opaque.
macro_rules! opaque {
    ($($theirs:ty),+) => {$(impl SameBehind<$theirs> for c_void {})+};
}

opaque!(
    cubecl_hip_sys::ihipStream_t,
    cubecl_hip_sys::ihipEvent_t,
    cubecl_hip_sys::ihipModule_t,
    cubecl_hip_sys::ihipModuleSymbol_t,
    cubecl_hip_sys::ihipGraph,
    cubecl_hip_sys::hipGraphExec,
    cubecl_hip_sys::hipGraphNode
);

impl Same<cubecl_hip_sys::hipStreamCallback_t> for StreamCallback {}

#[cfg(feature = "check-hip-sys")]
mod hip_sys {
    use ::hip_sys::hiprt;

    use super::{Same, SameBehind, StreamCallback, c_void};

    impl Same<hiprt::hipStreamCallback_t> for StreamCallback {}

    opaque!(
        hiprt::ihipStream_t,
        hiprt::ihipEvent_t,
        hiprt::ihipModule_t,
        hiprt::ihipModuleSymbol_t,
        hiprt::ihipGraph,
        hiprt::hipGraphExec,
        hiprt::hipGraphNode
    );

    /// Types that are enumerations there.
    macro_rules! enumerations {
        ($($theirs:ty),+) => {$(
            impl Same<$theirs> for u32 {}
            impl SameBehind<$theirs> for u32 {}
            const _: () = assert!(size_of::<$theirs>() == size_of::<u32>());
        )+};
    }

    enumerations!(
        hiprt::hipError_t,
        hiprt::hipDeviceAttribute_t,
        hiprt::hipMemcpyKind,
        hiprt::hipStreamCaptureStatus,
        hiprt::hipStreamCaptureMode
    );
}

/// Functions that are called in the same way.
pub(crate) trait SameFunction<T> {}

macro_rules! functions {
    ($(($($ours:ident $theirs:ident),*))+) => {$(
        impl<R, S, $($ours, $theirs),*> SameFunction<unsafe extern "C" fn($($theirs),*) -> S>
            for unsafe extern "C" fn($($ours),*) -> R
        where
            R: Same<S>,
            $($ours: Same<$theirs>),*
        {
        }
    )+};
}

functions! {
    (A1 B1)
    (A1 B1, A2 B2)
    (A1 B1, A2 B2, A3 B3)
    (A1 B1, A2 B2, A3 B3, A4 B4)
    (A1 B1, A2 B2, A3 B3, A4 B4, A5 B5)
    (A1 B1, A2 B2, A3 B3, A4 B4, A5 B5, A6 B6, A7 B7, A8 B8, A9 B9, A10 B10)
    (A1 B1, A2 B2, A3 B3, A4 B4, A5 B5, A6 B6, A7 B7, A8 B8, A9 B9, A10 B10, A11 B11)
}

/// Compiles if a function of the table is declared like another one.
pub(crate) fn same<O: SameFunction<T>, T>(_: fn(&Table) -> O, _: T) {}
/// As [`same`], for a function that may be missing.
pub(crate) fn same_if_there<O: SameFunction<T>, T>(_: fn(&Table) -> Option<O>, _: T) {}
