//! Functions that the platforms' libraries (`libhalhip.so`, `libhalcuda.so`, `libhalhost.so`) and
//! interposers call. They are versioned together with this library (`XSCHED_PRIVATE_1`) and are no
//! interface for programs.

pub mod graphs;
pub mod launches;
pub mod waits;

pub use launches::{
    xsched_private_begin_launch, xsched_private_begin_wait, xsched_private_end_launch,
    xsched_private_end_wait,
};

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use xsched_core::hint::Priority as Rank;
use xsched_core::level::Level;
use xsched_hal_cuda::table::CuContext;
use xsched_policies::Any;

use crate::bypassed;
use crate::command::Command;
use crate::contention::{self, Cause};
use crate::env::AutoQueue;
use crate::hint::XHintPriority;
use crate::hwqueue::HwQueue;
use crate::interposer::Interposer;
use crate::lifecycle::{create, create_hwq, end_leaving, forget, leave};
use crate::platform::Hardware;
use crate::process::{Process, let_go_at_exit, process};
use crate::refusal::{Answer, Refusal, answer};
use crate::types::{
    HwCommandHandle, HwQueueHandle, LaunchCallback, PRIORITY_MAX, XQueueHandle, XResult,
};
use crate::xqueue::{XQueueSetLaunchConfig, out};

/// `HostQueueCreate`.
///
/// # Safety
/// `hwq` is null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_host_queue_create(hwq: *mut HwQueueHandle) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hwq = unsafe { out(hwq) }?;
        let process = process();
        let hardware = process.host.queue(process.runtime()?)?;
        hwq.write(create_hwq(process, hardware)?.handle);
        Ok(())
    })
}

/// `HostCommandCreateTimed`.
///
/// # Safety
/// `hw_cmd` is null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_host_command_create_timed(
    hw_cmd: *mut HwCommandHandle,
    us: i64,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hw_cmd = unsafe { out(hw_cmd) }?;
        let us = u64::try_from(us).ok().filter(|us| *us <= 60_000_000);
        let us = us.ok_or_else(|| Refusal::invalid("a command takes 0 to 60,000,000 µs"))?;
        let process = process();
        hw_cmd.write(process.create_command(process.host.timed(us * 1_000))?);
        Ok(())
    })
}

/// `HostCommandCreateFunction`.
///
/// # Safety
/// `hw_cmd` is null or may be written to; `function` may be called with `data`.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_host_command_create_function(
    hw_cmd: *mut HwCommandHandle,
    function: LaunchCallback,
    data: *mut c_void,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hw_cmd = unsafe { out(hw_cmd) }?;
        let function = function.ok_or_else(|| Refusal::invalid("the function is null"))?;
        hw_cmd.write(process().create_command(Command::on_device(function, data))?);
        Ok(())
    })
}

/// For garbage collectors: destroys an XQueue without a wait for what was submitted, which runs all
/// the same. May be called in a callback.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_queue_forget(xq: XQueueHandle) -> XResult {
    answer(|| forget(process(), xq))
}

/// `HipQueueCreate`.
///
/// # Safety
/// `hwq` is null or may be written to. `stream` is a live stream of HIP and outlives the queue.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_hip_queue_create(
    hwq: *mut HwQueueHandle,
    stream: *mut c_void,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hwq = unsafe { out(hwq) }?;
        let process = process();
        let told = is_interposed(process);
        // SAFETY: as the caller promises.
        let make = || unsafe { process.hip.queue(process.runtime()?, stream, told) };
        hwq.write(queue_of_stream(process, stream.addr(), make)?);
        Ok(())
    })
}

/// `HipStreamQueueCreate`.
///
/// # Safety
/// `hwq` and `stream` are null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_hip_stream_queue_create(
    hwq: *mut HwQueueHandle,
    stream: *mut *mut c_void,
    level: i64,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let (hwq, stream) = unsafe { (out(hwq)?, out(stream)?) };
        let number = u8::try_from(level).ok().and_then(Level::from_number);
        let level = number.ok_or_else(|| Refusal::invalid("a level is 1 to 3"))?;
        let process = process();
        let (hardware, made) =
            process.hip.own_queue(process.runtime()?, level, is_interposed(process))?;
        hwq.write(create_hwq(process, hardware)?.handle);
        stream.write(made);
        Ok(())
    })
}

