//! The kernels that there are, as functions of the host, and the texts that name them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use xsched_emulated_device::Work;
use xsched_emulated_device::code::{
    Answer, ILLEGAL_ADDRESS, INVALID_IMAGE, INVALID_PTX, LAUNCH_FAILURE, NO_BINARY, SUCCESS,
};
use xsched_emulated_device::ring::is_lost;
use xsched_emulated_device::spin::{clock, now_ns, spin, word};

use crate::driver::{count, driver};

/// A pause between two notes of progress.
const PAUSE: Duration = Duration::from_micros(20);

/// A kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    /// The sizes of its parameters in bytes.
    pub(crate) sizes: &'static [usize],
    /// Gets the block of its parameters, and answers 0 or its error.
    run: fn(&[u64]) -> u32,
}

/// All kernels. What their parameters lead to is what their launch's caller promises.
const ALL: [Builtin; 14] = [
    Builtin { name: "xs_nothing", sizes: &[], run: |_| SUCCESS },
    Builtin { name: "xs_trap", sizes: &[], run: |_| LAUNCH_FAILURE },
    Builtin { name: "xs_spin", sizes: &[8, 8], run: xs_spin },
    Builtin { name: "xs_note", sizes: &[8, 8, 8], run: xs_note },
    Builtin { name: "xs_clock", sizes: &[8, 8], run: xs_clock },
    Builtin { name: "xs_next", sizes: &[8, 8, 8], run: xs_next },
    Builtin { name: "vector_add", sizes: &[8, 8, 8, 4], run: vector_add },
    Builtin { name: "fill", sizes: &[8, 4, 4], run: fill },
    Builtin { name: "xf_quick", sizes: &[], run: |_| SUCCESS },
    Builtin { name: "xf_deep", sizes: &[8, 8, 8], run: |_| SUCCESS },
    Builtin { name: "xf_deeper", sizes: &[8, 8, 8], run: |_| SUCCESS },
    Builtin { name: "xt_add", sizes: &[8], run: xt_add },
    Builtin { name: "xt_spin", sizes: &[8, 8], run: xt_spin },
    Builtin { name: "stray", sizes: &[], run: |_| ILLEGAL_ADDRESS },
];

fn xs_spin(block: &[u64]) -> u32 {
    // SAFETY: the launch's caller promised two words there, if the address is not 0.
    unsafe { spin(block[0], block[1], || 0) };
    SUCCESS
}

fn xs_clock(block: &[u64]) -> u32 {
    // SAFETY: the launch's caller promised 8 words and one for each round.
    unsafe { clock(block[0], block[1]) };
    SUCCESS
}

/// Counts in its order, and how often it did not find the count that it was told.
fn xs_next(block: &[u64]) -> u32 {
    if !are_there(block[1], 4) {
        return ILLEGAL_ADDRESS;
    }
    // SAFETY: there is no place to write to.
    unsafe { spin(block[0], 0, || 0) };
    // SAFETY: there are two words, as was just seen, and they stay until this is done.
    let [found, wrong] = [0, 1].map(|at| unsafe { word(block[1], at) });
    if found.fetch_add(1, Ordering::SeqCst) != block[2] {
        wrong.fetch_add(1, Ordering::SeqCst);
    }
    SUCCESS
}

/// Notes of the conformance suite: starts, ends, when it started and ended, progress twice.
fn xs_note(block: &[u64]) -> u32 {
    let [cycles, time, notes] = [block[0], block[1], block[2]];
    let end = now_ns().saturating_add(cycles);
    // SAFETY: the launch's caller promised a clock, which others tick as well, and seven words.
    let (time, note) = unsafe { (word(time, 0), |at| word(notes, at)) };
    let started = time.fetch_add(1, Ordering::SeqCst);
    let order = Ordering::SeqCst;
    let _ = note(2).compare_exchange(0, started, order, order);
    note(0).fetch_add(1, order);
    let mut progress = 0;
    loop {
        progress += 1;
        note(4).store(progress, order);
        match end.saturating_sub(now_ns()) {
            0 => break,
            _ if is_lost() => return SUCCESS,
            left => thread::sleep(PAUSE.min(Duration::from_nanos(left))),
        }
    }
    note(5).store(progress, order);
    note(3).store(time.fetch_add(1, order), order);
    note(1).fetch_add(1, order);
    SUCCESS
}

/// A place of the memory that a kernel was given.
fn place<T>(address: u64, at: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut::<T>(address as usize).wrapping_add(at)
}

