//! Launches through XQueues.
//!
//! Every stream that a program launches into gets an XQueue at its first launch, as
//! `XSCHED_AUTO_XQUEUE` and its companions say, or keeps the one that the program made for it. A
//! launch is made on the calling thread, inside the call, when it is the XQueue's turn. Nothing is
//! buffered.
//!
//! While nothing tells the streams of the process apart, or the process from others on its GPU
//! (`libpreempt.so` says so), no stream has to wait, and it is always the XQueue's turn. A launch
//! into a stream that has its XQueue is then made at once, and the XQueue does not learn of it.
//!
//! These launches go past: all of them unless `XSCHED_AUTO_XQUEUE` is `ON`; those in the child of a
//! fork, within another launch, into a stream that is being captured, of functions whose stream is
//! not known; and what the library refuses.
//!
//! A call that may wait for the whole device is made while no gate of the process holds anything,
//! once something tells the streams apart: what it waits for may be held for another stream whose
//! program waits for this call.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::counts::Reason;
use crate::environment::variable;
use crate::errors::{self, Kept};
use crate::kind::{Kind, Reach};
use crate::preempt::{ERROR_HARDWARE, ERROR_NOT_FOUND, Functions, SUCCESS, XResult};
use crate::streams::{self, Key, When};
use crate::{Address, Code, captures, counts, driver};

const VARIABLE: &str = "XSCHED_AUTO_XQUEUE";
const LEVEL: &str = "XSCHED_AUTO_XQUEUE_LEVEL";
/// The handle of the legacy default stream. CUDA and HIP have the same numbers.
const LEGACY: usize = 1;
/// The handle of the default stream of the calling thread.
pub const PER_THREAD: usize = 2;
/// Where `CUlaunchConfig`, `hipLaunchConfig_t` and `HIP_LAUNCH_CONFIG` have their stream.
const STREAM_IN_CONFIG: usize = 32;

const OFF: u8 = 0;
const ON: u8 = 1;
/// Off, in the child of a fork.
const CHILD: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(OFF);
static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();

thread_local! {
    /// This thread is in a launch, or in what this library does around one.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Where a launch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// A stream of the program's.
    Own(Address),
    /// The legacy default stream of the current context or device.
    Legacy,
    /// The default stream of the calling thread.
    PerThread,
    /// Not known.
    Elsewhere,
}

impl Stream {
    /// The stream of a handle, whose null is `default`.
    #[must_use]
    pub fn of(handle: Address, default: Self) -> Self {
        match handle.addr() {
            0 => default,
            LEGACY => Self::Legacy,
            PER_THREAD => Self::PerThread,
            _ => Self::Own(handle),
        }
    }

    /// Its handle; null is the legacy default stream.
    pub(crate) const fn handle(self) -> Address {
        match self {
            Self::Own(handle) => handle,
            Self::PerThread => ptr::without_provenance_mut(PER_THREAD),
            Self::Legacy | Self::Elsewhere => ptr::null_mut(),
        }
    }

    /// The stream in a launch's configuration.
    ///
    /// # Safety
    /// `config` is null or points to the vendor's structure for that.
    #[must_use]
    pub unsafe fn of_config(config: Address, default: Self) -> Self {
        if config.is_null() {
            return Self::Elsewhere;
        }
        // SAFETY: as the caller promises; the field is a handle, aligned as such.
        Self::of(unsafe { config.byte_add(STREAM_IN_CONFIG).cast::<Address>().read() }, default)
    }
}

/// Begins to schedule, if the environment asks for it. The driver is open.
pub(crate) fn start() {
    if variable(VARIABLE).is_some_and(|value| value.eq_ignore_ascii_case("on")) {
        STATE.store(ON, Ordering::Release);
        // SAFETY: what it calls in a child does nothing but a store.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

extern "C" fn in_child() {
    STATE.store(CHILD, Ordering::Relaxed);
}

/// The level that XQueues are to have at most; 0 if this library does not schedule.
#[must_use]
pub fn level() -> i64 {
    let named = || variable(LEVEL)?.to_str()?.trim().parse().ok();
    if is_on() { named().unwrap_or(1) } else { 0 }
}

/// Whether this library schedules.
pub(crate) fn is_on() -> bool {
    STATE.load(Ordering::Acquire) == ON
}

/// While this lives, what this thread calls of the driver goes past, and spoils no capture.
pub(crate) struct Inside {
    mode: c_int,
    /// After the drop below.
    _kept: Kept,
}

impl Inside {
    /// `None` if this library does not schedule, or the thread is inside already.
    pub(crate) fn enter() -> Option<Self> {
        if !is_on() || IS_INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true) {
            return None;
        }
        let kept = Kept::now();
        Some(Self { mode: captures::exchange_mode(captures::RELAXED), _kept: kept })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        captures::exchange_mode(self.mode);
        let _ = IS_INSIDE.try_with(|inside| inside.set(false));
    }
}

/// The library's functions, once it is in use.
pub(crate) fn functions() -> Option<&'static Functions> {
    FUNCTIONS.get()?.as_ref()
}

