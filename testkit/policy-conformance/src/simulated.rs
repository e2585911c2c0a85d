//! Starvation and idle devices in the simulator, where holds take time, device time is known late,
//! and messages have a latency.

use std::fmt::Write;
use std::path::Path;

use rand::RngExt;
use xsched_core::policy::Policy;
use xsched_core::scheduler::QueueTable;
use xsched_core::time::{Duration, Instant};

use crate::below;
use crate::rules::Waits;
use crate::watch::Watched;
use crate::{Broken, Check, Declared, Report};
use xsched_sim::run::{RunOptions, run_with};
use xsched_sim::sample::{Rng, generator};
use xsched_sim::scenario::Scenario;

/// Generators of other purposes have lower numbers.
const STREAM: u64 = 1 << 41;
const DEVICES: usize = 2;
const TASKS_MAX: usize = 8;

/// Runs a random scenario under the policy.
pub(super) fn run<P: Policy>(
    policy: P,
    declared: &Declared,
    seed: u64,
    report: &mut Report,
) -> Result<(), Broken> {
    // What becomes ready waits for a decision, which comes at the same time.
    let gap = declared.idle_gap.map(|gap| gap.max(Duration::from_ns(1)));
    let mut waits = Waits::new(Declared { idle_gap: gap, ..*declared }, TASKS_MAX, DEVICES);
    let mut broken = None;
    let text = scenario(seed);
    let mine = |what: String| Broken { check: Check::Rig, what };
    let scenario = Scenario::parse(&text, Path::new("conformance.toml"));
    let scenario = scenario.map_err(|error| mine(format!("the drawn scenario: {error}")))?;
    let look = |now: Instant, queues: &QueueTable<'_>| {
        if broken.is_none() {
            broken = waits.look(now.as_ns(), queues).err();
        }
    };
    let watched = Watched::new(policy, false, look);
    let ran = run_with(&scenario, watched, &RunOptions::default(), &mut |_| {});
    ran.map_err(|error| mine(format!("the drawn scenario cannot be run: {error}")))?;
    report.longest_wait = report.longest_wait.max(waits.longest_wait);
    report.longest_gap = report.longest_gap.max(waits.longest_gap);
    broken.map_or(Ok(()), |Broken { check, what }| {
        Err(Broken { check, what: format!("{what}, in the simulator") })
    })
}

fn scenario(seed: u64) -> String {
    let rng = &mut generator(seed, STREAM);
    let level = rng.random_range(1..=3);
    let latency = pick(&[0, 2, 20], rng);
    let mut text = format!(
        "version = 1\nname = \"conformance\"\npolicy = \"fcfs\"\nlevel = {level}\n\
         duration_ms = 1200\nscheduler_latency_us = {latency}\nseed = {}\n",
        seed & 0xffff
    );
    for device in 0..DEVICES {
        // Writing to a string cannot fail.
        let _ = write!(text, "[[device]]\nname = \"d{device}\"\nmax_level = 3\n");
    }
    for task in 0..rng.random_range(2..=TASKS_MAX) {
        let _ = write!(
            text,
            "[[task]]\nname = \"t{task}\"\ndevice = \"d{}\"\npriority = {}\nweight = {}\n\
             share = {}\narrival = {{ kind = \"closed\", think_us = {} }}\n\
             command = {{ kind = \"constant\", us = {} }}\ncommands = {}\nthreshold = {}\n",
            below(DEVICES, rng),
            rng.random_range(-2..=2),
            rng.random_range(1..=10),
            pick(&[5, 10, 30, 50], rng),
            pick(&[0, 20, 500, 10_000], rng),
            pick(&[50, 300, 2_000], rng),
            pick(&[1, 10, 100], rng),
            pick(&[1, 4, 16], rng),
        );
    }
    text
}

fn pick(values: &[u32], rng: &mut Rng) -> u32 {
    values[below(values.len(), rng)]
}
