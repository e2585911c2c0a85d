//! Mechanisms on the emulated driver: what happens to queues, to the GPU and to the process.
#![allow(unsafe_code, reason = "calls that make and end queues")]

use std::sync::Arc;

use rustix::io::Errno;
use xsched_hal_kfd::attribution::{Attribution, BySnapshot};
use xsched_hal_kfd::mechanism::{DebugTrap, Kind, Mechanism, PatchedDriver, UpdateQueue};
use xsched_hal_kfd::topology::Module;
use xsched_hal_kfd::uapi::{self, Call};
use xsched_hal_kfd::{KfdError, KfdQueue, QueueFacts, Versioned};
use xsched_kfd_emulated::model::Fault;
use xsched_kfd_emulated::{Config, InProcess, Private};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The GPU of the configuration.
const GPU: u32 = 0x8c1f;
const RING_BYTES: u32 = 1 << 14;

/// A process with the driver open.
struct Process {
    driver: InProcess,
    versioned: Arc<Versioned<InProcess>>,
}

fn ring(number: u32) -> u64 {
    0x7000_0000_0000 + u64::from(number) * u64::from(RING_BYTES)
}

impl Process {
    fn new(config: Config) -> Self {
        Self::of(InProcess::new(config))
    }

    fn of(driver: InProcess) -> Self {
        let versioned = Arc::new(Versioned::ask(driver.clone()).expect("it answers"));
        Self { driver, versioned }
    }

    fn call<T>(&self, call: &Call<T>, argument: &mut T) -> Result<u32, Errno>
    where
        T: FromBytes + IntoBytes + Immutable,
    {
        // SAFETY: the arguments here name no memory that the driver reads or writes.
        unsafe { self.versioned.call(call, argument) }.expect("it is new enough")
    }

    fn enable_runtime(&self) {
        let mode = uapi::MODE_ENABLE;
        let mut argument = uapi::RuntimeEnable { r_debug: 0, mode, capabilities: 0 };
        assert_eq!(self.call(&uapi::RUNTIME_ENABLE, &mut argument), Ok(0));
    }

    /// Makes the queue with this ring.
    fn create(&self, number: u32) -> Arc<KfdQueue> {
        // All versions take the older form.
        let mut made = uapi::CreateQueue88 {
            ring_base: ring(number),
            ring_size: RING_BYTES,
            gpu_id: GPU,
            queue_type: uapi::QueueType::ComputeAql as u32,
            percentage: 100,
            priority: 7,
            ..uapi::CreateQueue88::default()
        };
        assert_eq!(self.call(&uapi::CREATE_QUEUE_88, &mut made), Ok(0));
        let facts = QueueFacts {
            id: made.queue_id,
            gpu_id: GPU,
            ring_base: ring(number),
            ring_size: RING_BYTES,
            priority: 7,
            kind: made.queue_type,
            save_bytes: 0,
            created: None,
        };
        Arc::new(KfdQueue::new(facts).expect("it can be"))
    }

    fn destroy(&self, queue: &KfdQueue) -> Result<u32, Errno> {
        let mut argument = uapi::DestroyQueue { queue_id: queue.id(), pad: 0 };
        self.call(&uapi::DESTROY_QUEUE, &mut argument)
    }

    fn is_active(&self, queue: &KfdQueue) -> bool {
        let (pid, id) = (self.driver.pid(), queue.id());
        self.driver.with(|model| model.queue(pid, id)).is_some_and(|queue| queue.is_active)
    }

    fn preemptions(&self) -> u64 {
        self.driver.with(|model| model.node(0)).expect("there is a GPU").preemptions
    }

    fn inject(&self, fault: Fault) {
        assert!(self.driver.with(|model| model.inject(0, fault)));
    }

    fn update(&self) -> UpdateQueue<InProcess> {
        UpdateQueue::new(Arc::clone(&self.versioned), None)
    }

    fn trap(&self) -> DebugTrap<InProcess> {
        DebugTrap::own(Arc::clone(&self.versioned)).expect("the runtime is enabled")
    }
}

fn patched(process: &Process) -> PatchedDriver<InProcess> {
    let module = Module { version: Some("6.12_preempt".to_owned()), ..Module::default() };
    let driver = Arc::clone(&process.versioned);
    PatchedDriver::new(driver, Some("_preempt"), &module, 1_000).expect("it is patched")
}

/// All three, each with a process of its own.
fn all() -> Vec<(Process, Box<dyn Mechanism>)> {
    let make = |mechanism: fn(&Process) -> Box<dyn Mechanism>| {
        let process = Process::new(Config { private: Private::Preempt, ..Config::mi308x() });
        process.enable_runtime();
        let mechanism = mechanism(&process);
        (process, mechanism)
    };
    vec![
        make(|process| Box::new(process.update())),
        make(|process| Box::new(process.trap())),
        make(|process| Box::new(patched(process))),
    ]
}

