//! Counters, and the file that they are written to.
//!
//! If `XSCHED_SHIM_COUNTS` names a file when the vendor's library, the driver, is opened, a process
//! that ends by `exit` writes it, as JSON:
//!
//! | key | meaning |
//! |---|---|
//! | `pid` | the process |
//! | `driver` | the driver's file |
//! | `launches` | calls of each function of the class `launch` |
//! | `scheduled` | those of them that went to their streams' XQueues |
//! | `alone` | those of these that were made at once, since nothing told the streams apart |
//! | `streams` | streams by the level that their XQueues got, 0 to 3, and why it was not higher |
//! | `later` | streams that have no XQueue yet, as they are like one that has |
//! | `past` | launches that went past XQueues, by the reason |
//! | `held_times` | times between events that may contain a hold of the stream or the process |
//! | `handed_out_past` | names for which the driver handed out functions not listed: how often |
//! | `not_listed` | functions that the driver exports and the list lacks |
//!
//! `%p` in the path stands for the process, and `%v` for the vendor, `cuda` or `hip`: a process may
//! use both. The child of a fork counts anew.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int};
use std::fs;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use object::elf::FileHeader64;
use object::read::ReadCache;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};
use serde_json::{Value, json};
use xsched_hal_process::environment::variable;
use xsched_hal_process::message;

use crate::activity::is_on;
use crate::driver::{self, Driver};
use crate::vendor::{Class, Vendor};

const VARIABLE: &str = "XSCHED_SHIM_COUNTS";

/// How often a function of the list was called, in each way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Without those that are direct, so that each of those is counted in one place.
    launches: AtomicU64,
    tracked: AtomicU64,
    direct: AtomicU64,
}

/// A level, and why it is not higher.
pub(crate) type Level = (c_int, String);

/// The levels of streams.
#[derive(Debug)]
struct Streams {
    /// Of those that there are, by their XQueues, and whether something of them was launched that
    /// may go into other hardware queues.
    live: BTreeMap<u64, (Level, bool)>,
    /// How many have ended.
    ended: BTreeMap<Level, u64>,
}

impl Streams {
    const fn new() -> Self {
        Self { live: BTreeMap::new(), ended: BTreeMap::new() }
    }

    fn end(&mut self, xq: u64) {
        if let Some((level, _)) = self.live.remove(&xq) {
            *self.ended.entry(level).or_default() += 1;
        }
    }

    fn by_level(&self) -> BTreeMap<Level, u64> {
        let mut all = self.ended.clone();
        for (level, _) in self.live.values() {
            *all.entry(level.clone()).or_default() += 1;
        }
        all
    }
}

static STREAMS: Mutex<Streams> = Mutex::new(Streams::new());
/// Streams that get XQueues later.
static LATER: AtomicUsize = AtomicUsize::new(0);
/// Times between events that may contain a hold.
static HELD_TIMES: AtomicU64 = AtomicU64::new(0);
static PAST: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Why a launch bypasses XQueues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Off,
    Library,
    Child,
    Inside,
    Capture,
    BesideCapture,
    Unknown,
    Refused,
}

/// The reasons in words, in the order of [`Reason`].
const REASONS: [&str; 8] = [
    "XSCHED_AUTO_XQUEUE is not ON",
    "libpreempt.so cannot be used",
    "in the child of a fork, after the driver was initialised",
    "within another launch",
    "while a stream was being captured",
    "beside a capture, before their stream had an XQueue",
    "their stream is not known",
    "libpreempt.so refused them",
];

/// How many launches bypassed XQueues for each reason.
static REASONED: [AtomicU64; REASONS.len()] = [const { AtomicU64::new(0) }; REASONS.len()];
/// How many launches bypassed XQueues while this library schedules, for `libpreempt.so` to read.
static ALL_BYPASSED: AtomicU64 = AtomicU64::new(0);
/// Set if counts are asked for.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Returns whether the environment asks for counts.
pub(crate) fn are_asked_for() -> bool {
    variable(VARIABLE).is_some()
}

/// Returns whether counts are asked for.
pub(crate) fn are_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

/// Counts a time between events that may contain a hold.
pub(crate) fn held_time() {
    HELD_TIMES.fetch_add(1, Ordering::Relaxed);
}

