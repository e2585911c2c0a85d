//! Streams, and their waits for words and events.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Out, exports};
use crate::code::{Answer, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::device::waits_for_signals_only;
use crate::memory::Kind;
use crate::ring::{Compare, Work};
use crate::runtime::{Object, runtime};
use crate::stream::{NON_BLOCKING, Stream};

fn create(stream: Out<usize>, flags: u32, priority: Option<i32>) -> Answer {
    if flags & !NON_BLOCKING != 0 {
        return Err(INVALID_VALUE);
    }
    let made = runtime().current()?.open_stream(flags, priority)?;
    stream.set(runtime().add(Object::Stream(made)))
}

/// Fails unless streams can wait for the word there.
fn check_word(word: usize) -> Answer {
    let kind = runtime().memory.kind(word, 4).filter(|_| word.is_multiple_of(4));
    match kind {
        Some(Kind::Signal) => Ok(()),
        Some(_) if !waits_for_signals_only() => Ok(()),
        _ => Err(INVALID_VALUE),
    }
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

    fn hipExtStreamCreateWithCUMask(stream: Out<usize>, words: u32, mask: *const u32) {
        if words == 0 || mask.is_null() {
            return Err(INVALID_VALUE);
        }
        let any = (0..words as usize).any(|at| {
            // SAFETY: HIP's caller promises that the mask has so many words.
            let word = unsafe { mask.add(at).read() };
            word != 0
        });
        if any { create(stream, 0, None) } else { Err(INVALID_VALUE) }
    }

    fn hipStreamDestroy(stream: usize) {
        if stream <= 1 {
            return Err(INVALID_HANDLE);
        }
        let object = runtime().stream(stream)?;
        runtime().forget(stream);
        // HIP may wait here or not; waiting is what callers have to be ready for.
        object.synchronize();
        object.device.close_stream(&object);
        Ok(())
    }

    fn hipStreamSynchronize(stream: usize) {
        let stream = runtime().stream(stream)?;
        stream.check_waitable()?;
        stream.synchronize();
        stream.device.check()
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
        status.set(runtime().stream(stream)?.capture.load(Ordering::Acquire))
    }

    fn hipStreamBeginCapture(stream: usize, mode: u32) {
        // Global, of the thread, and relaxed.
        if mode > 2 {
            return Err(INVALID_VALUE);
        }
        runtime().stream(stream)?.begin_capture()
    }

    fn hipStreamWaitEvent(stream: usize, event: usize, flags: u32) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let (stream, event) = (runtime().stream(stream)?, runtime().event(event)?);
        event.last().map_or(Ok(()), |record| stream.launch(Work::AwaitRecord(record)))
    }

    fn hipStreamWaitValue32(stream: usize, word: usize, value: u32, flags: u32, mask: u32) {
        let stream = runtime().stream(stream)?;
        let how = Compare::from_flags(flags).ok_or(INVALID_VALUE)?;
        check_word(word)?;
        stream.launch(Work::AwaitWord { word, value, mask, how })
    }

    fn hipStreamWriteValue32(stream: usize, word: usize, value: u32, _flags: u32) {
        let stream = runtime().stream(stream)?;
        let known = runtime().memory.kind(word, 4).filter(|_| word.is_multiple_of(4));
        known.ok_or(INVALID_VALUE)?;
        stream.launch(Work::WriteWord { word, value })
    }
}
