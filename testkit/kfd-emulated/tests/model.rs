//! The emulator's state against the facts, through the structures of the crate under test.
#![allow(unsafe_code)]

mod support;

use rustix::io::Errno;
use support::{GPU, opened};
use xsched_hal_kfd::uapi::{self, patched};
use xsched_kfd_emulated::model::{Block, Fault};
use xsched_kfd_emulated::{Config, InProcess, Latency, Private};

const NEW: u64 = 1 << 30;
const INVALID: u32 = 1 << 31;
const ERROR: u32 = 1 << 30;

fn emulated() -> InProcess {
    InProcess::new(Config::mi308x())
}

fn node(driver: &InProcess) -> xsched_kfd_emulated::model::NodeView {
    driver.with(|model| model.node(0)).expect("a GPU")
}

#[test]
fn ids_are_the_smallest_free_ones_and_are_used_again() {
    let driver = emulated();
    let process = opened(&driver);
    let ids: Vec<_> = (0..1_024).map(|_| process.create().expect("room")).collect();
    assert_eq!(ids, (0..1_024).collect::<Vec<_>>());
    assert_eq!(process.create(), Err(Errno::NOMEM));
    for id in [7, 3] {
        assert_eq!(process.destroy(id), Ok(0));
        assert_eq!(process.destroy(id), Err(Errno::INVAL));
    }
    assert_eq!((process.create(), process.create()), (Ok(3), Ok(7)));
    // Ids are a process's own.
    let other = opened(&driver.process(4_000_000));
    assert_eq!(other.create(), Ok(0));
    assert_eq!(other.update(1, 0), Err(Errno::FAULT));
}

#[test]
fn update_stops_and_starts_and_every_call_costs_the_whole_gpu() {
    let driver = emulated();
    let (process, other) = (opened(&driver), opened(&driver.process(4_000_000)));
    let pid = driver.pid();
    assert_eq!((process.create(), other.create()), (Ok(0), Ok(0)));
    let before = node(&driver);
    assert_eq!(process.update(0, 0), Ok(0));
    let queue = driver.with(|model| model.queue(pid, 0)).expect("there");
    assert!(!queue.is_active && queue.percentage == 0);
    assert_eq!(process.update(0, 100), Ok(0));
    // A call that changes nothing costs as much.
    assert_eq!(process.update(0, 100), Ok(0));
    let after = node(&driver);
    assert_eq!(after.preemptions - before.preemptions, 3);
    // Of both processes, then of the other one alone, then of both.
    assert_eq!(after.queues_saved - before.queues_saved, 2 + 1 + 2);
    assert_eq!(process.update(0, 101), Err(Errno::INVAL));
    assert_eq!(process.update(9, 0), Err(Errno::FAULT));
    assert_eq!(node(&driver), after);
}

#[test]
fn update_wants_the_ring_that_the_queue_was_made_with() {
    let driver = emulated();
    let process = opened(&driver);
    process.create().expect("room");
    let update = |ring_base, ring_size| {
        let (queue_id, percentage, priority) = (0, 0, 7);
        let mut argument =
            uapi::UpdateQueue { ring_base, queue_id, ring_size, percentage, priority };
        process.call(&uapi::UPDATE_QUEUE, &mut argument)
    };
    assert_eq!(update(support::RING + 4_096, support::RING_BYTES), Err(Errno::FAULT));
    assert_eq!(update(support::RING, support::RING_BYTES / 2), Err(Errno::FAULT));
    assert_eq!(update(support::RING, 3_000), Err(Errno::INVAL));
    assert_eq!(update(1 << 63, support::RING_BYTES), Err(Errno::FAULT));
    assert_eq!(update(0, 4_096), Ok(0));
    // It stopped, and its properties are lost.
    assert_eq!(driver.with(|model| model.queue(driver.pid(), 0)).expect("there").ring_base, 0);
}

