//! The daemon as a service of systemd: the socket that it gets, and what it says of itself.
//!
//! Without systemd, that is without the variables that it sets, all of this does nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use listenfd::ListenFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname, sockopt};
use sd_notify::NotifyState;

use crate::Summary;

/// How often the daemon says how many processes there are, if systemd does not watch it.
const INTERVAL: Duration = Duration::from_secs(10);
/// Messages that the daemon is alive, in the time after which systemd would end it.
const PER_WATCHDOG: u32 = 3;

/// Why the daemon does not take what systemd hands over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemdError {
    /// Number of sockets other than one.
    #[error(
        "systemd hands over `{0}` sockets, and xschedd takes one: xschedd.socket needs one \
         ListenSequentialPacket= and nothing else that listens"
    )]
    Number(String),
    /// Socket of another kind.
    #[error(
        "what systemd hands over is no Unix socket for sequenced packets that listens ({0}): \
         xschedd.socket needs ListenSequentialPacket= and Accept=no"
    )]
    Kind(String),
    /// The system refuses something.
    #[error("the system refuses to use the socket that systemd hands over: {0}")]
    System(#[from] io::Error),
}

/// The socket that systemd hands over, with its path.
///
/// Call it before the program has threads: it removes the variables that say so, and a second call
/// finds nothing.
///
/// # Errors
/// [`SystemdError`]. The socket is left alone then.
pub fn listener() -> Result<Option<(OwnedFd, PathBuf)>, SystemdError> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    if variable("LISTEN_PID") != std::process::id().to_string() {
        return Ok(None);
    }
    let number = variable("LISTEN_FDS");
    if number != "1" {
        return Err(SystemdError::Number(number));
    }
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (family, kind) = (i32::from(family.as_raw()), kind.as_raw() as i32);
    let socket = ListenFd::from_env()
        .take_custom::<OwnedFd>(0, family, kind, "Unix socket for sequenced packets")
        .map_err(|error| SystemdError::Kind(error.to_string()))?;
    let socket = socket.ok_or(SystemdError::Number(number))?;
    if !sockopt::socket_acceptconn(&socket).map_err(io::Error::from)? {
        return Err(SystemdError::Kind("it does not listen".to_owned()));
    }
    // A connection that has gone by the time it is accepted must not block the thread.
    rustix::io::ioctl_fionbio(&socket, true).map_err(io::Error::from)?;
    let address = getsockname(&socket).map_err(io::Error::from)?;
    let address = SocketAddrUnix::try_from(address).map_err(io::Error::from)?;
    let path = address.path_bytes().unwrap_or_default().to_vec();
    Ok(Some((socket, std::ffi::OsString::from_vec(path).into())))
}

/// Notifications of the daemon to systemd.
#[derive(Debug)]
pub struct Service {
    is_there: bool,
    watchdog: Option<Duration>,
    status: String,
    /// Why the configuration was not read again at last.
    trouble: Option<String>,
}

impl Service {
    /// As the environment says: a service of systemd with `Type=notify`, with or without a
    /// watchdog, or none.
    #[must_use]
    pub fn from_env() -> Self {
        let is_there = std::env::var_os("NOTIFY_SOCKET").is_some();
        let watchdog = sd_notify::watchdog_enabled().filter(|_| is_there);
        Self { is_there, watchdog, status: String::new(), trouble: None }
    }

    /// How often [`Service::alive`] is to be called; never if there is none.
    #[must_use]
    pub fn interval(&self) -> Option<Duration> {
        let interval = self.watchdog.map_or(INTERVAL, |watchdog| watchdog / PER_WATCHDOG);
        self.is_there.then(|| interval.max(Duration::from_millis(1)))
    }

    /// The daemon listens.
    pub fn ready(&self) {
        self.say(&[NotifyState::Ready]);
    }

    /// The daemon has been asked, and has answered this. Without an answer systemd is told nothing,
    /// and ends a daemon that stays silent.
    pub fn alive(&mut self, summary: Option<&Summary>) {
        let Some(Summary { processes, policy }) = summary else {
            tracing::warn!("a thread of the daemon does not answer");
            return;
        };
        let trouble = self.trouble.iter().map(|why| format!("; configuration not read: {why}"));
        let trouble: String = trouble.collect();
        let status = format!("policy {policy}, processes: {processes}{trouble}");
        if status != self.status {
            self.say(&[NotifyState::Status(&status)]);
            self.status = status;
        }
        if self.watchdog.is_some() {
            self.say(&[NotifyState::Watchdog]);
        }
    }

    /// Has the configuration be read again, and says so meanwhile. Why it was not read stands in
    /// the status until it is.
    pub fn reload(&mut self, read: impl FnOnce() -> Result<(), String>) {
        // With `Type=notify-reload` systemd waits for a message that is later than its signal.
        let now = NotifyState::monotonic_usec_now();
        self.say(&[NotifyState::Reloading].into_iter().chain(now.ok()).collect::<Vec<_>>());
        self.trouble = read().err();
        self.ready();
    }

    /// The daemon ends.
    pub fn stopping(&self) {
        self.say(&[NotifyState::Stopping]);
    }

    fn say(&self, states: &[NotifyState<'_>]) {
        if let Err(error) = sd_notify::notify(states) {
            tracing::warn!(%error, "systemd cannot be told how the daemon is");
        }
    }
}
