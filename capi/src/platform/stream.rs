//! Streams of GPUs.

mod cuda;
mod own;
mod units;
mod unopened;

use std::any::Any;
use std::ffi::{OsStr, c_void};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use xsched::{Device, Runtime, XQueue, XQueueConfig};
use xsched_core::hint::{Hints, Priority};
use xsched_core::level::Level;
use xsched_hal_cuda::{CudaApi, GateAt, GateWord};
use xsched_hal_hip::{HipApi, HipConfig, HipLibrary, HipStream};
use xsched_hal_kfd::Reason;
use xsched_hal_process::burst::Burst;
use xsched_hal_stream::{
    Gates, GatesIn, HeldFor, HeldRing, LastPoint, Point, Spacing, StreamApi, StreamCommand,
    StreamConfig, StreamDevice, StreamDeviceConfig, StreamSubmit, Timeline, spacing_ns,
};
use xsched_node::{LEASE, Link, PageSource, SharedPage, Unit};

pub(crate) use cuda::CudaDevices;
use own::hip_device;
use units::{StreamUnit, Units};

use super::gpu::{Asked, Vendor, reason, said};
use super::{Hardware, call_for, call_now};
use crate::backend::{Device as Wrapped, Lower};
use crate::command::{Command, Does};
use crate::contention;
use crate::refusal::{Answer, Refusal};
use crate::side::Side;
use crate::types::{HwQueueHandle, XQueueHandle};

/// The default stream of HIP's device 0 is known by this number, which is no stream's address, and
/// that of device 1 by the next.
const HIP_DEFAULT_STREAMS: usize = 16;
/// `hipStreamPerThread`.
const HIP_STREAM_PER_THREAD: usize = 2;

/// A GPU of the runtime, one of the devices that it is below, and what adds level 3.
#[derive(Debug)]
struct Pair<A: Vendor> {
    below: StreamDevice<A>,
    device: Device<Wrapped<A::Gpu>>,
    lv3: A::Lv3,
    /// Where streams are held apart by the scheduler of the node.
    units: Option<Units>,
}

impl<A: Vendor> Clone for Pair<A> {
    fn clone(&self) -> Self {
        let (below, device) = (self.below.clone(), self.device.clone());
        Self { below, device, lv3: self.lv3.clone(), units: self.units.clone() }
    }
}

/// The pages of the process on a GPU. The first one tells whether the process has to be told from
/// others.
#[derive(Debug)]
struct Followed {
    unit: Arc<Unit>,
    is_followed: AtomicBool,
}

impl Followed {
    fn new(unit: &Arc<Unit>) -> Self {
        Self { unit: Arc::clone(unit), is_followed: AtomicBool::new(false) }
    }
}

impl PageSource for Followed {
    fn page(&self) -> io::Result<Arc<SharedPage>> {
        let page = self.unit.page()?;
        if !self.is_followed.swap(true, Ordering::Relaxed) {
            contention::follow(&page);
        }
        Ok(page)
    }
}

impl<A: Vendor> Pair<A> {
    fn open(
        runtime: &Runtime,
        api: Result<A, A::Error>,
        link: Option<&Arc<Link>>,
        sees_all_launches: bool,
    ) -> Answer<Self> {
        let api = api.map_err(|error| Refusal::hardware(error.to_string()))?;
        let unit = link.map(|link| xsched::node::unit_of(link, api.about()));
        let mut config = StreamDeviceConfig::default();
        config.sees_all_launches = sees_all_launches;
        let pages = unit.as_ref().map(|unit| Arc::new(Followed::new(unit)) as Arc<dyn PageSource>);
        let below = match &pages {
            Some(pages) => {
                config.hold_lease = LEASE;
                StreamDevice::in_unit(api, config, Arc::clone(pages))
            }
            None => StreamDevice::new(api, config),
        };
        let below = below.map_err(|error| Refusal::hardware(error.to_string()))?;
        let (gpu, lv3) = A::gpu(&below);
        let device = runtime.device(Wrapped(gpu))?;
        if let Some((unit, pages)) = unit.zip(pages) {
            xsched::node::report_from(&device, unit, pages);
        }
        Ok(Self { below, device, lv3, units: None })
    }

    /// A queue on the default stream of the calling thread, which alone launches into it. Nothing
    /// finds it by an address.
    fn queue_of_thread(self, stream: A::Stream) -> Box<dyn Hardware> {
        let mut hardware = StreamHardware::new(self, stream, 0, None);
        hardware.of_thread = true;
        Box::new(hardware)
    }

