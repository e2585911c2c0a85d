//! A model of one hardware queue: a list of entries that are worked off in order.

use std::collections::VecDeque;

use xsched_core::fault::Fault;
use xsched_core::id::CmdId;
use xsched_core::level::{Caps, Recovery, Step};
use xsched_core::queue::{Outcome, Retired};
use xsched_core::time::Duration;

/// Device time of every command.
const COMMAND: Duration = Duration::from_us(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// A command, and whether a gate stands before it.
    Command(u64, bool),
    /// A completion fence behind this command.
    Fence(u64),
}

/// Progress of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// The device started a command; `true` if a gate stands before it.
    Started(u64, bool),
    Finished(u64),
    /// The device passed a fence.
    Passed,
    /// The device has nothing to do, or is held.
    Nothing,
}

/// The device. Under [`Recovery::Replay`] a hold makes it forget what has not started (or, if the
/// running command is stopped, not finished), and whatever is launched until the hold ends.
#[derive(Debug, Default)]
pub(super) struct Device {
    entries: VecDeque<Entry>,
    running: bool,
    deactivated: bool,
    interrupted: bool,
    replays: [bool; 2],
    /// The first forgotten command, while held.
    forgotten: Option<u64>,
    /// The newest completion that the host was not told.
    unseen: Option<u64>,
    failed: Option<(u64, Fault)>,
    busy: Duration,
    /// The next command to finish fails.
    pub(super) fail_next: bool,
    /// The next completion is lost.
    pub(super) lose_next: bool,
    /// Set once it never opens its gate again.
    pub(super) stuck: bool,
}

impl Device {
    pub(super) fn new(caps: &Caps) -> Self {
        let replays = [caps.deactivate, caps.interrupt].map(|r| r == Some(Recovery::Replay));
        Self { replays, ..Self::default() }
    }

    /// Takes a command. Returns false if it is forgotten at once.
    pub(super) fn launch(&mut self, cmd: u64, fence: bool, gated: bool) -> bool {
        if self.forgotten.is_some() {
            return false;
        }
        self.entries.push_back(Entry::Command(cmd, gated));
        if fence {
            self.entries.push_back(Entry::Fence(cmd));
        }
        true
    }

    /// Takes a fence, unless it is behind a forgotten command.
    pub(super) fn fence(&mut self, upto: u64) {
        if self.forgotten.is_none_or(|first| upto < first) {
            self.entries.push_back(Entry::Fence(upto));
        }
    }

    /// Does the next thing that can be done. Returns it and whether a completion was lost.
    pub(super) fn advance(&mut self) -> (Did, bool) {
        if self.interrupted {
            return (Did::Nothing, false);
        }
        match self.entries.front().copied() {
            Some(Entry::Command(cmd, _)) if self.running => {
                self.finish(cmd);
                (Did::Finished(cmd), false)
            }
            Some(Entry::Command(..)) if self.deactivated => (Did::Nothing, false),
            Some(Entry::Command(cmd, gated)) => {
                self.running = true;
                (Did::Started(cmd, gated), false)
            }
            Some(Entry::Fence(upto)) => {
                self.entries.pop_front();
                let lost = std::mem::take(&mut self.lose_next);
                if !lost {
                    self.unseen = self.unseen.max(Some(upto));
                }
                (Did::Passed, lost)
            }
            None => (Did::Nothing, false),
        }
    }

    fn finish(&mut self, cmd: u64) {
        self.entries.pop_front();
        self.running = false;
        self.busy += COMMAND;
        if std::mem::take(&mut self.fail_next) && self.failed.is_none() {
            self.failed = Some((cmd, Fault::Execution));
        }
    }

    /// The completion that the host has not been told, if there is one.
    pub(super) fn tell(&mut self) -> Option<Retired> {
        let upto = self.unseen.take()?;
        let failed = self.failed.take_if(|(from, _)| *from <= upto);
        let outcome = match failed {
            Some((from, fault)) => Outcome::Failed { from: CmdId(from), fault },
            None => Outcome::Ok,
        };
        let busy = std::mem::take(&mut self.busy);
        Some(Retired { upto: CmdId(upto), busy, outcome })
    }

    /// Carries out a step. Returns the first command that it forgot.
    pub(super) fn step(&mut self, step: Step) -> Option<u64> {
        match step {
            Step::Deactivate => self.deactivated = true,
            Step::Interrupt => self.interrupted = true,
            Step::Restore => self.interrupted = false,
            Step::Reactivate => self.deactivated = self.stuck,
        }
        if !self.deactivated && !self.interrupted {
            self.forgotten = None;
        }
        let first = match step {
            Step::Deactivate if self.replays[0] => self.forget(usize::from(self.running)),
            Step::Interrupt if self.replays[1] => {
                self.running = false;
                self.forget(0)
            }
            _ => None,
        };
        first.map(|(first, _)| first)
    }

    /// Forgets all commands but the first `keep`, and the fences behind them. Returns the first of
    /// them, and how many.
    fn forget(&mut self, keep: usize) -> Option<(u64, u64)> {
        let commands = self.entries.iter().enumerate().filter_map(|(at, entry)| match entry {
            Entry::Command(cmd, _) => Some((at, *cmd)),
            Entry::Fence(_) => None,
        });
        let commands: Vec<_> = commands.skip(keep).collect();
        let &(at, first) = commands.first()?;
        self.entries.truncate(at);
        self.forgotten = Some(self.forgotten.map_or(first, |f| f.min(first)));
        Some((first, commands.len() as u64))
    }

    /// Commands that are launched and have not started.
    pub(super) fn not_started(&self) -> u64 {
        let commands = self.entries.iter().filter(|e| matches!(e, Entry::Command(..))).count();
        commands as u64 - u64::from(self.running)
    }

    /// True if a command runs, or is stopped while it runs.
    pub(super) fn running(&self) -> bool {
        self.running
    }

    /// Launch-queue entries in use: commands, the gates before them, fences.
    pub(super) fn entries(&self) -> u64 {
        let size = |entry: &Entry| 1 + u64::from(matches!(entry, Entry::Command(_, true)));
        self.entries.iter().map(size).sum()
    }

    /// True if a completion of `cmd` is on its way to the host.
    pub(super) fn will_tell(&self, cmd: u64) -> bool {
        let fenced = |entry: &Entry| matches!(entry, Entry::Fence(upto) if *upto >= cmd);
        self.unseen.is_some_and(|upto| upto >= cmd) || self.entries.iter().any(fenced)
    }
}
