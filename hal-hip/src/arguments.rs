//! A kernel's arguments.

use std::ffi::c_void;
use std::ptr;

use crate::error::HipError;

/// How many arguments fit.
const COUNT: usize = 32;
/// How many bytes fit.
const BYTES: usize = 256;

mod sealed {
    pub trait Sealed {}
}

/// A value that a kernel takes as an argument: a number or an address.
pub trait Argument: sealed::Sealed {
    /// Bytes of the argument in memory, and how many there are. It is aligned to its size.
    #[doc(hidden)]
    fn bytes(self) -> ([u8; 8], usize);
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl sealed::Sealed for $number {}
        impl Argument for $number {
            fn bytes(self) -> ([u8; 8], usize) {
                let own = self.to_ne_bytes();
                let mut bytes = [0; 8];
                bytes[..own.len()].copy_from_slice(&own);
                (bytes, own.len())
            }
        }
    )+};
}

numbers!(u8, i8, u16, i16, u32, i32, f32, u64, i64, f64, usize, isize);

impl<T> sealed::Sealed for *const T {}
impl<T> Argument for *const T {
    fn bytes(self) -> ([u8; 8], usize) {
        self.expose_provenance().bytes()
    }
}
impl<T> sealed::Sealed for *mut T {}
impl<T> Argument for *mut T {
    fn bytes(self) -> ([u8; 8], usize) {
        self.expose_provenance().bytes()
    }
}

/// Arguments of a kernel, kept with the command: up to 32, of 256 bytes together.
///
/// ```
/// use xsched_hal_hip::Arguments;
///
/// let arguments = Arguments::new().with(0x1000_u64)?.with(3_u32)?.with(0.5_f32)?;
/// assert_eq!(arguments.len(), 3);
/// # Ok::<(), xsched_hal_hip::HipError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Arguments {
    bytes: Bytes,
    offsets: [u16; COUNT],
    count: usize,
    used: usize,
}

/// Aligned for whatever an argument may be.
#[derive(Clone, Debug)]
#[repr(align(16))]
struct Bytes([u8; BYTES]);

impl Arguments {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Bytes([0; BYTES]), offsets: [0; COUNT], count: 0, used: 0 }
    }

    /// One more.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn with(self, argument: impl Argument) -> Result<Self, HipError> {
        let (bytes, size) = argument.bytes();
        self.with_bytes(&bytes[..size], size)
    }

    /// One more: a structure that is passed by value, as its bytes. `align` is its alignment, a
    /// power of two up to 16.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn with_bytes(mut self, bytes: &[u8], align: usize) -> Result<Self, HipError> {
        let start = self.used.next_multiple_of(align.clamp(1, 16));
        let end = start + bytes.len();
        let full = HipError::Arguments { count: COUNT, bytes: BYTES };
        let (Some(to), Some(offset)) =
            (self.bytes.0.get_mut(start..end), self.offsets.get_mut(self.count))
        else {
            return Err(full);
        };
        to.copy_from_slice(bytes);
        *offset = u16::try_from(start).map_err(|_| full)?;
        self.count += 1;
        self.used = end;
        Ok(self)
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Tells whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Where each of them is. Those that are not there are null.
    pub(crate) fn pointers(&self) -> [*mut c_void; COUNT] {
        let mut pointers = [ptr::null_mut(); COUNT];
        for (pointer, offset) in pointers.iter_mut().zip(&self.offsets[..self.count]) {
            let at: *const u8 = &raw const self.bytes.0[usize::from(*offset)];
            *pointer = at.cast_mut().cast();
        }
        pointers
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(arguments: &Arguments) -> &[u16] {
        &arguments.offsets[..arguments.count]
    }

    #[test]
    fn arguments_are_aligned_to_their_size() {
        let address = ptr::without_provenance::<u8>(0x1234_5678);
        let arguments = Arguments::new().with(1_u8).and_then(|all| all.with(2_u32));
        let arguments = arguments.and_then(|all| all.with(3_u8)).and_then(|all| all.with(address));
        let arguments = arguments.expect("they fit");
        assert_eq!(offsets(&arguments), [0, 4, 8, 16]);
        assert_eq!(arguments.bytes.0[4..8], 2_u32.to_ne_bytes());
        assert_eq!(arguments.bytes.0[16..24], 0x1234_5678_usize.to_ne_bytes());
        let pointers = arguments.pointers();
        assert_eq!(pointers[1].addr() - pointers[0].addr(), 4);
        assert!(pointers[4].is_null());
    }

    #[test]
    fn too_many_arguments_are_refused() {
        let mut arguments = Arguments::new();
        for n in 0..32 {
            arguments = arguments.with(n).expect("32 fit");
        }
        assert!(matches!(arguments.with(0_u8), Err(HipError::Arguments { count: 32, .. })));
        let whole = Arguments::new().with_bytes(&[1; 256], 16).expect("256 bytes fit");
        assert!(whole.with_bytes(&[1], 1).is_err());
        assert!(Arguments::new().with_bytes(&[1; 257], 16).is_err());
        assert!(Arguments::new().with(1_u8).expect("fits").with_bytes(&[1; 250], 16).is_err());
    }
}
