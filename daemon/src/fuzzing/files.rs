//! Configuration files with and without limits, and descriptors whose close waits. None of these
//! files is on a disk.

use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size, set_socket_send_buffer_size,
};

use super::bytes::Bytes;

/// For how long a close waits.
const LINGER: Duration = Duration::from_secs(6);
const BUFFER_BYTES: usize = 4_096;

/// Kinds of files that have no limits, but for their text.
const FAULTS: usize = 7;

/// A file to read a configuration from.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    /// Descriptor that keeps the file.
    _file: Option<OwnedFd>,
    /// The highest priority of all processes but those of one user.
    pub(super) priority_max: Option<i32>,
}

impl ConfigFile {
    /// A file with limits of all but a user.
    pub(super) fn limited(priority_max: i32, free_uid: u32) -> Self {
        let text = format!(
            "[[tenant]]\nname = \"free\"\nuid = {free_uid}\n\n\
             [[tenant]]\nname = \"limited\"\npriority_max = {priority_max}\n"
        );
        Self { priority_max: Some(priority_max), ..in_memory(text.as_bytes()) }
    }

    /// A file of any kind.
    pub(super) fn drawn(bytes: &mut Bytes<'_>, free_uid: u32) -> Self {
        let of = |path: &str| Self { path: path.into(), _file: None, priority_max: None };
        match bytes.below(2 * FAULTS) {
            0 => of("/proc/self/none"),
            1 => in_memory(b"\n"),
            2 => in_memory(b"[watch]\ndrivers = false\n"),
            // Opens, and cannot be read.
            3 => of("/proc/self/mem"),
            4 => of("/"),
            5 => {
                let (reader, _) = std::io::pipe().expect("a pipe");
                by_descriptor(reader.into())
            }
            6 => in_memory(bytes.some(64)),
            _ => Self::limited(i32::from(bytes.byte() % 16) - 8, free_uid),
        }
    }
}

fn in_memory(text: &[u8]) -> ConfigFile {
    let file = memfd_create("configuration", MemfdFlags::CLOEXEC).expect("a memory file");
    let mut file = File::from(file);
    file.write_all(text).expect("written");
    by_descriptor(file.into())
}

fn by_descriptor(file: OwnedFd) -> ConfigFile {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    ConfigFile { path, _file: Some(file), priority_max: None }
}

/// A TCP socket whose last close waits as long as the other end is there and reads nothing.
pub(super) fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    set_socket_recv_buffer_size(&listener, BUFFER_BYTES).expect("an option");
    let to = listener.local_addr().expect("its address");
    let mut socket = TcpStream::connect(to).expect("a connection");
    set_socket_send_buffer_size(&socket, BUFFER_BYTES).expect("an option");
    let (other, _) = listener.accept().expect("its other end");
    socket.set_nonblocking(true).expect("a flag");
    while socket.write(&[0; BUFFER_BYTES]).is_ok() {}
    socket.set_nonblocking(false).expect("a flag");
    set_socket_linger(&socket, Some(LINGER)).expect("an option");
    (socket.into(), other)
}