/// For interposers: has HIP's runtime be the library at this path. Success also if a runtime was
/// used before, which stays. From now on no thread of this library spoils a capture.
///
/// # Safety
/// `path` is a text that ends with zero, and names HIP's runtime.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_hip_library(path: *const c_char) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let path = unsafe { CStr::from_ptr(path) };
        xsched_hal_hip::leave_captures_alone();
        // SAFETY: as the caller promises.
        unsafe { process().hip.load_from(OsStr::from_bytes(path.to_bytes())) }
    })
}

/// For interposers: the hardware queue of any stream, made if it has none. Null is the default
/// stream of this thread's device. `hipStreamPerThread` is this thread's default stream there, and
/// gets a new one at each call.
///
/// # Safety
/// `hwq` is null or may be written to. `stream` is null, `hipStreamPerThread` or a live stream, and
/// outlives the queue. Into a thread's default stream that thread alone launches.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_hip_any_queue(
    hwq: *mut HwQueueHandle,
    stream: *mut c_void,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hwq = unsafe { out(hwq) }?;
        let process = process();
        // 0 is no stream's address.
        let address = process.hip.address(stream)?.unwrap_or(0);
        // SAFETY: as the caller promises.
        let make = || unsafe { process.hip.queue_of_any(process.runtime()?, stream, true) };
        hwq.write(queue_of_stream(process, address, make)?);
        Ok(())
    })
}

/// For interposers: the streams of this device of HIP are about to end, and its queues have ended.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_hip_forget(ordinal: u64) -> XResult {
    answer(|| {
        end_leaving(process(), ordinal);
        let number = u32::try_from(ordinal);
        process().hip.forget(number.map_err(|_| Refusal::invalid("no device has this number"))?);
        Ok(())
    })
}

/// `CudaQueueCreate`.
///
/// # Safety
/// `hwq` is null or may be written to. `stream` is a live stream of CUDA, and outlives the queue.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_cuda_queue_create(
    hwq: *mut HwQueueHandle,
    stream: *mut c_void,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hwq = unsafe { out(hwq) }?;
        let process = process();
        // An interposer tells of the ends of contexts.
        let told = Interposer::Cuda.adopt(stream.expose_provenance(), 0);
        // SAFETY: as the caller promises.
        let make = || unsafe { process.cuda.queue(process.runtime()?, stream, told) };
        hwq.write(queue_of_stream(process, stream.addr(), make)?);
        Ok(())
    })
}

/// For interposers: has CUDA's driver be the library at this path. Success also if a driver was
/// loaded before, which stays. From now on no thread of this library spoils a capture.
///
/// # Safety
/// `path` is a text that ends with zero.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_cuda_driver(path: *const c_char) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let path = unsafe { CStr::from_ptr(path) };
        let path = path.to_str().map_err(|_| Refusal::invalid("the driver's path is no text"))?;
        xsched_hal_cuda::leave_captures_alone();
        let loaded = xsched_hal_cuda::table::load_from(path);
        loaded.map(drop).map_err(|error| Refusal::hardware(error.to_string()))
    })
}

/// For interposers: the hardware queue of any stream, made if it has none. Null is the current
/// context's legacy default stream. `CU_STREAM_PER_THREAD` is this thread's default stream in the
/// current context, and gets a new one at each call.
///
/// # Safety
/// `hwq` is null or may be written to. `stream` is null, `CU_STREAM_PER_THREAD` or a live stream,
/// and outlives the queue; so does its context, whose end is told by
/// [`xsched_private_cuda_forget`]. Into a thread's default stream that thread alone launches.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_cuda_any_queue(
    hwq: *mut HwQueueHandle,
    stream: *mut c_void,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hwq = unsafe { out(hwq) }?;
        let process = process();
        // 0 is no stream's address.
        let address = process.cuda.address(stream)?.unwrap_or(0);
        // SAFETY: as the caller promises.
        let make = || unsafe { process.cuda.queue_of_any(process.runtime()?, stream) };
        hwq.write(queue_of_stream(process, address, make)?);
        Ok(())
    })
}

/// For interposers: this context of CUDA is about to end, and its queues have ended.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_cuda_forget(context: *mut c_void) -> XResult {
    answer(|| {
        end_leaving(process(), context.addr() as u64);
        process().cuda.forget(CuContext(context));
        Ok(())
    })
}

/// For interposers: counts that the program has waited for the device for `waited_ns`
/// nanoseconds, or asked and heard that it is done.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_waited(waited_ns: u64) -> XResult {
    contention::waited(waited_ns);
    XResult::kXSchedSuccess
}