#[test]
fn suspending_needs_runtime_debugger_and_snapshot_in_this_order() {
    let driver = emulated();
    let (process, pid) = (opened(&driver), driver.pid());
    let mut ids = [0];
    assert_eq!(process.suspend(pid, &mut ids), Err(Errno::INVAL));
    assert_eq!(process.attach_with(pid, u32::MAX), Err(Errno::BADF));
    assert_eq!(process.attach(pid), Ok(0));
    assert_eq!(process.attach(pid), Err(Errno::ALREADY));
    assert_eq!(process.suspend(pid, &mut ids), Err(Errno::PERM));
    assert_eq!(process.detach(pid), Ok(0));
    assert_eq!(process.runtime(3), Ok(0));
    assert_eq!(process.runtime(3), Err(Errno::BUSY));
    assert_eq!(process.attach(pid), Ok(0));
    assert_eq!((process.create(), process.create()), (Ok(0), Ok(1)));
    let mut ids = [0, 1, 77];
    assert_eq!(process.suspend(pid, &mut ids), Ok(0));
    assert_eq!(ids, [INVALID, 1 | INVALID, 77 | INVALID]);
    assert_eq!(process.snapshot(pid, 0), Ok(vec![0, 1]));
    assert!(driver.with(|model| model.is_new(pid, 0)));
    assert_eq!(process.snapshot(pid, NEW), Ok(vec![0, 1]));
    let before = node(&driver);
    let mut ids = [0, 1, 77];
    assert_eq!(process.suspend(pid, &mut ids), Ok(2));
    assert_eq!(ids, [0, 1, 77 | INVALID]);
    let after = node(&driver);
    assert_eq!(
        (after.preemptions - before.preemptions, after.queues_saved),
        (1, before.queues_saved + 2)
    );
    let mut one = [1];
    assert_eq!(process.resume(pid, &mut one), Ok(1));
    let view = |id| driver.with(|model| model.queue(pid, id)).expect("there");
    assert!(view(0).is_suspended && !view(0).is_active && view(1).is_active);
    assert_eq!(process.detach(pid), Ok(0));
    assert!(view(0).is_active);
}

#[test]
fn what_blocks_says_what_it_waits_for() {
    let driver = emulated();
    let (process, pid) = (opened(&driver), driver.pid());
    assert_eq!(process.attach(pid), Ok(0));
    assert_eq!(process.runtime(1), Err(Errno::DEADLK));
    assert_eq!(driver.blocked(), Some(Block::Runtime { enables: true }));
    let driver = emulated();
    let process = opened(&driver);
    process.runtime(1).expect("fresh");
    process.attach(pid).expect("fresh");
    process.create().expect("room");
    process.snapshot(pid, NEW).expect("attached");
    assert_eq!(process.suspend(pid, &mut [0]), Ok(1));
    assert_eq!(process.destroy(0), Err(Errno::DEADLK));
    assert_eq!(driver.blocked(), Some(Block::Destroy { id: 0 }));
    assert_eq!(process.resume(pid, &mut [0]), Ok(1));
    assert_eq!(process.destroy(0), Ok(0));
    assert_eq!(process.runtime(0), Err(Errno::DEADLK));
    assert_eq!(driver.blocked(), Some(Block::Runtime { enables: false }));
}

#[test]
fn another_process_is_debugged_by_its_tracer_alone() {
    let driver = emulated();
    let (victim, third) = (driver.process(4_000_000), driver.process(4_000_001));
    let (process, target) = (opened(&driver), opened(&victim));
    target.runtime(1).expect("fresh");
    target.create().expect("room");
    assert_eq!(process.attach(4_000_000), Err(Errno::PERM));
    assert_eq!(process.attach(4_999_999), Err(Errno::SRCH));
    driver.trace(4_000_000, Some(driver.pid()));
    assert_eq!(process.attach(4_000_000), Ok(0));
    driver.trace(4_000_000, None);
    process.snapshot(4_000_000, NEW).expect("attached");
    assert_eq!(process.suspend(4_000_000, &mut [0]), Ok(1));
    assert_eq!(opened(&third).suspend(4_000_000, &mut [0]), Err(Errno::PERM));
    // A debugger that dies leaves nothing suspended.
    driver.exit();
    assert!(victim.with(|model| model.queue(4_000_000, 0)).expect("there").is_active);
    victim.exit();
    assert_eq!(victim.with(|model| model.queue_ids(4_000_000)), [0_u32; 0]);
}

