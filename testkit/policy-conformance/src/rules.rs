//! Rules that hold whenever a policy has decided.

use xsched_core::hint::Priority;
use xsched_core::policy::{MayHold, Policy};
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::Duration;

use crate::{Broken, Check, Declared, require};

/// How long devices and queues have had to wait, as far as a policy is to blame.
#[derive(Debug)]
pub(super) struct Waits {
    declared: Declared,
    /// Per place in the table, whose it is and since when it has been kept from running.
    denied_ns: Vec<Option<(u32, u64)>>,
    /// Per device, since when none of its ready queues may run.
    gap_ns: Vec<Option<u64>>,
    pub(super) longest_wait: Duration,
    pub(super) longest_gap: Duration,
}

impl Waits {
    pub(super) fn new(declared: Declared, slots: usize, devices: usize) -> Self {
        Self {
            declared,
            denied_ns: vec![None; slots],
            gap_ns: vec![None; devices],
            longest_wait: Duration::ZERO,
            longest_gap: Duration::ZERO,
        }
    }

    /// Looks at the table. What it shows has been so since the last decision.
    pub(super) fn look(&mut self, now_ns: u64, table: &QueueTable<'_>) -> Result<(), Broken> {
        let mut served = vec![None; self.gap_ns.len()];
        for index in 0..self.denied_ns.len() {
            let wants = |priority| priority != Priority::NO_EXECUTE;
            let info = table.at(index).filter(|info| info.ready && wants(info.hints.priority));
            let Some(info) = info else {
                self.denied_ns[index] = None;
                continue;
            };
            let any = &mut served[info.device.index()];
            *any = Some(info.running || *any == Some(true));
            self.denied_ns[index] = if info.running {
                None
            } else {
                let generation = info.id.generation();
                let known = self.denied_ns[index].filter(|(known, _)| *known == generation);
                let (_, since_ns) = known.unwrap_or((generation, now_ns));
                self.waits(index, now_ns, Duration::from_ns(now_ns - since_ns))?;
                Some((generation, since_ns))
            };
        }
        for (device, served) in served.into_iter().enumerate() {
            self.device(device, now_ns, served != Some(false))?;
        }
        Ok(())
    }

    fn waits(&mut self, index: usize, now_ns: u64, wait: Duration) -> Result<(), Broken> {
        self.longest_wait = self.longest_wait.max(wait);
        require(self.declared.wait_max.is_none_or(|max| wait <= max), Check::Starvation, || {
            format!(
                "at {now_ns} ns the queue in slot {index} has been ready and kept from running \
                 for {wait}"
            )
        })
    }

    fn device(&mut self, device: usize, now_ns: u64, served: bool) -> Result<(), Broken> {
        if served {
            self.gap_ns[device] = None;
            return Ok(());
        }
        let since_ns = *self.gap_ns[device].get_or_insert(now_ns);
        let gap = Duration::from_ns(now_ns - since_ns);
        self.longest_gap = self.longest_gap.max(gap);
        let allowed = match self.declared.idle_gap {
            None => true,
            // Not even once.
            Some(Duration::ZERO) => false,
            Some(max) => gap <= max,
        };
        require(allowed, Check::Conserving, || {
            format!(
                "at {now_ns} ns device {device} has ready queues, and none of them has been let \
                 run for {gap}"
            )
        })
    }
}

/// A policy that holds queues at all holds those with `NO_EXECUTE`.
pub(super) fn no_execute(policy: &impl Policy, table: &QueueTable<'_>) -> Result<(), Broken> {
    if policy.needs().may_hold == MayHold::Nothing {
        return Ok(());
    }
    let loose =
        table.iter().find(|info| info.running && info.hints.priority == Priority::NO_EXECUTE);
    require(loose.is_none(), Check::NoExecute, || {
        let slot = loose.map_or(0, |info| info.id.index());
        format!("the queue in slot {slot} is let run, and its priority is NO_EXECUTE")
    })
}

/// A policy that may hold nothing lets all run. One that holds queues for those of a higher
/// priority lets each of the highest priority of a device run, ready or not, and one that holds
/// queues for their peers too lets the only one run.
pub(super) fn spared(policy: &impl Policy, table: &QueueTable<'_>) -> Result<(), Broken> {
    let may_hold = policy.needs().may_hold;
    if may_hold == MayHold::Nothing {
        return spared_one(
            table.iter().find(|info| !info.running),
            "the policy says it holds none",
        );
    }
    if may_hold == MayHold::Anything {
        return Ok(());
    }
    for device in table.devices() {
        let all = || table.on_device(device);
        let Some(priority) = all().map(|info| info.hints.priority).max() else { continue };
        let first = || all().filter(|info| info.hints.priority == priority);
        let counts = may_hold == MayHold::Lower || first().nth(1).is_none();
        let held = first().find(|info| !info.running && priority != Priority::NO_EXECUTE);
        spared_one(held.filter(|_| counts), "none that it is held for has a higher priority")?;
    }
    Ok(())
}

fn spared_one(held: Option<&QueueInfo>, why: &str) -> Result<(), Broken> {
    require(held.is_none(), Check::Spared, || {
        let slot = held.map_or(0, |info| info.id.index());
        format!("the queue in slot {slot} is held, and {why}")
    })
}
