//! `xsched bench`: figures of real devices.

pub(crate) mod graphs;
mod judge;
mod preempt;
mod print;
pub(crate) mod spin;
mod threads;

use std::time::Duration;

use xsched::core::level::Level;
use xsched_sim::run::RunError;

use crate::Ending;
use crate::args::{Hal, PreemptArgs};
use crate::error::CliError;
use crate::machine::Machine;
use crate::output::{Outputs, Places};
use crate::progress::Progress;

use judge::{Row, busy_enough};
use preempt::{SEED, Subject, THRESHOLD};
use print::Document;

/// Measures how fast a device is preempted, and prints what came out.
pub(crate) fn preempt(args: &PreemptArgs) -> Result<Ending, CliError> {
    let level = |&n: &u8| Level::from_number(n).ok_or(RunError::NoSuchLevel { level: n });
    let levels: Vec<Level> = args.levels.iter().map(level).collect::<Result<_, _>>()?;
    let outputs = Outputs::prepare(Places { json: args.json.as_deref(), ..Places::default() })?;
    let machine = Machine::here();
    let Hal::Host = args.hal;
    let subject = Subject::new()?;

    let progress = Progress::new(false);
    let before = threads::Usage::now();
    let total = levels.len() as f64;
    let measure = |(place, level): (usize, &Level)| {
        let show = |part: f64| progress.set((place as f64 + part) / total);
        subject.measure(*level, args.samples, &show)
    };
    let rows: Result<Vec<_>, CliError> = levels.iter().enumerate().map(measure).collect();
    let busy = threads::Usage::now().busy_since(&before);
    let wall = progress.finish();

    let command_ns = subject.command_ns();
    let rows: Vec<Row> = rows?.iter().map(|times| Row::of(times, command_ns)).collect();
    let document = Document {
        device: args.hal.describe(),
        enough_cores: busy_enough(busy.len(), machine.cores),
        machine,
        threshold: THRESHOLD,
        command_us: command_ns as f64 / 1e3,
        seed: SEED,
        seconds: wall.max(Duration::from_nanos(1)).as_secs_f64(),
        busy,
        rows,
    };
    if let Some(output) = &outputs.json {
        output.write(|out| xsched_sim::report::write_json(out, &document))?;
    }
    outputs.tables().print(&print::report(&document))?;
    Ok(Ending::new(document.missed()))
}
