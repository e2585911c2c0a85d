//! Streams that wait for others on the device, by events.
//!
//! The scheduler does not know of that, and might hold the one for the other. So the gates of a
//! stream stay open once another stream waits for an event in it that has not completed.
//!
//! Where the scheduler of a node holds the process as a whole, a wait for an event behind a gate
//! would keep the device for the process, so the stream waits for a number first that the other one
//! writes in front of the event. It does not where nothing between the last number and the event
//! can be held, and the stream does not wait for the same number again.
//!
//! The time between two events contains holds. Where counts are asked for, such times are counted.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::engine::{self, reentrant};
use crate::preempt::{ERROR_NOT_ALLOWED, SUCCESS};
use crate::{Address, Code, Stream, counts, preempt, streams};

type Awaited = unsafe extern "C" fn(u64) -> c_int;
type Signal = unsafe extern "C" fn(u64, c_int, *mut u64, *mut u32) -> c_int;
type WaitFor = unsafe extern "C" fn(u64, u64, u32) -> c_int;

/// Functions of `libpreempt.so` for events.
#[derive(Clone, Copy, Debug)]
struct Functions {
    awaited: Awaited,
    signal: Signal,
    wait_for: WaitFor,
}

impl Functions {
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Functions>> = OnceLock::new();
        let find = |name| engine::function(name);
        let found = || {
            let awaited = find(c"xsched_private_awaited")?;
            let (signal, wait_for) =
                (find(c"xsched_private_signal")?, find(c"xsched_private_wait_for")?);
            // SAFETY: the library has them with these signatures: they are of one version.
            Some(unsafe {
                Self {
                    awaited: std::mem::transmute::<Address, Awaited>(awaited),
                    signal: std::mem::transmute::<Address, Signal>(signal),
                    wait_for: std::mem::transmute::<Address, WaitFor>(wait_for),
                }
            })
        };
        FOUND.get_or_init(found).as_ref()
    }

    /// The point up to which what was launched in an XQueue has to be waited for by a number, if
    /// anything has. The stream writes the number if it `may_write`, unless it has: `Err` if it
    /// may not and has not.
    fn point(&self, xq: u64, may_write: bool) -> Result<Option<Point>, c_int> {
        let mut point = Point { word: 0, number: 0 };
        let Point { word, number } = &mut point;
        // SAFETY: both may be written to. The program records into the stream, so it is alive, and
        // it is not captured.
        let code = unsafe { (self.signal)(xq, c_int::from(may_write), word, number) };
        match code {
            ERROR_NOT_ALLOWED => Err(code),
            SUCCESS if *word != 0 => Ok(Some(point)),
            _ => Ok(None),
        }
    }
}

/// A number that a stream writes into a word, on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    word: u64,
    number: u32,
}

/// Where an event was recorded last.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    /// The XQueue of the stream.
    xq: u64,
    /// The point in front of it in the stream, if what is in front can be held.
    point: Option<Point>,
    /// Holds of the stream and the process that had ended by then, if counts are asked for.
    holds_ended: u64,
}

/// By the handles of the events.
static RECORDED: LazyLock<Mutex<HashMap<usize, Recorded>>> = LazyLock::new(Mutex::default);
/// Set once an event was recorded.
static ANY: AtomicBool = AtomicBool::new(false);

fn recorded() -> MutexGuard<'static, HashMap<usize, Recorded>> {
    RECORDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many holds of the stream of an XQueue and of the process have ended; 0 if no counts are
/// asked for.
fn holds_ended(xq: u64) -> u64 {
    if !counts::are_wanted() {
        return 0;
    }
    let ended = reentrant(|| preempt::functions().map(|functions| functions.holds_ended_of(xq)));
    ended.flatten().unwrap_or(0)
}

/// The point that a stream has got to, for others that wait for it, if any have to.
fn point_of(xq: u64) -> Option<Point> {
    let functions = Functions::get()?;
    functions
        .point(xq, false)
        .or_else(|_| reentrant(|| functions.point(xq, true)).unwrap_or(Ok(None)))
        .unwrap_or(None)
}

