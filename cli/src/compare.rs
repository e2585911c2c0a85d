//! `xsched sim compare`.

mod page;

use std::collections::BTreeMap;

use xsched_console::Ending;
use xsched_console::machine::default_threads;
use xsched_console::output::{Outputs, Places};
use xsched_console::progress::Progress;
use xsched_sim::report::{
    self, CheckFigures, Combination, Comparison, Series, combinations, comparison_svg,
    run_comparison,
};
use xsched_sim::run::never_holds;
use xsched_sim::scenario::Scenario;

use self::page::{Shown, page};
use crate::args::CompareArgs;
use crate::error::CliError;
use crate::{check_seeds, text};

/// Runs every combination, writes what was asked for and prints the comparison.
pub(crate) fn execute(args: &CompareArgs) -> Result<Ending, CliError> {
    let (scenario, files) = Scenario::load_with_files(&args.file)?;
    let seed = args.seed.unwrap_or(scenario.seed);
    check_seeds(seed, args.seeds)?;
    let outputs = Outputs::prepare(Places {
        json: args.json.as_deref(),
        svg: args.svg.as_deref(),
        html: args.html.as_deref(),
        ..Places::default()
    })?;
    let own_level = [scenario.level];
    let levels = if args.levels.is_empty() { &own_level[..] } else { &args.levels };
    let seeds = match args.seeds {
        1 => format!("seed {seed}"),
        count => format!("medians over the seeds {seed} to {}", seed.saturating_add(count - 1)),
    };
    let combinations = combinations(&args.policies, levels, never_holds);

    let progress = Progress::start();
    let show = |part| progress.set(part);
    let threads = default_threads();
    let result = run_comparison(&scenario, &combinations, Some(seed), args.seeds, threads, &show);
    let wall = progress.finish();
    let comparison = result?;

    let unnoticed = text::unnoticed(&scenario, policies(&combinations));
    let notes = overload(&comparison) + &unnoticed + &text::checks(&checks(&comparison));
    if outputs.svg.is_some() || outputs.html.is_some() {
        let runs: Vec<_> = comparison.runs.iter().map(Series::distributions).collect();
        let svg = comparison_svg(&combinations, &runs)?;
        if let Some(output) = &outputs.svg {
            output.write(|out| out.write_all(svg.as_bytes()))?;
        }
        if let Some(output) = &outputs.html {
            let page = page(&Shown {
                scenario: &scenario,
                files: &files,
                comparison: &comparison,
                seeds: &seeds,
                notes: &notes,
                svg: &svg,
            });
            output.write(|out| out.write_all(page.as_bytes()))?;
        }
    }
    if let Some(output) = &outputs.json {
        output.write(|out| report::write_json(out, &comparison))?;
    }
    let commands = comparison.runs.iter().map(Series::commands).sum();
    let heading = format!("{}: {seeds}; {}\n\n", scenario.name, text::speed(commands, wall));
    outputs.tables().print(&(heading + &text::comparison(&comparison) + &notes))?;
    Ok(Ending::new(comparison.violations() > 0))
}

/// Each policy once.
fn policies(combinations: &[Combination]) -> Vec<&str> {
    let mut policies: Vec<_> = combinations.iter().map(|one| one.policy.as_str()).collect();
    policies.dedup();
    policies
}

/// The tasks that were overloaded, with the combination in front.
fn overload(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (combination, series) in comparison.combinations.iter().zip(&comparison.runs) {
        for line in text::overload(series.overloads()).lines() {
            text += &format!("{}: {line}\n", combination.label());
        }
    }
    text
}

/// Findings of the checkers in all runs, with the combination in front of a violation.
fn checks(comparison: &Comparison) -> BTreeMap<&'static str, CheckFigures> {
    let mut sum = BTreeMap::<_, CheckFigures>::new();
    for (combination, series) in comparison.combinations.iter().zip(&comparison.runs) {
        for (&name, check) in &series.bands().checks {
            let mut check = check.clone();
            check.first = check.first.map(|text| format!("{}: {text}", combination.label()));
            sum.entry(name).or_default().add(&check);
        }
    }
    sum
}
