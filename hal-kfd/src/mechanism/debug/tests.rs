use super::*;
use crate::scripted::{Fake, queue, queue_at};
use crate::uapi::Operation;
use crate::uapi::RUNTIME_ENABLE;

fn own(fake: &Fake) -> DebugTrap<Fake> {
    DebugTrap::own(fake.versioned()).expect("the runtime is enabled")
}

fn suspends(fake: &Fake) -> usize {
    fake.count(DBG_TRAP.request, Some(Operation::SuspendQueues))
}

#[test]
fn many_queues_cost_one_preemption() {
    let fake = Fake::with_queues(40);
    let trap = own(&fake);
    let queues: Vec<_> = (0..40).map(queue).collect();
    assert_eq!(trap.suspend(&queues), vec![Ok(()); 40]);
    assert_eq!((suspends(&fake), fake.state().preemptions), (1, 1));
    assert!((0..40).all(|id| !fake.is_active(id)));
    assert_eq!(trap.resume(&queues), vec![Ok(()); 40]);
    assert!((0..40).all(|id| fake.is_active(id)));
    assert_eq!(fake.state().preemptions, 2);
    assert_eq!((trap.preemptions(40), trap.preemptions(0)), (1, 0));
}

#[test]
fn repeated_calls_cost_nothing() {
    let fake = Fake::with_queues(1);
    let trap = own(&fake);
    let one = queue(0);
    let twice = [Arc::clone(&one), Arc::clone(&one)];
    assert_eq!(trap.resume(&twice), [Ok(()), Ok(())]);
    assert_eq!(trap.suspend(&twice), [Ok(()), Ok(())]);
    assert_eq!(trap.suspend(&twice), [Ok(()), Ok(())]);
    assert_eq!((suspends(&fake), fake.state().preemptions), (1, 1));
    assert_eq!(trap.is_still_suspended(&one), Ok(true));
}

#[test]
fn new_queues_are_shown_to_the_debugger() {
    let fake = Fake::with_queues(1);
    let trap = own(&fake);
    assert_eq!(trap.suspend(&[queue(0)]), [Ok(())]);
    let more = Fake::with_queues(2).state().queues[&1];
    fake.state().queues.insert(1, more);
    assert_eq!(trap.suspend(&[queue(1)]), [Ok(())]);
    assert!(!fake.is_active(1));
}

#[test]
fn an_id_that_is_used_again_is_noticed() {
    let fake = Fake::with_queues(2);
    let trap = own(&fake);
    assert_eq!(trap.suspend(&[queue(1)]), [Ok(())]);
    // Queue 0 is destroyed, and another gets its id. The debugger has seen the old one.
    let mut other = Fake::with_queues(1).state().queues[&0];
    other.ring_base = 0xdead_0000;
    fake.state().queues.insert(0, other);
    let answer = trap.suspend(&[queue(0)]);
    assert!(matches!(answer[0], Err(KfdError::UnknownQueue { queue: 0, .. })));
    assert!(fake.is_active(0));
    assert_eq!(trap.suspend(&[queue_at(0, 0xdead_0000)]), [Ok(())]);
}

#[test]
fn a_destroyed_queue_does_not_keep_others_from_being_suspended() {
    let fake = Fake::with_queues(2);
    let trap = own(&fake);
    let answers = trap.suspend(&[queue(0), queue(9), queue(1)]);
    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    assert!(matches!(answers[1], Err(KfdError::UnknownQueue { queue: 9, .. })));
    fake.state().queues.remove(&0);
    let answers = trap.resume(&[queue(0), queue(1)]);
    // These are other handles of the same ids, so they are not the suspended queues.
    assert_eq!(answers, [Ok(()), Ok(())]);
    let answers = trap.resume_all();
    assert!(matches!(answers[0], Err(KfdError::UnknownQueue { queue: 0, .. })));
    assert_eq!(answers[1], Ok(()));
    assert!(fake.is_active(1));
    assert!(trap.resume_all().is_empty());
}

#[test]
fn a_failed_preemption_leaves_nothing_suspended() {
    let fake = Fake::with_queues(1);
    let trap = own(&fake);
    fake.state().suspend_bits = FAILED_BIT;
    let one = queue(0);
    let answer = trap.suspend(std::slice::from_ref(&one));
    assert_eq!(answer, [Err(KfdError::PreemptionTimedOut { call: "DBG_TRAP" })]);
    assert_eq!(trap.is_still_suspended(&one), Ok(false));
    assert!(fake.is_active(0), "the driver was told to resume it");
    let answer = {
        fake.fail(DBG_TRAP.request, Errno::IO);
        trap.suspend(&[one])
    };
    assert_eq!(answer, [Err(KfdError::ResetInProgress { call: "DBG_TRAP" })]);
}

