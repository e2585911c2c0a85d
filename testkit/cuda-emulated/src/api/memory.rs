//! Memory.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use xsched_emulated_device::c::{In, Out};
use xsched_emulated_device::code::{Answer, INVALID_HANDLE, INVALID_VALUE, OUT_OF_MEMORY};
use xsched_emulated_device::{Kind, MemoryKind, Stream, Work, check_safe};

use super::devices::{MEMORY, known};
use super::launch;
use crate::context::{current_handle, engine};
use crate::driver::driver;
use crate::exports::exports;

/// Handles of the devices' memory pools: this and the device.
const POOL: usize = 0x7000_0000;

/// Memory of the device's.
const DEVICE: [MemoryKind; 2] = [MemoryKind::Device, MemoryKind::Managed];

fn free_bytes() -> usize {
    MEMORY.saturating_sub(driver().memory.total(MemoryKind::Device))
}

fn allocate(memory: Out<usize>, bytes: usize, kind: MemoryKind) -> Answer {
    check_safe(engine()?)?;
    take(memory, bytes, kind)
}

fn take(memory: Out<usize>, bytes: usize, kind: MemoryKind) -> Answer {
    if memory.is_null() || bytes == 0 {
        return Err(INVALID_VALUE);
    }
    if kind == MemoryKind::Device && bytes > free_bytes() {
        return Err(OUT_OF_MEMORY);
    }
    memory.set(driver().memory.allocate(bytes, kind)?)
}

/// Gives memory back when the context has done what was launched.
fn free(memory: usize, kinds: &[MemoryKind]) -> Answer {
    if memory == 0 {
        return Ok(());
    }
    let engine = engine()?;
    check_safe(engine)?;
    if !driver().memory.starts(memory, kinds) {
        return Err(INVALID_VALUE);
    }
    engine.synchronize();
    driver().memory.free(memory, kinds)
}

fn take_async(memory: Out<usize>, bytes: usize, stream: &Arc<Stream>) -> Answer {
    stream.device.check()?;
    take(memory, bytes, MemoryKind::Device)?;
    launch(stream, Kind::Allocate, Work::Nothing)
}

fn check_pool(pool: usize) -> Answer {
    let device = pool.checked_sub(POOL).ok_or(INVALID_HANDLE)?;
    if device < driver().primaries.len() { Ok(()) } else { Err(INVALID_HANDLE) }
}

/// Writes an attribute of a place, by its number in `cuda.h`.
fn write_attribute(to: *mut c_void, attribute: u32, address: usize) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    let (start, bytes, kind) = driver().memory.block(address).ok_or(INVALID_VALUE)?;
    let is_host = matches!(kind, MemoryKind::Host | MemoryKind::Registered);
    let (value, width) = match attribute {
        1 => (current_handle(), 8),
        2 => (if is_host { 1 } else { 2 }, 4),
        3 => (address, 8),
        4 if !is_host && kind != MemoryKind::Managed => return Err(INVALID_VALUE),
        4 => (address, 8),
        6 | 10 | 15 => (0, 1),
        7 => (start, 8),
        8 => (usize::from(kind == MemoryKind::Managed), 1),
        9 => (0, 4),
        11 => (start, 8),
        12 => (bytes, 8),
        13 => (1, 1),
        14 | 17 => (0, 8),
        16 => (3, 4),
        _ => return Err(INVALID_VALUE),
    };
    let bytes = value.to_ne_bytes();
    // SAFETY: CUDA's caller promises that there is room for the attribute.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), width) };
    Ok(())
}

