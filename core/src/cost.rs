//! Cost and duration of holds, per level: used by the scheduler to choose a level and by the
//! simulator to play one out.
//!
//! The model is deliberately small. Lv1 waits for everything in flight. Lv2 waits for the running
//! command and what was launched since the last gate, and pays for gates all the time. Lv3 waits
//! for the save of the context and pays for saving and restoring each time.
//!
//! Which queues pay at Lv3 depends on the device's [`Reach`]. Where one queue can be taken off by
//! itself, the other queues go on. Where the driver takes every queue off the device and puts those
//! back that may go on, as AMD's does (`unmap_queues_cpsch` and `map_queues_cpsch` in the kernel's
//! amdkfd), each interrupt and each restore stops every queue for as long as the whole operation
//! takes, including the queue that the hold is made for.
//!
//! What an operation really takes is known only on the device: [`History`] compares.

use crate::level::Level;
use crate::time::Duration;

/// Whom an interrupt or a restore stops while it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The queue itself. The device saves one context while it does nothing else, and restores it
    /// when it is the queue's turn again.
    #[default]
    Queue,
    /// Every queue of the device: all are saved, and those that may go on are restored.
    Device,
}

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
    /// Lv3: fixed part of a save; under [`Reach::Device`] of the whole call that suspends.
    pub save_fixed: Duration,
    /// Lv3: part of a save that grows with the context, for a whole context.
    pub save_context: Duration,
    /// Lv3: fixed part of a restore; under [`Reach::Device`] of the whole call that resumes.
    pub restore_fixed: Duration,
    /// Lv3: part of a restore that grows with the context, for a whole context.
    pub restore_context: Duration,
    /// Lv3: how long running waves may go on before they are saved.
    pub grace: Duration,
    /// Lv3: who is stopped.
    pub reach: Reach,
    /// Lv3: steps that are committed together are one operation.
    pub batches: bool,
}

/// Work that a victim has on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Commands in flight.
    pub in_flight: u64,
    /// Mean device time of a command.
    pub command: Duration,
    /// Share of the whole context in use, in permille: how much of the device its waves fill.
    pub context_permille: u32,
    /// Permille of the context that other queues use at that moment: those that share the victim's
    /// hardware ring, and under [`Reach::Device`] all. Both together count for at most the whole
    /// context.
    pub others_permille: u32,
    /// Another queue is interrupted in the same batch, so that the fixed parts are paid already.
    pub joins: bool,
}

impl Load {
    /// Shares of the context: the victim's and the others', together at most all of it.
    fn shares(&self) -> (u32, u32) {
        let own = self.context_permille.min(1_000);
        (own, self.others_permille.min(1_000 - own))
    }
}

