//! Devices.

use std::ffi::{c_char, c_int};

use xsched_emulated_device::code::{Answer, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE};
use xsched_emulated_device::{Device, check_safe};

use super::{Out, exports, write_text};
use crate::runtime::{PRIORITIES, runtime};

/// Compute units that a device says it has.
const COMPUTE_UNITS: c_int = 80;

/// HIP 6.4.0, say.
const VERSION: c_int = 60_400_000;

fn device(ordinal: c_int) -> Answer<&'static Device> {
    let ordinal = u32::try_from(ordinal).map_err(|_| INVALID_DEVICE)?;
    if runtime().visible() == 0 {
        return Err(NO_DEVICE);
    }
    runtime().device(ordinal).ok_or(INVALID_DEVICE)
}

exports! {
    fn hipInit(flags: u32) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        runtime().current().map(drop)
    }

    fn hipRuntimeGetVersion(version: Out<c_int>) {
        version.set(VERSION)
    }

    fn hipDriverGetVersion(version: Out<c_int>) {
        version.set(VERSION)
    }

    fn hipGetDeviceCount(count: Out<c_int>) {
        let visible = runtime().visible();
        count.set(visible.cast_signed())?;
        if visible == 0 { Err(NO_DEVICE) } else { Ok(()) }
    }

    fn hipGetDevice(ordinal: Out<c_int>) {
        ordinal.set(runtime().current()?.ordinal.cast_signed())
    }

    fn hipSetDevice(ordinal: c_int) {
        runtime().set_current(device(ordinal)?.ordinal);
        Ok(())
    }

    fn hipDeviceGetAttribute(value: Out<c_int>, attribute: u32, ordinal: c_int) {
        let device = device(ordinal)?;
        value.set(match attribute {
            // hipDeviceAttributeMultiprocessorCount.
            63 => COMPUTE_UNITS,
            // hipDeviceAttributePciBusId.
            67 => device.ordinal.cast_signed() + 1,
            // hipDeviceAttributeStreamPrioritiesSupported.
            78 => 1,
            // hipDeviceAttributeWarpSize.
            87 => 64,
            // hipDeviceAttributeCanUseStreamWaitValue.
            10_013 => 1,
            _ => return Err(INVALID_VALUE),
        })
    }

    fn hipDeviceGetName(name: Out<c_char>, bytes: c_int, ordinal: c_int) {
        device(ordinal)?;
        write_text("Emulated gfx942", name, bytes)
    }

    fn hipDeviceGetPCIBusId(id: Out<c_char>, bytes: c_int, ordinal: c_int) {
        let bus = device(ordinal)?.ordinal + 1;
        write_text(&format!("0000:{bus:02X}:00.0"), id, bytes)
    }

    fn hipDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        runtime().current()?;
        least.set(PRIORITIES.0)?;
        greatest.set(PRIORITIES.1)
    }

    fn hipDeviceReset() {
        runtime().reset(runtime().current()?);
        Ok(())
    }

    fn hipDeviceSynchronize() {
        let device = runtime().current()?;
        check_safe(device)?;
        device.synchronize();
        device.check()
    }
}
