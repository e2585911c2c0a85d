use std::path::Path;

use super::engine::Cluster;
use super::*;
use crate::scenario::{ClassSpec, JobClass, SharingSpec};

fn one(value: f64) -> Vec<Weighted> {
    vec![Weighted { value, weight: 1.0 }]
}

fn class(class: JobClass, run_s: u64) -> ClassSpec {
    let run_ns = vec![run_s * 1_000_000_000];
    ClassSpec { class, weight: 1.0, run_ns, gpus: one(1.0), share: one(1.0), duty: one(1.0) }
}

fn published() -> ClusterScenario {
    let text = include_bytes!("../../clusters/alibaba-2023.toml");
    let scenario = ClusterScenario::parse(text, Path::new("alibaba-2023.toml"));
    let mut scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    scenario.nodes = 8;
    scenario
}

fn ran(scenario: &ClusterScenario, load: f64, way: Way, seed: u64) -> Cluster<'_> {
    let mut cluster = Cluster::new(scenario, way, &jobs::draw(scenario, load, seed));
    cluster.go();
    cluster
}

#[test]
fn gpu_time_is_work_and_gates() {
    for way in Way::ALL {
        let scenario = published();
        let totals = ran(&scenario, 1.2, way, 1).totals;
        let parts_ns = totals.work_ns + totals.gates_ns;
        assert!((totals.busy_ns / parts_ns - 1.0).abs() < 1e-9, "{way:?}: {totals:?}");
        assert!(totals.busy_ns <= totals.taken_ns, "{way:?}: only GPUs with jobs are busy");
        assert_eq!(totals.gates_ns > 0.0, way == Way::Classes);
    }
}

#[test]
fn no_gpu_does_more_than_one_gpus_work() {
    for way in Way::ALL {
        let scenario = published();
        let busiest = ran(&scenario, 1.2, way, 2).totals.busiest;
        assert!(busiest > 0.5 && busiest <= 1.0 + 1e-9, "{way:?}: {busiest}");
    }
}

#[test]
fn a_job_ends_when_its_work_is_done() {
    for way in Way::ALL {
        let scenario = published();
        let cluster = ran(&scenario, 1.0, way, 3);
        let ended = cluster.runs.iter().filter_map(|run| Some((run, run.end_ns? - run.start_ns?)));
        let ended: Vec<_> = ended.collect();
        assert!(ended.len() > 100);
        for (run, taken_ns) in ended {
            assert!(taken_ns >= run.job.run_ns, "{way:?}: {run:?}");
            if way == Way::Whole {
                assert!(taken_ns - run.job.run_ns <= 1, "{way:?}: {run:?}");
            }
        }
    }
}

#[test]
fn classes_are_respected() {
    // Jobs ask for more than two nodes have.
    let mut scenario = published();
    scenario.nodes = 2;
    let urgent = ClassSpec { weight: 1.0, duty: one(0.3), ..class(JobClass::Interactive, 600) };
    let batch = ClassSpec { weight: 9.0, ..class(JobClass::Batch, 600) };
    scenario.classes = vec![urgent, batch];
    let [whole, shares, classes] = Way::ALL.map(|way| run(&scenario, 1.3, way, 1).classes);
    for figures in [whole, shares] {
        assert!(figures[0].wait_p50_s > 0.0, "each GPU is taken: {figures:?}");
    }
    assert!(classes[0].wait_p50_s == 0.0, "beside a batch job there is room: {classes:?}");
    assert!(classes[0].stretch_p99 < 1.1, "which stands back: {classes:?}");
    assert!(classes[2].stretch_p99 > 1.2, "{classes:?}");
}

#[test]
fn a_seed_stands_for_one_day() {
    let scenario = published();
    let one = run(&scenario, 1.0, Way::Classes, 7);
    assert_eq!(one, run(&scenario, 1.0, Way::Classes, 7));
    assert_ne!(one.classes, run(&scenario, 1.0, Way::Classes, 8).classes);
    assert_eq!(study(&scenario, 1, 2, 1), study(&scenario, 1, 2, 3), "on any number of threads");
    let jobs = jobs::draw(&scenario, 1.0, 7);
    assert_eq!(jobs.len(), ran(&scenario, 1.0, Way::Whole, 7).runs.len());
}

#[test]
fn jobs_ask_for_what_the_load_says() {
    let mut scenario = published();
    scenario.nodes = 200;
    let jobs = jobs::draw(&scenario, 0.9, 1);
    let asked: f64 = jobs.iter().map(|job| job.run_ns as f64 * f64::from(job.gpus)).sum();
    let all = 1_600.0 * 2.0 * scenario.duration_ns as f64;
    assert!((asked / all - 0.9).abs() < 0.03, "{}", asked / all);
    assert!(jobs.is_sorted_by_key(|job| job.arrival_ns));
    // The ninth and the last of the hours are the scenario's.
    let hour_ns = scenario.duration_ns / 24;
    let count = |hour| jobs.iter().filter(|job| job.arrival_ns / hour_ns % 24 == hour).count();
    let ratio = count(18) as f64 / count(14) as f64;
    assert!((ratio - 1.64 / 0.44).abs() < 0.3, "{ratio}");
}

