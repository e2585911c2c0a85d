//! What policies that share device time have in common: start-time fair turns.
//!
//! Each queue has a *virtual time*, the device time that it has used divided by its weight, and on
//! each device the ready queue that is behind most has the next turn. A turn ends when its queue is
//! half a round ahead of the next one, so that a round of all ready queues takes about a timeslice.
//! Device time is measured; between two reports a queue that has the turn is taken to use the
//! device all the time, and the next report puts that right. What a queue still used after its turn
//! counts as well.
//!
//! A queue that becomes ready goes on at the virtual time of those that are ready, or a round
//! behind it if it was behind: nobody saves up more than that by sleeping, nobody has to wait
//! because others are new, and who is idle for a moment between two requests loses nothing. A queue
//! that becomes idle while others are ready is held until it has a turn or nobody is ready. If it
//! had the turn and the turn is not over, the device waits a fiftieth of a timeslice for it first:
//! commands that cannot be stopped would otherwise take its turn in every pause, however short.

use xsched_core::hint::Priority;
use xsched_core::id::{DeviceId, QueueId};
use xsched_core::policy::{Changed, Decisions, Event, Urgency, Verdict};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::{Duration, Instant};

use crate::ready::{Place, Ready, update};

const HOLD: Verdict = Verdict::Hold(Urgency::NOW);
/// Virtual nanoseconds of a queue of weight 1 in a nanosecond of device time.
const SCALE: u64 = 1 << 10;
/// Turns in a timeslice, at most: switching costs something.
const TURNS_MAX: u64 = 20;
/// The largest weight.
pub(crate) const WEIGHT_MAX: u32 = 1_000_000;
/// How often queues report progress in a timeslice.
const REPORTS: u64 = 20;

/// A device's words beyond those of [`Ready`]: the virtual time that newcomers start at, the weight
/// of all ready queues, and until when the turn's device time is accounted for.
const VIRTUAL: usize = 2;
const WEIGHT: usize = 3;
const ACCOUNTED: usize = 4;
/// Until when the device waits for the queue that has the turn.
const GRACE: usize = 5;
/// Graces in a timeslice.
const GRACES: u64 = 50;

/// Length of a round, unless a hint says otherwise.
pub(crate) const TIMESLICE: Duration = Duration::from_ms(5);

/// The rules of a policy that shares device time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Length of a round.
    pub(crate) timeslice: Duration,
    /// The weight of a queue, 1 to [`WEIGHT_MAX`].
    pub(crate) weight: fn(&QueueInfo) -> u32,
}

impl Share {
    /// How often queues should report.
    pub(crate) const fn progress_every(&self) -> Duration {
        Duration::from_ns(self.timeslice.as_ns() / REPORTS)
    }

    /// Virtual time of this much device time.
    fn virtual_ns(&self, info: &QueueInfo, span: Duration) -> u64 {
        span.as_ns().saturating_mul(SCALE) / u64::from((self.weight)(info).clamp(1, WEIGHT_MAX))
    }

    fn device_time(&self, info: &QueueInfo, virtual_ns: u64) -> Duration {
        let ns = u128::from(virtual_ns) * u128::from((self.weight)(info)) / u128::from(SCALE);
        Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    pub(crate) fn observe(
        &self,
        now: Instant,
        queue: QueueId,
        event: Event,
        queues: &QueueTable<'_>,
    ) {
        let Some(info) = queues.get(queue) else { return };
        let Some(ready) = Ready::on(queues, info.device) else { return };
        match event {
            Event::Progress { busy } => {
                let used = self.virtual_ns(info, busy);
                ready.set_own(queue, ready.own(queue).saturating_add(used));
                if ready.place(queue) == Place::Chosen {
                    update(ready.words(), |words| words[ACCOUNTED] = now.as_ns());
                }
            }
            Event::Detached => Self::leave(queue, &ready),
            _ => {}
        }
    }

    pub(crate) fn decide(
        &self,
        now: Instant,
        changed: Changed<'_>,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        match changed {
            Changed::Some { queues: ids, .. } => {
                for info in ids.iter().filter_map(|&id| queues.get(id)) {
                    self.follow(now, info, queues, out);
                }
            }
            Changed::All => queues.iter().for_each(|info| self.follow(now, info, queues, out)),
        }
        // A turn may be over on any of them: timers do not say whose they are.
        for device in queues.devices() {
            self.turn(now, device, queues, out);
        }
    }

