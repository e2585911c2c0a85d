//! Where a daemon may listen.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wire::{NodeError, Wire};

/// Paths where a daemon may listen, the preferred one first. Each attempt to connect looks at all
/// of them, so that a process finds a daemon that was started after it.
///
/// ```
/// use std::path::Path;
/// use xsched_node::SocketPath;
///
/// let at = SocketPath::from(Path::new("/run/xsched/socket"));
/// assert_eq!(at.to_string(), "/run/xsched/socket");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPath(Vec<PathBuf>);

impl SocketPath {
    /// The path that `XSCHED_SOCKET` says, or else `xsched/socket` below `$XDG_RUNTIME_DIR`, if
    /// that is set, and `/run/xsched/socket`.
    #[must_use]
    pub fn from_env() -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(path) = set("XSCHED_SOCKET") {
            return Self(vec![path.into()]);
        }
        let of_user = set("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("xsched/socket"));
        Self::any_of(of_user.into_iter().chain(["/run/xsched/socket".into()]))
    }

    /// Takes several paths, the preferred one first, and each once.
    #[must_use]
    pub fn any_of(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut all = Vec::new();
        for path in paths {
            if !all.contains(&path) {
                all.push(path);
            }
        }
        Self(all)
    }

    /// The first path at which there is something, or else the last.
    #[must_use]
    pub fn found(&self) -> PathBuf {
        let there = self.0.iter().find(|path| path.exists());
        there.or(self.0.last()).cloned().unwrap_or_default()
    }

    /// Connects to the daemon at the first path at which one listens.
    ///
    /// # Errors
    /// As [`Wire::connect`], at the path that is [found](Self::found).
    pub fn connect(&self, patience: Duration) -> Result<Wire, NodeError> {
        let found = self.found();
        Wire::connect(&found, patience).or_else(|error| {
            let others = self.0.iter().filter(|path| **path != found);
            others.filter_map(|path| Wire::connect(path, patience).ok()).next().ok_or(error)
        })
    }

    /// Connects, and asks something that may be asked twice: once more if the daemon closes the
    /// connection without an answer, as one does that is restarted.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and what `ask` fails with.
    pub fn ask<R>(
        &self,
        patience: Duration,
        ask: impl Fn(&Wire) -> Result<R, NodeError>,
    ) -> Result<R, NodeError> {
        ask(&self.connect(patience)?).or_else(|error| match error {
            NodeError::Closed => ask(&self.connect(patience)?),
            NodeError::Socket(error) if error.kind() == ErrorKind::ConnectionReset => {
                ask(&self.connect(patience)?)
            }
            error => Err(error),
        })
    }
}

impl From<PathBuf> for SocketPath {
    /// Takes this path alone.
    fn from(path: PathBuf) -> Self {
        Self(vec![path])
    }
}

impl From<&Path> for SocketPath {
    /// Takes this path alone.
    fn from(path: &Path) -> Self {
        Self(vec![path.to_owned()])
    }
}

impl fmt::Display for SocketPath {
    /// All paths, with `or` between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, path) in self.0.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { " or " }, path.display())?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_said_twice_is_one() {
        let paths = ["/run/a", "/run/b", "/run/a"].map(PathBuf::from);
        assert_eq!(SocketPath::any_of(paths).to_string(), "/run/a or /run/b");
    }

    #[test]
    fn what_is_wrong_with_a_socket_is_said_beside_its_path_and_does_not_name_it_again() {
        let at = Path::new("/nowhere/xschedd");
        let error = SocketPath::from(at).connect(Duration::from_secs(1)).expect_err("no daemon");
        let said = format!("xschedd at {}: {error}", at.display());
        assert!(!error.to_string().contains("socket"), "{said}");
    }
}
