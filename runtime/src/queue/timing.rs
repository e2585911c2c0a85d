//! How long commands and holds of a queue take.

use std::time::Duration;

use xsched_core::id::CmdId;
use xsched_core::message::HoldState;
use xsched_core::time::Instant;

use crate::clock::now;
use crate::latency::Latencies;
use crate::stats::HoldStats;

/// Of so many commands, one is measured in a queue that is never idle. Reading the clock costs as
/// much as launching.
const SAMPLED: u64 = 64;

/// What is measured of a queue.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// The command that is measured, and when it was submitted.
    sample: Option<(CmdId, Instant)>,
    pub(super) commands: Latencies,
    hold: HoldState,
    /// Since when a hold is on its way, or in effect.
    since: Option<Instant>,
    holds: HoldStats,
}

impl Timing {
    /// A command was submitted; `at` is when, if that is known.
    #[inline]
    pub(super) fn submitted(&mut self, cmd: CmdId, at: Option<Instant>) {
        if self.sample.is_none() && (at.is_some() || cmd.0.is_multiple_of(SAMPLED)) {
            self.sample = Some((cmd, at.unwrap_or_else(now)));
        }
    }

    /// So many commands have retired by now.
    #[inline]
    pub(super) fn retired(&mut self, retired: u64, now: Instant) {
        if let Some((_, since)) = self.sample.take_if(|(cmd, _)| cmd.0 < retired) {
            self.commands.record(now.since(since).as_ns());
        }
    }

    /// The queue's hold is in this state.
    pub(super) fn hold(&mut self, state: HoldState) {
        let before = std::mem::replace(&mut self.hold, state);
        if before == state {
            return;
        }
        let now = now();
        let held = |state| matches!(state, HoldState::Held(_));
        match (held(before), held(state)) {
            (false, true) => {
                let began = self.since.replace(now).unwrap_or(now);
                self.holds.latency.record(now.since(began).as_ns());
            }
            (true, false) => {
                self.holds.held += self.held_for(now);
                self.since = None;
            }
            (true, true) => {}
            (false, false) => self.since = (state == HoldState::Holding).then_some(now),
        }
    }

    fn held_for(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.since(since).into())
    }

    /// The holds so far, with the one that is in effect.
    pub(super) fn holds(&self) -> HoldStats {
        let mut holds = self.holds;
        if matches!(self.hold, HoldState::Held(_)) {
            holds.held += self.held_for(now());
        }
        holds
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use xsched_core::level::Level;

    use super::*;

    #[test]
    fn a_hold_counts_once_it_is_in_effect() {
        let mut timing = Timing::default();
        for state in [HoldState::Holding, HoldState::Running, HoldState::Holding] {
            timing.hold(state);
        }
        assert_eq!(timing.holds().latency.count(), 0);
        let deep = [HoldState::Held(Level::Block), HoldState::Held(Level::Interrupt)];
        deep.into_iter().for_each(|state| timing.hold(state));
        assert_eq!(timing.holds().latency.count(), 1, "a deeper hold is the same one");
        std::thread::sleep(Duration::from_millis(2));
        let held = timing.holds().held;
        assert!(held.as_millis() >= 2);
        timing.hold(HoldState::Running);
        assert!(timing.holds().held >= held);
        assert_eq!(timing.holds(), timing.holds(), "the time stands still");
    }

    #[test]
    fn one_command_at_a_time_is_measured() {
        let mut timing = Timing::default();
        let at = Instant::from_ns;
        timing.submitted(CmdId(5), Some(at(100)));
        timing.submitted(CmdId(6), Some(at(200)));
        timing.retired(5, at(300));
        assert_eq!(timing.commands.count(), 0);
        timing.retired(7, at(400));
        assert_eq!((timing.commands.count(), timing.commands.sum().as_nanos()), (1, 300));
        timing.submitted(CmdId(7), None);
        timing.retired(8, at(500));
        assert_eq!(timing.commands.count(), 1);
    }
}
