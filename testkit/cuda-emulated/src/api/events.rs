//! Events.

use std::sync::Arc;

use xsched_emulated_device::c::Out;
use xsched_emulated_device::code::{
    Answer, CAPTURED_EVENT, INVALID_HANDLE, INVALID_VALUE, NOT_READY,
};
use xsched_emulated_device::{Event, await_condition, check_safe};

use super::check_default;
use crate::context::engine;
use crate::driver::{Object, driver};
use crate::exports::exports;

/// `CU_EVENT_DISABLE_TIMING`, and all flags.
const NO_TIME: u32 = 2;
const FLAGS: u32 = 1 | NO_TIME | 4;

fn record(event: usize, stream: usize) -> Answer {
    let (event, stream) = (driver().event(event)?, driver().stream(stream)?);
    if !std::ptr::eq(event.device, stream.device) {
        return Err(INVALID_HANDLE);
    }
    check_default(&stream)?;
    stream.record(&event)
}

/// An event that can be asked whether it is over.
fn asked(event: usize) -> Answer<Arc<Event>> {
    let event = driver().event(event)?;
    event.device.check()?;
    if let Some((capture, _)) = event.captured() {
        capture.spoil();
        return Err(CAPTURED_EVENT);
    }
    check_safe(event.device)?;
    Ok(event)
}

/// When an event that takes the time completed.
fn time_ns(event: usize) -> Answer<u64> {
    let event = driver().event(event)?;
    event.device.check()?;
    if event.captured().is_some() {
        return Err(CAPTURED_EVENT);
    }
    let record = event.last().filter(|_| event.takes_time).ok_or(INVALID_HANDLE)?;
    record.time_ns().ok_or(NOT_READY)
}

exports! {
    fn cuEventCreate(event: Out<usize>, flags: u32) {
        if event.is_null() || flags & !FLAGS != 0 || flags & (4 | NO_TIME) == 4 {
            return Err(INVALID_VALUE);
        }
        let made = Event::new(engine()?, flags & NO_TIME == 0);
        event.set(driver().objects.add(Object::Event(Arc::new(made))))
    }

    fn cuEventDestroy_v2(event: usize) {
        driver().event(event)?;
        driver().objects.remove(event);
        Ok(())
    }

    [cuEventRecord_ptsz]
    fn cuEventRecord(event: usize, stream: usize) {
        record(event, stream)
    }

    [cuEventRecordWithFlags_ptsz]
    fn cuEventRecordWithFlags(
        event: usize,
        stream: usize,
        flags: u32,
    ) {
        if flags & !1 != 0 {
            return Err(INVALID_VALUE);
        }
        record(event, stream)
    }

    fn cuEventQuery(event: usize) {
        // One that was never recorded has completed.
        let pending = asked(event)?.last().is_some_and(|record| record.time_ns().is_none());
        if pending { Err(NOT_READY) } else { Ok(()) }
    }

    fn cuEventSynchronize(event: usize) {
        let event = asked(event)?;
        let lost = || event.device.error().is_some();
        if let Some(record) = event.last() {
            await_condition(|| lost() || record.time_ns().is_some());
        }
        event.device.check()
    }

    also cuEventElapsedTime_v2
    fn cuEventElapsedTime(ms: Out<f32>, start: usize, stop: usize) {
        let (start, stop) = (time_ns(start)?, time_ns(stop)?);
        ms.set(((stop as f64 - start as f64) / 1e6) as f32)
    }
}
