use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use xsched_core::hal::{Deactivate, LevelAdapter, Lv2, Preempt, Retire, StepDone, Steps, Submit};
use xsched_core::id::CmdId;
use xsched_core::level::{Caps, Step};
use xsched_core::queue::{Outcome, Retired};

use super::*;
use crate::attribution::BySnapshot;
use crate::mechanism::{DebugTrap, UpdateQueue};
use crate::preloaded::{ENDS_QUEUE, ENDS_RUNTIME};
use crate::scripted::{Fake, FakeQueue, ring};
use crate::topology::{Topology, tests};
use crate::uapi::{DBG_TRAP, Operation};

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A device below. Each of its streams makes `makes` queues of the driver.
#[derive(Debug)]
struct Below {
    fake: Fake,
    makes: usize,
    level: Level,
    /// Launches do not return while the driver's queue 0 is suspended.
    blocks: bool,
}

#[derive(Debug)]
struct Half {
    fake: Fake,
    blocks: bool,
}

impl ErrorType for Below {
    type Error = Fault;
}

impl ErrorType for Half {
    type Error = Fault;
}

impl Submit for Half {
    type Payload = ();

    fn launch(&mut self, _: CmdId, (): &(), _: bool) -> Result<(), Fault> {
        while self.blocks && !self.fake.is_active(0) {
            thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    fn fence(&mut self, _: CmdId) -> Result<(), Fault> {
        Ok(())
    }

    fn room(&self) -> Option<u32> {
        Some(7)
    }
}

impl Retire for Half {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        let busy = xsched_core::time::Duration::from_ms(60_000);
        Ok(Some(Retired { upto: CmdId(0), busy, outcome: Outcome::Ok }))
    }
}

impl Preempt for Half {
    type Top = Lv2;
}

impl Deactivate for Half {
    fn deactivate(&mut self) -> Result<StepDone, Fault> {
        Ok(StepDone::Now(None))
    }

    fn reactivate(&mut self) -> Result<StepDone, Fault> {
        Ok(StepDone::Now(None))
    }
}

impl Backend for Below {
    type Config = ();
    type Submit = Half;
    type Retire = Half;
    type Preempt = LevelAdapter<Half>;

    fn open(
        &mut self,
        _: QueueId,
        (): (),
    ) -> Result<Halves<Half, Half, LevelAdapter<Half>>, Fault> {
        for _ in 0..self.makes {
            let mut state = self.fake.state();
            let id = state.queues.len() as u32;
            let ring_base = ring(id);
            let queue = FakeQueue { ring_base, percentage: 100, priority: 7, ..Default::default() };
            state.queues.insert(id, FakeQueue { is_new: true, ..queue });
        }
        let half = || Half { fake: self.fake.clone(), blocks: self.blocks };
        let (submit, retire, preempt) = (half(), half(), LevelAdapter(half()));
        Ok(Halves { submit, retire, preempt, caps: Caps::up_to(self.level, 64) })
    }
}

struct TestDevice {
    fake: Fake,
    device: KfdDevice<Below>,
}

fn test_device(makes: usize, config: KfdConfig) -> TestDevice {
    let fake = Fake::with_queues(0);
    fake.state().runtime = crate::uapi::runtime_state::ENABLED;
    let trap = Arc::new(DebugTrap::own(fake.versioned()).expect("the runtime is enabled"));
    let by = Box::new(BySnapshot(Arc::clone(&trap)));
    let below = Below { fake: fake.clone(), makes, level: Level::Deactivate, blocks: false };
    let device = KfdDevice::new(below, trap, by, None, config).expect("there is a thread");
    TestDevice { fake, device }
}

fn config(stages: bool) -> KfdConfig {
    KfdConfig { stages, sysfs: None, ..KfdConfig::default() }
}

type Opened = super::Opened<Below>;

fn open(device: &mut KfdDevice<Below>) -> Opened {
    device.open(QueueId::default(), KfdQueueConfig::new(())).expect("it opens")
}

/// Waits until something holds.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "timed out: {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_queue_of_its_own_is_held_by_the_driver() {
    let TestDevice { fake, mut device } = test_device(1, config(false));
    let mut queue = open(&mut device);
    assert_eq!((queue.caps.level, queue.preempt.level()), (Level::Interrupt, Level::Interrupt));
    assert_eq!(queue.preempt.step(Step::Deactivate), Ok(StepDone::Now(None)));
    assert!(fake.is_active(0), "a gate is not the driver's");
    assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    assert!(!fake.is_active(0));
    // Twice is once.
    assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    assert_eq!(fake.state().preemptions, 1);
    assert_eq!(queue.preempt.step(Step::Restore), Ok(StepDone::Now(None)));
    assert!(fake.is_active(0));
}

