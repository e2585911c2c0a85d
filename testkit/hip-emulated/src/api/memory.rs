//! Memory, and commands that fill and copy it.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_emulated_device::code::{Answer, INVALID_VALUE};
use xsched_emulated_device::{
    Device, Kind as Command, MemoryKind as Kind, Stream, Work, check_safe, word32,
};

use super::{Out, exports};
use crate::runtime::runtime;

/// Flags of host memory that HIP has.
const HOST_FLAGS: u32 = 0xe000_001f;
/// `hipMallocSignalMemory`.
const SIGNAL: u32 = 2;
/// Bytes of signal memory, always.
const SIGNAL_BYTES: usize = 8;

fn allocate(memory: Out<usize>, bytes: usize, kind: Kind) -> Answer {
    runtime().current()?.check()?;
    memory.set(runtime().memory.allocate(bytes, kind)?)
}

/// Gives memory back when the device has done what was launched, as HIP does.
fn free(memory: usize, kinds: &[Kind]) -> Answer {
    if memory == 0 {
        return Ok(());
    }
    if !runtime().memory.starts(memory, kinds) {
        return Err(INVALID_VALUE);
    }
    check_safe(runtime().current()?)?;
    synchronize_all();
    runtime().memory.free(memory, kinds)
}

fn synchronize_all() {
    let devices = (0..runtime().visible()).filter_map(|ordinal| runtime().device(ordinal));
    devices.for_each(Device::synchronize);
}

/// A copy within the block that each end is in, if it is in one: the program's own memory is its
/// own business.
fn copy(to: usize, from: usize, bytes: usize) -> Answer<Work> {
    let fits = |address: usize| {
        runtime()
            .memory
            .kind(address, 1)
            .is_none_or(|_| runtime().memory.kind(address, bytes).is_some())
    };
    if bytes > 0 && (to == 0 || from == 0 || !fits(to) || !fits(from)) {
        return Err(INVALID_VALUE);
    }
    Ok(Work::copy(to, from, bytes))
}

/// Launches a copy in a direction, by its number.
fn launch_copy(to: usize, from: usize, bytes: usize, kind: u32, stream: &Arc<Stream>) -> Answer {
    if kind > 4 {
        // hipErrorInvalidMemcpyDirection.
        return Err(21);
    }
    stream.launch(Command::Copy, copy(to, from, bytes)?)
}

/// Launches a copy and waits for the stream.
fn copy_now(to: usize, from: usize, bytes: usize, kind: u32, stream: usize) -> Answer {
    let stream = runtime().stream(stream)?;
    launch_copy(to, from, bytes, kind, &stream)?;
    stream.synchronize();
    stream.device.check()
}

fn fill(to: usize, value: c_int, bytes: usize, stream: usize) -> Answer {
    let stream = runtime().stream(stream)?;
    runtime().memory.kind(to, bytes).ok_or(INVALID_VALUE)?;
    stream.launch(Command::Fill, Work::fill(to, value as u8, bytes))
}

exports! {
    fn hipMalloc(memory: Out<usize>, bytes: usize) {
        check_safe(runtime().current()?)?;
        allocate(memory, bytes, Kind::Device)
    }

    fn hipExtMallocWithFlags(memory: Out<usize>, bytes: usize, flags: u32) {
        match flags {
            SIGNAL if bytes != SIGNAL_BYTES => Err(INVALID_VALUE),
            SIGNAL => allocate(memory, bytes, Kind::Signal),
            // hipDeviceMallocDefault and hipDeviceMallocFinegrained.
            0 | 1 => allocate(memory, bytes, Kind::Device),
            _ => Err(INVALID_VALUE),
        }
    }

    fn hipFree(memory: usize) {
        free(memory, &[Kind::Device, Kind::Signal])
    }

    fn hipHostMalloc(memory: Out<usize>, bytes: usize, flags: u32) {
        if flags & !HOST_FLAGS != 0 {
            return Err(INVALID_VALUE);
        }
        check_safe(runtime().current()?)?;
        allocate(memory, bytes, Kind::Host)
    }

    fn hipHostFree(memory: usize) {
        free(memory, &[Kind::Host])
    }

    fn hipHostRegister(memory: usize, bytes: usize, _flags: u32) {
        runtime().current()?.check()?;
        runtime().memory.register(memory, bytes)
    }

    fn hipHostUnregister(memory: usize) {
        synchronize_all();
        runtime().memory.unregister(memory)
    }

    fn hipHostGetDevicePointer(device: Out<usize>, host: usize, flags: u32) {
        let kind = runtime().memory.kind(host, 1);
        let known = kind.filter(|kind| flags == 0 && *kind != Kind::Device);
        known.ok_or(INVALID_VALUE)?;
        device.set(host)
    }

    fn hipMemsetAsync(to: usize, value: c_int, bytes: usize, stream: usize) {
        fill(to, value, bytes, stream)
    }

    fn hipMemcpyAsync(to: usize, from: usize, bytes: usize, kind: u32, stream: usize) {
        launch_copy(to, from, bytes, kind, &runtime().stream(stream)?)
    }

    fn hipMemsetD32Async(to: usize, value: c_int, count: usize, stream: usize) {
        let stream = runtime().stream(stream)?;
        runtime().memory.kind(to, count * 4).ok_or(INVALID_VALUE)?;
        let words = move || {
            for word in 0..count {
                word32(to + 4 * word).store(value.cast_unsigned(), Ordering::Relaxed);
            }
        };
        stream.launch(Command::Fill, Work::Short(Arc::new(words)))
    }

    fn hipMemset(to: usize, value: c_int, bytes: usize) {
        fill(to, value, bytes, 0)
    }

    fn hipMemcpyWithStream(to: usize, from: usize, bytes: usize, kind: u32, stream: usize) {
        copy_now(to, from, bytes, kind, stream)
    }

    fn hipMallocAsync(memory: Out<usize>, bytes: usize, stream: usize) {
        let stream = runtime().stream(stream)?;
        allocate(memory, bytes, Kind::Device)?;
        stream.launch(Command::Allocate, Work::Nothing)
    }

    fn hipFreeAsync(memory: usize, stream: usize) {
        let stream = runtime().stream(stream)?;
        if !runtime().memory.starts(memory, &[Kind::Device]) {
            return Err(INVALID_VALUE);
        }
        stream.launch(Command::Free, Work::Short(Arc::new(move || {
            // It is known, as was just seen.
            let _ = runtime().memory.free(memory, &[Kind::Device]);
        })))
    }

    fn hipMemcpy(to: usize, from: usize, bytes: usize, kind: u32) {
        copy_now(to, from, bytes, kind, 0)
    }
}
