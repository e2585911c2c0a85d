//! The streams that have XQueues.
//!
//! A stream gets its XQueue at its first launch. While nothing tells the streams of the process
//! apart and a stream like it has an XQueue, it gets its own later: a program may make a stream for
//! each request, and to make an XQueue takes longer than a short request.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use hashbrown::HashMap;

use crate::engine::{self, Inside, Stream};
use crate::environment::variable;
use crate::preempt::{Functions, SUCCESS};
use crate::{Address, Code, captures, counts, driver};

/// What stands for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Its handle, or what the vendor says of a default stream.
    pub(crate) base: usize,
    /// The thread whose default stream it is, by [`thread`]; 0 if it is no thread's.
    pub(crate) thread: usize,
}

/// A stream's queues.
#[derive(Clone, Copy, Debug)]
struct Queues {
    hwq: u64,
    /// 0 if it cannot have one, or gets it [later](Self::is_later).
    xq: u64,
    /// It gets its queues with its first launch after something has told the streams apart.
    is_later: bool,
    /// That is decided again with its next launch.
    is_open: bool,
    /// What its XQueue would be told of it.
    about: About,
    /// It was the default stream of a thread that has ended.
    is_left: bool,
}

/// What tells a stream from others, as far as the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct About {
    device: c_int,
    /// Its context, or 0.
    context: usize,
    /// As the vendor counts, downwards.
    priority: c_int,
}

impl About {
    /// Null is a default stream, which has priority 0.
    fn of(stream: Address) -> Self {
        let Some(driver) = driver::opened() else {
            return Self { device: -1, context: 0, priority: 0 };
        };
        let questions = &driver.vendor().questions;
        let priority = if stream.is_null() { 0 } else { (questions.priority)(stream) };
        Self { device: (questions.device)(stream), context: (questions.context)(stream), priority }
    }
}

/// The level that a stream without an XQueue counts as.
const UNSCHEDULED: c_int = 0;
/// `kQueueStateIdle`.
const IDLE: c_int = 1;

static KNOWN: RwLock<Option<HashMap<Key, Queues>>> = RwLock::new(None);
/// Locked while a stream gets its queues, so that it gets them once.
static MAKING: Mutex<()> = Mutex::new(());
/// Changes when a stream ends, whose handle may be another's after that.
static ENDED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The stream that this thread launched into last, when that was, and its XQueue.
    static LAST: Cell<(Key, u64, u64)> = const { Cell::new((Key { base: 0, thread: 0 }, 0, 0)) };
    static THREAD: Thread = Thread(THREADS.fetch_add(1, Ordering::Relaxed));
}

/// Threads that have had numbers, and one.
static THREADS: AtomicUsize = AtomicUsize::new(1);

/// A thread that has launched into its default stream, by its number, which no other thread gets.
struct Thread(usize);

impl Drop for Thread {
    fn drop(&mut self) {
        end_thread(self.0);
    }
}

/// The number of the calling thread, whose default streams end with it; `None` if it is ending.
pub(crate) fn thread() -> Option<usize> {
    THREAD.try_with(|thread| thread.0).ok()
}

/// When a stream that has no XQueue gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    /// Only if the streams are told apart, or it is not like one that has an XQueue.
    Needed,
}

/// The XQueue of a stream, or 0 if it gets it later; `None` if it cannot have one, or not now.
pub(crate) fn queue(
    functions: &Functions,
    key: Key,
    (stream, when): (Stream, When),
) -> Option<u64> {
    let is_now = when == When::Now || functions.are_apart();
    found(key, is_now, || make(functions, key, stream, is_now))
}

/// Whether a stream has an XQueue, or gets it later.
pub(crate) fn has_queue(key: Key) -> bool {
    found(key, false, || None).is_some()
}

/// The hardware queue of a stream that has an XQueue.
pub(crate) fn hardware_queue(key: Key) -> Option<u64> {
    find(key).filter(|queues| queues.xq != 0).map(|queues| queues.hwq)
}

/// The XQueue of a stream; 0 if it has none yet.
#[must_use]
pub fn xqueue_of(stream: Stream) -> u64 {
    engine::key(stream).and_then(|key| found(key, false, || None)).unwrap_or(0)
}

