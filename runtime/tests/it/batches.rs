//! Steps that wait for a commit: how many there are, and what a slow or a broken one does.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use xsched::policies::fcfs::Fcfs;
use xsched::policies::hpf::Hpf;
use xsched::{Device, Runtime, WaitError};
use xsched_core::cost::CostModel;
use xsched_core::fault::Fault;
use xsched_core::hal::{
    Backend, Deactivate, ErrorType, Halves, LevelAdapter, Lv2, Preempt, StepDone,
};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Level, Step};
use xsched_core::message::HoldState;

use crate::device::{ByHand, Half, Hand};
use crate::{TestQueue, config, soon};

/// Steps of all queues of a device, and their commits.
#[derive(Default)]
struct Plan {
    staged: Vec<(Arc<Turn>, Step)>,
    /// The steps of each commit so far that had any.
    commits: Vec<Vec<Step>>,
    /// Commits wait here while it is set, as in a driver that is slow.
    blocked: bool,
    inside: bool,
    fails: Option<Fault>,
    panics: bool,
    cost: Option<CostModel>,
}

#[derive(Default)]
struct Desk {
    plan: Mutex<Plan>,
    changed: Condvar,
}

impl Desk {
    fn get(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }

    fn block(&self, on: bool) {
        self.get().blocked = on;
        self.changed.notify_all();
    }

    fn commits(&self) -> Vec<Vec<Step>> {
        self.get().commits.clone()
    }
}

/// A queue's place at the desk.
struct Turn {
    hand: Arc<Hand>,
    done: Mutex<bool>,
}

/// A device in hand whose steps wait for a commit.
struct Staged(Arc<Desk>);

struct Stage {
    desk: Arc<Desk>,
    turn: Arc<Turn>,
}

impl ErrorType for Staged {
    type Error = Fault;
}

impl ErrorType for Stage {
    type Error = Fault;
}

impl Stage {
    fn put(&self, step: Step) -> Result<StepDone, Fault> {
        self.desk.get().staged.push((Arc::clone(&self.turn), step));
        Ok(StepDone::Later)
    }
}

impl Preempt for Stage {
    type Top = Lv2;

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        let done = std::mem::take(&mut *self.turn.done.lock().unwrap());
        Ok(done.then_some(StepDone::Now(None)))
    }
}

impl Deactivate for Stage {
    fn deactivate(&mut self) -> Result<StepDone, Fault> {
        self.put(Step::Deactivate)
    }

    fn reactivate(&mut self) -> Result<StepDone, Fault> {
        self.put(Step::Reactivate)
    }
}

impl Backend for Staged {
    type Config = Arc<Hand>;
    type Submit = Half;
    type Retire = Half;
    type Preempt = LevelAdapter<Stage>;

    fn open(
        &mut self,
        queue: QueueId,
        hand: Arc<Hand>,
    ) -> Result<Halves<Half, Half, LevelAdapter<Stage>>, Fault> {
        let Halves { submit, retire, .. } = ByHand.open(queue, Arc::clone(&hand))?;
        let turn = Arc::new(Turn { hand, done: Mutex::default() });
        let preempt = LevelAdapter(Stage { desk: Arc::clone(&self.0), turn });
        Ok(Halves { submit, retire, preempt, caps: Caps::up_to(Level::Deactivate, 1_024) })
    }

    fn stages(&self) -> bool {
        true
    }

    fn cost(&self) -> Option<CostModel> {
        self.0.get().cost
    }

    fn commit(&mut self) -> Result<(), Fault> {
        let mut plan = self.0.get();
        let steps = std::mem::take(&mut plan.staged);
        plan.inside = true;
        while plan.blocked {
            plan = self.0.changed.wait(plan).unwrap();
        }
        plan.inside = false;
        if plan.panics {
            drop(plan);
            panic!("as the test wants it");
        }
        if let Some(fault) = plan.fails {
            return Err(fault);
        }
        if !steps.is_empty() {
            plan.commits.push(steps.iter().map(|(_, step)| *step).collect());
        }
        drop(plan);
        for (turn, step) in steps {
            turn.hand.get().deactivated = step == Step::Deactivate;
            *turn.done.lock().unwrap() = true;
        }
        Ok(())
    }
}

struct Scene {
    desk: Arc<Desk>,
    device: Device<Staged>,
}

impl Scene {
    fn new(runtime: &Runtime) -> Self {
        Self::with(runtime, None)
    }

    fn with(runtime: &Runtime, cost: Option<CostModel>) -> Self {
        let desk = Arc::<Desk>::default();
        desk.get().cost = cost;
        let device = runtime.device(Staged(Arc::clone(&desk))).unwrap();
        Self { desk, device }
    }

    fn queue(&self, priority: i32) -> (Arc<Hand>, TestQueue) {
        let hand = Arc::new(Hand::default());
        let config = config(priority, Level::Deactivate, 4);
        (Arc::clone(&hand), self.device.queue(config, hand).unwrap())
    }
}

fn is_held(queue: &TestQueue) -> bool {
    matches!(queue.stats().hold, HoldState::Held(Level::Deactivate))
}

