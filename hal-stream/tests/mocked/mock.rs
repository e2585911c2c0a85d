//! A device without a driver: streams and events in memory, and a clock that the test sets.

use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use xsched_core::fault::Fault;
use xsched_core::hal::HalError;
use xsched_hal_stream::{About, FlagMemory, StreamApi, StreamKind};

/// The device sees flag memory so far from where the host does.
const DEVICE_SIDE: u64 = 1 << 52;
/// The stream that all blocking streams wait for.
pub(crate) const LEGACY: u64 = 0;
/// A stream that is another one on each thread.
pub(crate) const PER_THREAD: u64 = u64::MAX;

/// Answer of the driver when it is to fail.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed")]
pub(crate) struct MockError {
    pub(crate) call: &'static str,
}

impl HalError for MockError {
    fn kind(&self) -> Fault {
        Fault::Launch
    }
}

/// How the device is, or is not, as it should be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nature {
    /// Streams do not wait for words.
    pub(crate) ignores_waits: bool,
    /// Streams that once waited go on waiting.
    pub(crate) never_opens: bool,
    /// A stream that waits stops all other streams.
    pub(crate) one_ring: bool,
    /// There are no waits.
    pub(crate) no_waits: Option<String>,
    /// The longest flag memory, in bytes, if there is a limit.
    pub(crate) flags_max: Option<usize>,
    /// Entries of a hardware queue, after which a call blocks.
    pub(crate) ring: Option<usize>,
    /// Asking for the end of a stream is cheaper than an event.
    pub(crate) sees_ends: bool,
    /// Answer of streams that are asked if they have a hardware queue of their own.
    pub(crate) own_ring: Option<bool>,
    /// Streams that are made wait for the legacy default stream.
    pub(crate) blocking: bool,
    /// Milliseconds for which a launch of nothing takes its thread away, as other threads on a busy
    /// machine would.
    pub(crate) away_ms: u64,
    /// Time that a launch takes of the host, in nanoseconds of the device's clock.
    pub(crate) launching_ns: u64,
    /// Milliseconds for which other programs keep the device, from the first wait on.
    pub(crate) kept_ms: u64,
}

/// Entry of a stream, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// A wait for the word there.
    Wait(u64),
    /// A command that takes this number of nanoseconds.
    Run(u64),
    /// An event.
    Event,
}

#[derive(Debug)]
enum Op {
    /// The time when it was last seen to hold.
    Wait {
        word: u64,
        held_at: Option<u64>,
    },
    Run {
        ns: u64,
    },
    Record {
        event: u64,
        turn: u64,
    },
}

#[derive(Debug, Default)]
struct Stream {
    ops: VecDeque<(u64, Op)>,
    /// When the last of them ended.
    ended_at: u64,
    puts: Vec<Put>,
    /// Commands that have ended.
    ran: u64,
    /// Set once the stream was destroyed.
    gone: bool,
}

#[derive(Debug, Default)]
struct Event {
    /// Number of the recording that counts.
    turn: u64,
    /// When that completed.
    at: Option<u64>,
}

/// A cache line, so that flag memory is aligned as it should be.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU32; 16]);

#[derive(Debug, Default)]
struct State {
    now: u64,
    streams: BTreeMap<u64, Stream>,
    events: BTreeMap<u64, Event>,
    pages: BTreeMap<u64, Box<[Line]>>,
    /// Lengths of registered memory, by the device's address.
    registered: BTreeMap<u64, u64>,
    made: u64,
    calls: u64,
    fail_at: Option<u64>,
    fail_from: Option<u64>,
    fail_named: Option<&'static str>,
    stalls: Option<(&'static str, u64)>,
    first_wait: Option<Instant>,
}

/// The device.
#[derive(Debug)]
pub(crate) struct Mock {
    pub(crate) nature: Nature,
    /// Calls that are stalled now, also when the device has gone.
    pub(crate) stalled: Arc<AtomicU32>,
    about: About,
    epoch: Instant,
    state: Mutex<State>,
}

impl State {
    fn word(&self, address: u64) -> u32 {
        let registered = self.registered.range(..=address).next_back();
        if registered.is_some_and(|(start, bytes)| address < start + bytes) {
            let host = usize::try_from(address - DEVICE_SIDE).expect("an address");
            let host = std::ptr::with_exposed_provenance::<AtomicU32>(host);
            // SAFETY: registered, so it is alive and touched by atomic operations only.
            return unsafe { &*host }.load(Ordering::SeqCst);
        }
        let (start, lines) = self.pages.range(..=address).next_back().expect("a word of a page");
        let at = usize::try_from(address - start).expect("it is in the page");
        lines[at / 64].0[at % 64 / 4].load(Ordering::SeqCst)
    }

