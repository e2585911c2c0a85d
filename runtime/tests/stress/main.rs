//! Threads that make, use, hold, reconfigure and drop thousands of queues at random, in rounds; at
//! the end of each round everything must come to rest, and at the end nothing may be left.
//!
//! `XSCHED_STRESS_SECONDS` says how long (5 if unset), `XSCHED_STRESS_SEED` where chance starts. A
//! seed repeats what each thread does; what happens in between is up to the machine.

mod device;
mod worker;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use device::{Careful, Ledger, Moody};
use worker::{Lane, Tally, Worker};
use xsched::policies::hpf::Hpf;
use xsched::{Runtime, RuntimeConfig};
use xsched_core::rng::SplitMix64;
use xsched_hal_host::{HostConfig, HostDevice};

const WORKERS: u64 = 4;
const ROUND: Duration = Duration::from_secs(1);
/// A round that has not come to rest by then hangs.
const HANG: Duration = Duration::from_secs(60);

fn from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number: {text}")),
        Err(_) => default,
    }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn nothing_hangs_leaks_or_breaks_the_contract() {
    let seconds = from_env("XSCHED_STRESS_SECONDS", 5);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = from_env("XSCHED_STRESS_SEED", now.as_nanos() as u64 & 0xffff_ffff);
    println!("XSCHED_STRESS_SEED={seed}");
    let threads_before = threads();
    let ledger = Arc::new(Ledger::default());
    // A lease longer than a busy machine keeps a thread waiting: failing open is tested elsewhere.
    let config = RuntimeConfig::default().with_lease(HANG).with_waits(256).with_queues(8_192);
    let runtime = Runtime::with_config(Hpf::default(), config).unwrap();
    let host = HostDevice::new(HostConfig::default().with_compute_units(2)).unwrap();
    let lane = Arc::new(Lane {
        moody: runtime.device(Careful::new(Moody::new(seed), &ledger)).unwrap(),
        host: runtime.device(Careful::new(host, &ledger)).unwrap(),
        runtime: runtime.clone(),
        tickets: Default::default(),
        tally: Tally::default(),
        ledger: Arc::clone(&ledger),
        rest: AtomicBool::new(false),
        barrier: Barrier::new(WORKERS as usize),
    });
    drop(runtime);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < deadline {
        round(&lane, seed, rounds);
        rounds += 1;
    }
    let summary = lane.tally.to_string();
    let runtime = lane.runtime.clone();
    assert_eq!(runtime.times_failed_open(), 0, "seed {seed}: the scheduler was late");
    assert!(runtime.is_scheduling(), "seed {seed}: the scheduler has ended");
    #[cfg(feature = "metrics")]
    let metrics = runtime.metrics();
    // Queues that were dropped with work to do finish it although no handle of the runtime is left.
    drop((lane, runtime));
    println!("{rounds} rounds: {summary}; {ledger}");
    assert_eq!(ledger.breaches(), 0, "seed {seed}: {ledger}");
    let start = Instant::now();
    loop {
        let left = (ledger.alive(), ledger.open(), threads() - threads_before);
        if left == (0, 0, 0) {
            return;
        }
        if start.elapsed() > HANG {
            #[cfg(feature = "metrics")]
            println!("{}", metrics.encode());
            panic!("seed {seed}: left over are commands, hardware queues, threads: {left:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lets the workers loose for a while, then waits until everything has come to rest.
fn round(lane: &Arc<Lane>, seed: u64, number: u64) {
    lane.rest.store(false, Ordering::SeqCst);
    let (done, finished) = mpsc::channel();
    for worker in 0..WORKERS {
        let (lane, done) = (Arc::clone(lane), done.clone());
        std::thread::spawn(move || {
            let seed = seed ^ (number * WORKERS + worker).wrapping_mul(0x9e37_79b9);
            Worker::new(&lane, SplitMix64::new(seed)).run();
            let _ = done.send(());
        });
    }
    drop(done);
    std::thread::sleep(ROUND);
    lane.rest.store(true, Ordering::SeqCst);
    let start = Instant::now();
    for _ in 0..WORKERS {
        let left = HANG.saturating_sub(start.elapsed());
        match finished.recv_timeout(left) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("seed {seed}: round {number} hangs; {}", lane.tally)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                panic!("seed {seed}: a worker panicked in round {number}")
            }
        }
    }
}
