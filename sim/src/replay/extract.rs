//! Workload of the applications, without the scheduler's effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use xsched_core::hint::{Hints, PolicyHint};
use xsched_core::id::QueueId;
use xsched_core::level::Level;
use xsched_core::message::Claim;
use xsched_core::record::{Body, DeviceNote, Entry, QueueNote, Source};
use xsched_core::scheduler::LevelChoice;

use super::estimate::{Estimator, Overheads};
use super::stalls;
use super::trace::{Command, Group, Trace};
use super::{Record, ReplayError};
use crate::scenario::{RecordedCommand, RecordedRequest};

/// All times together may be this long: ten years.
const SPAN_MAX_NS: u64 = 10 * 366 * 86_400 * 1_000_000_000;

/// Workload in a record.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The policy that was in charge first.
    pub policy: String,
    /// Hints for the policy, in order.
    pub policy_hints: Vec<PolicyHint>,
    /// Devices that have tasks.
    pub devices: Vec<DeviceNote>,
    /// Queues that have requests.
    pub tasks: Vec<Task>,
    /// Times that belong to the device and the runtime, as far as the record tells.
    pub overheads: Overheads,
    /// Notes about what is not reproduced.
    pub notes: Vec<String>,
}

/// A queue with requests. A request is the commands from the first after one that was waited for,
/// up to the next that was.
#[derive(Clone, Debug)]
pub struct Task {
    /// The program of its process, with a number if several tasks have the same; where the record
    /// has none `queue-0`, and `queue-0.1` for the second queue with that number.
    pub name: String,
    /// Index into [`Workload::devices`].
    pub device: usize,
    /// The process it counts for.
    pub process: u32,
    /// Hints at the beginning.
    pub hints: Hints,
    /// How much of its device it claimed in most of its reports.
    pub claim: Claim,
    /// The level of its holds.
    pub level: Level,
    /// Window and capacity.
    pub window: QueueNote,
    /// First submit, since the first of all.
    pub start_ns: u64,
    /// The end of its last request, since the same.
    pub end_ns: u64,
    /// Requests that were under way at a time, at most.
    pub outstanding: u32,
    /// The requests.
    pub requests: Arc<[RecordedRequest]>,
    /// Commands.
    pub commands: Arc<[RecordedCommand]>,
    /// From the first submit of each request to its end.
    pub latencies_ns: Vec<u64>,
}

impl Workload {
    /// Extracts it.
    ///
    /// # Errors
    /// If there is no request, or the times make no sense.
    pub fn extract(record: &Record<'_>) -> Result<Self, ReplayError> {
        let mut reading = Reading::default();
        for (_, entry) in record.entries() {
            if let Ok(entry) = entry {
                reading.take(&entry);
            }
        }
        reading.finish()
    }
}

#[derive(Default)]
struct Reading {
    policy: Option<String>,
    policy_hints: Vec<PolicyHint>,
    switches: u64,
    devices: BTreeMap<u16, DeviceNote>,
    traces: BTreeMap<QueueId, Trace>,
    estimator: Estimator,
    /// Of a queue: its entries may come before it is known to be attached, from another thread.
    early: BTreeMap<QueueId, Vec<Entry>>,
    unattached: u64,
}

/// Entries of queues whose attachment has not been read yet, for each.
const EARLY_MAX: usize = 1 << 16;

impl Reading {
    fn take(&mut self, entry: &Entry) {
        match entry.body {
            Body::Start(start) => {
                self.estimator.begin(entry.at.as_ns());
                self.policy.get_or_insert_with(|| start.policy.as_str().to_owned());
            }
            Body::Policy(_) => self.switches += 1,
            Body::Device(note) => {
                self.devices.insert(note.device.0, note);
            }
            Body::Attach(attach) => {
                let mut trace = Trace::new(entry.queue, attach);
                for early in self.early.remove(&entry.queue).unwrap_or_default() {
                    trace.take(early.at.as_ns(), &early.body);
                }
                self.traces.entry(entry.queue).or_insert(trace);
            }
            Body::Report(report) => {
                self.estimator.take(entry);
                if let Some(trace) = self.traces.get_mut(&entry.queue) {
                    trace.claims[report.claim as usize] += 1;
                }
            }
            Body::Order(_) => self.estimator.take(entry),
            Body::PolicyHint(hint) if self.switches == 0 => self.policy_hints.push(hint),
            Body::Gap { of: Source::Scheduler, .. } => {
                self.estimator.begin(entry.at.as_ns());
            }
            _ => self.of_queue(entry),
        }
    }

