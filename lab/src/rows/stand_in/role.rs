//! A role: its queue, its commands, and how requests come.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use xsched::{Stats, Ticket, XQueue};
use xsched_core::hal::{Halves, LevelAdapter, Retire, Submit};
use xsched_core::id::CmdId;
use xsched_hal_host::{HostCommand, HostConfig, HostPreempt, HostRetire, HostSubmit};
use xsched_sim::sample::{Rng, Sampler, generator};
use xsched_sim::scenario::Dist;

use super::super::protocol::{Load, Profile, RoleAnswer};
use super::now_ns;
use crate::device::LabError;

/// Between two looks at a hardware queue.
const LOOK: Duration = Duration::from_micros(20);
/// A request that takes longer is a device that hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Lone requests that are measured, and with few samples.
const LONE: (u32, u32) = (20, 5);

/// A phase that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) begin_ns: u64,
    pub(super) begin: Instant,
    pub(super) length: Duration,
}

/// Where commands go.
#[derive(Debug)]
pub(super) enum Sink {
    Plain(Plain),
    Queue(XQueue<HostCommand>),
}

/// A hardware queue, past XSched.
#[derive(Debug)]
pub(super) struct Plain {
    halves: Halves<HostSubmit, HostRetire, LevelAdapter<HostPreempt>>,
    launched: u64,
    retired: u64,
}

/// A command that was launched.
#[derive(Clone, Copy, Debug)]
enum Mark {
    Plain(u64),
    Queue(Ticket),
}

impl Plain {
    fn wait_for(&mut self, count: u64) -> Result<(), LabError> {
        let start = Instant::now();
        while self.retired < count {
            match self.halves.retire.poll_retired().map_err(LabError::new)? {
                Some(retired) => self.retired = retired.upto.count(),
                None if start.elapsed() > PATIENCE => return Err(hangs()),
                // The processors are for the device.
                None => thread::sleep(LOOK),
            }
        }
        Ok(())
    }

    fn launch(&mut self, command: &HostCommand) -> Result<u64, LabError> {
        // A driver would block.
        let room = u64::from(HostConfig::default().entries_max);
        self.wait_for((self.launched + 1).saturating_sub(room))?;
        let cmd = CmdId(self.launched);
        self.halves.submit.launch(cmd, command, true).map_err(LabError::new)?;
        self.launched += 1;
        Ok(self.launched)
    }
}

impl Sink {
    pub(super) const fn plain(
        halves: Halves<HostSubmit, HostRetire, LevelAdapter<HostPreempt>>,
    ) -> Self {
        Self::Plain(Plain { halves, launched: 0, retired: 0 })
    }

    /// Launches commands; the mark is of the last.
    fn launch(&mut self, commands: &[HostCommand]) -> Result<Option<Mark>, LabError> {
        let mut last = None;
        for command in commands {
            last = Some(match self {
                Self::Plain(plain) => Mark::Plain(plain.launch(command)?),
                Self::Queue(queue) => {
                    let ticket = queue.submit(command.clone());
                    Mark::Queue(ticket.map_err(|_| LabError::new("the device was lost"))?)
                }
            });
        }
        Ok(last)
    }

    fn wait(&mut self, mark: Option<Mark>) -> Result<(), LabError> {
        match (self, mark) {
            (_, None) => Ok(()),
            (Self::Plain(plain), Some(Mark::Plain(count))) => plain.wait_for(count),
            (Self::Queue(queue), Some(Mark::Queue(ticket))) => {
                queue.wait_timeout(ticket, PATIENCE).map_err(LabError::new)
            }
            (Self::Plain(_) | Self::Queue(_), Some(_)) => Err(LabError::new("no mark of this")),
        }
    }
}

fn hangs() -> LabError {
    LabError::new(format!("a request took longer than {} s", PATIENCE.as_secs()))
}

/// A model's stand-in.
#[derive(Debug)]
pub(super) struct Role {
    sink: Sink,
    commands: Vec<HostCommand>,
    tokens: Option<u64>,
    random: Rng,
}

impl Role {
    pub(super) fn new(
        sink: Sink,
        commands: Vec<HostCommand>,
        tokens: Option<u64>,
        seed: u64,
    ) -> Self {
        Self { sink, commands, tokens, random: generator(seed, 0) }
    }

    /// Figures of the role's XQueue, if it has one.
    pub(super) fn stats(&self) -> Option<Stats> {
        match &self.sink {
            Sink::Plain(_) => None,
            Sink::Queue(queue) => Some(queue.stats()),
        }
    }

