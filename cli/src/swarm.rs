//! `xsched sim swarm`.

use std::time::Duration;

use xsched_console::Ending;
use xsched_console::machine::default_threads;
use xsched_console::output::Stream;
use xsched_console::progress::Progress;
use xsched_console::table::count;
use xsched_sim::swarm::{SwarmFailure, SwarmOptions, SwarmSummary, daemon, describe, swarm};

use crate::args::SwarmArgs;
use crate::error::CliError;
use crate::{check_seeds, text};

/// Runs the drawn scenarios and prints what they found.
pub(crate) fn execute(args: &SwarmArgs) -> Result<Ending, CliError> {
    let &SwarmArgs { daemon: nodes, seeds, seed, threads } = args;
    check_seeds(seed, seeds)?;
    let single = seeds == 1;
    if single {
        // Before the run, which may be the one that does not end well.
        let text = if nodes { daemon::describe(seed) } else { describe(seed) };
        Stream::Stdout.print(&format!("{}\n\n", text.trim_end()))?;
    }
    let threads = threads.map_or_else(default_threads, usize::from);
    let progress = Progress::start();
    let options = SwarmOptions { first_seed: seed, seeds, threads };
    let done = |done| progress.set(done as f64 / seeds as f64);
    let summary = if nodes { daemon::swarm(&options, &done) } else { swarm(&options, &done) };
    let wall = progress.finish();

    let mut shown = String::new();
    for failure in &summary.failures {
        shown += &finding(failure, nodes, single);
    }
    shown += &line(seed, &summary, wall);
    Stream::Stdout.print(&shown)?;
    Ok(Ending::new(!summary.failures.is_empty()))
}

/// Summary of all runs, in a line.
fn line(seed: u64, summary: &SwarmSummary, wall: Duration) -> String {
    let SwarmSummary { runs, commands, faults, failures } = summary;
    let result = match failures.len() as u64 {
        0 => "no failure".to_owned(),
        some => count(some, "failure"),
    };
    format!(
        "swarm: {} from seed {seed} on, {}, {} injected, {result}; {}\n",
        count(*runs, "run"),
        count(*commands, "command"),
        count(*faults, "fault"),
        text::speed(*commands, wall)
    )
}

/// Describes the failure of a seed and how to see it again; when it is the only one, with its
/// scenario.
fn finding(failure: &SwarmFailure, nodes: bool, with_scenario: bool) -> String {
    let SwarmFailure { seed, what, scenario } = failure;
    let scenario =
        if with_scenario { format!("\n{}\n\n", scenario.trim_end()) } else { String::new() };
    let option = if nodes { " --daemon" } else { "" };
    let replay = format!("xsched sim swarm{option} --seed {seed} --seeds 1");
    format!("seed {seed}: {what}\n  replay: {replay}\n{scenario}")
}
