//! The daemon as a program.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{CommandFactory, Parser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use xsched_core::policy::Policy as _;
use xsched_daemon::config::{Config, Source};
use xsched_daemon::log::Log;
use xsched_daemon::metrics::Place;
use xsched_daemon::systemd::{self, Service};
use xsched_daemon::watch::Drivers;
use xsched_daemon::{Daemon, Settings};
use xsched_policies::Any;

/// For how long the daemon's threads have time to answer.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// The policy at first, instead of that of the configuration file, or else `hpf`.
    #[arg(long, value_name = "NAME")]
    policy: Option<Any>,
    /// The configuration file; by default `/etc/xsched/xschedd.toml`, or with `--user`
    /// `xsched/xschedd.toml` below `$XDG_CONFIG_HOME`, if that is there.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Answer scrapes for metrics at a loopback address, as in `127.0.0.1:9464`, or a socket,
    /// `unix:PATH`, instead of where the configuration file says.
    #[arg(long, value_name = "PLACE")]
    metrics: Option<Place>,
    /// Print the manual page.
    #[arg(long, hide = true)]
    man: bool,
}

impl Args {
    /// Where the configuration comes from.
    fn source(&self) -> Source {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let default = || {
            if !self.user {
                return Some("/etc/xsched/xschedd.toml".into());
            }
            let home = || set("HOME").map(|home| PathBuf::from(home).join(".config"));
            let folder = set("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
            Some(folder.join("xsched/xschedd.toml"))
        };
        Source {
            file: self.config.clone().or_else(default),
            is_optional: self.config.is_none(),
            policy: self.policy.as_ref().map(|policy| policy.name().to_owned()),
            socket: self.socket.clone(),
            metrics: self.metrics.clone(),
            grants: None,
        }
    }

    fn socket(&self, config: &Config) -> Result<PathBuf, String> {
        if let Some(socket) = &config.socket.path {
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

/// Where grants are kept: in the folder that systemd gives, or else beside the socket.
fn grants(socket: &Path) -> PathBuf {
    let folder = std::env::var_os("RUNTIME_DIRECTORY").filter(|folder| !folder.is_empty());
    let beside = || socket.with_extension("grants");
    folder.map_or_else(beside, |folder| PathBuf::from(folder).join("grants"))
}

/// Each process needs some file descriptors, and more than the usual 1,024 are allowed if wanted.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The signals that come, from a thread of their own.
fn signals() -> io::Result<Receiver<i32>> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (sender, receiver) = channel();
    let forward = move || signals.forever().try_for_each(|signal| sender.send(signal));
    thread::Builder::new().name("signals".to_owned()).spawn(forward)?;
    Ok(receiver)
}

/// Has the configuration be read again.
fn reload(daemon: &Daemon) -> Result<(), String> {
    let read = daemon.reload();
    if let Err(error) = &read {
        tracing::error!("{error}; what counted before counts on");
    }
    read
}

/// Keeps systemd informed until a signal comes that ends the daemon.
fn serve(daemon: &Daemon, service: &mut Service, signals: &Receiver<i32>) -> Option<i32> {
    let mut next = Instant::now();
    loop {
        let signal = match service.interval() {
            None => signals.recv().ok()?,
            Some(interval) => {
                match signals.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Ok(signal) => signal,
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {
                        next = Instant::now() + interval;
                        service.alive(daemon.check(interval.min(PATIENCE)).as_ref());
                        continue;
                    }
                }
            }
        };
        match signal {
            SIGHUP => {
                service.reload(|| reload(daemon));
                next = Instant::now();
            }
            signal => return Some(signal),
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    if args.man {
        let page = clap_mangen::Man::new(Args::command()).section("8");
        return Ok(page.render(&mut io::stdout())?);
    }
    // Before there are threads.
    let handed_over = systemd::listener()?;
    let mut source = args.source();
    if let Some((_, path)) = &handed_over {
        source.socket = Some(path.clone());
    }
    let config = source.read()?;
    let socket = args.socket(&config)?;
    source.grants = Some(grants(&socket));
    let policy = config.policy.name.parse()?;
    raise_limit();
    let settings = Settings { socket, policy, is_open: !args.user };
    let signals = signals()?;
    let drivers = Some(Drivers::here as fn() -> Drivers);
    let daemon = match handed_over {
        Some((listener, _)) => Daemon::start_with(listener, &settings, config, source, drivers)?,
        None => Daemon::start_watching(&settings, config, source, drivers)?,
    };
    tracing::info!(socket = %settings.socket.display(), "xschedd listens");
    let mut service = Service::from_env();
    service.ready();
    let signal = serve(&daemon, &mut service, &signals);
    service.stopping();
    tracing::info!(?signal, "xschedd ends; all processes run on");
    drop(daemon);
    Ok(())
}

fn main() -> ExitCode {
    let log: &'static Log = match Log::start(io::stderr()) {
        Ok(log) => Box::leak(Box::new(log)),
        Err(_) => return ExitCode::FAILURE,
    };
    log.end_on_panic();
    tracing_subscriber::fmt().with_writer(move || log).without_time().init();
    let ended = run();
    if let Err(error) = &ended {
        let _ = writeln!(&mut &*log, "error: {error}");
    }
    log.flush_all();
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
