//! The layer over HIP on an NVIDIA GPU, through HIP's interface over CUDA's driver. What needs the
//! GPU is ignored unless asked for:
//! `cargo test -p xsched-hal-hip --test over_cuda -- --ignored --nocapture`
#![expect(unsafe_code, reason = "drivers' handles")]

use std::env;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;
use xsched_hal_hip::{Arguments, Direction, HipApi, HipConfig, HipError, HipEvent, HipFunction};
use xsched_hal_hip::{HipLibrary, HipModule, HipNative, HipStream};
use xsched_hal_stream::{StreamApi, StreamKind};

/// `count_up` adds to a word, `spin_for` takes a time, `fail_now` ends with an error.
const PTX: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry count_up(.param .u64 word, .param .u32 value) {
    .reg .u64 %a; .reg .u32 %v, %old;
    ld.param.u64 %a, [word];
    ld.param.u32 %v, [value];
    cvta.to.global.u64 %a, %a;
    atom.global.sys.add.u32 %old, [%a], %v;
    ret;
}
.visible .entry spin_for(.param .u64 ns) {
    .reg .u64 %end, %now, %ns; .reg .pred %p;
    ld.param.u64 %ns, [ns];
    mov.u64 %end, %globaltimer;
    add.u64 %end, %end, %ns;
LOOP:
    mov.u64 %now, %globaltimer;
    setp.lt.u64 %p, %now, %end;
    @%p bra LOOP;
    ret;
}
.visible .entry fail_now() {
    trap;
}
\0";

fn library() -> Arc<HipLibrary> {
    let test = env::current_exe().expect("tests are programs");
    let path = test.parent().expect("programs are in folders").join("libxsched_hip_over_cuda.so");
    // SAFETY: it has HIP's interface.
    unsafe { HipLibrary::open(path.as_os_str()) }.expect("it has all functions")
}

/// Tells whether CUDA's driver is there. The test below is for machines without it.
fn has_cuda() -> bool {
    // SAFETY: loading CUDA's driver has no effect but that.
    unsafe { libloading::Library::new("libcuda.so.1") }.is_ok()
}

#[test]
fn without_cuda_there_is_no_device() {
    if has_cuda() {
        return;
    }
    let error = HipApi::with_library(library(), HipConfig::default()).expect_err("no device");
    assert!(matches!(error, HipError::NoDevice { code: 100, .. }), "{error:?}");
}

/// Objects of the test.
struct Rig {
    api: HipApi,
    module: HipModule,
}

impl Rig {
    fn function(&self, name: &str) -> HipFunction {
        self.module.function(name).expect("a kernel")
    }

    fn launch(&self, function: &HipFunction, arguments: Arguments, stream: HipStream) {
        let _entered = self.api.enter().expect("it becomes current");
        // SAFETY: the callers pass what the kernels above take, and memory that outlives them.
        unsafe {
            let kernel = HipNative::kernel(function, [1; 3], [1; 3], 0, arguments);
            self.api.launch_native(&kernel, stream).expect("a launch");
        }
    }

    fn mark(&self, stream: HipStream) -> HipEvent {
        let _entered = self.api.enter().expect("it becomes current");
        let event = self.api.create_event().expect("an event");
        // SAFETY: both are alive.
        unsafe { self.api.record(event, stream) }.expect("a record");
        event
    }

    fn is_done(&self, event: HipEvent) -> bool {
        // SAFETY: it is alive.
        unsafe { self.api.query(event) }.expect("a query")
    }

    fn finish(&self, event: HipEvent) {
        until(|| self.is_done(event));
    }
}

fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited for too long");
        thread::yield_now();
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn it_works_on_hardware() {
    let api = HipApi::with_library(library(), HipConfig::default()).expect("a device");
    println!("{:?}", api.about());
    assert_eq!(api.no_waits(), None);
    // SAFETY: it is PTX that ends with zero.
    let module = unsafe { HipModule::load(&api, PTX.as_bytes()) }.expect("a module");
    let rig = Rig { api, module };
    // Launched once before anything is held.
    let (add, spin) = (rig.function("count_up"), rig.function("spin_for"));
    times_are_measured(&rig, &spin);
    a_gate_holds(&rig, &add);
    copies_go_both_ways(&rig);
    // Last, because the device is lost with it.
    a_failure_loses_the_device(&rig);
}

