//! Level 3 on AMD GPUs, by the functions that C programs call: the emulated HIP runtime makes each
//! ring a queue of the emulated driver, which stops kernels wherever they are. The device has one
//! unit, so a second kernel runs only while the first is interrupted.

use std::env;
use std::ffi::{c_char, c_uint, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use xsched_kfd_emulated::control::send;
use xsched_kfd_emulated::system::{Options, enter};

use crate::common::*;
use crate::hip::{hwq_of, own_stream, path};

/// Rounds of a kernel, of about a microsecond each: it runs for a second or so.
pub(crate) const LONG: u64 = 1_000_000;
const SHORT: u64 = 1_000;

/// The functions of the emulated runtime that are called here.
struct Hip {
    load: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> u32,
    function: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> u32,
    launch: Launch,
}

type Launch = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> u32;

fn hip() -> &'static Hip {
    static HIP: OnceLock<Hip> = OnceLock::new();
    HIP.get_or_init(|| {
        // SAFETY: it is the emulated runtime, and its functions are HIP's.
        unsafe {
            let library = libloading::Library::new(path()).expect("the emulated runtime");
            let library: &'static libloading::Library = Box::leak(Box::new(library));
            Hip {
                load: *library.get("hipModuleLoadData\0").expect("there"),
                function: *library.get("hipModuleGetFunction\0").expect("there"),
                launch: *library.get("hipModuleLaunchKernel\0").expect("there"),
            }
        }
    })
}

/// The kernel whose sum shows whether it was interrupted and restored rightly.
fn kernel() -> *mut c_void {
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let image = xsched_hip_emulated::IMAGE.as_ptr().cast();
    // SAFETY: the handles may be written to, and it is the image that the runtime takes.
    unsafe {
        assert_eq!((hip().load)(&raw mut module, image), 0);
        assert_eq!((hip().function)(&raw mut function, module, c"xs_work_alu".as_ptr()), 0);
    }
    function
}

/// One run of the kernel: when it was last seen to run, its sum, and how often it ended.
#[derive(Default)]
pub(crate) struct Run {
    beat: [AtomicU64; 2],
    sums: [AtomicU64; 2],
    kernel: usize,
    stream: usize,
    rounds: u64,
}

impl Run {
    pub(crate) fn new(stream: *mut c_void, rounds: u64) -> &'static Self {
        let (kernel, stream) = (kernel().expose_provenance(), stream.expose_provenance());
        Box::leak(Box::new(Self { kernel, stream, rounds, ..Self::default() }))
    }

    pub(crate) fn command(&'static self) -> HwCommandHandle {
        callback(launch, ptr::from_ref(self).cast_mut().cast())
    }

    pub(crate) fn beat(&self) -> u64 {
        self.beat[0].load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> u64 {
        self.sums[1].load(Ordering::SeqCst)
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sums[0].load(Ordering::SeqCst)
    }
}

// SAFETY: it is called with a run that lives for ever.
unsafe extern "C" fn launch(_: HwQueueHandle, data: *mut c_void) -> XResultValue {
    // SAFETY: see above.
    let run = unsafe { &*data.cast::<Run>() };
    let beats = run.beat.as_ptr().expose_provenance() as u64;
    let sums = run.sums.as_ptr().expose_provenance() as u64;
    // One workgroup, which says that it runs.
    let mut arguments = [run.rounds, beats, 1 << 32 | 1, sums, 0];
    let mut places = arguments.each_mut().map(|place| ptr::from_mut(place).cast::<c_void>());
    let kernel = ptr::with_exposed_provenance_mut(run.kernel);
    let stream = ptr::with_exposed_provenance_mut(run.stream);
    let (places, none) = (places.as_mut_ptr(), ptr::null_mut());
    // SAFETY: these are the kernel's arguments, and the stream is alive.
    let code = unsafe { (hip().launch)(kernel, 1, 1, 1, 1, 1, 1, 0, stream, places, none) };
    code as XResultValue
}

/// Returns whether this is the program on the emulated driver; false in the one that starts it.
pub(crate) fn inside() -> bool {
    match enter(&Options::default(), env::args().skip(1)).expect("the emulated driver") {
        None => true,
        Some(report) => {
            assert!(report.status.success(), "{:?}", report.status);
            false
        }
    }
}

/// How many times the driver has preempted the GPU.
pub(crate) fn preemptions() -> u64 {
    let node = send("node 0").expect("it answers");
    let words: Vec<_> = node.split(' ').collect();
    words[1].parse().expect("a number")
}

fn command_driver(line: &str) {
    assert_eq!(send(line).expect("it answers"), "ok");
}

