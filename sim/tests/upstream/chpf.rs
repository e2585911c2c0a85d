//! Highest priority of the processes' threads first, per device. Defects: the numbers of real-time
//! processes, of which lower ones go first, are compared as if higher ones did; a process that
//! cannot be read goes before every ordinary one; hints do not count.

use std::collections::BTreeMap;

use xsched_core::id::ProcessId;
use xsched_core::policy::Decisions;
use xsched_core::scheduler::{QueueInfo, QueueTable};
use xsched_core::time::Instant;

use super::Algorithm;
use super::hpf::highest;

#[derive(Debug, Default)]
pub(crate) struct Chpf {
    /// Text of the kernel's file about the scheduling of each process.
    pub(crate) files: BTreeMap<ProcessId, String>,
}

impl Chpf {
    fn priority(&self, process: ProcessId) -> i16 {
        let text = self.files.get(&process).map_or("", String::as_str);
        let line = text.lines().find(|line| line.contains("prio"));
        let number = line.and_then(|line| line.rsplit(':').next());
        match number.and_then(|number| number.trim().parse().ok()) {
            Some(ordinary @ 100..) => -ordinary,
            Some(real_time) => real_time,
            None => 0,
        }
    }
}

impl Algorithm for Chpf {
    const NAME: &'static str = "chpf";

    fn decide(&mut self, _: Instant, queues: &QueueTable<'_>, out: &mut Decisions<'_>) {
        for device in queues.devices() {
            let members: Vec<_> = queues.on_device(device).collect();
            let priority = |queue: &QueueInfo| self.priority(queue.process);
            highest(members.iter().copied(), out, priority);
        }
    }
}