    /// A queue on a stream that the caller vouches for.
    fn queue(
        self,
        stream: A::Stream,
        address: usize,
        spacing_us: Option<u32>,
    ) -> Answer<Box<dyn Hardware>> {
        let api = self.below.api();
        let entered = api.enter().map_err(|error| Refusal::hardware(error.to_string()))?;
        // SAFETY: the caller that made the hardware queue promised that the stream is alive.
        let kind = unsafe { api.stream_kind(stream) };
        drop(entered);
        kind.map_err(|error| Refusal::invalid(format!("the stream cannot be used: {error}")))?;
        Ok(Box::new(StreamHardware::new(self, stream, address, spacing_us)))
    }
}

/// The devices of HIP that were used.
#[derive(Debug)]
pub(crate) struct HipDevices {
    known: Mutex<HipKnown>,
    /// The connection with the scheduler of the node, which is set before the first device is used.
    pub(crate) link: OnceLock<Arc<Link>>,
    /// Predicted work between two gates of a stream, if not as by default; see the environment.
    spacing_us: Option<u32>,
}

#[derive(Debug, Default)]
struct HipKnown {
    library: Option<Arc<HipLibrary>>,
    all: Vec<(u32, Pair<HipApi>)>,
}

impl HipDevices {
    /// None. Their streams have this much predicted work between two gates.
    pub(crate) fn new(spacing_us: Option<u32>) -> Self {
        Self { known: Mutex::default(), link: OnceLock::new(), spacing_us }
    }

    /// A hardware queue on a stream. The first one on a device says whether an interposer hands
    /// over all that is launched there.
    ///
    /// # Safety
    /// It is a live stream of HIP, and outlives the queue.
    pub(crate) unsafe fn queue(
        &self,
        runtime: &Runtime,
        stream: *mut c_void,
        sees_all_launches: bool,
    ) -> Answer<Box<dyn Hardware>> {
        checked_address(stream)?;
        // SAFETY: as the caller promises.
        unsafe { self.queue_of_any(runtime, stream, sees_all_launches) }
    }

    /// A hardware queue on a stream, or, for null, on the default stream of this thread's device.
    ///
    /// # Safety
    /// As [`HipDevices::queue`].
    pub(crate) unsafe fn queue_of_any(
        &self,
        runtime: &Runtime,
        stream: *mut c_void,
        sees_all_launches: bool,
    ) -> Answer<Box<dyn Hardware>> {
        let address = self.address(stream)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let library = known.library()?;
        // A thread's default stream is that of its device.
        let asked = if address.is_some() { stream } else { std::ptr::null_mut() };
        // SAFETY: as the caller promises.
        let ordinal = unsafe { hip_device(&library, asked) }?;
        let link = self.link.get();
        let pair = known.pair(runtime, library, ordinal, link, sees_all_launches)?;
        drop(known);
        let stream = HipStream::from_raw(stream);
        match address {
            Some(address) => pair.queue(stream, address, self.spacing_us),
            None => Ok(pair.queue_of_thread(stream)),
        }
    }

    /// The gates of all devices.
    pub(crate) fn gates(&self) -> Vec<Gates> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.all.iter().map(|(_, pair)| pair.below.gates()).collect()
    }

    /// Key of a stream; for null it stands for this thread's device, and a thread's
    /// default stream is not found.
    pub(crate) fn address(&self, stream: *mut c_void) -> Answer<Option<usize>> {
        if stream.addr() == HIP_STREAM_PER_THREAD {
            return Ok(None);
        }
        if !stream.is_null() {
            return checked_address(stream).map(Some);
        }
        let library = self.known.lock().unwrap_or_else(PoisonError::into_inner).library()?;
        // SAFETY: null is allowed.
        let ordinal = unsafe { hip_device(&library, stream) }?;
        Ok(Some(HIP_DEFAULT_STREAMS + ordinal as usize))
    }

    /// Has the runtime be the library at this path, unless one was used before.
    ///
    /// # Safety
    /// It is HIP's runtime.
    pub(crate) unsafe fn load_from(&self, path: &OsStr) -> Answer {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.library.is_none() {
            // SAFETY: as the caller promises.
            let opened = unsafe { HipLibrary::open(path) };
            known.library = Some(opened.map_err(|error| Refusal::hardware(error.to_string()))?);
        }
        Ok(())
    }

    /// Forgets the device with this number, which its queues have left and the program resets. The
    /// last reference may be another thread's.
    pub(crate) fn forget(&self, ordinal: u32) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = known.all.extract_if(.., |(at, _)| *at == ordinal).collect();
        drop(known);
        gone.iter().for_each(|(_, pair)| pair.below.api().leave_to_reset());
        drop(gone);
    }
}