    /// Measures what the role needs alone.
    pub(super) fn profile(
        &mut self,
        kernels_ns: Vec<u64>,
        quick: bool,
    ) -> Result<Profile, LabError> {
        let count = if quick { LONE.1 } else { LONE.0 };
        let (mut whole, mut host) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let begin = now_ns();
            let mark = self.sink.launch(&self.commands)?;
            host.push(now_ns() - begin);
            self.sink.wait(mark)?;
            self.rest(&mut RoleAnswer::default())?;
            whole.push(now_ns() - begin);
        }
        let middle = |mut taken: Vec<u64>| {
            taken.sort_unstable();
            taken.get(taken.len() / 2).copied().unwrap_or(0)
        };
        let (request_ns, host_ns) = (middle(whole), middle(host));
        Ok(Profile { kernels_ns, request_ns, host_ns, digest: None })
    }

    /// Makes requests as the load says.
    pub(super) fn work(&mut self, load: &Load, phase: Phase) -> Result<RoleAnswer, LabError> {
        let mut did = RoleAnswer::default();
        match load {
            Load::Closed { pause_ms, jitter_ms, requests } => {
                let pause = between(pause_ms - jitter_ms, pause_ms + jitter_ms);
                self.closed(pause, *requests, phase, &mut did)?;
            }
            Load::Endless { .. } if self.tokens.is_some() => {
                self.closed(Sampler::new(&Dist::Constant(0)), None, phase, &mut did)?;
            }
            Load::Endless { in_flight } => self.endless(*in_flight, phase, &mut did)?,
            Load::Periodic { every_ms } => {
                self.open(Sampler::new(&Dist::Constant(ns(*every_ms))), phase, &mut did)?;
            }
            Load::Poisson { per_s } => {
                let gaps = Dist::Exponential { mean_ns: 1e9 / per_s.max(1e-3) };
                self.open(Sampler::new(&gaps), phase, &mut did)?;
            }
            Load::Lognormal { per_s, sigma } => {
                let gaps = Dist::LogNormal { mean_ns: 1e9 / per_s.max(1e-3), sigma: *sigma };
                self.open(Sampler::new(&gaps), phase, &mut did)?;
            }
        }
        Ok(did)
    }

    /// A request that arrived at a moment, to its end.
    fn request(&mut self, arrival_ns: u64, did: &mut RoleAnswer) -> Result<(), LabError> {
        let mark = self.sink.launch(&self.commands)?;
        self.sink.wait(mark)?;
        if self.tokens.is_some() {
            did.first_token_ns.push(now_ns());
        }
        self.rest(did)?;
        did.begin_ns.push(arrival_ns);
        did.end_ns.push(now_ns());
        Ok(())
    }

    /// The tokens after the first, one by one.
    fn rest(&mut self, did: &mut RoleAnswer) -> Result<(), LabError> {
        let Some(tokens) = self.tokens else { return Ok(()) };
        for _ in 1..tokens {
            let mark = self.sink.launch(self.commands.get(..1).unwrap_or_default())?;
            self.sink.wait(mark)?;
        }
        did.tokens = Some(did.tokens.unwrap_or(0) + tokens);
        Ok(())
    }

    fn closed(
        &mut self,
        mut pause: Sampler,
        requests: Option<u32>,
        phase: Phase,
        did: &mut RoleAnswer,
    ) -> Result<(), LabError> {
        let most = requests.map_or(usize::MAX, |requests| requests as usize);
        while phase.begin.elapsed() < phase.length && did.end_ns.len() < most {
            self.request(now_ns(), did)?;
            let pause = Duration::from_nanos(pause.draw(&mut self.random));
            if !pause.is_zero() {
                thread::sleep(pause);
            }
        }
        Ok(())
    }

    fn endless(
        &mut self,
        in_flight: u32,
        phase: Phase,
        did: &mut RoleAnswer,
    ) -> Result<(), LabError> {
        let mut flying = VecDeque::new();
        loop {
            let goes_on = phase.begin.elapsed() < phase.length;
            while goes_on && flying.len() < in_flight.max(1) as usize {
                flying.push_back((now_ns(), self.sink.launch(&self.commands)?));
            }
            let Some((begin, mark)) = flying.pop_front() else { return Ok(()) };
            self.sink.wait(mark)?;
            did.begin_ns.push(begin);
            did.end_ns.push(now_ns());
        }
    }

    /// Requests that arrive whether the last one has ended or not.
    fn open(
        &mut self,
        mut gaps: Sampler,
        phase: Phase,
        did: &mut RoleAnswer,
    ) -> Result<(), LabError> {
        let mut at = Duration::ZERO;
        while at < phase.length {
            thread::sleep(at.saturating_sub(phase.begin.elapsed()));
            let arrival = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
            self.request(phase.begin_ns.saturating_add(arrival), did)?;
            at += Duration::from_nanos(gaps.draw(&mut self.random).max(1));
        }
        Ok(())
    }
}

fn ns(ms: f64) -> u64 {
    (ms.max(0.0) * 1e6) as u64
}

/// Any time between these, as likely as any other.
fn between(least_ms: f64, most_ms: f64) -> Sampler {
    let (min_ns, max_ns) = (ns(least_ms), ns(most_ms));
    Sampler::new(&Dist::Uniform { min_ns, max_ns })
}
