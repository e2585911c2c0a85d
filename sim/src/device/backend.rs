//! The device model behind the device traits of the core, so that the simulator drives queues the
//! way every other backend does, wrappers included.

use std::cell::RefCell;
use std::rc::Rc;

use xsched_core::fault::Fault;
use xsched_core::hal::{
    Backend, Deactivate, ErrorType, Halves, Interrupt, LevelAdapter, Lv3, Preempt, Retire,
    StepDone, Submit,
};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::{Caps, Level};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

use super::stream::Launched;
use super::{OWN, Stream, World};
use crate::clock::Event;

/// Opens streams in a [`World`].
#[derive(Debug)]
pub(crate) struct SimBackend {
    pub(crate) world: Rc<RefCell<World>>,
}

/// How a stream is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamConfig {
    pub(crate) device: u32,
    pub(crate) level: Level,
    pub(crate) context_permille: u32,
    pub(crate) counted_permille: u32,
    pub(crate) waves: u32,
    pub(crate) urgent: bool,
}

/// Content of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) work_ns: u64,
    pub(crate) ready_at_ns: u64,
}

/// The launching half.
#[derive(Debug)]
pub(crate) struct SimSubmit {
    world: Rc<RefCell<World>>,
    stream: u32,
}

/// The half that sees completions.
#[derive(Debug)]
pub(crate) struct SimRetire {
    world: Rc<RefCell<World>>,
    stream: u32,
}

/// The half that preempts.
#[derive(Debug)]
pub(crate) struct SimSteps {
    world: Rc<RefCell<World>>,
    stream: u32,
    pending: Option<Pending>,
}

/// A step that is under way.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// Gates close or open then.
    Gate { at_ns: u64, closed: bool },
    /// The save is over then.
    Save { at_ns: u64 },
    /// The operation of the whole device says when.
    Operation,
}

impl ErrorType for SimBackend {
    type Error = Fault;
}
impl ErrorType for SimSubmit {
    type Error = Fault;
}
impl ErrorType for SimRetire {
    type Error = Fault;
}
impl ErrorType for SimSteps {
    type Error = Fault;
}

impl Backend for SimBackend {
    type Config = StreamConfig;
    type Submit = SimSubmit;
    type Retire = SimRetire;
    type Preempt = LevelAdapter<SimSteps>;

    fn open(
        &mut self,
        _: QueueId,
        config: StreamConfig,
    ) -> Result<Halves<SimSubmit, SimRetire, Self::Preempt>, Fault> {
        let mut world = self.world.borrow_mut();
        let device = world.devices.get(config.device as usize).ok_or(Fault::NotSupported)?;
        let level = Level::from_number(device.spec.max_level).unwrap_or(Level::Block);
        // A quarter of the depth: a launch is never entered that could block.
        let caps = Caps::up_to(level.min(config.level), device.spec.launch_queue / 4);
        let stream = world.streams.len() as u32;
        world.devices[config.device as usize].has_urgent |= config.urgent;
        world.streams.push(Stream {
            number: stream,
            device: config.device,
            context_permille: config.context_permille,
            counted_permille: config.counted_permille,
            waves: config.waves,
            urgent: config.urgent,
            gates: caps.level >= Level::Deactivate,
            ..Stream::default()
        });
        let shared = || Rc::clone(&self.world);
        Ok(Halves {
            submit: SimSubmit { world: shared(), stream },
            retire: SimRetire { world: shared(), stream },
            preempt: LevelAdapter(SimSteps { world: shared(), stream, pending: None }),
            caps,
        })
    }
}

impl Submit for SimSubmit {
    type Payload = Launch;

    fn launch(&mut self, cmd: CmdId, payload: &Launch, fence: bool) -> Result<(), Fault> {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let s = &mut world.streams[self.stream as usize];
        let gated = s.wants_gate(world.devices[s.device as usize].spec.gate_spacing_ns);
        s.entries += 1 + u32::from(gated) + u32::from(fence);
        s.entries_most = s.entries_most.max(s.entries);
        s.fifo.push_back(Launched {
            cmd: cmd.0,
            left_ns: payload.work_ns,
            work_ns: payload.work_ns,
            ready_at_ns: payload.ready_at_ns,
            gated,
            fence,
            started: false,
            restore_ns: None,
        });
        if s.fifo.len() == 1 {
            world.offer(self.stream);
        }
        Ok(())
    }