impl HipKnown {
    /// The device with this number, opened if it is not.
    fn pair(
        &mut self,
        runtime: &Runtime,
        library: Arc<HipLibrary>,
        ordinal: u32,
        link: Option<&Arc<Link>>,
        sees_all_launches: bool,
    ) -> Answer<Pair<HipApi>> {
        if let Some((_, pair)) = self.all.iter().find(|(at, _)| *at == ordinal) {
            return Ok(pair.clone());
        }
        let config = HipConfig { device: ordinal, ..HipConfig::default() };
        let api = HipApi::with_library(library, config);
        let pair = Pair::open(runtime, api, link, sees_all_launches)?;
        self.all.push((ordinal, pair.clone()));
        Ok(pair)
    }

    /// The runtime, which is looked for if none was used before.
    fn library(&mut self) -> Answer<Arc<HipLibrary>> {
        if let Some(library) = &self.library {
            return Ok(Arc::clone(library));
        }
        let found = HipLibrary::find().map_err(|error| Refusal::hardware(error.to_string()))?;
        Ok(Arc::clone(self.library.insert(found)))
    }
}

/// The address of a stream that may have a queue.
fn checked_address(stream: *mut c_void) -> Answer<usize> {
    match stream.expose_provenance() {
        // The legacy default stream, and the one of each thread.
        0..=2 => Err(Refusal::not_supported(
            "a default stream cannot have an XQueue; create a stream for it",
        )),
        address => Ok(address),
    }
}

/// A stream.
#[derive(Debug)]
pub(super) struct StreamHardware<A: Vendor> {
    pair: Pair<A>,
    stream: A::Stream,
    address: usize,
    /// The stream is the default stream of the thread that launches.
    of_thread: bool,
    /// The stream is the library's, and ends with this.
    owned: bool,
    /// Why the XQueue that was opened last has no level 3, if it was asked for.
    no_lv3: Reason,
    /// Why it has no gates of its own, or what limits them.
    gates: Reason,
    /// Predicted work between two gates, if the environment says how much.
    spacing_us: Option<u32>,
    /// Spacing of the gates of the XQueues in the stream.
    spacing: Spacing,
    /// Word of the gates of the XQueue that was opened last, if it has gates.
    word: Mutex<Option<GateWord<A>>>,
    /// Burst of the XQueue that was opened last.
    burst: Mutex<Option<Burst>>,
    /// How far the stream has got, for others that wait for it.
    timeline: Timeline<A>,
    /// The XQueue that was opened last is a unit of its own.
    unit: Mutex<Option<StreamUnit>>,
}

impl<A: Vendor> StreamHardware<A> {
    fn new(pair: Pair<A>, stream: A::Stream, address: usize, spacing_us: Option<u32>) -> Self {
        let this = Self {
            timeline: Timeline::new(&pair.below),
            pair,
            stream,
            address,
            of_thread: false,
            owned: false,
            no_lv3: reason(),
            gates: reason(),
            spacing_us,
            spacing: if spacing_us.is_none() { Spacing::widening() } else { Spacing::default() },
            word: Mutex::default(),
            burst: Mutex::default(),
            unit: Mutex::default(),
        };
        this.place_gates(true);
        this
    }

    fn unit(&self) -> MutexGuard<'_, Option<StreamUnit>> {
        self.unit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A unit for this stream, if it can be held apart from others, and the word of its gates.
    fn connect(&self) -> Option<(StreamUnit, GateWord<A>)> {
        let units = self.pair.units.as_ref().filter(|_| !self.of_thread)?;
        let api = self.pair.below.api();
        let entered = api.enter().ok()?;
        // SAFETY: the caller that made the hardware queue promised that the stream is alive.
        let kind = unsafe { api.stream_kind(self.stream) }.ok()?;
        drop(entered);
        if kind.blocking || kind.legacy_default {
            return None;
        }
        let unit = units.connect(&api.about().pci)?;
        let word = self.pair.below.gate_word_of(&**unit.unit()).ok()?;
        Some((unit, word))
    }