impl CostModel {
    /// The parts of saving and restoring that grow with the context, from its size in bytes and the
    /// memory's bandwidth in bytes per microsecond (1 GB/s is 1,000). Rounded up to nanoseconds; a
    /// bandwidth of 0 counts as 1.
    #[must_use]
    pub fn with_context(mut self, bytes: u64, bytes_per_us: u64) -> Self {
        let ns = (u128::from(bytes) * 1_000).div_ceil(u128::from(bytes_per_us.max(1)));
        let span = Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX));
        (self.save_context, self.restore_context) = (span, span);
        self
    }

    /// Predicted time from a hold to the victim's last instruction (`quiet`), at its worst. It is
    /// not known when the waves stop during the call that suspends them, so all of the call's fixed
    /// part counts.
    #[must_use]
    pub fn quiet(&self, level: Level, load: &Load) -> Duration {
        let all = load.command.times(load.in_flight);
        match level {
            Level::Block => all,
            Level::Deactivate => {
                let ungated = self.gate_spacing + load.command;
                all.min(self.gate_close + ungated)
            }
            Level::Interrupt => {
                let (own, others) = load.shares();
                match self.reach {
                    Reach::Queue => self.save(own),
                    Reach::Device => self.operation(true, false, own + others, 0),
                }
            }
        }
    }

    /// Predicted time from a hold to when another queue can run on the device (`start`), at its
    /// worst. Under [`Reach::Device`] that is the end of the operation, which first puts the other
    /// queues back.
    #[must_use]
    pub fn start(&self, level: Level, load: &Load) -> Duration {
        match level {
            Level::Interrupt => self.suspend(load),
            _ => self.quiet(level, load),
        }
    }

    /// Time for which nothing runs because of one interrupt.
    #[must_use]
    pub fn suspend(&self, load: &Load) -> Duration {
        let (own, others) = load.shares();
        match self.reach {
            Reach::Queue => self.save(own),
            Reach::Device => self.operation(true, false, own + others, others),
        }
    }

    /// Time for which nothing runs because of one restore.
    #[must_use]
    pub fn resume(&self, load: &Load) -> Duration {
        let (own, others) = load.shares();
        match self.reach {
            Reach::Queue => self.restore(own),
            Reach::Device => self.operation(false, true, others, own + others),
        }
    }

    /// Time of one operation under [`Reach::Device`] that interrupts queues, restores some, or does
    /// both in a batch, and saves and restores these parts of the whole context, in permille.
    #[must_use]
    pub fn operation(&self, suspends: bool, resumes: bool, saved: u32, restored: u32) -> Duration {
        let fixed = |due: bool, span: Duration| if due { span } else { Duration::ZERO };
        let grace = fixed(saved > 0, self.grace);
        let call = fixed(suspends, self.save_fixed).max(fixed(resumes, self.restore_fixed));
        let memory = scale(self.save_context, saved) + scale(self.restore_context, restored);
        grace + call + memory
    }

    /// Device time of one save.
    #[must_use]
    pub fn save(&self, context_permille: u32) -> Duration {
        self.grace + self.save_fixed + scale(self.save_context, context_permille)
    }

    /// Device time of one restore.
    #[must_use]
    pub fn restore(&self, context_permille: u32) -> Duration {
        self.restore_fixed + scale(self.restore_context, context_permille)
    }

    /// Predicted device time that one hold and its release take from all queues.
    #[must_use]
    pub fn overhead(&self, level: Level, load: &Load) -> Duration {
        match level {
            Level::Block => Duration::ZERO,
            Level::Deactivate => self.gate_close,
            Level::Interrupt if load.joins => {
                // The others of the batch are saved and restored anyway.
                let (own, _) = load.shares();
                scale(self.save_context, own) + scale(self.restore_context, own)
            }
            Level::Interrupt => self.suspend(load) + self.resume(load),
        }
    }

    /// Cost of a hold that is urgent: the time until another queue can start, and the device time
    /// that all queues lose. A microsecond of either counts the same.
    #[must_use]
    pub fn price(&self, level: Level, load: &Load) -> Duration {
        self.start(level, load) + self.overhead(level, load)
    }

    /// The level for a hold after which another queue should be able to run within `within`: the
    /// lowest that makes it, or, if none does, the one with the lowest [`CostModel::price`]. Never
    /// above `highest`.
    ///
    /// So Lv3 is used when it pays: not for a victim whose running command will have ended by the
    /// time its context would have been saved and restored.
    #[must_use]
    pub fn choose(&self, highest: Level, within: Duration, load: &Load) -> Level {
        let mut best = Level::Block;
        for level in Level::ALL {
            if level > highest {
                break;
            }
            if self.start(level, load) <= within {
                // Those below do not make it, or this would not have been reached.
                return level;
            }
            if self.price(level, load) < self.price(best, load) {
                best = level;
            }
        }
        best
    }
}

/// By how much what was measured differs from what was predicted, for one kind of operation. The
/// fixed part is not known beforehand (published figures reach from 1 to 425 µs), so the difference
/// is one of time and not a factor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    off_ns: i64,
    samples: u32,
}

impl History {
    /// Divisor of a sample's weight: one sample changes the estimate by one part in eight.
    const WEIGHT: i64 = 8;
    /// Factor of the expected value that one sample counts as at most: a host that was busy with
    /// something else must not be taken for a slow device.
    const MOST: u64 = 4;
    /// Limit that a sample may always reach, so that something expected to be free can turn out
    /// not to be.
    const LEAST_MOST: Duration = Duration::from_us(40);

