//! Handles of the runtime, and what it says about a device.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use xsched_hal_stream::About;

use crate::error::HipError;
use crate::library::HipLibrary;
use crate::raw;
use crate::raw::Handle;

/// A stream's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HipStream(pub(crate) usize);

impl HipStream {
    /// A stream of the program's, by its `hipStream_t`. 0 and 1 are the legacy default stream.
    #[must_use]
    pub fn from_raw(stream: Handle) -> Self {
        Self(stream.expose_provenance())
    }

    /// The stream's `hipStream_t`.
    #[must_use]
    pub fn as_raw(self) -> Handle {
        ptr::with_exposed_provenance_mut(self.0)
    }
}

/// An event's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HipEvent(pub(crate) usize);

impl HipEvent {
    /// The event's `hipEvent_t`.
    #[must_use]
    pub fn as_raw(self) -> Handle {
        ptr::with_exposed_provenance_mut(self.0)
    }
}

/// `hipStreamCaptureModeRelaxed`.
const RELAXED: c_uint = 2;

static LEAVES_CAPTURES_ALONE: AtomicBool = AtomicBool::new(false);

/// From now on, each thread that calls the runtime through this crate has its capture mode relaxed
/// and keeps it: what it asks the runtime then spoils no capture that a program's thread has begun.
/// For interposers, in programs that capture and know of no other thread.
pub fn leave_captures_alone() {
    LEAVES_CAPTURES_ALONE.store(true, Ordering::Relaxed);
}

/// Relaxes this thread's capture mode, once, if it is to be.
pub(crate) fn relax(library: &HipLibrary) {
    thread_local! {
        static IS_RELAXED: Cell<bool> = const { Cell::new(false) };
    }
    if !LEAVES_CAPTURES_ALONE.load(Ordering::Relaxed) || IS_RELAXED.replace(true) {
        return;
    }
    if let Some(exchange) = library.table().hipThreadExchangeStreamCaptureMode {
        let mut mode = RELAXED;
        // A runtime that refuses leaves it as it was.
        // SAFETY: it reads and writes a number.
        let _ = unsafe { exchange(&raw mut mode) };
    }
}

/// Makes a device current on a thread until it is dropped.
#[derive(Debug)]
pub struct Entered<'a> {
    library: &'a HipLibrary,
    /// The device that was current before, if that was another one.
    before: Option<c_int>,
    /// The current device is the thread's.
    _thread: PhantomData<*const ()>,
}

impl<'a> Entered<'a> {
    pub(crate) fn of(library: &'a HipLibrary, device: c_int) -> Result<Self, HipError> {
        relax(library);
        let table = library.table();
        let mut before = device;
        // SAFETY: the number may be written to.
        HipError::check("hipGetDevice", unsafe { (table.hipGetDevice)(&raw mut before) })?;
        let before = (before != device).then_some(before);
        if before.is_some() {
            // SAFETY: it takes any number.
            HipError::check("hipSetDevice", unsafe { (table.hipSetDevice)(device) })?;
        }
        Ok(Self { library, before, _thread: PhantomData })
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: it takes any number. There is nothing to be done about an error.
            let _ = unsafe { (self.library.table().hipSetDevice)(before) };
        }
    }
}

/// A mask with this many compute units in it.
pub(crate) fn full_mask(units: u32) -> Vec<u32> {
    let words = units.max(1).div_ceil(32);
    let used = |word: u32| units.max(1).saturating_sub(word * 32).min(32);
    (0..words).map(|word| u32::MAX >> (32 - used(word))).collect()
}

/// Asks a device what it is.
pub(crate) fn about(library: &HipLibrary, device: c_int) -> Result<About, HipError> {
    let table = library.table();
    let (mut units, mut least, mut most) = (0, 0, 0);
    let attribute = raw::ATTRIBUTE_MULTIPROCESSOR_COUNT;
    // SAFETY: the number may be written to.
    let code = unsafe { (table.hipDeviceGetAttribute)(&raw mut units, attribute, device) };
    HipError::check("hipDeviceGetAttribute", code)?;
    // SAFETY: both numbers may be written to.
    let code = unsafe { (table.hipDeviceGetStreamPriorityRange)(&raw mut least, &raw mut most) };
    HipError::check("hipDeviceGetStreamPriorityRange", code)?;
    let name = text("hipDeviceGetName", |to, bytes| {
        // SAFETY: as many bytes may be written to.
        unsafe { (table.hipDeviceGetName)(to, bytes, device) }
    })?;
    let pci = text("hipDeviceGetPCIBusId", |to, bytes| {
        // SAFETY: as many bytes may be written to.
        unsafe { (table.hipDeviceGetPCIBusId)(to, bytes, device) }
    })?;
    let version = library.version()?;
    let (major, minor, patch) = (version / 10_000_000, version / 100_000 % 100, version % 100_000);
    Ok(About {
        device: if name.is_empty() { "AMD GPU".to_owned() } else { name },
        // Without the function, which is 0.
        pci: pci.split('.').next().unwrap_or_default().to_ascii_lowercase(),
        driver: format!("HIP {major}.{minor}.{patch}"),
        library: library.name().to_owned(),
        units: units.unsigned_abs(),
        priorities: (least, most),
        side_by_side: true,
    })
}

/// A text that a call writes.
fn text(
    call: &'static str,
    write: impl FnOnce(*mut c_char, c_int) -> raw::Code,
) -> Result<String, HipError> {
    let mut bytes = [0_u8; 256];
    // One byte less, so that it ends with a zero whatever the call does.
    HipError::check(call, write(bytes.as_mut_ptr().cast(), 255))?;
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_all_units() {
        assert_eq!(full_mask(80), [u32::MAX, u32::MAX, 0xffff]);
        assert_eq!(full_mask(64), [u32::MAX, u32::MAX]);
        assert_eq!(full_mask(1), [1]);
        assert_eq!(full_mask(0), [1]);
        assert_eq!(full_mask(304).iter().map(|word| word.count_ones()).sum::<u32>(), 304);
    }
}