#[test]
fn a_debugger_never_comes_before_the_runtime() {
    let fake = Fake::with_queues(0);
    fake.state().runtime = runtime_state::DISABLED;
    let error = DebugTrap::own(fake.versioned()).expect_err("the runtime is not enabled");
    assert_eq!(error, KfdError::RuntimeNotEnabled);
    // The runtime is as it was, and no call waits.
    assert_eq!(fake.state().runtime, runtime_state::DISABLED);
    assert_eq!(fake.count(DBG_TRAP.request, Some(Operation::Enable)), 0);
    let fake = Fake::with_queues(1);
    fake.state().runtime = runtime_state::DISABLED;
    let error = DebugTrap::own(fake.versioned()).expect_err("it is too late");
    assert_eq!(error, KfdError::QueuesBeforeRuntime);
}

#[test]
fn a_runtime_that_ended_meanwhile_does_not_wait() {
    let fake = Fake::with_queues(1);
    let versioned = fake.versioned();
    fake.state().runtime = runtime_state::DISABLED;
    // It was enabled when that was asked, and is not when the debugger attaches.
    fake.fail(RUNTIME_ENABLE.request, Errno::BUSY);
    let error = DebugTrap::own(versioned).expect_err("it is not enabled");
    assert_eq!(error, KfdError::RuntimeNotEnabled);
    assert!(!fake.state().is_debugged);
}

#[test]
fn a_runtime_that_ends_beside_a_debugger_does_not_wait_and_ends_the_session() {
    let fake = Fake::with_queues(1);
    let trap = own(&fake);
    let one = queue(0);
    assert_eq!(trap.suspend(std::slice::from_ref(&one)), [Ok(())]);
    // The fake driver panics where the real one would wait.
    assert_eq!(fake.versioned().runtime_enable(0), Ok(Ok(0)));
    assert!(fake.is_active(0), "the driver lets everything go then");
    assert_eq!(trap.resume(std::slice::from_ref(&one)), [Ok(())]);
    assert!(trap.held().is_empty() && !trap.is_open() && !fake.state().is_debugged);
    assert_eq!(trap.suspend(&[one]), [Err(KfdError::SessionEnded)]);
}

#[test]
fn without_the_runtime_permission_there_is_no_session() {
    let fake = Fake::with_queues(1);
    let versioned = fake.versioned();
    fake.state().failing_operation = Some((Operation::SendRuntimeEvent, Errno::IO));
    let error = DebugTrap::own(versioned).expect_err("the runtime would wait");
    assert_eq!(error, KfdError::ResetInProgress { call: "DBG_TRAP" });
    assert!(!fake.state().is_debugged);
}

#[test]
fn a_second_debugger_is_refused() {
    let fake = Fake::with_queues(1);
    let first = own(&fake);
    let second = DebugTrap::enable(fake.versioned(), std::process::id());
    let pid = std::process::id();
    assert_eq!(second.expect_err("there is one"), KfdError::DebuggerAttached { pid });
    assert!(fake.state().is_debugged, "the first stays");
    drop(first);
    assert!(!fake.state().is_debugged);
}

#[test]
fn the_end_resumes_everything() {
    let fake = Fake::with_queues(2);
    let trap = own(&fake);
    assert_eq!(trap.suspend(&[queue(0), queue(1)]), [Ok(()), Ok(())]);
    assert_eq!(trap.release(), Ok(()));
    assert!(fake.is_active(0) && fake.is_active(1));
    assert_eq!(trap.release(), Ok(()));
    assert_eq!(trap.suspend(&[queue(0)]), [Err(KfdError::SessionEnded)]);
    assert_eq!(trap.queues(), Err(KfdError::SessionEnded));
    drop(trap);
    assert_eq!(fake.count(DBG_TRAP.request, Some(Operation::Disable)), 1);
}

#[test]
fn old_drivers_are_not_asked() {
    let fake = Fake::with_queues(1);
    fake.state().minor = 11;
    let error = DebugTrap::own(fake.versioned()).expect_err("it is too old");
    assert_eq!(error, KfdError::TooOld { call: "RUNTIME_ENABLE", needs: 13, has: 11 });
    assert_eq!(fake.state().calls.len(), 1);
}

#[test]
fn more_queues_than_possible_are_refused() {
    let fake = Fake::with_queues(1025);
    let trap = own(&fake);
    assert!(matches!(trap.queues(), Err(KfdError::UnexpectedAnswer { answer: 1025, .. })));
    let fake = Fake::with_queues(1024);
    assert_eq!(own(&fake).queues().expect("there are so many").len(), 1024);
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let fake = Fake::with_queues(1);
    let error = DebugTrap::other(fake.versioned(), u32::MAX).expect_err("there is none");
    assert_eq!(error, KfdError::NoSuchProcess { pid: u32::MAX });
    assert_eq!(fake.count(DBG_TRAP.request, Some(Operation::Enable)), 0);
}
