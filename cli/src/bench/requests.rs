//! `xsched bench requests`.

use std::io;
use std::process::Command;

use clap::ValueEnum as _;
use xsched_lab::Quantiles;
use xsched_lab::mode::Mode;
use xsched_lab::requests::{Client, Outcome, Plan, Row, client, run};

use super::on::on_device;
use super::spin::describe;
use crate::Ending;
use crate::args::{ClientArgs, RequestsArgs, SpinArgs, SpinHal};
use crate::error::CliError;
use crate::table::{number, table};

/// Runs requests from one thread and from several, and prints what of them is the host's.
pub(crate) fn execute(args: &RequestsArgs) -> Result<Ending, CliError> {
    let plan = Plan {
        forms: args.forms.clone(),
        processes: args.processes.iter().copied().filter(|&count| count > 0).collect(),
        threads: args.clients.clone(),
        requests: args.requests,
        pause_ns: args.pause_ms * 1_000_000,
        modes: vec![Mode::Plain, Mode::Lv1],
    };
    let launcher = |wanted: &Client| client_command(&args.spin, wanted);
    super::spin::run(
        "requests",
        &args.spin,
        |show| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                run(&bench, &plan, &launcher, show)
            })
        },
        |outcome| Ok(report(outcome)),
    )
}

/// The command line of a process that makes requests.
fn client_command(spin: &SpinArgs, wanted: &Client) -> io::Result<Command> {
    if spin.hal == SpinHal::Host {
        let why = "each process would have a processor as a device of its own";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let mut command = Command::new(std::env::current_exe()?);
    let hal = spin.hal.to_possible_value().map(|hal| hal.get_name().to_owned());
    command.args(["bench", "client", "--hal", &hal.unwrap_or_default()]);
    command.args(["--device", &spin.device.to_string(), "--form", wanted.form.name()]);
    command.args(["--requests", &wanted.requests.to_string()]);
    command.args(["--pause-ns", &wanted.pause_ns.to_string()]);
    Ok(command)
}

/// `xsched bench client`, which this bench starts.
pub(crate) fn execute_client(args: &ClientArgs) -> Result<Ending, CliError> {
    let wanted = Client { form: args.form, requests: args.requests, pause_ns: args.pause_ns };
    // Plain streams are the runtime's, whoever holds queues beside them.
    let hal = if args.hal == SpinHal::Kfd { SpinHal::Hip } else { args.hal };
    let ran = on_device!(hal, args.device, |bench| {
        client(&bench, &wanted, io::stdin().lock(), io::stdout().lock())
    });
    ran.map_err(CliError::device)?;
    Ok(Ending::Fine)
}

fn report(outcome: &Outcome) -> String {
    let Outcome { device, plan, kernels_ns, rows, left_out } = outcome;
    let total_ms = kernels_ns.iter().sum::<u64>() as f64 / 1e6;
    let mut text = describe(device);
    text += &format!(
        "{} requests of {} kernels of {total_ms:.2} ms in all from each thread, {} ms between \
         them\n\n",
        plan.requests,
        kernels_ns.len(),
        plan.pause_ns / 1_000_000
    );
    let header = [
        "<way",
        "<launched as",
        "threads",
        "processes",
        "whole mean",
        "P50",
        "P95",
        "max",
        "launches mean",
        "max",
        "rest mean",
        "requests/s",
    ];
    text += &table("times of a request in ms", &header, rows.iter().map(cells));
    for (what, why) in left_out {
        text += &format!("left out: {what}: {why}\n");
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let ms = |us: f64| number(Some(us / 1e3), 3);
    let Quantiles { mean_us, p50_us, p95_us, max_us, .. } = row.whole;
    let mut cells = vec![row.mode.to_string(), row.form.to_string()];
    cells.extend([row.threads, row.processes.max(1)].map(|count| count.to_string()));
    cells.extend([mean_us, p50_us, p95_us, max_us].map(ms));
    cells.extend([row.submit.mean_us, row.submit.max_us, row.rest.mean_us].map(ms));
    cells.push(number(Some(row.per_second), 2));
    cells
}
