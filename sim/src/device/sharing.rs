//! Sharing of a device: one after the other, or together.

use std::collections::BTreeMap;

use super::clients::Clients;
use super::line::{Finish, Line};
use crate::scenario::Concurrency;

/// The streams whose heads run or could run.
#[derive(Debug)]
pub(crate) enum Sharing {
    /// One at a time.
    Turns(Turns),
    /// All at once, each slower.
    Together(Together),
    /// By process, as some comparators do.
    Clients(Clients),
}

/// One command at a time on each unit; the waiting streams in turn.
#[derive(Debug)]
pub(crate) struct Turns {
    line: Line,
    /// Stream, end and token of what runs.
    running: Vec<(u32, u64, u32)>,
    units: usize,
    token: u32,
    /// A stream keeps the device until it has drained.
    exclusive: bool,
}

/// Processor sharing in virtual time: it advances at the rate at which each running command does,
/// so a command of length `w` that starts at virtual time `v` finishes at `v + w`.
#[derive(Debug)]
pub(crate) struct Together {
    contention: f64,
    line: Line,
    /// The streams that run, in the order of their ends.
    running: BTreeMap<End, u32>,
    /// By stream, its end if it runs.
    ends: Vec<Option<End>>,
    started: u64,
    virtual_ns: f64,
    last_ns: u64,
    stalled: bool,
    token: u32,
    /// The next finish has been told, and nothing has finished since.
    told: bool,
}

/// When a command ends, in virtual time; of equal ends, that of the command that started first is
/// the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    /// Bits of the time: those of numbers that are not negative are in the order of the numbers.
    bits: u64,
    started: u64,
}

impl End {
    fn virtual_ns(self) -> f64 {
        f64::from_bits(self.bits)
    }
}

impl Sharing {
    pub(crate) fn new(concurrency: Concurrency) -> Self {
        match concurrency {
            Concurrency::RoundRobin => Self::Turns(Turns::new(1)),
            Concurrency::Units { units } => Self::Turns(Turns::new(units)),
            Concurrency::Exclusive => Self::Turns(Turns { exclusive: true, ..Turns::new(1) }),
            Concurrency::ProcessorSharing { contention } => Self::Together(Together {
                contention,
                line: Line::default(),
                running: BTreeMap::new(),
                ends: Vec::new(),
                started: 0,
                virtual_ns: 0.0,
                last_ns: 0,
                stalled: false,
                token: 0,
                told: false,
            }),
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        match self {
            Self::Turns(turns) => !turns.running.is_empty(),
            Self::Together(together) => !together.running.is_empty() && !together.stalled,
            Self::Clients(clients) => clients.is_running(),
        }
    }

    /// True if a stream keeps its turn from command to command.
    pub(crate) const fn keeps(&self) -> bool {
        matches!(self, Self::Turns(Turns { exclusive: true, .. }))
    }

    /// Puts a stream in line. One that has a turn from before, because it was kept from using it,
    /// is not sent to the end again.
    pub(crate) fn offer(&mut self, stream: u32, urgent: bool, turn: &mut Option<u64>) {
        let line = match self {
            Self::Turns(turns) => &mut turns.line,
            Self::Together(together) => &mut together.line,
            Self::Clients(clients) => &mut clients.line,
        };
        line.insert(stream, urgent, turn);
    }

    /// True if commands run in waves, between which the device can change hands.
    pub(crate) const fn has_waves(&self) -> bool {
        matches!(self, Self::Turns(Turns { exclusive: false, .. }))
    }

    /// True if a stream is in line that goes before those that are not urgent.
    pub(crate) fn is_urgent_waiting(&self) -> bool {
        let Self::Turns(turns) = self else { return false };
        turns.line.is_urgent_first()
    }

    /// The next stream to start, if one can start now.
    pub(crate) fn take(&mut self) -> Option<u32> {
        match self {
            Self::Turns(turns) if turns.running.len() >= turns.units => None,
            Self::Turns(turns) => turns.line.take(),
            Self::Together(together) => together.line.take(),
            Self::Clients(clients) => clients.line.take(),
        }
    }

    /// A command with this much work starts.
    pub(crate) fn start(&mut self, now_ns: u64, stream: u32, work_ns: u64) -> Finish {
        match self {
            Self::Turns(turns) => {
                let end_ns = now_ns + work_ns;
                turns.token = turns.token.wrapping_add(1);
                turns.running.push((stream, end_ns, turns.token));
                Some((end_ns, turns.token))
            }
            Self::Together(together) => {
                together.advance(now_ns);
                together.run(stream, work_ns);
                together.next_finish(now_ns)
            }
            Self::Clients(clients) => clients.start(now_ns, stream, work_ns),
        }
    }

    /// The running command has finished, if the token is still good; returns its stream.
    pub(crate) fn finish(&mut self, now_ns: u64, token: u32) -> Option<u32> {
        match self {
            Self::Turns(turns) => {
                let at = turns.running.iter().position(|(.., t)| *t == token)?;
                Some(turns.running.remove(at).0)
            }
            Self::Together(together) if together.token == token => {
                together.advance(now_ns);
                let (_, stream) = together.running.pop_first()?;
                together.ends[stream as usize] = None;
                together.told = false;
                Some(stream)
            }
            Self::Together(_) => None,
            Self::Clients(clients) => clients.finish(now_ns, token),
        }
    }

    /// Stops the running command of a stream; returns the work that is left.
    pub(crate) fn stop(&mut self, now_ns: u64, stream: u32) -> u64 {
        match self {
            Self::Turns(turns) => {
                let at = turns.running.iter().position(|(s, ..)| *s == stream);
                at.map_or(0, |at| turns.running.remove(at).1.saturating_sub(now_ns))
            }
            Self::Together(together) => {
                together.advance(now_ns);
                let end = together.ends.get_mut(stream as usize).and_then(Option::take);
                let Some(end) = end else { return 0 };
                together.running.remove(&end);
                (end.virtual_ns() - together.virtual_ns).max(0.0).round() as u64
            }
            Self::Clients(clients) => clients.stop(now_ns, stream),
        }
    }

    /// Nothing advances while the device is stalled.
    pub(crate) fn stall(&mut self, now_ns: u64, stalled: bool) {
        match self {
            Self::Turns(_) => {}
            Self::Together(together) => {
                together.advance(now_ns);
                together.stalled = stalled;
            }
            Self::Clients(clients) => clients.stall(now_ns, stalled),
        }
    }

    /// After a finish: the next one, unless the start of another command has told it since.
    pub(crate) fn next_after_finish(&mut self, now_ns: u64) -> Finish {
        match self {
            Self::Together(together) if !together.told => together.next_finish(now_ns),
            Self::Clients(clients) => clients.next_after_finish(now_ns),
            _ => None,
        }
    }

    /// The next finish anew, where a change of who runs moves it.
    pub(crate) fn reschedule(&mut self, now_ns: u64) -> Finish {
        match self {
            Self::Turns(_) => None,
            Self::Together(together) => together.next_finish(now_ns),
            Self::Clients(clients) => clients.next_finish(now_ns),
        }
    }

    /// Device time that changing from process to process took.
    pub(crate) const fn overhead_ns(&self) -> u64 {
        match self {
            Self::Clients(clients) => clients.overhead_ns,
            Self::Turns(_) | Self::Together(_) => 0,
        }
    }
}

impl Turns {
    fn new(units: u32) -> Self {
        let units = units.max(1) as usize;
        let (line, running) = (Line::default(), Vec::new());
        Self { line, running, units, token: 0, exclusive: false }
    }
}

impl Together {
    /// How fast each running command advances.
    fn rate(&self) -> f64 {
        let others = self.running.len().saturating_sub(1) as f64;
        1.0 / self.contention.mul_add(others, 1.0)
    }

