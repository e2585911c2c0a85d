//! Devices, contexts, streams, events and memory of the emulated driver. Runs on a real one as
//! well: `XSCHED_CUDA_LIB=libcuda.so.1 cargo test -p xsched-cuda-emulated --test driver`.
#![allow(unsafe_code, reason = "calls a driver")]

mod common;

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use sys::{CUdevice_attribute, CUfunction, CUstream};

#[test]
fn a_device_says_what_it_is() {
    let is_emulated = start();
    let count: i32 = made!(cuDeviceGetCount());
    assert!(count >= 1);
    let attribute = |which: CUdevice_attribute| -> i32 { made!(cuDeviceGetAttribute(which, 0)) };
    use CUdevice_attribute::*;
    assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 9);
    assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
    assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
    assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS), 1);
    assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
    assert_eq!(attribute(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED), 1);
    if is_emulated {
        assert_eq!(made!(cuDriverGetVersion()), 13_000);
    }
    let mut name = [0_i8; 64];
    ok!(cuDeviceGetName(name.as_mut_ptr(), 64, 0));
    assert_ne!(name[0], 0);
    assert_eq!(answer!(cuDeviceGet(&mut 0, 99)), "INVALID_DEVICE");
    assert_eq!(answer!(cuDeviceGet(null_mut(), 0)), "INVALID_VALUE");
    let mut words = std::ptr::null();
    ok!(cuGetErrorName(Code::CUDA_ERROR_NOT_READY, &mut words));
    // SAFETY: the driver's constant text.
    assert_eq!(unsafe { CStr::from_ptr(words) }, c"CUDA_ERROR_NOT_READY");
}

#[test]
fn contexts_are_a_stack_of_the_thread() {
    start();
    let current = || -> sys::CUcontext { made!(cuCtxGetCurrent()) };
    assert!(current().is_null());
    assert_eq!(answer!(cuCtxSynchronize()), "INVALID_CONTEXT");
    assert_eq!(answer!(cuMemAlloc_v2(&mut 0, 8)), "INVALID_CONTEXT");
    let first = Context::new();
    let second = Context::new();
    assert_eq!(current(), second.0);
    let popped: sys::CUcontext = made!(cuCtxPopCurrent_v2());
    assert_eq!((popped, current()), (second.0, first.0));
    let mine = stream(1);
    let of: sys::CUcontext = {
        let mut of = null_mut();
        ok!(cuStreamGetCtx(mine, &mut of));
        of
    };
    assert_eq!(of, first.0);
    ok!(cuCtxPushCurrent_v2(second.0));
    ok!(cuCtxDestroy_v2(second.0));
    assert_eq!(current(), first.0);
    // Not current elsewhere.
    thread::spawn(|| assert_eq!(answer!(cuCtxSynchronize()), "INVALID_CONTEXT")).join().unwrap();
    // A destroyed one is still current on another thread.
    let third = Context::new();
    let handle = third.0 as usize;
    ok!(cuCtxPopCurrent_v2(&mut null_mut()));
    let (go, wait) = std::sync::mpsc::channel();
    let (ready, begun) = std::sync::mpsc::channel();
    let other = thread::spawn(move || {
        ok!(cuCtxSetCurrent(handle as sys::CUcontext));
        ready.send(()).unwrap();
        wait.recv().unwrap();
        answer!(cuCtxSynchronize())
    });
    begun.recv().unwrap();
    drop(third);
    go.send(()).unwrap();
    assert_eq!(other.join().unwrap(), "CONTEXT_IS_DESTROYED");
    std::mem::forget(second);
}

#[test]
fn a_context_goes_with_live_streams() {
    let is_emulated = start();
    let context = Context::new();
    let stream = stream(1);
    let place = memory(1);
    fill(stream, place, 7);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(place, 1), [7]);
    if is_emulated {
        // What runs is stopped, and what waits is not carried out.
        let (mut cycles, mut stamps) = (20_000_000_000_u64, 0_u64);
        let parameters = &mut [(&raw mut cycles).cast(), (&raw mut stamps).cast::<c_void>()];
        launch(kernel(c"xs_spin"), 1, stream, parameters);
        let _word = held(stream);
    }
    let begin = Instant::now();
    drop(context);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(answer!(cuCtxSynchronize()), "INVALID_CONTEXT");
}