    fn follow(
        &self,
        now: Instant,
        info: &QueueInfo,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let Some(ready) = Ready::on(queues, info.device) else { return };
        let place = ready.place(info.id);
        if info.hints.priority == Priority::NO_EXECUTE {
            Self::leave(info.id, &ready);
            return out.set(info.id, HOLD);
        }
        if !info.ready {
            if place == Place::Chosen && ready.best().is_some() {
                // It may be back at once.
                let until = now + self.grace();
                update(ready.words(), |words| words[GRACE] = until.as_ns());
            } else if place != Place::Parked {
                Self::retire(info.id, &ready, out);
            }
            return;
        }
        if place == Place::Parked {
            ready.remove(info.id);
        }
        let place = ready.place(info.id);
        self.weigh(info, &ready, place);
        if place == Place::Out {
            let earliest = ready.words().get()[VIRTUAL].saturating_sub(2 * self.lead(&ready));
            let start = ready.own(info.id).max(earliest);
            ready.set_own(info.id, start);
            ready.insert(info.id, start);
            out.set(info.id, HOLD);
        } else if place == Place::Waiting && ready.key(info.id) != ready.own(info.id) {
            ready.put_back(info.id, ready.own(info.id));
        }
    }

    /// A queue has nothing to run.
    fn retire(queue: QueueId, ready: &Ready<'_>, out: &mut Decisions<'_>) {
        let before = ready.place(queue);
        Self::leave(queue, ready);
        let contended = ready.chosen_count() > 0 || ready.best().is_some();
        if contended && before != Place::Out {
            // Or its next command would slip in before its turn, and the next, and so on.
            ready.park(queue);
            out.set(queue, HOLD);
        } else {
            out.set(queue, Verdict::Run);
        }
    }

    /// Notes the weight of a ready queue, which may have changed.
    fn weigh(&self, info: &QueueInfo, ready: &Ready<'_>, place: Place) {
        let before = if place == Place::Out { 0 } else { ready.tag(info.id) };
        let weight = (self.weight)(info).clamp(1, WEIGHT_MAX);
        if weight != before || place == Place::Out {
            ready.set_tag(info.id, weight);
            update(ready.words(), |words| {
                words[WEIGHT] = words[WEIGHT] + u64::from(weight) - u64::from(before);
            });
        }
    }

    fn leave(queue: QueueId, ready: &Ready<'_>) {
        if matches!(ready.place(queue), Place::Parked) {
            ready.remove(queue);
        } else if ready.place(queue) != Place::Out {
            let weight = u64::from(ready.tag(queue));
            update(ready.words(), |words| words[WEIGHT] = words[WEIGHT].saturating_sub(weight));
            ready.remove(queue);
        }
    }

