//! The layer over HIP, and the emulated runtime beneath it.
#![expect(unsafe_code, reason = "drivers' handles")]

mod common;

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use xsched_conformance::Work;
use xsched_core::fault::Fault;
use xsched_core::hal::HalError;
use xsched_hal_hip::{Arguments, Direction, HipApi, HipConfig, HipError, HipEvent, HipModule};
use xsched_hal_hip::{HipNative, HipStream, Rings, WaitLowering};
use xsched_hal_stream::{FlagMemory, StreamApi, StreamKind};

use common::{Control, Kernels, counter, device, launch, library, open, throughout, until};

/// A word of flag memory that holds streams while it is 1.
struct Gate<'a> {
    api: &'a HipApi,
    memory: FlagMemory,
}

impl<'a> Gate<'a> {
    fn closed(api: &'a HipApi) -> Self {
        let memory = api.flag_memory(4).expect("flag memory");
        let gate = Self { api, memory };
        assert_eq!(gate.word().swap(1, Ordering::AcqRel), 0, "it is zero at first");
        gate
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: it is freed with this.
        unsafe { self.memory.host.as_ref() }
    }

    fn hold(&self, stream: HipStream) {
        let _entered = self.api.enter().expect("the device becomes current");
        // SAFETY: both are alive.
        unsafe { self.api.wait_zero(stream, self.memory.device) }.expect("a wait");
    }

    fn open(&self) {
        self.word().store(0, Ordering::Release);
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.open();
        // SAFETY: freeing waits for the streams.
        unsafe { self.api.free_flags(self.memory) };
    }
}

fn stream(api: &HipApi, priority: Option<i32>) -> HipStream {
    let _entered = api.enter().expect("the device becomes current");
    api.create_stream(priority).expect("a stream")
}

fn recorded(api: &HipApi, stream: HipStream) -> HipEvent {
    let _entered = api.enter().expect("the device becomes current");
    let event = api.create_event().expect("an event");
    // SAFETY: both are alive.
    unsafe { api.record(event, stream) }.expect("a record");
    event
}

fn is_done(api: &HipApi, event: HipEvent) -> bool {
    // SAFETY: it is alive.
    unsafe { api.query(event) }.expect("a query")
}

fn kind(api: &HipApi, stream: HipStream) -> Result<StreamKind, HipError> {
    // SAFETY: it is alive, or a constant.
    unsafe { api.stream_kind(stream) }
}

#[test]
fn a_device_says_what_it_is() {
    let api = device();
    let about = api.about();
    assert_eq!(about.device, "Emulated gfx942");
    assert_eq!(about.pci, format!("0000:{:02x}:00", api.device() + 1));
    assert_eq!(about.driver, "HIP 6.4.0");
    assert!(about.library.ends_with("libxsched_hip_emulated.so"), "{}", about.library);
    assert_eq!((about.units, about.priorities), (80, (1, -1)));
    assert_eq!((api.name(), api.depth(), api.settle_ns()), ("hip", None, 0));
    assert_eq!((api.no_waits(), api.lowering()), (None, WaitLowering::SpinKernel));
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    let config = HipConfig { device: 256, ..HipConfig::default() };
    let error = HipApi::with_library(library(), config).expect_err("there are 256");
    assert_eq!(error, HipError::NoSuchDevice { device: 256, count: 256 });
}

#[test]
fn commands_run_in_order_and_events_follow_them() {
    let api = device();
    let (kernels, word, stream) = (Kernels::load(&api), counter(), stream(&api, None));
    let first = recorded(&api, stream);
    launch(&api, &kernels.add(20, word), stream);
    launch(&api, &kernels.add_by_block(20, word), stream);
    let second = recorded(&api, stream);
    until("the first event", || is_done(&api, first));
    assert!(!is_done(&api, second), "40 ms have not passed");
    until("the second event", || is_done(&api, second));
    assert_eq!(word.load(Ordering::Acquire), 2);
    // SAFETY: both are alive.
    let elapsed = unsafe { api.elapsed_ns(first, second) }.expect("both have completed");
    assert!((40_000_000..2_000_000_000).contains(&elapsed), "{elapsed} ns");
    // SAFETY: both are alive.
    let backwards = unsafe { api.elapsed_ns(second, first) }.expect("both have completed");
    assert_eq!(backwards, 0);
}