/// The XQueue of a stream, or of what `make` answers if it has none, or is to get one now.
fn found(key: Key, is_now: bool, make: impl FnOnce() -> Option<Queues>) -> Option<u64> {
    let ended = ENDED.load(Ordering::Acquire);
    let (last, when, xq) = LAST.get();
    if (last, when) == (key, ended) && !(is_now && xq == 0) {
        return Some(xq);
    }
    let found = find(key).filter(|found| found.holds(is_now)).or_else(make)?;
    if found.xq == 0 && !found.is_later {
        return None;
    }
    LAST.set((key, ended, found.xq));
    Some(found.xq)
}

fn find(key: Key) -> Option<Queues> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    known.as_ref()?.get(&key).copied()
}

fn make(functions: &Functions, key: Key, stream: Stream, is_now: bool) -> Option<Queues> {
    // What a new queue asks the driver for would spoil a capture.
    if captures::are_any() {
        return None;
    }
    end_left(functions);
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(there) = find(key).filter(|there| there.holds(is_now)) {
        return Some(there);
    }
    let handle = stream.handle();
    let about = About::of(handle);
    // A default stream that is no thread's stays while its context does.
    let may_end = key.thread != 0 || matches!(stream, Stream::Own(_));
    let is_later = !is_now && may_end;
    let made = Queues { hwq: 0, xq: 0, is_later, is_open: false, about, is_left: false };
    if is_later && insert_beside_one_like(key, made) {
        return Some(made);
    }
    let made = made.opened(functions, handle);
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let before = known.get_or_insert_default().insert(key, made);
    if before.is_some_and(|before| before.is_later) {
        counts::not_later();
    }
    Some(made)
}

/// Keeps a stream that gets its XQueue later, if there is one like it that has an XQueue, which
/// cannot end in between.
fn insert_beside_one_like(key: Key, made: Queues) -> bool {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let is_one = known.values().any(|queues| queues.xq != 0 && queues.about == made.about);
    if is_one && known.insert(key, made).is_none() {
        counts::later();
    }
    is_one
}

/// Whether streams get XQueues later is decided again, since one that had an XQueue has none now.
fn look_anew(known: &mut HashMap<Key, Queues>) {
    known.values_mut().for_each(|queues| queues.is_open = queues.is_later);
    ENDED.fetch_add(1, Ordering::AcqRel);
}

/// Forgets an XQueue that there is not any more.
pub(crate) fn forget(xq: u64) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.as_mut() {
        known.retain(|_, queues| queues.xq != xq);
        look_anew(known);
    }
    counts::end_stream(xq);
    ENDED.fetch_add(1, Ordering::AcqRel);
}

/// Ends the queues of the streams of which this says so, before the streams end.
fn end(is_one: impl Fn(Key, &Queues) -> bool) {
    let Some(_inside) = Inside::enter() else { return };
    let Some(functions) = engine::functions() else { return };
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let Some(known_now) = known.as_mut() else { return };
    let gone: Vec<_> = known_now.extract_if(|key, queues| is_one(*key, queues)).collect();
    if gone.iter().any(|(_, queues)| queues.xq != 0) {
        look_anew(known_now);
    }
    ENDED.fetch_add(u64::from(!gone.is_empty()), Ordering::AcqRel);
    drop(known);
    gone.iter().for_each(|(_, queues)| queues.end(functions));
}

impl Queues {
    /// Whether what is known of the stream is still so, and enough if it is to have an XQueue now.
    const fn holds(&self, is_now: bool) -> bool {
        !(self.is_later && (is_now || self.is_open))
    }

    /// Makes them, and gives the XQueue its stream's priority, unless the environment says one.
    fn opened(mut self, functions: &Functions, stream: Address) -> Self {
        (self.is_later, self.is_open) = (false, false);
        // SAFETY: the places may be written to. The stream is alive, as the program promises, and
        // its queues end before it does.
        let code = unsafe {
            match (functions.queue)(&raw mut self.hwq, stream) {
                SUCCESS => (functions.auto_queue)(&raw mut self.xq, self.hwq),
                refused => refused,
            }
        };
        if code != SUCCESS {
            functions.complain_of_last();
            counts::stream(0, || Some((UNSCHEDULED, functions.last_error())));
        } else if self.xq != 0 {
            if variable("XSCHED_AUTO_XQUEUE_PRIORITY").is_none() {
                // SAFETY: any handle and number may be given.
                unsafe { (functions.priority)(self.xq, self.about.priority.saturating_neg()) };
            }
            counts::stream(self.xq, || functions.level_of(self.xq));
        }
        self
    }

