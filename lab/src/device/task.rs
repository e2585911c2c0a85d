//! A foreground task, and a background that is always busy: with XSched or past it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use xsched::{Device, Ticket, XQueue, XQueueConfig};
use xsched_core::hint::{Hints, Priority};
use xsched_core::id::ProcessId;
use xsched_core::window::WindowConfig;
use xsched_hal_stream::SharedPage;

use crate::device::{BenchDevice, LabError, PlainStream, QueueParams};

/// How a task reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub(crate) enum LaunchPath {
    /// A stream of the vendor's.
    Plain {
        /// With the most urgent priority.
        urgent: bool,
    },
    /// An XQueue.
    Queue {
        /// How it is made.
        making: QueueParams,
        /// Priority of the queue.
        priority: i32,
        /// Commands in flight.
        threshold: u32,
        /// Commands per fence.
        batch: u32,
    },
}

/// Hints that the policy gets about a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Priority of the queue.
    pub(crate) priority: i32,
    /// Part of the device in percent, 0 to 100.
    pub(crate) percent: Option<u8>,
    /// The process that it counts for.
    pub(crate) process: u32,
}

/// A task that launches commands and waits for them.
#[derive(Debug)]
pub(crate) enum Runner<B: BenchDevice> {
    /// Past XSched.
    Plain(B::Stream),
    /// Through an XQueue.
    Queue(XQueue<B::Command>),
}

impl<B: BenchDevice> Runner<B> {
    /// A stream or queue.
    pub(crate) fn new(
        bench: &B,
        device: &Device<B::Backend>,
        way: LaunchPath,
    ) -> Result<Self, LabError> {
        let LaunchPath::Queue { making, priority, threshold, batch } = way else {
            return Ok(Self::Plain(bench.stream(way == LaunchPath::Plain { urgent: true })?));
        };
        let options = Options { priority, ..Options::default() };
        Self::scheduled(bench, device, making, options, (threshold, batch))
    }

    /// Makes a queue with these hints, and with these numbers of commands in flight and per fence.
    pub(crate) fn scheduled(
        bench: &B,
        device: &Device<B::Backend>,
        making: QueueParams,
        options: Options,
        (threshold, batch): (u32, u32),
    ) -> Result<Self, LabError> {
        let mut hints = Hints::default();
        hints.priority = Priority::new(options.priority).map_err(LabError::new)?;
        if let Some(percent) = options.percent {
            hints.set_utilization(percent).map_err(LabError::new)?;
            hints.weight = u32::from(percent.max(1));
        }
        let config = XQueueConfig::default()
            .with_window(WindowConfig::fixed(threshold, batch))
            .with_level(making.level())
            .with_process(ProcessId(options.process))
            .with_hints(hints);
        let queue = device.queue(config, bench.config(making)).map_err(LabError::new)?;
        Ok(Self::Queue(queue))
    }

    /// A queue whose gate waits for a word of a page that another process has as well.
    pub(crate) fn held_elsewhere(
        bench: &B,
        device: &Device<B::Backend>,
        way: LaunchPath,
        page: SharedPage,
        word: usize,
    ) -> Result<Self, LabError> {
        let LaunchPath::Queue { making, threshold, batch, .. } = way else {
            return Err(LabError::new("a plain stream has no gate"));
        };
        let config = XQueueConfig::default()
            .with_window(WindowConfig::fixed(threshold, batch))
            .with_level(making.level());
        let opened = bench.config_in_page(making, page, word)?;
        device.queue(config, opened).map(Self::Queue).map_err(LabError::new)
    }

    /// The queue, if there is one.
    pub(crate) fn queue(&self) -> Option<XQueue<B::Command>> {
        match self {
            Self::Plain(_) => None,
            Self::Queue(queue) => Some(queue.clone()),
        }
    }

    /// Launches a command without waiting.
    pub(crate) fn launch(&mut self, command: &B::Command) -> Result<Option<Ticket>, LabError> {
        match self {
            Self::Plain(stream) => stream.launch(command).map(|()| None),
            Self::Queue(queue) => {
                let ticket = queue.submit(command.clone());
                ticket.map(Some).map_err(|_| LabError::new("the device was lost"))
            }
        }
    }

    /// Waits for all of a stream, or for a command of a queue.
    pub(crate) fn wait(&mut self, last: Option<Ticket>) -> Result<(), LabError> {
        match self {
            Self::Plain(stream) => stream.wait(),
            Self::Queue(queue) => {
                last.map_or(Ok(()), |last| queue.wait(last)).map_err(LabError::new)
            }
        }
    }

    /// Launches `count` commands and waits for the last. Returns how long that took.
    pub(crate) fn run(&mut self, command: &B::Command, count: u32) -> Result<Duration, LabError> {
        let (start, mut last) = (Instant::now(), None);
        for _ in 0..count {
            last = self.launch(command)?;
        }
        self.wait(last)?;
        Ok(start.elapsed())
    }
}

/// A task that keeps commands in flight until it is told to stop.
#[derive(Debug, Default)]
pub(crate) struct Background {
    stop: AtomicBool,
    launched: AtomicU64,
}

impl Background {
    /// Commands launched or submitted.
    pub(crate) fn commands(&self) -> u64 {
        self.launched.load(Ordering::Relaxed)
    }

    /// Has it stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Keeps `threshold` commands in flight, and ends when the last has run.
    pub(crate) fn run<B: BenchDevice>(
        &self,
        runner: &mut Runner<B>,
        command: &B::Command,
        threshold: u32,
    ) -> Result<(), LabError> {
        while !self.stop.load(Ordering::Relaxed) {
            match runner {
                Runner::Plain(stream) => stream.launch_within(command, threshold)?,
                Runner::Queue(queue) => {
                    let ticket = queue.submit(command.clone());
                    ticket.map_err(|_| LabError::new("the device was lost"))?;
                }
            }
            self.launched.fetch_add(1, Ordering::Relaxed);
        }
        match runner {
            Runner::Plain(stream) => stream.wait(),
            Runner::Queue(queue) => {
                queue.wait_all();
                Ok(())
            }
        }
    }
}
