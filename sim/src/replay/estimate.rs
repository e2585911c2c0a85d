//! Overheads of device and runtime, as far as a record tells.
//!
//! Nothing here is fitted to latencies that are to be predicted: these are the times between two
//! entries that nothing else lies between.

use std::collections::BTreeMap;

use serde::Serialize;
use xsched_core::id::QueueId;
use xsched_core::message::{HoldState, Order};
use xsched_core::record::{Body, Entry};

use super::trace::{Group, Trace};

/// Times beside the commands: medians, and a sum, in nanoseconds. 0 for what did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overheads {
    /// Of requests that had the device to themselves: latency less device time and the time
    /// between their submits. Launching and seeing the end.
    pub request_ns: u64,
    /// How many of these there were.
    pub lone_requests: u64,
    /// From a queue becoming ready to the scheduler's round that knows it.
    pub notify_ns: u64,
    /// From an order to hold a queue that has something on the device to its report that it is
    /// held, less [`Overheads::notify_ns`].
    pub hold_ns: u64,
    /// How many of these there were.
    pub holds: u64,
    /// From an order that ends the hold of a queue with something on the device to the start of its
    /// next command, where that had not begun: waking the thread that runs it.
    pub resume_ns: u64,
    /// How many of these there were.
    pub resumes: u64,
    /// Time in which a device with one unit should have run something and did not, beyond what the
    /// others explain, all together. It is added to the commands that should have run.
    pub stall_ns: u64,
    /// How many commands this concerns.
    pub stalls: u64,
}

impl Overheads {
    /// Sum of the overheads that a command meets, each once.
    pub(super) fn usual_ns(&self) -> u64 {
        let all = [self.request_ns, self.notify_ns, self.hold_ns, self.resume_ns];
        all.into_iter().fold(0, u64::saturating_add)
    }
}

/// Collects samples while a record is read.
#[derive(Debug, Default)]
pub(super) struct Estimator {
    queues: BTreeMap<QueueId, Known>,
    notify_ns: Vec<u64>,
    hold_ns: Vec<u64>,
    /// Orders that ended holds: queue, time, and the time of the next order for that queue.
    resumes: Vec<Resume>,
    /// Begin of the record, or of what follows a gap: for how long a queue was ready before is no
    /// wait for the scheduler.
    from_ns: u64,
}

/// The end of a hold of a queue that had something on the device.
#[derive(Clone, Copy, Debug)]
struct Resume {
    queue: QueueId,
    at_ns: u64,
    until_ns: u64,
}

#[derive(Debug, Default)]
struct Known {
    ready_since_ns: u64,
    /// The hold that was ordered last: number and time.
    hold: Option<(u32, u64)>,
    /// True if it is held with work on the device.
    occupied: bool,
    /// The place of the end of its last hold among all.
    resumed: Option<usize>,
}

impl Estimator {
    pub(super) fn take(&mut self, entry: &Entry) {
        let at_ns = entry.at.as_ns();
        let known = self.queues.entry(entry.queue).or_default();
        match entry.body {
            Body::Order(Order::Hold { epoch, .. }) => {
                known.hold = Some((epoch, at_ns));
                if let Some(place) = known.resumed.take() {
                    self.resumes[place].until_ns = at_ns;
                }
            }
            Body::Order(Order::Run { .. }) => {
                known.hold = None;
                if std::mem::take(&mut known.occupied) {
                    known.resumed = Some(self.resumes.len());
                    let queue = entry.queue;
                    self.resumes.push(Resume { queue, at_ns, until_ns: u64::MAX });
                }
            }
            Body::Report(report) => {
                let since_ns = report.ready_since.as_ns();
                let is_new = since_ns > known.ready_since_ns && since_ns >= self.from_ns;
                if is_new && report.pending() {
                    known.ready_since_ns = since_ns;
                    self.notify_ns.push(at_ns.saturating_sub(since_ns));
                }
                let occupied = report.launched > report.retired;
                if let (HoldState::Held(_), Some((epoch, ordered_ns))) = (report.hold, known.hold)
                    && report.epoch == epoch
                {
                    known.hold = None;
                    known.occupied = occupied;
                    if occupied {
                        self.hold_ns.push(at_ns.saturating_sub(ordered_ns));
                    }
                }
            }
            _ => {}
        }
    }

