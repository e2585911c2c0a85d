//! Unix sockets at paths: made where nothing else is, and removed by their owner alone.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, OFlags, chownat, flock, open};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Time for a process to end that was just killed, before it counts as one that lives. A start that
/// is refused takes this time, and no other.
const KILLED_WITHIN: Duration = Duration::from_millis(500);

/// Why a path cannot be listened at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another process listens there, or is about to.
    #[error("another process listens there; stop it, or choose another path")]
    Taken,
    /// File of another kind at the path.
    #[error("there is a file that is no socket, and it stays; choose another path")]
    NotASocket,
    /// Others could replace the socket.
    #[error(
        "{} is not safe: it has to belong to root or to this user, and no other may write to it; \
         choose another folder, or change its owner and mode", .0.display()
    )]
    Folder(PathBuf),
    /// The socket was removed, or another is in its place.
    #[error("the socket there is another one than this daemon made; restart it")]
    Replaced,
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for ListenError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

/// Mode and group of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) mode: u32,
    pub(crate) gid: Option<u32>,
}

/// Path of a socket that this process listens at. The socket is removed with it.
#[derive(Debug)]
pub(crate) struct BoundPath {
    path: PathBuf,
    /// Device and inode of the socket.
    id: (u64, u64),
    /// Locked as long as this process listens there.
    _lock: File,
}

impl BoundPath {
    /// Listens at a path, which no other process of this kind does then.
    ///
    /// # Errors
    /// [`ListenError`]. Nothing was changed then but for a socket that no process listens at.
    pub(crate) fn listen(
        path: &Path,
        kind: SocketType,
        access: Access,
    ) -> Result<(OwnedFd, Self), ListenError> {
        check(path)?;
        let _starting = lock(beside(path, ".lock"))?;
        let lock = lock_for_life(beside(path, ".pid"))?;
        remove_unused(path, kind)?;
        let socket = new_socket(kind)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let bound = Self { path: path.to_owned(), id: id(path)?, _lock: lock };
        // Before a process can connect.
        bound.set_access(access)?;
        listen(&socket, BACKLOG)?;
        Ok((socket, bound))
    }

    /// Sets who may connect.
    ///
    /// # Errors
    /// [`ListenError::Replaced`] and [`ListenError::System`].
    pub(crate) fn set_access(&self, access: Access) -> Result<(), ListenError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match open(&self.path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Err(ListenError::Replaced),
            opened => File::from(opened?),
        };
        let about = file.metadata()?;
        if (about.dev(), about.ino()) != self.id {
            return Err(ListenError::Replaced);
        }
        if let Some(gid) = access.gid {
            chownat(&file, "", None, Some(Gid::from_raw(gid)), AtFlags::EMPTY_PATH)?;
        }
        // Linux changes no mode by a descriptor like this, but by its name.
        let by_name = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(fs::set_permissions(by_name, fs::Permissions::from_mode(access.mode))?)
    }

    /// Removes the socket, if it still is the one that this process made.
    pub(crate) fn remove(&self) {
        if id(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for BoundPath {
    fn drop(&mut self) {
        self.remove();
    }
}

fn id(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|about| (about.dev(), about.ino()))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the folder of a path with this mode, whatever the umask, if there is none.
pub(crate) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    let folder = folder(path);
    if folder.exists() {
        return Ok(());
    }
    make_folder(folder, mode)?;
    match fs::DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| fs::set_permissions(folder, fs::Permissions::from_mode(mode))),
    }
}

/// Why a daemon could not listen at a path, whether one does now or not. Changes nothing.
///
/// # Errors
/// [`ListenError::Folder`], [`ListenError::NotASocket`] and [`ListenError::System`].
pub(crate) fn check(path: &Path) -> Result<(), ListenError> {
    SocketAddrUnix::new(path)?;
    let folder = folder(path);
    let about = fs::metadata(folder)?;
    let own_uid = rustix::process::geteuid().as_raw();
    let is_sticky = about.mode() & 0o1000 != 0;
    let is_written = about.mode() & 0o022 != 0 && !is_sticky;
    if ![0, own_uid].contains(&about.uid()) || is_written {
        return Err(ListenError::Folder(folder.to_owned()));
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
        Ok(about) if about.file_type().is_socket() => Ok(()),
        Ok(_) => Err(ListenError::NotASocket),
    }
}

/// As [`check`], of what this process may see and a start would not make.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_seen(path: &Path) -> Result<(), ListenError> {
    use io::ErrorKind::{NotFound, PermissionDenied};
    match check(path) {
        Err(ListenError::System(error)) if matches!(error.kind(), NotFound | PermissionDenied) => {
            Ok(())
        }
        checked => checked,
    }
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut file = path.to_owned().into_os_string();
    file.push(end);
    file.into()
}

/// A file that may be locked, open either way.
enum Lock {
    /// File that this process has locked.
    Own(File),
    /// File that another process has locked.
    Others(File),
}

