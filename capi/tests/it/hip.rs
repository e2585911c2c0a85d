//! Streams: HIP, on the emulated runtime. What a driver refuses and what fails on the device comes
//! back from the calls, §2.2 of the C++ XSched's defects; a level that a stream does not have is
//! never in effect without a word, W-C4.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Barrier, OnceLock};

use crate::common::*;
use crate::scheduler::count;

type HostFunction = extern "C" fn(*mut c_void);

/// The functions of the emulated runtime that are called here.
struct Hip {
    create: unsafe extern "C" fn(*mut *mut c_void, c_uint, c_int) -> u32,
    destroy: unsafe extern "C" fn(*mut c_void) -> u32,
    call: unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> u32,
    set_device: unsafe extern "C" fn(c_int) -> u32,
    devices: unsafe extern "C" fn(u32) -> u32,
    fail: unsafe extern "C" fn(*const c_char, u32, u32) -> u32,
    lose: unsafe extern "C" fn(u32, u32) -> u32,
}

/// Built because these tests depend on its crate, and put where the tests are.
pub(crate) fn path() -> PathBuf {
    let test = std::env::current_exe().expect("tests are programs");
    test.parent().expect("programs are in folders").join("libxsched_hip_emulated.so")
}

fn hip() -> &'static Hip {
    static HIP: OnceLock<Hip> = OnceLock::new();
    HIP.get_or_init(|| {
        // SAFETY: no other thread reads or writes the environment by now.
        unsafe { std::env::set_var("XSCHED_HIP_LIB", path()) };
        // SAFETY: it is the emulated runtime, and its functions are those of its documentation.
        unsafe {
            let library = libloading::Library::new(path()).expect("the emulated runtime");
            let library: &'static libloading::Library = Box::leak(Box::new(library));
            Hip {
                create: *library.get("hipStreamCreateWithPriority\0").expect("there"),
                destroy: *library.get("hipStreamDestroy\0").expect("there"),
                call: *library.get("hipLaunchHostFunc\0").expect("there"),
                set_device: *library.get("hipSetDevice\0").expect("there"),
                devices: *library.get("xsched_emulated_devices\0").expect("there"),
                fail: *library.get("xsched_emulated_fail\0").expect("there"),
                lose: *library.get("xsched_emulated_lose\0").expect("there"),
            }
        }
    })
}

impl Hip {
    fn stream(&self) -> *mut c_void {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the handle may be written to. 1 is for streams that do not wait for the default.
        assert_eq!(unsafe { (self.create)(&raw mut stream, 1, 0) }, 0);
        stream
    }

    fn fail(&self, call: &str, code: u32, times: u32) {
        let call = CString::new(call).expect("a name");
        // SAFETY: the name ends with zero.
        assert_eq!(unsafe { (self.fail)(call.as_ptr(), code, times) }, 0);
    }
}

/// A stream that the program makes.
pub(crate) fn stream() -> *mut c_void {
    hip().stream()
}

/// A stream that the library makes, with its hardware queue.
pub(crate) fn own_stream(level: i64) -> Result<(HwQueueHandle, *mut c_void), XResult> {
    hip();
    let (mut hwq, mut stream) = (0, std::ptr::null_mut());
    // SAFETY: both may be written to.
    match unsafe { xsched_private_hip_stream_queue_create(&raw mut hwq, &raw mut stream, level) } {
        kXSchedSuccess => Ok((hwq, stream)),
        error => Err(error),
    }
}

pub(crate) fn hwq_of(stream: *mut c_void) -> Result<HwQueueHandle, XResult> {
    let mut hwq = 0;
    // SAFETY: the handle may be written to; the tests' streams live as long as their queues.
    match unsafe { xsched_private_hip_queue_create(&raw mut hwq, stream) } {
        kXSchedSuccess => Ok(hwq),
        error => Err(error),
    }
}

extern "C" fn add(counter: *mut c_void) {
    // SAFETY: it is the address of a counter that lives for ever.
    unsafe { &*counter.cast::<AtomicU64>() }.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
}

extern "C" fn add_later(counter: *mut c_void) {
    std::thread::sleep(std::time::Duration::from_millis(2));
    add(counter);
}

