//! The suite that every backend must pass, at Lv3 by each mechanism.
//!
//! Streams are the host device's queues up to Lv2, and the driver is the emulated one. When the
//! driver takes a queue off its run list, the host device stops the stream in the middle of its
//! command; when the driver puts the queue back, the stream goes on. So commands really stop and go
//! on when the driver says so. No GPU is involved.
#![allow(unsafe_code, reason = "calls that make queues, and promises about commands")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use xsched_conformance::{Claims, Subject, Work, checks};
use xsched_core::fault::Fault;
use xsched_core::hal::{Backend, DeviceInfo, ErrorType, Halves, LevelAdapter, StepDone, Steps};
use xsched_core::id::QueueId;
use xsched_core::level::{Caps, Level, Step};
use xsched_hal_host::{HostCommand, HostConfig, HostDevice, HostError};
use xsched_hal_host::{HostPreempt, HostRetire, HostSubmit};
use xsched_hal_kfd::attribution::{Attribution, Before, BySnapshot, Unattributed};
use xsched_hal_kfd::mechanism::{DebugTrap, Kind, Mechanism, PatchedDriver, UpdateQueue};
use xsched_hal_kfd::topology::Module;
use xsched_hal_kfd::uapi;
use xsched_hal_kfd::{
    Driver, KfdConfig, KfdDevice, KfdQueueConfig, PRIORITY_NORMAL, QueueFacts, Versioned,
};
use xsched_kfd_emulated::{Config, InProcess, Private};
use zerocopy::IntoBytes;

const GPU: u32 = 0x8c1f;
const RING_BYTES: u32 = 1 << 14;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Preempter = Arc<Mutex<LevelAdapter<HostPreempt>>>;

/// Streams by their queues' ids, each with whether it runs.
#[derive(Debug, Default)]
struct Streams(BTreeMap<u32, (Preempter, bool)>);

/// The emulated driver, whose queues are streams of the host device.
#[derive(Clone, Debug)]
struct Bridge {
    emulated: InProcess,
    streams: Arc<Mutex<Streams>>,
}

impl Bridge {
    fn is_active(&self, id: u32) -> bool {
        let pid = self.emulated.pid();
        self.emulated.with(|model| model.queue(pid, id)).is_some_and(|queue| queue.is_active)
    }

    /// Has the streams do what the driver says.
    fn follow(&self) {
        for (id, (stream, runs)) in &mut lock(&self.streams).0 {
            let active = self.is_active(*id);
            if active != *runs {
                *runs = active;
                step(stream, if active { Step::Restore } else { Step::Interrupt });
            }
        }
    }

    fn call(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        // SAFETY: the emulated driver answers for wrong addresses, and these arguments have none.
        unsafe { self.emulated.ioctl(request, argument) }
    }

    /// Makes a queue for a stream.
    fn create(&self, stream: &Preempter) -> u32 {
        let mut streams = lock(&self.streams);
        let number = streams.0.last_key_value().map_or(0, |(last, _)| last + 1);
        let base = uapi::CreateQueue88 {
            ring_base: 0x7000_0000_0000 + u64::from(number) * u64::from(RING_BYTES),
            ring_size: RING_BYTES,
            gpu_id: GPU,
            queue_type: uapi::QueueType::ComputeAql as u32,
            percentage: 100,
            priority: PRIORITY_NORMAL,
            ..uapi::CreateQueue88::default()
        };
        let mut made = uapi::CreateQueue { base, ..uapi::CreateQueue::default() };
        let answer = self.call(uapi::CREATE_QUEUE.request, made.as_mut_bytes());
        assert_eq!(answer, Ok(0));
        streams.0.insert(made.base.queue_id, (Arc::clone(stream), true));
        made.base.queue_id
    }

    fn destroy(&self, id: u32) {
        lock(&self.streams).0.remove(&id);
        let mut argument = uapi::DestroyQueue { queue_id: id, pad: 0 };
        let answer = self.call(uapi::DESTROY_QUEUE.request, argument.as_mut_bytes());
        assert_eq!(answer, Ok(0), "a queue was closed while it was suspended");
    }
}