    /// Ends the turn of a device if it is time, and begins the next one.
    fn turn(
        &self,
        now: Instant,
        device: DeviceId,
        queues: &QueueTable<'_>,
        out: &mut Decisions<'_>,
    ) {
        let Some(ready) = Ready::on(queues, device) else { return };
        let lead = self.lead(&ready);
        let chosen = ready.chosen().next().and_then(|id| queues.get(id));
        if let (Some(info), Some((_, next))) = (chosen, ready.best()) {
            let used = self.used(now, info, &ready);
            let until = Instant::from_ns(ready.words().get()[GRACE]);
            if used < next.saturating_add(lead) && (info.ready || now < until) {
                let left = self.device_time(info, next.saturating_add(lead) - used);
                let end = now + self.at_least(left);
                return out.wake_at(if info.ready { end } else { end.min(until) });
            }
            if info.ready {
                ready.put_back(info.id, used);
                out.set(info.id, HOLD);
            } else {
                Self::retire(info.id, &ready, out);
            }
        } else if let Some(info) = chosen {
            if info.ready {
                return;
            }
            Self::retire(info.id, &ready, out);
        }
        let Some(id) = ready.choose_best() else {
            while let Some(parked) = ready.release_parked() {
                out.set(parked, Verdict::Run);
            }
            return;
        };
        out.set(id, Verdict::Run);
        let own = ready.own(id);
        update(ready.words(), |words| {
            words[VIRTUAL] = words[VIRTUAL].max(own);
            words[ACCOUNTED] = now.as_ns();
        });
        if let (Some(info), Some((_, next))) = (queues.get(id), ready.best()) {
            let slice = self.device_time(info, next.saturating_add(lead).saturating_sub(own));
            out.wake_at(now + self.at_least(slice));
        }
    }

    /// The virtual time of the queue that has the turn, with what it is taken to have used since
    /// its last report.
    fn used(&self, now: Instant, info: &QueueInfo, ready: &Ready<'_>) -> u64 {
        let accounted = Instant::from_ns(ready.words().get()[ACCOUNTED]);
        ready.own(info.id).saturating_add(self.virtual_ns(info, now.since(accounted)))
    }

    /// How far a queue gets ahead of the next one in its turn, in virtual time.
    fn lead(&self, ready: &Ready<'_>) -> u64 {
        self.timeslice.as_ns().saturating_mul(SCALE) / (2 * ready.words().get()[WEIGHT].max(1))
    }

    /// How long the device waits for a queue whose turn is not over and that has become idle.
    fn grace(&self) -> Duration {
        Duration::from_ns(self.timeslice.as_ns() / GRACES)
    }

    fn at_least(&self, span: Duration) -> Duration {
        span.max(Duration::from_ns(self.timeslice.as_ns() / TURNS_MAX))
    }
}

/// Declares a policy that shares device time: its name, and what weight a queue has.
macro_rules! sharing_policy {
    ($policy:ident, $name:literal, $weight:path) => {
        /// The policy. See the [module](self).
        #[derive(Clone, Copy, Debug)]
        pub struct $policy($crate::share::Share);

        impl $policy {
            /// With rounds of this length.
            #[must_use]
            pub const fn new(timeslice: ::xsched_core::time::Duration) -> Self {
                Self($crate::share::Share { timeslice, weight: $weight })
            }
        }

        impl Default for $policy {
            fn default() -> Self {
                Self::new($crate::share::TIMESLICE)
            }
        }

        impl ::xsched_core::policy::Policy for $policy {
            fn name(&self) -> &'static str {
                $name
            }

            fn progress_every(&self) -> Option<::xsched_core::time::Duration> {
                Some(self.0.progress_every())
            }

            fn configure(&mut self, hint: ::xsched_core::hint::PolicyHint) -> bool {
                let ::xsched_core::hint::PolicyHint::Timeslice(timeslice) = hint else {
                    return false;
                };
                *self = Self::new(timeslice);
                true
            }

            fn observe(
                &mut self,
                now: ::xsched_core::time::Instant,
                queue: ::xsched_core::id::QueueId,
                event: ::xsched_core::policy::Event,
                queues: &::xsched_core::scheduler::QueueTable<'_>,
            ) {
                self.0.observe(now, queue, event, queues);
            }

            fn decide(
                &mut self,
                now: ::xsched_core::time::Instant,
                changed: ::xsched_core::policy::Changed<'_>,
                queues: &::xsched_core::scheduler::QueueTable<'_>,
                out: &mut ::xsched_core::policy::Decisions<'_>,
            ) {
                self.0.decide(now, changed, queues, out);
            }
        }
    };
}

pub(crate) use sharing_policy;
