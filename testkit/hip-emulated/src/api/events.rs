//! Events.

use std::sync::Arc;

use xsched_emulated_device::code::{Answer, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use xsched_emulated_device::{Event, await_condition, check_safe};

use super::{Out, exports};
use crate::runtime::{Object, runtime};

/// `hipEventDisableTiming`.
const NO_TIME: u32 = 2;
/// All flags that HIP has for events here.
const FLAGS: u32 = 0x2000_0000 | 0x4000_0000 | 0x8000_0000 | 1 | NO_TIME;

fn create(event: Out<usize>, flags: u32) -> Answer {
    if flags & !FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let made = Event::new(runtime().current()?, flags & NO_TIME == 0);
    event.set(runtime().add(Object::Event(Arc::new(made))))
}

/// When an event that takes the time completed.
fn time_ns(event: &Event) -> Answer<u64> {
    let record = event.last().filter(|_| event.takes_time).ok_or(INVALID_HANDLE)?;
    event.device.check()?;
    record.time_ns().ok_or(NOT_READY)
}

exports! {
    fn hipEventCreate(event: Out<usize>) {
        create(event, 0)
    }

    fn hipEventCreateWithFlags(event: Out<usize>, flags: u32) {
        create(event, flags)
    }

    fn hipEventDestroy(event: usize) {
        runtime().event(event)?;
        runtime().forget(event);
        Ok(())
    }

    fn hipEventRecord(event: usize, stream: usize) {
        let (event, stream) = (runtime().event(event)?, runtime().stream(stream)?);
        if event.device.ordinal != stream.device.ordinal {
            return Err(INVALID_HANDLE);
        }
        stream.record(&event)
    }

    fn hipEventQuery(event: usize) {
        let event = runtime().event(event)?;
        check_safe(event.device)?;
        // One that was never recorded has completed.
        let pending = event.last().is_some_and(|record| record.time_ns().is_none());
        event.device.check()?;
        if pending {
            return Err(NOT_READY);
        }
        event.note_seen();
        Ok(())
    }

    fn hipEventSynchronize(event: usize) {
        let event = runtime().event(event)?;
        check_safe(event.device)?;
        let lost = || event.device.error().is_some();
        if let Some(record) = event.last() {
            await_condition(|| lost() || record.time_ns().is_some());
        }
        event.device.check()
    }

    fn hipEventElapsedTime(ms: Out<f32>, start: usize, stop: usize) {
        let (start, stop) = (runtime().event(start)?, runtime().event(stop)?);
        let (start, stop) = (time_ns(&start)?, time_ns(&stop)?);
        ms.set(((stop as f64 - start as f64) / 1e6) as f32)
    }
}