/// For interposers: how many holds of this XQueue, and of the process by the scheduler of the node,
/// have ended.
///
/// # Safety
/// `holds` is null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_holds_ended(xq: XQueueHandle, holds: *mut u64) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let holds = unsafe { out(holds) }?;
        holds.write(process().holds_ended(xq));
        Ok(())
    })
}

/// For interposers: the program has waited for the stream of this XQueue, so what was launched into
/// it has run, and others need not be held for it any more.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_look(xq: XQueueHandle) -> XResult {
    answer(|| {
        process().queue(xq)?.look();
        Ok(())
    })
}

/// For interposers: the stream of this XQueue is about to be captured. It is touched no more until
/// the next launch, and nothing is waited for. `kXSchedErrorNotSupported` if what was launched
/// there has to be waited for.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_seal(xq: XQueueHandle) -> XResult {
    answer(|| {
        let has_to_wait = || Refusal::not_supported("what was launched has to be waited for");
        process().queue(xq)?.seal().then_some(()).ok_or_else(has_to_wait)
    })
}

/// For interposers: the stream of this XQueue is about to end, in this context of CUDA or device of
/// HIP. Destroys the XQueue and its hardware queue, and nothing is waited for. Otherwise as
/// [`xsched_private_seal`].
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_leave(xq: XQueueHandle, place: u64) -> XResult {
    answer(|| leave(process(), xq, place))
}

/// `CudaQueueGet`: the hardware queue of a stream, whichever platform's.
///
/// # Safety
/// `hwq` is null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_stream_queue_get(
    hwq: *mut HwQueueHandle,
    stream: *mut c_void,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hwq = unsafe { out(hwq) }?;
        let there = process().hwqs.find(|queue| is_of(queue, stream.addr()));
        let there = there.ok_or_else(|| {
            Refusal::not_found("the stream has no hardware queue; create one for it")
        })?;
        hwq.write(there.handle);
        Ok(())
    })
}

/// For interposers: answers the XQueue that a hardware queue has, or makes one as
/// `XSCHED_AUTO_XQUEUE` and its companions say. `xq` is 0 and the answer `kXSchedSuccess` if it has
/// none and they say that there are to be none.
///
/// # Safety
/// `xq` is null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_auto_queue(
    xq: *mut XQueueHandle,
    hwq: HwQueueHandle,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let xq = unsafe { out(xq) }?;
        let process = process();
        let there = *process.hwq(hwq)?.xqueue();
        let handle = match (there, &process.env.auto) {
            // The program has made it, with hints of its own.
            (Some(there), _) => there,
            (None, Some(auto)) => auto_queue(process, hwq, auto)?,
            (None, None) => 0,
        };
        xq.write(handle);
        Ok(())
    })
}

/// For interposers: whether streams are to get XQueues for which the program makes none, 1 or 0.
/// The log gets a line at the first call.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_interposed() -> c_int {
    let process = process();
    let auto = process.env.auto.as_ref();
    process.is_interposed.fetch_or(auto.is_some(), Ordering::Relaxed);
    if !process.interposer_known.swap(true, Ordering::Relaxed) {
        match auto {
            Some(AutoQueue { level, .. }) => {
                tracing::info!("an interposer is active: streams get XQueues of level {level}");
            }
            None => tracing::info!(
                "an interposer is active: streams have the XQueues that the program makes"
            ),
        }
    }
    c_int::from(auto.is_some())
}

/// For interposers: where it says, for ever, in which word it is whether scheduling is required.
/// While the word is 0, a launch into a stream that has its XQueue may be made at once, without
/// that. Word and place change from moment to moment.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_contention() -> *const *mut AtomicU32 {
    contention::address()
}

/// For interposers: where it says, for ever, in which word it is whether a scheduler has a use for
/// when the work of a stream begins or ends. It is not 0 if one has.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_attended() -> *const *mut AtomicU32 {
    contention::address_of_attended()
}

/// For interposers: says where launches are counted that bypass XQueues.
///
/// # Safety
/// `count` is null or an aligned number that is there for ever, and that others change by atomic
/// operations alone.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_bypassed(count: *const u64) -> XResult {
    answer(|| {
        if count.is_null() {
            return Err(Refusal::invalid("no number was given"));
        }
        // SAFETY: as the caller promises.
        bypassed::add(unsafe { AtomicU64::from_ptr(count.cast_mut()) });
        Ok(())
    })
}