#[test]
fn fills_and_copies_are_commands_too() {
    let api = device();
    let stream = stream(&api, None);
    let memory = api.flag_memory(64).expect("memory");
    let (mut from, mut to) = ([7_u8; 64], [0_u8; 64]);
    let on_device: *mut std::ffi::c_void = memory.host.as_ptr().cast();
    // SAFETY: all of it lives until the stream is done.
    let commands = unsafe {
        [
            HipNative::copy(on_device, from.as_ptr().cast(), 64, Direction::HostToDevice),
            HipNative::fill(on_device, 9, 32),
            HipNative::copy(to.as_mut_ptr().cast(), on_device, 64, Direction::DeviceToHost),
        ]
    };
    for command in &commands {
        launch(&api, command, stream);
    }
    let end = recorded(&api, stream);
    until("the copies", || is_done(&api, end));
    from[..32].fill(9);
    assert_eq!(to, from);
    // SAFETY: the stream is done with it.
    unsafe { api.free_flags(memory) };
}

#[test]
fn a_closed_gate_holds_what_follows_it() {
    let api = device();
    let (kernels, word, held) = (Kernels::load(&api), counter(), stream(&api, None));
    let gate = Gate::closed(&api);
    launch(&api, &kernels.add(0, word), held);
    gate.hold(held);
    launch(&api, &kernels.add(0, word), held);
    let end = recorded(&api, held);
    until("what is before the gate", || word.load(Ordering::Acquire) == 1);
    throughout("nothing passes the gate", || word.load(Ordering::Acquire) == 1);
    assert!(!is_done(&api, end));
    assert_eq!(Control::get().in_flight(held), 3);
    let other = stream(&api, None);
    launch(&api, &kernels.add(0, word), other);
    until("another stream with a ring of its own", || word.load(Ordering::Acquire) == 2);
    gate.open();
    until("what is behind the gate", || is_done(&api, end));
    assert_eq!(word.load(Ordering::Acquire), 3);
}

#[test]
fn a_held_stream_stops_those_that_share_its_ring() {
    let api = open(Rings::Shared);
    assert!(api.no_waits().is_some_and(|why| why.contains("Rings::Own")));
    let (kernels, word) = (Kernels::load(&api), counter());
    // Four rings of this priority: the fifth stream shares the first one's.
    let streams: Vec<_> = (0..5).map(|_| stream(&api, None)).collect();
    let gate = Gate::closed(&api);
    gate.hold(streams[0]);
    launch(&api, &kernels.add(0, word), streams[4]);
    throughout("it is stuck behind another stream", || word.load(Ordering::Acquire) == 0);
    launch(&api, &kernels.add(0, word), streams[1]);
    let urgent = stream(&api, Some(-1));
    launch(&api, &kernels.add(0, word), urgent);
    let own = open(Rings::Own);
    assert_eq!(kind(&own, stream(&own, None)).map(|kind| kind.own_ring), Ok(Some(true)));
    until("streams in other rings", || word.load(Ordering::Acquire) == 2);
    gate.open();
    until("the one that was stuck", || word.load(Ordering::Acquire) == 3);
}

#[test]
fn a_launch_into_a_full_ring_blocks() {
    let api = device();
    let held = stream(&api, None);
    let gate = Gate::closed(&api);
    gate.hold(held);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let api = &api;
        scope.spawn(move || {
            let _entered = api.enter().expect("the device becomes current");
            for _ in 0..1_100 {
                // SAFETY: it is alive.
                unsafe { api.launch_nothing(held) }.expect("a launch");
            }
            sender.send(()).expect("the receiver waits");
        });
        let full = || Control::get().in_flight(held) == 1_024;
        until("the ring is full", full);
        throughout("the next launch blocks", full);
        assert!(receiver.try_recv().is_err());
        gate.open();
        let end = receiver.recv_timeout(Duration::from_secs(10));
        assert!(end.is_ok(), "the launches end once the gate is open");
    });
}

