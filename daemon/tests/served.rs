//! Descriptors of a file system that a process serves: a close waits as long as that wants, and so
//! does the end of a process that has one.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};
use xsched_node::{Request, Wire};

mod node;
use node::{Honest, PATIENCE, answers_at_once, daemon_process, ends_soon, wait};

/// Kinds of requests, from `linux/fuse.h`.
mod fuse {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    /// Room for a request with 65,536 bytes to write.
    pub(crate) const REQUEST_MAX: usize = 1 << 17;
}

/// Words of an answer.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Attributes of the folder, 1, and of the file in it, 2: `fuse_attr`.
fn attributes(node: u32) -> Vec<u8> {
    let mut all = [0; 22];
    all[0] = node;
    // Mode, links and the size of a block.
    all[15] = if node == 1 { 0o40_755 } else { 0o100_666 };
    all[16] = 1;
    all[20] = 4_096;
    words(&all)
}

/// A file system with one file, whose server answers to this process alone when a file is closed.
struct Served {
    place: PathBuf,
    is_waited_for: Arc<AtomicBool>,
}

impl Served {
    /// Serves it here, if this process may.
    fn at(place: PathBuf) -> Option<Self> {
        fs::create_dir(&place).expect("a folder");
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
        let data = std::ffi::CString::from_vec_with_nul(data.into_bytes()).expect("one word");
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("served", &place, "fuse", flags, data.as_c_str()).ok()?;
        let is_waited_for = Arc::new(AtomicBool::new(false));
        let waits = Arc::clone(&is_waited_for);
        thread::spawn(move || serve(device, &waits));
        Some(Self { place, is_waited_for })
    }

    fn open(&self) -> File {
        File::options().read(true).write(true).open(self.place.join("file")).expect("the file")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Ends whatever waits.
        let _ = unmount(&self.place, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

/// Answers until the file system ends.
fn serve(mut device: File, is_waited_for: &AtomicBool) {
    let mut request = vec![0; fuse::REQUEST_MAX];
    while let Ok(length) = device.read(&mut request) {
        let word = |at: usize| {
            let bytes = request[..length].get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u32::from_ne_bytes(bytes.expect("a word"))
        };
        let (kind, node, thread) = (word(4), word(16), word(32));
        let entry = [words(&[2, 0, 0, 0, 100, 0, 100, 0, 0, 0]), attributes(2)].concat();
        let (code, answer) = match kind {
            fuse::INIT => (0, words(&[7, 31, 65_536, 0, 0, 65_536, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            fuse::LOOKUP => (0, entry),
            fuse::GETATTR => (0, [words(&[100, 0, 0, 0]), attributes(node)].concat()),
            fuse::OPEN => (0, words(&[0; 4])),
            fuse::FORGET => continue,
            fuse::FLUSH if !Path::new(&format!("/proc/self/task/{thread}")).exists() => {
                is_waited_for.store(true, Ordering::Relaxed);
                continue;
            }
            fuse::FLUSH => (0, Vec::new()),
            // There is no such request.
            _ => (-38, Vec::new()),
        };
        let length = u32::try_from(16 + answer.len()).expect("a short answer");
        let head = [&length.to_ne_bytes()[..], &i32::to_ne_bytes(code), &request[8..16]];
        let _ = device.write(&[&head.concat()[..], &answer].concat());
    }
}

#[test]
fn a_close_that_never_ends_keeps_no_daemon_from_starting() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    for signal in [Signal::TERM, Signal::KILL] {
        let mut first = daemon_process(&socket, 1_024);
        // Ends before it is waited for.
        let Some(served) = Served::at(folder.path().join(format!("{signal:?}"))) else {
            println!("this process may serve no file system: nothing is tested");
            return;
        };
        let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
        wire.send(&Request::Status, Some(served.open().as_fd())).expect("sent");
        wait("the daemon does not close it", || served.is_waited_for.load(Ordering::Relaxed));
        println!("answered after {:?}", answers_at_once(&socket));
        let pid = Pid::from_child(&first.0);
        kill_process(pid, signal).expect("a process");
        // The kernel ends it when it has its answer.
        wait("it goes on", || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.expect("it is not waited for").contains(") Z")
        });
        let mut second = daemon_process(&socket, 1_024);
        Honest::new(&socket).is_scheduled(&socket);
        assert!(first.0.try_wait().expect("a child").is_none(), "nothing was in its way");
        ends_soon(&mut second);
    }
}