/// A step of the host device, to its end.
fn step(stream: &Preempter, step: Step) {
    let mut stream = lock(stream);
    let mut done = stream.step(step).expect("the host device can");
    while done == StepDone::Later {
        std::thread::yield_now();
        done = stream.poll_step().expect("the host device can").unwrap_or(StepDone::Later);
    }
}

impl Driver for Bridge {
    // SAFETY: nothing is asked of the caller: wrong addresses are answered, not followed.
    unsafe fn ioctl(&self, request: u32, argument: &mut [u8]) -> Result<u32, Errno> {
        let answer = self.call(request, argument);
        self.follow();
        answer
    }
}

/// The host device's queues, as streams.
#[derive(Debug)]
struct Below {
    host: HostDevice,
    bridge: Bridge,
}

/// Lv2 of a stream, and its end.
#[derive(Debug)]
struct Gate {
    stream: Preempter,
    bridge: Bridge,
    id: u32,
}

impl ErrorType for Below {
    type Error = HostError;
}

impl ErrorType for Gate {
    type Error = HostError;
}

impl Steps for Gate {
    fn level(&self) -> Level {
        Level::Deactivate
    }

    fn step(&mut self, step: Step) -> Result<StepDone, Fault> {
        match step {
            Step::Deactivate | Step::Reactivate => lock(&self.stream).step(step),
            Step::Interrupt | Step::Restore => Err(Fault::NotSupported),
        }
    }

    fn poll_step(&mut self) -> Result<Option<StepDone>, Fault> {
        lock(&self.stream).poll_step()
    }

    fn is_quiet(&mut self) -> Result<Option<bool>, Fault> {
        lock(&self.stream).is_quiet()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.bridge.destroy(self.id);
    }
}

impl Backend for Below {
    type Config = ();
    type Submit = HostSubmit;
    type Retire = HostRetire;
    type Preempt = Gate;

    fn open(
        &mut self,
        queue: QueueId,
        (): (),
    ) -> Result<Halves<HostSubmit, HostRetire, Gate>, HostError> {
        let Halves { submit, retire, preempt, caps } = self.host.open(queue, ())?;
        let stream = Arc::new(Mutex::new(preempt));
        let id = self.bridge.create(&stream);
        let preempt = Gate { stream, bridge: self.bridge.clone(), id };
        let caps = Caps::up_to(Level::Deactivate, caps.entries_max);
        Ok(Halves { submit, retire, preempt, caps })
    }

    fn info(&self) -> DeviceInfo {
        self.host.info()
    }
}

/// By the emulated driver's own knowledge, as a preloaded library would have it.
#[derive(Debug)]
struct ByModel(Bridge);

impl ByModel {
    fn queues(&self) -> Vec<(u32, u64)> {
        let pid = self.0.emulated.pid();
        self.0.emulated.with(|model| {
            let ring = |id| model.queue(pid, id).map_or(0, |queue| queue.ring_base);
            model.queue_ids(pid).into_iter().map(|id| (id, ring(id))).collect()
        })
    }
}

impl Attribution for ByModel {
    fn before(&self) -> Result<Before, Unattributed> {
        // Rings are used once here.
        Ok(Before::Queues(self.queues().into_iter().map(|(_, ring_base)| ring_base).collect()))
    }

    fn made_since(&self, before: &Before) -> Result<Vec<QueueFacts>, Unattributed> {
        let Before::Queues(known) = before else { return Err(Unattributed::NoObserver) };
        let new = self.queues().into_iter().filter(|(_, ring_base)| !known.contains(ring_base));
        Ok(new
            .map(|(id, ring_base)| QueueFacts {
                id,
                gpu_id: GPU,
                ring_base,
                ring_size: RING_BYTES,
                priority: PRIORITY_NORMAL,
                kind: 2,
                save_bytes: 0,
                created: None,
            })
            .collect())
    }
}

/// The device under test.
struct Interrupting {
    kind: Kind,
    stages: bool,
}