/// Launches something into a stream, by the function at this place of the list: what `real`
/// answers, which is called once. Launches of the same kind take about equally long.
pub fn launch(
    index: usize,
    stream: Stream,
    kind: impl FnOnce() -> Kind,
    real: impl FnOnce() -> Code,
) -> Code {
    launch_in(index, stream, kind, |_| real())
}

/// The same for a function that is told the XQueue whose turn it is; 0 if the launch goes past.
pub fn launch_in(
    index: usize,
    stream: Stream,
    kind: impl FnOnce() -> Kind,
    real: impl FnOnce(u64) -> Code,
) -> Code {
    match way(stream) {
        Way::Alone => {
            counts::alone(index);
            real(0)
        }
        Way::Past => {
            counts::launch(index);
            counts::past_for(|| reason(stream));
            real(0)
        }
        Way::Queue(functions, xq, _inside) => {
            counts::launch(index);
            let told = driver::opened().and_then(|driver| driver.vendor().table.tells.get(index));
            POLLED.set(None);
            let launch = || tracked(Some(index), functions, (xq, kind()), real);
            if told == Some(&true) { waiting(launch) } else { launch() }
        }
    }
}

/// Does something that launches nothing, with the library in use. What it calls of the driver goes
/// past. `None` if this library does not schedule, or the thread is inside already.
pub fn beside<R>(body: impl FnOnce() -> R) -> Option<R> {
    let _inside = Inside::enter()?;
    open()?;
    Some(body())
}

/// The address of a private function of `libpreempt.so`, if that is in use.
#[must_use]
pub fn function(name: &CStr) -> Option<Address> {
    functions()?.function(name)
}

/// Whether something tells the streams of the process apart, or the process from others.
#[must_use]
pub fn are_apart() -> bool {
    is_on() && functions().is_some_and(Functions::are_apart)
}

/// How a launch is made.
enum Way {
    /// At once: its stream has an XQueue or gets one later, and nothing tells the streams apart.
    Alone,
    /// At once, and not scheduled.
    Past,
    /// When it is this XQueue's turn.
    Queue(&'static Functions, u64, Inside),
}

fn way(stream: Stream) -> Way {
    let queued = || queued(stream, When::Needed).unwrap_or(Way::Past);
    if is_alone(stream) { Way::Alone } else { queued() }
}

/// Whether a launch may be made at once, by what is known without a call of the driver but for the
/// current context. If another thread tells the streams apart now, the launch is made as if that
/// came after it.
fn is_alone(stream: Stream) -> bool {
    functions().is_some_and(|functions| !functions.are_apart())
        && is_on()
        && !captures::are_any()
        && key(stream).is_some_and(streams::has_queue)
}

/// How a launch is made that [`is_alone`] does not know; `None` is past.
fn queued(stream: Stream, when: When) -> Option<Way> {
    if stream == Stream::Elsewhere {
        return None;
    }
    let inside = Inside::enter()?;
    let functions = open()?;
    if is_captured(stream) {
        return None;
    }
    let xq = streams::queue(functions, key(stream)?, (stream, when))?;
    // After the queue was made, which may have told the streams apart.
    let is_queued = xq != 0 && functions.are_apart();
    Some(if is_queued { Way::Queue(functions, xq, inside) } else { Way::Alone })
}

/// Why a launch goes past. A stream that is not being captured goes past as well if it would get
/// its queue while another one is.
fn reason(stream: Stream) -> Reason {
    let has_library = FUNCTIONS.get().is_none_or(Option::is_some);
    match (STATE.load(Ordering::Relaxed), stream) {
        (CHILD, _) => Reason::Child,
        (OFF, _) if has_library => Reason::Off,
        (OFF, _) => Reason::Library,
        (_, Stream::Elsewhere) => Reason::Unknown,
        _ if IS_INSIDE.try_with(Cell::get).unwrap_or(true) => Reason::Inside,
        _ if captures::are_any() => Reason::Capture,
        _ => Reason::Refused,
    }
}

/// The library's functions, which the first call looks for.
fn open() -> Option<&'static Functions> {
    let functions = FUNCTIONS.get_or_init(Functions::open);
    if functions.is_none() {
        STATE.store(OFF, Ordering::Relaxed);
    }
    functions.as_ref()
}

/// Has `libpreempt.so` know of this interposer, as the first launch would.
pub fn announce() {
    let _ = Inside::enter().and_then(|_inside| open());
}

