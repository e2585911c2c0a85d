//! What a hold costs and how long it takes, per level: used by the scheduler to choose a level and
//! by the simulator to play one out.
//!
//! The model is deliberately small. Lv1 waits for everything in flight. Lv2 waits for the running
//! command and what was launched since the last gate, and pays for gates all the time. Lv3 waits
//! for the save of the context and pays for saving and restoring each time.

use crate::level::Level;
use crate::time::Duration;

/// Per-level costs of a device. All zero is a device that preempts for free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostModel {
    /// How late the host sees a completion.
    pub detect: Duration,
    /// Lv2: from the host's store to the gate acting.
    pub gate_close: Duration,
    /// Lv2: device time of a gate.
    pub gate: Duration,
    /// Lv2: predicted work between two gates; zero for a gate in front of every command.
    pub gate_spacing: Duration,
    /// Lv3: fixed part of a save.
    pub save_fixed: Duration,
    /// Lv3: part of a save that grows with the context, for a whole context.
    pub save_context: Duration,
    /// Lv3: fixed part of a restore.
    pub restore_fixed: Duration,
    /// Lv3: part of a restore that grows with the context, for a whole context.
    pub restore_context: Duration,
}

/// What a victim has on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Commands in flight.
    pub in_flight: u64,
    /// Mean device time of a command.
    pub command: Duration,
    /// Share of the whole context in use, in permille.
    pub context_permille: u32,
}

impl CostModel {
    /// Predicted time from a hold to the victim's last instruction (`quiet`), at its worst.
    #[must_use]
    pub fn quiet(&self, level: Level, load: &Load) -> Duration {
        let all = load.command.times(load.in_flight);
        match level {
            Level::Block => all,
            Level::Deactivate => {
                let ungated = self.gate_spacing + load.command;
                all.min(self.gate_close + ungated)
            }
            Level::Interrupt => self.save(load.context_permille),
        }
    }

    /// Device time of one save.
    #[must_use]
    pub fn save(&self, context_permille: u32) -> Duration {
        self.save_fixed + scale(self.save_context, context_permille)
    }

    /// Device time of one restore.
    #[must_use]
    pub fn restore(&self, context_permille: u32) -> Duration {
        self.restore_fixed + scale(self.restore_context, context_permille)
    }

    /// Predicted device time that one hold and its release take from everybody.
    #[must_use]
    pub fn overhead(&self, level: Level, load: &Load) -> Duration {
        match level {
            Level::Block => Duration::ZERO,
            Level::Deactivate => self.gate_close,
            Level::Interrupt => {
                self.save(load.context_permille) + self.restore(load.context_permille)
            }
        }
    }

    /// The level for a hold that should be quiet within `within`: the cheapest that makes it, or,
    /// if none does, the fastest. Never above `highest`.
    #[must_use]
    pub fn choose(&self, highest: Level, within: Duration, load: &Load) -> Level {
        let mut best = Level::Block;
        for level in Level::ALL {
            if level > highest {
                break;
            }
            if self.quiet(best, load) <= within {
                return best;
            }
            if self.quiet(level, load) < self.quiet(best, load) {
                best = level;
            }
        }
        best
    }
}

fn scale(span: Duration, permille: u32) -> Duration {
    Duration::from_ns((u128::from(span.as_ns()) * u128::from(permille) / 1_000) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(save_us: u64) -> CostModel {
        CostModel {
            gate_close: Duration::from_us(1),
            save_fixed: Duration::from_us(save_us),
            restore_fixed: Duration::from_us(save_us),
            ..CostModel::default()
        }
    }

    fn load(command_us: u64) -> Load {
        Load { in_flight: 8, command: Duration::from_us(command_us), context_permille: 1_000 }
    }

    #[test]
    fn interrupting_pays_only_for_long_commands() {
        let model = model(50);
        assert_eq!(model.choose(Level::Interrupt, Duration::ZERO, &load(10)), Level::Deactivate);
        assert_eq!(model.choose(Level::Interrupt, Duration::ZERO, &load(500)), Level::Interrupt);
        assert_eq!(model.choose(Level::Deactivate, Duration::ZERO, &load(500)), Level::Deactivate);
    }

    #[test]
    fn a_patient_hold_takes_the_cheapest_level() {
        let patient = Duration::from_ms(10);
        assert_eq!(model(50).choose(Level::Interrupt, patient, &load(500)), Level::Block);
    }
}
