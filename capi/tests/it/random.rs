//! Random calls from many threads, with handles and numbers that are right, stale or made up. That
//! the process lives and every thread comes back is what is shown; `AddressSanitizer` looks at the
//! rest (`cargo xtask capi --sanitize`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::common::*;

/// Sequences of calls, unless the variable says otherwise.
const SEQUENCES: u64 = 2_000;
const VARIABLE: &str = "XSCHED_TEST_SEQUENCES";
/// Calls of a sequence.
const CALLS: u32 = 12;
const THREADS: u64 = 4;

/// Handles that threads share. Some are stale by the time they are used.
struct Pool {
    hwqs: [AtomicU64; 4],
    xqs: [AtomicU64; 4],
    commands: [AtomicU64; 16],
}

impl Pool {
    fn new() -> Self {
        let none = || AtomicU64::new(0);
        Self {
            hwqs: std::array::from_fn(|_| none()),
            xqs: std::array::from_fn(|_| none()),
            commands: std::array::from_fn(|_| none()),
        }
    }
}

/// One of them, and now and then something else.
fn any(rng: &mut Pcg64Mcg, of: &[AtomicU64]) -> u64 {
    let handle = of[rng.random_range(0..of.len())].load(Ordering::Relaxed);
    match rng.random_range(0..20) {
        0 => rng.next_u64(),
        1 => handle ^ 1 << rng.random_range(0..64),
        _ => handle,
    }
}

fn put(rng: &mut Pcg64Mcg, to: &[AtomicU64], handle: u64) -> u64 {
    to[rng.random_range(0..to.len())].swap(handle, Ordering::Relaxed)
}

/// A number that is mostly small.
fn number(rng: &mut Pcg64Mcg) -> i64 {
    match rng.random_range(0..8) {
        0 => rng.next_u64().cast_signed(),
        1 => -1,
        _ => rng.random_range(0..20),
    }
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Makes something.
fn make(rng: &mut Pcg64Mcg, pool: &Pool) {
    match rng.random_range(0..6) {
        0 => {
            let old = put(rng, &pool.hwqs, host_hwq());
            let mut xq = 0;
            // Others may give it another XQueue meanwhile.
            while HwQueueDestroy(old) == kXSchedErrorNotAllowed {
                // SAFETY: it may be written to.
                let _ = unsafe { XQueueGet(&raw mut xq, old) };
                let _ = XQueueDestroy(xq);
            }
        }
        1 => {
            let level = if rng.random_ratio(1, 8) { number(rng) } else { rng.random_range(1..4) };
            let flags = i64::from(rng.random_ratio(1, 8));
            if let Ok(xq) = create(any(rng, &pool.hwqs), level, flags) {
                let old = put(rng, &pool.xqs, xq);
                // Nothing else would destroy it.
                if old != xq {
                    let _ = XQueueDestroy(old);
                }
            }
        }
        what => {
            let command = match what {
                2 => timed(rng.random_range(0..200)),
                3 => answering(rng.random_range(0..9)),
                _ => counting(&COUNTER),
            };
            let _ = HwCommandDestroy(put(rng, &pool.commands, command));
        }
    }
}

/// Calls something.
fn call(rng: &mut Pcg64Mcg, pool: &Pool) {
    let (xq, command) = (any(rng, &pool.xqs), any(rng, &pool.commands));
    let (a, b) = (number(rng), number(rng));
    let (mut count, mut handle, mut is) = (0, 0, XQueueState::kQueueStateUnknown);
    // SAFETY: the places may be written to.
    let _ = unsafe {
        match rng.random_range(0..25) {
            0 if rng.random_ratio(1, 4) => XQueueDestroy(xq),
            1 => XQueueGet(&raw mut handle, any(rng, &pool.hwqs)),
            2 => XQueueSetPreemptLevel(xq, a as i32),
            3 => XQueueSetLaunchConfig(xq, a, b),
            4 => XQueueWait(xq, command),
            5 => XQueueWaitAll(xq),
            6 => XQueueQuery(xq, &raw mut is),
            7 => XQueueSuspend(xq, a),
            8 => XQueueResume(xq, a),
            9 => XQueueProfileHwCommandCount(xq, &raw mut count),
            10 => HwQueueLaunch(any(rng, &pool.hwqs), command),
            11 => HwQueueSynchronize(any(rng, &pool.hwqs)),
            12 => HwCommandDestroy(command),
            13 => XHintPriority(xq, a as i32),
            14 => XHintUtilization(xq, a as i32),
            15 => XHintLaxity(xq, a, b as i32, 3),
            16 => XHintDeadline(xq, a),
            17 if rng.random_ratio(1, 8) => XHintSetScheduler(a as i32, b as i32),
            18 => XHintTimeslice(a),
            19 => XHintKDeadline(a as usize),
            20 => XHintFloor(a as f64 / 1_000.0),
            _ => XQueueSubmit(xq, command),
        }
    };
}

/// Lets all queues go again and again, so that no thread waits for ever for what another held.
fn rescue(pool: &Pool, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        for xq in &pool.xqs {
            let xq = xq.load(Ordering::Relaxed);
            let _ = XHintPriority(xq, 1);
            let _ = XQueueResume(xq, 0);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

alone!(random_calls_end_no_process_and_no_thread, [("XSCHED_QUEUE_CAPACITY", "64")], {
    let sequences = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    let sequences: u64 = sequences.unwrap_or(SEQUENCES);
    let (pool, over) = (Arc::new(Pool::new()), Arc::new(AtomicBool::new(false)));
    let rescuer = {
        let (pool, over) = (Arc::clone(&pool), Arc::clone(&over));
        std::thread::spawn(move || rescue(&pool, &over))
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || {
                for sequence in (thread..sequences).step_by(THREADS as usize) {
                    let mut rng = Pcg64Mcg::seed_from_u64(sequence);
                    for _ in 0..CALLS {
                        make(&mut rng, &pool);
                        call(&mut rng, &pool);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it comes back"));
    over.store(true, Ordering::Release);
    rescuer.join().expect("it comes back");
    println!("{sequences} sequences");
    for xq in &pool.xqs {
        let _ = XQueueDestroy(xq.load(Ordering::Relaxed));
    }
    for hwq in &pool.hwqs {
        let _ = HwQueueDestroy(hwq.load(Ordering::Relaxed));
    }
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    until("the queues' threads end", || threads() < 20);
});
