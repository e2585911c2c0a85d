//! Streams of HIP that this library makes, in hardware rings of their own.

use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

use xsched::Runtime;
use xsched_core::level::Level;
use xsched_hal_hip::{HipApi, HipError, HipLibrary, raw};
use xsched_hal_kfd::access::Access;
use xsched_hal_stream::StreamApi;

use super::{HipDevices, Pair, StreamHardware, Vendor};
use crate::platform::Hardware;
use crate::refusal::{Answer, Refusal};

impl HipDevices {
    /// A stream in a ring of its own on this thread's device, and a hardware queue on it, with
    /// which it ends. For XQueues of level 3 the driver's queue is found out as the stream is made;
    /// where that cannot be, they have a lower level and say why.
    pub(crate) fn own_queue(
        &self,
        runtime: &Runtime,
        level: Level,
        sees_all_launches: bool,
    ) -> Answer<(Box<dyn Hardware>, *mut c_void)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let library = known.library()?;
        // SAFETY: null is allowed.
        let ordinal = unsafe { hip_device(&library, std::ptr::null_mut()) }?;
        let pair = known.pair(runtime, library, ordinal, self.link.get(), sees_all_launches)?;
        drop(known);
        if level >= Level::Interrupt {
            see_rings(&pair);
        }
        let failed = |error: HipError| Refusal::hardware(error.to_string());
        let api = pair.below.api();
        let entered = api.enter().map_err(failed)?;
        let stream = api.create_stream(None).map_err(failed)?;
        drop(entered);
        let raw = stream.as_raw();
        let mut hardware = StreamHardware::new(pair, stream, raw.addr(), self.spacing_us);
        hardware.owned = true;
        Ok((Box::new(hardware), raw))
    }
}

/// Has the driver's queues of streams be known from now on, where level 3 can be had at all.
fn see_rings(pair: &Pair<HipApi>) {
    let can = pair.lv3.access().and_then(Access::choice);
    if let Err(why) = can.and_then(|_| pair.lv3.rings()) {
        tracing::info!("the stream cannot have level 3: {why}");
    }
}

impl<A: Vendor> Drop for StreamHardware<A> {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        let api = self.pair.below.api();
        let Ok(entered) = api.enter() else { return };
        // SAFETY: this has made the stream, and no queue uses it any more.
        if let Err(error) = unsafe { api.destroy_stream(self.stream) } {
            tracing::warn!(%error, "a stream could not be ended");
        }
        drop(entered);
    }
}

/// The number of the stream's device; of this thread's for null, and where HIP is too old to say.
///
/// # Safety
/// The stream is alive, or null.
pub(super) unsafe fn hip_device(library: &HipLibrary, stream: *mut c_void) -> Answer<u32> {
    let table = library.table();
    let mut device: c_int = 0;
    let get = table.hipStreamGetDevice.filter(|_| !stream.is_null());
    let (call, code) = match get {
        // SAFETY: the stream is alive, and the number may be written to.
        Some(get) => ("hipStreamGetDevice", unsafe { get(stream, &raw mut device) }),
        // SAFETY: the number may be written to.
        None => ("hipGetDevice", unsafe { (table.hipGetDevice)(&raw mut device) }),
    };
    if code != raw::SUCCESS {
        return Err(Refusal::invalid(format!("{call} answered {code}; is it a live stream?")));
    }
    u32::try_from(device).map_err(|_| Refusal::hardware(format!("{call} gave device {device}")))
}
