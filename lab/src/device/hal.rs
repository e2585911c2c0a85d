//! Devices that an experiment can run on.

use clap::ValueEnum;

use crate::error::CommandError;

/// Devices with commands that spin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpinHal {
    /// The processor as a device.
    Host,
    /// A CUDA device.
    Cuda,
    /// A HIP device, with the kernels of the file that XSCHED_HIP_KERNELS names, or those for
    /// gfx942 that are part of the program.
    Hip,
    /// The HIP device with Lv3 through the AMD kernel driver (/dev/kfd).
    Kfd,
}

impl SpinHal {
    /// As `--hal` takes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Cuda => "cuda",
            Self::Hip => "hip",
            Self::Kfd => "kfd",
        }
    }
}

/// Opens the device that was asked for, and evaluates an expression with it. An expression rather
/// than a function, because each device is a type of its own.
macro_rules! on_device {
    ($hal:expr, $device:expr, |$bench:ident| $run:expr) => {
        match $hal {
            $crate::device::hal::SpinHal::Host => {
                crate::device::host::Host::open().and_then(|$bench| $run)
            }
            $crate::device::hal::SpinHal::Cuda => {
                crate::device::gpu::Cuda::open($device).and_then(|$bench| $run)
            }
            $crate::device::hal::SpinHal::Hip => {
                crate::device::gpu::Hip::open($device).and_then(|$bench| $run)
            }
            $crate::device::hal::SpinHal::Kfd => {
                crate::device::kfd::Kfd::open($device).and_then(|$bench| $run)
            }
        }
    };
}

pub(crate) use on_device;

/// The device that works, and why none of those that were tried before.
#[derive(Debug)]
pub(crate) struct Choice<H, D> {
    /// Interface that reaches the device.
    pub(crate) hal: H,
    /// The device.
    pub(crate) device: D,
    /// Devices that cannot be used, and why not.
    pub(crate) passed_over: Vec<(H, CommandError)>,
}

/// Opens the device that was asked for, or else the first of several that works.
pub(crate) fn first_that_works<H: Copy, D>(
    asked: Option<H>,
    order: &[H],
    open: impl Fn(H) -> Result<D, CommandError>,
) -> Result<Choice<H, D>, CommandError> {
    let mut passed_over = Vec::new();
    for &hal in asked.as_ref().map_or(order, std::slice::from_ref) {
        match open(hal) {
            Ok(device) => return Ok(Choice { hal, device, passed_over }),
            Err(why) => passed_over.push((hal, why)),
        }
    }
    let (_, why) = passed_over.pop().ok_or_else(|| CommandError::device("there is none"))?;
    Err(why)
}

#[cfg(test)]
mod tests {
    use super::SpinHal::{Cuda, Hip, Host, Kfd};
    use super::*;

    /// Returns the choice where only these devices work, and the devices that were passed over.
    fn chosen(asked: Option<SpinHal>, works: &[SpinHal]) -> Option<(SpinHal, Vec<SpinHal>)> {
        let open = |hal: SpinHal| match works.contains(&hal) {
            true => Ok(hal),
            false => Err(CommandError::device(format!("no {hal:?}"))),
        };
        let choice = first_that_works(asked, &[Cuda, Hip, Host], open).ok()?;
        assert_eq!(choice.device, choice.hal);
        Some((choice.hal, choice.passed_over.into_iter().map(|(hal, _)| hal).collect()))
    }

    #[test]
    fn a_gpu_that_works_comes_before_the_processor() {
        assert_eq!(chosen(None, &[Host, Cuda, Hip, Kfd]), Some((Cuda, vec![])));
        assert_eq!(chosen(None, &[Host, Hip, Kfd]), Some((Hip, vec![Cuda])));
        assert_eq!(chosen(None, &[Host]), Some((Host, vec![Cuda, Hip])));
        assert_eq!(chosen(None, &[Kfd]), None);
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused() {
        for hal in [Host, Cuda, Hip, Kfd] {
            assert_eq!(chosen(Some(hal), &[Host, Cuda, Hip, Kfd]), Some((hal, vec![])));
        }
        let open = |_| Err::<(), _>(CommandError::device("no such library"));
        let error = first_that_works(Some(Hip), &[Host], open).expect_err("nothing works");
        assert_eq!(error.to_string(), "the device cannot be used: no such library");
    }
}