#[test]
fn the_legacy_default_stream_waits_for_blocking_streams() {
    let _context = Context::new();
    let (blocking, free) = (stream(0), stream(1));
    let word = held(blocking);
    let place = memory(2);
    fill(LEGACY, place, 1);
    fill(free, place + 4, 2);
    ok!(cuStreamSynchronize(free));
    pause();
    assert!(is_busy(blocking) && is_busy(LEGACY));
    release(word);
    ok!(cuCtxSynchronize());
    assert_eq!(read(place, 2), [1, 2]);
    // And the other way round.
    let word = held(LEGACY);
    fill(blocking, place, 3);
    fill(free, place + 4, 4);
    ok!(cuStreamSynchronize(free));
    pause();
    assert!(is_busy(blocking));
    release(word);
    ok!(cuStreamSynchronize(blocking));
    assert_eq!(read(place, 2), [3, 4]);
}

/// A function of the driver's by its name, as programs get them.
fn address(name: &CStr, version: i32, flags: u64) -> (String, *mut c_void, u32) {
    let (mut function, mut status) = (null_mut(), 77_u32);
    let code = answer!(cuGetProcAddress_v2(
        name.as_ptr(),
        &mut function,
        version,
        flags,
        (&raw mut status).cast(),
    ));
    (code, function, status)
}

/// Export of a library under a name.
fn exported(name: &CStr) -> *mut c_void {
    // SAFETY: an address is asked for, and nothing is called.
    unsafe {
        let library = libloading::Library::new("libcuda.so.1").expect("it is loaded");
        *library.get::<*mut c_void>(name.to_bytes_with_nul()).expect("a function")
    }
}

#[test]
fn functions_are_found_by_name_version_and_flags() {
    start();
    let legacy = sys::CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_LEGACY_STREAM as u64;
    let per_thread =
        sys::CUdriverProcAddress_flags::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM as u64;
    for (name, version, flags, expected) in [
        (c"cuInit", 12_000, 0, c"cuInit"),
        (c"cuMemAlloc", 12_000, 0, c"cuMemAlloc_v2"),
        (c"cuLaunchKernel", 12_000, legacy, c"cuLaunchKernel"),
        (c"cuLaunchKernel", 12_000, per_thread, c"cuLaunchKernel_ptsz"),
        (c"cuMemcpyHtoD", 12_000, per_thread, c"cuMemcpyHtoD_v2_ptds"),
        (c"cuStreamWaitValue32", 12_000, 0, c"cuStreamWaitValue32_v2"),
        (c"cuStreamGetCaptureInfo", 12_000, 0, c"cuStreamGetCaptureInfo_v2"),
        (c"cuStreamGetCaptureInfo", 10_020, 0, c"cuStreamGetCaptureInfo"),
        (c"cuGraphAddKernelNode", 11_000, 0, c"cuGraphAddKernelNode"),
        (c"cuGraphAddKernelNode", 12_000, 0, c"cuGraphAddKernelNode_v2"),
        (c"cuGetProcAddress", 12_000, 0, c"cuGetProcAddress_v2"),
        (c"cuGetProcAddress", 11_080, 0, c"cuGetProcAddress"),
        (c"cuGraphInstantiate", 12_000, 0, c"cuGraphInstantiateWithFlags"),
    ] {
        let (code, function, status) = address(name, version, flags);
        assert_eq!((code.as_str(), status), ("CUDA_SUCCESS", 0), "{name:?}");
        assert_eq!(function, exported(expected), "{name:?} {version}");
    }
    let (code, function, status) = address(c"cuNoSuchFunction", 12_000, 0);
    assert_eq!((code.as_str(), function, status), ("CUDA_SUCCESS", null_mut(), 1));
    let (code, function, status) = address(c"cuLibraryLoadData", 11_000, 0);
    assert_eq!((code.as_str(), function, status), ("CUDA_SUCCESS", null_mut(), 2));
    assert_eq!(address(c"cuMemAlloc_v2", 12_000, 0).1, null_mut());
    assert_eq!(address(c"cuInit", 12_000, 8).0, "INVALID_VALUE");
}

