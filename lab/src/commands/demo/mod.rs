//! `xsched-lab demo`.

mod print;

use std::path::PathBuf;

use clap::{Args, value_parser};
use xsched::node::Link;
use xsched_console::Ending;
use xsched_console::machine::Machine;
use xsched_console::output::{Outputs, Places};
use xsched_console::progress::Progress;
use xsched_core::level::Level;
use xsched_core::policy::Policy;
use xsched_sim::report;

use self::print::Document;
use crate::demo::device::{REQUEST, choose, model};
use crate::demo::judge::{Verdict, judge};
use crate::demo::quiet::Watch;
use crate::demo::spool::Spool;
use crate::demo::{Outcomes, Plan, QUICK_REQUESTS, REQUESTS, picture, simulate};
use crate::device::hal::SpinHal;
use crate::error::CommandError;

/// Most requests of a demo.
const MAX_REQUESTS: u64 = 1_000_000;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Requests of the high-priority task in each part, by default 1000; the other tasks make at
    /// least a fifth of that.
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    #[arg(value_parser = value_parser!(u64).range(1..=MAX_REQUESTS))]
    pub(crate) requests: Option<u64>,
    /// The device; by default CUDA's or HIP's if one works, and the processor otherwise.
    #[arg(long, value_enum)]
    pub(crate) hal: Option<SpinHal>,
    /// Policy of the scheduled part.
    #[arg(long, value_name = "P", default_value = "hpf")]
    pub(crate) policy: String,
    /// Preemption level, 1 to 3; by default the highest of the device.
    #[arg(long, value_name = "N")]
    pub(crate) level: Option<u8>,
    /// A look in three seconds, with too few requests for a sound verdict.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Draw the latency distributions.
    #[arg(long, value_name = "OUT")]
    pub(crate) svg: Option<PathBuf>,
    /// Write a record of the scheduled part, for `xsched replay`.
    #[arg(long, value_name = "OUT")]
    pub(crate) record: Option<PathBuf>,
    /// Write the figures as JSON; `-` writes them to standard output and the tables to standard
    /// error.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

/// Runs the demo and prints what came out.
pub(crate) fn execute(args: &DemoArgs) -> Result<Ending, CommandError> {
    let choice = choose(args.hal)?;
    let about = choice.device.about();
    let mut plan = plan(args, Level::from_number(about.level).unwrap_or_default())?;
    let outputs = Outputs::prepare(Places {
        json: args.json.as_deref(),
        svg: args.svg.as_deref(),
        record: args.record.as_deref(),
        ..Places::default()
    })?;
    let chosen = print::chosen(&about.device, &choice, args.hal.is_some());
    plan.link = Link::from_env("xsched-lab demo").map_err(CommandError::device)?;
    let scheduled = plan.link.as_ref().map(|link| print::node(link.is_connected(), &about));
    outputs.tables().print(&(chosen + &scheduled.unwrap_or_default()))?;

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
    // What other processes do on the device is as good as noise.
    let is_quiet = quiet.is_quiet() && plan.link.is_none();
    let criteria = judge(&modes, &plan.tasks, run, is_quiet);
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
        may_share: plan.link.is_some(),
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

fn plan(args: &DemoArgs, top: Level) -> Result<Plan, CommandError> {
    let default = if args.quick { QUICK_REQUESTS } else { REQUESTS };
    let requests = args.requests.unwrap_or(default);
    Ok(Plan::new(&args.policy, args.level, requests, top)?)
}
