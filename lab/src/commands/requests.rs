//! `xsched-lab bench requests`.

use std::io;
use std::process::Command;

use clap::{Args, value_parser};

use super::args::SpinArgs;
use crate::bench::requests::Form;
use crate::bench::requests::{Client, Plan, client, run};
use crate::device::hal::SpinHal;
use crate::device::hal::on_device;
use crate::device::mode::Mode;
use crate::error::CommandError;
use xsched_console::Ending;

#[derive(Debug, Args)]
pub(crate) struct RequestsArgs {
    #[command(flatten)]
    pub(crate) spin: SpinArgs,
    /// Numbers of threads that make requests at once, with commas between.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,2,3")]
    #[arg(value_parser = value_parser!(u32).range(1..=64))]
    pub(crate) clients: Vec<u32>,
    /// Numbers of processes that make requests at once, with commas between; 0 leaves them out.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "3")]
    #[arg(value_parser = value_parser!(u32).range(0..=16))]
    pub(crate) processes: Vec<u32>,
    /// How requests are launched, with commas between: kernel by kernel (`kernels`), or as one
    /// `graph`.
    #[arg(long, value_name = "F,F", value_delimiter = ',', default_value = "kernels,graph")]
    pub(crate) forms: Vec<Form>,
    /// Requests of each thread.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub(crate) requests: u32,
    /// Between two requests of a thread, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    #[arg(value_parser = value_parser!(u64).range(0..=10_000))]
    pub(crate) pause_ms: u64,
}

/// A process that makes requests, which `requests` starts.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The device.
    #[arg(long, value_enum)]
    pub(crate) hal: SpinHal,
    /// The number of the device.
    #[arg(long)]
    pub(crate) device: u32,
    /// How its requests are launched.
    #[arg(long)]
    pub(crate) form: Form,
    /// How many.
    #[arg(long)]
    pub(crate) requests: u32,
    /// Between two.
    #[arg(long)]
    pub(crate) pause_ns: u64,
}

/// Runs requests from one thread and from several, and prints what of them is the host's.
pub(super) fn execute(args: &RequestsArgs) -> Result<Ending, CommandError> {
    let plan = Plan {
        forms: args.forms.clone(),
        processes: args.processes.iter().copied().filter(|&count| count > 0).collect(),
        threads: args.clients.clone(),
        requests: args.requests,
        pause_ns: args.pause_ms * 1_000_000,
        modes: vec![Mode::Plain, Mode::Lv1],
    };
    let launcher = |wanted: &Client| client_command(&args.spin, wanted);
    super::common::run(
        "requests",
        &args.spin,
        |pace| {
            on_device!(args.spin.hal, args.spin.device, |bench| {
                run(&bench, &plan, &launcher, pace)
            })
        },
        |_| Ok((String::new(), Ending::Fine)),
    )
}

/// The command line of a process that makes requests.
fn client_command(spin: &SpinArgs, wanted: &Client) -> io::Result<Command> {
    if spin.hal == SpinHal::Host {
        let why = "each process would have a processor as a device of its own";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "client", "--hal", spin.hal.name()]);
    command.args(["--device", &spin.device.to_string(), "--form", wanted.form.name()]);
    command.args(["--requests", &wanted.requests.to_string()]);
    command.args(["--pause-ns", &wanted.pause_ns.to_string()]);
    Ok(command)
}

/// `xsched-lab bench client`, which this bench starts.
pub(super) fn execute_client(args: &ClientArgs) -> Result<Ending, CommandError> {
    let wanted = Client { form: args.form, requests: args.requests, pause_ns: args.pause_ns };
    // Plain streams are those of HIP's runtime, with or without the kernel driver.
    let hal = if args.hal == SpinHal::Kfd { SpinHal::Hip } else { args.hal };
    let ran = on_device!(hal, args.device, |bench| {
        client(&bench, &wanted, io::stdin().lock(), io::stdout().lock())
    });
    ran.map_err(CommandError::device)?;
    Ok(Ending::Fine)
}