#[test]
fn a_thread_has_a_default_stream_of_its_own() {
    let _context = Context::new();
    type Launch = unsafe extern "C" fn(
        CUfunction,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        u32,
        CUstream,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> Code;
    let launch = address(c"cuLaunchKernel", 12_000, 2).1;
    // SAFETY: the driver's function of this name.
    let launch: Launch = unsafe { std::mem::transmute(launch) };
    let place = memory(1);
    let free = stream(1);
    let kernel = kernel(c"fill");
    let own = 2 as CUstream;
    let word = held(own);
    let (mut to, mut value, mut one) = (place, 5_u32, 1_u32);
    let mut parameters =
        [(&raw mut to).cast(), (&raw mut value).cast(), (&raw mut one).cast::<c_void>()];
    // SAFETY: the kernel takes these.
    let code = unsafe {
        launch(kernel, 1, 1, 1, 32, 1, 1, 0, LEGACY, parameters.as_mut_ptr(), null_mut())
    };
    assert_eq!(code, Code::CUDA_SUCCESS);
    pause();
    assert!(is_busy(own) && !is_busy(free));
    release(word);
    ok!(cuStreamSynchronize(own));
    assert_eq!(read(place, 1), [5]);
}

#[test]
fn events_order_streams_and_take_the_time() {
    let _context = Context::new();
    let (first, second) = (stream(1), stream(1));
    let (start, end) = (event(), event());
    assert_eq!(answer!(cuEventQuery(start)), "CUDA_SUCCESS");
    assert_eq!(answer!(cuEventElapsedTime(&mut 0.0, start, end)), "INVALID_HANDLE");
    ok!(cuEventRecord(start, first));
    let word = held(first);
    ok!(cuEventRecord(end, first));
    ok!(cuStreamWaitEvent(second, end, 0));
    let place = memory(1);
    fill(second, place, 9);
    pause();
    assert_eq!(answer!(cuEventQuery(end)), "NOT_READY");
    assert_eq!(answer!(cuEventElapsedTime(&mut 0.0, start, end)), "NOT_READY");
    assert!(is_busy(second));
    release(word);
    ok!(cuEventSynchronize(end));
    ok!(cuStreamSynchronize(second));
    assert_eq!(read(place, 1), [9]);
    let ms: f32 = made!(cuEventElapsedTime(start, end));
    assert!((15.0..10_000.0).contains(&ms), "{ms}");
    let plain: sys::CUevent = made!(cuEventCreate(2));
    ok!(cuEventRecord(plain, first));
    ok!(cuEventSynchronize(plain));
    assert_eq!(answer!(cuEventElapsedTime(&mut 0.0, start, plain)), "INVALID_HANDLE");
    ok!(cuEventDestroy_v2(plain));
}

#[test]
fn words_are_awaited_and_written() {
    let _context = Context::new();
    let stream = stream(1);
    let ((first, a), (second, b)) = (word(), word());
    ok!(cuStreamWaitValue64_v2(stream, first, 5, 0));
    ok!(cuStreamWriteValue32_v2(stream, second, 3, 0));
    ok!(cuStreamWriteValue64_v2(stream, second, 4, 0));
    // SAFETY: zeros are valid in this union.
    let mut batch: [sys::CUstreamBatchMemOpParams; 2] = unsafe { std::mem::zeroed() };
    batch[0].waitValue.operation = sys::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WAIT_VALUE_32;
    batch[0].waitValue.address = first;
    batch[0].waitValue.__bindgen_anon_1.value = 8;
    batch[0].waitValue.flags = 2;
    batch[1].writeValue.operation = sys::CUstreamBatchMemOpType::CU_STREAM_MEM_OP_WRITE_VALUE_32;
    batch[1].writeValue.address = second;
    batch[1].writeValue.__bindgen_anon_1.value = 6;
    ok!(cuStreamBatchMemOp_v2(stream, 2, batch.as_mut_ptr(), 0));
    pause();
    assert_eq!(b.load(Ordering::SeqCst), 0);
    a.store(6, Ordering::SeqCst);
    until(|| b.load(Ordering::SeqCst) == 4);
    pause();
    assert!(is_busy(stream));
    a.store(9, Ordering::SeqCst);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(b.load(Ordering::SeqCst), 6);
}

#[test]
fn memory_is_copied_and_filled() {
    let _context = Context::new();
    let stream = stream(1);
    let place = memory(64);
    ok!(cuMemsetD32Async(place, 0x0101_0101, 64, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemsetD2D8_v2(place + 4, 32, 2, 4, 2));
    ok!(cuMemsetD16_v2(place + 8, 0x0303, 2));
    ok!(cuCtxSynchronize());
    let values = read(place, 16);
    assert_eq!(values[..4], [0x0101_0101, 0x0202_0202, 0x0303_0303, 0x0101_0101]);
    assert_eq!(values[9], 0x0202_0202);
    // What is taken from memory that is not page-locked is taken at once.
    let word = held(stream);
    let mut own = [42_u32; 4];
    ok!(cuMemcpyHtoDAsync_v2(place, own.as_ptr().cast(), 16, stream));
    own.fill(0);
    release(word);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(place, 4), [42; 4]);
    // A part of each row.
    let target = memory(64);
    ok!(cuMemsetD32_v2(target, 0, 64));
    ok!(cuCtxSynchronize());
    // SAFETY: zeros are valid in it, but for the kinds, which are set.
    let mut copy: sys::CUDA_MEMCPY2D = unsafe {
        let mut copy = std::mem::MaybeUninit::<sys::CUDA_MEMCPY2D>::zeroed();
        (&raw mut (*copy.as_mut_ptr()).srcMemoryType)
            .write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
        (&raw mut (*copy.as_mut_ptr()).dstMemoryType)
            .write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
        copy.assume_init()
    };
    (copy.srcDevice, copy.srcPitch, copy.dstDevice, copy.dstPitch) = (place, 8, target, 16);
    (copy.dstXInBytes, copy.WidthInBytes, copy.Height) = (4, 4, 2);
    ok!(cuMemcpy2D_v2(&copy));
    assert_eq!(read(target, 8), [0, 42, 0, 0, 0, 42, 0, 0]);
    assert_eq!(answer!(cuMemAlloc_v2(&mut 0, 0)), "INVALID_VALUE");
    ok!(cuMemFree_v2(place));
    assert_eq!(answer!(cuMemFree_v2(place)), "INVALID_VALUE");
    let mut pooled = 0;
    ok!(cuMemAllocAsync(&mut pooled, 64, stream));
    ok!(cuMemsetD8Async(pooled, 1, 64, stream));
    ok!(cuMemFreeAsync(pooled, stream));
    ok!(cuStreamSynchronize(stream));
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&mut free, &mut total));
    assert!(free > 0 && free <= total);
}

