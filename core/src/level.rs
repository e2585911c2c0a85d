//! Preemption levels, what a device can do, and the steps between states (XSched paper, §4).

use core::fmt;

/// How deep a hold reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Lv1: stop launching; what is in flight still runs.
    #[default]
    Block = 1,
    /// Lv2: launched commands that have not started are held too; the running one finishes.
    Deactivate = 2,
    /// Lv3: the running command is interrupted and continues later.
    Interrupt = 3,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Self; 3] = [Self::Block, Self::Deactivate, Self::Interrupt];

    /// The level with this number, 1 to 3.
    #[must_use]
    pub const fn from_number(n: u8) -> Option<Self> {
        match n {
            1 => Some(Self::Block),
            2 => Some(Self::Deactivate),
            3 => Some(Self::Interrupt),
            _ => None,
        }
    }

    /// 1, 2 or 3.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lv{}", self.number())
    }
}

/// Treatment of commands that a hold stopped before they ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Commands stay on the device and continue.
    Continue,
    /// The device forgets them; the queue launches them again in order.
    Replay,
}

/// Capabilities of a device, its driver and this queue now. A backend reports them when a queue is
/// opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caps {
    /// The highest level.
    pub level: Level,
    /// Effect of [`Step::Deactivate`], or `None` if a hold at Lv3 needs no such step.
    pub deactivate: Option<Recovery>,
    /// Effect of [`Step::Interrupt`], if the device can.
    pub interrupt: Option<Recovery>,
    /// Commands, gates and fences together that may be in flight without a launch blocking.
    /// At least 4.
    pub entries_max: u32,
    /// Another process holds what was launched here together with all else of this process, by
    /// gates of the device, without a step of this queue. How many commands may be in flight is
    /// what [`Submit::room`](crate::hal::Submit::room) says then.
    pub in_unit: bool,
}

impl Caps {
    /// Capabilities up to `level` with everything continuing after a hold, and room for
    /// `entries_max` entries (raised to 4 if lower).
    #[must_use]
    pub const fn up_to(level: Level, entries_max: u32) -> Self {
        let deactivate =
            if level as u8 >= Level::Deactivate as u8 { Some(Recovery::Continue) } else { None };
        let interrupt =
            if level as u8 >= Level::Interrupt as u8 { Some(Recovery::Continue) } else { None };
        let entries_max = if entries_max < 4 { 4 } else { entries_max };
        Self { level, deactivate, interrupt, entries_max, in_unit: false }
    }

    /// Sets whether another process holds the queue's commands at their gates: see
    /// [`Caps::in_unit`].
    #[must_use]
    pub const fn with_unit(mut self, in_unit: bool) -> Self {
        self.in_unit = in_unit;
        self
    }

    /// Returns whether [`Queue::hold_from_above`](crate::queue::Queue::hold_from_above) can do more
    /// than the process that has the gates.
    #[must_use]
    pub const fn needs_orders(&self) -> bool {
        !self.in_unit || self.interrupt.is_some()
    }

    /// Sets `recovery` as the effect of [`Step::Deactivate`], if there is that step.
    #[must_use]
    pub const fn with_recovery(mut self, recovery: Recovery) -> Self {
        if self.deactivate.is_some() {
            self.deactivate = Some(recovery);
        }
        self
    }

    /// Commands that may be in flight when each may carry a gate (from Lv2) and every `batch`-th
    /// a fence. At least 1.
    #[must_use]
    pub fn in_flight_max(&self, batch: u32) -> u32 {
        let per_command = if self.level >= Level::Deactivate { 2 } else { 1 };
        let batch = u64::from(batch.max(1));
        // n commands need n * per_command + ceil(n / batch) entries, and one for a fence on
        // demand.
        let room = u64::from(self.entries_max.saturating_sub(2));
        let n = room * batch / (per_command * batch + 1);
        u32::try_from(n).unwrap_or(u32::MAX).max(1)
    }
}

/// One call to the device. A hold at Lv3 is `Deactivate` then `Interrupt`; the way back is
/// `Restore` then `Reactivate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Step {
    /// Hold launched commands that have not started.
    Deactivate = 1,
    /// Stop the running command.
    Interrupt = 2,
    /// Let the interrupted command continue.
    Restore = 3,
    /// Let held commands start again.
    Reactivate = 4,
}

impl Step {
    /// The step with this number, 1 to 4.
    #[must_use]
    pub const fn from_number(n: u8) -> Option<Self> {
        match n {
            1 => Some(Self::Deactivate),
            2 => Some(Self::Interrupt),
            3 => Some(Self::Restore),
            4 => Some(Self::Reactivate),
            _ => None,
        }
    }

    /// Returns whether the step takes the device away from the queue.
    #[must_use]
    pub const fn is_hold(self) -> bool {
        matches!(self, Self::Deactivate | Self::Interrupt)
    }
}

/// How the level of a hold is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelChoice {
    /// Always this level.
    Exactly(Level),
    /// The cheapest level up to this one that is fast enough, by the device's cost model.
    UpTo(Level),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_flight_limit_never_exceeds_the_entries() {
        for entries in 4..600u32 {
            for batch in [1u32, 2, 3, 8, 64] {
                for level in Level::ALL {
                    let caps = Caps::up_to(level, entries);
                    let n = u64::from(caps.in_flight_max(batch));
                    let per = if level >= Level::Deactivate { 2 } else { 1 };
                    let used = n * per + n.div_ceil(u64::from(batch)) + 1;
                    assert!(n == 1 || used <= u64::from(entries), "{entries} {batch} {level}");
                }
            }
        }
    }
}