    /// The record begins, or goes on after a gap: what was begun before is not followed any
    /// further.
    pub(super) fn begin(&mut self, at_ns: u64) {
        self.queues.clear();
        self.from_ns = at_ns;
    }

    pub(super) fn finish(&self, traces: &[(&Trace, Vec<Group>)]) -> Overheads {
        let lone = lone_requests(traces);
        let resumes = self.resumes(traces);
        let notify_ns = median(self.notify_ns.clone());
        Overheads {
            lone_requests: lone.len() as u64,
            request_ns: median(lone),
            notify_ns,
            holds: self.hold_ns.len() as u64,
            hold_ns: median(self.hold_ns.clone()).saturating_sub(notify_ns),
            resumes: resumes.len() as u64,
            resume_ns: median(resumes),
            ..Overheads::default()
        }
    }

    /// Of each end of a hold: the time until the next completion, less the device time of what
    /// completed, if nothing else completed on the device meanwhile. A command that had begun
    /// before the hold has device time from then, so what it leaves is less than nothing and does
    /// not count.
    fn resumes(&self, traces: &[(&Trace, Vec<Group>)]) -> Vec<u64> {
        let mut seen = BTreeMap::<u16, Vec<u64>>::new();
        for (trace, _) in traces {
            let of_device = seen.entry(trace.attach.device.0).or_default();
            of_device.extend(trace.commands.iter().map(|command| command.seen_ns));
        }
        seen.values_mut().for_each(|times| times.sort_unstable());
        let rest = |resume: &Resume| {
            let (trace, _) = traces.iter().find(|(trace, _)| trace.id == resume.queue)?;
            let all = &trace.commands;
            let first = all.partition_point(|c| c.seen_ns > 0 && c.seen_ns <= resume.at_ns);
            let seen_ns = all.get(first)?.seen_ns;
            let batch = all[first..].iter().take_while(|command| command.seen_ns == seen_ns);
            let work_ns = batch.fold(0_u64, |sum, command| sum.saturating_add(command.work_ns));
            let device = &seen[&trace.attach.device.0];
            let next = device.partition_point(|ns| *ns <= resume.at_ns);
            let alone = device.get(next) == Some(&seen_ns) && seen_ns < resume.until_ns;
            let known = alone && all[first].submit_ns <= resume.at_ns;
            let took_ns = seen_ns.checked_sub(resume.at_ns).filter(|_| known)?;
            took_ns.checked_sub(work_ns)
        };
        self.resumes.iter().filter_map(rest).collect()
    }
}

/// Of requests that overlapped no other on their device: what of the latency was neither device
/// time nor time between submits.
fn lone_requests(traces: &[(&Trace, Vec<Group>)]) -> Vec<u64> {
    let mut devices = BTreeMap::<u16, Vec<(u64, u64, u64)>>::new();
    for (trace, groups) in traces {
        let spans = devices.entry(trace.attach.device.0).or_default();
        for group in groups {
            let commands = &trace.commands[group.first..=group.last];
            let (Some(first), Some(last)) = (commands.first(), commands.last()) else { continue };
            let (begin, end) = (first.submit_ns, last.seen_ns);
            // Submits that are later than the device work before them hold the request up.
            let mut done = begin;
            for command in commands {
                done = done.max(command.submit_ns).saturating_add(command.work_ns);
            }
            spans.push((begin, end, end.saturating_sub(done)));
        }
    }
    devices.into_values().flat_map(alone).collect()
}

fn alone(mut spans: Vec<(u64, u64, u64)>) -> Vec<u64> {
    spans.sort_unstable();
    let mut found = Vec::new();
    let mut busy_until = 0;
    for (at, &(begin, end, rest)) in spans.iter().enumerate() {
        let next = spans.get(at + 1).map_or(u64::MAX, |next| next.0);
        if begin >= busy_until && end <= next {
            found.push(rest);
        }
        busy_until = busy_until.max(end);
    }
    found
}

fn median(mut samples: Vec<u64>) -> u64 {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or(0)
}
