//! HIP's functions, by their own names. What a function asks of its caller is what HIP asks.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use crate::driver::{
    Address, Answer, Handle, INVALID_VALUE, NO_DEVICE, NOT_SUPPORTED, answer, current, driver,
    entered,
};

/// HIP 6.0; CUDA's version comes on top, as 13,000, say.
const VERSION: c_int = 60_000_000;
/// `hipDeviceAttributeMultiprocessorCount`, and what CUDA calls it.
const MULTIPROCESSORS: (c_uint, c_uint) = (63, 16);
/// Flags of host memory that CUDA has as well: portable, mapped.
const HOST_FLAGS: c_uint = 3;
/// Where HIP's list of extra parameters ends, and where CUDA's does.
const EXTRA_END: (usize, usize) = (3, 0);

fn address(pointer: *const c_void) -> Address {
    pointer.expose_provenance() as Address
}

/// Writes an address that CUDA gave as a number. HIP's caller promises that it may be written to.
fn put(to: *mut *mut c_void, address: Address) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller of HIP's function promised so.
    unsafe { to.write(ptr::with_exposed_provenance_mut(address as usize)) };
    Ok(())
}

/// HIP's extra parameters in the form of CUDA's.
fn converted(extra: *mut *mut c_void) -> Answer<Option<[*mut c_void; 5]>> {
    if extra.is_null() {
        return Ok(None);
    }
    // SAFETY: HIP's caller promises that the list ends; pairs come before.
    let mut words = unsafe { extra.cast::<[*mut c_void; 5]>().read() };
    if words[4].addr() != EXTRA_END.0 {
        return Err(INVALID_VALUE);
    }
    words[4] = ptr::without_provenance_mut(EXTRA_END.1);
    Ok(Some(words))
}

/// Exports functions that CUDA has with the same arguments: those of all of its drivers, those
/// that only some have, and functions that do more than that.
macro_rules! with_forwarded {
    (
        required { $(fn $name:ident($($arg:ident: $type:ty),*) = $cuda:ident;)+ }
        optional { $(fn $maybe:ident($($maybe_arg:ident: $maybe_type:ty),*) = $maybe_cuda:ident;)+ }
        $($rest:tt)+
    ) => {
        exports! {
            $(fn $name($($arg: $type),*) {
                // SAFETY: HIP's function demands of its caller what CUDA's does.
                answer(unsafe { (entered()?.$cuda)($($arg),*) })
            })+
            $(fn $maybe($($maybe_arg: $maybe_type),*) {
                let function = entered()?.$maybe_cuda.ok_or(NOT_SUPPORTED)?;
                // SAFETY: HIP's function demands of its caller what CUDA's does.
                answer(unsafe { function($($maybe_arg),*) })
            })+
            $($rest)+
        }
    };
}

