//! The streams that have XQueues.
//!
//! A stream gets its XQueue at its first launch. While nothing requires scheduling and a stream
//! like it has an XQueue, it gets its own later: a program may make a stream for each request, and
//! to make an XQueue takes longer than a short request.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use hashbrown::HashMap;
use xsched_hal_process::environment::variable;

use crate::direct::BurstMark;
use crate::engine::{self, Inside, Stream};
use crate::preempt::{Functions, SUCCESS};
use crate::{Address, Code, activity, captures, counts, direct, driver, preempt, waits};

/// Key of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Handle of the stream, or what the vendor says of a default stream.
    pub(crate) base: usize,
    /// The thread whose default stream it is, by [`thread`]; 0 if it is no thread's.
    pub(crate) thread: usize,
}

/// State of a stream's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamState {
    /// The stream gets queues with its first launch after scheduling is required.
    Deferred,
    /// As `Deferred`, which is decided again with its next launch.
    Recheck,
    /// The stream has queues, or cannot have any.
    Attached,
    /// As `Attached`, and it was the default stream of a thread that has ended.
    Orphaned,
}

/// A stream's queues, which are 0 until it has them.
#[derive(Clone, Copy, Debug)]
struct Queues {
    hwq: u64,
    xq: u64,
    state: StreamState,
    /// Queues among them that the program has made itself.
    borrowed: Borrowed,
    /// The program may have set something of its XQueue.
    is_lent: bool,
    /// Properties of the stream that its XQueue would be told.
    about: About,
}

/// A stream's queues that the program has made itself, by the handles that it has of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Borrowed {
    Nothing,
    Hardware,
    Both,
}

impl Borrowed {
    /// Returns the queues that a stream has before it gets queues here.
    fn of(functions: &Functions, stream: Address) -> Self {
        if stream.is_null() {
            // No program makes queues for a default stream.
            return Self::Nothing;
        }
        let (mut hwq, mut xq) = (0, 0);
        // SAFETY: the places may be written to, and any stream and handle may be given.
        unsafe {
            if (functions.queue_of)(&raw mut hwq, stream) != SUCCESS {
                Self::Nothing
            } else if (functions.xqueue_of)(&raw mut xq, hwq) != SUCCESS {
                Self::Hardware
            } else {
                Self::Both
            }
        }
    }
}

/// Properties that tell a stream from others, as far as the driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) device: c_int,
    /// Context of the stream, or 0.
    pub(crate) context: usize,
    /// As the vendor counts, downwards.
    priority: c_int,
}

impl About {
    /// Null is a default stream, which has priority 0.
    pub(crate) fn of(stream: Address) -> Self {
        let Some(driver) = driver::opened() else {
            return Self { device: -1, context: 0, priority: 0 };
        };
        let questions = &driver.vendor().questions;
        let priority = if stream.is_null() { 0 } else { (questions.priority)(stream) };
        Self { device: (questions.device)(stream), context: (questions.context)(stream), priority }
    }

    /// The number of its context, or of its device where streams are of devices.
    fn place(&self) -> u64 {
        if self.context == 0 { self.device.cast_unsigned().into() } else { self.context as u64 }
    }
}

/// The level that a stream without an XQueue counts as.
const UNSCHEDULED: c_int = 0;
/// `kQueueStateIdle`.
const IDLE: c_int = 1;

static KNOWN: RwLock<Option<HashMap<Key, Queues>>> = RwLock::new(None);
/// Locked while a stream gets its queues, so that it gets them once.
static MAKING: Mutex<()> = Mutex::new(());

thread_local! {
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

/// Returns the key of the stream with a handle; null is the legacy default stream.
pub(crate) fn key(stream: Address) -> Option<Key> {
    engine::key(Stream::of(stream, Stream::Legacy))
}

/// When a stream that has no XQueue gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttachMode {
    Now,
    /// Only if scheduling is required, or it is not like one that has an XQueue.
    IfNeeded,
}

/// The XQueue of a stream, or 0 if it gets it later; `None` if it cannot have one, or not now.
pub(crate) fn queue(functions: &Functions, stream: Stream, mode: AttachMode) -> Option<u64> {
    let is_now = mode == AttachMode::Now || preempt::is_contended();
    found(stream, is_now, |key| make(functions, key, stream, is_now))
}