#[test]
fn each_mechanism_suspends_and_resumes() {
    for (process, mechanism) in all() {
        let name = mechanism.kind();
        let queues: Vec<_> = (0..3).map(|number| process.create(number)).collect();
        assert_eq!(mechanism.suspend(&queues[1..]), [Ok(()), Ok(())], "{name}");
        let active: Vec<_> = queues.iter().map(|queue| process.is_active(queue)).collect();
        assert_eq!(active, [true, false, false], "{name}");
        assert_eq!(mechanism.is_still_suspended(&queues[1]), Ok(true), "{name}");
        assert_eq!(mechanism.resume(&queues), [Ok(()), Ok(()), Ok(())], "{name}");
        assert!(queues.iter().all(|queue| process.is_active(queue)), "{name}");
    }
}

#[test]
fn each_mechanism_costs_what_it_says() {
    for (process, mechanism) in all() {
        let queues: Vec<_> = (0..24).map(|number| process.create(number)).collect();
        // Queues that the debugger has not seen are shown to it, which costs none.
        let before = process.preemptions();
        assert!(mechanism.suspend(&queues).iter().all(Result::is_ok));
        let cost = process.preemptions() - before;
        assert_eq!(cost, mechanism.preemptions(24) as u64, "{}", mechanism.kind());
        // Twice is once.
        assert!(mechanism.suspend(&queues).iter().all(Result::is_ok));
        assert_eq!(process.preemptions() - before, cost, "{}", mechanism.kind());
    }
}

#[test]
fn as_many_queues_as_a_process_can_have() {
    for (process, mechanism) in all() {
        let queues: Vec<_> = (0..uapi::QUEUES_MAX).map(|number| process.create(number)).collect();
        assert!(mechanism.suspend(&queues).iter().all(Result::is_ok), "{}", mechanism.kind());
        assert!(!queues.iter().any(|queue| process.is_active(queue)));
        assert!(mechanism.resume_all().iter().all(Result::is_ok));
        assert!(queues.iter().all(|queue| process.is_active(queue)));
        assert!(mechanism.held().is_empty());
    }
}

#[test]
fn a_destroyed_queue_and_another_with_its_id() {
    for (process, mechanism) in all() {
        let name = mechanism.kind();
        let (old, other) = (process.create(0), process.create(1));
        assert_eq!(mechanism.suspend(std::slice::from_ref(&old)), [Ok(())], "{name}");
        // A queue's user resumes it before it destroys it.
        assert_eq!(mechanism.resume(std::slice::from_ref(&old)), [Ok(())], "{name}");
        mechanism.forget(&old);
        assert_eq!(process.destroy(&old), Ok(0), "{name}");
        let answers = mechanism.suspend(&[Arc::clone(&old), Arc::clone(&other)]);
        assert!(matches!(answers[0], Err(KfdError::UnknownQueue { .. })), "{name}: {answers:?}");
        assert_eq!(answers[1], Ok(()), "{name}");
        let new = process.create(2);
        assert_eq!(new.id(), old.id(), "{name}");
        assert_eq!(mechanism.suspend(&[new]), [Ok(())], "{name}");
    }
}

#[test]
fn the_successor_of_a_destroyed_queue_is_not_suspended() {
    // The patched driver knows ids alone; `docs/src/guides/amd.md` says so.
    for (process, mechanism) in all().into_iter().take(2) {
        let old = process.create(0);
        assert_eq!(mechanism.suspend(std::slice::from_ref(&old)), [Ok(())]);
        assert_eq!(mechanism.resume(std::slice::from_ref(&old)), [Ok(())]);
        assert_eq!(process.destroy(&old), Ok(0));
        let new = process.create(1);
        assert_eq!(new.id(), old.id());
        let answers = mechanism.suspend(&[old]);
        assert!(matches!(answers[0], Err(KfdError::UnknownQueue { .. })), "{}", mechanism.kind());
        assert!(process.is_active(&new), "{}", mechanism.kind());
    }
}

