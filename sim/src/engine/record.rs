//! Writing a record of a simulated run.

use xsched_core::id::{CmdId, DeviceId, QueueId};
use xsched_core::record::{Body, DeviceNote, Entry, Header, Name, QueueNote, Tape};
use xsched_core::time::{Duration, Instant};

use super::Engine;
use crate::scenario::{Concurrency, TaskSpec, WindowSpec};

impl Engine<'_> {
    /// Something that a queue does.
    pub(super) fn record(&mut self, task: usize, body: Body) {
        let at = self.now();
        if let Some(tape) = self.scheduler.tape() {
            tape.put(&Entry { at, queue: self.queues[task].id, body });
        }
    }

    pub(super) fn record_queue(&mut self, spec: &TaskSpec, queue: QueueId) {
        let device = DeviceId(u16::try_from(spec.device).unwrap_or(u16::MAX));
        let at = self.now();
        let Some(tape) = self.scheduler.tape() else { return };
        let model = &self.scenario.devices[spec.device];
        let units = match model.concurrency {
            Concurrency::RoundRobin | Concurrency::Exclusive => 1,
            Concurrency::Units { units } => units,
            Concurrency::ProcessorSharing { .. } => 0,
        };
        let device = DeviceNote { device, units, name: Name::new(&model.name) };
        tape.put(&Entry { at, queue, body: Body::Device(device) });
        let window = QueueNote {
            threshold: spec.threshold,
            batch: spec.batch,
            adaptive: spec.window == WindowSpec::Adaptive,
            capacity: spec.capacity,
        };
        tape.put(&Entry { at, queue, body: Body::Queue(window) });
    }

    pub(super) fn record_retired(&mut self, queue: usize, before: u64, busy: Duration) {
        let retired = self.queues[queue].machine.retired();
        if retired > before {
            self.record(queue, Body::Retired { upto: CmdId(retired - 1), busy });
        }
    }

    /// The record, if one was asked for.
    pub(super) fn end_record(&mut self, end_ns: u64) -> Option<Vec<u8>> {
        let written = self.scheduler.stop()?;
        let mut record = Header::encode().to_vec();
        record.extend_from_slice(&written);
        let entries = count(&written);
        let (at, queue) = (Instant::from_ns(end_ns), QueueId::new(0, 0));
        record.put(&Entry { at, queue, body: Body::End { entries } });
        Some(record)
    }
}

fn count(mut written: &[u8]) -> u64 {
    let mut entries = 0;
    while let Ok((_, length)) = Entry::decode(written) {
        entries += 1;
        written = &written[length..];
    }
    entries
}
