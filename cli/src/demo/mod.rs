//! `xsched demo`.

mod print;

use xsched_core::level::Level;
use xsched_core::policy::Policy;
use xsched_lab::console::Ending;
use xsched_lab::console::output::{Outputs, Places};
use xsched_lab::console::progress::Progress;
use xsched_lab::demo::device::{REQUEST, choose, model};
use xsched_lab::demo::judge::{Verdict, judge};
use xsched_lab::demo::quiet::Watch;
use xsched_lab::demo::spool::Spool;
use xsched_lab::demo::{Outcomes, Plan, QUICK_REQUESTS, REQUESTS, picture, simulate};
use xsched_lab::machine::Machine;
use xsched_sim::report;

use self::print::Document;
use crate::args::DemoArgs;
use crate::error::CliError;

/// Runs the demo and prints what came out.
pub(crate) fn execute(args: &DemoArgs) -> Result<Ending, CliError> {
    let choice = choose(args.hal)?;
    let about = choice.device.about();
    let plan = plan(args, Level::from_number(about.level).unwrap_or_default())?;
    let outputs = Outputs::prepare(Places {
        json: args.json.as_deref(),
        svg: args.svg.as_deref(),
        record: args.record.as_deref(),
        ..Places::default()
    })?;
    let chosen = print::chosen(&about.device, &choice, args.hal.is_some());
    outputs.tables().print(&chosen)?;

    let progress = Progress::start();
    let spool = args.record.is_some().then(Spool::new).transpose()?;
    let watch = Watch::start();
    let live = choice.device.measure(&plan, spool.as_ref(), &|part| progress.set(part));
    let quiet = watch.end();
    progress.finish();
    let live = live?;
    let recorded = match spool.zip(outputs.record.as_ref()) {
        Some((spool, output)) => Some(spool.write(output)?),
        None => None,
    };
    let simulated = model(&about).map(|spec| simulate(&spec, &plan)).transpose()?;

    let modes = live.figures();
    let run = (REQUEST, plan.level);
    let criteria = judge(&modes, &plan.tasks, run, quiet.is_quiet());
    let failed = criteria.iter().any(|criterion| criterion.verdict == Verdict::Fail);
    if let Some(output) = &outputs.svg {
        let svg = picture(&plan, &live, simulated.as_ref())?;
        output.write(|out| out.write_all(svg.as_bytes()))?;
    }
    let document = Document {
        device: about,
        machine: Machine::here(),
        request: REQUEST,
        policy: plan.policy.name(),
        level: plan.level.number(),
        live: modes,
        simulated: simulated.as_ref().map(Outcomes::figures),
        quiet,
        criteria,
    };
    if let Some(output) = &outputs.json {
        output.write(|out| report::write_json(out, &document))?;
    }
    let mut shown = print::report(&document, &plan.tasks, args.svg.as_deref());
    if let (Some(stats), Some(path)) = (recorded, &args.record) {
        shown += &print::record(stats, path);
    }
    outputs.tables().print(&shown)?;
    Ok(Ending::new(failed))
}

fn plan(args: &DemoArgs, top: Level) -> Result<Plan, CliError> {
    let default = if args.quick { QUICK_REQUESTS } else { REQUESTS };
    let requests = args.requests.unwrap_or(default);
    Ok(Plan::new(&args.policy, args.level, requests, top)?)
}