#[test]
fn a_preemption_that_times_out_ends_in_a_reset() {
    let driver = emulated();
    let (process, pid) = (opened(&driver), driver.pid());
    process.create().expect("room");
    driver.with(|model| model.inject(0, Fault::Timeout));
    assert_eq!(process.update(0, 0), Err(Errno::TIME));
    assert!(node(&driver).is_resetting);
    assert_eq!(process.update(0, 0), Err(Errno::ACCESS));
    assert_eq!(process.create(), Err(Errno::IO));
    driver.with(|model| model.end_reset(0));
    assert_eq!(process.update(0, 100), Err(Errno::ACCESS));
    assert!(driver.with(|model| model.queue(pid, 0)).expect("there").is_reset);
    // What was lost can be destroyed, and then there may be new ones.
    assert_eq!(process.destroy(0), Ok(0));
    assert_eq!(process.create(), Ok(0));
    assert_eq!(process.update(0, 0), Ok(0));
}

#[test]
fn a_batch_in_a_reset_marks_its_ids() {
    let driver = emulated();
    let (process, pid) = (opened(&driver), driver.pid());
    process.runtime(1).expect("fresh");
    process.attach(pid).expect("fresh");
    process.create().expect("room");
    process.snapshot(pid, NEW).expect("attached");
    driver.with(|model| model.start_reset(0));
    let mut ids = [0, 5];
    assert_eq!(process.suspend(pid, &mut ids), Ok(0));
    assert_eq!(ids, [ERROR, 5 | INVALID]);
    let other = opened(&driver.process(4_000_000));
    driver.with(|model| model.end_reset(0));
    assert_eq!(other.create(), Ok(0));
    driver.with(|model| model.inject(0, Fault::QueueReset { pid, id: 0 }));
    assert_eq!(other.update(0, 0), Ok(0));
    assert_eq!(other.update(0, 100), Ok(0));
    assert_eq!(process.update(0, 100), Err(Errno::ACCESS));
}

#[test]
fn private_numbers_mean_what_is_configured() {
    let preempt = |driver: &InProcess, queue_id| {
        let mut argument =
            patched::PreemptQueue { queue_id, preempt_type: 2, timeout_ms: 10, pad: 0 };
        opened(driver).call(&patched::PREEMPT_QUEUE, &mut argument)
    };
    let resume = |driver: &InProcess, queue_id| {
        let mut argument = patched::ResumeQueue { queue_id, timeout_ms: 10, pad: [0; 2] };
        opened(driver).call(&patched::RESUME_QUEUE, &mut argument)
    };
    let with = |private| InProcess::new(Config { private, ..Config::mi308x() });
    let stock = with(Private::Absent);
    assert_eq!((preempt(&stock, 0), resume(&stock, 0)), (Err(Errno::NOTTY), Err(Errno::NOTTY)));
    let patched = with(Private::Preempt);
    opened(&patched).create().expect("room");
    assert_eq!(preempt(&patched, u32::MAX), Err(Errno::INVAL));
    assert_eq!(preempt(&patched, 0), Ok(0));
    let is_active = |driver: &InProcess| driver.with(|model| model.queue(driver.pid(), 0));
    assert!(!is_active(&patched).expect("there").is_active);
    assert_eq!(resume(&patched, 0), Ok(0));
    assert!(is_active(&patched).expect("there").is_active);
    // The other meaning takes the short form for a suspend of nothing, and succeeds.
    let other = with(Private::Suspend);
    assert_eq!(preempt(&other, 0), Err(Errno::NOTTY));
    assert_eq!(resume(&other, u32::MAX), Ok(0));
}

#[test]
fn calls_take_as_long_as_the_device() {
    let latency = Latency { fixed_ns: 2_000_000, queue_ns: 1_000_000, reset_ns: 0 };
    let driver = InProcess::new(Config { latency, ..Config::mi308x() });
    let process = opened(&driver);
    process.create().expect("room");
    let start = std::time::Instant::now();
    assert_eq!(process.update(0, 0), Ok(0));
    assert!(start.elapsed().as_nanos() >= 3_000_000);
}

#[test]
fn old_drivers_lack_what_came_later() {
    let driver = InProcess::new(Config { minor: 12, ..Config::mi308x() });
    let process = opened(&driver);
    assert_eq!(process.0.version().minor, 12);
    let mut argument = [0; 16];
    // SAFETY: the argument is the call's, and names no memory.
    let answer = unsafe {
        xsched_hal_kfd::Driver::ioctl(&driver, uapi::RUNTIME_ENABLE.request, &mut argument)
    };
    assert_eq!(answer, Err(Errno::NOTTY));
}