    fn of_queue(&mut self, entry: &Entry) {
        if let Some(trace) = self.traces.get_mut(&entry.queue) {
            trace.take(entry.at.as_ns(), &entry.body);
            return;
        }
        let of_workload = matches!(
            entry.body,
            Body::Submit { .. }
                | Body::Wait { .. }
                | Body::Retired { .. }
                | Body::Queue(_)
                | Body::Program(_)
                | Body::Gap { .. }
        );
        if of_workload {
            let early = self.early.entry(entry.queue).or_default();
            if early.len() < EARLY_MAX {
                early.push(*entry);
            } else {
                self.unattached += 1;
            }
        }
    }

    /// Estimates what is beside the commands, and gives stalls to the commands that stalled.
    fn settle_overheads(&mut self) -> Overheads {
        let groups: Vec<_> = self.traces.values().map(|t| (t, t.complete())).collect();
        let mut overheads = self.estimator.finish(&groups);
        let usual_ns = overheads.usual_ns();
        let mut found = Vec::new();
        for (device, note) in &self.devices {
            if note.units == 1 {
                let on = |trace: &&Trace| trace.attach.device.0 == *device;
                let traces: Vec<_> = self.traces.values().filter(on).collect();
                let stalls = stalls::find(&traces).into_iter();
                found.extend(stalls.map(|(trace, command, ns)| (traces[trace].id, command, ns)));
            }
        }
        for (id, command, ns) in found {
            let beyond_ns = ns.saturating_sub(usual_ns);
            let trace = self.traces.get_mut(&id);
            if let Some(trace) = trace.filter(|_| beyond_ns > 0) {
                let work_ns = &mut trace.commands[command].work_ns;
                *work_ns = work_ns.saturating_add(beyond_ns);
                overheads.stall_ns = overheads.stall_ns.saturating_add(beyond_ns);
                overheads.stalls += 1;
            }
        }
        overheads
    }

    fn finish(mut self) -> Result<Workload, ReplayError> {
        let policy = self.policy.clone().ok_or(ReplayError::Starts { starts: 0 })?;
        let overheads = self.settle_overheads();
        let groups: Vec<_> = self.traces.values().map(|t| (t, t.complete())).collect();
        let groups: Vec<_> = groups.into_iter().filter(|(_, groups)| !groups.is_empty()).collect();
        let submitted = |(trace, groups): &(&Trace, Vec<Group>)| {
            groups.iter().map(|group| trace.commands[group.first].submit_ns).min()
        };
        let start_ns = groups.iter().filter_map(submitted).min();
        let start_ns = start_ns.ok_or(ReplayError::NoRequests)?;
        let devices = self.devices_of(groups.iter().map(|(trace, _)| *trace));
        let mut tasks = Vec::new();
        // Each command may meet all overheads, more than once.
        let each_ns = overheads.usual_ns().saturating_mul(4);
        let (mut span_ns, mut names) = (0u64, Vec::new());
        for (trace, groups) in &groups {
            let device = devices.iter().position(|note| note.device == trace.attach.device);
            let mut task = Task::new(trace, groups, device.unwrap_or(0), start_ns);
            names.push(task.name.clone());
            let named = names.iter().filter(|name| **name == task.name).count();
            if named > 1 {
                task.name = format!("{}-{named}", task.name);
            }
            let beside_ns = each_ns.saturating_mul(task.commands.len() as u64);
            span_ns = span_ns.saturating_add(task.span_ns()).saturating_add(beside_ns);
            tasks.push(task);
        }
        if span_ns > SPAN_MAX_NS {
            return Err(ReplayError::TooLong);
        }
        let notes = self.notes();
        let policy_hints = self.policy_hints;
        Ok(Workload { policy, policy_hints, devices, tasks, overheads, notes })
    }

    /// Notes about the devices that are used; one that the record does not describe has one unit.
    fn devices_of<'a>(&self, traces: impl Iterator<Item = &'a Trace>) -> Vec<DeviceNote> {
        let mut devices = BTreeMap::new();
        for trace in traces {
            let device = trace.attach.device;
            let name = xsched_core::record::Name::new("device");
            let unknown = DeviceNote { device, units: 0, name };
            let note = self.devices.get(&device.0).copied().unwrap_or(unknown);
            devices.insert(device.0, note);
        }
        devices.into_values().collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: u64, text: &str| {
            if count > 0 {
                notes.push(format!("{count} {text}"));
            }
        };
        let sum = |of: fn(&Trace) -> u64| self.traces.values().map(of).fold(0, u64::saturating_add);
        let unfinished = |trace: &Trace| (trace.groups.len() - through(trace)) as u64;
        note(sum(unfinished), "requests were not through when the recording ended; left out");
        note(sum(|t| t.lost), "entries of queues are missing; requests around them are left out");
        note(self.unattached, "entries belong to queues that were never attached; left out");
        note(self.switches, "policy switches are not repeated; the first policy stays");
        note(sum(|t| u64::from(t.rehinted)), "queues changed hints; the first ones stay");
        note(sum(|t| t.waits), "commands waited for other queues; here they do not");
        notes
    }
}