/// A stream that is to have level 3, with its XQueue.
pub(crate) fn queue() -> (*mut c_void, XQueueHandle) {
    let (hwq, stream) = own_stream(3).expect("a stream");
    (stream, create(hwq, 3, 0).expect("an XQueue"))
}

/// Why an XQueue of a stream that is to have level 3 has not.
fn refusal() -> String {
    let (hwq, _) = own_stream(3).expect("a stream");
    assert_eq!(create(hwq, 3, 0), Err(kXSchedErrorNotSupported));
    let why = last_error();
    let xq = create(hwq, 2, 0).expect("level 2 is there all the same");
    assert_eq!(XQueueSetPreemptLevel(xq, 3), kXSchedErrorNotSupported);
    ok(XQueueDestroy(xq));
    ok(HwQueueDestroy(hwq));
    why
}

/// A kernel that fills the device is interrupted, another queue's runs, the first goes on.
fn interrupts() {
    if !inside() {
        return;
    }
    let ((first, xq), (second, other)) = (queue(), queue());
    let alone = Run::new(first, LONG);
    ok(XQueueSubmit(xq, alone.command()));
    ok(XQueueWaitAll(xq));
    ok(XQueueSetPreemptLevel(xq, 3));
    let before = preemptions();
    let (long, short) = (Run::new(first, LONG), Run::new(second, SHORT));
    ok(XQueueSubmit(xq, long.command()));
    until("it runs", || long.beat() != 0);
    ok(XQueueSuspend(xq, SYNC));
    let beat = long.beat();
    pause();
    assert_eq!(long.beat(), beat, "it runs on");
    ok(XQueueSubmit(other, short.command()));
    ok(XQueueWaitAll(other));
    assert_eq!((short.ended(), long.ended()), (1, 0));
    assert!(preemptions() > before, "the driver has preempted nothing");
    ok(XQueueResume(xq, 0));
    ok(XQueueWaitAll(xq));
    assert_eq!((long.ended(), long.sum()), (1, alone.sum()));
    assert!(long.beat() > beat);
    for queue in [xq, other] {
        ok(XQueueDestroy(queue));
    }
}

/// A launch by the thread that has suspended the queue returns, and runs after the resume.
fn launches_behind_a_hold() {
    if !inside() {
        return;
    }
    let (stream, xq) = queue();
    let first = Run::new(stream, SHORT);
    ok(XQueueSubmit(xq, first.command()));
    ok(XQueueWaitAll(xq));
    for level in [3, 2] {
        ok(XQueueSetPreemptLevel(xq, level));
        ok(XQueueSuspend(xq, 0));
        let run = Run::new(stream, SHORT);
        let token = begin_launch(xq).expect("at once");
        // SAFETY: it is called with a run that lives for ever.
        let code = unsafe { launch(0, ptr::from_ref(run).cast_mut().cast()) };
        ok(xsched_private_end_launch(token, code as i32));
        pause();
        assert_eq!(run.ended(), 0, "level {level}: it ran while suspended");
        ok(XQueueResume(xq, 0));
        ok(XQueueWaitAll(xq));
        assert_eq!(run.ended(), 1);
    }
    ok(XQueueDestroy(xq));
}

/// The library that sees queues made, which Cargo puts where it puts the tests.
fn watch() -> PathBuf {
    path().with_file_name("libxsched_kfd_watch.so")
}

/// Runs a body on the emulated driver with a mechanism. What it wrote.
pub(crate) fn with(
    name: &str,
    mechanism: &str,
    set: &[(&str, &str)],
    body: fn(),
) -> Option<String> {
    let (lib, watch) = (path().display().to_string(), watch().display().to_string());
    let mut all = vec![
        ("XSCHED_HIP_LIB", lib.as_str()),
        ("XSCHED_KFD_MECHANISM", mechanism),
        ("XSCHED_STRICT", "ON"),
    ];
    if mechanism == "update-queue" {
        all.push(("LD_PRELOAD", &watch));
    }
    all.extend(set);
    alone_with(name, &all, body)
}

#[test]
fn a_running_command_is_interrupted_by_update_queue() {
    let name = "lv3::a_running_command_is_interrupted_by_update_queue";
    let _ = with(name, "update-queue", &[], interrupts);
}

#[test]
fn a_running_command_is_interrupted_by_debug_trap() {
    let name = "lv3::a_running_command_is_interrupted_by_debug_trap";
    let _ = with(name, "debug-trap", &[], interrupts);
}

#[test]
fn a_launch_by_the_thread_that_suspended_the_queue_waits_on_the_device() {
    let name = "lv3::a_launch_by_the_thread_that_suspended_the_queue_waits_on_the_device";
    let _ = with(name, "debug-trap", &[], launches_behind_a_hold);
}