    fn end(&self, functions: &Functions) {
        counts::end_stream(self.xq);
        // SAFETY: any handles may be given.
        unsafe {
            if self.xq != 0 {
                (functions.end_queue)(self.xq);
            }
            if self.hwq != 0 {
                (functions.end_hardware)(self.hwq);
            }
        }
    }

    /// Whether all that went into them has run, as far as it is known.
    fn are_idle(&self, functions: &Functions) -> bool {
        let mut state = IDLE;
        if self.xq != 0 {
            // SAFETY: any handle may be given, and the state may be written to.
            unsafe { (functions.query)(self.xq, &raw mut state) };
        }
        state == IDLE
    }
}

/// A thread is about to end, and its default streams with it. Nothing is waited for: what they have
/// not run yet may wait for another thread, and that for this one to end.
fn end_thread(number: usize) {
    let Some(_inside) = Inside::enter() else { return };
    let Some(functions) = engine::functions() else { return };
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let of_thread = known.iter_mut().flatten().filter(|(key, _)| key.thread == number);
    let left: Vec<_> = of_thread.map(|(_, queues)| (queues.is_left = true, queues.xq).1).collect();
    drop(known);
    for xq in left.into_iter().filter(|xq| *xq != 0) {
        // SAFETY: any handle may be given.
        unsafe { (functions.look)(xq) };
    }
    end_left(functions);
}

/// Ends the queues of streams whose threads have ended, if they are idle. The others end later, or
/// with their contexts.
fn end_left(functions: &Functions) {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let left = known.iter().flatten().filter(|(_, queues)| queues.is_left);
    let left: Vec<_> = left.map(|(key, queues)| (*key, *queues)).collect();
    drop(known);
    for (key, queues) in left.into_iter().filter(|(_, queues)| queues.are_idle(functions)) {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may be about it as well.
        let gone = known.as_mut().and_then(|known| {
            let gone = known.remove(&key)?;
            if gone.xq != 0 {
                look_anew(known);
            }
            Some(gone)
        });
        drop(known);
        if gone.is_some() {
            queues.end(functions);
        }
    }
}

/// Waits until what was launched into a stream has run, so that nothing here touches it until the
/// next launch: a stream that is captured bears no question. A stream without a queue is not waited
/// for.
pub(crate) fn settle(stream: Address) {
    let Some(_inside) = Inside::enter() else { return };
    let key = engine::key(Stream::of(stream, Stream::Legacy));
    let queues = key.and_then(find).filter(|queues| queues.xq != 0);
    if let (Some(queues), Some(functions)) = (queues, engine::functions()) {
        // SAFETY: any handle may be given.
        unsafe { (functions.wait_all)(queues.xq) };
    }
}

/// Makes a call that waits for a stream: the scheduler is to know at once that nothing of it runs.
pub fn wait(stream: Address, call: impl FnOnce() -> Code) -> Code {
    let code = engine::waiting(call);
    look(stream);
    code
}

fn look(stream: Address) {
    let functions = engine::functions().filter(|functions| functions.are_apart());
    let Some(functions) = functions.filter(|_| !captures::are_any()) else { return };
    let Some(_inside) = Inside::enter() else { return };
    let queues = engine::key(Stream::of(stream, Stream::Legacy)).and_then(find);
    if let Some(queues) = queues.filter(|queues| queues.xq != 0) {
        // SAFETY: any handle may be given.
        unsafe { (functions.look)(queues.xq) };
    }
}

/// A stream is about to end. What was launched into it is waited for.
pub fn end_stream(stream: Address) {
    if let Stream::Own(handle) = Stream::of(stream, Stream::Legacy) {
        end(|key, _| key == Key { base: handle.addr(), thread: 0 });
    }
}

/// A context ends by what `real` does. What was launched into its streams is waited for.
pub fn end_context(context: Address, real: impl FnOnce() -> Code) -> Code {
    if context.is_null() || engine::functions().is_none() {
        return real();
    }
    engine::wait(|| {
        end(|_, queues| queues.about.context == context.addr());
        forget_place(context.addr() as u64);
        real()
    })
}

/// A device is about to lose its streams, where the vendor's streams are of devices.
pub fn end_device(device: c_int) {
    end(|_, queues| queues.about.device == device);
    forget_place(u64::from(device.cast_unsigned()));
}

fn forget_place(place: u64) {
    if let (Some(_inside), Some(functions)) = (Inside::enter(), engine::functions()) {
        // SAFETY: any number may be given.
        unsafe { (functions.forget)(place) };
    }
}
