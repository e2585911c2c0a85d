//! Streams, and their waits for words and events.

use std::env;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use xsched_emulated_device::code::{Answer, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use xsched_emulated_device::{
    Compare, Kind as Command, MemoryKind as Kind, NON_BLOCKING, Place, Stream, Work, exchange_mode,
    word32,
};

use super::{In, Out, exports};
use crate::runtime::{Object, PRIORITIES, launch, of_thread, runtime};

/// True if streams wait for signal memory only.
static SIGNALS_ONLY: LazyLock<bool> = LazyLock::new(|| {
    let number = env::var("GPU_STREAMOPS_CP_WAIT").ok();
    number.and_then(|text| text.trim().parse::<usize>().ok()).is_some_and(|number| number > 0)
});

/// A stream; in a ring of its own, if it has no priority.
fn create(stream: Out<usize>, flags: u32, priority: Option<i32>) -> Answer {
    if flags & !NON_BLOCKING != 0 {
        return Err(INVALID_VALUE);
    }
    let place = if priority.is_some() { Place::Shared } else { Place::Own };
    let number = priority.unwrap_or_default().clamp(PRIORITIES.1, PRIORITIES.0);
    let made = runtime().current()?.open_stream(flags, number, place)?;
    stream.set(runtime().add(Object::Stream(made)))
}

/// Fails unless streams can wait for the word there.
fn check_word(word: usize) -> Answer {
    let kind = runtime().memory.kind(word, 4).filter(|_| word.is_multiple_of(4));
    match kind {
        Some(Kind::Signal) => Ok(()),
        Some(_) if !*SIGNALS_ONLY => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

fn synchronize(stream: usize) -> Answer {
    let stream = runtime().stream(stream)?;
    stream.check_not_captured()?;
    stream.synchronize();
    stream.device.check()
}

fn query(stream: &Arc<Stream>) -> Answer {
    stream.device.check()?;
    if stream.done() < stream.launched() { Err(NOT_READY) } else { Ok(()) }
}

exports! {
    fn hipStreamCreate(stream: Out<usize>) {
        create(stream, 0, Some(0))
    }

    fn hipStreamCreateWithFlags(stream: Out<usize>, flags: u32) {
        create(stream, flags, Some(0))
    }

    fn hipStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: c_int) {
        create(stream, flags, Some(priority))
    }

    fn hipExtStreamCreateWithCUMask(stream: Out<usize>, words: u32, mask: In<u32>) {
        let any = mask.slice(words as usize)?.iter().any(|word| *word != 0);
        if any { create(stream, 0, None) } else { Err(INVALID_VALUE) }
    }

    fn hipStreamDestroy(stream: usize) {
        if stream <= 2 {
            return Err(INVALID_HANDLE);
        }
        let object = runtime().stream(stream)?;
        runtime().note_end(&object);
        runtime().forget(stream);
        // HIP may wait here or not; waiting is what callers have to be ready for.
        object.synchronize();
        object.device.close_stream(&object);
        Ok(())
    }

    fn hipStreamSynchronize(stream: usize) {
        synchronize(stream)
    }

    fn hipStreamSynchronize_spt(stream: usize) {
        synchronize(of_thread(stream))
    }

    fn hipStreamQuery(stream: usize) {
        query(&runtime().stream(stream)?)
    }

    fn hipStreamGetFlags(stream: usize, flags: Out<u32>) {
        flags.set(runtime().stream(stream)?.flags)
    }

    fn hipStreamGetPriority(stream: usize, priority: Out<c_int>) {
        priority.set(runtime().stream(stream)?.priority)
    }

    fn hipStreamGetDevice(stream: usize, device: Out<c_int>) {
        device.set(runtime().stream(stream)?.device.ordinal.cast_signed())
    }

    fn hipStreamIsCapturing(stream: usize, status: Out<u32>) {
        status.set(runtime().stream(stream)?.capture_status())
    }

    fn hipStreamBeginCapture(stream: usize, mode: u32) {
        runtime().stream(stream)?.begin_capture(mode)
    }

    fn hipThreadExchangeStreamCaptureMode(mode: Out<u32>) {
        let before = exchange_mode(mode.get()?)?;
        mode.set(before)
    }

    fn hipStreamWaitEvent(stream: usize, event: usize, flags: u32) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let (stream, event) = (runtime().stream(stream)?, runtime().event(event)?);
        stream.await_event(&event)
    }

    fn hipStreamWaitValue32(stream: usize, word: usize, value: u32, flags: u32, mask: u32) {
        let stream = runtime().stream(stream)?;
        let how = Compare::from_flags(flags).ok_or(INVALID_VALUE)?;
        check_word(word)?;
        let holds = move || how.holds(word32(word).load(Ordering::Acquire), value, mask);
        launch(&stream, Command::MemoryOperations, Work::Await(Arc::new(holds)))
    }

    fn hipStreamWriteValue32(stream: usize, word: usize, value: u32, _flags: u32) {
        let stream = runtime().stream(stream)?;
        let known = runtime().memory.kind(word, 4).filter(|_| word.is_multiple_of(4));
        known.ok_or(INVALID_VALUE)?;
        let write = move || word32(word).store(value, Ordering::Release);
        launch(&stream, Command::MemoryOperations, Work::Short(Arc::new(write)))
    }
}