fn through(trace: &Trace) -> usize {
    trace.groups.iter().filter(|group| trace.commands[group.last].seen_ns > 0).count()
}

impl Task {
    fn new(trace: &Trace, groups: &[Group], device: usize, start_ns: u64) -> Self {
        let begin = |group: &Group| trace.commands[group.first].submit_ns;
        let end = |group: &Group| trace.commands[group.last].seen_ns;
        let outstanding = most_outstanding(groups.iter().map(|g| (begin(g), end(g))));
        let first_ns = groups.first().map_or(start_ns, begin);
        let mut requests = Vec::with_capacity(groups.len());
        let mut commands = Vec::new();
        for (n, group) in groups.iter().enumerate() {
            let before = n.checked_sub(outstanding as usize).map_or(first_ns, |n| end(&groups[n]));
            requests.push(RecordedRequest {
                think_ns: begin(group).saturating_sub(before),
                first: commands.len(),
                commands: u32::try_from(group.last + 1 - group.first).unwrap_or(u32::MAX),
            });
            let all = &trace.commands[group.first..=group.last];
            let of = |c: &Command| RecordedCommand { work_ns: c.work_ns, gap_ns: c.gap_ns };
            commands.extend(all.iter().map(of));
            if let Some(last) = commands.last_mut() {
                last.gap_ns = 0;
            }
        }
        let (LevelChoice::Exactly(level) | LevelChoice::UpTo(level)) = trace.attach.level;
        Self {
            name: name(trace),
            device,
            process: trace.attach.process.0,
            hints: trace.attach.hints,
            claim: trace.claim(),
            level,
            window: window(trace),
            start_ns: first_ns.saturating_sub(start_ns),
            end_ns: groups.iter().map(end).max().unwrap_or(0).saturating_sub(start_ns),
            outstanding,
            requests: requests.into(),
            commands: commands.into(),
            latencies_ns: groups.iter().map(|g| end(g).saturating_sub(begin(g))).collect(),
        }
    }

    /// True if it went on until the run ended, as far as one can tell: it ended no longer before
    /// the last task than it took for a request and the pause behind it.
    pub(super) fn stayed(&self, run_end_ns: u64) -> bool {
        let thinks = self.requests.iter().skip(self.outstanding as usize).map(|r| r.think_ns);
        let longest = |times: &mut dyn Iterator<Item = u64>| times.max().unwrap_or(0);
        let think_ns = longest(&mut thinks.into_iter());
        let cycle_ns = think_ns.saturating_add(longest(&mut self.latencies_ns.iter().copied()));
        self.requests.len() > self.outstanding as usize
            && run_end_ns.saturating_sub(self.end_ns) <= cycle_ns
    }

    /// All its times together, at most [`u64::MAX`].
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        let thinks = self.requests.iter().map(|request| request.think_ns);
        let works = self.commands.iter().flat_map(|c| [c.work_ns, c.gap_ns]);
        thinks.chain(works).chain([self.start_ns]).fold(0, u64::saturating_add)
    }
}

fn name(trace: &Trace) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    let plain = |c: char| if is_plain(c) { c } else { '_' };
    let program = trace.program.map(|name| name.as_str().chars().map(plain).collect::<String>());
    program.filter(|name| !name.is_empty()).unwrap_or_else(|| match trace.id.generation() {
        0 | 1 => format!("queue-{}", trace.id.index()),
        n => format!("queue-{}.{n}", trace.id.index()),
    })
}

/// How the queue was set up, brought into range.
fn window(trace: &Trace) -> QueueNote {
    let threshold = trace.attach.threshold;
    let known = QueueNote { threshold, batch: threshold, adaptive: false, capacity: 1_024 };
    let note = trace.note.unwrap_or(known);
    let threshold = note.threshold.clamp(1, 1 << 16);
    // More room than there are commands makes no difference.
    let most = u32::try_from(trace.commands.len()).unwrap_or(u32::MAX).max(1);
    QueueNote {
        threshold,
        batch: note.batch.clamp(1, threshold),
        capacity: note.capacity.clamp(1, most),
        ..note
    }
}

/// How many of these spans overlap, at most.
fn most_outstanding(spans: impl Iterator<Item = (u64, u64)>) -> u32 {
    let mut edges = Vec::new();
    for (begin, end) in spans {
        edges.push((begin, 1i64));
        // One that ends when the next begins does not overlap it.
        edges.push((end.max(begin), -1));
    }
    edges.sort_unstable();
    let (mut now, mut most) = (0, 1);
    for (_, step) in edges {
        now += step;
        most = most.max(now);
    }
    u32::try_from(most).unwrap_or(u32::MAX)
}