/// Returns whether a stream has an XQueue, or gets it later, and nothing is captured.
pub(crate) fn is_attached(stream: Stream) -> bool {
    !captures::are_any() && found(stream, false, |_| None).is_some()
}

/// Returns whether a stream is known to have no XQueue and to get none.
pub(crate) fn has_no_queue(stream: Stream) -> bool {
    let queues = engine::key(stream).and_then(find);
    queues.is_some_and(|queues| queues.state == StreamState::Attached && queues.xq == 0)
}

/// The hardware queue of a stream that has an XQueue, for the program.
pub(crate) fn hardware_queue(key: Key) -> Option<u64> {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let queues = known.as_mut()?.get_mut(&key).filter(|queues| queues.xq != 0)?;
    queues.is_lent = true;
    Some(queues.hwq)
}

/// The XQueue of a stream; 0 if it has none yet.
#[must_use]
pub fn xqueue_of(stream: Stream) -> u64 {
    found(stream, false, |_| None).unwrap_or(0)
}

/// The XQueue of a stream, or of what `make` answers if it has none, or is to get one now.
fn found(stream: Stream, is_now: bool, make: impl FnOnce(Key) -> Option<Queues>) -> Option<u64> {
    let generation = direct::generation();
    if let Some(xq) = direct::xqueue(stream).filter(|xq| !is_now || *xq != 0) {
        return Some(xq);
    }
    let key = engine::key(stream)?;
    let found = find(key).filter(|found| found.holds(is_now)).or_else(|| make(key))?;
    if found.xq == 0 && !found.is_deferred() {
        return None;
    }
    if !captures::are_any() {
        direct::keep(stream, generation, found.xq);
    }
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
    let (state, borrowed) = (StreamState::Deferred, Borrowed::Nothing);
    let deferred = Queues { hwq: 0, xq: 0, state, borrowed, is_lent: false, about };
    let may_defer = !is_now && may_end && activity::gives_queues();
    if may_defer && insert_beside_one_like(key, deferred) {
        return Some(deferred);
    }
    let left = (key.thread != 0).then(|| take_left(functions, key, about)).flatten();
    let made = left.unwrap_or_else(|| Queues::open(functions, about, handle));
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let before = known.get_or_insert_default().insert(key, made);
    if before.is_some_and(|before| before.is_deferred()) {
        counts::not_later();
    }
    Some(made)
}

/// Takes the queues of a thread's default stream in this context whose thread has ended, and which
/// are idle: another thread's launches go into that thread's own stream by the same handle. To make
/// an XQueue takes longer than a short thread.
fn take_left(functions: &Functions, key: Key, about: About) -> Option<Queues> {
    let is_alike = |other: &Key, queues: &Queues| {
        other.base == key.base && queues.about == about && queues.is_reusable()
    };
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let known = known.as_mut()?;
    let found = known.iter().find(|(other, queues)| is_alike(other, queues));
    let (from, left) = found.map(|(from, queues)| (*from, *queues))?;
    if !left.are_idle(functions) {
        return None;
    }
    known.remove(&from);
    counts::end_stream(left.xq);
    counts::stream(left.xq, || functions.level_of(left.xq));
    Some(Queues { state: StreamState::Attached, ..left })
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

/// Has it decided again if streams get XQueues later, since one that had an XQueue has none now.
fn look_anew(known: &mut HashMap<Key, Queues>) {
    let deferred = known.values_mut().filter(|queues| queues.is_deferred());
    deferred.for_each(|queues| queues.state = StreamState::Recheck);
    direct::begin_generation();
}

/// Forgets an XQueue that there is not any more.
pub(crate) fn forget(xq: u64) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.as_mut() {
        known.retain(|_, queues| queues.xq != xq);
        look_anew(known);
    }
    counts::end_stream(xq);
}

/// The program has made an XQueue for a stream: what else is known of the stream is forgotten.
pub(crate) fn renew(stream: Address, xq: u64) {
    // A thread may be about to keep what it has just seen.
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let Some(known) = known.as_mut() else { return };
    let key = Key { base: stream.addr(), thread: 0 };
    if known.get(&key).is_some_and(|queues| queues.xq == xq) {
        return;
    }
    if let Some(before) = known.remove(&key) {
        if before.is_deferred() {
            counts::not_later();
        }
        counts::end_stream(before.xq);
        look_anew(known);
    }
}