    /// Lets the streams go as far as they get until now.
    fn advance(&mut self, nature: &Nature) {
        let kept = Duration::from_millis(nature.kept_ms);
        if self.first_wait.is_some_and(|since| since.elapsed() < kept) {
            return;
        }
        let numbers: Vec<u64> = self.streams.keys().copied().collect();
        for number in &numbers {
            self.advance_one(*number, nature);
        }
    }

    /// Returns whether a stream other than this waits for a word.
    fn another_waits(&self, number: u64) -> bool {
        self.streams.iter().any(|(n, stream)| {
            let Some((_, Op::Wait { word, .. })) = stream.ops.front() else { return false };
            *n != number && self.word(*word) != 0
        })
    }

    fn advance_one(&mut self, number: u64, nature: &Nature) {
        loop {
            let stream = &self.streams[&number];
            let Some((put_at, op)) = stream.ops.front() else { return };
            let start = stream.ended_at.max(*put_at);
            if start > self.now || (nature.one_ring && self.another_waits(number)) {
                return;
            }
            let end = match *op {
                Op::Wait { word, held_at } => {
                    let holds = self.word(word) != 0 || (nature.never_opens && held_at.is_some());
                    if holds {
                        let now = self.now;
                        let stream = self.streams.get_mut(&number).expect("it is there");
                        stream.ops[0].1 = Op::Wait { word, held_at: Some(now) };
                        return;
                    }
                    start.max(held_at.unwrap_or(0))
                }
                Op::Run { ns } => start + ns,
                Op::Record { .. } => start,
            };
            if end > self.now {
                return;
            }
            let stream = self.streams.get_mut(&number).expect("it is there");
            stream.ended_at = end;
            match stream.ops.pop_front() {
                Some((_, Op::Record { event, turn })) => {
                    let event = self.events.get_mut(&event).filter(|event| event.turn == turn);
                    event.into_iter().for_each(|event| event.at = Some(end));
                }
                Some((_, Op::Run { .. })) => stream.ran += 1,
                _ => {}
            }
        }
    }
}

impl Mock {
    pub(crate) fn new(nature: Nature) -> Self {
        let about = About {
            device: "a device in memory".to_owned(),
            pci: "0000:00:00".to_owned(),
            driver: "none".to_owned(),
            library: "none".to_owned(),
            units: 1,
            priorities: (0, 0),
            side_by_side: false,
        };
        // What the legacy stream gets goes nowhere, as its queue is not used for commands.
        let (epoch, stalled) = (Instant::now(), Arc::default());
        Self { nature, stalled, about, epoch, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with it")
    }

    /// How many pages are registered.
    pub(crate) fn registered(&self) -> usize {
        self.state().registered.len()
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, ns: u64) {
        let mut state = self.state();
        state.advance(&self.nature);
        state.now += ns;
        state.advance(&self.nature);
    }

    /// Commands that have ended so far in the stream that was made last.
    pub(crate) fn ran(&self) -> u64 {
        self.state().streams.values().next_back().map_or(0, |stream| stream.ran)
    }

    /// Calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Has the call with this number fail, counted from now, or it and all later ones.
    pub(crate) fn fail(&self, number: u64, for_good: bool) {
        let mut state = self.state();
        let at = Some(state.calls + number);
        (state.fail_at, state.fail_from) = if for_good { (None, at) } else { (at, None) };
    }

    /// Has all calls of this name fail, or none.
    pub(crate) fn fail_all(&self, name: Option<&'static str>) {
        self.state().fail_named = name;
    }

    /// Has the call of this name that has this number, from 0, take 30 ms.
    pub(crate) fn stall(&self, name: &'static str, number: u64) {
        self.state().stalls = Some((name, number));
    }

    /// No call fails any more.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        (state.fail_at, state.fail_from, state.fail_named) = (None, None, None);
    }