#[test]
fn streams_with_a_ring_of_their_own_and_the_default_stream_wait_for_each_other() {
    let api = device();
    let (kernels, word) = (Kernels::load(&api), counter());
    let (held, free) = (stream(&api, None), stream(&api, Some(0)));
    let gate = Gate::closed(&api);
    gate.hold(held);
    let default = HipStream::from_raw(ptr::null_mut());
    launch(&api, &kernels.add(0, word), default);
    throughout("the default stream waits", || word.load(Ordering::Acquire) == 0);
    launch(&api, &kernels.add(0, word), free);
    until("a stream that is not blocking", || word.load(Ordering::Acquire) == 1);
    gate.open();
    until("the default stream", || word.load(Ordering::Acquire) == 2);
}

#[test]
fn streams_are_told_apart() {
    let api = device();
    let own = StreamKind { legacy_default: false, blocking: true, own_ring: Some(true) };
    assert_eq!(kind(&api, stream(&api, None)), Ok(own));
    let shared = StreamKind { legacy_default: false, blocking: false, own_ring: Some(false) };
    assert_eq!(kind(&api, stream(&api, Some(-5))), Ok(shared));
    let default = StreamKind { legacy_default: true, blocking: true, own_ring: Some(false) };
    let constant = |n| HipStream::from_raw(ptr::without_provenance_mut(n));
    assert_eq!(kind(&api, constant(0)), Ok(default));
    assert_eq!(kind(&api, constant(1)), Ok(default));
    assert_eq!(kind(&api, constant(2)), Err(HipError::PerThreadStream));
    let unknown = kind(&api, constant(0x1234)).expect_err("it is none");
    assert_eq!(unknown, HipError::Driver { call: "hipStreamIsCapturing", code: 400 });
    assert_eq!(unknown.kind(), Fault::Launch);
    let captured = stream(&api, None);
    Control::get().capture(captured, 1);
    assert_eq!(kind(&api, captured), Err(HipError::Capturing));
    let other = device();
    let error = HipError::OtherDevice { stream: other.device(), device: api.device() };
    assert_eq!(kind(&api, stream(&other, None)), Err(error));
}

#[test]
fn a_device_is_current_only_while_it_is_entered() {
    let current = || {
        let mut current = -1;
        // SAFETY: it may be written to.
        let code = unsafe { (library().table().hipGetDevice)(&raw mut current) };
        assert_eq!(code, 0);
        current.unsigned_abs()
    };
    let (one, other) = (device(), device());
    let before = current();
    {
        let _one = one.enter().expect("it becomes current");
        assert_eq!(current(), one.device());
        {
            let _other = other.enter().expect("it becomes current");
            assert_eq!(current(), other.device());
        }
        assert_eq!(current(), one.device());
    }
    assert_eq!(current(), before);
}

#[test]
fn a_kernel_that_fails_loses_the_device() {
    let api = device();
    let (kernels, stream) = (Kernels::load(&api), stream(&api, None));
    launch(&api, &kernels.command(Work::Empty), stream);
    let before = recorded(&api, stream);
    until("the command before", || is_done(&api, before));
    launch(&api, &kernels.command(Work::Failing), stream);
    // SAFETY: the event is alive.
    until("the failure", || unsafe { api.query(before) }.is_err());
    // SAFETY: the event is alive.
    let error = unsafe { api.query(before) }.expect_err("it stays");
    assert_eq!(error, HipError::Driver { call: "hipEventQuery", code: 719 });
    assert_eq!(error.kind(), Fault::DeviceLost);
    // SAFETY: the stream is alive.
    let launched = unsafe { api.launch_native(&kernels.command(Work::Empty), stream) };
    assert_eq!(launched.map_err(|error| error.kind()), Err(Fault::DeviceLost));
    let other = device();
    let stream = self::stream(&other, None);
    let end = recorded(&other, stream);
    until("another device", || is_done(&other, end));
}