/// Where launches are counted that bypass XQueues while this library schedules.
pub(crate) const fn all_bypassed() -> *const u64 {
    ALL_BYPASSED.as_ptr()
}

/// Counts that a launch bypasses XQueues, and why, if counts are asked for.
pub(crate) fn bypassed(reason: impl FnOnce() -> Reason) {
    if is_on() {
        ALL_BYPASSED.fetch_add(1, Ordering::Relaxed);
    }
    if IS_WANTED.load(Ordering::Relaxed)
        && let Some(count) = REASONED.get(reason() as usize)
    {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a launch by the function at this place of the list, which is not made at once.
pub(crate) fn launch(index: usize) {
    add(index, |calls| &calls.launches);
}

/// Counts that one went through an XQueue.
pub(crate) fn tracked(index: usize) {
    add(index, |calls| &calls.tracked);
}

/// Counts a launch within a burst of an XQueue, if counts are asked for.
#[inline]
pub(crate) fn in_burst(index: usize) {
    if IS_WANTED.load(Ordering::Relaxed) {
        launch(index);
        tracked(index);
    }
}

/// Counts a launch that is made at once, if counts are asked for: otherwise it writes nothing that
/// other threads write.
#[inline]
pub(crate) fn direct(index: usize) {
    if IS_WANTED.load(Ordering::Relaxed) {
        add(index, |calls| &calls.direct);
    }
}

fn add(index: usize, of: impl FnOnce(&Calls) -> &AtomicU64) {
    if let Some(calls) = driver::opened().and_then(|driver| driver.calls().get(index)) {
        of(calls).fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts that the driver handed out a function that the list lacks. If another thread counts at
/// this moment, it does not: the child of a fork may wait for that thread for ever.
pub(crate) fn past(name: &CStr) {
    if let Ok(mut past) = PAST.try_lock() {
        *past.entry(name.to_string_lossy().into_owned()).or_default() += 1;
    }
}

/// Counts that a stream has got an XQueue of this level, and why not of a higher one, if counts are
/// asked for.
pub(crate) fn stream(xq: u64, level: impl FnOnce() -> Option<Level>) {
    with_streams(|streams| {
        streams.live.extend(level().map(|level| (xq, (level, false))));
        if xq == 0 {
            streams.end(xq);
        }
    });
}

/// A stream has had a launch that may go into other hardware queues as well, which may change why
/// it has no higher level.
pub(crate) fn spread(xq: u64, level: impl FnOnce() -> Option<Level>) {
    with_streams(|streams| {
        if let Some((known, is_spread)) = streams.live.get_mut(&xq).filter(|(_, spread)| !spread)
            && let Some(level) = level()
        {
            (*known, *is_spread) = (level, true);
        }
    });
}

/// Counts that a stream gets its XQueue later. If it ends without one, it stays counted.
pub(crate) fn later() {
    LATER.fetch_add(1, Ordering::Relaxed);
}

/// One of these gets its XQueue.
pub(crate) fn not_later() {
    LATER.fetch_sub(1, Ordering::Relaxed);
}

/// The stream of an XQueue ends, and its count stays.
pub(crate) fn end_stream(xq: u64) {
    with_streams(|streams| streams.end(xq));
}

/// If counts are asked for, and no other thread counts streams just now.
fn with_streams(count: impl FnOnce(&mut Streams)) {
    if IS_WANTED.load(Ordering::Relaxed)
        && let Ok(mut streams) = STREAMS.try_lock()
    {
        count(&mut streams);
    }
}

/// Sees to it that the counts are written when the process ends, if they are asked for.
pub(crate) fn start() {
    if are_asked_for() {
        IS_WANTED.store(true, Ordering::Relaxed);
        // SAFETY: the functions stay, since this library is never unloaded. What is called in a
        // child stores, and waits for nothing.
        unsafe {
            libc::atexit(write);
            libc::pthread_atfork(None, None, Some(begin_anew));
        }
    }
}

/// Begins with zeros, in the child of a fork.
extern "C" fn begin_anew() {
    for calls in driver::opened().into_iter().flat_map(Driver::calls) {
        for count in [&calls.launches, &calls.tracked, &calls.direct] {
            count.store(0, Ordering::Relaxed);
        }
    }
    for count in &REASONED {
        count.store(0, Ordering::Relaxed);
    }
    LATER.store(0, Ordering::Relaxed);
    HELD_TIMES.store(0, Ordering::Relaxed);
    if let Ok(mut past) = PAST.try_lock() {
        past.clear();
    }
    if let Ok(mut streams) = STREAMS.try_lock() {
        *streams = Streams::new();
    }
}

extern "C" fn write() {
    let Some(path) = variable(VARIABLE) else { return };
    let vendor = driver::opened().map_or("", |driver| driver.vendor().library.vendor);
    let path = path.to_string_lossy().replace("%p", &std::process::id().to_string());
    let path = path.replace("%v", &vendor.to_lowercase());
    if let Err(error) = fs::write(&path, format!("{:#}\n", counts())) {
        message::line(format_args!("xsched: cannot write {path}, which {VARIABLE} names: {error}"));
    }
}

fn counts() -> Value {
    let past = PAST.try_lock().map(|past| past.clone()).unwrap_or_default();
    let driver = driver::opened();
    let path = driver.map(Driver::path);
    let all = |of: fn(&Calls) -> u64| driver.map(|driver| by_name(driver, of)).unwrap_or_default();
    json!({
        "pid": std::process::id(),
        "driver": path.map(|path| path.to_string_lossy()),
        "launches": all(|calls| sum(&[&calls.launches, &calls.direct])),
        "scheduled": all(|calls| sum(&[&calls.tracked, &calls.direct])),
        "alone": all(|calls| sum(&[&calls.direct])),
        "streams": by_level(),
        "later": LATER.load(Ordering::Relaxed),
        "past": by_reason(),
        "held_times": HELD_TIMES.load(Ordering::Relaxed),
        "handed_out_past": past,
        "not_listed": driver.and_then(not_listed).unwrap_or_default(),
    })
}

/// Returns the counts of streams, those of the lowest level first.
fn by_level() -> Vec<Value> {
    let streams = STREAMS.try_lock().map(|streams| streams.by_level()).unwrap_or_default();
    let row = |((level, why), count)| json!({"level": level, "why": why, "streams": count});
    streams.into_iter().map(row).collect()
}

/// Returns the counts of reasons, without zeros.
fn by_reason() -> BTreeMap<&'static str, u64> {
    let counts = REASONED.iter().map(|count| count.load(Ordering::Relaxed));
    REASONS.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect()
}

fn sum(counts: &[&AtomicU64]) -> u64 {
    counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

/// Returns the counts of launches, by their names, without zeros.
fn by_name(driver: &Driver, of: fn(&Calls) -> u64) -> BTreeMap<String, u64> {
    let table = &driver.vendor().table;
    let all = table.names.iter().zip(table.classes).zip(driver.calls());
    let launches = all.filter(|((_, class), calls)| **class == Class::Launch && of(calls) > 0);
    launches.map(|((name, _), calls)| (name.to_string_lossy().into_owned(), of(calls))).collect()
}

/// The functions that a driver exports and the list lacks, sorted; `None` if its file cannot be
/// read.
fn not_listed(driver: &Driver) -> Option<Vec<String>> {
    let file = ReadCache::new(File::open(driver.path()).ok()?);
    let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&file).ok()?;
    let is_function =
        |symbol: &object::read::elf::ElfSymbol<'_, '_, FileHeader64<Endianness>, _>| {
            symbol.is_definition() && symbol.kind() == SymbolKind::Text
        };
    let names = elf.dynamic_symbols().filter(is_function).filter_map(|symbol| {
        let name = symbol.name().ok()?;
        lacks(driver.vendor(), name).then(|| name.to_owned())
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    Some(names)
}

fn lacks(vendor: &Vendor, name: &str) -> bool {
    let table = &vendor.table;
    let known = table.names.binary_search_by(|known| known.to_bytes().cmp(name.as_bytes()));
    let is_function = table.prefixes.iter().any(|prefix| name.starts_with(prefix));
    is_function && known.is_err() && !vendor.is_left_out(name)
}
