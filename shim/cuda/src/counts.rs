//! What is counted, and the file that it is written to.
//!
//! If `XSCHED_SHIM_COUNTS` names a file when the driver is opened, a process that ends by `exit`
//! writes it, as JSON:
//!
//! | key | meaning |
//! |---|---|
//! | `pid` | the process |
//! | `driver` | the driver's file |
//! | `launches` | calls of each function of the class `launch` |
//! | `scheduled` | those of them that went to their streams' XQueues |
//! | `alone` | those of these that were made at once, since nothing told the streams apart |
//! | `handed_out_past` | names for which `cuGetProcAddress` gave functions not listed: how often |
//! | `not_listed` | functions that the driver exports and the list lacks |
//!
//! `%p` in the path stands for the process. The child of a fork counts on from what its parent had.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use object::elf::FileHeader64;
use object::read::ReadCache;
use object::read::elf::ElfFile;
use object::{Endianness, Object, ObjectSymbol, SymbolKind};
use serde_json::{Value, json};

use crate::environment::variable;
use crate::table::{CLASSES, COUNT, Class, NAMES};
use crate::{driver, table};

const VARIABLE: &str = "XSCHED_SHIM_COUNTS";

/// How often each function of the list was called, in a way.
type Calls = [AtomicU64; COUNT];

/// Launches that are not counted as made at once, so that each of those is counted in one place.
static LAUNCHES: Calls = [const { AtomicU64::new(0) }; COUNT];
static TRACKED: Calls = [const { AtomicU64::new(0) }; COUNT];
static ALONE: Calls = [const { AtomicU64::new(0) }; COUNT];
static PAST: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Counts a launch by the function at this place of the list, which is not made at once.
pub(crate) fn launch(index: usize) {
    add(&LAUNCHES, index);
}

/// Counts that one went through an XQueue.
pub(crate) fn tracked(index: usize) {
    add(&TRACKED, index);
}

/// Counts a launch that is made at once.
pub(crate) fn alone(index: usize) {
    add(&ALONE, index);
}

fn add(calls: &Calls, index: usize) {
    if let Some(count) = calls.get(index) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts that the driver handed out a function that the list lacks. If another thread counts at
/// this moment, it does not: the child of a fork may wait for that thread for ever.
pub(crate) fn past(name: &CStr) {
    if let Ok(mut past) = PAST.try_lock() {
        *past.entry(name.to_string_lossy().into_owned()).or_default() += 1;
    }
}

/// Sees to it that the counts are written when the process ends, if they are asked for.
pub(crate) fn start() {
    if variable(VARIABLE).is_some() {
        // SAFETY: the function stays, since this library is never unloaded.
        unsafe { libc::atexit(write) };
    }
}

extern "C" fn write() {
    let Some(path) = variable(VARIABLE) else { return };
    let path = path.to_string_lossy().replace("%p", &std::process::id().to_string());
    if let Err(error) = fs::write(&path, format!("{:#}\n", counts())) {
        eprintln!("xsched: cannot write {path}, which {VARIABLE} names: {error}");
    }
}

fn counts() -> Value {
    let past = PAST.try_lock().map(|past| past.clone()).unwrap_or_default();
    let driver = driver::opened().map(driver::Driver::path);
    json!({
        "pid": std::process::id(),
        "driver": driver.map(|path| path.to_string_lossy()),
        "launches": by_name(&[&LAUNCHES, &ALONE]),
        "scheduled": by_name(&[&TRACKED, &ALONE]),
        "alone": by_name(&[&ALONE]),
        "handed_out_past": past,
        "not_listed": driver.and_then(not_listed).unwrap_or_default(),
    })
}

/// The sums of what was counted of launches, by their names, without zeros.
fn by_name(counts: &[&Calls]) -> BTreeMap<String, u64> {
    let launches = (0..COUNT).filter(|index| CLASSES[*index] == Class::Launch);
    let count = |index: usize| -> u64 {
        counts.iter().map(|calls| calls[index].load(Ordering::Relaxed)).sum()
    };
    let launches = launches.filter(|index| count(*index) > 0);
    launches.map(|index| (NAMES[index].to_string_lossy().into_owned(), count(index))).collect()
}

/// The functions that a driver exports and the list lacks, sorted; `None` if its file cannot be
/// read.
fn not_listed(path: &Path) -> Option<Vec<String>> {
    let file = ReadCache::new(File::open(path).ok()?);
    let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&file).ok()?;
    let is_function =
        |symbol: &object::read::elf::ElfSymbol<'_, '_, FileHeader64<Endianness>, _>| {
            symbol.is_definition() && symbol.kind() == SymbolKind::Text
        };
    let names = elf.dynamic_symbols().filter(is_function).filter_map(|symbol| {
        let name = symbol.name().ok()?;
        let listed = NAMES.binary_search_by(|known| known.to_bytes().cmp(name.as_bytes())).is_ok();
        let lacks = name.starts_with("cu") && !listed && !table::is_left_out(name);
        lacks.then(|| name.to_owned())
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    Some(names)
}