#[test]
fn what_is_decided_in_one_round_is_one_commit() {
    let scene = Scene::new(&Runtime::new(Hpf::default()).unwrap());
    let victims: Vec<_> = (0..5).map(|_| scene.queue(0)).collect();
    for (_, queue) in &victims {
        queue.submit(1.into()).unwrap();
    }
    let (hand, urgent) = scene.queue(5);
    let ticket = urgent.submit(2.into()).unwrap();
    soon("all are held", || victims.iter().all(|(_, queue)| is_held(queue)));
    assert_eq!(scene.desk.commits(), [[Step::Deactivate; 5]]);
    hand.complete(1);
    urgent.wait(ticket).unwrap();
    let runs = |queue: &TestQueue| queue.stats().hold == HoldState::Running;
    soon("all run", || victims.iter().all(|(_, queue)| runs(queue)));
    assert_eq!(scene.desk.commits(), [[Step::Deactivate; 5], [Step::Reactivate; 5]]);
    for (hand, queue) in &victims {
        hand.complete(1);
        queue.wait_all();
    }
}

#[test]
fn no_queue_waits_for_a_commit_that_takes_its_time() {
    let runtime = Runtime::new(Hpf::default()).unwrap();
    let (slow, other) = (Scene::new(&runtime), Scene::new(&runtime));
    let (victim_hand, victim) = slow.queue(0);
    victim.submit(1.into()).unwrap();
    slow.desk.block(true);
    let (hand, urgent) = slow.queue(5);
    let ticket = urgent.submit(2.into()).unwrap();
    soon("it commits", || slow.desk.get().inside);
    // The urgent queue has its command on the device, and the scheduler goes on.
    hand.complete(1);
    urgent.wait(ticket).unwrap();
    let (low_hand, low) = other.queue(0);
    low.submit(3.into()).unwrap();
    let (_, high) = other.queue(5);
    high.submit(4.into()).unwrap();
    soon("the other queue is held", || is_held(&low));
    assert!(runtime.is_scheduling() && runtime.times_failed_open() == 0);
    assert_eq!(victim.stats().hold, HoldState::Resuming, "the end of its hold waits as well");
    slow.desk.block(false);
    soon("the hold came and went", || victim.stats().hold == HoldState::Running);
    assert_eq!(slow.desk.commits(), [[Step::Deactivate], [Step::Reactivate]]);
    victim_hand.complete(1);
    victim.wait_all();
    drop((low_hand, high));
}

#[test]
fn a_commit_that_fails_leaves_queues_that_go_on() {
    let scene = Scene::new(&Runtime::new(Hpf::default()).unwrap());
    scene.desk.get().fails = Some(Fault::Timeout);
    let (victim_hand, victim) = scene.queue(0);
    victim.submit(1.into()).unwrap();
    let (hand, urgent) = scene.queue(5);
    let ticket = urgent.submit(2.into()).unwrap();
    let blocked = HoldState::Held(Level::Block);
    soon("it is held by not launching", || victim.stats().hold == blocked);
    let waiting = victim.submit(3.into()).unwrap();
    hand.complete(1);
    urgent.wait(ticket).unwrap();
    soon("what waited is launched", || victim_hand.get().log == [1, 3]);
    victim_hand.complete(2);
    victim.wait(waiting).unwrap();
}

#[test]
fn a_commit_that_panics_loses_the_queues_whose_steps_it_had() {
    let scene = Scene::new(&Runtime::new(Fcfs).unwrap());
    scene.desk.get().panics = true;
    let (_, queue) = scene.queue(0);
    let (hand, other) = scene.queue(0);
    let ticket = queue.submit(1.into()).unwrap();
    queue.suspend(Level::Deactivate);
    let ended = queue.wait_timeout(ticket, Duration::from_secs(10));
    assert_eq!(ended, Err(WaitError::Failed(Fault::DeviceLost)));
    let ticket = other.submit(2.into()).unwrap();
    hand.complete(1);
    other.wait(ticket).unwrap();
}

#[test]
fn a_queue_may_go_while_its_step_is_staged() {
    let scene = Scene::new(&Runtime::new(Fcfs).unwrap());
    scene.desk.block(true);
    let (hand, queue) = scene.queue(0);
    queue.submit(1.into()).unwrap();
    let holder = queue.clone();
    let holds = std::thread::spawn(move || holder.suspend(Level::Deactivate));
    soon("it commits", || scene.desk.get().inside);
    drop(queue);
    scene.desk.block(false);
    holds.join().unwrap();
    hand.complete(1);
    let weak = Arc::downgrade(&hand);
    drop(hand);
    soon("nothing is left of it", || weak.strong_count() == 0);
}

#[test]
fn a_hold_that_would_not_pay_is_not_as_deep() {
    let runtime = Runtime::new(Hpf::default()).unwrap();
    // Closing a gate takes longer than everything that can be in flight.
    let gate_close = xsched_core::time::Duration::from_ms(10);
    let cost = CostModel { gate_close, ..CostModel::default() };
    let scene = Scene::with(&runtime, Some(cost));
    assert_eq!(runtime.cost(&scene.device).unwrap(), cost);
    for (by_cost, level) in [(true, Level::Block), (false, Level::Deactivate)] {
        let hand = Arc::new(Hand::default());
        let config = config(0, Level::Deactivate, 4).with_by_cost(by_cost);
        let victim = scene.device.queue(config, Arc::clone(&hand)).unwrap();
        let ticket = victim.submit(1.into()).unwrap();
        hand.complete(1);
        victim.wait(ticket).unwrap();
        // The level stays one to choose from.
        victim.set_level(Level::Interrupt);
        victim.submit(2.into()).unwrap();
        let (urgent_hand, urgent) = scene.queue(5);
        let ticket = urgent.submit(3.into()).unwrap();
        soon("it is held", || victim.stats().hold == HoldState::Held(level));
        urgent_hand.complete(1);
        urgent.wait(ticket).unwrap();
        hand.complete(2);
        victim.wait_all();
    }
}
