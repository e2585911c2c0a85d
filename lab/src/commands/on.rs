//! Which device an experiment runs on.

/// Opens the device that was asked for, and evaluates an expression with it. An expression rather
/// than a function, because each device is a type of its own.
macro_rules! on_device {
    ($hal:expr, $device:expr, |$bench:ident| $run:expr) => {
        match $hal {
            $crate::commands::SpinHal::Host => {
                crate::device::host::Host::open().and_then(|$bench| $run)
            }
            $crate::commands::SpinHal::Cuda => {
                crate::device::gpu::Cuda::open($device).and_then(|$bench| $run)
            }
            $crate::commands::SpinHal::Hip => {
                crate::device::gpu::Hip::open($device).and_then(|$bench| $run)
            }
            $crate::commands::SpinHal::Kfd => {
                crate::device::kfd::Kfd::open($device).and_then(|$bench| $run)
            }
        }
    };
}

pub(crate) use on_device;
