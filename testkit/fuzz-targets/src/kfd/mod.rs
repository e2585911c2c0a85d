//! `hal-kfd` against a driver that answers anything.
//!
//! The answers are bytes: how a call ends, what is written into its argument, and what is written
//! where the argument points to. Whatever they are, there must be an answer of the right type,
//! after a bounded number of calls, and no panic.

mod driver;

use std::sync::Arc;

use xsched_hal_kfd::mechanism::{Answers, DebugTrap, Kind, Mechanism, PatchedDriver, UpdateQueue};
use xsched_hal_kfd::topology::Module;
use xsched_hal_kfd::{KfdError, KfdQueue, PRIORITY_NORMAL, QueueFacts, Versioned};

use driver::{Arbitrary, Bytes};

/// Operations in one run.
const OPERATIONS_MAX: usize = 64;
/// Queues that a run has.
const QUEUES: usize = 6;
/// Calls that one operation on all queues may make: each queue's own, repeated as often as calls
/// are repeated that a signal interrupted.
const CALLS_MAX: usize = 16 * 64 * QUEUES;
/// Word that the module says of itself, and that is asked for.
const MARKER: &str = "patched";

/// Operations of a mechanism and of what stands beside it, with answers from the bytes.
///
/// # Panics
/// If an answer is missing, an error says nothing, or an operation makes too many calls.
pub fn arbitrary_answers(data: &[u8]) {
    let driver = Arbitrary::new(data);
    let mut choices = Bytes::backwards(data);
    let Ok(versioned) = Versioned::ask(driver.clone()).map_err(|error| check(&error)) else {
        return;
    };
    let versioned = Arc::new(versioned);
    let Some(mechanism) = mechanism(&mut choices, &versioned) else { return };
    let queues = queues(&mut choices);
    for _ in 0..OPERATIONS_MAX {
        let Some(choice) = choices.next() else { break };
        driver.start_operation(CALLS_MAX);
        operate(choice, &mut choices, &*mechanism, &queues);
        beside(choice, &mut choices, &versioned, &queues);
    }
    driver.start_operation(CALLS_MAX);
    let _ = mechanism.end().map_err(|error| check(&error));
    drop(mechanism);
}

/// An error is one line that says something.
fn check(error: &KfdError) {
    let text = error.to_string();
    assert!(!text.trim().is_empty() && !text.contains('\n'), "{error:?} says `{text}`");
}

fn mechanism(
    choices: &mut Bytes,
    driver: &Arc<Versioned<Arbitrary>>,
) -> Option<Arc<dyn Mechanism>> {
    let kind = Kind::ALL[usize::from(choices.next()?) % Kind::ALL.len()];
    let driver = Arc::clone(driver);
    let made: Result<Arc<dyn Mechanism>, KfdError> = match kind {
        Kind::DebugTrap => DebugTrap::own(driver).map(|made| Arc::new(made) as _),
        Kind::PreemptQueue => {
            let module = Module { version: Some(MARKER.to_owned()), ..Module::default() };
            let made = PatchedDriver::new(driver, Some(MARKER), &module, 10);
            made.map(|made| Arc::new(made) as _)
        }
        _ => Ok(Arc::new(UpdateQueue::new(driver, None))),
    };
    made.map_err(|error| check(&error)).ok()
}

/// Queues with ids from the bytes; ids that cannot be are refused.
fn queues(choices: &mut Bytes) -> Vec<Arc<KfdQueue>> {
    let mut queues = Vec::new();
    for _ in 0..QUEUES {
        let id = choices.next().map_or(0, u32::from) * 8;
        let facts = QueueFacts {
            id,
            gpu_id: 1 + id % 3,
            ring_base: 0x7000_0000_0000,
            ring_size: 4_096,
            priority: PRIORITY_NORMAL,
            kind: 2,
            save_bytes: 0,
            created: None,
        };
        match KfdQueue::new(facts) {
            Ok(queue) => queues.push(Arc::new(queue)),
            Err(error) => {
                check(&error);
                assert!(id >= 1_024, "{id} was refused");
            }
        }
    }
    queues
}

fn check_all(answers: &Answers, batch: &[Arc<KfdQueue>]) {
    assert_eq!(answers.len(), batch.len(), "a queue has no answer, or one too many");
    for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
        check(error);
    }
}

fn operate(choice: u8, choices: &mut Bytes, mechanism: &dyn Mechanism, queues: &[Arc<KfdQueue>]) {
    let mask = choices.next().unwrap_or(u8::MAX);
    let chosen = (0..queues.len()).filter(|at| mask & (1 << at) != 0);
    let batch: Vec<_> = chosen.map(|at| Arc::clone(&queues[at])).collect();
    match choice % 8 {
        0 | 1 => check_all(&mechanism.suspend(&batch), &batch),
        2 | 3 => check_all(&mechanism.resume(&batch), &batch),
        4 => {
            let held = mechanism.held();
            for error in mechanism.resume_all().iter().filter_map(|answer| answer.as_ref().err()) {
                check(error);
            }
            assert!(mechanism.held().len() <= held.len(), "resuming holds more");
        }
        5 => {
            for queue in &batch {
                let _ = mechanism.is_still_suspended(queue).map_err(|error| check(&error));
            }
        }
        6 => {
            for queue in &batch {
                let _ = mechanism.reassert(queue).map_err(|error| check(&error));
            }
        }
        _ => {
            for queue in &batch {
                mechanism.forget(queue);
                let holds = |held: &Arc<KfdQueue>| Arc::ptr_eq(held, queue);
                assert!(!mechanism.held().iter().any(holds), "a queue is held and forgotten");
            }
        }
    }
}

/// Operations that need no mechanism.
fn beside(
    choice: u8,
    choices: &mut Bytes,
    driver: &Versioned<Arbitrary>,
    queues: &[Arc<KfdQueue>],
) {
    let number = choices.next().map_or(0, u32::from);
    let queue = queues.get(number as usize % QUEUES);
    let done = match (choice / 8 % 8, queue) {
        (0, _) => driver.available_memory(number).map(|_| ()),
        (1, _) => driver.gpu_ids().map(|_| ()),
        (2, _) => driver.events(number).map(|_| ()),
        (3, Some(queue)) => queue.note_priority(number),
        _ => Ok(()),
    };
    let _ = done.map_err(|error| check(&error));
}