impl Interrupting {
    fn assemble(&self, bridge: &Bridge) -> (Arc<dyn Mechanism>, Box<dyn Attribution>) {
        let driver = Arc::new(Versioned::ask(bridge.clone()).expect("it answers"));
        let by_model = Box::new(ByModel(bridge.clone()));
        match self.kind {
            Kind::DebugTrap => {
                let mode = uapi::MODE_ENABLE;
                let mut enable = uapi::RuntimeEnable { r_debug: 0, mode, capabilities: 0 };
                let enabled = bridge.call(uapi::RUNTIME_ENABLE.request, enable.as_mut_bytes());
                assert_eq!(enabled, Ok(0));
                let trap = Arc::new(DebugTrap::own(driver).expect("the runtime is enabled"));
                (Arc::clone(&trap) as Arc<dyn Mechanism>, Box::new(BySnapshot(trap)))
            }
            Kind::PreemptQueue => {
                let module = Module { version: Some("_preempt".to_owned()), ..Module::default() };
                let patched = PatchedDriver::new(driver, Some("_preempt"), &module, 1_000);
                (Arc::new(patched.expect("it is patched")), by_model)
            }
            _ => (Arc::new(UpdateQueue::new(driver, None)), by_model),
        }
    }
}

impl Subject for Interrupting {
    type Command = HostCommand;
    type Backend = KfdDevice<Below>;

    fn claims(&self) -> Claims {
        Claims { units: 1, stops_commands: true, ..Claims::at(Level::Interrupt) }
    }

    fn device(&self) -> Result<KfdDevice<Below>, String> {
        let host = HostDevice::new(HostConfig::default()).map_err(|error| error.to_string())?;
        let emulated = InProcess::new(Config { private: Private::Preempt, ..Config::mi308x() });
        let bridge = Bridge { emulated, streams: Arc::default() };
        let (mechanism, attribution) = self.assemble(&bridge);
        let mut config = KfdConfig::default();
        (config.stages, config.sysfs) = (self.stages, None);
        // A busy machine must not look like a blocked launch, for which queues are let go. That
        // they are is tested where it belongs.
        config.blocked_after = Duration::from_secs(2);
        let below = Below { host, bridge };
        let device = KfdDevice::new(below, mechanism, attribution, None, config);
        device.map_err(|error| error.to_string())
    }

    /// By updates each queue costs one of its own, so there is nothing to be shown there.
    fn preemptions(&self, device: &KfdDevice<Below>) -> Option<u64> {
        let node = device.below().bridge.emulated.with(|model| model.node(0));
        node.filter(|_| self.kind == Kind::DebugTrap).map(|node| node.preemptions)
    }

    fn config(&self, _: &mut KfdDevice<Below>) -> KfdQueueConfig<()> {
        KfdQueueConfig::new(())
    }

    fn command(&self, work: Work) -> Option<HostCommand> {
        Some(match work {
            Work::Empty => HostCommand::function(|_, _| {}, 0, 0),
            Work::Timed { ns, note } => {
                let command = HostCommand::new(move || note.run_for(ns, || false));
                // SAFETY: it reads the clock and touches atomics, in memory that it gives up after
                // it has ended. No other thread waits for it.
                unsafe { command.interruptible() }
            }
            // Not `panic!`, which would print.
            Work::Failing => HostCommand::new(|| std::panic::resume_unwind(Box::new(()))),
        })
    }
}

fn main() {
    let at_once = |kind| Interrupting { kind, stages: false };
    let staged = |kind| Interrupting { kind, stages: true };
    xsched_conformance::main([
        ("update-queue", checks(), at_once(Kind::UpdateQueue)),
        ("debug-trap", checks(), at_once(Kind::DebugTrap)),
        ("preempt-queue", checks(), at_once(Kind::PreemptQueue)),
        ("update-queue-staged", checks(), staged(Kind::UpdateQueue)),
        ("debug-trap-staged", checks(), staged(Kind::DebugTrap)),
    ]);
}