    fn fence(&mut self, upto: CmdId) -> Result<(), Fault> {
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        let s = &mut world.streams[self.stream as usize];
        if let Some(last) = s.fifo.back_mut() {
            s.entries += u32::from(!last.fence);
            last.fence = true;
            return Ok(());
        }
        // Everything before it has finished: it completes as soon as it arrives.
        let spec = &world.devices[s.device as usize].spec;
        let at_ns = world.clock.now_ns() + spec.launch_latency_ns + spec.detect_ns;
        s.complete_fence(upto.0, at_ns);
        world.clock.at(at_ns, Event::Detect { stream: self.stream });
        Ok(())
    }
}

impl Retire for SimRetire {
    fn poll_retired(&mut self) -> Result<Option<Retired>, Fault> {
        let mut world = self.world.borrow_mut();
        let now = world.clock.now_ns();
        let s = &mut world.streams[self.stream as usize];
        let mut newest: Option<Retired> = None;
        while let Some(fence) = s.fences.front().filter(|fence| fence.seen_at_ns <= now) {
            let before = newest.map_or(Duration::ZERO, |retired| retired.busy);
            let busy = before + Duration::from_ns(fence.busy_ns);
            newest = Some(Retired { upto: CmdId(fence.upto), busy, outcome: Outcome::Ok });
            s.fences.pop_front();
        }
        Ok(newest)
    }
}

impl SimSteps {
    /// Closes or opens the gates, which the device notices a little later.
    fn gate(&mut self, closed: bool) -> StepDone {
        let mut world = self.world.borrow_mut();
        let s = &world.streams[self.stream as usize];
        let late_ns = world.devices[s.device as usize].spec.gate_close_ns;
        if late_ns == 0 {
            world.set_gate(self.stream, OWN, closed);
            return StepDone::Now(None);
        }
        let at_ns = world.clock.now_ns() + late_ns;
        world.clock.at(at_ns, Event::Stepped { stream: self.stream });
        drop(world);
        self.pending = Some(Pending::Gate { at_ns, closed });
        StepDone::Later
    }
}

impl Preempt for SimSteps {
    type Top = Lv3;

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        let mut world = self.world.borrow_mut();
        let now_ns = world.clock.now_ns();
        let over = match self.pending {
            Some(Pending::Gate { at_ns, .. } | Pending::Save { at_ns }) => at_ns <= now_ns,
            Some(Pending::Operation) => {
                std::mem::take(&mut world.streams[self.stream as usize].stepped)
            }
            None => false,
        };
        if !over {
            return Ok(None);
        }
        match self.pending.take() {
            Some(Pending::Gate { closed, .. }) => world.set_gate(self.stream, OWN, closed),
            _ => world.check_quiet(self.stream),
        }
        Ok(Some(StepDone::Now(None)))
    }
}

impl Deactivate for SimSteps {
    fn deactivate(&mut self) -> Result<StepDone, Fault> {
        Ok(self.gate(true))
    }

    fn reactivate(&mut self) -> Result<StepDone, Fault> {
        Ok(self.gate(false))
    }
}

impl SimSteps {
    /// Leaves the step to an operation of the whole device. False if there are none on this one.
    fn stage(&mut self, interrupt: bool) -> bool {
        let staged = self.world.borrow_mut().stage(self.stream, interrupt);
        if staged {
            self.pending = Some(Pending::Operation);
        }
        staged
    }
}

impl Interrupt for SimSteps {
    fn interrupt(&mut self) -> Result<StepDone, Fault> {
        if self.stage(true) {
            return Ok(StepDone::Later);
        }
        let mut world = self.world.borrow_mut();
        let now = world.clock.now_ns();
        let at_ns = world.interrupt(self.stream);
        if at_ns == now {
            world.check_quiet(self.stream);
            return Ok(StepDone::Now(None));
        }
        world.clock.at(at_ns, Event::Stepped { stream: self.stream });
        self.pending = Some(Pending::Save { at_ns });
        Ok(StepDone::Later)
    }

    fn restore(&mut self) -> Result<StepDone, Fault> {
        if self.stage(false) {
            return Ok(StepDone::Later);
        }
        self.world.borrow_mut().restore(self.stream);
        Ok(StepDone::Now(None))
    }
}
