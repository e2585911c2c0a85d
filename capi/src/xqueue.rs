//! XQueues, hardware queues and commands: the functions of `xsched/xqueue.h`.

use std::ffi::{c_char, c_void};

use crate::command::Command;
use crate::contention::{self, Cause};
use crate::lenient::{About, Flags};
use crate::lifecycle::{create, destroy, destroy_hwq, synchronize_hwq};
use crate::process::process;
use crate::refusal::{Answer, Refusal, answer, last_error};
use crate::types::{
    HwCommandHandle, HwQueueHandle, LaunchCallback, XPreemptLevelValue, XQueueHandle,
    XQueueResumeFlag, XQueueState, XQueueSuspendFlag, XResult,
};

const SUSPEND: Flags = Flags {
    about: About::SuspendFlags,
    function: "XQueueSuspend",
    known: XQueueSuspendFlag::kQueueSuspendFlagSyncHwQueue as i64
        | XQueueSuspendFlag::kQueueSuspendFlagWaitAll as i64
        | XQueueSuspendFlag::kQueueSuspendFlagWaitIdle as i64,
};
const RESUME: Flags = Flags {
    about: About::ResumeFlags,
    function: "XQueueResume",
    known: XQueueResumeFlag::kQueueResumeFlagDropCommands as i64,
};

/// A place that an answer is written to.
///
/// # Safety
/// It is null, or may be written to for as long as this lives.
pub(crate) unsafe fn out<'a, T>(to: *mut T) -> Answer<&'a mut std::mem::MaybeUninit<T>> {
    // SAFETY: as the caller promises; a place that is not initialized has no wrong values.
    let to = unsafe { to.cast::<std::mem::MaybeUninit<T>>().as_mut() };
    to.ok_or_else(|| Refusal::invalid("the place for the answer is null"))
}

/// Makes an XQueue for a hardware queue, or answers the one that it has.
///
/// `level` is 1 to 3, `flags` those of `XQueueCreateFlag`; others are ignored. The threshold is 16
/// at first, the batch 8. If the hardware queue cannot do the level, the XQueue has the highest
/// that it can. Under `XSCHED_STRICT` the answers are `kXSchedErrorInvalidValue` for others and
/// `kXSchedErrorNotSupported` for such a level.
///
/// # Safety
/// `xq` is null or may be written to.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn XQueueCreate(
    xq: *mut XQueueHandle,
    hwq: HwQueueHandle,
    level: i64,
    flags: i64,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let xq = unsafe { out(xq) }?;
        let process = process();
        contention::require_scheduling(Cause::Choice);
        let lower = |refusal| process.leniency.take(About::Level, refusal, "the XQueue has that");
        let made = create(process, hwq, level, flags, lower)?;
        process.queue(made)?.hwq().hardware.tell_interposer(made);
        xq.write(made);
        Ok(())
    })
}

/// Resumes an XQueue, waits until everything that was submitted is done, and destroys it. Its
/// stream may be destroyed after that.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueDestroy(xq: XQueueHandle) -> XResult {
    answer(|| destroy(process(), xq))
}

/// Answers the XQueue of a hardware queue; `kXSchedErrorNotFound` if it has none.
///
/// # Safety
/// `xq` is null or may be written to.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn XQueueGet(xq: *mut XQueueHandle, hwq: HwQueueHandle) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let xq = unsafe { out(xq) }?;
        let there = *process().hwq(hwq)?.xqueue();
        let there = there.ok_or_else(|| Refusal::not_found("the hardware queue has no XQueue"))?;
        // The caller may hold it, or submit to it, so that no launch may go past it any more.
        contention::require_scheduling(Cause::Choice);
        xq.write(there);
        Ok(())
    })
}

/// Sets how deep the XQueue is held from now on, also while it is held. Waits for nothing.
/// `kXSchedErrorNotSupported` if it cannot be held so deep.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueSetPreemptLevel(xq: XQueueHandle, level: XPreemptLevelValue) -> XResult {
    answer(|| process().queue(xq)?.set_level(level))
}

/// Sets how many commands may be in flight, and after how many their completion is looked for, each
/// 1 to 65,536. What is not above 0 stays. A batch that stays and is more than the threshold counts
/// as the threshold. Waits for nothing, and may be called at any time by any thread.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueSetLaunchConfig(
    xq: XQueueHandle,
    threshold: i64,
    batch_size: i64,
) -> XResult {
    answer(|| {
        let queue = process().queue(xq)?;
        queue.end_wide();
        queue.set_window(threshold, batch_size)
    })
}

/// Submits a command, which is the XQueue's from then on.
///
/// An XQueue has room for 8,192 commands that are not done, or as many as `XSCHED_QUEUE_CAPACITY`
/// says. While it is full this waits; if it would wait for this thread itself, since that suspended
/// the XQueue or is in a callback, the answer is `kXSchedErrorNotAllowed`, and the command is the
/// caller's still.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueSubmit(xq: XQueueHandle, hw_cmd: HwCommandHandle) -> XResult {
    answer(|| {
        let process = process();
        process.queue(xq)?.submit(&process.commands, hw_cmd)
    })
}

