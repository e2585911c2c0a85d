//! Runs that must go alike.

use xsched_core::hint::{HintKinds, Hints};
use xsched_core::policy::Policy;

use crate::queues::extreme_hints;
use crate::rig::{DEVICES, Ordered, Plan, Rig};
use crate::{Broken, Check, Declared, Scans, require};
use xsched_sim::sample::generator;

/// Lengths of the runs that are compared.
const ORDERS_MS: u64 = 300;
const WORK_MS: u64 = 200;
const SHARES_MS: u64 = 800;
/// Idle queues per device for [`Twins::with_bystanders`].
const BYSTANDERS: usize = 250;
/// How far two shares may be apart: a tenth, and as much time as a few rounds take. Policies may
/// decide about all devices when the timer of one fires.
const APART: u64 = 10;
const SLACK_NS: u64 = 60_000_000;

/// A policy, what it promises, and what befalls it.
pub(super) struct Twins<'a, F> {
    pub(super) make: &'a F,
    pub(super) declared: &'a Declared,
    pub(super) plan: Plan,
}

impl<P: Policy, F: Fn() -> P> Twins<'_, F> {
    fn ran(&self, plan: Plan) -> Result<Rig<P>, Broken> {
        let mut rig = Rig::new((self.make)(), *self.declared, plan);
        rig.run()?;
        Ok(rig)
    }

    /// Equal seeds give equal orders.
    pub(super) fn repeated(&self) -> Result<(), Broken> {
        let plan = self.plan.of_a_twin(ORDERS_MS);
        let (first, second) = (self.ran(plan)?, self.ran(plan)?);
        same_orders(&first.orders, &second.orders, Check::Deterministic, "in a second run")
    }

    /// Asking thrice gives the same orders as asking once.
    pub(super) fn asked_again(&self) -> Result<(), Broken> {
        let plan = self.plan.of_a_twin(ORDERS_MS);
        let once = self.ran(plan)?;
        let thrice = self.ran(Plan { again: true, ..plan })?;
        let what = "if it is asked more often than something changes";
        same_orders(&once.orders, &thrice.orders, Check::Idempotent, what)
    }

    /// Hints that the policy does not name change no order.
    pub(super) fn without_other_hints(&self) -> Result<(), Broken> {
        let plan = self.plan.of_a_twin(ORDERS_MS);
        let all = self.ran(plan)?;
        let named = self.ran(Plan { hints: (self.make)().needs().hints, ..plan })?;
        let when = "without hints that `Needs::hints` does not name";
        same_orders(&all.orders, &named.orders, Check::Hints, when)
    }

    /// Kinds of hints without which orders are others.
    pub(super) fn noticed(&self) -> Result<HintKinds, Broken> {
        let plan = self.plan.of_a_twin(ORDERS_MS);
        let all = self.ran(plan)?;
        let mut noticed = HintKinds::NONE;
        for kind in HintKinds::ALL.iter().map(|kind| HintKinds::of(&[kind])) {
            let hints = HintKinds::ALL.without(kind);
            if self.ran(Plan { hints, ..plan })?.orders != all.orders {
                noticed = noticed.with(kind);
            }
        }
        Ok(noticed)
    }

    /// Idle queues make no work.
    pub(super) fn with_bystanders(&self) -> Result<(), Broken> {
        let per_second = match self.declared.scans {
            Scans::Never => 0,
            Scans::PerSecond(scans) => u64::from(scans),
            Scans::Always => return Ok(()),
        };
        let plan = self.plan.of_a_twin(WORK_MS);
        let alone = self.ran(plan)?.counters;
        let among = self.ran(Plan { bystanders: BYSTANDERS, ..plan })?.counters;
        // One more than the rate says, for where the first one falls.
        let scans = if per_second == 0 { 0 } else { per_second * WORK_MS / 1_000 + 1 };
        let scanned = scans * (DEVICES * (BYSTANDERS + plan.queues)) as u64;
        let most = 2 * (alone.looked_at + alone.verdicts) + 4 * alone.decisions + 2 * scanned;
        let work = among.looked_at + among.verdicts;
        require(work <= most, Check::DecisionCost, || {
            format!(
                "with {} idle queues it looks at {} and sets {} verdicts in {} decisions; without \
                 them {}, {} and {}",
                DEVICES * BYSTANDERS,
                among.looked_at,
                among.verdicts,
                among.decisions,
                alone.looked_at,
                alone.verdicts,
                alone.decisions
            )
        })
    }

    /// Queues of the first device run as long when the other one has nothing to do.
    pub(super) fn with_a_quiet_neighbour(&self) -> Result<(), Broken> {
        let plan = Plan { churn: false, ..self.plan.of_a_twin(SHARES_MS) };
        let loud = self.ran(plan)?;
        let quiet = self.ran(Plan { quiet_neighbour: true, ..plan })?;
        for queue in quiet.queues.iter().filter(|queue| queue.device == 0) {
            let number = queue.number;
            let (with, without) = (loud.ran_ns[number], quiet.ran_ns[number]);
            require(are_close(with, without), Check::Independent, || {
                format!(
                    "in 800 ms queue {number} of device 0 may run for {} µs, and for {} µs when device \
                     1 has nothing to do",
                    with / 1_000,
                    without / 1_000
                )
            })?;
        }
        Ok(())
    }
}