#[test]
fn the_rest_answers_from_the_configuration() {
    let driver = emulated();
    let process = opened(&driver);
    let mut memory = uapi::AvailableMemory { gpu_id: GPU, ..uapi::AvailableMemory::default() };
    assert_eq!(process.call(&uapi::AVAILABLE_MEMORY, &mut memory), Ok(0));
    assert_eq!(memory.available, 192 << 30);
    let mut apertures = uapi::GetProcessAperturesNew::default();
    assert_eq!(process.call(&uapi::GET_PROCESS_APERTURES_NEW, &mut apertures), Ok(0));
    assert_eq!(process.create(), Ok(0));
    let mask = [u32::MAX, 0xff];
    let mut argument =
        uapi::SetCuMask { queue_id: 0, bits: 64, mask: mask.as_ptr().expose_provenance() as u64 };
    assert_eq!(process.call(&uapi::SET_CU_MASK, &mut argument), Ok(0));
    assert_eq!(driver.with(|model| model.cu_mask(driver.pid(), 0)), mask);
    argument.bits = 33;
    assert_eq!(process.call(&uapi::SET_CU_MASK, &mut argument), Err(Errno::INVAL));
    let mut state = uapi::GetQueueWaveState::default();
    assert_eq!(process.call(&uapi::GET_QUEUE_WAVE_STATE, &mut state), Err(Errno::INVAL));
    assert_eq!(process.update(0, 0), Ok(0));
    assert_eq!(process.call(&uapi::GET_QUEUE_WAVE_STATE, &mut state), Ok(0));
    assert_eq!(state.save_area_used, 1 << 20);
}

/// Pauses and resumes a whole process, as `CRIU_OP` does.
fn pause(driver: &InProcess, operation: u32) -> Result<u32, Errno> {
    let mut argument = [0; 56];
    argument[44..48].copy_from_slice(&driver.pid().to_ne_bytes());
    argument[48..52].copy_from_slice(&operation.to_ne_bytes());
    // SAFETY: the argument is the call's, and names no memory for these operations.
    unsafe { xsched_hal_kfd::Driver::ioctl(driver, 0xc038_4b22, &mut argument) }
}

#[test]
fn listeners_are_told_of_evictions_and_resets() {
    let driver = emulated();
    let process = opened(&driver);
    process.create().expect("room");
    let events = process.0.events(GPU).expect("a GPU");
    let read = || {
        let mut text = [0; 256];
        let bytes = rustix::io::read(&events, &mut text);
        bytes.map(|bytes| String::from_utf8_lossy(&text[..bytes]).into_owned())
    };
    // Stopping a queue is no event.
    assert_eq!((process.update(0, 0), process.update(0, 100)), (Ok(0), Ok(0)));
    assert_eq!(read(), Err(Errno::AGAIN));
    assert_eq!(pause(&driver, 0), Err(Errno::ACCESS));
    driver.allow_checkpoints(true);
    assert_eq!(pause(&driver, 2), Err(Errno::INVAL));
    assert_eq!(pause(&driver, 0), Ok(0));
    let is_active = || driver.with(|model| model.queue(driver.pid(), 0)).expect("there").is_active;
    assert!(!is_active());
    assert_eq!(pause(&driver, 2), Ok(0));
    assert!(is_active());
    assert_eq!(read().as_deref(), Ok("9 0\na 0\n"));
    driver.with(|model| model.start_reset(0));
    driver.with(|model| model.end_reset(0));
    assert_eq!(read().as_deref(), Ok("3 1\n4 1\n"));
    assert!(process.0.events(GPU + 1).is_err());
}

#[test]
fn what_is_not_emulated_says_so() {
    let driver = emulated();
    driver.allow_checkpoints(true);
    // A checkpoint, in the argument's 13th word.
    let mut argument = [0; 56];
    argument[48] = 1;
    // SAFETY: the emulator does not follow the addresses of an operation that it does not have.
    let answer = unsafe { xsched_hal_kfd::Driver::ioctl(&driver, 0xc038_4b22, &mut argument) };
    assert_eq!(answer, Err(Errno::OPNOTSUPP));
    assert_eq!(driver.with(|model| model.unmodelled()), [(0x22, 1)]);
}
