//! Calls with paths, and files that are the driver's.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::notify::{Answer, Call};
use super::{Supervisor, host};
use crate::config::Config;
use crate::control::CONTROL_PATH;
use crate::memory;
use crate::model::file_bytes;
use crate::page::doorbell_offset;
use crate::tree::RENDER_FIRST;

/// The driver.
const DRIVER: &str = "/dev/kfd";
/// Paths below `/sys` that the tree stands for.
const SYSFS: [(&str, &str); 3] = [
    ("/sys/class/kfd", "class/kfd"),
    ("/sys/devices/virtual/kfd", "class/kfd"),
    ("/sys/module/amdgpu", "module/amdgpu"),
];
/// The kernel's log, and the file by which an administrator switches Lv3 off.
const LOG: &str = "/dev/kmsg";
const OFF: &str = "/etc/xsched/kfd-off";
/// Render nodes of the GPUs, without the number.
const RENDER: &str = "/dev/dri/renderD";
/// A page of the hardware's, behind the doorbells.
const REMAP_BYTES: u64 = 4_096;
/// The longest path that is looked at.
const PATH_BYTES_MAX: usize = 4_096;
/// Bytes that are read of it at once; never across a page's end.
const PIECE_BYTES: u64 = 256;

/// Target of a path.
enum Target {
    Driver,
    Control,
    Render,
    File(PathBuf),
}

/// A fresh file for the page of a process, and its inode.
pub(super) fn page_file(gpus: usize) -> Result<(OwnedFd, u64), Errno> {
    let file = memfd_create("kfd", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, doorbell_offset(gpus) + REMAP_BYTES)?;
    let inode = fstat(&file)?.st_ino;
    Ok((file, inode))
}

/// A file that stands for the memory of all devices. It takes memory where it was written to.
pub(super) fn memory_file(config: &Config) -> Result<OwnedFd, Errno> {
    let file = memfd_create("renderD", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, file_bytes(config))?;
    Ok(file)
}

/// Forgets what was in a piece of it.
pub(super) fn forget(file: &OwnedFd, offset: u64, bytes: u64) -> Result<(), Errno> {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(file, punch, offset, bytes)
}

/// A path in a process's memory. `None` if it is none, or not UTF-8: then it is not the driver's.
fn read_path(thread: u32, address: u64) -> Option<String> {
    let mut path = Vec::new();
    while path.len() < PATH_BYTES_MAX {
        let at = address.checked_add(path.len() as u64)?;
        let mut piece = vec![0; (PIECE_BYTES - at % PIECE_BYTES) as usize];
        memory::read(thread, at, &mut piece).ok()?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            path.extend_from_slice(&piece[..end]);
            return String::from_utf8(path).ok();
        }
        path.extend_from_slice(&piece);
    }
    None
}

impl Supervisor {
    fn target(&self, path: &str) -> Option<Target> {
        match path {
            DRIVER => return Some(Target::Driver),
            CONTROL_PATH => return Some(Target::Control),
            LOG => return Some(Target::File(self.tree.log())),
            OFF => return Some(Target::File(self.tree.off())),
            _ => {}
        }
        if let Some(number) = path.strip_prefix(RENDER) {
            let is_there = |number: usize| {
                number.checked_sub(RENDER_FIRST).is_some_and(|gpu| gpu < self.gpus())
            };
            return number.parse().is_ok_and(is_there).then_some(Target::Render);
        }
        let below = SYSFS.iter().find_map(|(start, place)| {
            Some(Path::new(place).join(Path::new(path).strip_prefix(start).ok()?))
        })?;
        // The tree's own folder ends in what it stands for.
        let root = self.tree.module();
        let root = root.ancestors().nth(2)?;
        Some(Target::File(root.join(below)))
    }