fn times_are_measured(rig: &Rig, spin: &HipFunction) {
    let _entered = rig.api.enter().expect("it becomes current");
    let stream = rig.api.create_stream(Some(0)).expect("a stream");
    let expected = StreamKind { legacy_default: false, blocking: false, own_ring: Some(false) };
    // SAFETY: it is alive.
    assert_eq!(unsafe { rig.api.stream_kind(stream) }, Ok(expected));
    let start = rig.mark(stream);
    rig.launch(spin, Arguments::new().with(5_000_000_u64).expect("one fits"), stream);
    let end = rig.mark(stream);
    assert!(!rig.is_done(end), "5 ms have not passed");
    rig.finish(end);
    // SAFETY: both are alive.
    let ns = unsafe { rig.api.elapsed_ns(start, end) }.expect("both have completed");
    println!("a kernel of 5 ms took {ns} ns");
    assert!((4_900_000..50_000_000).contains(&ns), "{ns}");
    // SAFETY: they are alive, and not used afterwards.
    unsafe {
        rig.api.destroy_event(start);
        rig.api.destroy_event(end);
        rig.api.destroy_stream(stream).expect("its end");
    }
}

fn a_gate_holds(rig: &Rig, add: &HipFunction) {
    let api = &rig.api;
    let _entered = api.enter().expect("it becomes current");
    let (held, free) = (api.create_stream(None), api.create_stream(None));
    let (held, free) = (held.expect("a stream"), free.expect("a stream"));
    let expected = StreamKind { legacy_default: false, blocking: true, own_ring: Some(true) };
    // SAFETY: it is alive.
    assert_eq!(unsafe { api.stream_kind(held) }, Ok(expected));
    let (gate, count) = (api.flag_memory(4), api.flag_memory(4));
    let (gate, count) = (gate.expect("flag memory"), count.expect("flag memory"));
    // SAFETY: both live until they are freed below.
    let (gate_word, count_word) = unsafe { (gate.host.as_ref(), count.host.as_ref()) };
    let one = || Arguments::new().with(count.device).and_then(|all| all.with(1_u32));
    let read = || count_word.load(Ordering::Acquire);
    rig.launch(add, one().expect("two fit"), held);
    rig.finish(rig.mark(held));
    assert_eq!(read(), 1);
    gate_word.store(1, Ordering::Release);
    // SAFETY: both are alive.
    unsafe { api.wait_zero(held, gate.device) }.expect("a wait");
    rig.launch(add, one().expect("two fit"), held);
    let behind = rig.mark(held);
    thread::sleep(Duration::from_millis(20));
    assert!(!rig.is_done(behind) && read() == 1, "it is behind a closed gate");
    rig.launch(add, one().expect("two fit"), free);
    rig.finish(rig.mark(free));
    assert_eq!(read(), 2, "another stream goes on");
    let open = Instant::now();
    gate_word.store(0, Ordering::Release);
    rig.finish(behind);
    println!("from opening the gate to seeing the kernel behind it done: {:?}", open.elapsed());
    assert_eq!(read(), 3);
    // SAFETY: the streams are done, and nothing of it is used afterwards.
    unsafe {
        api.destroy_stream(held).expect("its end");
        api.destroy_stream(free).expect("its end");
        api.free_flags(gate);
        api.free_flags(count);
    }
}

fn copies_go_both_ways(rig: &Rig) {
    let api = &rig.api;
    let _entered = api.enter().expect("it becomes current");
    let stream = api.create_stream(None).expect("a stream");
    let memory = api.flag_memory(128).expect("memory");
    let start: *mut u8 = memory.host.as_ptr().cast();
    // SAFETY: the memory is long enough, and lives until the stream is done.
    let (second, commands) = unsafe {
        let (first, second): (*mut c_void, *mut c_void) = (start.cast(), start.add(64).cast());
        let fill = HipNative::fill(first, 0x5a, 64);
        (second, [fill, HipNative::copy(second, first, 64, Direction::ByAddress)])
    };
    for command in &commands {
        // SAFETY: the stream is alive.
        unsafe { api.launch_native(command, stream) }.expect("a launch");
    }
    // SAFETY: the stream is alive.
    unsafe { api.launch_nothing(stream) }.expect("a launch");
    rig.finish(rig.mark(stream));
    // SAFETY: the stream is done with it.
    let copied = unsafe { second.cast::<[u8; 64]>().read() };
    assert_eq!(copied, [0x5a; 64]);
    let mut page = vec![0_u32; 2_048];
    let host = std::ptr::NonNull::new(page.as_mut_ptr().cast::<AtomicU32>()).expect("not null");
    // SAFETY: it lives until it is taken back, and nothing is launched with it.
    unsafe {
        let registered = api.register_flags(host, 8_192).expect("memory of the program's");
        api.unregister_flags(registered);
        api.free_flags(memory);
        api.destroy_stream(stream).expect("its end");
    }
}

fn a_failure_loses_the_device(rig: &Rig) {
    let _entered = rig.api.enter().expect("it becomes current");
    let stream = rig.api.create_stream(None).expect("a stream");
    rig.launch(&rig.function("fail_now"), Arguments::new(), stream);
    let event = rig.mark(stream);
    let mut error = None;
    until(|| {
        // SAFETY: it is alive.
        error = unsafe { rig.api.query(event) }.err();
        error.is_some()
    });
    let error = error.expect("it failed");
    println!("{error}");
    assert_eq!(error.kind(), Fault::DeviceLost);
}
