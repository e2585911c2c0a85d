//! A daemon that runs: its threads, its start and its end.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketType;
use xsched_policies::Any;

use super::manage::{warn_of_missing_hint, warn_of_unused_shares};
use super::{CHECK, Control, LISTENER, RELOAD, Reload, STOP};
use crate::closer::Closer;
use crate::config::{Config, Source};
use crate::grants::{GrantError, Grants};
use crate::listen::{self, BoundPath, ListenError, make_folder};
use crate::liveness::{Check, Summary, check, join};
use crate::metrics::{MetricsError, Place};
use crate::scheduler::{Driver, Op};
use crate::scheduler_client::SchedulerClient;
use crate::subordinates::Subordinates;
use crate::waker::new_eventfd;
use crate::watch::{Drivers, Watched};
/// How the daemon is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub socket: PathBuf,
    /// The policy at first.
    pub policy: Any,
    /// All users may connect, and not its own alone.
    pub is_open: bool,
}

/// Why the daemon does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The socket cannot be had.
    #[error("cannot listen at {}: {source}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        source: ListenError,
    },
    /// Daemon that runs at this socket already.
    #[error("another daemon listens at {}; stop it, or choose another socket", .0.display())]
    Running(PathBuf),
    /// Scrapes for metrics cannot be answered.
    #[error("metrics: {0}")]
    Metrics(#[from] MetricsError),
    /// Grants that are kept cannot be read.
    #[error(transparent)]
    Grants(#[from] GrantError),
    /// The system refuses a thread or a file descriptor.
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}

impl From<Errno> for DaemonError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

/// A daemon that runs. Dropped, it ends: all gates open, and the socket goes.
#[derive(Debug)]
pub struct Daemon {
    stop: Arc<OwnedFd>,
    scheduler: SchedulerClient,
    threads: Vec<JoinHandle<()>>,
    /// Of the socket that goes with the daemon.
    path: Option<Arc<BoundPath>>,
    reload: Arc<OwnedFd>,
    reloads: Sender<Reload>,
    check: Check,
}

impl Daemon {
    /// Starts both threads.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start(settings: &Settings) -> Result<Self, DaemonError> {
        Self::start_with_config(settings, Config::default(), Source::default())
    }

    /// Starts both threads with a configuration, and where it can be read again. The socket's path
    /// and the policy are those of the settings. No driver is asked what runs past the daemon.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start_with_config(
        settings: &Settings,
        config: Config,
        source: Source,
    ) -> Result<Self, DaemonError> {
        Self::start_watching(settings, config, source, None)
    }

    /// As [`Daemon::start_with_config`], and asks drivers what runs past the daemon, if the
    /// configuration has it do so.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start_watching(
        settings: &Settings,
        config: Config,
        source: Source,
        drivers: Option<fn() -> Drivers>,
    ) -> Result<Self, DaemonError> {
        let (path, is_open) = (&settings.socket, settings.is_open);
        let failed = |source| match source {
            ListenError::Taken => DaemonError::Running(path.clone()),
            source => DaemonError::Listen { path: path.clone(), source },
        };
        let folder_mode = if is_open { 0o755 } else { 0o700 };
        make_folder(path, folder_mode).map_err(|error| failed(error.into()))?;
        let bound = BoundPath::listen(path, SocketType::SEQPACKET, config.socket.access(is_open));
        let (listener, path) = bound.map_err(failed)?;
        Self::start_at(listener, Some(path), settings, config, source, drivers)
    }

    /// As [`Daemon::start_watching`], with a socket that listens already, does not block, and stays
    /// as it is.
    ///
    /// # Errors
    /// [`DaemonError`].
    pub fn start_with(
        listener: OwnedFd,
        settings: &Settings,
        config: Config,
        source: Source,
        drivers: Option<fn() -> Drivers>,
    ) -> Result<Self, DaemonError> {
        warn_of_access(&config);
        Self::start_at(listener, None, settings, config, source, drivers)
    }

    /// A socket of the daemon's own goes with it.
    fn start_at(
        listener: OwnedFd,
        path: Option<BoundPath>,
        settings: &Settings,
        config: Config,
        source: Source,
        drivers: Option<fn() -> Drivers>,
    ) -> Result<Self, DaemonError> {
        warn_of_missing_hint(&settings.policy);
        warn_of_unused_shares(&settings.policy, &config);
        let (ops, taken) = channel();
        let path = path.map(Arc::new);
        let mut driver = Driver::new(settings.policy.clone(), config.tuning(), taken)?;
        driver
            .set_hints(config.policy.hints_of(&settings.policy), xsched_core::time::Instant::ZERO);
        let scheduler = SchedulerClient::new(ops, driver.waker());
        let stop = Arc::new(new_eventfd()?);
        let (check, checked) = check()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &*stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let reload = Arc::new(new_eventfd()?);
        epoll::add(&epoll, &*reload, EventData::new_u64(RELOAD), EventFlags::IN)?;
        let (reloads, asked) = channel();
        epoll::add(&epoll, checked.wake(), EventData::new_u64(CHECK), EventFlags::IN)?;
        let mut control = Control {
            listener,
            epoll,
            peers: HashMap::new(),
            users: HashMap::new(),
            subordinates: Subordinates::of_machine(),
            closer: Closer::default(),
            pages: 0,
            next: CHECK + 1,
            scheduler: scheduler.clone(),
            watched: Watched::default(),
            metrics: None,
            watch: None,
            drivers,
            spare: Some(new_eventfd()?),
            paused: None,
            is_open: settings.is_open,
            config,
            grants: Grants::kept_in(source.grants.clone())?,
            looked: Instant::now(),
            source,
            socket: settings.socket.clone(),
            path: path.clone(),
            policy_by: None,
            drained: None,
            reload: Arc::clone(&reload),
            reloads: asked,
            checked,
            pulse: driver.pulse(),
        };
        control.begin_to_tell()?;
        let driver = thread::Builder::new().name("scheduler".to_owned()).spawn(|| driver.run())?;
        let control = thread::Builder::new().name("control".to_owned()).spawn(|| control.run())?;
        let threads = vec![control, driver];
        Ok(Self { stop, scheduler, threads, path, reload, reloads, check })
    }

    /// Checks what a start with this configuration would refuse of the paths that it listens at,
    /// whether a daemon runs or not. Paths that this process may not see are not checked.
    ///
    /// # Errors
    /// [`DaemonError::Listen`] and [`DaemonError::Metrics`].
    pub fn check_paths(config: &Config) -> Result<(), DaemonError> {
        let socket = config.socket.path.as_ref();
        if let Some(path) = socket {
            let wrong = |source| DaemonError::Listen { path: path.clone(), source };
            listen::check_seen(path).map_err(wrong)?;
        }
        if let Some(Place::Unix(path)) = &config.metrics {
            let checked = match socket {
                Some(socket) if socket == path => Err(ListenError::Taken),
                _ => listen::check_seen(path),
            };
            let wrong = |source| MetricsError::Listen { path: path.clone(), source };
            checked.map_err(wrong)?;
        }
        Ok(())
    }

    /// Reads the configuration again, whole or not at all.
    ///
    /// # Errors
    /// What is wrong with the file, with the line. What counted before counts on.
    pub fn reload(&self) -> Result<(), String> {
        let (answer, answered) = channel();
        let ended = |_| "the daemon has ended".to_owned();
        self.reloads.send(answer).map_err(|error| ended(error.to_string()))?;
        let _ = rustix::io::write(&self.reload, &1_u64.to_ne_bytes());
        answered.recv().map_err(|error| ended(error.to_string()))?
    }

    /// Returns the daemon's state in short; `None` if one of its threads does not answer in time.
    #[must_use]
    pub fn check(&self, patience: Duration) -> Option<Summary> {
        self.check.ask(patience)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.path.iter().for_each(|path| path.remove());
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        // Its thread opens all gates, also if that of the connections does not end.
        self.scheduler.send(Op::End);
        self.threads.drain(..).for_each(join);
    }
}

/// Says that a socket which stays as it is does not get what the configuration says.
pub(super) fn warn_of_access(config: &Config) {
    if config.socket.mode.is_some() || config.socket.gid.is_some() {
        tracing::warn!(
            "systemd made the socket, so mode and group in [socket] have no effect; set \
             SocketMode= and SocketGroup= of xschedd.socket"
        );
    }
}
