//! Streams in rings of their own end only after their last completion was seen by `hipEventQuery`:
//! otherwise HIP 7.2.3 may wait for ever. One test, because the emulated runtime counts for the
//! whole process.
#![expect(unsafe_code, reason = "drivers' handles")]

mod common;

use std::ptr;
use std::sync::Arc;

use xsched_conformance::Work;
use xsched_core::hal::{Backend, Retire, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_hal_hip::{HipApi, HipStream, KERNELS_VARIABLE};
use xsched_hal_hip::{StreamCommand, StreamConfig, StreamDevice};
use xsched_hal_stream::{ClockProbe, SpinRate, StreamApi};

use common::{Control, Kernels, device, library, until};

/// Streams that are alive at the same time: more than are kept.
const TOGETHER: usize = 24;

/// Makes, uses and ends a stream as a program without this crate may.
fn end_a_stream_at_once() {
    let table = library();
    let table = table.table();
    let mut stream = ptr::null_mut();
    // SAFETY: the handle may be written to, and the mask has one word; then the stream is alive.
    unsafe {
        assert_eq!((table.hipExtStreamCreateWithCUMask)(&raw mut stream, 1, [1].as_ptr()), 0);
        assert_eq!((table.hipMemsetAsync)(word(), 0, 4, stream), 0);
        assert_eq!((table.hipStreamSynchronize)(stream), 0);
        assert_eq!((table.hipStreamDestroy)(stream), 0);
    }
}

/// Memory of the device.
fn word() -> *mut std::ffi::c_void {
    let mut memory = ptr::null_mut();
    // SAFETY: the pointer may be written to.
    assert_eq!(unsafe { (library().table().hipMalloc)(&raw mut memory, 64) }, 0);
    memory
}

fn streams(api: &HipApi) -> Vec<HipStream> {
    let _entered = api.enter().expect("the device becomes current");
    let make = |_| api.create_stream(None).expect("a stream");
    let streams: Vec<_> = (0..TOGETHER).map(make).collect();
    for stream in &streams {
        // SAFETY: it is alive.
        unsafe { api.launch_nothing(*stream) }.expect("launched");
    }
    streams
}

/// Ends them as soon as possible, some after a synchronisation.
fn end(api: &HipApi, streams: Vec<HipStream>) {
    let _entered = api.enter().expect("the device becomes current");
    for (n, stream) in streams.into_iter().enumerate() {
        if n % 2 == 0 {
            // SAFETY: it is alive.
            unsafe { api.synchronize(stream) }.expect("done");
        }
        // SAFETY: it is alive, and nothing uses it afterwards.
        unsafe { api.destroy_stream(stream) }.expect("its end");
    }
}

fn run_a_queue(device: &mut StreamDevice<HipApi>, kernels: &Kernels) {
    let config = StreamConfig::default();
    let mut queue = device.open(QueueId::default(), config).expect("a queue");
    let command = StreamCommand::native(kernels.command(Work::Empty));
    queue.submit.launch(CmdId(0), &command, true).expect("launched");
    until("it retires", || queue.retire.poll_retired().expect("no error").is_some());
}

#[test]
fn no_stream_of_this_crate_ends_before_its_last_completion_was_seen() {
    let image = std::env::temp_dir().join(format!("xsched-rings-{}.hsaco", std::process::id()));
    std::fs::write(&image, xsched_hip_emulated::IMAGE).expect("a file for the test");
    // SAFETY: this is the only test of the program, and no other thread is there yet.
    unsafe { std::env::set_var(KERNELS_VARIABLE, &image) };
    let control = Control::get();
    library();
    let before = control.unseen_ends();
    end_a_stream_at_once();
    assert_eq!(control.unseen_ends(), before + 1, "the emulated runtime notices it");

    let api = device();
    let kernels = Kernels::load(&api);
    api.load_spin_kernels().expect("kernels");
    // Self-test, queues, clock, load, and plain streams.
    SpinRate::measure(&api, 1, 1).expect("a rate");
    for _ in 0..3 {
        let made = streams(&api);
        end(&api, made);
    }
    let number = api.device();
    let mut streams = StreamDevice::new(api, Default::default()).expect("a device");
    assert!(streams.no_gate().is_none());
    for _ in 0..20 {
        run_a_queue(&mut streams, &kernels);
    }
    drop((streams, kernels));
    let again = common::again(number);
    again.load_spin_kernels().expect("kernels");
    std::fs::remove_file(&image).expect("it is there");
    let mut probe = ClockProbe::new(Arc::new(again)).expect("a probe");
    probe.read(3).expect("it answers");
    drop(probe);
    assert_eq!(control.unseen_ends(), before + 1);
}