/// Work that a command launches into its stream.
struct Work {
    stream: *mut c_void,
    function: HostFunction,
    counter: &'static AtomicU64,
}

// SAFETY: it is called with work that lives for ever.
unsafe extern "C" fn launch(_: HwQueueHandle, data: *mut c_void) -> XResultValue {
    // SAFETY: see above.
    let work = unsafe { &*data.cast::<Work>() };
    let counter = std::ptr::from_ref(work.counter).cast_mut().cast();
    // SAFETY: the stream is alive.
    match unsafe { (hip().call)(work.stream, work.function, counter) } {
        0 => 0,
        _ => 1,
    }
}

/// A command that counts on the device.
pub(crate) fn adding(stream: *mut c_void, counter: &'static AtomicU64) -> HwCommandHandle {
    command(stream, add, counter)
}

/// A command that has the device call a function.
fn command(
    stream: *mut c_void,
    function: HostFunction,
    counter: &'static AtomicU64,
) -> HwCommandHandle {
    let work = Box::leak(Box::new(Work { stream, function, counter }));
    callback(launch, std::ptr::from_mut(work).cast())
}

alone!(commands_of_a_stream_run_in_order_and_can_be_held, {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let stream = hip().stream();
    let hwq = hwq_of(stream).expect("a hardware queue");
    assert_eq!(hwq_of(stream), Ok(hwq));
    let xq = create(hwq, 1, 0).expect("an XQueue");
    for n in 1..=20 {
        let counted = command(stream, add_later, &DONE);
        ok(XQueueSubmit(xq, counted));
        ok(XQueueWait(xq, counted));
        assert_eq!(count(&DONE), n);
    }
    for _ in 0..60 {
        ok(XQueueSubmit(xq, command(stream, add_later, &DONE)));
    }
    ok(XQueueSuspend(xq, SYNC));
    let held = count(&DONE);
    pause();
    assert_eq!(count(&DONE), held);
    ok(XQueueResume(xq, 0));
    ok(XQueueWaitAll(xq));
    assert_eq!(count(&DONE), 80);
    // Past the queue, and waited for on the stream.
    ok(HwQueueLaunch(hwq, command(stream, add_later, &DONE)));
    ok(HwQueueSynchronize(hwq));
    assert_eq!(count(&DONE), 81);
    ok(XQueueDestroy(xq));
    ok(HwQueueDestroy(hwq));
    // SAFETY: nothing uses it any more.
    assert_eq!(unsafe { (hip().destroy)(stream) }, 0);
    assert_eq!(hwq_of(stream), Err(kXSchedErrorInvalidValue));
});

