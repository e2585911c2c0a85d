//! Kinds of launches that take about equally long.

use std::ffi::c_uint;

use crate::Address;

/// Hardware queues that a launch goes into, as `xsched_private_begin_launch` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Reach {
    /// The queue of the launch's stream.
    Stream = 0,
    /// The queue of a copy engine as well.
    Copies = 1,
    /// All of these and the queues of other streams.
    All = 2,
}

/// Numbers at the begin of `CUlaunchConfig` and `hipLaunchConfig_t`: the dimensions of grid and
/// blocks.
const DIMENSIONS: usize = 6;

/// Common property of launches that take about equally long: the function of the driver, the
/// kernel or graph, the dimensions, and for copies and fills the size to the next power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    hash: usize,
    reach: Reach,
}

impl Kind {
    /// Launches by the function at this place of the list.
    #[must_use]
    pub const fn new(index: usize) -> Self {
        Self { hash: 0, reach: Reach::Stream }.with(index)
    }

    /// Of these, those with this in common.
    #[must_use]
    pub const fn with(self, part: usize) -> Self {
        // As of FxHash, which compilers use.
        let hash = (self.hash.rotate_left(5) ^ part).wrapping_mul(0x517c_c1b7_2722_0a95);
        Self { hash, ..self }
    }

    /// Sets the hardware queues that the launches go into.
    #[must_use]
    pub const fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// Returns the hardware queues that the launches go into.
    pub(crate) const fn reach(self) -> Reach {
        self.reach
    }

    /// As a number.
    #[must_use]
    pub const fn number(self) -> u32 {
        (self.hash >> (usize::BITS - 32)) as u32
    }
}

/// An argument of a launch.
pub trait Part {
    /// Returns a number for how the argument affects the time of the launch; 0 for nothing.
    fn part(&self) -> usize {
        0
    }

    /// Returns a number for what is launched, if the argument says so; otherwise 0.
    fn of_handle(&self) -> usize {
        0
    }
}

impl Part for u32 {
    fn part(&self) -> usize {
        *self as usize
    }
}

impl Part for i32 {
    fn part(&self) -> usize {
        self.unsigned_abs() as usize
    }
}

impl Part for usize {
    fn part(&self) -> usize {
        self.checked_ilog2().map_or(0, |log| 1 + log as Self)
    }

    fn of_handle(&self) -> usize {
        *self
    }
}

impl<T> Part for *mut T {
    fn of_handle(&self) -> usize {
        self.addr()
    }
}

impl<T> Part for *const T {
    fn of_handle(&self) -> usize {
        self.addr()
    }
}

// Addresses on the device and values.
impl Part for u64 {}
impl Part for u16 {}
impl Part for u8 {}

/// Returns a number for how a launch's configuration affects its time.
///
/// # Safety
/// `config` is null or points to the vendor's structure for that.
#[must_use]
pub unsafe fn of_config(config: Address) -> usize {
    if config.is_null() {
        return 0;
    }
    // SAFETY: as the caller promises; the structures begin with these numbers.
    let dimensions = unsafe { config.cast::<[c_uint; DIMENSIONS]>().read() };
    dimensions.iter().fold(Kind::new(0), |kind, number| kind.with(*number as usize)).hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_dimensions_are_told_apart_and_addresses_are_not() {
        let kernel = std::ptr::without_provenance_mut::<u8>(0x7f00);
        let other = std::ptr::without_provenance_mut::<u8>(0x7f10);
        let of = |kernel: *mut u8, grid: u32, to: u64| {
            Kind::new(3).with(kernel.of_handle()).with(grid.part()).with(to.part()).number()
        };
        assert_eq!(of(kernel, 5, 1), of(kernel, 5, 2));
        assert_ne!(of(kernel, 5, 1), of(kernel, 6, 1));
        assert_ne!(of(kernel, 5, 1), of(other, 5, 1));
        assert_eq!(1_000_usize.part(), 1_023_usize.part());
        assert_ne!(1_000_usize.part(), 1_024_usize.part());
    }

    #[test]
    fn a_configuration_says_its_dimensions() {
        let mut config = [1_u32, 2, 3, 4, 5, 6, 7, 8];
        // SAFETY: it begins with six numbers.
        let of = |config: &mut [u32; 8]| unsafe { of_config(config.as_mut_ptr().cast()) };
        let before = of(&mut config);
        config[6] = 0;
        assert_eq!(of(&mut config), before);
        config[5] = 0;
        assert_ne!(of(&mut config), before);
        // SAFETY: it is null.
        assert_eq!(unsafe { of_config(std::ptr::null_mut()) }, 0);
    }
}
