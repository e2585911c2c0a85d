//! `xsched sim run`.

use xsched_console::machine::default_threads;
use xsched_console::output::{Outputs, Places};
use xsched_console::progress::Progress;
use xsched_console::{Ending, Verbosity};
use xsched_sim::report::{self, Series, latency_svg, run_series, write_trace};
use xsched_sim::run::RunOptions;
use xsched_sim::scenario::Scenario;

use crate::args::RunArgs;
use crate::error::CliError;
use crate::{check_seeds, text};

/// How many bars a timeline may have.
const TIMELINE_SPANS: usize = 1_000_000;

/// Runs the scenario, writes what was asked for and prints the figures.
pub(crate) fn execute(args: &RunArgs) -> Result<Ending, CliError> {
    let scenario = Scenario::load(&args.file)?;
    let seeds = args.seeds.unwrap_or(u64::from(scenario.seeds)).max(1);
    check_seeds(args.seed.unwrap_or(scenario.seed), seeds)?;
    let outputs = Outputs::prepare(Places {
        json: args.json.as_deref(),
        svg: args.svg.as_deref(),
        trace: args.trace.as_deref(),
        ..Places::default()
    })?;
    let options = RunOptions {
        policy: args.policy.clone(),
        level: args.level,
        seed: args.seed,
        checks: true,
        timeline_spans: if args.trace.is_some() { TIMELINE_SPANS } else { 0 },
        record: false,
        by_cost: false,
    };
    let progress = Progress::start();
    let show = |part| progress.set(part);
    let result = run_series(&scenario, &options, seeds, default_threads(), &show);
    let wall = progress.finish();
    let (series, first) = result?;

    if let Some(output) = &outputs.svg {
        let svg = latency_svg(series.distributions())?;
        output.write(|out| out.write_all(svg.as_bytes()))?;
    }
    if let Some(output) = &outputs.trace {
        output.write(|out| write_trace(out, &first, &scenario))?;
    }
    if let Some(output) = &outputs.json {
        output.write(|out| report::write_json(out, &series))?;
    }
    let missed = seeds > 1 && series.references().iter().any(|reference| !reference.is_ok());
    if Verbosity::get() == Verbosity::Quiet {
        outputs.tables().insist(&problems(&series))?;
    } else {
        let heading = text::heading(series.first(), seeds, series.commands(), wall);
        outputs.tables().print(&(heading + &body(&series, &scenario)))?;
    }
    Ok(Ending::new(missed || series.violations() > 0))
}

/// Everything below the heading.
fn body(series: &Series, scenario: &Scenario) -> String {
    let unnoticed = text::unnoticed(scenario, [series.first().policy.as_str()]);
    if series.seeds() > 1 {
        return [
            text::bands(series.bands(), series.seeds()),
            text::overload(series.overloads()),
            unnoticed,
            text::references(series.references()),
            text::fitted(&scenario.fitted),
            text::checks(&series.bands().checks),
        ]
        .concat();
    }
    let run = series.first();
    let checks = text::checks(&run.checks);
    let references = match scenario.references.len() {
        0 => String::new(),
        count => format!("measured values: {count}, compared when there are several --seeds\n"),
    };
    let overload = text::overload(series.overloads());
    [text::tasks(run), overload, unnoticed, text::devices(&run.devices), checks, references]
        .concat()
}

/// Lists the problems; nothing if there are none.
fn problems(series: &Series) -> String {
    let misses = if series.seeds() > 1 { text::misses(series.references()) } else { String::new() };
    text::violations(&series.bands().checks) + &text::overload(series.overloads()) + &misses
}