/// For interposers: gives an XQueue the priority of its stream, in XSched's order, unless the
/// program has set one. To be called for each stream: one whose priority is not the first one's
/// tells the streams apart.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_stream_priority(xq: XQueueHandle, priority: c_int) -> XResult {
    answer(|| {
        // Before the hint, so that the others' launches are known when it counts.
        if *process().first_priority.get_or_init(|| priority) != priority {
            let is_strict = matches!(process().env.policy, Any::Hpf(_));
            let cause = if is_strict { Cause::Priorities } else { Cause::Choice };
            contention::require_scheduling(cause);
        }
        let queue = process().queue(xq)?;
        // An XQueue has 0 at first.
        if priority != 0 && queue.priority() == Rank::DEFAULT {
            done(XHintPriority(xq, priority))?;
        }
        process().highest_priority.fetch_max(queue.priority().get().into(), Ordering::Relaxed);
        Ok(())
    })
}

/// For the package for Python: an XQueue's priority, −256 to 255.
///
/// # Safety
/// `priority` is null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_priority(
    xq: XQueueHandle,
    priority: *mut c_int,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let priority = unsafe { out(priority) }?;
        priority.write(process().queue(xq)?.priority().get().into());
        Ok(())
    })
}

/// For the package for Python: the version of this library, which is never freed.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

fn auto_queue(process: &Process, hwq: u64, auto: &AutoQueue) -> Answer<u64> {
    let lower = |refusal: Refusal| {
        // The device says each reason once, and the interposer's counts have those of all streams.
        tracing::debug!("a stream's XQueue is not at level {}: {}", auto.level, refusal.why);
        Ok(())
    };
    let handle = create(process, hwq, auto.level, 0, lower)?;
    let queue = process.queue(handle)?;
    let has_gates = queue.level() > Level::Block;
    // At level 1 it is held by how little of it is in flight, once something but the scheduler of
    // the node may hold it.
    let is_wide = !has_gates
        && queue.hwq().hardware.has_gates_of_process()
        && !contention::scheduling_required();
    let threshold = auto.threshold(has_gates || is_wide);
    done(XQueueSetLaunchConfig(handle, threshold, auto.batch.min(threshold)))?;
    if is_wide {
        queue.set_wide();
    }
    if let Some(priority) = auto.priority {
        done(XHintPriority(handle, priority))?;
    }
    if let Some(share) = auto.utilization {
        done(crate::hint::XHintUtilization(handle, share))?;
    }
    if let Some(us) = auto.deadline_us {
        done(crate::hint::XHintDeadline(handle, us))?;
    }
    if let Some(us) = auto.laxity_us {
        let until = auto.priority.unwrap_or_default();
        done(crate::hint::XHintLaxity(handle, us, until, PRIORITY_MAX))?;
    }
    if let Some(us) = auto.timeslice_us {
        done(crate::hint::XHintTimeslice(us))?;
    }
    if let Some(k) = auto.k {
        done(crate::hint::XHintKDeadline(k))?;
    }
    Ok(handle)
}

/// A call of the public interface: its text stays the thread's last one.
fn done(result: XResult) -> Answer {
    if result == XResult::kXSchedSuccess {
        return Ok(());
    }
    // SAFETY: it is a text that ends with zero, and stays until this thread's next refusal.
    let why = unsafe { CStr::from_ptr(crate::refusal::last_error()) };
    Err(Refusal::new(result, why.to_string_lossy()))
}

/// The hardware queue that the stream with this address has, or a new one.
fn queue_of_stream(
    process: &Process,
    stream: usize,
    make: impl FnOnce() -> Answer<Box<dyn Hardware>>,
) -> Answer<u64> {
    let _attaching = process.attaching.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(there) = process.hwqs.find(|queue| is_of(queue, stream)) {
        return Ok(there.handle);
    }
    let hardware = make()?;
    let_go_at_exit();
    if !Interposer::is_preloaded() && !process.said_so.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "an XQueue on a stream schedules what is submitted to it; what the program launches \
             into the stream itself runs past it unless an interposer is preloaded"
        );
    }
    Ok(create_hwq(process, hardware)?.handle)
}

/// Returns whether an interposer hands all launches over, or will once there is a first one.
fn is_interposed(process: &Process) -> bool {
    let is_told = process.is_interposed.load(Ordering::Relaxed);
    is_told || process.env.auto.is_some() && Interposer::is_preloaded()
}

fn is_of(queue: &HwQueue, stream: usize) -> bool {
    queue.hardware.stream() != 0 && queue.hardware.stream() == stream
}
