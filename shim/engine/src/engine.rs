//! Launches through XQueues.
//!
//! A stream that a program launches into gets an XQueue, at its first launch or once something
//! tells it from one like it ([`streams`]), as `XSCHED_AUTO_XQUEUE` and its companions say, or
//! keeps the one that the program made for it. A launch is made on the calling thread, inside the
//! call, when it is the XQueue's turn. Nothing is buffered.
//!
//! While nothing requires scheduling (`libpreempt.so` says so), no stream has to wait, and it is
//! always the XQueue's turn. A launch into a stream that its thread knows is then [`direct`], and
//! the XQueue does not learn of it.
//!
//! These launches bypass XQueues: unless `XSCHED_AUTO_XQUEUE` is `ON`, all but those into streams
//! for which the program has made XQueues itself ([`adopt`]); those in the child of a fork, within
//! another launch, into a stream that is being captured, of functions whose stream is not known;
//! and what the library refuses.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr;

use xsched_hal_process::environment::variable;

pub use crate::activity::is_on;
use crate::activity::{self, Activity};
use crate::counts::Reason;
use crate::errors::{self, Kept};
use crate::kind::{Kind, Reach};
use crate::preempt::{ERROR_NOT_FOUND, Functions, functions};
use crate::streams::{self, AttachMode, Key};
use crate::vendor::Tells;
use crate::{Address, Code, captures, counts, direct, driver, preempt, waits};

const LEVEL: &str = "XSCHED_AUTO_XQUEUE_LEVEL";
/// The handle of the legacy default stream. CUDA and HIP have the same numbers.
const LEGACY: usize = 1;
/// The handle of the default stream of the calling thread.
pub const PER_THREAD: usize = 2;
/// Where `CUlaunchConfig`, `hipLaunchConfig_t` and `HIP_LAUNCH_CONFIG` have their stream.
const STREAM_IN_CONFIG: usize = 32;

