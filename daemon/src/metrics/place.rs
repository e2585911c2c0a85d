//! Where scrapes are answered.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;

use rustix::net::SocketType;

use crate::listen::{Access, BoundPath, ListenError};

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
    /// The path cannot be listened at.
    #[error("cannot answer scrapes at {}: {source}", path.display())]
    Listen {
        /// The path.
        path: PathBuf,
        /// Why.
        source: ListenError,
    },
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

/// Socket that is listened at, and its path if it has one.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: OwnedFd,
    pub(super) is_tcp: bool,
    _path: Option<BoundPath>,
}

impl Place {
    /// Listens.
    ///
    /// # Errors
    /// [`MetricsError::NotLoopback`], [`MetricsError::Listen`] and [`MetricsError::System`].
    pub(super) fn listen(&self) -> Result<Listener, MetricsError> {
        match self {
            Self::Loopback(address) if !address.ip().is_loopback() => {
                Err(MetricsError::NotLoopback(*address))
            }
            Self::Loopback(address) => {
                let socket = TcpListener::bind(address)?;
                socket.set_nonblocking(true)?;
                Ok(Listener { socket: socket.into(), is_tcp: true, _path: None })
            }
            Self::Unix(path) => {
                let access = Access { mode: 0o660, gid: None };
                let bound = BoundPath::listen(path, SocketType::STREAM, access);
                let failed = |source| MetricsError::Listen { path: path.clone(), source };
                let (socket, path) = bound.map_err(failed)?;
                Ok(Listener { socket, is_tcp: false, _path: Some(path) })
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