/// Another name of `XQueueSubmit`, which documents about XSched use. The C++ XSched does not have
/// this function.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueLaunch(xq: XQueueHandle, hw_cmd: HwCommandHandle) -> XResult {
    XQueueSubmit(xq, hw_cmd)
}

/// Waits until a command that was submitted is done, and answers how it ended. Possible until as
/// many more commands were submitted to the XQueue as it has room for; then the answer is
/// `kXSchedErrorNotFound`. A command that was dropped answers `kXSchedErrorNotAllowed`.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueWait(xq: XQueueHandle, hw_cmd: HwCommandHandle) -> XResult {
    answer(|| {
        let process = process();
        process.queue(xq)?.wait(&process.commands, hw_cmd)
    })
}

/// Waits until everything submitted so far is done. Answers the first failure of a command that no
/// earlier call of this has answered.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueWaitAll(xq: XQueueHandle) -> XResult {
    answer(|| process().queue(xq)?.wait_all())
}

/// Says whether everything submitted is done.
///
/// # Safety
/// `state` is null or may be written to.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn XQueueQuery(xq: XQueueHandle, state: *mut XQueueState) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let state = unsafe { out(state) }?;
        let idle = process().queue(xq)?.is_idle();
        state.write(if idle {
            XQueueState::kQueueStateIdle
        } else {
            XQueueState::kQueueStateReady
        });
        Ok(())
    })
}

/// Holds an XQueue until `XQueueResume`, whatever the scheduler says. `flags` are those of
/// `XQueueSuspendFlag`; others are ignored, under `XSCHED_STRICT` refused. If it is held already,
/// nothing is waited for before.
///
/// What this thread launches into the stream itself, where an interposer is preloaded, does not
/// wait: it would wait for this thread. At level 2 and 3 it runs after `XQueueResume`, behind a
/// closed gate; at level 1, or if the XQueue has commands that wait, at once. What other threads
/// launch waits.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueSuspend(xq: XQueueHandle, flags: i64) -> XResult {
    answer(|| {
        let process = process();
        let queue = process.queue(xq)?;
        queue.suspend(SUSPEND.known_of(&process.leniency, flags)?)
    })
}

/// Ends what `XQueueSuspend` began, at every level. `flags` are those of `XQueueResumeFlag`; others
/// are ignored, under `XSCHED_STRICT` refused. If the XQueue is not suspended, nothing happens.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XQueueResume(xq: XQueueHandle, flags: i64) -> XResult {
    answer(|| {
        let process = process();
        let queue = process.queue(xq)?;
        queue.resume(RESUME.known_of(&process.leniency, flags)? != 0);
        Ok(())
    })
}

/// Answers how many commands were ever submitted.
///
/// # Safety
/// `count` is null or may be written to.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn XQueueProfileHwCommandCount(xq: XQueueHandle, count: *mut i64) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let count = unsafe { out(count) }?;
        let submitted = process().queue(xq)?.submitted();
        count.write(i64::try_from(submitted).unwrap_or(i64::MAX));
        Ok(())
    })
}

/// Destroys a hardware queue; the stream stays. `kXSchedErrorNotAllowed` while it has an XQueue.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn HwQueueDestroy(hwq: HwQueueHandle) -> XResult {
    answer(|| destroy_hwq(process(), hwq))
}

/// Launches a command at once, past the XQueue and the scheduler, and forgets it. Answers what its
/// callback answers.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn HwQueueLaunch(hwq: HwQueueHandle, hw_cmd: HwCommandHandle) -> XResult {
    answer(|| {
        let process = process();
        process.hwq(hwq)?.launch(&process.commands, hw_cmd)
    })
}

/// Waits until everything that was launched has run. What waits in the XQueue is not launched. On a
/// queue that is held at level 2 or 3 it waits until that is resumed.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn HwQueueSynchronize(hwq: HwQueueHandle) -> XResult {
    answer(|| synchronize_hwq(process(), hwq))
}

/// Creates a command that calls `launch` with the hardware queue and `data`, once and on any
/// thread, when it is its turn. What that launches into the stream before it returns is the
/// command.
///
/// # Safety
/// `hw_cmd` is null or may be written to; `launch` may be called with `data`.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn HwCommandCreateCallback(
    hw_cmd: *mut HwCommandHandle,
    launch: LaunchCallback,
    data: *mut c_void,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let hw_cmd = unsafe { out(hw_cmd) }?;
        let launch = launch.ok_or_else(|| Refusal::invalid("the callback is null"))?;
        hw_cmd.write(process().create_command(Command::callback(launch, data))?);
        Ok(())
    })
}

/// Destroys a command that was not submitted; `kXSchedErrorNotFound` if it was.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn HwCommandDestroy(hw_cmd: HwCommandHandle) -> XResult {
    answer(|| process().commands.destroy(hw_cmd))
}

/// Answers why this thread's last call that did not answer `kXSchedSuccess` was refused, in one
/// line; an empty text if there was none. It is valid until the next such call. The C++ XSched does
/// not have this function.
// SAFETY: the name is the C API's.
#[unsafe(no_mangle)]
pub extern "C" fn XSchedGetLastErrorString() -> *const c_char {
    last_error()
}