#[test]
fn a_lost_device_lets_go_of_what_is_held() {
    let api = device();
    let held = stream(&api, None);
    let gate = Gate::closed(&api);
    gate.hold(held);
    Control::get().lose(&api, 700);
    until("the wait", || Control::get().in_flight(held) == 0);
    // SAFETY: it is alive, and not used afterwards.
    let ended = unsafe { api.destroy_stream(held) };
    assert_eq!(ended, Ok(()));
}

#[test]
fn errors_of_calls_name_them() {
    let api = device();
    let _entered = api.enter().expect("it becomes current");
    // Only this test makes this call.
    Control::get().fail("hipHostRegister", 801, 1);
    let mut page = vec![0_u32; 1_024];
    let host = ptr::NonNull::new(page.as_mut_ptr().cast()).expect("not null");
    // SAFETY: the memory is there until it is taken back.
    let register = || unsafe { api.register_flags(host, 4_096) };
    let error = register().expect_err("it was asked for");
    assert_eq!(error, HipError::Driver { call: "hipHostRegister", code: 801 });
    assert_eq!(error.kind(), Fault::NotSupported);
    let memory = register().expect("once is enough");
    assert_eq!(memory.device, host.as_ptr().expose_provenance() as u64);
    let again = register().expect_err("it is registered");
    assert_eq!(again, HipError::Driver { call: "hipHostRegister", code: 712 });
    // SAFETY: nothing waits for it.
    unsafe { api.unregister_flags(memory) };
}

#[test]
fn launches_that_cannot_be_are_refused() {
    let api = device();
    let stream = stream(&api, None);
    let _kernels = Kernels::load(&api);
    // SAFETY: it is what the emulated runtime takes.
    let module = unsafe { HipModule::load(&api, xsched_hip_emulated::IMAGE) }.expect("a module");
    let missing = module.function("missing").expect_err("there is none");
    assert_eq!(missing, HipError::Driver { call: "hipModuleGetFunction", code: 500 });
    assert_eq!(module.function("a\0b").expect_err("no name"), HipError::KernelName);
    // SAFETY: it is no image, and read only up to where that shows.
    let error = unsafe { HipModule::load(&api, b"something else") }.expect_err("no image");
    assert_eq!(error, HipError::Driver { call: "hipModuleLoadData", code: 200 });
    let empty = module.function("empty").expect("a kernel");
    // SAFETY: it takes no arguments.
    let large = unsafe { HipNative::kernel(&empty, [1; 3], [2_048, 1, 1], 0, Arguments::new()) };
    // SAFETY: the stream is alive.
    let error = unsafe { api.launch_native(&large, stream) }.expect_err("too large");
    assert_eq!(error, HipError::Driver { call: "hipModuleLaunchKernel", code: 9 });
    assert_eq!(error.kind(), Fault::Launch);
}

#[test]
fn streams_that_end_finish_what_was_launched() {
    let api = device();
    // One in a ring of its own would be kept.
    let (kernels, word, stream) = (Kernels::load(&api), counter(), stream(&api, Some(0)));
    launch(&api, &kernels.add(20, word), stream);
    // SAFETY: it is alive, and not used afterwards.
    unsafe { api.destroy_stream(stream) }.expect("its end");
    until("what was launched", || word.load(Ordering::Acquire) == 1);
    let gone = kind(&api, stream).expect_err("it is gone");
    assert_eq!(gone, HipError::Driver { call: "hipStreamIsCapturing", code: 400 });
}

#[test]
fn what_a_reset_ends_is_not_destroyed_after_it() {
    let api = device();
    let (stream, kept) = (stream(&api, None), stream(&api, None));
    let event = recorded(&api, stream);
    until("the event does not complete", || is_done(&api, event));
    let gate = Gate::closed(&api);
    gate.open();
    let _entered = api.enter().expect("the device becomes current");
    api.leave_to_reset();
    // What the program has made since may have the same handles and addresses, as here.
    // SAFETY: nothing of it was destroyed before.
    unsafe {
        api.destroy_event(event);
        api.free_flags(gate.memory);
        api.destroy_stream(kept).expect("the reset ends it");
    }
    gate.hold(kept);
    let after = recorded(&api, kept);
    until("the stream does not go on", || is_done(&api, after) && is_done(&api, event));
}
