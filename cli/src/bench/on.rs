//! Which device a bench runs on.

/// Opens the device that was asked for, and evaluates an expression with it. An expression rather
/// than a function, because each device is a type of its own.
macro_rules! on_device {
    ($hal:expr, $device:expr, |$bench:ident| $run:expr) => {
        match $hal {
            $crate::args::SpinHal::Host => xsched_lab::Host::open().and_then(|$bench| $run),
            $crate::args::SpinHal::Cuda => xsched_lab::Cuda::open($device).and_then(|$bench| $run),
            $crate::args::SpinHal::Hip => xsched_lab::Hip::open($device).and_then(|$bench| $run),
            $crate::args::SpinHal::Kfd => xsched_lab::Kfd::open($device).and_then(|$bench| $run),
        }
    };
}

pub(super) use on_device;