#[test]
fn steps_of_one_commit_are_one_preemption() {
    let TestDevice { fake, mut device } = test_device(1, config(true));
    let mut queues: Vec<_> = (0..24).map(|_| open(&mut device)).collect();
    assert!(device.stages());
    for queue in &mut queues {
        assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Later));
        assert_eq!(queue.preempt.poll_step(), Ok(None));
    }
    assert!(fake.is_active(0), "nothing happens before the commit");
    assert!(device.commit().is_ok());
    assert_eq!(fake.count(DBG_TRAP.request, Some(Operation::SuspendQueues)), 1);
    assert!((0..24).all(|id| !fake.is_active(id)));
    for queue in &mut queues {
        assert_eq!(queue.preempt.poll_step(), Ok(Some(StepDone::Now(None))));
        assert_eq!(queue.preempt.poll_step(), Ok(None), "the result is reported once");
    }
    // A commit resumes one queue while others stay suspended.
    assert_eq!(queues[0].preempt.step(Step::Restore), Ok(StepDone::Later));
    assert!(device.commit().is_ok());
    assert_eq!(queues[0].preempt.poll_step(), Ok(Some(StepDone::Now(None))));
    assert!(fake.is_active(0) && !fake.is_active(1));
}

#[test]
fn a_failed_step_is_reported_by_its_queue_alone() {
    let TestDevice { fake, mut device } = test_device(1, config(true));
    let (mut one, mut two) = (open(&mut device), open(&mut device));
    fake.state().queues.remove(&0);
    assert_eq!(one.preempt.step(Step::Interrupt), Ok(StepDone::Later));
    assert_eq!(two.preempt.step(Step::Interrupt), Ok(StepDone::Later));
    assert!(device.commit().is_ok());
    assert_eq!(one.preempt.poll_step(), Err(Fault::DeviceLost));
    assert_eq!(two.preempt.poll_step(), Ok(Some(StepDone::Now(None))));
}

#[test]
fn a_shared_ring_stays_below() {
    let TestDevice { fake, mut device } = test_device(0, config(false));
    let mut queue = open(&mut device);
    assert_eq!((queue.caps.level, queue.caps.interrupt), (Level::Deactivate, None));
    assert_eq!(device.why_not(), Some(&Unattributed::Shared));
    assert_eq!(queue.preempt.step(Step::Interrupt), Err(Fault::NotSupported));
    assert_eq!(queue.preempt.step(Step::Deactivate), Ok(StepDone::Now(None)));
    assert_eq!(fake.state().preemptions, 0);
    let TestDevice { mut device, .. } = test_device(2, config(false));
    assert_eq!(open(&mut device).caps.level, Level::Deactivate);
    assert!(matches!(device.why_not(), Some(Unattributed::Several { .. })));
}

#[test]
fn below_lv3_no_call_is_made() {
    let TestDevice { fake, mut device } = test_device(1, config(false));
    let calls = fake.state().calls.len();
    let config = KfdQueueConfig::new(()).level_max(Level::Deactivate);
    let queue = device.open(QueueId::default(), config).expect("it opens");
    assert_eq!((queue.caps.level, device.why_not()), (Level::Deactivate, None));
    assert_eq!(fake.state().calls.len(), calls);
}

#[test]
fn a_named_queue_gets_lv3_unless_it_is_for_copies() {
    let TestDevice { fake, mut device } = test_device(1, config(false));
    let facts = *crate::scripted::queue(0).facts();
    let config = KfdQueueConfig::new(()).known_as(facts);
    let mut queue = device.open(QueueId::default(), config).expect("it opens");
    assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    assert!(!fake.is_active(0));
    let copies = QueueFacts { kind: 1, ..facts };
    let config = KfdQueueConfig::new(()).known_as(copies);
    let queue = device.open(QueueId::default(), config).expect("it opens");
    assert_eq!(queue.caps.level, Level::Deactivate);
    assert_eq!(device.why_not(), Some(&Unattributed::NoWaves { id: 0 }));
}

