//! Cases that need a process of their own: no devices, waits by the command processor, nothing
//! leaked.
#![expect(unsafe_code, reason = "drivers' handles, and the environment")]

mod common;

use std::env;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;
use xsched_hal_hip::{HipApi, HipConfig, HipError, HipLibrary, LIBRARY_VARIABLE, WaitLowering};
use xsched_hal_stream::StreamApi;

use common::{Control, Kernels, device, library, path, until};

/// One test, so that nothing else runs while the environment changes.
#[test]
fn alone() {
    // SAFETY: no other thread reads or changes the environment meanwhile.
    unsafe { env::set_var("GPU_STREAMOPS_CP_WAIT", "1") };
    the_library_is_found_as_the_environment_says();
    without_devices_the_error_says_so();
    the_command_processor_waits_for_its_own_memory_only();
    nothing_is_left();
}

fn the_library_is_found_as_the_environment_says() {
    let set = |value: &str| {
        // SAFETY: no other thread reads or changes the environment meanwhile.
        unsafe { env::set_var(LIBRARY_VARIABLE, value) };
        HipLibrary::find()
    };
    let path = path();
    let found = set(path.to_str().expect("a path")).expect("it is there");
    assert_eq!(found.name(), path.to_str().expect("a path"));
    assert_eq!(found.version(), Ok(60_400_000));
    let error = set("/nowhere/libamdhip64.so").expect_err("it is not there");
    let text = error.to_string();
    let start = "XSCHED_HIP_LIB names `/nowhere/libamdhip64.so`, which cannot be loaded";
    assert!(text.starts_with(start) && !text.contains('\n'), "{text}");
    let error = set("libc.so.6").expect_err("it is no runtime");
    let symbol = "hipRuntimeGetVersion";
    assert_eq!(error, HipError::SymbolMissing { symbol, library: "libc.so.6".into() });
    assert_eq!(error.kind(), Fault::NotSupported);
    // SAFETY: no other thread reads or changes the environment meanwhile.
    unsafe { env::remove_var(LIBRARY_VARIABLE) };
}

fn without_devices_the_error_says_so() {
    let library = library();
    Control::get().set_devices(0);
    let error = HipApi::with_library(library, HipConfig::default()).expect_err("no device");
    assert!(matches!(error, HipError::NoDevice { code: 100, .. }), "{error:?}");
    assert_eq!(error.kind(), Fault::DeviceLost);
    let text = error.to_string();
    assert!(text.contains("finds no AMD GPU (error 100)") && text.contains("/dev/kfd"), "{text}");
    Control::get().set_devices(64);
}

fn the_command_processor_waits_for_its_own_memory_only() {
    let api = device();
    assert_eq!((api.lowering(), api.no_waits()), (WaitLowering::CommandProcessor, None));
    let _entered = api.enter().expect("it becomes current");
    let error = api.flag_memory(16).expect_err("one word at a time");
    assert_eq!(error, HipError::SignalBytes { bytes: 16 });
    let mut page = vec![0_u32; 1_024];
    let host: NonNull<AtomicU32> = NonNull::new(page.as_mut_ptr().cast()).expect("not null");
    // SAFETY: it is refused.
    let error = unsafe { api.register_flags(host, 4_096) }.expect_err("not its own");
    assert_eq!((error.kind(), error), (Fault::NotSupported, HipError::SignalOnly));
    let memory = api.flag_memory(4).expect("a word");
    assert_eq!(memory.bytes, 8);
    // SAFETY: it is alive until it is freed below.
    let word = unsafe { memory.host.as_ref() };
    word.store(1, Ordering::Release);
    let stream = api.create_stream(None).expect("a stream");
    let event = api.create_event().expect("an event");
    // SAFETY: all of them are alive.
    unsafe {
        api.wait_zero(stream, memory.device).expect("a wait");
        api.record(event, stream).expect("a record");
        assert_eq!(api.query(event), Ok(false));
        word.store(0, Ordering::Release);
        until("the wait", || api.query(event) == Ok(true));
        api.destroy_event(event);
        api.destroy_stream(stream).expect("its end");
        api.free_flags(memory);
    }
}

fn nothing_is_left() {
    let before = Control::get().handles();
    {
        let api = device();
        let _entered = api.enter().expect("it becomes current");
        let kernels = Kernels::load(&api);
        let stream = api.create_stream(Some(0)).expect("a stream");
        let event = api.create_event().expect("an event");
        assert_eq!(Control::get().handles(), before + 3);
        // SAFETY: they are alive, and not used afterwards.
        unsafe {
            api.destroy_event(event);
            api.destroy_stream(stream).expect("its end");
        }
        drop(kernels);
    }
    assert_eq!(Control::get().handles(), before);
}
