//! Parameters of functions in C.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use crate::code::{Answer, INVALID_VALUE};

/// An out-parameter. The caller promises that it can be written to, if not null.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// None.
    pub const NONE: Self = Self(ptr::null_mut());

    /// Writes the value.
    ///
    /// # Errors
    /// If it is null.
    pub fn set(self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        self.offer(value);
        Ok(())
    }

    /// Writes the value, unless it is null.
    pub fn offer(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it came through a C interface, whose callers promise that it can be written
            // to.
            unsafe { self.0.write(value) };
        }
    }

    /// True if nothing is wanted.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes many values, as many as the caller has room for.
    pub fn set_all(self, values: impl Iterator<Item = T>) {
        for (at, value) in values.enumerate() {
            // SAFETY: as for one; the caller limits the values to the room that was promised.
            unsafe { self.0.add(at).write(value) };
        }
    }

    /// Reads the value.
    ///
    /// # Errors
    /// If it is null.
    pub fn get(&self) -> Answer<T>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as for writing; the caller promises that there is a value.
        Ok(unsafe { self.0.read() })
    }
}

/// Values that the caller has: one, or as many as another parameter says.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

impl<T> In<T> {
    /// None.
    pub const NONE: Self = Self(ptr::null());

    /// The values at an address that the caller had in a structure.
    #[must_use]
    pub const fn at(address: usize) -> Self {
        Self(ptr::with_exposed_provenance(address))
    }

    /// The first value.
    ///
    /// # Errors
    /// If it is null.
    pub fn get(&self) -> Answer<&T> {
        // SAFETY: it came through a C interface, whose callers promise that there is one if it is
        // not null.
        unsafe { self.0.as_ref() }.ok_or(INVALID_VALUE)
    }

    /// The first `count` values.
    ///
    /// # Errors
    /// If it is null and there are any.
    pub fn slice(&self, count: usize) -> Answer<&[T]> {
        match count {
            0 => Ok(&[]),
            _ if self.0.is_null() => Err(INVALID_VALUE),
            // SAFETY: the caller promises that there are this many.
            _ => Ok(unsafe { std::slice::from_raw_parts(self.0, count) }),
        }
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// A text of the caller's that ends with zero, as the caller promises, if not null.
#[repr(transparent)]
#[derive(Debug)]
pub struct Text(*const c_char);

impl Text {
    /// The text.
    ///
    /// # Errors
    /// If it is null, or no UTF-8.
    pub fn get(&self) -> Answer<String> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: it came through a C interface, whose callers promise that it ends with zero.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| INVALID_VALUE)
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.0.is_null()
    }
}

/// Writes a text and a zero, as far as there is room for this many bytes.
///
/// # Errors
/// If there is no room.
pub fn write_text(text: &str, to: Out<c_char>, bytes: c_int) -> Answer {
    let room = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_sub(1));
    let room = room.filter(|_| !to.is_null()).ok_or(INVALID_VALUE)?;
    let bytes = text.bytes().take(room).chain([0]);
    to.set_all(bytes.map(|byte| byte as c_char));
    Ok(())
}

/// Where each argument of a kernel goes in the block of them, and the length of the block. Sizes
/// that no number has are structures', which are aligned to 8 here.
#[must_use]
pub fn layout(sizes: &[usize]) -> (Vec<usize>, usize) {
    let mut end = 0_usize;
    let mut starts = Vec::with_capacity(sizes.len());
    for size in sizes {
        let align = if matches!(size, 1 | 2 | 4) { *size } else { 8 };
        let start = end.next_multiple_of(align);
        starts.push(start);
        end = start + size;
    }
    (starts, end)
}

/// Copies this many bytes to a place in a block. The caller promises that they are there.
fn put(block: &mut [u64], start: usize, from: *const u8, bytes: usize) -> Answer {
    if from.is_null() || start + bytes > block.len() * 8 {
        return Err(INVALID_VALUE);
    }
    let to = block.as_mut_ptr().cast::<u8>();
    // SAFETY: the block is long enough; the caller promises the rest.
    unsafe { from.copy_to_nonoverlapping(to.add(start), bytes) };
    Ok(())
}

/// The block of arguments of these sizes, from their addresses. The caller promises that there is
/// an address for each, and an argument at it.
///
/// # Errors
/// If an address is null.
pub fn gather(sizes: &[usize], parameters: In<*const u8>) -> Answer<Box<[u64]>> {
    let (starts, length) = layout(sizes);
    let mut block = vec![0; length.div_ceil(8).max(1)].into_boxed_slice();
    let addresses = parameters.slice(sizes.len())?;
    for ((start, size), from) in starts.into_iter().zip(sizes).zip(addresses) {
        put(&mut block, start, *from, *size)?;
    }
    Ok(block)
}

/// The block of arguments, from one that the caller made: pairs of a number and a value, which end
/// with the number `end`. The caller promises so.
///
/// # Errors
/// If there is something else, or the block is too short.
pub fn unpack(sizes: &[usize], extra: In<usize>, end: usize) -> Answer<Box<[u64]>> {
    let (mut from, mut bytes) = (None, None);
    let mut at = 0;
    loop {
        let number = extra.slice(at + 1)?[at];
        if number == end {
            break;
        }
        let value = extra.slice(at + 2)?[at + 1];
        match number {
            1 => from = Some(value),
            2 => bytes = Some(value),
            _ => return Err(INVALID_VALUE),
        }
        at += 2;
    }
    let bytes: *const usize = ptr::with_exposed_provenance(bytes.ok_or(INVALID_VALUE)?);
    let bytes = *In(bytes).get()?;
    let (_, length) = layout(sizes);
    if bytes < length {
        return Err(INVALID_VALUE);
    }
    let mut block = vec![0; length.div_ceil(8).max(1)].into_boxed_slice();
    if length > 0 {
        put(&mut block, 0, ptr::with_exposed_provenance(from.ok_or(INVALID_VALUE)?), length)?;
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_aligned_to_their_size() {
        assert_eq!(layout(&[1, 4, 2, 8]), (vec![0, 4, 8, 16], 24));
        assert_eq!(layout(&[4, 12, 1]), (vec![0, 8, 20], 21));
        assert_eq!(layout(&[]), (vec![], 0));
    }
}
