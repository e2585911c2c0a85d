//! The daemon as a program.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use xsched_daemon::{Daemon, Settings};
use xsched_policies::Any;

/// Schedule the processes of this node that share GPUs.
///
/// Processes that are started by `xsched run` connect by themselves.
#[derive(Debug, Parser)]
#[command(version, name = "xschedd")]
struct Args {
    /// Where to listen; by default `/run/xsched/socket`, or with `--user` `xsched/socket` below
    /// `$XDG_RUNTIME_DIR`.
    #[arg(long, env = "XSCHED_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Serve the processes of this user alone.
    #[arg(long)]
    user: bool,
    /// The policy at first.
    #[arg(long, value_name = "NAME", default_value = "hpf")]
    policy: Any,
}

impl Args {
    fn socket(&self) -> Result<PathBuf, String> {
        if let Some(socket) = &self.socket {
            return Ok(socket.clone());
        }
        if !self.user {
            return Ok("/run/xsched/socket".into());
        }
        let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        let folder = folder.ok_or("XDG_RUNTIME_DIR is not set; say --socket PATH")?;
        Ok(PathBuf::from(folder).join("xsched/socket"))
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let socket = args.socket()?;
    let settings = Settings { socket, policy: args.policy, is_open: !args.user };
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let daemon = Daemon::start(&settings)?;
    tracing::info!(socket = %settings.socket.display(), "xschedd listens");
    let signal = signals.forever().next();
    tracing::info!(?signal, "xschedd ends; all processes run on");
    drop(daemon);
    Ok(())
}

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