/// Ends the queues of the streams of which this says so, before the streams end.
fn end(is_one: impl Fn(Key, &Queues) -> bool) {
    forget_streams(is_one, Queues::end);
}

/// Forgets the streams of which this says so, with their queues.
fn forget_streams(is_one: impl Fn(Key, &Queues) -> bool, end: impl Fn(&Queues, &Functions)) {
    let Some(_inside) = Inside::enter() else { return };
    let Some(functions) = preempt::functions() else { return };
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let Some(known_now) = known.as_mut() else { return };
    let gone: Vec<_> = known_now.extract_if(|key, queues| is_one(*key, queues)).collect();
    if gone.iter().any(|(_, queues)| queues.xq != 0) {
        look_anew(known_now);
    } else if !gone.is_empty() {
        direct::begin_generation();
    }
    drop(known);
    gone.iter().for_each(|(_, queues)| end(queues, functions));
}

impl Queues {
    const fn is_deferred(&self) -> bool {
        matches!(self.state, StreamState::Deferred | StreamState::Recheck)
    }

    /// Returns whether the queues were those of a thread's default stream, and may become
    /// another's.
    fn is_reusable(&self) -> bool {
        self.state == StreamState::Orphaned && self.xq != 0 && !self.is_lent
    }

    /// Returns whether the entry still holds, and is enough if the stream is to have an XQueue now.
    const fn holds(&self, is_now: bool) -> bool {
        match self.state {
            StreamState::Deferred => !is_now,
            StreamState::Recheck => false,
            StreamState::Attached | StreamState::Orphaned => true,
        }
    }

    /// Makes them, and gives the XQueue its stream's priority, unless the environment says one. If
    /// streams get no XQueues here, it has those that the program has made, as they are, or none.
    fn open(functions: &Functions, about: About, stream: Address) -> Self {
        let borrowed = Borrowed::of(functions, stream);
        let (state, is_lent) = (StreamState::Attached, false);
        let mut made = Self { hwq: 0, xq: 0, state, borrowed, is_lent, about };
        let gives_queues = activity::gives_queues();
        if !gives_queues && borrowed != Borrowed::Both {
            return Self { borrowed: Borrowed::Nothing, ..made };
        }
        // SAFETY: the places may be written to. The stream is alive, as the program promises, and
        // its queues end before it does.
        let code = unsafe {
            match (functions.queue)(&raw mut made.hwq, stream) {
                SUCCESS => (functions.auto_queue)(&raw mut made.xq, made.hwq),
                refused => refused,
            }
        };
        if code != SUCCESS {
            functions.complain_of_last();
            counts::stream(0, || Some((UNSCHEDULED, functions.last_error())));
        } else if made.xq != 0 {
            if gives_queues && variable("XSCHED_AUTO_XQUEUE_PRIORITY").is_none() {
                // SAFETY: any handle and number may be given.
                unsafe { (functions.priority)(made.xq, made.about.priority.saturating_neg()) };
            }
            counts::stream(made.xq, || functions.level_of(made.xq));
        }
        made
    }