with_forwarded! {
    required {
        fn hipDeviceSynchronize() = synchronize;
        fn hipDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) = priorities;
        fn hipStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int)
            = stream_create;
        fn hipStreamDestroy(stream: Handle) = stream_destroy;
        fn hipStreamSynchronize(stream: Handle) = stream_synchronize;
        fn hipStreamGetFlags(stream: Handle, flags: *mut c_uint) = stream_flags;
        fn hipStreamIsCapturing(stream: Handle, status: *mut c_uint) = stream_capturing;
        fn hipEventCreateWithFlags(event: *mut Handle, flags: c_uint) = event_create;
        fn hipEventDestroy(event: Handle) = event_destroy;
        fn hipEventRecord(event: Handle, stream: Handle) = event_record;
        fn hipEventQuery(event: Handle) = event_query;
        fn hipEventElapsedTime(ms: *mut f32, start: Handle, stop: Handle) = event_elapsed;
        fn hipHostFree(memory: *mut c_void) = host_free;
        fn hipHostUnregister(memory: *mut c_void) = host_unregister;
        fn hipModuleLoadData(module: *mut Handle, image: *const c_void) = module_load;
        fn hipModuleUnload(module: Handle) = module_unload;
    }
    optional {
        fn hipThreadExchangeStreamCaptureMode(mode: *mut c_uint) = capture_mode;
        fn hipStreamBeginCapture(stream: Handle, mode: c_uint) = capture_begin;
        fn hipStreamEndCapture(stream: Handle, graph: *mut Handle) = capture_end;
        fn hipGraphLaunch(exec: Handle, stream: Handle) = graph_launch;
        fn hipGraphDestroy(graph: Handle) = graph_destroy;
        fn hipGraphExecDestroy(exec: Handle) = graph_exec_destroy;
        fn hipModuleLaunchCooperativeKernel(
            function: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            shared_bytes: c_uint,
            stream: Handle,
            parameters: *mut *mut c_void
        ) = launch_together;
    }

    fn hipRuntimeGetVersion(version: *mut c_int) {
        let mut cuda = 0;
        if let Ok(driver) = driver() {
            // SAFETY: the number may be written to.
            answer(unsafe { (driver.functions.version)(&raw mut cuda) })?;
        }
        if version.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: HIP's caller promises that it may be written to.
        unsafe { version.write(VERSION + cuda) };
        Ok(())
    }

    fn hipGetDeviceCount(count: *mut c_int) {
        // SAFETY: HIP's caller promises that it may be written to.
        answer(unsafe { (driver()?.functions.count)(count) })
    }

    fn hipGetDevice(device: *mut c_int) {
        driver()?;
        if device.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: HIP's caller promises that it may be written to.
        unsafe { device.write(current()) };
        Ok(())
    }

    fn hipSetDevice(device: c_int) {
        driver()?.make_current(device)
    }

    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) {
        let (hip, cuda) = MULTIPROCESSORS;
        if attribute != hip {
            return Err(NOT_SUPPORTED);
        }
        // SAFETY: HIP's caller promises that it may be written to.
        answer(unsafe { (driver()?.functions.attribute)(value, cuda, device) })
    }

    fn hipDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int) {
        // SAFETY: HIP's caller promises that this many bytes may be written to.
        answer(unsafe { (driver()?.functions.name)(name, bytes, device) })
    }

    fn hipDeviceGetPCIBusId(id: *mut c_char, bytes: c_int, device: c_int) {
        // SAFETY: HIP's caller promises that this many bytes may be written to.
        answer(unsafe { (driver()?.functions.pci)(id, bytes, device) })
    }

    fn hipStreamCreate(stream: *mut Handle) {
        // SAFETY: HIP's caller promises that the handle may be written to.
        answer(unsafe { (entered()?.stream_create)(stream, 0, 0) })
    }

    fn hipStreamCreateWithFlags(stream: *mut Handle, flags: c_uint) {
        // SAFETY: HIP's caller promises that the handle may be written to.
        answer(unsafe { (entered()?.stream_create)(stream, flags, 0) })
    }

    fn hipExtStreamCreateWithCUMask(stream: *mut Handle, words: u32, mask: *const u32) {
        if words == 0 || mask.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: HIP's caller promises that the handle may be written to.
        answer(unsafe { (entered()?.stream_create)(stream, 0, 0) })
    }

    fn hipStreamGetDevice(stream: Handle, device: *mut c_int) {
        let mut context: Handle = ptr::null_mut();
        // SAFETY: HIP's caller promises that the stream is alive; the handle may be written to.
        answer(unsafe { (entered()?.stream_context)(stream, &raw mut context) })?;
        let found = driver()?.device_of(context).ok_or(NO_DEVICE)?;
        if device.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: HIP's caller promises that it may be written to.
        unsafe { device.write(found) };
        Ok(())
    }

    fn hipStreamWaitValue32(
        stream: Handle,
        word: *mut c_void,
        value: u32,
        flags: c_uint,
        mask: u32,
    ) {
        if mask != u32::MAX {
            return Err(NOT_SUPPORTED);
        }
        let wait = entered()?.wait_value.ok_or(NOT_SUPPORTED)?;
        // SAFETY: HIP's caller promises that the stream is alive and the word outlives the wait.
        answer(unsafe { wait(stream, address(word), value, flags) })
    }

    fn hipStreamWriteValue32(stream: Handle, word: *mut c_void, value: u32, _flags: c_uint) {
        let write = entered()?.write_value.ok_or(NOT_SUPPORTED)?;
        // SAFETY: HIP's caller promises that the stream is alive and the word outlives the write.
        answer(unsafe { write(stream, address(word), value, 0) })
    }

    fn hipGraphInstantiate(
        exec: *mut Handle,
        graph: Handle,
        _failed: *mut Handle,
        _log: *mut c_char,
        _log_bytes: usize,
    ) {
        let instantiate = entered()?.graph_instantiate.ok_or(NOT_SUPPORTED)?;
        // SAFETY: HIP's caller promises that the one may be written to and the other is a graph.
        answer(unsafe { instantiate(exec, graph, 0) })
    }

    fn hipMalloc(memory: *mut *mut c_void, bytes: usize) {
        let mut start = 0;
        // SAFETY: the number may be written to.
        answer(unsafe { (entered()?.allocate)(&raw mut start, bytes) })?;
        put(memory, start)
    }

    fn hipFree(memory: *mut c_void) {
        if memory.is_null() {
            return Ok(());
        }
        // SAFETY: HIP's caller promises that it was allocated and is not used afterwards.
        answer(unsafe { (entered()?.free)(address(memory)) })
    }

    fn hipHostMalloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint) {
        // SAFETY: HIP's caller promises that the pointer may be written to.
        answer(unsafe { (entered()?.host_allocate)(memory, bytes, flags & HOST_FLAGS) })
    }

    fn hipHostRegister(memory: *mut c_void, bytes: usize, flags: c_uint) {
        // SAFETY: HIP's caller promises that this much memory is there until it is taken back.
        answer(unsafe { (entered()?.host_register)(memory, bytes, flags & HOST_FLAGS) })
    }

    fn hipHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint) {
        let mut start = 0;
        // SAFETY: the number may be written to; memory that CUDA does not know is an error.
        answer(unsafe { (entered()?.host_address)(&raw mut start, host, flags) })?;
        put(device, start)
    }

    fn hipMemcpyAsync(
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: c_uint,
        stream: Handle,
    ) {
        if kind > 4 {
            return Err(INVALID_VALUE);
        }
        // All addresses are in one space, so CUDA finds out by itself where they are.
        // SAFETY: HIP's caller promises that the stream is alive, and both until it is done.
        answer(unsafe { (entered()?.copy)(address(to), address(from), bytes, stream) })
    }

    fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_uint) {
        if kind > 4 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: HIP's caller promises that both are alive.
        answer(unsafe { (entered()?.copy_now)(address(to), address(from), bytes) })
    }

    fn hipMemsetAsync(to: *mut c_void, value: c_int, bytes: usize, stream: Handle) {
        // SAFETY: HIP's caller promises that the stream is alive, and the memory until it is done.
        answer(unsafe { (entered()?.fill)(address(to), value as u8, bytes, stream) })
    }

    fn hipModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        let cuda = entered()?;
        // SAFETY: HIP's caller promises that the module is loaded, the name ends with zero, and the
        // handle may be written to.
        answer(unsafe { (cuda.module_function)(function, module, name) })?;
        let Some(load) = cuda.function_load else { return Ok(()) };
        // SAFETY: CUDA has just written it.
        answer(unsafe { load(function.read()) })
    }

    fn hipModuleLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        let mut extra = converted(extra)?;
        let extra = extra.as_mut().map_or(ptr::null_mut(), |words| words.as_mut_ptr());
        // SAFETY: HIP's caller promises that function and stream are alive, and that the arguments
        // are those of the kernel.
        answer(unsafe {
            (entered()?.launch)(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                parameters, extra,
            )
        })
    }
}