    /// Lists what was put into all streams that were made, by the order in which they were made.
    pub(crate) fn puts(&self) -> Vec<Vec<Put>> {
        self.state().streams.values().map(|stream| stream.puts.clone()).collect()
    }

    /// The word that a stream waited for last.
    pub(crate) fn last_word(&self) -> Option<u64> {
        let state = self.state();
        let puts = &state.streams.values().next_back()?.puts;
        puts.iter().rev().find_map(|put| if let Put::Wait(word) = put { Some(*word) } else { None })
    }

    /// Streams, events and pages that are alive.
    pub(crate) fn alive(&self) -> (usize, usize, usize) {
        let state = self.state();
        let streams = state.streams.values().filter(|stream| !stream.gone).count();
        (streams, state.events.len(), state.pages.len() + state.registered.len())
    }

    fn call(&self, name: &'static str) -> Result<MutexGuard<'_, State>, MockError> {
        let mut state = self.state();
        let number = state.calls;
        state.calls += 1;
        if let Some((stalled, left)) = &mut state.stalls
            && *stalled == name
        {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => {
                    state.stalls = None;
                    drop(state);
                    self.stalled.fetch_add(1, Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(30));
                    self.stalled.fetch_sub(1, Ordering::SeqCst);
                    state = self.state();
                }
            }
        }
        let fails = state.fail_at == Some(number)
            || state.fail_from.is_some_and(|from| number >= from)
            || state.fail_named == Some(name);
        if fails { Err(MockError { call: name }) } else { Ok(state) }
    }

    fn put(&self, name: &'static str, stream: u64, op: Op, put: Put) -> Result<(), MockError> {
        let mut state = self.call(name)?;
        state.advance(&self.nature);
        while self.nature.ring.is_some_and(|ring| state.streams[&stream].ops.len() >= ring) {
            drop(state);
            thread::sleep(Duration::from_micros(50));
            state = self.state();
            state.advance(&self.nature);
        }
        let now = state.now;
        let stream = state.streams.get_mut(&stream).expect("a stream that was made");
        assert!(!stream.gone, "{name} into a stream that was destroyed");
        stream.ops.push_back((now, op));
        stream.puts.push(put);
        state.advance(&self.nature);
        Ok(())
    }
}

impl StreamApi for Mock {
    type Stream = u64;
    type Event = u64;
    /// How long it takes, in nanoseconds.
    type Native = u64;
    type Entered<'a> = ();
    type Error = MockError;

    fn name(&self) -> &'static str {
        "mock"
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn no_waits(&self) -> Option<String> {
        self.nature.no_waits.clone()
    }

    fn enter(&self) -> Result<(), MockError> {
        self.call("enter").map(|_| ())
    }

