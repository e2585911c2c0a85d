//! `[daemon]`, and what it asks of tasks.

use std::collections::HashMap;

use super::dist::Zero;
use super::model::{DaemonSpec, TaskSpec};
use super::raw::{Field, Integer, RawScenario};
use super::source::{Result, Source, span_of};

/// The level of the daemon's holds.
pub(crate) const DAEMON_LEVEL: u8 = 2;

impl Source<'_> {
    /// The daemon, if processes are scheduled by one.
    pub(super) fn daemon(
        &self,
        raw: &RawScenario,
        tasks: &[TaskSpec],
    ) -> Result<Option<DaemonSpec>> {
        let Some(daemon) = &raw.daemon else { return Ok(None) };
        self.unused(span_of(&raw.system), "without [daemon], which has the policy run")?;
        self.unit_hints(raw, tasks)?;
        self.waits_in_units(raw, tasks)?;
        for task in &raw.task.0 {
            self.level(&task.get_ref().level, true)?;
        }
        let daemon = daemon.get_ref();
        let wake = daemon.wake.as_ref().map(|wake| self.dist(wake, Zero::Allowed)).transpose()?;
        let usual = DaemonSpec::default();
        Ok(Some(DaemonSpec {
            wake: wake.unwrap_or(usual.wake),
            decide_ns: self.time(&daemon.decide)?.unwrap_or(usual.decide_ns),
            spin_ns: self.time(&daemon.spin)?.unwrap_or(usual.spin_ns),
            idle_ns: self.time(&daemon.idle)?.unwrap_or(usual.idle_ns),
        }))
    }

    /// A preemption level. Under a daemon there is one.
    pub(super) fn level(&self, field: &Field<Integer>, daemon: bool) -> Result<u8> {
        if !daemon {
            return Ok(self.integer(field, 1..=3)?.unwrap_or(1));
        }
        let only = i128::from(DAEMON_LEVEL);
        Ok(self.integer(field, only..=only)?.unwrap_or(DAEMON_LEVEL))
    }

    /// The queues of a process on a device have the hints of the process.
    fn unit_hints(&self, raw: &RawScenario, tasks: &[TaskSpec]) -> Result<()> {
        let mut first = HashMap::new();
        for (task, raw) in tasks.iter().zip(&raw.task.0) {
            let Some(process) = task.process else { continue };
            let other = *first.entry((process, task.device)).or_insert(task);
            if other.hints() != task.hints() {
                let name = &other.name;
                let message = format!(
                    "its priority, share and other hints must be those of task {name:?}: with \
                     [daemon] they are of the process"
                );
                return Err(self.error(raw.span(), message));
            }
        }
        Ok(())
    }

    /// The daemon knows nothing of waits, so that one for another process could last for ever.
    fn waits_in_units(&self, raw: &RawScenario, tasks: &[TaskSpec]) -> Result<()> {
        for (task, raw) in tasks.iter().zip(&raw.task.0) {
            let awaited = task.after.and_then(|after| tasks.get(after));
            let is_own = |other: &TaskSpec| {
                task.process.is_some()
                    && (task.process, task.device) == (other.process, other.device)
            };
            if awaited.is_some_and(|other| !is_own(other)) {
                let span = span_of(&raw.get_ref().after).unwrap_or_else(|| raw.span());
                let message = "with [daemon], must be a task of the same `process` and device";
                return Err(self.error(span, message));
            }
        }
        Ok(())
    }
}