#[test]
fn a_stream_that_the_program_made_says_why_it_has_no_level_3() {
    fn body() {
        if !inside() {
            return;
        }
        let stream = crate::hip::stream();
        let hwq = hwq_of(stream).expect("a hardware queue");
        assert_eq!(create(hwq, 3, 0), Err(kXSchedErrorNotSupported));
        let why = last_error();
        for part in ["level 1 at most", "not made through XSched", "HipStreamQueueCreate"] {
            assert!(why.contains(part), "{why}");
        }
        create(hwq, 1, 0).expect("an XQueue");
    }
    let name = "lv3::a_stream_that_the_program_made_says_why_it_has_no_level_3";
    let _ = with(name, "debug-trap", &[], body);
}

#[test]
fn a_variable_and_a_file_switch_level_3_off() {
    fn by_variable() {
        if inside() {
            let why = refusal();
            assert!(why.contains("Lv3 is switched off: XSCHED_KFD is `off`"), "{why}");
        }
    }
    fn by_file() {
        if inside() {
            command_driver("off the firmware hangs");
            let why = refusal();
            assert!(why.contains("kfd-off is there: the firmware hangs"), "{why}");
        }
    }
    let name = "lv3::a_variable_and_a_file_switch_level_3_off";
    for (switch, body) in [("off", by_variable as fn()), ("on", by_file)] {
        // The child runs one of them, and has no need of the other.
        let chosen = env::var("XSCHED_KFD").unwrap_or_else(|_| switch.to_owned());
        if chosen == switch {
            let _ = with(name, "update-queue", &[("XSCHED_KFD", switch)], body);
        }
    }
}

#[test]
fn a_slow_trial_refuses_level_3_for_the_process() {
    fn body() {
        if !inside() {
            return;
        }
        command_driver("latency 1500000000 0 0");
        let why = refusal();
        assert!(why.contains("suspending it took"), "{why}");
        command_driver("latency 0 0 0");
        assert_eq!(refusal(), why, "it is not tried again");
    }
    let name = "lv3::a_slow_trial_refuses_level_3_for_the_process";
    let _ = with(name, "update-queue", &[], body);
}

#[test]
fn a_line_of_the_driver_ends_level_3() {
    fn body() {
        if !inside() {
            return;
        }
        let (stream, xq) = queue();
        let run = Run::new(stream, LONG);
        ok(XQueueSubmit(xq, run.command()));
        until("it runs", || run.beat() != 0);
        ok(XQueueSuspend(xq, SYNC));
        let beat = run.beat();
        command_driver("log usb 1-1: a new device");
        pause();
        assert_eq!(run.beat(), beat, "that is no line of the driver");
        command_driver("log amdgpu 0000:ff:00.0: amdgpu: another GPU hangs");
        pause();
        assert_eq!(run.beat(), beat, "that is another GPU");
        command_driver("log amdgpu: HIQ MQD's queue_doorbell_id0 is not 0");
        until("it goes on", || run.ended() == 1);
        let tried = preemptions();
        let why = refusal();
        assert!(why.contains("Lv3 has ended on this GPU"), "{why}");
        assert!(why.contains("queue_doorbell_id0"), "{why}");
        // What is held from now on is held at the level below.
        ok(XQueueResume(xq, 0));
        ok(XQueueWaitAll(xq));
        let next = Run::new(stream, LONG);
        ok(XQueueSubmit(xq, next.command()));
        until("it runs", || next.beat() != 0);
        ok(XQueueSuspend(xq, 0));
        until("it ends", || next.ended() == 1);
        assert_eq!(preemptions(), tried);
        ok(XQueueDestroy(xq));
    }
    let name = "lv3::a_line_of_the_driver_ends_level_3";
    let Some(text) = with(name, "update-queue", &[], body) else { return };
    assert!(text.contains("queues have no Lv3 any more"), "{text}");
}

#[test]
fn what_the_driver_has_against_a_debugger_is_said() {
    fn body() {
        if !inside() {
            return;
        }
        let answers = [
            ("debugger busy", "PC sampling"),
            ("debugger secondary", "first context"),
            ("debugger ok", ""),
            ("attach busy", "enabled busy"),
            ("attach error", "enabled error"),
            ("attach ok", ""),
        ];
        for (line, words) in answers {
            command_driver(line);
            if !words.is_empty() {
                let why = refusal();
                assert!(why.contains(words), "{line}: {why}");
            }
        }
        let (_, xq) = queue();
        ok(XQueueSetPreemptLevel(xq, 3));
    }
    let name = "lv3::what_the_driver_has_against_a_debugger_is_said";
    let _ = with(name, "debug-trap", &[], body);
}
