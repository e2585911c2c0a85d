//! Launches and waits of interposers, and the levels of the XQueues that they go through.
//!
//! A launch, or a wait for the device, has a begin and an end on one thread; in between, the
//! interposer calls the driver. What a thread has begun is kept with the thread and ends with it.
//! In the child of a fork it is not there: it is the parent's.
//!
//! Programs launch, and free memory, while a thread ends as well: in destructors of what it has to
//! itself, some of which run after those of this library. So the cells have no destructors.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int};
use std::mem::{ManuallyDrop, take};

use xsched::LaunchToken;
use xsched_hal_process::burst::{Burst, BurstState};
use xsched_hal_process::calls::Calls;
use xsched_hal_stream::{AllOpen, CALLS, Gates, Reach};

use crate::command::{Command, InsideCallback, forks};
use crate::contention;
use crate::process::process;
use crate::refusal::{Answer, Refusal, answer};
use crate::types::{XQueueHandle, XResult};
use crate::xqueue::out;

/// Launches and waits that a thread of a process has begun; a parent's are left alone.
#[derive(Debug)]
struct OfProcess<T> {
    begun: Option<T>,
    forks: u16,
}

impl<T> OfProcess<T> {
    fn new(begun: T) -> Self {
        Self { begun: Some(begun), forks: forks() }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.forks != forks() {
            std::mem::forget(self.begun.take());
        }
    }
}

/// A launch that a thread makes.
#[derive(Debug)]
struct BegunLaunch {
    token: LaunchToken<Command>,
    _inside: InsideCallback,
}

impl BegunLaunch {
    /// The number of its token.
    const fn number(&self) -> u64 {
        self.token.number() + 1
    }
}

type Waits = Vec<OfProcess<Vec<AllOpen>>>;

thread_local! {
    static LAUNCH: Cell<Option<ManuallyDrop<OfProcess<BegunLaunch>>>> = const { Cell::new(None) };
    /// Waits of this thread; those within others are behind them.
    static WAITS: RefCell<ManuallyDrop<Waits>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
    static THREAD_END: ThreadEnd = const { ThreadEnd };
}

/// Ends what a thread has begun, and not ended, when the thread ends.
struct ThreadEnd;

impl ThreadEnd {
    /// Sees to that, unless the thread is ending already.
    fn watch() {
        let _ = THREAD_END.try_with(|_| ());
    }
}

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        drop(take_launch(|_| true));
        let waits = WAITS.with_borrow_mut(|waits| take(&mut **waits));
        drop(waits);
    }
}

/// Takes the launch that this thread has begun, if it is the one.
fn take_launch(
    is_one: impl FnOnce(&OfProcess<BegunLaunch>) -> bool,
) -> Option<OfProcess<BegunLaunch>> {
    let launch = LAUNCH.take()?;
    if is_one(&launch) {
        return Some(ManuallyDrop::into_inner(launch));
    }
    LAUNCH.set(Some(launch));
    None
}

/// For interposers: returns when this thread is to launch something into the stream of an XQueue.
/// `token` is for [`xsched_private_end_launch`], which has to be called after the launch on the
/// same thread. It is 0 if nothing has to be called: what waits was dropped. If the answer is not
/// `kXSchedSuccess`, the launch is none of the XQueue's.
///
/// Launches of the same `kind` into an XQueue take about equally long; 0 is any. With `reach` 0 it
/// goes into the stream's hardware queue, with 1 into that of a copy engine as well, with any
/// greater number also into those of other streams, as the parallel branches of a graph do.
///
/// # Safety
/// `token` is null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_begin_launch(
    xq: XQueueHandle,
    kind: u32,
    reach: u32,
    token: *mut u64,
) -> XResult {
    let reach = match reach {
        0 => Reach::Ring,
        1 => Reach::Copies,
        _ => Reach::All,
    };
    answer(|| {
        // SAFETY: as the caller promises.
        let token = unsafe { out(token) }?;
        token.write(begin_launch(xq, kind, reach)?);
        Ok(())
    })
}

fn begin_launch(xq: XQueueHandle, kind: u32, reach: Reach) -> Answer<u64> {
    let process = process();
    let queue = process.queue(xq)?;
    queue.hwq().hardware.place_gates(process.may_hold(&queue));
    if queue.is_to_be_narrow()
        && let Some(auto) = &process.env.auto
    {
        // At level 1 each launch counts.
        queue.hwq().hardware.burst().iter().for_each(Burst::unshare);
        let threshold = auto.threshold(false);
        queue.set_window(threshold, auto.batch.min(threshold))?;
    }
    let Some(token) = queue.begin_launch(kind, reach)? else { return Ok(0) };
    let begun = BegunLaunch { token, _inside: InsideCallback::enter() };
    let number = begun.number();
    ThreadEnd::watch();
    let kept = LAUNCH.replace(Some(ManuallyDrop::new(OfProcess::new(begun))));
    // A thread that has one is inside a callback, and gets none: what was there is a parent's.
    drop(kept.map(ManuallyDrop::into_inner));
    Ok(number)
}

