//! Sockets in folders of the kubelet.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;

/// Why the kubelet cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A socket cannot be made.
    #[error("{}: {source}; run as root, with the kubelet's folder", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Problem.
        source: io::Error,
    },
    /// A server ended.
    #[error("a server for the kubelet ended: {0}")]
    Server(#[from] tonic::transport::Error),
}

/// A socket that is served, and goes with this.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    file: Option<File>,
}

/// A file, which another of its path is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    device: u64,
    inode: u64,
    /// A number is used again.
    changed: (i64, i64),
}

impl File {
    /// The file that is there now.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        let about = fs::symlink_metadata(path).ok()?;
        let changed = (about.ctime(), about.ctime_nsec());
        Some(Self { device: about.dev(), inode: about.ino(), changed })
    }
}

impl Socket {
    /// Listens at a path, instead of an earlier run that may have left its socket there.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn bind(path: &Path) -> io::Result<(Self, UnixListenerStream)> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if fs::symlink_metadata(path).is_ok_and(|about| about.file_type().is_socket()) {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let socket = Self { path: path.to_owned(), file: File::at(path) };
        Ok((socket, UnixListenerStream::new(listener)))
    }

    /// False once another process has removed it, as a kubelet that starts does.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.file.is_some() && File::at(&self.path) == self.file
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_takes_the_place_of_an_old_one_and_of_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/b.sock");
        let (first, _listener) = Socket::bind(&path).expect("there is none");
        let (second, _listener) = Socket::bind(&path).expect("the other is replaced");
        assert!(!first.is_there() && second.is_there());
        drop(first);
        assert!(second.is_there());
        drop(second);
        assert!(!path.exists());
        fs::write(&path, "text").expect("a file");
        assert!(Socket::bind(&path).is_err() && path.exists());
    }
}