/// True if this many words of 4 bytes are in the device's memory.
fn are_there(address: u64, words: usize) -> bool {
    driver().memory.kind(address as usize, words * 4).is_some()
}

fn vector_add(block: &[u64]) -> u32 {
    let ([a, b, sum], count) = ([block[0], block[1], block[2]], block[3] as u32 as usize);
    if ![a, b, sum].into_iter().all(|address| are_there(address, count)) {
        return ILLEGAL_ADDRESS;
    }
    for at in 0..count {
        // SAFETY: all three have this many numbers, as was just seen, and stay until this is done.
        unsafe {
            let both = place::<f32>(a, at).read_unaligned() + place::<f32>(b, at).read_unaligned();
            place::<f32>(sum, at).write_unaligned(both);
        }
    }
    SUCCESS
}

fn fill(block: &[u64]) -> u32 {
    let (value, count) = (block[1] as u32, (block[1] >> 32) as usize);
    if !are_there(block[0], count) {
        return ILLEGAL_ADDRESS;
    }
    for at in 0..count {
        // SAFETY: there are this many words, as was just seen, and they stay until this is done.
        unsafe { place::<u32>(block[0], at).write_unaligned(value) };
    }
    SUCCESS
}

/// Counts up a 32-bit word in the device's memory.
fn xt_add(block: &[u64]) -> u32 {
    if !are_there(block[0], 1) || !block[0].is_multiple_of(4) {
        return ILLEGAL_ADDRESS;
    }
    // SAFETY: there are 4 aligned bytes, as was just seen, and they stay until this is done.
    let word = unsafe { &*place::<AtomicU32>(block[0], 0) };
    word.fetch_add(1, Ordering::SeqCst);
    SUCCESS
}

/// Kernel that copies after a number of cycles.
fn xt_spin(block: &[u64]) -> u32 {
    // SAFETY: there is no place to write to.
    unsafe { spin(block[1], 0, || 0) };
    xt_add(block)
}

impl Builtin {
    /// Work of its launch.
    pub(crate) fn work(self, block: Box<[u64]>) -> Work {
        Work::Kernel(Arc::new(move || {
            count(&driver().launches, self.name);
            (self.run)(&block)
        }))
    }
}

/// The kernels that a text names, each as `.visible .entry NAME`.
///
/// # Errors
/// If it is no text of this kind, or names a kernel that there is not.
pub(crate) fn load(image: &[u8]) -> Answer<Vec<Builtin>> {
    if image.starts_with(b"\x7fELF") || image.starts_with(&[0x50, 0xed, 0x55, 0xba]) {
        return Err(NO_BINARY);
    }
    let text = std::str::from_utf8(image).map_err(|_| INVALID_IMAGE)?;
    let text = without_comments(text);
    if !text.contains(".version") {
        return Err(INVALID_IMAGE);
    }
    let mut words = text.split_whitespace();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        if word != ".visible" || words.next() != Some(".entry") {
            continue;
        }
        let name = words.next().and_then(|word| word.split('(').next()).unwrap_or_default();
        let builtin = ALL.iter().find(|builtin| builtin.name == name).ok_or(INVALID_PTX)?;
        found.push(*builtin);
    }
    Ok(found)
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut rest = lines.collect::<Vec<_>>().join("\n");
    while let Some(start) = rest.find("/*") {
        let end = rest[start..].find("*/").map_or(rest.len(), |end| start + end + 2);
        rest.replace_range(start..end, " ");
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_by_their_names() {
        let names = |text: &str| {
            let kernels = load(text.as_bytes())?;
            Ok(kernels.iter().map(|kernel| kernel.name).collect::<Vec<_>>())
        };
        let spin = include_str!("../../../hal-cuda/kernels/spin.ptx");
        assert_eq!(
            names(spin),
            Ok(vec!["xs_nothing", "xs_trap", "xs_spin", "xs_note", "xs_clock"])
        );
        let next = include_str!("../../../lab/kernels/next.ptx");
        assert_eq!(names(next), Ok(vec!["xs_next"]));
        let other =
            "/* .visible .entry x() */ .version 6.5 // .visible .entry y\n.visible .entry\nfill(";
        assert_eq!(names(other), Ok(vec!["fill"]));
        assert_eq!(names(".version 6.5 .visible .entry unheard_of()"), Err(INVALID_PTX));
        assert_eq!(names("nonsense"), Err(INVALID_IMAGE));
        assert_eq!(load(b"\x7fELF").map(|kernels| kernels.len()), Err(NO_BINARY));
    }
}