    fn advance(&mut self, now_ns: u64) {
        if !self.stalled && !self.running.is_empty() {
            self.virtual_ns += (now_ns - self.last_ns) as f64 * self.rate();
        }
        self.last_ns = now_ns;
    }

    /// A command with this much work starts.
    fn run(&mut self, stream: u32, work_ns: u64) {
        let end = self.virtual_ns + work_ns as f64;
        self.started += 1;
        let end = End { bits: end.to_bits(), started: self.started };
        self.running.insert(end, stream);
        let place = stream as usize;
        if self.ends.len() <= place {
            self.ends.resize(place + 1, None);
        }
        self.ends[place] = Some(end);
    }

    fn next_finish(&mut self, now_ns: u64) -> Finish {
        self.token = self.token.wrapping_add(1);
        self.told = true;
        if self.stalled {
            return None;
        }
        let (first, _) = self.running.first_key_value()?;
        let left = (first.virtual_ns() - self.virtual_ns).max(0.0) / self.rate();
        // Rounded up, without a call of the mathematics library for every command.
        let whole = left as u64;
        Some((now_ns + whole + u64::from(left > whole as f64), self.token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sharing_halves_the_speed() {
        let mut sharing = Sharing::new(Concurrency::ProcessorSharing { contention: 1.0 });
        let (alone, _) = sharing.start(0, 0, 100).unwrap();
        assert_eq!(alone, 100);
        let (both, token) = sharing.start(50, 1, 100).unwrap();
        assert_eq!(both, 150, "half of the first is left, at half the speed");
        assert_eq!(sharing.finish(150, token), Some(0));
        assert_eq!(sharing.reschedule(150).unwrap().0, 200);
    }

    #[test]
    fn each_unit_runs_one_command() {
        let mut sharing = Sharing::new(Concurrency::Units { units: 2 });
        for stream in 0..3 {
            sharing.offer(stream, false, &mut None);
        }
        assert_eq!(sharing.take(), Some(0));
        let (_, first) = sharing.start(0, 0, 100).unwrap();
        assert_eq!(sharing.take(), Some(1));
        sharing.start(10, 1, 100).unwrap();
        assert_eq!(sharing.take(), None, "both units are taken");
        assert_eq!(sharing.stop(50, 1), 60);
        assert_eq!(sharing.take(), Some(2));
        assert_eq!(sharing.finish(100, first), Some(0));
    }

    #[test]
    fn a_stopped_command_keeps_what_is_left() {
        let mut sharing = Sharing::new(Concurrency::RoundRobin);
        let (_, token) = sharing.start(0, 0, 100).unwrap();
        assert_eq!(sharing.stop(30, 0), 70);
        assert_eq!(sharing.finish(100, token), None);
    }
}