exports! {
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        engine()?;
        free.offer(free_bytes());
        total.offer(*MEMORY);
        Ok(())
    }

    fn cuMemAlloc_v2(memory: Out<usize>, bytes: usize) {
        allocate(memory, bytes, MemoryKind::Device)
    }

    fn cuMemAllocPitch_v2(
        memory: Out<usize>,
        pitch: Out<usize>,
        width: usize,
        height: usize,
        _element: u32,
    ) {
        let row = width.next_multiple_of(512);
        pitch.set(row)?;
        let bytes = row.checked_mul(height).ok_or(INVALID_VALUE)?;
        allocate(memory, bytes, MemoryKind::Device)
    }

    fn cuMemAllocManaged(memory: Out<usize>, bytes: usize, flags: u32) {
        if flags != 1 && flags != 2 {
            return Err(INVALID_VALUE);
        }
        allocate(memory, bytes, MemoryKind::Managed)
    }

    fn cuMemFree_v2(memory: usize) {
        free(memory, &DEVICE)
    }

    fn cuMemHostAlloc(memory: Out<usize>, bytes: usize, flags: u32) {
        if flags & !7 != 0 {
            return Err(INVALID_VALUE);
        }
        allocate(memory, bytes, MemoryKind::Host)
    }

    fn cuMemAllocHost_v2(memory: Out<usize>, bytes: usize) {
        allocate(memory, bytes, MemoryKind::Host)
    }

    fn cuMemFreeHost(memory: usize) {
        free(memory, &[MemoryKind::Host])
    }

    fn cuMemHostRegister_v2(memory: usize, bytes: usize, flags: u32) {
        engine()?;
        if flags & !15 != 0 {
            return Err(INVALID_VALUE);
        }
        driver().memory.register(memory, bytes)
    }

    fn cuMemHostUnregister(memory: usize) {
        let engine = engine()?;
        if memory == 0 {
            return Err(INVALID_VALUE);
        }
        engine.synchronize();
        driver().memory.unregister(memory)
    }

    fn cuMemHostGetDevicePointer_v2(device: Out<usize>, host: usize, flags: u32) {
        engine()?;
        let kind = driver().memory.kind(host, 1).filter(|_| flags == 0);
        kind.filter(|kind| !DEVICE.contains(kind)).ok_or(INVALID_VALUE)?;
        device.set(host)
    }

    fn cuMemHostGetFlags(flags: Out<u32>, host: usize) {
        let kind = driver().memory.kind(host, 1).ok_or(INVALID_VALUE)?;
        if DEVICE.contains(&kind) { Err(INVALID_VALUE) } else { flags.set(2) }
    }

    fn cuMemGetAddressRange_v2(start: Out<usize>, bytes: Out<usize>, address: usize) {
        let (first, length, _) = driver().memory.block(address).ok_or(INVALID_VALUE)?;
        start.offer(first);
        bytes.offer(length);
        Ok(())
    }

    fn cuPointerGetAttribute(to: *mut c_void, attribute: u32, address: usize) {
        write_attribute(to, attribute, address)
    }

    fn cuPointerGetAttributes(
        count: u32,
        attributes: In<u32>,
        to: In<*mut c_void>,
        address: usize,
    ) {
        let places = to.slice(count as usize)?;
        for (attribute, to) in attributes.slice(count as usize)?.iter().zip(places) {
            // Of memory that is not known nothing is written, and that is no error.
            let _ = write_attribute(*to, *attribute, address);
        }
        Ok(())
    }

    [cuMemAllocAsync_ptsz]
    fn cuMemAllocAsync(memory: Out<usize>, bytes: usize, stream: usize) {
        take_async(memory, bytes, &driver().stream(stream)?)
    }

    [cuMemAllocFromPoolAsync_ptsz]
    fn cuMemAllocFromPoolAsync(
        memory: Out<usize>,
        bytes: usize,
        pool: usize,
        stream: usize,
    ) {
        check_pool(pool)?;
        take_async(memory, bytes, &driver().stream(stream)?)
    }

    [cuMemFreeAsync_ptsz]
    fn cuMemFreeAsync(memory: usize, stream: usize) {
        let stream = driver().stream(stream)?;
        if !driver().memory.starts(memory, &DEVICE) {
            return Err(INVALID_VALUE);
        }
        let free = move || {
            // Given back by another call in the meantime, which the program should not do.
            let _ = driver().memory.free(memory, &DEVICE);
        };
        launch(&stream, Kind::Free, Work::Short(Arc::new(free)))
    }

    also cuDeviceGetMemPool
    fn cuDeviceGetDefaultMemPool(to: Out<usize>, device: c_int) {
        to.set(POOL + known(device)? as usize)
    }

    fn cuMemPoolSetAttribute(pool: usize, _attribute: u32, value: *const c_void) {
        check_pool(pool)?;
        if value.is_null() { Err(INVALID_VALUE) } else { Ok(()) }
    }

    fn cuMemPoolTrimTo(pool: usize, _bytes: usize) {
        check_pool(pool)
    }
}
