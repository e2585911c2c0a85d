//! Costs of suspending and resuming for the host above the driver's own calls: raw calls and this
//! crate's, one after the other in one run, on an emulated driver that answers at once.
#![allow(unsafe_code, reason = "raw calls")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use xsched_hal_kfd::mechanism::{DebugTrap, Mechanism, UpdateQueue};
use xsched_hal_kfd::uapi::{self, Call, Payload};
use xsched_hal_kfd::{KfdQueue, QueueFacts, Versioned};
use xsched_kfd_emulated::{Config, InProcess};
use zerocopy::{FromBytes, Immutable, IntoBytes};

type Driver = Arc<Versioned<InProcess>>;

/// Pairs of a suspend and a resume in one measurement.
const PAIRS: u32 = 2_000;
/// Measurements of each kind, of which the median counts.
const ROUNDS: usize = 41;
const RING: u64 = 0x7000_0000_0000;
const RING_BYTES: u32 = 1 << 14;

fn call<T: FromBytes + IntoBytes + Immutable>(driver: &Driver, call: &Call<T>, argument: &mut T) {
    // SAFETY: what the arguments name is alive.
    let answer = unsafe { driver.call(call, argument) }.expect("it is new enough");
    black_box(answer.expect("it answers"));
}

fn update(driver: &Driver, percentage: u32) {
    let (ring_base, ring_size) = (RING, RING_BYTES);
    let mut argument =
        uapi::UpdateQueue { ring_base, queue_id: 0, ring_size, percentage, priority: 7 };
    call(driver, &uapi::UPDATE_QUEUE, &mut argument);
}

fn trap(driver: &Driver, payload: &impl Payload) {
    let mut argument = uapi::DbgTrap::new(std::process::id(), payload);
    call(driver, &uapi::DBG_TRAP, &mut argument);
}

fn raw_update(driver: &Driver) {
    update(driver, 0);
    update(driver, 100);
}

fn raw_trap(driver: &Driver) {
    let mut id = [0_u32];
    let queues = id.as_mut_ptr().expose_provenance() as u64;
    trap(driver, &uapi::SuspendQueues { exceptions: 0, queues, count: 1, grace: 1 });
    trap(driver, &uapi::ResumeQueues { queues, count: 1, pad: 0 });
}

fn by(mechanism: &dyn Mechanism, queue: &[Arc<KfdQueue>]) {
    black_box(mechanism.suspend(queue));
    black_box(mechanism.resume(queue));
}

/// Nanoseconds of one call, of which a pair has two.
fn measure(mut pair: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..PAIRS).for_each(|_| pair());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(PAIRS * 2)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Measures both in turns, so that other load on the machine affects both.
fn compare(name: &str, raw: impl Fn(), ours: impl Fn()) {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(measure(&raw));
        with.push(measure(&ours));
    }
    let above: Vec<_> = with.iter().zip(&without).map(|(with, without)| with - without).collect();
    let (raw, ours, above) = (median(without), median(with), median(above));
    println!("{name}: raw {raw:.0} ns, ours {ours:.0} ns, above {above:.0} ns per call");
}

fn process() -> (Driver, Vec<Arc<KfdQueue>>) {
    let driver = InProcess::new(Config::mi308x());
    let driver = Arc::new(Versioned::ask(driver).expect("it answers"));
    let mode = uapi::MODE_ENABLE;
    let mut enable = uapi::RuntimeEnable { r_debug: 0, mode, capabilities: 0 };
    call(&driver, &uapi::RUNTIME_ENABLE, &mut enable);
    let base = uapi::CreateQueue88 {
        ring_base: RING,
        ring_size: RING_BYTES,
        gpu_id: 0x8c1f,
        queue_type: 2,
        percentage: 100,
        priority: 7,
        ..uapi::CreateQueue88::default()
    };
    let mut made = uapi::CreateQueue { base, ..uapi::CreateQueue::default() };
    call(&driver, &uapi::CREATE_QUEUE, &mut made);
    let facts = QueueFacts {
        id: made.base.queue_id,
        gpu_id: 0x8c1f,
        ring_base: RING,
        ring_size: RING_BYTES,
        priority: 7,
        kind: 2,
        save_bytes: 0,
        created: None,
    };
    (driver, vec![Arc::new(KfdQueue::new(facts).expect("it can be"))])
}

fn main() {
    // `cargo test` builds and runs benches too, and wants no figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let (driver, queue) = process();
    let mechanism = UpdateQueue::new(Arc::clone(&driver), None);
    compare("update-queue", || raw_update(&driver), || by(&mechanism, &queue));
    drop(mechanism);
    let (driver, queue) = process();
    let mechanism = DebugTrap::own(Arc::clone(&driver)).expect("the runtime is enabled");
    // Shows the queue to the debugger.
    by(&mechanism, &queue);
    compare("debug-trap", || raw_trap(&driver), || by(&mechanism, &queue));
}
