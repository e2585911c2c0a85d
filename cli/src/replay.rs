//! `xsched replay`.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use xsched_console::Ending;
use xsched_console::output::{Outputs, Places, Stream};
use xsched_console::progress::Progress;
use xsched_console::table::{count, ms, table};
use xsched_core::hint::PolicyHint;
use xsched_daemon::config::PolicyChoice;
use xsched_policies::Any;
use xsched_sim::replay::{
    MAX_RECORD_BYTES, Orders, Overheads, PredictOptions, PredictedTask, Prediction, Record,
    ReplayError, Workload, orders, predict,
};
use xsched_sim::report;
use xsched_sim::scenario::DaemonSpec;

use crate::args::ReplayArgs;
use crate::error::CliError;

/// Replays a record in one of the two ways.
pub(crate) fn execute(args: &ReplayArgs) -> Result<Ending, CliError> {
    let place = args.file.display().to_string();
    let bytes =
        read(&args.file).map_err(|source| CliError::Read { place: place.clone(), source })?;
    let wrong = |source| CliError::Replay { place: place.clone(), source };
    let record = Record::parse(&bytes).map_err(wrong)?;
    if args.orders {
        return compare_orders(&record).map_err(wrong).and_then(|(text, ending)| {
            Stream::Stdout.print(&text)?;
            Ok(ending)
        });
    }
    let outputs = Outputs::prepare(Places { json: args.json.as_deref(), ..Places::default() })?;
    let prediction = predicted(args, &record).map_err(|error| match error {
        ReplayError::Run(error) => CliError::Run(error),
        error => wrong(error),
    })?;
    if let Some(output) = &outputs.json {
        output.write(|out| report::write_json(out, &prediction))?;
    }
    let far = |percent: f64| prediction.tasks.iter().filter(move |task| !task.is_within(percent));
    let misses: Vec<_> = args.check.into_iter().flat_map(far).collect();
    let checked = args.check.map(|percent| check(percent, &misses)).unwrap_or_default();
    outputs.tables().print(&(text(&prediction) + &checked))?;
    Ok(Ending::new(!misses.is_empty()))
}

/// Predicts the record's workload under the policy and the level that are asked for.
fn predicted(args: &ReplayArgs, record: &Record<'_>) -> Result<Prediction, ReplayError> {
    let workload = Workload::extract(record)?;
    let daemon = args.daemon.then(DaemonSpec::default);
    let policy_hints = args.policy.as_deref().filter(|_| args.daemon).map(told_by_daemon);
    let options = PredictOptions {
        policy: args.policy.clone(),
        policy_hints: policy_hints.unwrap_or_default(),
        level: args.level,
        daemon,
    };
    let progress = Progress::start();
    let result = predict(&workload, &options, &mut |part| progress.set(part));
    progress.finish();
    result
}

/// Hints that the daemon gives a policy where its file says nothing. An unknown one is refused
/// later.
fn told_by_daemon(policy: &str) -> Vec<PolicyHint> {
    policy
        .parse::<Any>()
        .map(|policy| PolicyChoice::default().hints_of(&policy))
        .unwrap_or_default()
}

/// The file, or a little more than the limit of one that is too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_RECORD_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn compare_orders(record: &Record<'_>) -> Result<(String, Ending), ReplayError> {
    Ok(match orders(record)? {
        Orders::Identical { orders, rounds } => {
            let (orders, rounds) = (count(orders, "order"), count(rounds, "round"));
            (format!("identical: {orders} in {rounds}\n"), Ending::Fine)
        }
        Orders::Differ(difference) => (format!("different: {difference}\n"), Ending::Finding),
    })
}

fn text(prediction: &Prediction) -> String {
    let Prediction { policy, recorded_policy, level, .. } = prediction;
    let level = level.map_or_else(|| "the recorded levels".to_owned(), |n| format!("Lv{n}"));
    let mut text = format!("policy {policy} (recorded: {recorded_policy}), {level}\n\n");
    text += &tasks(&prediction.tasks);
    text += &bound(prediction);
    text += &overheads(&prediction.overheads);
    for note in &prediction.notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn tasks(tasks: &[PredictedTask]) -> String {
    let header = [
        "<task",
        "priority",
        "requests recorded",
        "predicted",
        "mean recorded",
        "predicted",
        "P50 recorded",
        "predicted",
        "P99 recorded",
        "predicted",
        "P99 deviation",
    ];
    let row = |task: &PredictedTask| {
        let (old, new) = (&task.recorded_ms, &task.predicted_ms);
        let mut row = vec![task.name.clone(), task.priority.to_string()];
        row.extend([task.requests, task.completed].map(|n| n.to_string()));
        row.extend([old.mean, new.mean, old.p50, new.p50, old.p99, new.p99].map(ms));
        let deviation = task.p99_deviation_percent;
        row.push(deviation.map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.1}%")));
        row
    };
    table("latency of requests in ms", &header, tasks.iter().map(row))
}

/// How far off the model is on this record where nothing is changed: nearer nothing can be told.
fn bound(prediction: &Prediction) -> String {
    let Some(bound) = prediction.bound_percent else {
        return "bound: none, as no task has a P99 in the record\n".to_owned();
    };
    let own = |task: &PredictedTask| {
        task.own_deviation_percent.map(|percent| format!("{} {percent:+.1}%", task.name))
    };
    let tasks: Vec<_> = prediction.tasks.iter().filter_map(own).collect();
    format!(
        "bound: as it was recorded, this run is predicted within {bound:.1}% of each P99 ({}); \
         smaller differences from this record mean nothing\n",
        tasks.join(", ")
    )
}

fn overheads(overheads: &Overheads) -> String {
    let Overheads {
        request_ns, lone_requests, notify_ns, hold_ns, holds, resume_ns, resumes, ..
    } = overheads;
    let us = |ns: &u64| *ns as f64 / 1e3;
    format!(
        "measured in the record: {:.1} µs per request beside its commands ({}), {:.1} µs until the \
         scheduler knows, {:.1} µs to stop a queue ({}), {:.1} µs to wake it ({}), {:.1} ms in \
         which the device did not run \
         what it should ({})\n",
        us(request_ns),
        count(*lone_requests, "lone request"),
        us(notify_ns),
        us(hold_ns),
        count(*holds, "hold"),
        us(resume_ns),
        count(*resumes, "restart"),
        overheads.stall_ns as f64 / 1e6,
        count(overheads.stalls, "stall"),
    )
}

fn check(percent: f64, misses: &[&PredictedTask]) -> String {
    if misses.is_empty() {
        return format!("check: every predicted P99 is within {percent}% of the recorded one\n");
    }
    let mut text = String::new();
    for task in misses {
        let how = match task.p99_deviation_percent {
            _ if task.starved => "the policy does not let all requests run".to_owned(),
            Some(deviation) => format!("{deviation:+.1}%, allowed are {percent}%"),
            None => "no figures".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "missed: P99 of {}: {how}", task.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_policy_is_told_what_the_daemon_tells_it() {
        let turn = PolicyHint::Timeslice(xsched_daemon::config::TURN);
        let stall = PolicyHint::Stall(Some(xsched_core::scheduler::STALL));
        let floor = PolicyHint::Floor(xsched_daemon::config::FLOOR_PERMILLE);
        assert_eq!(told_by_daemon("hpf"), [turn, stall, floor]);
        assert_eq!(told_by_daemon("fcfs"), [stall, floor]);
        assert_eq!(told_by_daemon("none"), []);
    }
}
