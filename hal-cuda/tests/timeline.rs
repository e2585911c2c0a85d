//! Streams that wait for others by numbers, on the first CUDA device, or on the emulated driver
//! where there is no other.
#![expect(unsafe_code, reason = "has streams wait")]

mod common;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use xsched_hal_cuda::{CudaApi, StreamDevice, StreamDeviceConfig, device_count};
use xsched_hal_stream::{StreamApi, Timeline};

const PATIENCE: Duration = Duration::from_secs(10);

/// Returns whether everything in a stream runs within `time`.
fn runs_within(api: &CudaApi, stream: <CudaApi as StreamApi>::Stream, time: Duration) -> bool {
    let event = api.create_plain_event().expect("an event");
    // SAFETY: both are alive.
    unsafe { api.record(event, stream) }.expect("it is recorded");
    let end = Instant::now() + time;
    // SAFETY: it is alive.
    let has_run = || unsafe { api.query(event) }.expect("an answer");
    while !has_run() && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    let has_run = has_run();
    // SAFETY: made above, and not used any more.
    unsafe { api.destroy_event(event) };
    has_run
}

#[test]
fn a_stream_waits_for_what_another_had_before_a_number() {
    common::choose_driver();
    if !device_count().is_ok_and(|count| count > 0) {
        println!("skipped: there is no CUDA device");
        return;
    }
    let api = CudaApi::open(0).expect("the first device");
    let device = CudaApi::open(0).expect("the first device");
    let device = StreamDevice::new(device, StreamDeviceConfig::default()).expect("its streams");
    if !api.has_numbers() {
        println!("skipped: its streams cannot write numbers");
        return;
    }
    let _entered = api.enter().expect("the device");
    let [one, other] = [0; 2].map(|_| api.create_stream(None).expect("a stream"));
    let [first, second] = [0; 2].map(|_| Timeline::new(&device));
    let gate = api.flag_memory(64).expect("memory");
    // SAFETY: as allocated.
    let word = unsafe { gate.host.as_ref() };
    word.store(1, Ordering::SeqCst);
    // SAFETY: streams and memory are alive until the end, and nothing is captured.
    unsafe {
        let before = first.signal(one).expect("a number").expect("numbers");
        api.wait_zero(one, gate.device).expect("a gate");
        let behind = first.signal(one).expect("a number").expect("numbers");
        assert_eq!((behind.word, behind.number), (before.word, before.number + 1));
        second.wait(other, before).expect("a wait");
        assert!(runs_within(&api, other, PATIENCE), "it has been written");
        second.wait(other, behind).expect("a wait");
        assert!(!runs_within(&api, other, Duration::from_millis(30)), "it is behind a gate");
        word.store(0, Ordering::SeqCst);
        assert!(runs_within(&api, other, PATIENCE), "the gate is open");
        // What was said stays when the stream's timeline is gone.
        drop(first);
        second.wait(other, behind).expect("a wait");
        assert!(runs_within(&api, other, PATIENCE));
        // Another one goes on with its word, unless numbers are still to be written.
        let next = Timeline::new(&device);
        let again = next.signal(other).expect("a number").expect("numbers");
        assert_eq!((again.word, again.number), (behind.word, behind.number + 1));
        word.store(1, Ordering::SeqCst);
        api.wait_zero(other, gate.device).expect("a gate");
        next.signal(other).expect("a number").expect("numbers");
        drop(next);
        let last = Timeline::new(&device);
        let own = last.signal(one).expect("a number").expect("numbers");
        assert_ne!(own.word, behind.word);
        word.store(0, Ordering::SeqCst);
        api.synchronize(other).expect("it is done");
        api.synchronize(one).expect("it is done");
        for stream in [one, other] {
            api.destroy_stream(stream).expect("it ends");
        }
        api.free_flags(gate);
    }
}