/// Mean wait in a queue with `servers` servers and exponential times, in service times (Erlang C).
fn erlang_wait(servers: u32, load: f64) -> f64 {
    let offered = f64::from(servers) * load;
    // Erlang B by its recursion, then C.
    let blocked = (1..=servers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    waits / (f64::from(servers) * (1.0 - load))
}

#[test]
fn whole_gpus_are_a_queue_with_many_servers() {
    let mut scenario = published();
    scenario.hours = vec![1.0];
    scenario.duration_ns = 1_000_000 * 1_000_000_000;
    scenario.nodes = 2;
    // Equal parts of an exponential distribution with a mean of 60 s.
    let part = |k: u32| -(1.0 - (f64::from(k) + 0.5) / 4_000.0).ln() * 60e9;
    let run_ns = (0..4_000).map(|k| part(k) as u64).collect();
    scenario.classes = vec![ClassSpec { run_ns, ..class(JobClass::Normal, 1) }];
    for load in [0.7, 0.9] {
        let cluster = ran(&scenario, load, Way::Whole, 1);
        let started =
            cluster.runs.iter().filter_map(|run| Some(run.start_ns? - run.job.arrival_ns));
        let waits: Vec<f64> = started.map(|ns| ns as f64 / 60e9).collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        let theory = erlang_wait(16, load);
        assert!((mean / theory - 1.0).abs() < 0.05, "{mean} instead of {theory} at {load}");
    }
}

#[test]
fn a_job_of_many_gpus_does_not_starve() {
    let mut scenario = published();
    scenario.nodes = 4;
    let big = ClassSpec { weight: 1.0, gpus: one(8.0), ..class(JobClass::Normal, 600) };
    let small = ClassSpec { weight: 50.0, ..class(JobClass::Normal, 600) };
    scenario.classes = vec![big, small];
    let cluster = ran(&scenario, 0.95, Way::Whole, 1);
    let big = cluster.runs.iter().filter(|run| run.job.gpus == 8);
    let waits = big.filter_map(|run| Some(run.start_ns? - run.job.arrival_ns));
    assert!(waits.max().is_some_and(|ns| ns < 4 * 3_600 * 1_000_000_000));
}

#[test]
fn classes_below_keep_the_floor_together() {
    let spec = SharingSpec { jobs_max: 4, floor: 0.05, beside: 1.0, gate: 0.0, hold: 0.0 };
    let busy = |class| Resident { class, duty: 1.0 };
    let [urgent, normal, batch] = JobClass::ALL.map(busy);
    assert_close(&progress(Way::Classes, &spec, &[urgent, batch]), &[0.95, 0.05]);
    assert_close(&progress(Way::Classes, &spec, &[batch, normal, urgent]), &[0.0, 0.05, 0.95]);
    assert_close(&progress(Way::Classes, &spec, &[urgent, urgent, batch]), &[0.475, 0.475, 0.05]);
    assert_close(&progress(Way::Classes, &spec, &[urgent]), &[1.0]);
    let costly = SharingSpec { beside: 1.1, ..spec };
    assert_close(&progress(Way::Classes, &costly, &[urgent]), &[1.0]);
    let little = Resident { class: JobClass::Interactive, duty: 0.1 };
    assert_close(&progress(Way::Classes, &costly, &[little, batch])[..1], &[1.0 / 1.1]);
}

fn assert_close(got: &[f64], want: &[f64]) {
    let close = got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-9);
    assert!(close && got.len() == want.len(), "{got:?} instead of {want:?}");
}

#[test]
fn mistakes_name_their_key() {
    let good = include_str!("../../clusters/alibaba-2023.toml");
    let error = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        let result = ClusterScenario::parse(text.as_bytes(), Path::new("x.toml"));
        let error = result.expect_err("a mistake").to_string();
        error.split_once(": ").map(|(_, rest)| rest.to_owned()).unwrap_or(error)
    };
    assert_eq!(error("nodes = 1000", "nodes = 0"), "nodes: must be at least 1, is 0");
    assert_eq!(
        error("gpus = 8\n", "gpus = 4\n"),
        "gpus: must be at least 8, as a class has jobs of 8 GPUs"
    );
    assert_eq!(error("weight = 3536\n", ""), "class[0].weight: missing");
    assert_eq!(error("[2, 14]", "[1.5, 14]"), "class[0].gpus: must have whole numbers of GPUs");
    assert_eq!(error("[node]", "[noded]"), "noded: unknown key; did you mean `node`?");
    assert!(error("[81, 1009]", "[181, 1009]").contains("must be at most 100, is 181"));
    assert!(error("burst_ms = 5", "").contains("node.burst_ms: missing"));
}
