//! Memory that the host and the device both see.

use std::ffi::c_void;
use std::ptr;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use xsched_hal_stream::FlagMemory;

use crate::api::HipApi;
use crate::error::HipError;
use crate::raw;

/// Bytes of flags that belong together: no two words of different owners share a cache line.
const LINE_BYTES: usize = 64;
/// Bytes of an allocation that the command processor can wait for.
const SIGNAL_BYTES: usize = 8;

impl HipApi {
    /// A word that the command processor can wait for.
    pub(crate) fn signal_memory(&self, bytes: usize) -> Result<FlagMemory, HipError> {
        if bytes > SIGNAL_BYTES {
            return Err(HipError::SignalBytes { bytes });
        }
        let symbol = "hipExtMallocWithFlags";
        let allocate = self.library().table().hipExtMallocWithFlags;
        let allocate = allocate.ok_or(HipError::NoWaits { symbol })?;
        let mut memory = ptr::null_mut();
        // SAFETY: the pointer may be written to.
        let code = unsafe { allocate(&raw mut memory, SIGNAL_BYTES, raw::MALLOC_SIGNAL) };
        HipError::check(symbol, code)?;
        let device = memory.expose_provenance() as u64;
        zeroed(memory, device, SIGNAL_BYTES)
    }

    /// Memory of the host's that the device sees as well.
    pub(crate) fn host_memory(&self, bytes: usize) -> Result<FlagMemory, HipError> {
        let bytes = bytes.max(1).next_multiple_of(LINE_BYTES);
        let flags = raw::HOST_MALLOC_MAPPED | raw::HOST_MALLOC_PORTABLE | raw::HOST_MALLOC_COHERENT;
        let table = self.library().table();
        let mut host = ptr::null_mut();
        // SAFETY: the pointer may be written to.
        let code = unsafe { (table.hipHostMalloc)(&raw mut host, bytes, flags) };
        HipError::check("hipHostMalloc", code)?;
        // SAFETY: it was just allocated.
        match unsafe { self.device_address(host) } {
            Ok(device) => zeroed(host, device, bytes),
            Err(error) => {
                // SAFETY: it was just allocated, and nothing else refers to it.
                let _ = unsafe { (table.hipHostFree)(host) };
                Err(error)
            }
        }
    }
}

/// Sets memory that was just allocated to zero.
fn zeroed(memory: *mut c_void, device: u64, bytes: usize) -> Result<FlagMemory, HipError> {
    let host = NonNull::new(memory.cast::<AtomicU32>());
    let host = host.ok_or(HipError::Driver { call: "allocation", code: raw::OUT_OF_MEMORY })?;
    // SAFETY: the bytes were just allocated, and nothing else refers to them.
    unsafe { ptr::write_bytes(memory.cast::<u8>(), 0, bytes) };
    Ok(FlagMemory { host, device, bytes })
}
