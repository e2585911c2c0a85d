//! The processor as a device, so that the API can be tried without a GPU.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Wake, Waker};
use std::thread::Thread;

use xsched::{Device, Runtime, XQueue, XQueueConfig};
use xsched_core::hal::{Backend, Halves, LevelAdapter, Retire, Submit};
use xsched_core::id::{CmdId, QueueId};
use xsched_core::level::Level;
use xsched_hal_host::{
    BusyLoop, HostCommand, HostConfig, HostDevice, HostError, HostPreempt, HostRetire, HostSubmit,
};

use xsched_node::Link;

use super::{Hardware, call, call_for, call_now};
use crate::backend::{Device as Wrapped, Lower};
use crate::command::{Command, Does};
use crate::refusal::{Answer, Refusal};
use crate::side::Side;
use crate::types::HwQueueHandle;

type HostHalves = Halves<HostSubmit, HostRetire, LevelAdapter<HostPreempt>>;

/// Name by which the scheduler of the node knows the host devices of all processes.
const NAME: &str = "host";

/// The process's host device, once there is one. It has one compute unit.
#[derive(Debug, Default)]
pub(crate) struct HostDevices {
    device: Mutex<Option<(HostDevice, Device<Wrapped<HostDevice>>)>>,
    /// The connection with the scheduler of the node, which is set before the device is used.
    link: OnceLock<Arc<Link>>,
    /// How fast this processor is.
    busy: OnceLock<BusyLoop>,
}

impl HostDevices {
    /// A command that computes for `ns` nanoseconds. The first one measures the processor.
    pub(crate) fn timed(&self, ns: u64) -> Command {
        Command::compute(self.busy.get_or_init(BusyLoop::calibrate).iterations(ns))
    }

    /// Has the scheduler of the node hold this device, if it is not in use yet.
    pub(crate) fn follow(&self, link: Arc<Link>) {
        let device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if device.is_some() {
            tracing::warn!(
                "XQueues on the host device are not held for other processes: the program made \
                 the first before it asked for the scheduler of the node"
            );
        }
        // If another thread was first, there is one already.
        let _ = self.link.set(link);
    }

    /// A new hardware queue.
    pub(crate) fn queue(&self, runtime: &Runtime) -> Answer<Box<dyn Hardware>> {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let (below, device) = match &*device {
            Some(there) => there.clone(),
            None => {
                let below = HostDevice::new(HostConfig::default());
                let below = below.map_err(|error| Refusal::hardware(error.to_string()))?;
                let made = match self.link.get() {
                    Some(link) => xsched::node::add(runtime, link, Wrapped(below.clone()), NAME),
                    None => runtime.device(Wrapped(below.clone())),
                }?;
                device.insert((below, made)).clone()
            }
        };
        Ok(Box::new(HostHardware { below, device, lane: Mutex::default() }))
    }
}

/// A hardware queue. Commands that are launched past the XQueue have a lane of their own, so that
/// they are not ordered with the XQueue's.
#[derive(Debug)]
struct HostHardware {
    below: HostDevice,
    device: Device<Wrapped<HostDevice>>,
    lane: Mutex<Option<Lane>>,
}

#[derive(Debug)]
struct Lane {
    halves: HostHalves,
    launched: u64,
    retired: u64,
}

impl Lane {
    fn launch(&mut self, command: &HostCommand) -> Answer {
        loop {
            match self.halves.submit.launch(CmdId(self.launched), command, true) {
                Ok(()) => break,
                Err(HostError::Full { .. }) => self.wait(self.retired + 1)?,
                Err(error) => return Err(Refusal::hardware(error.to_string())),
            }
        }
        self.launched += 1;
        Ok(())
    }

    /// Waits until `count` commands have retired.
    fn wait(&mut self, count: u64) -> Answer {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        while self.retired < count {
            let retired = self.halves.retire.poll_retired();
            match retired.map_err(|error| Refusal::hardware(error.to_string()))? {
                Some(retired) => self.retired = retired.upto.count(),
                None if self.halves.retire.wake_on_retire(&waker) => std::thread::park(),
                None => std::thread::yield_now(),
            }
        }
        Ok(())
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Hardware for HostHardware {
    fn open(&self, _: Level, config: XQueueConfig, side: &Arc<Side>) -> Answer<XQueue<Command>> {
        Ok(self.device.queue(config, ((), Arc::clone(side)))?)
    }

    fn launch(&self, command: Command, hwq: HwQueueHandle) -> Answer {
        let command = match command.does() {
            Does::Launch(function, data) => {
                return call_now(function, hwq, data);
            }
            Does::Run(function, data) => HostCommand::new(move || {
                call(function, hwq, data);
            }),
            Does::Compute(iterations) => BusyLoop::command_of(iterations),
            Does::CallerLaunches { .. } => return Ok(()),
        };
        let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = match &mut *lane {
            Some(lane) => lane,
            none => {
                let halves = self.below.clone().open(QueueId::new(0, 0), ());
                let halves = halves.map_err(|error| Refusal::hardware(error.to_string()))?;
                none.insert(Lane { halves, launched: 0, retired: 0 })
            }
        };
        lane.launch(&command)
    }

    fn synchronize(&self) -> Answer {
        let mut lane = self.lane.lock().unwrap_or_else(PoisonError::into_inner);
        lane.as_mut().map_or(Ok(()), |lane| lane.wait(lane.launched))
    }

    fn why_no_higher(&self, _: Level) -> String {
        "there are three".to_owned()
    }

    fn is_host(&self) -> bool {
        true
    }

    fn stream(&self) -> usize {
        0
    }
}

fn nothing(_: u64, _: u64) {}

impl Lower for HostSubmit {
    fn lower(does: Does, side: &Arc<Side>, number: u64) -> HostCommand {
        match does {
            Does::Compute(iterations) => BusyLoop::command_of(iterations),
            Does::Launch(function, data) => {
                call_for(function, data, side, number);
                HostCommand::function(nothing, 0, 0)
            }
            Does::CallerLaunches { .. } => HostCommand::function(nothing, 0, 0),
            Does::Run(function, data) => {
                let side = Arc::clone(side);
                HostCommand::new(move || {
                    let answer = call(function, side.hwq, data);
                    if answer != 0 {
                        side.note_refused(number, answer);
                    }
                })
            }
        }
    }
}
