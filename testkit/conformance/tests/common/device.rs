//! The device.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, ErrorType, Halves, Retire, StepDone, Steps, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level, Recovery, Step};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

use super::{Flaw, Model, ModelCommand};

const ENTRIES: u32 = 128;

#[derive(Debug, Default)]
struct Slot {
    ring: VecDeque<(CmdId, ModelCommand, bool)>,
    running: Option<(CmdId, bool)>,
    /// The running command is stopped.
    parked: bool,
    since: Option<Instant>,
    deactivated: bool,
    interrupted: bool,
    closed: bool,
    discard: bool,
    lost: bool,
    /// Stopped for good.
    abandoned: Option<CmdId>,
    done: u64,
    published: u64,
    busy_ns: u64,
    failed_from: Option<(u64, Fault)>,
    reports: VecDeque<Retired>,
    waker: Option<Waker>,
}

impl Slot {
    fn held(&self) -> bool {
        self.deactivated || self.interrupted
    }

    fn pause(&mut self) {
        let span = self.since.take().map_or(0, |since| since.elapsed().as_nanos());
        self.busy_ns += u64::try_from(span).unwrap();
    }

    fn publish(&mut self) -> Option<Waker> {
        let upto = CmdId(self.done.checked_sub(1)?);
        if self.published == self.done {
            return None;
        }
        self.published = self.done;
        let outcome = match self.failed_from.take() {
            Some((from, fault)) => Outcome::Failed { from: CmdId(from), fault },
            None => Outcome::Ok,
        };
        let busy = Duration::from_ns(std::mem::take(&mut self.busy_ns));
        self.reports.push_back(Retired { upto, busy, outcome });
        self.waker.take()
    }

    /// Under replay, what will not run any more.
    fn forget(&mut self) -> Option<CmdId> {
        let first = self.ring.front().map(|entry| entry.0);
        self.ring.clear();
        self.abandoned.take().or(first)
    }
}

