//! The machines of the core against their models, under random bytes and under those kept in
//! `fuzz/corpus`, and the proof that the comparison compares.

use std::collections::BTreeMap;

use proptest::prelude::*;
use xsched_core::rng::SplitMix64;
use xsched_fuzz_targets::corpus;
use xsched_fuzz_targets::machines::{
    Counters, Difference, QueueMutant, SchedulerMutant, queue_machine, run_queue, run_scheduler,
    scheduler_machine,
};

/// Random inputs for each mutant and for the tallies.
const INPUTS: u64 = 300;

/// Returns a configuration of 1,000 cases unless `PROPTEST_CASES` says otherwise.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 1_000;
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_queue_does_what_the_model_does(bytes in proptest::collection::vec(any::<u8>(), 0..900)) {
        queue_machine(&bytes);
    }

    #[test]
    fn a_scheduler_does_what_the_model_does(
        bytes in proptest::collection::vec(any::<u8>(), 0..900),
    ) {
        scheduler_machine(&bytes);
    }
}

fn inputs() -> impl Iterator<Item = Vec<u8>> {
    (0..INPUTS).map(|seed| {
        let mut rng = SplitMix64::new(seed);
        (0..rng.below(900)).map(|_| rng.next_u64() as u8).collect()
    })
}

/// How many inputs show the defect.
fn caught(run: impl Fn(&[u8]) -> Result<Counters, Difference>) -> usize {
    inputs().filter(|bytes| run(bytes).is_err()).count()
}

#[test]
fn every_defect_of_a_queue_is_noticed() {
    for &mutant in QueueMutant::ALL {
        let caught = caught(|bytes| run_queue(bytes, mutant));
        assert!(caught >= 5, "{mutant:?} was noticed {caught} times in {INPUTS}");
    }
    assert_eq!(caught(|bytes| run_queue(bytes, QueueMutant::None)), 0);
}

#[test]
fn every_defect_of_a_scheduler_is_noticed() {
    for &mutant in SchedulerMutant::ALL {
        let caught = caught(|bytes| run_scheduler(bytes, mutant));
        assert!(caught >= 3, "{mutant:?} was noticed {caught} times in {INPUTS}");
    }
    assert_eq!(caught(|bytes| run_scheduler(bytes, SchedulerMutant::None)), 0);
}

#[test]
fn a_difference_says_what_led_to_it() {
    let shown = inputs().find_map(|bytes| run_queue(&bytes, QueueMutant::DoubleLaunch).err());
    let message = shown.expect("it is noticed").to_string();
    assert!(message.starts_with("invariant broken: order: "), "{message}");
    assert!(message.contains("before that:\n"), "{message}");
    assert!(message.lines().count() > 5, "{message}");
}

#[test]
fn a_run_depends_on_its_bytes_alone() {
    for bytes in inputs().take(20) {
        let counters =
            |run: Result<Counters, Difference>| run.expect("no defect").iter().collect::<Vec<_>>();
        let queue = || counters(run_queue(&bytes, QueueMutant::None));
        assert_eq!(queue(), queue());
        let scheduler = || counters(run_scheduler(&bytes, SchedulerMutant::None));
        assert_eq!(scheduler(), scheduler());
    }
}

#[test]
fn inputs_of_any_length_end() {
    for length in [0, 1, 2, 50_000] {
        for byte in [0, 1, 7, 64, 255] {
            let bytes = vec![byte; length];
            queue_machine(&bytes);
            scheduler_machine(&bytes);
        }
    }
}

/// Runs every input of a target's corpus, and adds up what happened.
fn run_corpus(
    name: &str,
    run: impl Fn(&[u8]) -> Result<Counters, Difference>,
) -> BTreeMap<&'static str, u64> {
    let inputs = corpus(name);
    assert!(inputs.len() >= 20, "{} inputs for {name}", inputs.len());
    let mut total = BTreeMap::new();
    for (file, bytes) in inputs {
        match run(&bytes) {
            Ok(counters) => {
                counters.iter().for_each(|(what, n)| *total.entry(what).or_default() += n);
            }
            Err(difference) => panic!("{}: {difference}", file.display()),
        }
    }
    total
}

fn assert_all_happened(total: &BTreeMap<&str, u64>, expected: &[&str]) {
    for what in expected {
        assert!(total.contains_key(what), "nothing in the corpus has {what}: {total:?}");
    }
}

#[test]
fn the_corpus_of_queues_reaches_everything() {
    let total = run_corpus("queue_machine", |bytes| run_queue(bytes, QueueMutant::None));
    assert_all_happened(
        &total,
        &[
            "adaptive windows",
            "cancelled",
            "dropped",
            "ended lost",
            "ended well",
            "epochs that wrap around",
            "events",
            "failed open",
            "failed steps",
            "forgotten by the device",
            "full",
            "held at Lv1",
            "held at Lv2",
            "held at Lv3",
            "user holds",
            "late answers",
            "lost fences",
            "fences on demand",
            "nonsense",
            "refused launches",
            "refused fences",
            "replays",
            "replays of what needs no device",
            "slow launches",
            "stale orders",
            "submitted to a lost device",
            "timers",
        ],
    );
}

#[test]
fn the_corpus_of_schedulers_reaches_everything() {
    let total =
        run_corpus("scheduler_machine", |bytes| run_scheduler(bytes, SchedulerMutant::None));
    assert_all_happened(
        &total,
        &[
            "admitted waits that were not submitted",
            "attached",
            "cancelled",
            "circles of waits",
            "deadlocks refused",
            "detached",
            "events abandoned",
            "events reached",
            "failed open",
            "fcfs",
            "user holds",
            "hpf",
            "lost",
            "orders to hold",
            "orders to run",
            "orders to watch",
            "overtaken reports",
            "a queue held",
            "table full",
            "wait table full",
            "waits for nothing",
            "waits for the gone",
        ],
    );
}
