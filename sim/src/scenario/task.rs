//! Tasks: each alone, then all of them together.

use std::collections::HashMap;
use std::ops::Range;

use toml::Spanned;
use xsched_core::message::Claim;

use super::arrival::Traces;
use super::dist::Zero;
use super::expand::copy_name;
use super::model::{Arrival, SyncScope, TaskSpec, WindowSpec};
use super::names::Names;
use super::raw::{Field, RawTask};
use super::source::{Result, Source, span_of};
use super::{MAX_CAPACITY, MAX_COMMANDS, MAX_TASKS, MAX_TOTAL_COMMANDS};

/// Most requests of one task.
const MAX_REQUESTS: i128 = 1_000_000_000;
/// Most waves of a command.
const MAX_WAVES: i128 = 65_536;
const DEFAULT_THRESHOLD: u32 = 16;
const DEFAULT_CAPACITY: u32 = 1_024;

/// Names that tasks can refer to.
pub(super) struct Known<'a> {
    pub(super) devices: Names<'a>,
    pub(super) processes: Names<'a>,
}

/// How much of a task's work may wait, and where.
struct Window {
    threshold: u32,
    batch: u32,
    window: WindowSpec,
    capacity: u32,
}

impl Source<'_> {
    /// All tasks.
    pub(super) fn tasks(
        &self,
        raw: &[Spanned<RawTask>],
        known: &Known<'_>,
        traces: &mut Traces<'_>,
    ) -> Result<Vec<TaskSpec>> {
        let mut tasks = Vec::with_capacity(raw.len());
        for raw in raw {
            tasks.push(self.task(raw, known, traces)?);
        }
        self.task_totals(raw, &tasks)?;
        self.task_names(raw, &tasks)?;
        let after = self.after(raw, &tasks)?;
        self.no_cycle(raw, &tasks, &after)?;
        for (task, after) in tasks.iter_mut().zip(after) {
            task.after = after;
        }
        Ok(tasks)
    }

    /// One task; `after` needs all of them and is filled in later.
    fn task(
        &self,
        raw: &Spanned<RawTask>,
        known: &Known<'_>,
        traces: &mut Traces<'_>,
    ) -> Result<TaskSpec> {
        let table = raw.span();
        let raw = raw.get_ref();
        let name = self.required(&table, "name", self.name(&raw.name)?)?;
        let arrival = self.required(&table, "arrival", raw.arrival.as_ref())?;
        let command = self.required(&table, "command", raw.command.as_ref())?;
        let Window { threshold, batch, window, capacity } = self.window(&table, raw)?;
        let arrival = self.arrival(arrival, traces)?;
        Ok(TaskSpec {
            name,
            count: self.integer(&raw.count, 1..=MAX_TASKS as i128)?.unwrap_or(1),
            device: self.task_device(&table, raw, known)?,
            process: raw.process.as_ref().map(|p| self.find(p, &known.processes)).transpose()?,
            start_ns: self.time(&raw.start)?.unwrap_or(0),
            requests: self.requests(&table, raw, &arrival)?,
            arrival,
            commands: self.integer(&raw.commands, 1..=i128::from(MAX_COMMANDS))?.unwrap_or(1),
            command: self.dist(command, Zero::Refused)?,
            waves: self.integer(&raw.waves, 1..=MAX_WAVES)?.unwrap_or(1),
            urgent_stream: raw.urgent_stream.as_ref().is_some_and(|urgent| *urgent.get_ref()),
            claim: self.claim(raw)?,
            outstanding: self.integer(&raw.outstanding, 1..=1024)?.unwrap_or(1),
            sync: self.sync(raw)?,
            host_launch_ns: self.time(&raw.host_launch)?,
            dispatch_ns: self.time(&raw.dispatch)?.unwrap_or(0),
            threshold,
            batch,
            window,
            capacity,
            level: self.integer(&raw.level, 1..=3)?,
            context: self.number(&raw.context, 0.0..=1.0)?.unwrap_or(1.0),
            counted: self.number(&raw.counted, 0.0..=10.0)?.unwrap_or(1.0),
            priority: self.integer(&raw.priority, -256..=255)?.unwrap_or(0),
            deadline_ns: self.positive_time(&raw.deadline)?,
            laxity_ns: self.time(&raw.laxity)?,
            critical_priority: self.integer(&raw.critical_priority, -256..=255)?.unwrap_or(255),
            active_window: raw.active_window.as_ref().is_some_and(|active| *active.get_ref()),
            cpu_priority: self.integer(&raw.cpu_priority, -20..=200)?.unwrap_or(0),
            share: self.integer(&raw.share, 0..=100)?,
            weight: self.integer(&raw.weight, 1..=1_000_000)?.unwrap_or(1),
            after: None,
        })
    }

    fn task_device(&self, table: &Range<usize>, raw: &RawTask, known: &Known<'_>) -> Result<usize> {
        match &raw.device {
            Some(name) => self.find(name, &known.devices),
            None if known.devices.len() == 1 => Ok(0),
            None => {
                let list = known.devices.known();
                let message = format!("missing, and there are several devices; {list}");
                Err(self.error_in(table, "device", message))
            }
        }
    }

    fn claim(&self, raw: &RawTask) -> Result<Claim> {
        let choices = [("whole", Claim::Whole), ("part", Claim::Part), ("little", Claim::Little)];
        Ok(self.choice(&raw.claim, &choices)?.unwrap_or_default())
    }

    fn sync(&self, raw: &RawTask) -> Result<SyncScope> {
        let choices = [("stream", SyncScope::Stream), ("device", SyncScope::Device)];
        Ok(self.choice(&raw.sync, &choices)?.unwrap_or(SyncScope::Stream))
    }

    fn requests(
        &self,
        table: &Range<usize>,
        raw: &RawTask,
        arrival: &Arrival,
    ) -> Result<Option<u64>> {
        let requests = self.integer(&raw.requests, 1..=MAX_REQUESTS)?;
        if let (Arrival::Trace { rows }, Some(wanted)) = (arrival, requests)
            && wanted > rows.len() as u64
        {
            let rows = rows.len();
            let message = format!("must be at most the {rows} rows of the trace, is {wanted}");
            return Err(self.error_of(table, "requests", span_of(&raw.requests), message));
        }
        Ok(requests)
    }

    fn window(&self, table: &Range<usize>, raw: &RawTask) -> Result<Window> {
        let choices = [("fixed", WindowSpec::Fixed), ("adaptive", WindowSpec::Adaptive)];
        let window = self.choice(&raw.window, &choices)?.unwrap_or(WindowSpec::Fixed);
        let threshold = self.integer(&raw.threshold, 1..=65_536)?.unwrap_or(DEFAULT_THRESHOLD);
        let batch = self.integer(&raw.batch, 1..=65_536)?.unwrap_or((threshold / 2).max(1));
        if batch > threshold {
            let message = format!("must be at most the threshold of {threshold}, is {batch}");
            return Err(self.error_of(table, "batch", span_of(&raw.batch), message));
        }
        let capacity = self
            .integer(&raw.capacity, 1..=1_048_576)?
            .unwrap_or_else(|| DEFAULT_CAPACITY.max(threshold));
        if capacity < threshold {
            let message = format!("must be at least the threshold of {threshold}, is {capacity}");
            return Err(self.error_of(table, "capacity", span_of(&raw.capacity), message));
        }
        Ok(Window { threshold, batch, window, capacity })
    }

    /// Bounds what the tasks ask for together, so that no scenario can exhaust the memory or run
    /// for years.
    fn task_totals(&self, raw: &[Spanned<RawTask>], tasks: &[TaskSpec]) -> Result<()> {
        let mut copies = 0_u128;
        let mut capacity = 0_u128;
        let mut commands = 0_u128;
        for (raw, task) in raw.iter().zip(tasks) {
            let (table, raw) = (raw.span(), raw.get_ref());
            let count = u128::from(task.count);
            copies += count;
            capacity += count * u128::from(task.capacity);
            commands += count * u128::from(task.commands) * u128::from(task.requests.unwrap_or(0));
            let error = |key, field, what, total, max| {
                let message = format!("up to here {total} {what} in total; at most {max} allowed");
                Err(self.error_of(&table, key, span_of(field), message))
            };
            if copies > MAX_TASKS as u128 {
                return error("count", &raw.count, "tasks", copies, MAX_TASKS as u128);
            }
            if capacity > MAX_CAPACITY {
                let what = "entries of capacity";
                return error("capacity", &raw.capacity, what, capacity, MAX_CAPACITY);
            }
            if commands > MAX_TOTAL_COMMANDS {
                return error("requests", &raw.requests, "commands", commands, MAX_TOTAL_COMMANDS);
            }
        }
        Ok(())
    }

    /// Names are unique, also after `count` has been applied.
    fn task_names(&self, raw: &[Spanned<RawTask>], tasks: &[TaskSpec]) -> Result<()> {
        self.unique_names(raw.iter().map(|task| &task.get_ref().name))?;
        let mut owners: HashMap<String, usize> = HashMap::new();
        for (index, (raw, task)) in raw.iter().zip(tasks).enumerate() {
            for copy in 0..task.count {
                let name = copy_name(&task.name, task.count, copy);
                if let Some(other) = owners.insert(name.clone(), index) {
                    let message = format!("a copy is called {name:?}, as is one of task[{other}]");
                    let span = span_of(&raw.get_ref().name);
                    return Err(self.error_of(&raw.span(), "name", span, message));
                }
            }
        }
        Ok(())
    }

    /// Names in a list of tables that are all different.
    pub(super) fn unique_names<'n>(
        &self,
        names: impl Iterator<Item = &'n Field<String>>,
    ) -> Result<()> {
        let mut seen = HashMap::new();
        for name in names.flatten() {
            if let Some(first) = seen.insert(name.get_ref(), name.span()) {
                let line = self.line(&first);
                let message = format!("duplicate name {:?}, first on line {line}", name.get_ref());
                return Err(self.error(name.span(), message));
            }
        }
        Ok(())
    }

    /// The index of the task that each task waits for.
    fn after(&self, raw: &[Spanned<RawTask>], tasks: &[TaskSpec]) -> Result<Vec<Option<usize>>> {
        let names = Names::new("task", tasks.iter().map(|task| task.name.as_str()));
        let find = |raw: &Spanned<RawTask>| {
            raw.get_ref().after.as_ref().map(|after| self.find(after, &names)).transpose()
        };
        raw.iter().map(find).collect()
    }

    /// Follows `after` from every task. Each task has at most one, so a walk that comes back to a
    /// task of its own has found a cycle, and one that meets an earlier walk has not.
    fn no_cycle(
        &self,
        raw: &[Spanned<RawTask>],
        tasks: &[TaskSpec],
        after: &[Option<usize>],
    ) -> Result<()> {
        let next = |task: usize| after.get(task).copied().flatten();
        let mut walk_of: Vec<Option<usize>> = vec![None; after.len()];
        for start in 0..after.len() {
            let mut at = Some(start);
            while let Some(task) = at {
                match walk_of.get_mut(task) {
                    Some(walk) if walk.is_none() => *walk = Some(start),
                    Some(walk) if *walk == Some(start) => {
                        let names = cycle(task, next).filter_map(|task| tasks.get(task));
                        let names: Vec<_> = names.map(|task| task.name.as_str()).collect();
                        let message = format!("waits for itself: {}", names.join(" after "));
                        let span = raw.get(task).and_then(|raw| span_of(&raw.get_ref().after));
                        return Err(self.error(span.unwrap_or_default(), message));
                    }
                    _ => break,
                }
                at = next(task);
            }
        }
        Ok(())
    }
}

/// The tasks of a cycle, with the first one at the end again.
fn cycle(start: usize, next: impl Fn(usize) -> Option<usize>) -> impl Iterator<Item = usize> {
    let mut at = Some(start);
    let rest = std::iter::from_fn(move || {
        at = at.and_then(&next).filter(|task| *task != start);
        at
    });
    std::iter::once(start).chain(rest).chain(std::iter::once(start))
}