    fn create_stream(&self, _: Option<i32>) -> Result<u64, MockError> {
        let mut state = self.call("create_stream")?;
        state.made += 1;
        let number = state.made;
        state.streams.insert(number, Stream::default());
        Ok(number)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn destroy_stream(&self, stream: u64) -> Result<(), MockError> {
        let mut state = self.call("destroy_stream")?;
        let stream = state.streams.get_mut(&stream).expect("a stream that was made");
        assert!(!stream.gone, "a stream is destroyed twice");
        stream.gone = true;
        Ok(())
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn synchronize(&self, _: u64) -> Result<(), MockError> {
        self.call("synchronize").map(|_| ())
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn stream_kind(&self, stream: u64) -> Result<StreamKind, MockError> {
        drop(self.call("stream_kind")?);
        let own_ring = self.nature.own_ring;
        match stream {
            PER_THREAD => Err(MockError { call: "stream_kind" }),
            LEGACY => Ok(StreamKind { legacy_default: true, blocking: true, own_ring }),
            _ => {
                let blocking = self.nature.blocking;
                Ok(StreamKind { legacy_default: false, blocking, own_ring })
            }
        }
    }

    fn create_event(&self) -> Result<u64, MockError> {
        let mut state = self.call("create_event")?;
        state.made += 1;
        let number = state.made;
        state.events.insert(number, Event::default());
        Ok(number)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn destroy_event(&self, event: u64) {
        assert!(self.state().events.remove(&event).is_some(), "an event is destroyed twice");
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn record(&self, event: u64, stream: u64) -> Result<(), MockError> {
        let turn = {
            let mut state = self.state();
            let event = state.events.get_mut(&event).expect("an event that is alive");
            event.turn += 1;
            event.at = None;
            event.turn
        };
        self.put("record", stream, Op::Record { event, turn }, Put::Event)
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn query(&self, event: u64) -> Result<bool, MockError> {
        let mut state = self.call("query")?;
        state.advance(&self.nature);
        Ok(state.events[&event].at.is_some())
    }

    fn now(&self) -> Instant {
        self.epoch + Duration::from_nanos(self.state().now)
    }

    fn sees_ends(&self) -> bool {
        self.nature.sees_ends
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn is_done(&self, stream: u64) -> Result<bool, MockError> {
        let mut state = self.call("is_done")?;
        state.advance(&self.nature);
        Ok(state.streams[&stream].ops.is_empty())
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn elapsed_ns(&self, from: u64, to: u64) -> Result<u64, MockError> {
        let state = self.call("elapsed_ns")?;
        let at = |event: u64| state.events[&event].at.expect("it has completed");
        Ok(at(to).checked_sub(at(from)).expect("the latter is later"))
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn wait_zero(&self, stream: u64, word: u64) -> Result<(), MockError> {
        if self.nature.ignores_waits {
            return self.call("wait_zero").map(|_| ());
        }
        self.state().first_wait.get_or_insert_with(Instant::now);
        self.put("wait_zero", stream, Op::Wait { word, held_at: None }, Put::Wait(word))
    }

    fn flag_memory(&self, bytes: usize) -> Result<FlagMemory, MockError> {
        let mut state = self.call("flag_memory")?;
        if self.nature.flags_max.is_some_and(|max| bytes > max) {
            return Err(MockError { call: "flag_memory" });
        }
        let lines: Box<[Line]> = (0..bytes.div_ceil(64)).map(|_| Line::default()).collect();
        let host = NonNull::new(lines.as_ptr().cast_mut().cast()).expect("it is allocated");
        let device = host.addr().get() as u64 + DEVICE_SIDE;
        state.pages.insert(device, lines);
        Ok(FlagMemory { host, device, bytes })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn register_flags(
        &self,
        host: NonNull<AtomicU32>,
        bytes: usize,
    ) -> Result<FlagMemory, MockError> {
        let mut state = self.call("register_flags")?;
        let device = host.as_ptr().expose_provenance() as u64 + DEVICE_SIDE;
        state.registered.insert(device, bytes as u64);
        Ok(FlagMemory { host, device, bytes })
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn free_flags(&self, memory: FlagMemory) {
        assert!(self.state().pages.remove(&memory.device).is_some(), "a page is freed twice");
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn unregister_flags(&self, memory: FlagMemory) {
        assert!(self.state().registered.remove(&memory.device).is_some(), "taken back twice");
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch_nothing(&self, stream: u64) -> Result<(), MockError> {
        thread::sleep(Duration::from_millis(self.nature.away_ms));
        self.put("launch_nothing", stream, Op::Run { ns: 0 }, Put::Run(0))
    }

    // SAFETY: it asks of its callers what the trait does.
    unsafe fn launch_native(&self, ns: &u64, stream: u64) -> Result<(), MockError> {
        self.pass(self.nature.launching_ns);
        self.put("launch_native", stream, Op::Run { ns: *ns }, Put::Run(*ns))
    }
}
