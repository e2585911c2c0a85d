//! Contexts.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_emulated_device::c::Out;
use xsched_emulated_device::check_safe;
use xsched_emulated_device::code::{
    Answer, CONTEXT_DESTROYED, INVALID_CONTEXT, INVALID_VALUE, NOT_SUPPORTED,
};

use super::devices::known;
use crate::attributes::PRIORITIES;
use crate::context::{Context, by_handle, current, current_handle, engine, with_stack};
use crate::driver::{Object, driver};
use crate::exports::exports;

/// Answers of `cuCtxGetLimit`, by the limit's number.
const LIMITS: [usize; 7] = [1_024, 1 << 20, 8 << 20, 2, 2_048, 128, 0];

fn create(context: Out<usize>, flags: u32, device: c_int) -> Answer {
    if context.is_null() || flags & !0xff != 0 {
        return Err(INVALID_VALUE);
    }
    let made = Arc::new(Context::new(known(device)?, flags));
    let handle = driver().objects.add(Object::Context(made));
    with_stack(|stack| stack.push(handle));
    context.set(handle)
}

/// Forgets a context that has ended.
fn forget(context: usize) {
    driver().objects.remove(context);
    with_stack(|stack| {
        if stack.last() == Some(&context) {
            stack.pop();
        }
    });
}

fn synchronize(context: &Context) -> Answer {
    let engine = context.engine()?;
    engine.check()?;
    check_safe(engine)?;
    engine.synchronize();
    engine.check()
}

exports! {
    fn cuCtxCreate_v2(context: Out<usize>, flags: u32, device: c_int) {
        create(context, flags, device)
    }

    fn cuCtxCreate_v3(
        context: Out<usize>,
        affinity: *const c_void,
        count: c_int,
        flags: u32,
        device: c_int,
    ) {
        if !affinity.is_null() || count != 0 {
            return Err(NOT_SUPPORTED);
        }
        create(context, flags, device)
    }

    fn cuCtxCreate_v4(
        context: Out<usize>,
        parameters: *const c_void,
        flags: u32,
        device: c_int,
    ) {
        if !parameters.is_null() {
            return Err(NOT_SUPPORTED);
        }
        create(context, flags, device)
    }

    fn cuCtxDestroy_v2(context: usize) {
        let object = by_handle(context)?;
        if object.is_primary {
            return Err(INVALID_CONTEXT);
        }
        object.end();
        forget(context);
        Ok(())
    }

    fn cuCtxAttach(context: Out<usize>, flags: u32) {
        if context.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        current()?.retain();
        context.set(current_handle())
    }

    fn cuCtxDetach(context: usize) {
        let object = by_handle(context)?;
        if object.is_primary || context != current_handle() {
            return Err(INVALID_CONTEXT);
        }
        object.release()?;
        if !object.is_active() {
            forget(context);
        }
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: usize) {
        by_handle(context)?;
        with_stack(|stack| stack.push(context));
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: Out<usize>) {
        let popped = with_stack(Vec::pop).ok_or(INVALID_CONTEXT)?;
        context.offer(popped);
        Ok(())
    }

    fn cuCtxSetCurrent(context: usize) {
        if context != 0 {
            by_handle(context)?;
        }
        with_stack(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        });
        Ok(())
    }

    fn cuCtxGetCurrent(context: Out<usize>) {
        context.set(current_handle())
    }

    fn cuCtxGetDevice(device: Out<c_int>) {
        device.set(current()?.device.cast_signed())
    }

    fn cuCtxGetDevice_v2(device: Out<c_int>, context: usize) {
        let object = if context == 0 { current()? } else { by_handle(context)? };
        device.set(object.device.cast_signed())
    }

    fn cuCtxGetFlags(flags: Out<u32>) {
        flags.set(current()?.flags.load(Ordering::Acquire))
    }

    fn cuCtxSetFlags(flags: u32) {
        current()?.flags.store(flags, Ordering::Release);
        Ok(())
    }

    fn cuCtxGetId(context: usize, id: Out<u64>) {
        let handle = if context == 0 { current_handle() } else { context };
        by_handle(handle)?;
        id.set(handle as u64)
    }

    fn cuCtxGetApiVersion(context: usize, version: Out<u32>) {
        if context != 0 {
            by_handle(context)?;
        }
        version.set(3_020)
    }

    fn cuCtxGetLimit(value: Out<usize>, limit: u32) {
        engine()?;
        value.set(*LIMITS.get(limit as usize).ok_or(INVALID_VALUE)?)
    }

    fn cuCtxSetLimit(limit: u32, _value: usize) {
        engine()?;
        LIMITS.get(limit as usize).map(drop).ok_or(INVALID_VALUE)
    }

    fn cuCtxGetCacheConfig(configuration: Out<u32>) {
        engine()?;
        configuration.set(0)
    }

    fn cuCtxSetCacheConfig(_configuration: u32) {
        engine().map(drop)
    }

    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        current()?;
        least.offer(PRIORITIES.0);
        greatest.offer(PRIORITIES.1);
        Ok(())
    }

    fn cuCtxSynchronize() {
        synchronize(&*current()?)
    }

    fn cuCtxSynchronize_v2(context: usize) {
        match context {
            0 => synchronize(&*current()?),
            _ => synchronize(&*by_handle(context).map_err(|_| CONTEXT_DESTROYED)?),
        }
    }
}
