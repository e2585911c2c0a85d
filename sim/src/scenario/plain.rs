//! Specifications to start from where a scenario is built in code.

use xsched_core::cost::Reach;
use xsched_core::message::Claim;

use super::model::{
    Arrival, Concurrency, DeviceSpec, Dist, ProcessSpec, Scenario, SyncScope, TaskSpec, WindowSpec,
};
use super::system::Comparators;

impl Scenario {
    /// A scenario of tasks on devices under `fcfs`, at level 1 and with seed 1, until every task
    /// has finished. Messages of the scheduler take no time.
    #[must_use]
    pub fn plain(name: &str, devices: Vec<DeviceSpec>, tasks: Vec<TaskSpec>) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            seed: 1,
            seeds: 1,
            duration_ns: None,
            warmup_ns: 0,
            policy: "fcfs".to_owned(),
            k: None,
            timeslice_ns: None,
            ageing_ns: None,
            floor_permille: 0,
            comparators: Comparators::default(),
            level: 1,
            scheduler_latency_ns: 0,
            daemon: None,
            devices,
            processes: Vec::new(),
            tasks,
            references: Vec::new(),
            fitted: Vec::new(),
        }
    }
}

impl DeviceSpec {
    /// A device with this name on which only commands take time: streams take turns, each takes
    /// 1,024 entries, and there are all three levels.
    #[must_use]
    pub fn ideal(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            concurrency: Concurrency::RoundRobin,
            launch_latency_ns: 0,
            host_launch_ns: 0,
            host_sync_ns: 0,
            detect_ns: 0,
            fence_ns: 0,
            launch_queue: 1_024,
            max_level: 3,
            gate_ns: 0,
            gate_close_ns: 0,
            gate_spacing_ns: 0,
            save_fixed_ns: 0,
            save_context_ns: 0,
            restore_fixed_ns: 0,
            restore_context_ns: 0,
            grace_ns: 0,
            resume_ns: 0,
            reach: Reach::Queue,
            batches: false,
            wake_ns: [].into(),
            queue_wake_ns: [].into(),
        }
    }
}

impl ProcessSpec {
    /// A process with this name, whose threads share no lock.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            lock: None,
            lock_handoff_ns: 0,
            lock_on_return: false,
            lock_percent: 100,
        }
    }
}

impl TaskSpec {
    /// A task with this name, of no importance, on the first device: requests of 10 commands of
    /// 100 µs one after the other, 16 in flight, and no hints.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            count: 1,
            device: 0,
            process: None,
            start_ns: 0,
            arrival: Arrival::Closed { think: Dist::Constant(0), jitter_ns: 0 },
            requests: None,
            commands: 10,
            command: Dist::Constant(100_000),
            waves: 1,
            urgent_stream: false,
            claim: Claim::Whole,
            outstanding: 1,
            sync: SyncScope::Stream,
            host_launch_ns: None,
            dispatch_ns: 0,
            threshold: 16,
            batch: 8,
            window: WindowSpec::Fixed,
            capacity: 64,
            level: None,
            context: 1.0,
            counted: 1.0,
            priority: 0,
            deadline_ns: None,
            laxity_ns: None,
            critical_priority: 255,
            active_window: false,
            cpu_priority: 0,
            share: None,
            weight: 1,
            after: None,
        }
    }
}