/// For interposers: this thread has made the launch of a token, and the driver has answered this;
/// 0 is success, and anything else a failure of the XQueue's command.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_end_launch(token: u64, code: c_int) -> XResult {
    answer(|| {
        let launch = take_launch(|launch| {
            launch.begun.as_ref().is_some_and(|begun| begun.number() == token)
        });
        let unknown = || Refusal::not_found("this thread has begun no launch of this token");
        let mut launch = launch.ok_or_else(unknown)?;
        if launch.forks == forks()
            && let Some(BegunLaunch { token, _inside }) = launch.begun.take()
        {
            token.end(code == 0);
        }
        Ok(())
    })
}

/// For interposers: the burst of an XQueue, in which launches need no call of this library. The
/// state stays for ever. It is null if there is none: where the process tells streams apart, and
/// where they have no bursts.
///
/// # Safety
/// Both are null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_burst(
    xq: XQueueHandle,
    state: *mut *const BurstState,
    number: *mut u32,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let (state, number) = unsafe { (out(state)?, out(number)?) };
        let queue = process().queue(xq)?;
        let is_required = contention::scheduling_required();
        let burst = queue.hwq().hardware.burst().filter(|_| !is_required);
        let shared = burst.map(|burst| burst.share());
        state.write(shared.map_or(std::ptr::null(), |(state, _)| std::ptr::from_ref(state)));
        number.write(shared.map_or(0, |(_, number)| number));
        Ok(())
    })
}

/// For interposers: where calls of the driver are counted that may wait for a whole device, for
/// ever.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub const extern "C" fn xsched_private_calls() -> *const Calls {
    &raw const CALLS
}

/// For interposers: no gate holds what was launched into a stream, for a call on this thread that
/// may wait for a whole device. `token` is for [`xsched_private_end_wait`], which has to be called
/// after that on the same thread.
///
/// # Safety
/// `token` is null or may be written to.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_begin_wait(token: *mut u64) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let token = unsafe { out(token) }?;
        let process = process();
        let gates = [process.cuda.gates(), process.hip.gates()];
        let open = OfProcess::new(gates.iter().flatten().map(Gates::open_all).collect());
        ThreadEnd::watch();
        let number = WAITS.with_borrow_mut(|waits| {
            waits.push(open);
            waits.len()
        });
        token.write(number as u64);
        Ok(())
    })
}

/// For interposers: the call of this token has returned, and with it those that were begun within
/// it and not ended.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub extern "C" fn xsched_private_end_wait(token: u64) -> XResult {
    answer(|| {
        let at = usize::try_from(token).ok().and_then(|number| number.checked_sub(1));
        let ended = WAITS.with_borrow_mut(|waits| {
            let at = at.filter(|at| *at < waits.len())?;
            Some(waits.split_off(at))
        });
        let unknown = || Refusal::not_found("this thread has begun no wait of this token");
        // Their gates close without the cell in use.
        drop(ended.ok_or_else(unknown)?);
        Ok(())
    })
}

/// For interposers: the level of an XQueue, and as text that ends with zero why it has no higher
/// one, as much of it as there is room for.
///
/// # Safety
/// `level` is null or may be written to, and `bytes` bytes may be written at `why`.
// SAFETY: no other library has a function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xsched_private_level(
    xq: XQueueHandle,
    level: *mut c_int,
    why: *mut c_char,
    bytes: usize,
) -> XResult {
    answer(|| {
        // SAFETY: as the caller promises.
        let level = unsafe { out(level) }?;
        let last = bytes.checked_sub(1).filter(|_| !why.is_null());
        let last = last.ok_or_else(|| Refusal::invalid("there is no room for a text"))?;
        let queue = process().queue(xq)?;
        let text = queue.why_no_higher();
        let text = &text.as_bytes()[..text.floor_char_boundary(last)];
        // SAFETY: as the caller promises, and it is not longer.
        unsafe {
            why.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
            why.add(text.len()).write(0);
        }
        level.write(queue.level().number().into());
        Ok(())
    })
}