/// Opens a file, and locks it if no other process has.
fn try_to_lock(file: &Path) -> Result<Lock, ListenError> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = open(file, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(Lock::Others(file.into())),
        locked => Ok(locked.map(|()| Lock::Own(file.into()))?),
    }
}

/// Locks a file while a process starts to listen. It stays: it could not be removed without a race.
fn lock(file: PathBuf) -> Result<File, ListenError> {
    match try_to_lock(&file)? {
        Lock::Others(_) => Err(ListenError::Taken),
        Lock::Own(lock) => Ok(lock),
    }
}

/// Locks a file that names this process, as long as it lives.
///
/// A process that was killed keeps its lock until all of its threads have ended, and one of them
/// may wait in a close for what a user serves. Its file is replaced, while no other process starts.
fn lock_for_life(file: PathBuf) -> Result<File, ListenError> {
    let begin = Instant::now();
    loop {
        let mut others = match try_to_lock(&file)? {
            Lock::Own(mut lock) => {
                lock.set_len(0)?;
                writeln!(lock, "{}", std::process::id())?;
                return Ok(lock);
            }
            Lock::Others(lock) => lock,
        };
        let mut text = String::new();
        others.read_to_string(&mut text)?;
        if text.trim().parse().is_ok_and(is_killed) {
            fs::remove_file(&file)?;
        } else if begin.elapsed() > KILLED_WITHIN {
            return Err(ListenError::Taken);
        } else {
            thread::sleep(KILLED_WITHIN / 50);
        }
    }
}

/// Returns whether a process does nothing any more but for threads that cannot be killed.
fn is_killed(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state comes behind the name, which may have parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Removes the socket of a process that was killed.
fn remove_unused(path: &Path, kind: SocketType) -> Result<(), ListenError> {
    let socket = new_socket(kind)?;
    let listener = |socket| socket_peercred(socket).map(|peer| peer.pid.as_raw_nonzero().get());
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::NOENT) => Ok(()),
        Ok(()) if listener(&socket).is_ok_and(is_killed) => Ok(fs::remove_file(path)?),
        Err(Errno::CONNREFUSED) => Ok(fs::remove_file(path)?),
        // A full queue is one as well, and a socket of another kind.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Err(ListenError::Taken),
        Err(errno) => Err(errno.into()),
    }
}

fn new_socket(kind: SocketType) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, kind, flags, None)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    const OPEN: Access = Access { mode: 0o666, gid: None };

    fn listened(path: &Path) -> Result<(OwnedFd, BoundPath), ListenError> {
        BoundPath::listen(path, SocketType::SEQPACKET, OPEN)
    }

    #[test]
    fn nothing_but_an_unused_socket_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        fs::write(&path, b"precious").expect("a file");
        assert!(matches!(listened(&path), Err(ListenError::NotASocket)));
        let link = folder.path().join("link");
        symlink(&path, &link).expect("a link");
        assert!(matches!(listened(&link), Err(ListenError::NotASocket)));
        assert_eq!(fs::read(&path).expect("it is there"), b"precious");
        fs::remove_file(&path).expect("it is there");
        let other = UnixListener::bind(&path).expect("a socket");
        assert!(matches!(listened(&path), Err(ListenError::Taken)));
        drop(other);
        let (_socket, bound) = listened(&path).expect("it is unused");
        assert!(matches!(listened(&path), Err(ListenError::Taken)));
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_is_locked_by_one_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("lock");
        let own = try_to_lock(&file).expect("it opens");
        assert!(matches!(own, Lock::Own(_)));
        assert!(matches!(try_to_lock(&file), Ok(Lock::Others(_))));
        assert!(matches!(lock(file.clone()), Err(ListenError::Taken)));
        drop(own);
        assert!(matches!(try_to_lock(&file), Ok(Lock::Own(_))));
    }

    #[test]
    fn a_socket_that_replaced_it_stays_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        let (_socket, bound) = listened(&path).expect("it is free");
        assert_eq!(mode(&path), 0o666);
        bound.set_access(Access { mode: 0o600, gid: None }).expect("it is there");
        assert_eq!(mode(&path), 0o600);
        fs::remove_file(&path).expect("it is there");
        assert!(matches!(bound.set_access(OPEN), Err(ListenError::Replaced)));
        let secret = folder.path().join("secret");
        fs::write(&secret, b"").expect("a file");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("a mode");
        symlink(&secret, &path).expect("a link");
        assert!(matches!(bound.set_access(OPEN), Err(ListenError::Replaced)));
        assert_eq!(mode(&secret), 0o600);
        fs::remove_file(&path).expect("it is there");
        let _other = UnixListener::bind(&path).expect("a socket");
        drop(bound);
        assert!(path.exists());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below/further/socket");
        make_folder(&path, 0o755).expect("a folder");
        let below = path.parent().expect("a folder");
        assert_eq!(fs::metadata(below).expect("it is there").mode() & 0o777, 0o755);
        for (mode, is_safe) in [(0o775, false), (0o757, false), (0o1777, true), (0o700, true)] {
            fs::set_permissions(below, fs::Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(check(&path).is_ok(), is_safe, "{mode:o}");
        }
    }
}