extern "C" fn note(data: *mut c_void) {
    let code = answer!(cuCtxSynchronize());
    // SAFETY: the test's counter, which lives for ever.
    let count = unsafe { &*data.cast::<AtomicU32>() };
    count.store(if code == "NOT_PERMITTED" { 1 } else { 2 }, Ordering::SeqCst);
}

#[test]
fn functions_of_the_host_run_in_order_and_may_not_call_the_driver() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let _context = Context::new();
    let stream = stream(1);
    let word = held(stream);
    ok!(cuLaunchHostFunc(stream, Some(note), (&raw const COUNT).cast_mut().cast()));
    pause();
    assert_eq!(COUNT.load(Ordering::SeqCst), 0);
    release(word);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(COUNT.load(Ordering::SeqCst), 1);
}

#[test]
fn kernels_compute() {
    let is_emulated = start();
    let _context = Context::new();
    let (mut a, mut b, mut sum, mut n) = (memory(32), memory(32), memory(32), 32_u32);
    let values: Vec<f32> = (0..32_u8).map(f32::from).collect();
    ok!(cuMemcpyHtoD_v2(a, values.as_ptr().cast(), 128));
    ok!(cuMemcpyHtoD_v2(b, values.as_ptr().cast(), 128));
    let before = is_emulated.then(|| counted("cuEmulatedLaunches", c"vector_add"));
    let kernel = kernel(c"vector_add");
    let parameters = &mut [
        (&raw mut a).cast(),
        (&raw mut b).cast(),
        (&raw mut sum).cast(),
        (&raw mut n).cast::<c_void>(),
    ];
    launch(kernel, 32, LEGACY, parameters);
    // SAFETY: zeros are valid in it.
    let mut how: sys::CUlaunchConfig = unsafe { std::mem::zeroed() };
    (how.gridDimX, how.gridDimY, how.gridDimZ) = (1, 1, 1);
    (how.blockDimX, how.blockDimY, how.blockDimZ) = (32, 1, 1);
    ok!(cuLaunchKernelEx(&how, kernel, parameters.as_mut_ptr(), null_mut()));
    let doubled = read(sum, 32).into_iter().map(f32::from_bits);
    assert!(doubled.eq((0..32_u8).map(|n| f32::from(n) * 2.0)));
    if let Some(before) = before {
        assert_eq!(counted("cuEmulatedLaunches", c"vector_add"), before + 2);
        assert!(counted("cuEmulatedCalls", c"cuLaunchKernelEx") >= 1);
    }
}