thread_local! {
    /// Set while this thread is in a launch, or in what this library does around one.
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

    /// A number that no other stream of the current context has; 0 if it is not known.
    pub(crate) fn id(self) -> usize {
        match self {
            Self::Own(handle) => handle.addr(),
            Self::Legacy => LEGACY,
            Self::PerThread => PER_THREAD,
            Self::Elsewhere => 0,
        }
    }

    /// Handle of the stream; null is the legacy default stream.
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

/// The level that XQueues are to have at most; 0 if this library gives streams none.
#[must_use]
pub fn level() -> i64 {
    let named = || variable(LEVEL)?.to_str()?.trim().parse().ok();
    if activity::gives_queues() { named().unwrap_or(1) } else { 0 }
}

/// While this lives, what this thread calls of the driver is not scheduled, and spoils no capture.
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

/// Launches something into a stream, by the function at this place of the list: what `real`
/// answers, which is called once. Launches of the same kind take about equally long.
#[inline]
pub fn launch(
    index: usize,
    stream: Stream,
    kind: impl FnOnce() -> Kind,
    real: impl FnOnce() -> Code,
) -> Code {
    let Some(known) = direct::known(stream) else {
        return launch_indirect(index, stream, kind, |_| real());
    };
    if !preempt::is_contended() {
        counts::direct(index);
        return real();
    }
    let tells = tells(index);
    if !known.has_burst() || tells == Tells::ByReturning || copies(index) {
        return launch_indirect(index, stream, kind, |_| real());
    }
    let kind = kind();
    if !IS_INSIDE.try_with(Cell::get).unwrap_or(true)
        && let Some(launch) = known.begin_in_burst(kind.number())
    {
        counts::in_burst(index);
        waits::note_launch();
        // What the driver or a tool calls meanwhile, and launches, has no turn to wait for.
        let set_inside = |is_inside| IS_INSIDE.try_with(|inside| inside.set(is_inside));
        let _ = set_inside(true);
        let code = if tells == Tells::ByCalling { waits::waiting(real) } else { real() };
        let _ = set_inside(false);
        if code == 0 {
            launch.end();
        }
        return code;
    }
    launch_indirect(index, stream, || kind, |_| real())
}

/// Returns whether a launch by the function at this place of the list goes into the queue of a
/// copy engine: the watch has to know of those, as of those that return only when the device has
/// done something.
fn copies(index: usize) -> bool {
    let reach = driver::opened().map(|driver| (driver.vendor().table.reach)(index));
    reach == Some(Reach::Copies)
}

/// How a launch by the function at this place of the list tells the program that something has run.
fn tells(index: usize) -> Tells {
    let told = driver::opened().and_then(|driver| driver.vendor().table.tells.get(index).copied());
    told.unwrap_or(Tells::Nothing)
}

/// Launches as [`launch`] does, by a function that is told the XQueue whose turn it is; 0 if the
/// launch is not scheduled.
#[inline]
pub fn launch_in(
    index: usize,
    stream: Stream,
    kind: impl FnOnce() -> Kind,
    real: impl FnOnce(u64) -> Code,
) -> Code {
    if direct::xqueue(stream).is_some() && !preempt::is_contended() {
        counts::direct(index);
        return real(0);
    }
    launch_indirect(index, stream, kind, real)
}

/// Launches into a stream that this thread does not know, or where scheduling may be required.
#[inline(never)]
fn launch_indirect(
    index: usize,
    stream: Stream,
    kind: impl FnOnce() -> Kind,
    real: impl FnOnce(u64) -> Code,
) -> Code {
    match path(stream) {
        LaunchPath::Direct => {
            counts::direct(index);
            real(0)
        }
        LaunchPath::Bypass => {
            counts::launch(index);
            counts::bypassed(|| reason(stream));
            real(0)
        }
        LaunchPath::Scheduled(scheduled) => {
            counts::launch(index);
            waits::note_launch();
            let launch = || scheduled.launch_listed(index, kind(), real);
            let tells = tells(index) != Tells::Nothing;
            let code = if tells { waits::waiting(launch) } else { launch() };
            direct::ask_for_burst(stream, preempt::burst);
            code
        }
    }
}

/// Initialises the driver by what `real` does.
pub fn initialise(real: impl FnOnce() -> Code) -> Code {
    let code = real();
    if code == 0 {
        activity::initialised();
    }
    code
}

/// Does something that launches nothing, with the library in use, and whose calls of the driver are
/// not scheduled. `None` if this library does not schedule, or the thread is inside already.
pub fn reentrant<R>(body: impl FnOnce() -> R) -> Option<R> {
    let _inside = Inside::enter()?;
    preempt::open()?;
    Some(body())
}

/// The address of a private function of `libpreempt.so`, if that is in use.
#[must_use]
pub fn function(name: &CStr) -> Option<Address> {
    functions()?.function(name)
}

/// Returns whether launches are scheduled now.
#[must_use]
pub fn is_contended() -> bool {
    is_on() && preempt::is_contended()
}

/// How a launch is made.
enum LaunchPath {
    /// At once: its stream has an XQueue or gets one later, and nothing requires scheduling.
    Direct,
    /// At once, and not counted as scheduled.
    Bypass,
    /// When it is an XQueue's turn.
    Scheduled(Scheduled),
}

/// How a launch is made. If another thread has scheduling required now, the launch is made as if
/// that came after it.
fn path(stream: Stream) -> LaunchPath {
    let is_direct = || !preempt::is_contended() && is_on() && streams::is_attached(stream);
    if is_direct() {
        return LaunchPath::Direct;
    }
    if is_on() && streams::has_no_queue(stream) {
        return LaunchPath::Bypass;
    }
    attached(stream, AttachMode::IfNeeded).unwrap_or(LaunchPath::Bypass)
}

/// A launch that is made when it is this XQueue's turn.
struct Scheduled {
    functions: &'static Functions,
    xq: u64,
    _inside: Inside,
}

impl Scheduled {
    /// Launches by the function at this place of the list, and counts that.
    fn launch_listed(self, index: usize, kind: Kind, real: impl FnOnce(u64) -> Code) -> Code {
        let reach_of = driver::opened().map(|driver| driver.vendor().table.reach);
        let reach = reach_of.map_or(Reach::Stream, |of| of(index)).max(kind.reach());
        self.launch(kind.reaching(reach), |xq| {
            if xq == 0 {
                counts::bypassed(|| Reason::Refused);
            } else {
                counts::tracked(index);
            }
            real(xq)
        })
    }

    /// Makes the launch. One that is refused, or dropped, is made all the same, as of no XQueue:
    /// the program asked for it.
    fn launch(self, kind: Kind, real: impl FnOnce(u64) -> Code) -> Code {
        let Self { functions, xq, _inside } = &self;
        let mut token = 0;
        // SAFETY: any handle may be given, and the token may be written to.
        let answer = unsafe {
            (functions.begin_launch)(*xq, kind.number(), kind.reach() as u32, &raw mut token)
        };
        if kind.reach() == Reach::All {
            counts::spread(*xq, || functions.level_of(*xq));
        }
        // The program has ended it. The stream's next launch gets another one.
        if answer == ERROR_NOT_FOUND {
            streams::forget(*xq);
        }
        let code = real(if token == 0 { 0 } else { *xq });
        errors::noted();
        if token != 0 {
            // SAFETY: any number may be given.
            unsafe { (functions.end_launch)(token, code) };
        }
        code
    }
}

/// How a launch into a stream is made that gets its XQueue if it has none; `None` is a bypass.
fn attached(stream: Stream, mode: AttachMode) -> Option<LaunchPath> {
    if stream == Stream::Elsewhere {
        return None;
    }
    let _inside = Inside::enter()?;
    let functions = preempt::open()?;
    if is_captured(stream) {
        return None;
    }
    let xq = streams::queue(functions, stream, mode)?;
    // After the queue was made, which may have had scheduling required.
    let is_scheduled = xq != 0 && preempt::is_contended();
    let scheduled = || LaunchPath::Scheduled(Scheduled { functions, xq, _inside });
    Some(if is_scheduled { scheduled() } else { LaunchPath::Direct })
}

/// Why a launch bypasses XQueues. One into a stream that is not being captured does so as well if
/// the stream would get its queue while another one is being captured.
fn reason(stream: Stream) -> Reason {
    let has_library = !preempt::is_missing();
    match (activity::now(), stream) {
        (Activity::Child, _) => Reason::Child,
        (Activity::Off, _) if has_library => Reason::Off,
        (Activity::Off, _) => Reason::Library,
        (_, Stream::Elsewhere) => Reason::Unknown,
        _ if IS_INSIDE.try_with(Cell::get).unwrap_or(true) => Reason::Inside,
        _ if captures::are_any() && captures::asks_aside(stream.handle()) => Reason::Capture,
        _ if captures::are_any() => Reason::BesideCapture,
        (Activity::OwnQueues, _) => Reason::Off,
        _ => Reason::Refused,
    }
}

/// The program makes an XQueue for a stream of its own, and what is launched there goes through
/// that from now on, whatever the environment says. `xq` is 0 before there is one. False if this
/// library does not see launches, or cannot use `libpreempt.so`.
#[must_use]
pub fn adopt(stream: Address, xq: u64) -> bool {
    if driver::opened().is_none() {
        return false;
    }
    activity::start_own_queues();
    let Some(_inside) = Inside::enter().filter(|_| preempt::open().is_some()) else {
        return false;
    };
    if xq != 0 {
        streams::renew(stream, xq);
    }
    true
}

/// An XQueue of the program's own is not there any more: what is launched into its stream next goes
/// the way that the environment says. The XQueues that this library ends itself it forgets before.
pub fn disown(xq: u64) {
    if let Some(_inside) = Inside::enter() {
        streams::forget(xq);
    }
}

/// The hardware queue of a stream of the program's, or, for null, of the default stream: that of
/// its next launch, made if there is none. 0 if that launch would bypass it, or if this library
/// gives streams no XQueues.
#[must_use]
pub fn hardware_queue(handle: Address) -> u64 {
    if !activity::gives_queues() {
        return 0;
    }
    let stream = Stream::of(handle, Stream::Legacy);
    let known = || streams::hardware_queue(key(stream)?);
    known().or_else(|| attached(stream, AttachMode::Now).and_then(|_| known())).unwrap_or_default()
}

/// Makes a call that stays in order with the launches of the legacy default stream, where that
/// waits for others: while scheduling is required, as a launch of it that is not counted.
pub fn in_legacy(real: impl FnOnce() -> Code) -> Code {
    if !is_contended() {
        return real();
    }
    match attached(Stream::Legacy, AttachMode::IfNeeded) {
        Some(LaunchPath::Scheduled(scheduled)) => scheduled.launch(Kind::new(0), |_| real()),
        _ => real(),
    }
}

/// Returns whether a handle is that of the legacy default stream.
#[must_use]
pub fn is_legacy(stream: Address) -> bool {
    Stream::of(stream, Stream::Legacy) == Stream::Legacy
}

/// Returns the key of a stream; `None` if there is no default stream to make it from, or no
/// context.
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

/// Returns whether a launch into a stream becomes part of a graph.
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
