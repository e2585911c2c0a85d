//! Numbers of calls.

use std::fmt;
use std::marker::PhantomData;

/// Direction of the argument, as the program sees it. The driver does not look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The driver reads it (`_IOW`).
    Write,
    /// The driver writes it (`_IOR`).
    Read,
    /// Both (`_IOWR`).
    Both,
}

/// A call of the driver, and the type of its argument.
pub struct Call<T> {
    /// The name in the header, without `AMDKFD_IOC_`.
    pub name: &'static str,
    /// The whole number: direction, size of `T`, the magic byte `K` and the number.
    pub request: u32,
    /// The first minor version that has it.
    pub since: u32,
    argument: PhantomData<fn(T) -> T>,
}

impl<T> Call<T> {
    /// A call by its number, with the size of its argument.
    #[must_use]
    pub const fn new(name: &'static str, direction: Direction, number: u8, since: u32) -> Self {
        let direction = match direction {
            Direction::Write => 1_u32,
            Direction::Read => 2,
            Direction::Both => 3,
        };
        let size = size_of::<T>();
        assert!(size < 1 << 14, "the number has 14 bits for the size");
        let request = (direction << 30) | ((size as u32) << 16) | (0x4b << 8) | number as u32;
        Self { name, request, since, argument: PhantomData }
    }

    /// The number alone, by which the driver finds the call.
    #[must_use]
    pub const fn number(&self) -> u8 {
        (self.request & 0xff) as u8
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:#x})", self.name, self.request)
    }
}

impl<T> Clone for Call<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Call<T> {}