alone!(threads_that_make_a_queue_of_one_stream_get_one, {
    for _ in 0..40 {
        let stream = hip().stream() as usize;
        let start = Barrier::new(4);
        let made: Vec<_> = std::thread::scope(|scope| {
            let make = || {
                start.wait();
                let hwq = hwq_of(std::ptr::with_exposed_provenance_mut(stream));
                hwq.and_then(|hwq| Ok((hwq, create(hwq, 1, 0)?)))
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a queue")).collect()
        });
        assert!(made.iter().all(|queues| *queues == made[0] && queues.is_ok()), "{made:?}");
        let (hwq, xq) = made[0].expect("queues");
        ok(XQueueDestroy(xq));
        ok(HwQueueDestroy(hwq));
    }
});

#[test]
fn a_level_above_the_streams_is_taken_as_the_highest_and_said_once() {
    fn body() {
        static DONE: AtomicU64 = AtomicU64::new(0);
        for level in [3, 2, 3] {
            let stream = hip().stream();
            let hwq = hwq_of(stream).expect("a hardware queue");
            let xq = create(hwq, level, 0).expect("an XQueue");
            // It is at level 1, and says so where the answer counts.
            assert_eq!(XQueueSetPreemptLevel(xq, 2), kXSchedErrorNotSupported);
            let before = count(&DONE);
            ok(XQueueSubmit(xq, command(stream, add, &DONE)));
            ok(XQueueWaitAll(xq));
            ok(XQueueSuspend(xq, SYNC));
            ok(XQueueSubmit(xq, command(stream, add, &DONE)));
            pause();
            assert_eq!(count(&DONE), before + 1);
            ok(XQueueDestroy(xq));
            assert_eq!(count(&DONE), before + 2);
            for none in [0, 4, 7, -1] {
                assert_eq!(create(hwq, none, 0), Err(kXSchedErrorInvalidValue));
            }
            ok(HwQueueDestroy(hwq));
        }
    }
    let name = "hip::a_level_above_the_streams_is_taken_as_the_highest_and_said_once";
    let Some(text) = alone_with(name, &[], body) else { return };
    let words = "the hardware queue can do level 1 at most";
    assert_eq!(text.matches(words).count(), 1, "{text}");
    assert!(text.contains("XSCHED_STRICT=ON"), "{text}");
}

alone!(a_level_above_the_streams_is_an_error_if_asked_for, [("XSCHED_STRICT", "ON")], {
    let stream = hip().stream();
    let hwq = hwq_of(stream).expect("a hardware queue");
    for level in [2, 3] {
        assert_eq!(create(hwq, level, 0), Err(kXSchedErrorNotSupported));
        assert!(last_error().contains("level 1 at most"), "{}", last_error());
    }
    let xq = create(hwq, 1, 0).expect("an XQueue");
    assert_eq!(XQueueSetPreemptLevel(xq, 2), kXSchedErrorNotSupported);
    assert!(last_error().contains("level 1 at most"), "{}", last_error());
    ok(XQueueSetPreemptLevel(xq, 1));
    assert_eq!(XQueueSubmit(xq, timed(1)), kXSchedErrorInvalidValue);
    assert_eq!(HwQueueLaunch(hwq, timed(1)), kXSchedErrorInvalidValue);
    let counted = function(launch, std::ptr::null_mut());
    assert_eq!(XQueueSubmit(xq, counted), kXSchedErrorInvalidValue);
    assert_eq!(HwQueueLaunch(hwq, counted), kXSchedErrorInvalidValue);
});

alone!(a_driver_that_refuses_does_not_end_the_process, {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let stream = hip().stream();
    let hwq = hwq_of(stream).expect("a hardware queue");
    let xq = create(hwq, 1, 0).expect("an XQueue");
    // hipErrorOutOfMemory, at the launch itself.
    hip().fail("hipLaunchHostFunc", 2, 1);
    let failing = command(stream, add, &DONE);
    ok(XQueueSubmit(xq, failing));
    assert_eq!(XQueueWait(xq, failing), kXSchedErrorHardware);
    // And around it.
    hip().fail("hipGetDevice", 2, 1);
    let failing = command(stream, add, &DONE);
    ok(XQueueSubmit(xq, failing));
    let _ = XQueueWait(xq, failing);
    let after = command(stream, add, &DONE);
    ok(XQueueSubmit(xq, after));
    ok(XQueueWait(xq, after));
    assert_eq!(XQueueWaitAll(xq), kXSchedErrorHardware);
    ok(XQueueDestroy(xq));
});

alone!(a_lost_device_does_not_end_the_process, {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let stream = hip().stream();
    let hwq = hwq_of(stream).expect("a hardware queue");
    let xq = create(hwq, 1, 0).expect("an XQueue");
    ok(XQueueSubmit(xq, command(stream, add, &DONE)));
    ok(XQueueWaitAll(xq));
    // SAFETY: it takes any number; hipErrorLaunchFailure.
    assert_eq!(unsafe { (hip().lose)(0, 719) }, 0);
    // The launch may be refused at once or fail later.
    let _ = XQueueSubmit(xq, command(stream, add, &DONE));
    assert_eq!(XQueueWaitAll(xq), kXSchedErrorHardware);
    until("the queue knows", || {
        XQueueSubmit(xq, command(stream, add, &DONE)) == kXSchedErrorHardware
    });
    assert_eq!(XQueueWaitAll(xq), kXSchedErrorHardware);
    ok(XQueueDestroy(xq));
    ok(HwQueueDestroy(hwq));
});

extern "C" fn add_much_later(counter: *mut c_void) {
    std::thread::sleep(std::time::Duration::from_millis(200));
    add(counter);
}

/// How far the callback below has got.
static PHASE: AtomicU64 = AtomicU64::new(0);

// SAFETY: it only uses statics, and the emulated runtime.
unsafe extern "C" fn outlasts_the_device(_: HwQueueHandle, _: *mut c_void) -> XResultValue {
    PHASE.store(1, std::sync::atomic::Ordering::Release);
    // SAFETY: it takes any number; hipErrorLaunchFailure.
    let lost = unsafe { (hip().lose)(0, 719) };
    pause();
    pause();
    PHASE.store(2, std::sync::atomic::Ordering::Release);
    lost as XResultValue
}

alone!(a_submit_that_blocks_outlasts_its_callback_on_a_lost_device, {
    // An interposer's data for the callback end with the call that submits it.
    static DONE: AtomicU64 = AtomicU64::new(0);
    let stream = hip().stream();
    let xq = create(hwq_of(stream).expect("a hardware queue"), 1, BLOCKING).expect("an XQueue");
    // Something is in flight meanwhile, so the device is looked at.
    ok(XQueueSubmit(xq, command(stream, add_much_later, &DONE)));
    std::thread::scope(|scope| {
        ok(XQueueSuspend(xq, 0));
        let slow = callback(outlasts_the_device, std::ptr::null_mut());
        scope.spawn(move || {
            let _ = XQueueSubmit(xq, slow);
            assert_ne!(count(&PHASE), 1, "the callback still runs");
        });
        until("it is submitted", || submitted(xq) == 2);
        ok(XQueueResume(xq, 0));
    });
});

alone!(a_process_exits_with_streams_that_are_held, {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let stream = hip().stream();
    let xq = create(hwq_of(stream).expect("a hardware queue"), 1, 0).expect("an XQueue");
    for _ in 0..100 {
        ok(XQueueSubmit(xq, command(stream, add_later, &DONE)));
    }
    ok(XQueueSuspend(xq, 0));
    // The test's runner waits for the end of this process.
    std::process::exit(0);
});

alone!(devices_are_scheduled_apart, {
    // W-C5: KEDF, UP, LAX and others knew one device only.
    static DONE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

    let hip = hip();
    // SAFETY: it takes any number.
    assert_eq!(unsafe { (hip.devices)(2) }, 0);
    let on = |device| {
        // SAFETY: it takes any number.
        assert_eq!(unsafe { (hip.set_device)(device) }, 0);

        let stream = hip.stream();
        (stream, create(hwq_of(stream).expect("a hardware queue"), 1, 0).expect("an XQueue"))
    };
    let ((first, urgent), (second, other)) = (on(0), on(1));
    for policy in [1, 4, 7, 8] {
        ok(XHintSetScheduler(LOCAL, policy));
        ok(XHintKDeadline(1));
        ok(XHintPriority(urgent, 10));
        ok(XHintDeadline(urgent, 10));
        ok(XHintUtilization(urgent, 100));
        ok(XHintLaxity(urgent, 10, 10, 10));
        for _ in 0..200 {
            ok(XQueueSubmit(urgent, command(first, add_later, &DONE[0])));
        }
        let alone = command(second, add, &DONE[1]);
        ok(XQueueSubmit(other, alone));
        ok(XQueueWait(other, alone));
        assert_eq!(state(urgent), XQueueState::kQueueStateReady, "policy {policy}");
        ok(XQueueWaitAll(urgent));
    }
});

#[test]
fn the_maker_of_a_queue_on_a_stream_is_told_what_it_does() {
    fn body() {
        let (first, second) = (hip().stream(), hip().stream());
        hwq_of(first).expect("a hardware queue");
        hwq_of(second).expect("another one");
    }
    let name = "hip::the_maker_of_a_queue_on_a_stream_is_told_what_it_does";
    let Some(text) = alone_with(name, &[], body) else { return };
    let about = |line: &&str| line.contains("runs past it unless an interposer is preloaded");
    assert_eq!(text.lines().filter(about).count(), 1, "{text}");
}