#[test]
fn launches_and_images_are_checked() {
    let _context = Context::new();
    let kernel = kernel(c"xs_nothing");
    let launched = |blocks: u32, threads: u32| {
        answer!(cuLaunchKernel(
            kernel,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            0,
            LEGACY,
            null_mut(),
            null_mut()
        ))
    };
    assert_eq!(launched(1, 1), "CUDA_SUCCESS");
    assert_eq!(launched(0, 1), "INVALID_VALUE");
    assert_eq!(launched(1, 2_048), "INVALID_VALUE");
    assert_eq!(
        answer!(cuModuleLoadData(&mut null_mut(), c"nonsense".as_ptr().cast())),
        "INVALID_IMAGE"
    );
    let library: sys::CUlibrary = made!(cuLibraryLoadData(
        xsched_cuda_emulated::PTX.as_ptr().cast(),
        null_mut(),
        null_mut(),
        0,
        null_mut(),
        null_mut(),
        0,
    ));
    let found: sys::CUkernel = made!(cuLibraryGetKernel(library, c"fill".as_ptr()));
    let _function: CUfunction = made!(cuKernelGetFunction(found));
    assert_eq!(
        answer!(cuLibraryGetKernel(&mut null_mut(), library, c"other".as_ptr())),
        "NOT_FOUND"
    );
}

#[test]
fn a_kernel_that_fails_takes_its_context() {
    start();
    for (name, error) in [(c"xs_trap", "LAUNCH_FAILED"), (c"stray", "ILLEGAL_ADDRESS")] {
        let context = Context::new();
        let (stream, event) = (stream(1), event());
        launch(kernel(name), 1, stream, &mut []);
        // It may have failed by now.
        let recorded = answer!(cuEventRecord(event, stream));
        assert!(["CUDA_SUCCESS", error].contains(&recorded.as_str()), "{recorded}");
        assert_eq!(answer!(cuStreamSynchronize(stream)), error);
        assert_eq!(answer!(cuEventQuery(event)), error);
        assert_eq!(answer!(cuStreamQuery(LEGACY)), error);
        assert_eq!(answer!(cuMemAlloc_v2(&mut 0, 8)), error);
        assert_eq!(answer!(cuCtxSynchronize()), error);
        drop(context);
        let _fresh = Context::new();
        let place = memory(1);
        fill(LEGACY, place, 1);
        assert_eq!(read(place, 1), [1]);
    }
}

#[test]
fn wrong_handles_are_errors() {
    if !start() {
        return println!("skipped: a real driver may crash");
    }
    let _context = Context::new();
    let wrong = 0x1234_5678 as CUstream;
    assert_eq!(answer!(cuStreamSynchronize(wrong)), "INVALID_HANDLE");
    assert_eq!(answer!(cuStreamDestroy_v2(LEGACY)), "INVALID_HANDLE");
    let stream = stream(0);
    ok!(cuStreamDestroy_v2(stream));
    assert_eq!(answer!(cuStreamDestroy_v2(stream)), "INVALID_HANDLE");
    let event = event();
    assert_eq!(answer!(cuStreamQuery(event.cast())), "INVALID_HANDLE");
    assert_eq!(answer!(cuEventRecord(event, stream)), "INVALID_HANDLE");
    assert_eq!(answer!(cuGraphDestroy(null_mut())), "INVALID_HANDLE");
    assert_eq!(answer!(cuStreamCreate(null_mut(), 0)), "INVALID_VALUE");
    assert_eq!(answer!(cuStreamCreate(&mut null_mut(), 64)), "INVALID_VALUE");
    assert_eq!(answer!(cuStreamWaitValue32_v2(LEGACY, 8, 0, 0)), "INVALID_VALUE");
    assert_eq!(answer!(cuCtxSetCurrent(wrong.cast())), "INVALID_CONTEXT");
    let other = Context::new();
    let foreign = common::stream(1);
    let kernel = kernel(c"xs_nothing");
    ok!(cuCtxPopCurrent_v2(&mut null_mut()));
    assert_eq!(answer!(cuEventRecord(event, foreign)), "INVALID_HANDLE");
    let code = answer!(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, LEGACY, null_mut(), null_mut()));
    assert_eq!(code, "INVALID_HANDLE");
    drop(other);
    assert_eq!(answer!(cuStreamQuery(foreign)), "INVALID_HANDLE");
}