    /// Answers a call with a path, unless the answer was given along with a file.
    pub(super) fn path_call(&mut self, call: &Call) -> Option<Answer> {
        let [first, second, third, fourth, fifth, _] = call.arguments;
        let path = if call.number == libc::SYS_open { first } else { second };
        let target = read_path(call.thread, path).and_then(|path| self.target(&path));
        let Some(target) = target else { return Some(Answer::GoOn) };
        let done = match call.number {
            libc::SYS_open => self.open(call, target, second),
            libc::SYS_openat => self.open(call, target, third),
            libc::SYS_statx => describe_x(call.thread, &target, (third, fourth, fifth)).map(Some),
            _ => describe(call.thread, &target, third).map(Some),
        };
        match done {
            Ok(answer) => answer.map(|result| Answer::Result(Ok(result))),
            Err(errno) => Some(Answer::Result(Err(errno))),
        }
    }

    /// Opens something of the driver's and gives the child the file, which is the answer.
    fn open(&mut self, call: &Call, target: Target, flags: u64) -> Result<Option<u32>, Errno> {
        let flags = OFlags::from_bits_retain(flags as u32);
        let closes = flags.contains(OFlags::CLOEXEC);
        match target {
            Target::Driver => {
                let pid = host::process_of(call.thread).ok_or(Errno::SRCH)?;
                let file = self.opened(pid)?.file.try_clone().map_err(|_| Errno::MFILE)?;
                self.listener.give(call.id, file.as_fd(), closes, true)?;
            }
            Target::Render => {
                self.listener.give(call.id, self.memory.as_fd(), closes, true)?;
            }
            Target::Control => {
                let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
                let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
                self.listener.give(call.id, theirs.as_fd(), closes, true)?;
                self.controls.push(ours);
            }
            Target::File(path) => {
                let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?;
                self.listener.give(call.id, file.as_fd(), closes, true)?;
            }
        }
        Ok(None)
    }

    /// The process that opened a file of the driver's; `None` for all other files.
    pub(super) fn owner(&self, thread: u32, file: u32) -> Option<u32> {
        let found = fs::metadata(format!("/proc/{thread}/fd/{file}")).ok()?;
        let inode = found.ino();
        let opened = self.opened.iter().find(|(_, opened)| opened.inode == inode);
        // A file of that number elsewhere has another device.
        opened
            .filter(|(_, opened)| fstat(&opened.file).is_ok_and(|own| own.st_dev == found.dev()))
            .map(|(pid, _)| *pid)
    }
}

/// A stand-in for a target of which only the kind matters.
fn stand_in(target: &Target) -> Result<CString, Errno> {
    let path = match target {
        // A device that all users may open.
        Target::Driver | Target::Control | Target::Render => PathBuf::from("/dev/null"),
        Target::File(path) => path.clone(),
    };
    CString::new(path.into_os_string().into_encoded_bytes()).map_err(|_| Errno::INVAL)
}

fn done(result: libc::c_int) -> Result<(), Errno> {
    let error = || std::io::Error::last_os_error().raw_os_error();
    if result == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(error().unwrap_or(libc::EIO))) }
}

/// The bytes of a structure that the kernel has filled.
fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: the structure was zeroed as a whole, so its padding is initialised as well, and it
    // lives as long as the slice.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

fn describe_x(
    thread: u32,
    target: &Target,
    (flags, mask, address): (u64, u64, u64),
) -> Result<u32, Errno> {
    let path = stand_in(target)?;
    // SAFETY: integers, for which zero is valid.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero, and `found` may be written to.
    let result = unsafe {
        libc::statx(libc::AT_FDCWD, path.as_ptr(), flags as i32, mask as u32, &raw mut found)
    };
    done(result)?;
    memory::write(thread, address, bytes_of(&found))?;
    Ok(0)
}

fn describe(thread: u32, target: &Target, address: u64) -> Result<u32, Errno> {
    let path = stand_in(target)?;
    // SAFETY: integers, for which zero is valid.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero, and `found` may be written to.
    let result = unsafe { libc::fstatat(libc::AT_FDCWD, path.as_ptr(), &raw mut found, 0) };
    done(result)?;
    memory::write(thread, address, bytes_of(&found))?;
    Ok(0)
}