#[derive(Debug, Default)]
struct State {
    units: u32,
    open: u32,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Device {
    model: Model,
    state: Mutex<State>,
    changed: Condvar,
}

impl Device {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// How a command ended.
enum End {
    Good,
    Failed,
    Abandoned,
}

fn run(device: &Device, index: usize, stop: &AtomicBool) {
    let mut state = device.lock();
    loop {
        let slot = &mut state.slots[index];
        if slot.closed && (slot.discard || slot.ring.is_empty()) {
            return;
        }
        if slot.held() || slot.ring.is_empty() || state.units == 0 {
            state = device.changed.wait(state).unwrap();
            continue;
        }
        state.units -= 1;
        let slot = &mut state.slots[index];
        let (cmd, command, fence) = slot.ring.pop_front().unwrap();
        slot.running = Some((cmd, fence));
        slot.since = Some(Instant::now());
        let lost = slot.lost;
        drop(state);
        let end = if lost { End::Failed } else { execute(device, index, stop, command) };
        state = device.lock();
        state.units += 1;
        let waker = finish(device, &mut state.slots[index], &end);
        device.changed.notify_all();
        if let Some(waker) = waker {
            drop(state);
            waker.wake();
            state = device.lock();
        }
    }
}

fn finish(device: &Device, slot: &mut Slot, end: &End) -> Option<Waker> {
    let (cmd, fence) = slot.running.take()?;
    slot.pause();
    match end {
        End::Abandoned => {
            slot.abandoned = Some(cmd);
            return None;
        }
        End::Failed => {
            let lost = device.model.lost_on_failure;
            slot.lost |= lost;
            let fault = if lost { Fault::DeviceLost } else { Fault::Execution };
            slot.failed_from.get_or_insert((cmd.0, fault));
        }
        End::Good => {}
    }
    slot.done = cmd.count();
    if fence { slot.publish() } else { None }
}

fn execute(device: &Device, index: usize, stop: &AtomicBool, command: ModelCommand) -> End {
    let (ns, note) = match command {
        ModelCommand::Empty => return End::Good,
        ModelCommand::Failing => return End::Failed,
        ModelCommand::Timed(ns, note) => (ns, note),
    };
    let model = device.model;
    loop {
        let (mut abandoned, mut restarts) = (false, false);
        note.run_for(ns, || {
            if !stop.load(Ordering::Acquire) || !model.stops {
                return false;
            }
            if model.recovery == Recovery::Replay {
                abandoned = true;
                return true;
            }
            restarts = park(device, index) && model.flaw == Flaw::Restarts;
            if model.flaw == Flaw::LosesState {
                note.tick();
            }
            restarts
        });
        if abandoned {
            return End::Abandoned;
        }
        if !restarts {
            return End::Good;
        }
    }
}

/// Stops here until restored. Whether it did.
fn park(device: &Device, index: usize) -> bool {
    let mut state = device.lock();
    if !state.slots[index].interrupted {
        return false;
    }
    let keeps = device.model.flaw == Flaw::KeepsTheUnit;
    state.slots[index].parked = true;
    state.slots[index].pause();
    state.units += u32::from(!keeps);
    device.changed.notify_all();
    while state.slots[index].interrupted || !keeps && state.units == 0 {
        state = device.changed.wait(state).unwrap();
    }
    state.units -= u32::from(!keeps);
    state.slots[index].parked = false;
    state.slots[index].since = Some(Instant::now());
    true
}

/// State shared by the halves of a queue.
#[derive(Debug)]
pub(crate) struct Handle {
    device: Arc<Device>,
    index: usize,
    stop: Arc<AtomicBool>,
}

impl Handle {
    fn with<T>(&self, act: impl FnOnce(&mut Slot) -> T) -> T {
        let result = act(&mut self.device.lock().slots[self.index]);
        self.device.changed.notify_all();
        result
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop.store(false, Ordering::Release);
        self.device.lock().open -= 1;
        self.with(|slot| {
            slot.discard = slot.held();
            (slot.closed, slot.deactivated, slot.interrupted) = (true, false, false);
        });
    }
}

/// The model as a backend.
#[derive(Debug)]
pub(crate) struct ModelDevice(Arc<Device>);

impl ModelDevice {
    pub(crate) fn new(model: Model) -> Self {
        let state = Mutex::new(State { units: model.units, ..State::default() });
        Self(Arc::new(Device { model, state, changed: Condvar::new() }))
    }
}

#[derive(Debug)]
pub(crate) struct ModelSubmit(Arc<Handle>);
#[derive(Debug)]
pub(crate) struct ModelRetire(Arc<Handle>);
#[derive(Debug)]
pub(crate) struct ModelSteps(Arc<Handle>, Option<Step>);

impl ErrorType for ModelDevice {
    type Error = Fault;
}
impl ErrorType for ModelSubmit {
    type Error = Fault;
}
impl ErrorType for ModelRetire {
    type Error = Fault;
}
impl ErrorType for ModelSteps {
    type Error = Fault;
}

impl Backend for ModelDevice {
    type Config = ();
    type Submit = ModelSubmit;
    type Retire = ModelRetire;
    type Preempt = ModelSteps;

    fn open(
        &mut self,
        _: QueueId,
        (): (),
    ) -> Result<Halves<ModelSubmit, ModelRetire, ModelSteps>, Fault> {
        let model = self.0.model;
        let mut state = self.0.lock();
        if model.flaw == Flaw::Panics {
            // Without the message that `panic!` prints.
            std::panic::resume_unwind(Box::new("the model's own panic"));
        }
        if state.open >= model.queues_max {
            return Err(Fault::NotSupported);
        }
        state.open += 1;
        state.slots.push(Slot::default());
        let (index, stop) = (state.slots.len() - 1, Arc::new(AtomicBool::new(false)));
        drop(state);
        let handle =
            Arc::new(Handle { device: Arc::clone(&self.0), index, stop: Arc::clone(&stop) });
        let device = Arc::clone(&self.0);
        thread::spawn(move || run(&device, index, &stop));
        let mut caps = Caps::up_to(model.level, ENTRIES).with_recovery(model.recovery);
        caps.interrupt = caps.interrupt.map(|_| model.recovery);
        Ok(Halves {
            submit: ModelSubmit(Arc::clone(&handle)),
            retire: ModelRetire(Arc::clone(&handle)),
            preempt: ModelSteps(handle, None),
            caps,
        })
    }
}

impl Submit for ModelSubmit {
    type Payload = ModelCommand;

