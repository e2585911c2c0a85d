//! The socket at which the daemon listens.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use xsched_node::Wire;

use super::DaemonError;
use crate::config::Config;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// For how long another daemon at the socket is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// A socket of the daemon's own.
pub(super) fn open_socket(
    path: &Path,
    is_open: bool,
    config: &Config,
) -> Result<OwnedFd, DaemonError> {
    let failed = |source: io::Error| DaemonError::Listen { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        let mode = if is_open { 0o755 } else { 0o700 };
        fs::DirBuilder::new().recursive(true).mode(mode).create(folder).map_err(failed)?;
    }
    if Wire::connect(path, PATIENCE).is_ok() {
        return Err(DaemonError::Running(path.to_owned()));
    }
    // That of a daemon that was killed. Anything else stays, and then the bind says so.
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        let _ = fs::remove_file(path);
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let made = || -> io::Result<OwnedFd> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Before a process can connect.
        set_access(path, is_open, config)?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    made().map_err(failed)
}

/// Gives the socket the mode and the group of the configuration, or else a mode that lets all users
/// connect or one.
pub(super) fn set_access(path: &Path, is_open: bool, config: &Config) -> io::Result<()> {
    if let Some(gid) = config.socket.gid {
        std::os::unix::fs::chown(path, None, Some(gid))?;
    }
    let mode = config.socket.mode.unwrap_or(if is_open { 0o666 } else { 0o600 });
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
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
