//! How long commands and holds of a queue take.

use xsched_core::id::CmdId;
use xsched_core::message::HoldState;
use xsched_core::time::Instant;

use crate::clock::now;
use crate::latency::Latencies;

/// One of this number of commands is measured in a queue that is never idle. Reading the clock
/// costs as much as launching.
const SAMPLE_EVERY: u64 = 64;

/// Measurements of a queue.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// The command that is measured, and when it was submitted.
    sample: Option<(CmdId, Instant)>,
    pub(super) commands: Latencies,
    pub(super) holds: Latencies,
    hold: HoldState,
    /// Since when a hold is on its way.
    since: Option<Instant>,
}

impl Timing {
    /// A command was submitted; `at` is when, if that is known.
    #[inline]
    pub(super) fn submitted(&mut self, cmd: CmdId, at: Option<Instant>) {
        if self.sample.is_none() && (at.is_some() || cmd.0.is_multiple_of(SAMPLE_EVERY)) {
            self.sample = Some((cmd, at.unwrap_or_else(now)));
        }
    }

    /// Notes that this number of commands have retired by now.
    #[inline]
    pub(super) fn retired(&mut self, retired: u64, now: Instant) {
        if let Some((_, since)) = self.sample.take_if(|(cmd, _)| cmd.0 < retired) {
            self.commands.record(now.since(since).as_ns());
        }
    }

    /// The queue's hold is in this state. The clock is read only for a hold that takes its time.
    pub(super) fn hold(&mut self, state: HoldState) {
        let before = std::mem::replace(&mut self.hold, state);
        if before == state {
            return;
        }
        let since = self.since.take();
        match (before, state) {
            (_, HoldState::Holding) => self.since = Some(since.unwrap_or_else(now)),
            // A deeper hold, or less of one.
            (HoldState::Held(_), HoldState::Held(_)) => {}
            (_, HoldState::Held(_)) => {
                self.holds.record(since.map_or(0, |since| now().since(since).as_ns()));
            }
            _ => {}
        }
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
        assert_eq!(timing.holds.count(), 0);
        std::thread::sleep(std::time::Duration::from_millis(2));
        let deep = [HoldState::Held(Level::Block), HoldState::Held(Level::Interrupt)];
        deep.into_iter().for_each(|state| timing.hold(state));
        assert_eq!(timing.holds.count(), 1, "a deeper hold is the same one");
        assert!(timing.holds.sum().as_millis() >= 2);
        for state in [HoldState::Running, HoldState::Held(Level::Block)] {
            timing.hold(state);
        }
        assert_eq!(timing.holds.count(), 2);
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