    /// Ends them without a wait for what was launched, if that can be.
    fn leave(&self, functions: &Functions) {
        // SAFETY: any handle and number may be given.
        let left =
            self.xq != 0 && unsafe { (functions.leave)(self.xq, self.about.place()) } == SUCCESS;
        if left {
            counts::end_stream(self.xq);
        } else {
            self.end(functions);
        }
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

    /// Ends those that the program has not made. It ends its own, and until then they keep the
    /// context.
    fn end_own(&self, functions: &Functions) {
        let own = match self.borrowed {
            Borrowed::Nothing => *self,
            Borrowed::Hardware => Self { hwq: 0, ..*self },
            Borrowed::Both => return counts::end_stream(self.xq),
        };
        own.end(functions);
    }

    /// Returns whether all that went into the queues has run, as far as it is known.
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
    captures::end_thread(number);
    let Some(_inside) = Inside::enter() else { return };
    let Some(functions) = preempt::functions() else { return };
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let of_thread = known.iter_mut().flatten().filter(|(key, _)| key.thread == number);
    let mut left = Vec::new();
    for (_, queues) in of_thread {
        queues.state = StreamState::Orphaned;
        left.push(queues.xq);
    }
    drop(known);
    for xq in left.into_iter().filter(|xq| *xq != 0) {
        // SAFETY: any handle may be given.
        unsafe { (functions.look)(xq) };
    }
    end_left(functions);
}

/// Ends the queues of streams whose threads have ended, if they are idle. The others end later, or
/// with their contexts, and so do the last ones that the next thread may use.
fn end_left(functions: &Functions) {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let is_left = |queues: &Queues| queues.state == StreamState::Orphaned;
    let left = known.iter().flatten().filter(|(_, queues)| is_left(queues));
    let left: Vec<_> = left.map(|(key, queues)| (*key, *queues)).collect();
    drop(known);
    for (key, queues) in left.into_iter().filter(|(_, queues)| queues.are_idle(functions)) {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may be about it as well.
        let gone = known.as_mut().and_then(|known| {
            let is_alike = |(other, one): (&Key, &Queues)| {
                *other != key && other.base == key.base && one.is_reusable()
            };
            if queues.is_reusable() && !known.iter().any(is_alike) {
                return None;
            }
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

/// Has nothing here touch a stream until the next launch: one that is captured bears no question.
/// Where that cannot be had, this waits until what was launched there has run. A stream without a
/// queue is not waited for.
pub(crate) fn settle(stream: Address) {
    let Some(_inside) = Inside::enter() else { return };
    let queues = key(stream).and_then(find).filter(|queues| queues.xq != 0);
    if let (Some(queues), Some(functions)) = (queues, preempt::functions()) {
        // SAFETY: any handle may be given.
        unsafe {
            if (functions.seal)(queues.xq) != SUCCESS {
                (functions.wait_all)(queues.xq);
            }
        }
    }
}

/// Makes a call that waits for a stream: the scheduler is to know at once that nothing of it runs.
pub fn wait(stream: Address, call: impl FnOnce() -> Code) -> Code {
    let known = direct::known(Stream::of(stream, Stream::Legacy));
    let mark = known.and_then(|known| known.mark());
    let code = waits::waiting(call);
    if code == 0 {
        mark.into_iter().for_each(BurstMark::has_run);
    }
    look(stream);
    code
}

fn look(stream: Address) {
    if !preempt::is_attended() {
        return;
    }
    let Some(functions) = preempt::contended().filter(|_| !captures::are_any()) else { return };
    let Some(_inside) = Inside::enter() else { return };
    let queues = key(stream).and_then(find);
    if let Some(queues) = queues.filter(|queues| queues.xq != 0) {
        // SAFETY: any handle may be given.
        unsafe { (functions.look)(queues.xq) };
    }
}

/// A stream is about to end. What was launched into it runs on.
pub fn end_stream(stream: Address) {
    if let Stream::Own(handle) = Stream::of(stream, Stream::Legacy) {
        forget_streams(|key, _| key == Key { base: handle.addr(), thread: 0 }, Queues::leave);
    }
}

/// A context ends by what `real` does, and its streams with it. What was launched into them is
/// waited for.
pub fn end_context(context: Address, real: impl FnOnce() -> Code) -> Code {
    leave_context(context, Queues::end, real)
}

/// The program's last reference to a context ends by what `real` does. What was launched into its
/// streams is waited for, and XQueues that the program has made are its own to end.
pub fn release_context(context: Address, real: impl FnOnce() -> Code) -> Code {
    leave_context(context, Queues::end_own, real)
}

fn leave_context(
    context: Address,
    end: impl Fn(&Queues, &Functions),
    real: impl FnOnce() -> Code,
) -> Code {
    if context.is_null() || preempt::functions().is_none() {
        return real();
    }
    waits::wait(|| {
        forget_streams(|_, queues| queues.about.context == context.addr(), end);
        forget_place(context.addr() as u64);
        // It may have been current.
        direct::change_context(real)
    })
}

/// A device is about to lose its streams, where the vendor's streams are of devices.
pub fn end_device(device: c_int) {
    end(|_, queues| queues.about.device == device);
    captures::end_device(device);
    forget_place(u64::from(device.cast_unsigned()));
}

fn forget_place(place: u64) {
    if let (Some(_inside), Some(functions)) = (Inside::enter(), preempt::functions()) {
        // SAFETY: any number may be given.
        unsafe { (functions.forget)(place) };
    }
}