/// Records an event in a stream by what `next` does.
pub fn record(event: Address, stream: Address, next: impl FnOnce() -> Code) -> Code {
    // A child of a fork does not wait for a thread of its parent.
    if !engine::is_on() {
        return next();
    }
    let stream = Stream::of(stream, Stream::Legacy);
    if !engine::is_contended() || engine::is_captured(stream) {
        // An event of a capture must not be asked for: that would end the capture.
        if ANY.load(Ordering::Acquire) {
            recorded().remove(&event.addr());
        }
        return next();
    }
    let xq = streams::xqueue_of(stream);
    // In front of the event, so that who waits for the point waits for nothing but what the event
    // waits for, whatever other threads launch meanwhile.
    let point = if xq != 0 { point_of(xq) } else { None };
    let holds_ended = holds_ended(xq);
    let code = next();
    if code == 0 {
        recorded().insert(event.addr(), Recorded { xq, point, holds_ended });
        ANY.store(true, Ordering::Release);
    }
    code
}

/// Returns whether times between events are counted in this process.
#[must_use]
pub fn are_times_counted() -> bool {
    counts::are_asked_for()
}

/// Asks for the time since an event by what `next` does. Counts it if a hold has ended since the
/// event was recorded: what was launched behind the event may have waited for that.
pub fn time_since(start: Address, next: impl FnOnce() -> Code) -> Code {
    let code = next();
    // A child of a fork does not wait for a thread of its parent.
    if code == 0 && counts::are_wanted() && ANY.load(Ordering::Acquire) && engine::is_on() {
        let start = recorded().get(&start.addr()).copied();
        if start.is_some_and(|start| holds_ended(start.xq) > start.holds_ended) {
            counts::held_time();
        }
    }
    code
}

/// Destroys an event by what `next` does. Another one may get its handle.
pub fn destroy(event: Address, next: impl FnOnce() -> Code) -> Code {
    // A child of a fork does not wait for a thread of its parent.
    if ANY.load(Ordering::Acquire) && engine::is_on() {
        recorded().remove(&event.addr());
    }
    next()
}

/// XQueues of which the library knows that another stream waits for them, each in the place of its
/// number. It does not forget that.
static AWAITED: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

const fn place_of(xq: u64) -> usize {
    xq as usize % AWAITED.len()
}

fn is_awaited(xq: u64) -> bool {
    AWAITED[place_of(xq)].load(Ordering::Acquire) == xq
}

/// Points that streams of XQueues wait for, each in a place that it has with others.
static WAITED: Mutex<[Option<(u64, Point)>; 8]> = Mutex::new([None; 8]);

/// Returns whether the stream of an XQueue has waited for a point, or for a later one of that word.
fn has_waited(xq: u64, point: Point) -> bool {
    let waited = WAITED.lock().unwrap_or_else(PoisonError::into_inner);
    waited[place_of(xq ^ point.word)].is_some_and(|(waiting, Point { word, number })| {
        // Numbers go round.
        let is_later = number.wrapping_sub(point.number).cast_signed() >= 0;
        (waiting, word) == (xq, point.word) && is_later
    })
}

/// A stream is about to wait for an event. `is_done` asks the driver whether that has completed.
pub fn await_event(stream: Address, event: Address, is_done: impl FnOnce() -> bool) {
    if !engine::is_contended() {
        return;
    }
    let stream = Stream::of(stream, Stream::Legacy);
    if engine::is_captured(stream) {
        return;
    }
    let own = streams::xqueue_of(stream);
    let is_other = |recorded: &Recorded| recorded.xq != 0 && recorded.xq != own;
    let Some(Recorded { xq, point, .. }) = recorded().get(&event.addr()).copied().filter(is_other)
    else {
        return;
    };
    let point = point.filter(|point| own != 0 && !has_waited(own, *point));
    if point.is_none() && is_awaited(xq) {
        return;
    }
    reentrant(|| {
        // What was recorded and has run keeps nothing waiting.
        let Some(functions) = Functions::get().filter(|_| !is_done()) else { return };
        // SAFETY: any number may be given.
        unsafe { (functions.awaited)(xq) };
        AWAITED[place_of(xq)].store(xq, Ordering::Release);
        let Some(point) = point else { return };
        // SAFETY: the point is one that was answered. The program has the stream wait, so it is
        // alive, and it is not captured.
        if unsafe { (functions.wait_for)(own, point.word, point.number) } == 0 {
            let mut waited = WAITED.lock().unwrap_or_else(PoisonError::into_inner);
            waited[place_of(own ^ point.word)] = Some((own, point));
        }
    });
}