/// The hardware queue of a stream of the program's, or, for null, of the default stream: that of
/// its next launch, made if there is none. 0 if that launch would go past.
#[must_use]
pub fn hardware_queue(handle: Address) -> u64 {
    let stream = Stream::of(handle, Stream::Legacy);
    let known = || streams::hardware_queue(key(stream)?);
    known().or_else(|| queued(stream, When::Now).and_then(|_| known())).unwrap_or_default()
}

/// Makes a call that stays in order with the launches of the legacy default stream, where that
/// waits for others: once something tells the streams apart, as a launch of it that is not counted.
pub fn in_legacy(real: impl FnOnce() -> Code) -> Code {
    if !are_apart() {
        return real();
    }
    match queued(Stream::Legacy, When::Needed) {
        Some(Way::Queue(functions, xq, _inside)) => {
            tracked(None, functions, (xq, Kind::new(0)), |_| real())
        }
        _ => real(),
    }
}

/// Whether a handle is that of the legacy default stream.
#[must_use]
pub fn is_legacy(stream: Address) -> bool {
    Stream::of(stream, Stream::Legacy) == Stream::Legacy
}

/// Launches when it is the XQueue's turn, and counts that if there is a place in the list.
fn tracked(
    index: Option<usize>,
    functions: &Functions,
    (xq, kind): (u64, Kind),
    real: impl FnOnce(u64) -> Code,
) -> Code {
    // The queue launches in the context of its stream, which need not be the program's.
    let place = default_stream();
    let real = |xq| {
        let code = real(xq);
        errors::noted();
        code
    };
    let mut call = Call { launch: Some(|xq| at_place(place, || real(xq))), xq, code: None };
    let reach_of = driver::opened().map(|driver| driver.vendor().table.reach);
    let reach = index.zip(reach_of).map_or(Reach::Stream, |(index, of)| of(index));
    let reach = reach.max(kind.reach());
    let (run, data) = (Call::run_of(&call), (&raw mut call).cast());
    // SAFETY: the call outlives it, and is used by this thread alone.
    let answer = unsafe {
        match reach {
            Reach::Stream => (functions.launch)(xq, kind.number(), run, data),
            reach => (functions.launch_reaching)(xq, kind.number(), reach as u32, run, data),
        }
    };
    if reach == Reach::All {
        counts::spread(xq, || functions.level_of(xq));
    }
    // The program has ended it. The stream's next launch gets another one.
    if answer == ERROR_NOT_FOUND {
        streams::forget(xq);
    }
    // What was refused, or dropped, is launched all the same: the program asked for it.
    match call.code {
        Some(code) => {
            index.into_iter().for_each(counts::tracked);
            code
        }
        None => {
            index.into_iter().for_each(|_| counts::past_for(|| Reason::Refused));
            call.launch.take().map_or(0, |launch| launch(0))
        }
    }
}

/// Makes a call in which the program waits for the whole device.
pub fn wait(real: impl FnOnce() -> Code) -> Code {
    waiting(|| unheld(real))
}

/// A call that may have to wait for the device has waited if it took so long. Many take a few
/// microseconds, and come before a launch: those that give a function its shared memory, for one.
const MAY_WAIT: Duration = Duration::from_micros(100);

/// Makes a call that may have to wait for the whole device, and rarely does.
pub fn may_wait(real: impl FnOnce() -> Code) -> Code {
    waiting_for(MAY_WAIT, || unheld(real))
}

/// Makes a call that may wait for the whole device: while no gate of the process holds anything, if
/// something tells the streams apart.
pub fn unheld(real: impl FnOnce() -> Code) -> Code {
    let functions = functions().filter(|functions| functions.are_apart() && is_on());
    let Some(functions) = functions else { return real() };
    let mut call = Call { launch: Some(|_| real()), xq: 0, code: None };
    // SAFETY: the call outlives it, and is used by this thread alone.
    unsafe { (functions.wait)(Call::wait_of(&call), (&raw mut call).cast()) };
    match (call.code, call.launch) {
        (Some(code), _) => code,
        (None, launch) => launch.map_or(0, |launch| launch(0)),
    }
}