    /// Takes a measurement of something that [`CostModel`] predicts to take `predicted`.
    pub fn note(&mut self, predicted: Duration, measured: Duration) {
        let expected = self.corrected(predicted);
        let most = expected.times(Self::MOST).max(Self::LEAST_MOST);
        let gap = i128::from(measured.min(most).as_ns()) - i128::from(expected.as_ns());
        // Away from zero, so that small differences are not ignored for ever.
        let part = gap.signum() * ((gap.abs() + i128::from(Self::WEIGHT) - 1) / 8);
        let off = i128::from(self.off_ns) + part;
        self.off_ns = off.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        self.samples = self.samples.saturating_add(1);
    }

    /// The prediction as experience corrects it.
    #[must_use]
    pub fn corrected(&self, predicted: Duration) -> Duration {
        Duration::from_ns(predicted.as_ns().saturating_add_signed(self.off_ns))
    }

    /// Measurements taken.
    #[must_use]
    pub const fn samples(&self) -> u32 {
        self.samples
    }
}

/// Measured values of a device's interrupts and restores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// From the order to hold at Lv3 until the queue says that it is.
    pub suspend: History,
    /// From the order to run until the queue says that it may.
    pub resume: History,
}

impl Measured {
    /// The model with its fixed parts corrected by what was measured.
    #[must_use]
    pub fn correct(&self, mut cost: CostModel) -> CostModel {
        cost.save_fixed = self.suspend.corrected(cost.save_fixed);
        cost.restore_fixed = self.resume.corrected(cost.restore_fixed);
        cost
    }
}