    fn launch(&mut self, cmd: CmdId, command: &ModelCommand, fence: bool) -> Result<(), Fault> {
        self.0.with(|slot| {
            if slot.ring.len() >= ENTRIES as usize {
                return Err(Fault::Launch);
            }
            slot.ring.push_back((cmd, command.clone(), fence));
            Ok(())
        })
    }

    fn fence(&mut self, _: CmdId) -> Result<(), Fault> {
        let waker = self.0.with(|slot| {
            if let Some(last) = slot.ring.back_mut() {
                last.2 = true;
            } else if let Some((_, fence)) = &mut slot.running {
                *fence = true;
            } else {
                return slot.publish();
            }
            None
        });
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl Retire for ModelRetire {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        let mut state = self.0.device.lock();
        let reports = &mut state.slots[self.0.index].reports;
        let Some(mut newest) = reports.pop_front() else { return Ok(None) };
        while newest.outcome == Outcome::Ok
            && let Some(next) = reports.pop_front_if(|next| next.outcome == Outcome::Ok)
        {
            newest = Retired { busy: newest.busy + next.busy, ..next };
        }
        Ok(Some(newest))
    }

    fn wake_on_retire(&mut self, waker: &Waker) -> bool {
        let ready = self.0.with(|slot| {
            let ready = !slot.reports.is_empty();
            slot.waker = (!ready).then(|| waker.clone());
            ready
        });
        if ready {
            waker.wake_by_ref();
        }
        true
    }
}

impl ModelSteps {
    fn model(&self) -> Model {
        self.0.device.model
    }

    fn replays(&self) -> bool {
        self.model().recovery == Recovery::Replay
    }

    /// The answer to a step, if it is in effect.
    fn answer(&self, step: Step) -> Option<StepDone> {
        let (flaw, replays) = (self.model().flaw, self.replays());
        self.0.with(|slot| {
            if step == Step::Interrupt && slot.running.is_some() && !slot.parked {
                return None;
            }
            if !replays || !step.is_hold() {
                return Some(StepDone::Now(None));
            }
            if flaw == Flaw::KeepsForgotten {
                return Some(StepDone::Now(slot.ring.front().map(|entry| entry.0)));
            }
            Some(StepDone::Now(slot.forget()))
        })
    }

    fn begin(&self, step: Step) {
        let flaw = self.model().flaw;
        self.0.with(|slot| match step {
            Step::Deactivate => slot.deactivated = true,
            Step::Interrupt => slot.interrupted = true,
            Step::Restore => slot.interrupted = false,
            Step::Reactivate => {
                slot.deactivated = false;
                match flaw {
                    Flaw::DropsHeld => {
                        for (_, command, _) in &mut slot.ring {
                            *command = ModelCommand::Empty;
                        }
                    }
                    Flaw::TurnsHeldRound => {
                        let n = slot.ring.len();
                        if n > 1 {
                            let (a, b) = (slot.ring[0].1.clone(), slot.ring[n - 1].1.clone());
                            (slot.ring[0].1, slot.ring[n - 1].1) = (b, a);
                        }
                    }
                    _ => {}
                }
            }
        });
        if matches!(step, Step::Interrupt | Step::Restore) {
            self.0.stop.store(step == Step::Interrupt, Ordering::Release);
        }
    }
}

impl Steps for ModelSteps {
    fn level(&self) -> Level {
        self.model().level
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        let needed = match step {
            Step::Deactivate | Step::Reactivate => Level::Deactivate,
            Step::Interrupt | Step::Restore => Level::Interrupt,
        };
        if needed > self.level() {
            return Err(Fault::NotSupported);
        }
        self.begin(step);
        if !self.model().later
            && let Some(done) = self.answer(step)
        {
            return Ok(done);
        }
        self.1 = Some(step);
        Ok(StepDone::Later)
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        let done = self.1.and_then(|step| self.answer(step));
        if done.is_some() {
            self.1 = None;
        }
        Ok(done)
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        Ok(Some(self.0.with(|slot| match slot.running {
            Some(_) => slot.interrupted && slot.parked,
            None => slot.held(),
        })))
    }
}
