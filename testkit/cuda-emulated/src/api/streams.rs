//! Streams.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use xsched_emulated_device::c::Out;
use xsched_emulated_device::code::{Answer, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use xsched_emulated_device::{Kind, NON_BLOCKING, Stream, Work};

use super::{check_default, launch};
use crate::attributes::PRIORITIES;
use crate::context::{engine, place};
use crate::driver::{Object, driver};
use crate::exports::{exports, on_host};

/// A function that a stream calls: the stream, the answer so far, and its data.
type Callback = extern "C" fn(usize, u32, usize);

fn create(stream: Out<usize>, flags: u32, priority: c_int) -> Answer {
    if stream.is_null() || flags & !NON_BLOCKING != 0 {
        return Err(INVALID_VALUE);
    }
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    let made = engine()?.open_stream(flags, priority, place())?;
    stream.set(driver().objects.add(Object::Stream(made)))
}

/// The handle of a stream's context.
fn context_of(stream: &Stream) -> Answer<usize> {
    let is_its = |object: &Object| match object {
        Object::Context(context) => {
            context.engine().is_ok_and(|engine| std::ptr::eq(engine, stream.device))
        }
        _ => false,
    };
    driver().objects.find(is_its).ok_or(INVALID_HANDLE)
}

exports! {
    fn cuStreamCreate(stream: Out<usize>, flags: u32) {
        create(stream, flags, 0)
    }

    fn cuStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: c_int) {
        create(stream, flags, priority)
    }

    fn cuStreamDestroy_v2(stream: usize) {
        if stream <= 2 {
            return Err(INVALID_HANDLE);
        }
        let object = driver().stream(stream)?;
        driver().objects.remove(stream);
        if let Some((capture, _)) = object.capture() {
            capture.spoil();
        }
        object.device.close_stream(&object);
        object.device.check()
    }

    [cuStreamSynchronize_ptsz]
    fn cuStreamSynchronize(stream: usize) {
        let stream = driver().stream(stream)?;
        check_default(&stream)?;
        stream.check_not_captured()?;
        if stream.is_default {
            // As something launched into it would.
            stream.launch(Kind::Empty, Work::Nothing)?;
        }
        stream.synchronize();
        stream.device.check()
    }

    [cuStreamQuery_ptsz]
    fn cuStreamQuery(stream: usize) {
        let stream = driver().stream(stream)?;
        check_default(&stream)?;
        stream.check_not_captured()?;
        let is_busy = stream.done() < stream.launched();
        if is_busy { Err(NOT_READY) } else { Ok(()) }
    }

    [cuStreamGetFlags_ptsz]
    fn cuStreamGetFlags(stream: usize, flags: Out<u32>) {
        let stream = driver().stream(stream)?;
        // As the driver of version 580.
        stream.check_not_captured()?;
        flags.set(stream.flags)
    }

    [cuStreamGetPriority_ptsz]
    fn cuStreamGetPriority(stream: usize, priority: Out<c_int>) {
        priority.set(driver().stream(stream)?.priority)
    }

    [cuStreamGetId_ptsz]
    fn cuStreamGetId(stream: usize, id: Out<u64>) {
        let stream = driver().stream(stream)?;
        id.set(Arc::as_ptr(&stream) as u64)
    }

    [cuStreamGetDevice_ptsz]
    fn cuStreamGetDevice(stream: usize, device: Out<c_int>) {
        device.set(driver().stream(stream)?.device.ordinal.cast_signed())
    }

    [cuStreamGetCtx_ptsz]
    fn cuStreamGetCtx(stream: usize, context: Out<usize>) {
        context.set(context_of(&*driver().stream(stream)?)?)
    }

    [cuStreamGetCtx_v2_ptsz]
    fn cuStreamGetCtx_v2(stream: usize, context: Out<usize>, green: Out<usize>) {
        green.offer(0);
        context.set(context_of(&*driver().stream(stream)?)?)
    }

    [cuStreamWaitEvent_ptsz]
    fn cuStreamWaitEvent(stream: usize, event: usize, flags: u32) {
        if flags & !1 != 0 {
            return Err(INVALID_VALUE);
        }
        let (stream, event) = (driver().stream(stream)?, driver().event(event)?);
        check_default(&stream)?;
        stream.await_event(&event)
    }

    [cuStreamAddCallback_ptsz]
    fn cuStreamAddCallback(
        stream: usize,
        function: Option<Callback>,
        data: usize,
        flags: u32,
    ) {
        let function = function.filter(|_| flags == 0).ok_or(INVALID_VALUE)?;
        let object = driver().stream(stream)?;
        object.check_not_captured()?;
        let call = move || on_host(|| function(stream, 0, data));
        launch(&object, Kind::Call, Work::Call(Arc::new(call)))
    }

    [cuLaunchHostFunc_ptsz]
    fn cuLaunchHostFunc(
        stream: usize,
        function: Option<extern "C" fn(usize)>,
        data: usize,
    ) {
        let function = function.ok_or(INVALID_VALUE)?;
        let call = Work::Call(Arc::new(move || on_host(|| function(data))));
        launch(&driver().stream(stream)?, Kind::Call, call)
    }

    [cuStreamAttachMemAsync_ptsz]
    fn cuStreamAttachMemAsync(
        stream: usize,
        memory: usize,
        _bytes: usize,
        _flags: u32,
    ) {
        driver().stream(stream)?;
        driver().memory.kind(memory, 1).map(drop).ok_or(INVALID_VALUE)
    }

    [cuStreamGetAttribute_ptsz]
    fn cuStreamGetAttribute(
        stream: usize,
        _attribute: u32,
        value: Out<[u64; 8]>,
    ) {
        driver().stream(stream)?;
        value.set([0; 8])
    }

    [cuStreamSetAttribute_ptsz]
    fn cuStreamSetAttribute(
        stream: usize,
        _attribute: u32,
        value: *const c_void,
    ) {
        driver().stream(stream)?;
        if value.is_null() { Err(INVALID_VALUE) } else { Ok(()) }
    }
}