#[test]
fn a_closed_queue_is_resumed() {
    for order in 0..3 {
        let TestDevice { fake, mut device } = test_device(1, config(false));
        let Halves { submit, retire, mut preempt, .. } = open(&mut device);
        assert_eq!(preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
        match order {
            0 => drop((preempt, submit, retire)),
            1 => drop((submit, preempt, retire)),
            _ => drop((device, retire, submit, preempt)),
        }
        assert!(fake.is_active(0), "{order}");
    }
    // Its staged steps are dropped.
    let TestDevice { fake, mut device } = test_device(1, config(true));
    let mut queue = open(&mut device);
    assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Later));
    drop(queue);
    assert!(device.commit().is_ok());
    assert!(fake.is_active(0));
}

#[test]
fn a_blocked_launch_resumes_all_queues() {
    let TestDevice { fake, mut device } = test_device(1, config(false));
    device.below_mut().blocks = true;
    let (mut one, mut two) = (open(&mut device), open(&mut device));
    assert_eq!(one.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    let (sender, back) = mpsc::channel();
    let launch = thread::spawn(move || {
        let launched = two.submit.launch(CmdId(0), &(), true);
        sender.send(launched).expect("the test waits");
        two
    });
    assert!(matches!(back.recv_timeout(PATIENCE), Ok(Ok(()))), "the launch never came back");
    assert_eq!(device.counts().released, 1);
    until("it is held again", || !fake.is_active(0));
    assert_eq!(one.preempt.step(Step::Restore), Ok(StepDone::Now(None)));
    drop(launch.join().expect("it does not panic"));
    assert!(fake.is_active(0));
}

#[test]
fn open_gates_below_resume_all_queues() {
    let fake = Fake::with_queues(0);
    let trap = Arc::new(DebugTrap::own(fake.versioned()).expect("the runtime is enabled"));
    let by = Box::new(BySnapshot(Arc::clone(&trap)));
    let below = Below { fake: fake.clone(), makes: 1, level: Level::Deactivate, blocks: false };
    let is_released = Arc::new(AtomicBool::new(false));
    let says = Arc::clone(&is_released);
    let gates_open: GatesOpen = Box::new(move || says.load(Ordering::Relaxed));
    let mut device = KfdDevice::new(below, trap, by, Some(gates_open), config(false))
        .expect("there is a thread");
    let (mut one, mut two) = (open(&mut device), open(&mut device));
    assert_eq!(one.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    is_released.store(true, Ordering::Relaxed);
    until("it is resumed", || fake.is_active(0));
    // What is held meanwhile is held when that ends.
    assert_eq!(two.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    assert!(fake.is_active(1));
    is_released.store(false, Ordering::Relaxed);
    until("both are held", || !fake.is_active(0) && !fake.is_active(1));
    assert_eq!(one.preempt.step(Step::Restore), Ok(StepDone::Now(None)));
    assert!(fake.is_active(0) && !fake.is_active(1));
}

#[test]
fn an_owners_update_is_reverted() {
    let fake = Fake::with_queues(1);
    let update = Arc::new(UpdateQueue::new(fake.versioned(), None));
    let below = Below { fake: fake.clone(), makes: 0, level: Level::Deactivate, blocks: false };
    let blind = Box::new(crate::attribution::NoAttribution);
    let mut device =
        KfdDevice::new(below, update, blind, None, config(false)).expect("there is a thread");
    let config = KfdQueueConfig::new(()).known_as(*crate::scripted::queue(0).facts());
    let mut queue = device.open(QueueId::default(), config).expect("it opens");
    assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    fake.state().queues.get_mut(&0).expect("it is there").percentage = 100;
    until("it is suspended again", || device.counts().reasserted == 1 && !fake.is_active(0));
    assert_eq!(queue.preempt.step(Step::Restore), Ok(StepDone::Now(None)));
    assert!(fake.is_active(0));
}

#[test]
fn queues_are_resumed_before_they_end() {
    let TestDevice { fake, mut device } = test_device(1, config(false));
    let (mut one, mut two) = (open(&mut device), open(&mut device));
    for queue in [&mut one, &mut two] {
        assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    }
    let known = [Arc::clone(device.holds.mechanism().expect("there is one"))];
    exit::resume_before(ENDS_QUEUE, 1, &known);
    assert!(!fake.is_active(0) && fake.is_active(1));
    exit::resume_before(ENDS_RUNTIME, 0, &known);
    assert!(fake.is_active(0));
    assert!(!fake.state().is_debugged, "the session has ended");
    // Both can still be resumed and closed.
    assert_eq!(one.preempt.step(Step::Restore), Ok(StepDone::Now(None)));
}

#[test]
fn time_suspended_is_not_device_time_below_gates() {
    let TestDevice { mut device, .. } = test_device(1, config(false));
    device.below_mut().level = Level::Block;
    let mut queue = open(&mut device);
    assert_eq!(queue.caps.deactivate, None);
    assert_eq!(queue.preempt.step(Step::Interrupt), Ok(StepDone::Now(None)));
    thread::sleep(Duration::from_millis(2));
    assert_eq!(queue.preempt.step(Step::Restore), Ok(StepDone::Now(None)));
    let mut busy =
        || queue.retire.poll_retired().expect("it answers").expect("always").busy.as_ns();
    let (first, second) = (busy(), busy());
    assert!(second - first >= 2_000_000, "{first} {second}");
}

#[test]
fn there_is_room_for_as_many_as_below() {
    let TestDevice { mut device, .. } = test_device(1, config(false));
    assert_eq!(open(&mut device).submit.room(), Some(7));
}

#[test]
fn costs_are_those_of_the_gpu_and_the_mechanism() {
    let (_folder, sysfs) = tests::tree(&[tests::MI308X], &[]);
    let gpu = Topology::read(&sysfs).expect("it is there").gpus.remove(0);
    let own = cost_model(&gpu);
    let TestDevice { device, .. } = test_device(1, KfdConfig { gpu: Some(gpu), ..config(true) });
    let cost = device.cost().expect("the GPU is known");
    assert_eq!((cost.save_fixed, cost.restore_context), (own.save_fixed, own.restore_context));
    assert_eq!((cost.reach, cost.batches), (Reach::Device, true));
    let TestDevice { device, .. } = test_device(1, config(true));
    assert_eq!(device.cost(), None);
}

/// All streams are in one queue, which is found by the stream alone.
#[derive(Debug)]
struct InOne(QueueFacts);

impl Attribution for InOne {
    fn before(&self) -> Result<Before, Unattributed> {
        Ok(Before::Created(0))
    }

    fn made_since(&self, _: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        Err(Unattributed::NoObserver)
    }

    fn of_shared(&self, _: usize) -> Result<QueueFacts, Unattributed> {
        Ok(self.0)
    }
}

#[test]
fn a_queue_that_streams_share_is_suspended_while_all_of_it_is_held() {
    let fake = Fake::with_queues(1);
    fake.state().runtime = crate::uapi::runtime_state::ENABLED;
    let trap = Arc::new(DebugTrap::own(fake.versioned()).expect("the runtime is enabled"));
    let below = Below { fake: fake.clone(), makes: 0, level: Level::Deactivate, blocks: false };
    let by = Box::new(InOne(*crate::scripted::queue(0).facts()));
    let device = KfdDevice::new(below, trap, by, None, config(false));
    let mut device = device.expect("there is a thread");
    let held = Arc::new(AtomicBool::new(false));
    let mut open = |can: bool| {
        let held = Arc::clone(&held);
        let is_held = move || can.then(|| held.load(Ordering::SeqCst));
        let config = KfdQueueConfig::new(()).for_stream(1).held_together(Arc::new(is_held));
        device.open(QueueId::default(), config).expect("it opens")
    };
    assert_eq!(open(false).caps.level, Level::Deactivate, "it cannot be held as a whole");
    let (mut one, mut other) = (open(true), open(true));
    assert_eq!((one.caps.level, other.caps.level), (Level::Interrupt, Level::Interrupt));
    let done = Ok(StepDone::Now(None));
    let stays = |is_active: bool| {
        thread::sleep(Duration::from_millis(5));
        assert_eq!(fake.is_active(0), is_active);
    };
    assert_eq!(one.preempt.step(Step::Interrupt), done);
    stays(true);
    for is_held in [true, false, true] {
        held.store(is_held, Ordering::SeqCst);
        until("it is not as the others are", || fake.is_active(0) != is_held);
    }
    assert_eq!(other.preempt.step(Step::Interrupt), done);
    assert_eq!(other.preempt.step(Step::Restore), done);
    stays(false);
    drop(other);
    stays(false);
    assert_eq!(one.preempt.step(Step::Restore), done);
    assert!(fake.is_active(0));
}
