//! Where scrapes are answered.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;

/// Where scrapes are answered: `127.0.0.1:9464`, another port of this machine alone, or
/// `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A port of the loopback interface.
    Loopback(SocketAddr),
    /// A socket in the file system, for the daemon's user and group.
    Unix(PathBuf),
}

/// Why scrapes are not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// The text names no place.
    #[error("`{0}` is no place for metrics; it can be 127.0.0.1:9464 or unix:/run/xsched/metrics")]
    Place(String),
    /// Other machines could ask.
    #[error(
        "{0} can be reached from other machines; use a loopback address, and a proxy for those"
    )]
    NotLoopback(SocketAddr),
    /// Another process listens there.
    #[error("another process listens at {}; choose another place", .0.display())]
    Taken(PathBuf),
    /// The system refuses.
    #[error("cannot answer scrapes: {0}")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for MetricsError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::System(errno.into())
    }
}

impl FromStr for Place {
    type Err = MetricsError;

    fn from_str(text: &str) -> Result<Self, MetricsError> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let address = text.parse::<SocketAddr>().map_err(|_| MetricsError::Place(text.into()))?;
        if address.ip().is_loopback() {
            Ok(Self::Loopback(address))
        } else {
            Err(MetricsError::NotLoopback(address))
        }
    }
}

/// What is listened at. A path goes with it.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    pub(super) is_tcp: bool,
    path: Option<PathBuf>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

impl Place {
    /// Listens.
    ///
    /// # Errors
    /// [`MetricsError::NotLoopback`], [`MetricsError::Taken`] and [`MetricsError::System`].
    pub(super) fn listen(&self) -> Result<Listener, MetricsError> {
        match self {
            Self::Loopback(address) if !address.ip().is_loopback() => {
                Err(MetricsError::NotLoopback(*address))
            }
            Self::Loopback(address) => {
                let socket = TcpListener::bind(address)?;
                socket.set_nonblocking(true)?;
                Ok(Listener { socket: socket.into(), is_tcp: true, path: None })
            }
            Self::Unix(path) => {
                if UnixStream::connect(path).is_ok() {
                    return Err(MetricsError::Taken(path.clone()));
                }
                // That of a daemon that was killed.
                let _ = fs::remove_file(path);
                let socket = UnixListener::bind(path)?;
                socket.set_nonblocking(true)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
                Ok(Listener { socket: socket.into(), is_tcp: false, path: Some(path.clone()) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_of_this_machine_alone() {
        for text in ["127.0.0.1:9464", "127.1.2.3:1", "[::1]:9464"] {
            assert!(matches!(text.parse(), Ok(Place::Loopback(_))), "{text}");
        }
        let unix = "unix:/run/m".parse::<Place>().expect("a place");
        assert_eq!(unix, Place::Unix("/run/m".into()));
        for text in ["0.0.0.0:9464", "[::]:1", "10.0.0.1:1"] {
            let refused = text.parse::<Place>();
            assert!(matches!(refused, Err(MetricsError::NotLoopback(_))), "{text}: {refused:?}");
        }
        for text in ["", "9464", "unix:", "/run/m", "localhost:1"] {
            let refused = text.parse::<Place>();
            assert!(matches!(refused, Err(MetricsError::Place(_))), "{text}: {refused:?}");
        }
    }
}