fn scale(span: Duration, permille: u32) -> Duration {
    Duration::from_ns((u128::from(span.as_ns()) * u128::from(permille) / 1_000) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        let command = Duration::from_us(command_us);
        Load { in_flight: 8, command, context_permille: 1_000, ..Load::default() }
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

    /// Model of an MI308X whose driver needs `call_us` for each call, whatever is saved.
    fn partition(call_us: u64) -> CostModel {
        let fixed = Duration::from_us(call_us);
        let model = CostModel { save_fixed: fixed, restore_fixed: fixed, ..CostModel::default() };
        CostModel { reach: Reach::Device, batches: true, ..model }
            .with_context(46_600 * 1_024, 5_300_000)
    }

    #[test]
    fn a_context_takes_as_long_as_the_memory_needs() {
        let cost = partition(0);
        assert_eq!(cost.save_context, cost.restore_context);
        assert_eq!(cost.save_context, Duration::from_ns(9_004), "46.6 MB at 5.3 TB/s");
        assert_eq!(cost.with_context(1, 0).save_context, Duration::from_us(1), "no division by 0");
        assert_eq!(cost.with_context(u64::MAX, 0).save_context, Duration::from_ns(u64::MAX));
    }

    #[test]
    fn on_a_partition_every_queue_pays() {
        let cost = partition(50);
        let alone = Load { context_permille: 500, ..load(100) };
        let beside = Load { others_permille: 900, ..alone };
        let ns = |alone: Duration, beside: Duration| (alone.as_ns(), beside.as_ns());
        let of =
            |what: fn(&CostModel, &Load) -> Duration| ns(what(&cost, &alone), what(&cost, &beside));
        // Half a context is 4,502 ns; the others have at most the other half.
        assert_eq!(of(|c, l| c.quiet(Level::Interrupt, l)), (54_502, 59_004));
        assert_eq!(of(CostModel::suspend), (54_502, 63_506));
        assert_eq!(of(CostModel::resume), (54_502, 63_506));
        assert_eq!(of(|c, l| c.start(Level::Interrupt, l)), (54_502, 63_506), "with the winner");
        let queue = CostModel { reach: Reach::Queue, ..cost };
        assert_eq!(
            queue.suspend(&beside),
            queue.suspend(&alone),
            "it does not pay for other queues"
        );
    }

    #[test]
    fn interrupting_pays_when_it_saves_more_than_it_costs() {
        let cost = partition(50);
        let chosen = |us| cost.choose(Level::Interrupt, Duration::ZERO, &load(us));
        // Two calls of 59 µs, of which the winner waits for the first.
        assert_eq!((chosen(177), chosen(178)), (Level::Deactivate, Level::Interrupt));
        let joins = Load { joins: true, ..load(100) };
        let level = cost.choose(Level::Interrupt, Duration::ZERO, &joins);
        assert_eq!(level, Level::Interrupt, "the fixed parts are paid already");
    }

    #[test]
    fn a_slow_driver_is_found_out() {
        let (cost, mut measured) = (partition(10), Measured::default());
        let long = load(500);
        assert_eq!(cost.choose(Level::Interrupt, Duration::ZERO, &long), Level::Interrupt);
        for _ in 0..60 {
            let slow = Duration::from_us(5_000);
            measured.suspend.note(cost.suspend(&long), slow);
            measured.resume.note(cost.resume(&long), slow);
        }
        let known = measured.correct(cost);
        let suspend = known.suspend(&long).as_ns();
        assert!((4_900_000..=5_000_000).contains(&suspend), "{suspend}");
        assert_eq!(known.choose(Level::Interrupt, Duration::ZERO, &long), Level::Deactivate);
        assert_eq!(known.choose(Level::Interrupt, Duration::ZERO, &load(20_000)), Level::Interrupt);
    }

    #[test]
    fn one_slow_answer_proves_nothing() {
        let (cost, mut measured) = (partition(50), Measured::default());
        for _ in 0..20 {
            measured.suspend.note(cost.suspend(&load(1)), cost.suspend(&load(1)));
        }
        assert_eq!(measured.correct(cost).save_fixed, cost.save_fixed, "nothing to correct");
        measured.suspend.note(cost.suspend(&load(1)), Duration::from_ms(1_000));
        let off = measured.correct(cost).save_fixed - cost.save_fixed;
        assert!(off < Duration::from_us(25), "{off:?}");
        assert_eq!(measured.suspend.samples(), 21);
    }

    fn any_load() -> impl Strategy<Value = Load> {
        (0..64_u64, 0..100_000_u64, 0..2_000_u32, 0..2_000_u32, any::<bool>()).prop_map(
            |(in_flight, us, context_permille, others_permille, joins)| Load {
                in_flight,
                command: Duration::from_us(us),
                context_permille,
                others_permille,
                joins,
            },
        )
    }

    fn any_model() -> impl Strategy<Value = CostModel> {
        let us = || (0..20_000_u64).prop_map(Duration::from_us);
        let whole = (any::<bool>(), any::<bool>());
        (us(), us(), us(), us(), us(), us(), us(), whole).prop_map(|all| {
            let (gate_close, gate_spacing, save_fixed, save_context, ..) = all;
            let (.., restore_fixed, restore_context, grace, (device, batches)) = all;
            CostModel {
                gate_close,
                gate_spacing,
                save_fixed,
                save_context,
                restore_fixed,
                restore_context,
                grace,
                reach: if device { Reach::Device } else { Reach::Queue },
                batches,
                ..CostModel::default()
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_chosen_makes_it_or_is_the_best_there_is(
            model in any_model(),
            load in any_load(),
            within in (0..200_000_u64).prop_map(Duration::from_us),
            highest in prop::sample::select(Level::ALL.to_vec()),
        ) {
            let chosen = model.choose(highest, within, &load);
            prop_assert!(chosen <= highest);
            let allowed = || Level::ALL.into_iter().filter(|level| *level <= highest);
            let makes_it = |level: Level| model.start(level, &load) <= within;
            match allowed().find(|level| makes_it(*level)) {
                Some(lowest) => prop_assert_eq!(chosen, lowest),
                None => for other in allowed() {
                    prop_assert!(model.price(chosen, &load) <= model.price(other, &load));
                },
            }
        }

        #[test]
        fn others_and_a_fuller_device_never_make_it_cheaper(
            model in any_model(),
            load in any_load(),
        ) {
            let alone = Load { others_permille: 0, ..load };
            let emptier = Load { context_permille: load.context_permille / 2, ..alone };
            for of in [CostModel::suspend, CostModel::resume] {
                prop_assert!(of(&model, &alone) <= of(&model, &load));
                prop_assert!(of(&model, &emptier) <= of(&model, &alone));
            }
            for level in Level::ALL {
                prop_assert!(model.quiet(level, &load) <= model.start(level, &load));
            }
        }

        #[test]
        fn a_history_comes_to_what_is_measured(
            predicted in 0..10_000_000_u64,
            measured in 0..100_000_000_u64,
        ) {
            let mut history = History::default();
            let [predicted, measured] = [predicted, measured].map(Duration::from_ns);
            for _ in 0..200 {
                history.note(predicted, measured);
            }
            prop_assert_eq!(history.corrected(predicted), measured);
        }
    }
}
