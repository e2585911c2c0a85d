//! Devices and their primary contexts.

use std::env;
use std::ffi::{c_char, c_int};
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use xsched_emulated_device::c::{Out, Text, write_text};
use xsched_emulated_device::code::{Answer, INVALID_DEVICE, INVALID_VALUE};

use crate::attributes;
use crate::context::primary_of;
use crate::driver::driver;
use crate::exports::exports;

/// Bytes of memory that a device has.
pub(crate) static MEMORY: LazyLock<usize> = LazyLock::new(|| {
    let text = env::var("XSCHED_EMULATED_MEMORY").ok();
    text.and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(4_096) << 20
});

/// The number of a device that there is.
pub(crate) fn known(device: c_int) -> Answer<u32> {
    let number = u32::try_from(device).map_err(|_| INVALID_DEVICE)?;
    let is_there = (number as usize) < driver().primaries.len();
    if is_there { Ok(number) } else { Err(INVALID_DEVICE) }
}

fn pci(ordinal: u32) -> String {
    format!("0000:{:02X}:00.0", attributes::bus(ordinal))
}

exports! {
    fn cuDeviceGetCount(count: Out<c_int>) {
        count.set(driver().primaries.len() as c_int)
    }

    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) {
        device.set(known(ordinal)?.cast_signed())
    }

    fn cuDeviceGetName(name: Out<c_char>, bytes: c_int, device: c_int) {
        known(device)?;
        write_text("Emulated H200", name, bytes)
    }

    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) {
        value.set(attributes::device(attribute, known(device)?)?)
    }

    fn cuDeviceComputeCapability(major: Out<c_int>, minor: Out<c_int>, device: c_int) {
        known(device)?;
        major.set(9)?;
        minor.set(0)
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        known(device)?;
        bytes.set(*MEMORY)
    }

    fn cuDeviceGetPCIBusId(id: Out<c_char>, bytes: c_int, device: c_int) {
        write_text(&pci(known(device)?), id, bytes)
    }

    fn cuDeviceGetByPCIBusId(device: Out<c_int>, id: Text) {
        let id = id.get()?;
        let mut all = 0..driver().primaries.len() as u32;
        let found = all.find(|ordinal| pci(*ordinal).eq_ignore_ascii_case(&id));
        device.set(found.ok_or(INVALID_DEVICE)?.cast_signed())
    }

    also cuDeviceGetUuid_v2
    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) {
        uuid.set(attributes::uuid(known(device)?))
    }

    fn cuDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) {
        known(device)?;
        known(peer)?;
        can.set(0)
    }

    fn cuDevicePrimaryCtxRetain(context: Out<usize>, device: c_int) {
        let (handle, primary) = primary_of(device)?;
        context.set(handle)?;
        primary.retain();
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        primary_of(device)?.1.release()
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        primary_of(device)?.1.reset();
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: u32) {
        if flags & !0xff != 0 {
            return Err(INVALID_VALUE);
        }
        primary_of(device)?.1.flags.store(flags, Ordering::Release);
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<u32>, active: Out<c_int>) {
        let (_, primary) = primary_of(device)?;
        flags.set(primary.flags.load(Ordering::Acquire))?;
        active.set(primary.is_active().into())
    }
}
