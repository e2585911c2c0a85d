//! Any bytes as a record.

use xsched_sim::replay::{PredictOptions, Record, Task, Workload, orders, predict};

/// Workloads up to this size and length are simulated as well.
const COMMANDS_MAX: usize = 200;
const SPAN_MAX_NS: u64 = 10_000_000_000;

/// Bytes as a record: it is refused, or replayed and simulated, without a panic.
pub fn fuzz_record(data: &[u8]) {
    let Ok(record) = Record::parse(data) else { return };
    let _ = orders(&record);
    let Ok(workload) = Workload::extract(&record) else { return };
    let commands: usize = workload.tasks.iter().map(|task| task.commands.len()).sum();
    let span_ns = workload.tasks.iter().map(Task::span_ns).fold(0, u64::saturating_add);
    if commands <= COMMANDS_MAX && span_ns <= SPAN_MAX_NS && workload.tasks.len() <= COMMANDS_MAX {
        let _ = predict(&workload, &PredictOptions::default(), &mut |_| {});
    }
}