    /// Predicted work between two gates, in nanoseconds, unless the environment says how much.
    fn spacing_ns(&self, held_for: HeldFor, gates_in: GatesIn) -> u64 {
        self.spacing_us.map_or(spacing_ns(held_for, gates_in), |us| u64::from(us) * 1_000)
    }

    /// Opens an XQueue that is held with the process, or is this unit.
    fn open_in(
        &self,
        unit: Option<(&StreamUnit, GateWord<A>)>,
        level: Level,
        config: XQueueConfig,
        side: &Arc<Side>,
    ) -> Answer<XQueue<Command>> {
        let stream = StreamConfig::default();
        // SAFETY: the caller that made the hardware queue promised that the stream outlives it, or
        // that its thread alone launches.
        let stream = unsafe {
            if self.of_thread {
                stream.on_stream_of_thread(self.stream)
            } else {
                stream.on_stream(self.stream)
            }
        };
        // The scheduler of the node holds the process by its gates, whatever level it has itself.
        let in_unit = self.pair.below.is_in_unit();
        let gated = if in_unit { Level::Deactivate } else { level.min(Level::Deactivate) };
        let mut stream = stream.level_max(gated).spacing(self.spacing.clone());
        let held = HeldRing::default();
        let burst = Burst::take();
        stream = stream.reason_to(Arc::clone(&self.gates)).held_ring_to(&held).burst(&burst);
        // Known before, so that graphs can have it in gates of their own.
        let (unit, word) = match unit {
            Some((unit, word)) => (Some(unit), Some(word)),
            None if gated > Level::Block => (None, self.pair.below.gate_word().ok()),
            None => (None, None),
        };
        if let Some(word) = &word {
            stream = stream.with_gate(word);
        }
        *self.no_lv3.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let (below, reason) = (self.pair.below.clone(), Arc::clone(&self.no_lv3));
        let asked = Asked { below, config: stream, stream: self.stream, level, reason, held };
        let hardware = (A::config(asked), Arc::clone(side));
        let xq = match unit {
            Some(unit) => {
                let watch = xsched::node::report_one(Arc::clone(unit.unit()));
                self.pair.device.queue_watched(config, hardware, watch)?
            }
            None => self.pair.device.queue(config, hardware)?,
        };
        let word = word.filter(|_| in_unit || xq.caps().deactivate.is_some());
        *self.word.lock().unwrap_or_else(PoisonError::into_inner) = word;
        *self.burst.lock().unwrap_or_else(PoisonError::into_inner) = Some(burst);
        Ok(xq)
    }
}

impl<A: Vendor> Hardware for StreamHardware<A> {
    fn open(
        &self,
        level: Level,
        config: XQueueConfig,
        side: &Arc<Side>,
    ) -> Answer<XQueue<Command>> {
        *self.unit() = None;
        if let Some((unit, word)) = self.connect() {
            let xq = self.open_in(Some((&unit, word)), level, config.clone(), side)?;
            if xq.caps().deactivate.is_some() {
                unit.begin();
                *self.unit() = Some(unit);
                return Ok(xq);
            }
        }
        self.open_in(None, level, config, side)
    }

    fn launch(&self, command: Command, hwq: HwQueueHandle) -> Answer {
        let Does::Launch(function, data) = command.does() else {
            return Err(Refusal::invalid("the command is one for the host device"));
        };
        let entered = self.pair.below.api().enter();
        let entered = entered.map_err(|error| Refusal::hardware(error.to_string()))?;
        let called = call_now(function, hwq, data);
        drop(entered);
        called
    }

    fn synchronize(&self) -> Answer {
        if self.of_thread {
            return Err(Refusal::not_supported(
                "only its thread can wait for a thread's default stream",
            ));
        }
        let failed = |error: A::Error| Refusal::hardware(error.to_string());
        let api = self.pair.below.api();
        let entered = api.enter().map_err(failed)?;
        // SAFETY: the caller that made the hardware queue promised that the stream is alive.
        let done = unsafe { api.synchronize(self.stream) };
        drop(entered);
        done.map_err(failed)
    }

    fn why_no_higher(&self, level: Level) -> String {
        let no_lv3 = said(&self.no_lv3).map(|why| format!("level 3: {why}"));
        let no_gate = self.pair.below.no_gate().map(ToString::to_string);
        let no_gate = no_gate.or_else(|| said(&self.gates));
        let no_gate = no_gate.unwrap_or_else(|| "it has no gates".to_owned());
        match no_lv3 {
            Some(why) if level > Level::Block => why,
            Some(why) => format!("level 2: {no_gate}; {why}"),
            None => no_gate,
        }
    }