#[test]
fn a_queue_that_is_suspended_can_be_destroyed_once_it_is_let_go() {
    let process = Process::new(Config::mi308x());
    process.enable_runtime();
    let trap = process.trap();
    let queue = process.create(0);
    assert_eq!(trap.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    // The real driver would make this call wait for ever.
    assert_eq!(process.destroy(&queue), Err(Errno::DEADLK));
    assert_eq!(trap.resume(std::slice::from_ref(&queue)), [Ok(())]);
    assert_eq!(process.destroy(&queue), Ok(0));
    // A queue that an update suspended can be destroyed.
    let update = process.update();
    let queue = process.create(1);
    assert_eq!(update.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    assert_eq!(process.destroy(&queue), Ok(0));
    let answers = update.resume(std::slice::from_ref(&queue));
    assert!(matches!(answers[0], Err(KfdError::UnknownQueue { .. })));
    assert!(update.held().is_empty());
}

#[test]
fn a_third_party_that_makes_a_queue_active() {
    let process = Process::new(Config::mi308x());
    process.enable_runtime();
    let queue = process.create(0);
    let own_update = |percentage| {
        let (ring_base, ring_size) = (ring(0), RING_BYTES);
        let mut argument =
            uapi::UpdateQueue { ring_base, queue_id: 0, ring_size, percentage, priority: 7 };
        assert_eq!(process.call(&uapi::UPDATE_QUEUE, &mut argument), Ok(0));
    };
    let update = process.update();
    assert_eq!(update.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    own_update(100);
    assert!(process.is_active(&queue));
    assert_eq!(update.is_still_suspended(&queue), Ok(false));
    assert_eq!(update.reassert(&queue), Ok(true));
    assert!(!process.is_active(&queue));
    drop(update);
    // What a debugger has suspended stays so.
    let trap = process.trap();
    assert_eq!(trap.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    own_update(100);
    assert!(!process.is_active(&queue));
    assert_eq!(trap.is_still_suspended(&queue), Ok(true));
}

#[test]
fn a_gpu_that_is_reset_in_the_middle() {
    for (process, mechanism) in all().into_iter().take(2) {
        let name = mechanism.kind();
        let (one, two) = (process.create(0), process.create(1));
        assert_eq!(mechanism.suspend(std::slice::from_ref(&one)), [Ok(())], "{name}");
        process.inject(Fault::Timeout);
        let late = mechanism.suspend(std::slice::from_ref(&two));
        let expected = matches!(late[0], Err(KfdError::PreemptionTimedOut { .. }));
        assert!(expected, "{name}: {late:?}");
        // While it is being reset, nothing can be said of the queues but that.
        let during = mechanism.suspend(std::slice::from_ref(&two));
        assert!(during[0].is_err(), "{name}: {during:?}");
        process.driver.with(|model| model.end_reset(0));
        // Its queues are lost. An update is told so; the debugger's call marks what does not run.
        let after = mechanism.suspend(std::slice::from_ref(&two));
        let told = matches!(after[0], Err(KfdError::QueueReset { .. }));
        assert!(told || name == Kind::DebugTrap, "{after:?}");
        assert!(!process.is_active(&one) && !process.is_active(&two), "{name}");
    }
}

#[test]
fn a_queue_that_hangs_is_reset_alone_and_told() {
    let process = Process::new(Config::mi308x());
    process.enable_runtime();
    let (one, two) = (process.create(0), process.create(1));
    let update = process.update();
    let (pid, id) = (process.driver.pid(), one.id());
    process.inject(Fault::QueueReset { pid, id });
    // The preemption that finds out, and those after it.
    _ = update.suspend(std::slice::from_ref(&two));
    let answers = update.suspend(std::slice::from_ref(&one));
    assert!(matches!(answers[0], Err(KfdError::QueueReset { .. })), "{answers:?}");
}

#[test]
fn nothing_stays_suspended_when_a_debugger_dies() {
    let debugger = Process::new(Config::mi308x());
    let target = Process::of(debugger.driver.process(4_000_000));
    target.enable_runtime();
    let queue = target.create(0);
    debugger.driver.trace(4_000_000, Some(debugger.driver.pid()));
    // Attaching to it takes a real process, so the calls are made by hand.
    let info = uapi::RuntimeInfo::default();
    let file = rustix_pipe();
    let mut enable = uapi::DbgTrap::new(
        4_000_000,
        &uapi::EnableDebug {
            exceptions: 0,
            info: (&raw const info).expose_provenance() as u64,
            info_size: 16,
            descriptor: std::os::fd::AsRawFd::as_raw_fd(&file.0).unsigned_abs(),
        },
    );
    assert_eq!(debugger.call(&uapi::DBG_TRAP, &mut enable), Ok(0));
    debugger.driver.trace(4_000_000, None);
    let mut ids = [queue.id()];
    let mut entries = [uapi::QueueSnapshotEntry::default(); 4];
    let mut snapshot = uapi::DbgTrap::new(
        4_000_000,
        &uapi::QueueSnapshot {
            exceptions: uapi::EC_QUEUE_NEW,
            entries: entries.as_mut_ptr().expose_provenance() as u64,
            count: 4,
            entry_size: 64,
        },
    );
    assert_eq!(debugger.call(&uapi::DBG_TRAP, &mut snapshot), Ok(0));
    let queues = ids.as_mut_ptr().expose_provenance() as u64;
    let mut suspend = uapi::DbgTrap::new(
        4_000_000,
        &uapi::SuspendQueues { exceptions: 0, queues, count: 1, grace: 1 },
    );
    assert_eq!(debugger.call(&uapi::DBG_TRAP, &mut suspend), Ok(1));
    assert!(!target.is_active(&queue));
    debugger.driver.exit();
    assert!(target.is_active(&queue));
}

fn rustix_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    std::io::pipe().expect("there is a pipe")
}

#[test]
fn the_end_of_a_session_is_the_end_of_its_holds() {
    let process = Process::new(Config::mi308x());
    process.enable_runtime();
    let trap = process.trap();
    let queue = process.create(0);
    assert_eq!(trap.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    // The runtime shuts down, which with a debugger would wait for ever.
    let mut disable = uapi::RuntimeEnable::default();
    assert_eq!(trap.end(), Ok(()));
    assert!(process.is_active(&queue));
    assert_eq!(process.call(&uapi::RUNTIME_ENABLE, &mut disable), Ok(0));
    assert_eq!(process.driver.blocked(), None);
}

#[test]
fn a_debugger_keeps_no_runtime_waiting() {
    let process = Process::new(Config::mi308x());
    let error = DebugTrap::own(Arc::clone(&process.versioned)).expect_err("it is too early");
    assert_eq!(error, KfdError::RuntimeNotEnabled);
    process.enable_runtime();
    assert_eq!(process.driver.blocked(), None);
    drop(process.trap());
    let late = Process::new(Config::mi308x());
    late.create(0);
    let error = DebugTrap::own(Arc::clone(&late.versioned)).expect_err("it is too late");
    assert_eq!(error, KfdError::QueuesBeforeRuntime);
    assert_eq!(late.driver.blocked(), None);
}

#[test]
fn streams_are_told_by_what_is_new() {
    let process = Process::new(Config::mi308x());
    process.enable_runtime();
    process.create(0);
    let by = BySnapshot(Arc::new(process.trap()));
    let before = by.before().expect("it can be asked");
    let queue = process.create(1);
    let found = by.single_since(&before).expect("one was made");
    assert_eq!((found.id, found.ring_base), (queue.id(), ring(1)));
}

#[test]
fn the_other_meaning_of_0x88_is_refused() {
    for private in [Private::Suspend, Private::Absent] {
        let process = Process::new(Config { private, ..Config::mi308x() });
        let module = Module { version: Some("_preempt".to_owned()), ..Module::default() };
        let driver = Arc::clone(&process.versioned);
        let error = PatchedDriver::new(driver, Some("_preempt"), &module, 1_000);
        let error = error.expect_err("it is another driver");
        let expected = matches!(
            error,
            KfdError::CallMismatch { .. } | KfdError::NotSupported { errno: Errno::NOTTY, .. }
        );
        assert!(expected, "{private:?}: {error}");
        assert_eq!(process.preemptions(), 0);
    }
}

#[test]
fn other_versions_and_schedulers() {
    let old = Process::new(Config { minor: 11, ..Config::mi308x() });
    let error = DebugTrap::own(Arc::clone(&old.versioned)).expect_err("it is too old");
    assert!(matches!(error, KfdError::TooOld { needs: 13, has: 11, .. }));
    let queue = old.create(0);
    let update = old.update();
    assert_eq!(update.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    assert!(!old.is_active(&queue));
    let without = Process::new(Config { sched_policy: 2, ..Config::mi308x() });
    without.enable_runtime();
    let error =
        DebugTrap::own(Arc::clone(&without.versioned)).expect_err("there is no hardware scheduler");
    let told = error.to_string();
    assert!(told.contains("sched_policy"), "{told}");
}

#[test]
fn a_noted_priority_survives_a_suspension() {
    let process = Process::new(Config::mi308x());
    let queue = process.create(0);
    let update = process.update();
    queue.note_priority(11).expect("it is in range");
    assert_eq!(update.suspend(std::slice::from_ref(&queue)), [Ok(())]);
    assert_eq!(update.resume(std::slice::from_ref(&queue)), [Ok(())]);
    let pid = process.driver.pid();
    let view = process.driver.with(|model| model.queue(pid, queue.id())).expect("it is there");
    assert_eq!((view.priority, view.is_active), (11, true));
}

#[test]
fn the_device_is_asked_what_it_has() {
    let process = Process::new(Config::mi308x());
    assert_eq!(process.versioned.gpu_ids(), Ok(vec![GPU]));
    assert!(process.versioned.available_memory(GPU).expect("it is there") > 1 << 30);
    assert!(process.versioned.available_memory(7).is_err());
    assert!(process.versioned.events(GPU).is_ok());
    let none = Process::new(Config::without_gpu());
    assert_eq!(none.versioned.gpu_ids(), Ok(vec![]));
}