fn same_orders(
    first: &[Ordered],
    second: &[Ordered],
    check: Check,
    when: &str,
) -> Result<(), Broken> {
    if first == second {
        return Ok(());
    }
    let at = first.iter().zip(second).position(|(a, b)| a != b);
    let at = at.unwrap_or(first.len().min(second.len()));
    let words = |orders: &[Ordered]| match orders.get(at) {
        Some((ns, queue, true)) => format!("at {ns} ns queue {queue} runs"),
        Some((ns, queue, false)) => format!("at {ns} ns queue {queue} holds"),
        None => "there is none".to_owned(),
    };
    let (before, now) = (words(first), words(second));
    Err(Broken { check, what: format!("order {at} is otherwise {when}: {before}; then {now}") })
}

fn are_close(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= a.max(b) / APART + SLACK_NS
}

/// Two queues without hints share a device alike in fresh slots and in slots with a past.
pub(super) fn in_used_slots<P: Policy>(
    make: &impl Fn() -> P,
    declared: &Declared,
    seed: u64,
) -> Result<(), Broken> {
    let fresh = two_queues(make(), declared, seed, false)?;
    let used = two_queues(make(), declared, seed, true)?;
    for (queue, (fresh, used)) in fresh.into_iter().zip(used).enumerate() {
        require(are_close(fresh, used), Check::Reuse, || {
            format!(
                "in 800 ms a queue may run for {} µs in a fresh slot (queue {queue} of two), and \
                 for {} µs in one that a queue with other hints has left",
                fresh / 1_000,
                used / 1_000
            )
        })?;
    }
    Ok(())
}

/// For how long each of two like queues may run.
fn two_queues<P: Policy>(
    policy: P,
    declared: &Declared,
    seed: u64,
    used: bool,
) -> Result<[u64; 2], Broken> {
    const PAST_NS: u64 = 50_000_000;
    let plan = Plan { churn: false, queues: 2, ..Plan::new(seed).of_a_twin(0) };
    // The past is not what is judged here.
    let lenient = Declared { idle_gap: None, wait_max: None, ..*declared };
    let mut rig = Rig::new(policy, lenient, plan);
    if used {
        let mut rng = generator(seed, 1 << 40);
        for from_ns in [0, 10_000] {
            let queue = rig.attach(0, extreme_hints(&mut rng))?;
            rig.queues.push(queue.regular(from_ns, generator(seed, from_ns)));
            rig.settle()?;
        }
        rig.run_until(PAST_NS)?;
        // The last slot to become free is the first to be used again.
        for queue in std::mem::take(&mut rig.queues).into_iter().rev() {
            rig.detach(queue.id)?;
            rig.settle()?;
        }
    }
    rig.run_until(2 * PAST_NS)?;
    let mut numbers = Vec::new();
    for delay_ns in [0, 10_000] {
        let queue = rig.attach(0, Hints::default())?;
        numbers.push(queue.number);
        rig.queues.push(queue.regular(2 * PAST_NS + delay_ns, generator(seed, delay_ns)));
        rig.settle()?;
    }
    rig.run_until(2 * PAST_NS + SHARES_MS * 1_000_000)?;
    Ok([rig.ran_ns[numbers[0]], rig.ran_ns[numbers[1]]])
}