thread_local! {
    /// Since when the thread has done nothing but ask the driver whether something has run.
    static POLLED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes a call in which the program waits for the device. What it launches next may depend on it.
pub fn waiting<R>(call: impl FnOnce() -> R) -> R {
    waiting_for(Duration::ZERO, call)
}

/// Makes a call in which the program waits for the device if it takes so long at least.
fn waiting_for<R>(least: Duration, call: impl FnOnce() -> R) -> R {
    let Some(functions) = functions().filter(|functions| functions.are_apart()) else {
        return call();
    };
    let began = Instant::now();
    let answer = call();
    if began.elapsed() >= least {
        waited(functions, began);
    }
    answer
}

fn waited(functions: &Functions, began: Instant) {
    let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: it may be called at any time.
    unsafe { (functions.waited)(ns) };
}

/// Takes the driver's answer to the question whether something has run. A program that asks until
/// it has, and launches nothing meanwhile, waits.
#[must_use]
pub fn asked(code: Code) -> Code {
    if let Some(functions) = functions().filter(|functions| functions.are_apart()) {
        let began = POLLED.get().unwrap_or_else(Instant::now);
        POLLED.set((code != 0).then_some(began));
        if code == 0 {
            waited(functions, began);
        }
    }
    code
}

/// What stands for a stream; `None` if nothing does, or there is no context.
pub(crate) fn key(stream: Stream) -> Option<Key> {
    match stream {
        Stream::Own(handle) => Some(Key { base: handle.addr(), thread: 0 }),
        Stream::Legacy => Some(Key { base: default_stream()?, thread: 0 }),
        Stream::PerThread => Some(Key { base: default_stream()?, thread: streams::thread()? }),
        Stream::Elsewhere => None,
    }
}

fn default_stream() -> Option<usize> {
    (driver::opened()?.vendor().questions.default_stream)()
}

/// Makes a call where `default_stream` has this answer.
fn at_place(place: Option<usize>, call: impl FnOnce() -> Code) -> Code {
    let questions = driver::opened().map(|driver| &driver.vendor().questions);
    let entered = questions.zip(place).filter(|(questions, place)| (questions.enter)(*place));
    let code = call();
    if let Some((questions, _)) = entered {
        (questions.leave)();
    }
    code
}

/// Whether a launch into a stream becomes part of a graph.
#[must_use]
pub fn is_captured(stream: Stream) -> bool {
    captures::is_captured(stream.handle())
}

/// Calls a function of the driver's by its name, whose place in the list is looked up once. The
/// caller sees to what the driver asks for.
#[macro_export]
macro_rules! real {
    ($name:literal, ($($argument:expr),*): ($($kind:ty),*)) => {{
        static PLACE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        let place = *PLACE.get_or_init(|| $crate::driver::place_of($name));
        // SAFETY: the driver's function of this name has this signature, and what answers in its
        // place takes any arguments.
        let real = unsafe {
            std::mem::transmute::<$crate::Address, unsafe extern "C" fn($($kind),*) -> $crate::Code>(
                $crate::driver::real(place),
            )
        };
        // SAFETY: as the caller of the macro sees to it.
        unsafe { real($($argument),*) }
    }};
}

/// A launch, and what came of it.
struct Call<F> {
    launch: Option<F>,
    xq: u64,
    code: Option<Code>,
}

impl<F: FnOnce(u64) -> Code> Call<F> {
    /// What runs a call of this type.
    fn run_of(_: &Self) -> crate::preempt::Launch {
        Self::run
    }

    /// The same for a call that waits.
    fn wait_of(_: &Self) -> unsafe extern "C" fn(Address) {
        Self::wait
    }

    /// # Safety
    /// As [`Call::run`].
    unsafe extern "C" fn wait(data: Address) {
        // SAFETY: as the caller promises.
        unsafe { Self::run(0, data) };
    }

    /// # Safety
    /// `data` is a call, which nothing else uses meanwhile.
    unsafe extern "C" fn run(_: u64, data: Address) -> XResult {
        // SAFETY: as the caller promises.
        let call = unsafe { &mut *data.cast::<Self>() };
        let Some(launch) = call.launch.take() else { return ERROR_HARDWARE };
        let code = launch(call.xq);
        call.code = Some(code);
        if code == 0 { SUCCESS } else { ERROR_HARDWARE }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_uint;

    use super::*;

    #[test]
    fn streams_are_known_by_their_handles() {
        let handle = |address| ptr::without_provenance_mut::<std::ffi::c_void>(address);
        let of = |address| Stream::of(handle(address), Stream::Legacy);
        assert_eq!([of(0), of(1), of(2)], [Stream::Legacy, Stream::Legacy, Stream::PerThread]);
        assert_eq!(of(77), Stream::Own(handle(77)));
        assert_eq!(Stream::of(handle(0), Stream::PerThread), Stream::PerThread);
    }

    #[test]
    fn a_configuration_has_its_stream_behind_seven_numbers() {
        #[repr(C)]
        struct Config {
            numbers: [c_uint; 7],
            stream: Address,
            attributes: Address,
            count: c_uint,
        }
        let stream = ptr::without_provenance_mut(99);
        let mut config = Config { numbers: [1; 7], stream, attributes: ptr::null_mut(), count: 0 };
        let at: Address = (&raw mut config).cast();
        // SAFETY: it is a configuration.
        assert_eq!(unsafe { Stream::of_config(at, Stream::Legacy) }, Stream::Own(stream));
        // SAFETY: it is null.
        let of_null = unsafe { Stream::of_config(ptr::null_mut(), Stream::Legacy) };
        assert_eq!(of_null, Stream::Elsewhere);
    }
}
