//! Which device a bench runs on.

/// Opens the device that was asked for, and evaluates an expression with it. An expression rather
/// than a function, because each device is a type of its own.
macro_rules! on_device {
    ($hal:expr, $device:expr, |$bench:ident| $run:expr) => {
        match $hal {
            $crate::commands::args::SpinHal::Host => {
                crate::device::host::Host::open().and_then(|$bench| $run)
            }
            $crate::commands::args::SpinHal::Cuda => {
                crate::device::gpu::Cuda::open($device).and_then(|$bench| $run)
            }
            $crate::commands::args::SpinHal::Hip => {
                crate::device::gpu::Hip::open($device).and_then(|$bench| $run)
            }
            $crate::commands::args::SpinHal::Kfd => {
                crate::device::kfd::Kfd::open($device).and_then(|$bench| $run)
            }
        }
    };
}

pub(super) use on_device;