    fn how_held(&self, level: Level) -> Option<String> {
        match level {
            _ if self.unit().is_some() => Some("`xschedd` holds it by itself".to_owned()),
            Level::Block if self.pair.below.is_in_unit() => {
                Some("`xschedd` holds it with the process, at level 2".to_owned())
            }
            Level::Block => None,
            Level::Deactivate | Level::Interrupt => said(&self.gates),
        }
    }

    fn tell_interposer(&self, xq: XQueueHandle) {
        A::INTERPOSER.adopt(self.address, xq);
    }

    fn tell_interposer_of_end(&self, xq: XQueueHandle) {
        A::INTERPOSER.disown(xq);
    }

    fn is_host(&self) -> bool {
        false
    }

    fn stream(&self) -> usize {
        self.address
    }

    fn has_gates_of_process(&self) -> bool {
        let word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        let below = &self.pair.below;
        below.is_in_unit() && below.no_gate().is_none() && word.is_some()
    }

    fn burst(&self) -> Option<Burst> {
        self.burst.lock().ok()?.clone()
    }

    fn place_gates(&self, are_close: bool) {
        let held_for = match are_close {
            _ if !self.pair.below.is_in_unit() => HeldFor::Process,
            true => HeldFor::Others,
            false => HeldFor::None,
        };
        let ns = self.spacing_ns(held_for, GatesIn::Stream);
        // The line stays shared by the threads that launch.
        if self.spacing.ns() != ns {
            self.spacing.set_ns(ns);
        }
    }

    fn gates_of_graphs(&self) -> Option<GateAt> {
        let this = (self as &dyn Any).downcast_ref::<StreamHardware<CudaApi>>()?;
        let word = this.word.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        // Whether a launch of the graph needs them is decided when it is launched.
        let held_for = if contention::is_below_others() { HeldFor::Others } else { HeldFor::None };
        let spacing_ns = this.spacing_ns(held_for, GatesIn::Graph);
        Some(GateAt { device: this.pair.below.clone(), word, spacing_ns })
    }

    fn last_point(&self) -> LastPoint {
        self.timeline.last_point()
    }

    fn signal(&self) -> Option<Point> {
        let log = |error: &_| tracing::debug!("a wait for a stream is left to its event: {error}");
        // SAFETY: the caller that made the hardware queue promised that the stream is alive.
        unsafe { self.timeline.signal(self.stream) }.inspect_err(log).unwrap_or(None)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn wait_for(&self, point: Point) {
        // SAFETY: as above, and as the caller promises of the point.
        if let Err(error) = unsafe { self.timeline.wait(self.stream, point) } {
            tracing::debug!("a wait for a stream is left to its event: {error}");
        }
    }

    fn tell_node(&self, hints: &Hints, highest: Priority) -> bool {
        self.unit().as_ref().inspect(|unit| unit.tell(hints, highest)).is_some()
    }

    fn is_rest_awaited(&self) -> bool {
        self.pair.units.as_ref().is_some_and(Units::is_rest_awaited)
    }

    fn note_awaited(&self) -> bool {
        self.pair.below.note_wait();
        match (&*self.unit(), &self.pair.units) {
            (Some(unit), _) => unit.note_awaited(),
            (None, Some(units)) => units.note_rest_awaited(),
            (None, None) => false,
        }
    }

    fn end_gates(&self) -> bool {
        if self.unit().is_some() {
            // It has the priority of those that wait.
            return false;
        }
        let mut word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        if self.pair.below.is_in_unit() {
            // The node's scheduler goes on to hold all streams together.
            return word.as_ref().inspect(|word| word.stay_open()).is_some();
        }
        word.take().inspect(GateWord::stay_open).is_some()
    }
}

impl<A: StreamApi> Lower for StreamSubmit<A> {
    fn lower(does: Does, side: &Arc<Side>, number: u64) -> StreamCommand<A> {
        if let Does::CallerLaunches { kind, reach } = does {
            return StreamCommand::of_caller().of_kind(kind).reaching(reach);
        }
        let side = Arc::clone(side);
        StreamCommand::new(move |_| {
            // Others are refused when they are submitted.
            if let Does::Launch(function, data) = does {
                call_for(function, data, &side, number);
            }
            Ok(())
        })
    }
}
