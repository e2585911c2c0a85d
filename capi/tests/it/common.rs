//! Common code of the tests.

use std::env;
use std::ffi::{CStr, c_void};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use preempt::hint::*;
pub(crate) use preempt::private::*;
pub(crate) use preempt::types::XResult::*;
pub(crate) use preempt::types::*;
pub(crate) use preempt::xqueue::*;

/// Says to a child which test it is to run.
const ALONE: &str = "XSCHED_TEST_ALONE";
/// By then every test has ended, on however busy a machine. `XSCHED_TEST_LIMIT_S` is another
/// limit, in seconds.
const LIMIT: Duration = Duration::from_secs(100);

/// Runs a test in a process of its own, with these variables. Gives what it wrote to standard
/// error; `None` in the child itself.
pub(crate) fn alone_with(test: &str, set: &[(&str, &str)], body: fn()) -> Option<String> {
    if env::var_os(ALONE).is_some_and(|name| name == test) {
        body();
        return None;
    }
    let mut command = Command::new(env::current_exe().expect("tests are programs"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("XSCHED_") && !name_text.starts_with("XSCHED_TEST_") {
            command.env_remove(name);
        }
    }
    command.env(ALONE, test).envs(set.iter().copied()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("a process");
    let mut errors = child.stderr.take().expect("it is piped");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).map(|_| text).unwrap_or_default()
    });
    let limit = env::var("XSCHED_TEST_LIMIT_S").ok().and_then(|text| text.parse().ok());
    let limit = limit.map_or(LIMIT, Duration::from_secs);
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > limit {
            child.kill().expect("it can be ended");
            let text = reader.join().unwrap_or_default();
            panic!("{test} has not ended in {limit:?}: {text}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = reader.join().expect("a reader");
    assert!(status.success(), "{test} ended with {status}: {text}");
    Some(text)
}

/// Has the test run in a process of its own.
macro_rules! alone {
    ($name:ident, $body:block) => {
        alone!($name, [], $body);
    };
    ($name:ident, [$(($key:expr, $value:expr)),* $(,)?], $body:block) => {
        #[test]
        fn $name() {
            fn body() $body
            let name = concat!(module_path!(), "::", stringify!($name));
            let name = name.split_once("::").map_or(name, |(_, rest)| rest);
            $crate::common::alone_with(name, &[$(($key, $value)),*], body);
        }
    };
}
pub(crate) use alone;

/// The text of this thread's last error.
pub(crate) fn last_error() -> String {
    // SAFETY: it is a text that ends with zero, and stays until this thread's next refusal.
    unsafe { CStr::from_ptr(XSchedGetLastErrorString()) }.to_string_lossy().into_owned()
}

/// A call has succeeded.
#[track_caller]
pub(crate) fn ok(result: XResult) {
    assert_eq!(result, kXSchedSuccess, "{}", last_error());
}

pub(crate) fn host_hwq() -> HwQueueHandle {
    let mut hwq = 0;
    // SAFETY: it may be written to.
    ok(unsafe { xsched_private_host_queue_create(&raw mut hwq) });
    hwq
}

pub(crate) fn create(hwq: HwQueueHandle, level: i64, flags: i64) -> Result<XQueueHandle, XResult> {
    let mut xq = 0;
    // SAFETY: it may be written to.
    match unsafe { XQueueCreate(&raw mut xq, hwq, level, flags) } {
        kXSchedSuccess => Ok(xq),
        error => Err(error),
    }
}

/// An XQueue on a hardware queue of its own.
pub(crate) fn host_queue(level: i64) -> XQueueHandle {
    create(host_hwq(), level, 0).expect("an XQueue")
}

/// A command that counts its call.
pub(crate) fn counting(counter: &'static AtomicU64) -> HwCommandHandle {
    callback(add_one, std::ptr::from_ref(counter).cast_mut().cast())
}

/// Begins a launch of this thread's in an XQueue. The token is 0 if it was dropped.
pub(crate) fn begin_launch(xq: XQueueHandle) -> Result<u64, XResult> {
    let mut token = 0;
    // SAFETY: it may be written to.
    match unsafe { xsched_private_begin_launch(xq, 0, 0, &raw mut token) } {
        kXSchedSuccess => Ok(token),
        refused => Err(refused),
    }
}

/// Launches something on this thread in an XQueue, that counts and succeeds.
pub(crate) fn launch_counted(xq: XQueueHandle, counter: &AtomicU64) -> XResult {
    match begin_launch(xq) {
        Ok(0) => kXSchedSuccess,
        Ok(token) => {
            counter.fetch_add(1, Ordering::AcqRel);
            xsched_private_end_launch(token, 0)
        }
        Err(refused) => refused,
    }
}

// SAFETY: it is called with a counter that lives for ever.
unsafe extern "C" fn add_one(_: HwQueueHandle, data: *mut c_void) -> XResultValue {
    // SAFETY: it is the address of such a counter.
    unsafe { &*data.cast::<AtomicU64>() }.fetch_add(1, Ordering::AcqRel);
    0
}

/// A command whose callback answers this number.
pub(crate) fn answering(number: i32) -> HwCommandHandle {
    // SAFETY: it only looks at its arguments.
    unsafe extern "C" fn answer(_: HwQueueHandle, data: *mut c_void) -> XResultValue {
        data.addr() as XResultValue
    }
    callback(answer, std::ptr::without_provenance_mut(number as usize))
}

/// A command that runs a function on the device's thread.
pub(crate) fn function(
    function: unsafe extern "C" fn(HwQueueHandle, *mut c_void) -> XResultValue,
    data: *mut c_void,
) -> HwCommandHandle {
    let mut command = 0;
    // SAFETY: it may be written to, and callers give functions what they take.
    ok(unsafe {
        xsched_private_host_command_create_function(&raw mut command, Some(function), data)
    });
    command
}

pub(crate) fn callback(
    launch: unsafe extern "C" fn(HwQueueHandle, *mut c_void) -> XResultValue,
    data: *mut c_void,
) -> HwCommandHandle {
    let mut command = 0;
    // SAFETY: it may be written to, and callers give callbacks what they take.
    ok(unsafe { HwCommandCreateCallback(&raw mut command, Some(launch), data) });
    command
}

/// A command that takes `us` microseconds.
pub(crate) fn timed(us: i64) -> HwCommandHandle {
    let mut command = 0;
    // SAFETY: it may be written to.
    ok(unsafe { xsched_private_host_command_create_timed(&raw mut command, us) });
    command
}

pub(crate) fn state(xq: XQueueHandle) -> XQueueState {
    let mut state = XQueueState::kQueueStateUnknown;
    // SAFETY: it may be written to.
    ok(unsafe { XQueueQuery(xq, &raw mut state) });
    state
}

pub(crate) fn submitted(xq: XQueueHandle) -> i64 {
    let mut count = -1;
    // SAFETY: it may be written to.
    ok(unsafe { XQueueProfileHwCommandCount(xq, &raw mut count) });
    count
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited for too long: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A moment in which what must not happen would.
pub(crate) fn pause() {
    std::thread::sleep(Duration::from_millis(30));
}

pub(crate) const SYNC: i64 = XQueueSuspendFlag::kQueueSuspendFlagSyncHwQueue as i64;
pub(crate) const WAIT_ALL: i64 = XQueueSuspendFlag::kQueueSuspendFlagWaitAll as i64;
pub(crate) const WAIT_IDLE: i64 = XQueueSuspendFlag::kQueueSuspendFlagWaitIdle as i64;
pub(crate) const DROP: i64 = XQueueResumeFlag::kQueueResumeFlagDropCommands as i64;
pub(crate) const BLOCKING: i64 = XQueueCreateFlag::kQueueCreateFlagBlockingSubmit as i64;
pub(crate) const LAUNCHER: i64 = XQueueCreateFlag::kQueueCreateFlagLauncherThread as i64;
pub(crate) const APP: i32 = XSchedulerType::kSchedulerAppManaged as i32;
pub(crate) const LOCAL: i32 = XSchedulerType::kSchedulerLocal as i32;
pub(crate) const HPF: i32 = XPolicyType::kPolicyHighestPriorityFirst as i32;
