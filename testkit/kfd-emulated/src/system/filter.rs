//! The filter that has a child's calls answered by its parent, and how it gets there.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// The calls that are answered: those with paths, and `ioctl`.
const ANSWERED: [libc::c_long; 5] =
    [libc::SYS_openat, libc::SYS_ioctl, libc::SYS_statx, libc::SYS_newfstatat, libc::SYS_open];
/// `AUDIT_ARCH_X86_64`.
const ARCHITECTURE: u32 = 0xc000_003e;
/// Where the architecture and the call's number are in what a filter sees.
const AT_ARCHITECTURE: u32 = 4;
const AT_NUMBER: u32 = 0;

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn jump(k: u32, if_equal: u8, otherwise: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: if_equal, jf: otherwise, k }
}

/// The BPF program. It lets through calls of other architectures and all calls that are not listed.
fn program() -> [libc::sock_filter; ANSWERED.len() + 5] {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let give = libc::BPF_RET | libc::BPF_K;
    let allow = statement(give, libc::SECCOMP_RET_ALLOW);
    let mut program = [allow; ANSWERED.len() + 5];
    program[0] = statement(load, AT_ARCHITECTURE);
    program[1] = jump(ARCHITECTURE, 0, ANSWERED.len() as u8 + 1);
    program[2] = statement(load, AT_NUMBER);
    for (at, number) in ANSWERED.into_iter().enumerate() {
        // Over the other comparisons and what lets through.
        program[3 + at] = jump(number as u32, (ANSWERED.len() - at) as u8, 0);
    }
    program[ANSWERED.len() + 4] = statement(give, libc::SECCOMP_RET_USER_NOTIF);
    program
}

/// Puts the filter on the calling thread and what it starts, and gives the file on which the calls
/// arrive. Makes no allocation: it runs between `fork` and `exec`.
fn install(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let flags = [
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
        // Before Linux 5.19.
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
    ];
    // SAFETY: the call takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for flags in flags {
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: the program is a valid one and lives until the call returns.
        let file = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
        if file >= 0 {
            // SAFETY: a file that the kernel has just made for us.
            return Ok(unsafe { OwnedFd::from_raw_fd(file as i32) });
        }
    }
    Err(io::Error::last_os_error())
}

fn send(to: BorrowedFd<'_>, file: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    control.push(SendAncillaryMessage::ScmRights(&files));
    rustix::net::sendmsg(to, &[io::IoSlice::new(b"f")], &mut control, SendFlags::empty())?;
    Ok(())
}

fn receive(from: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [io::IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(from, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.ok_or_else(|| io::Error::other("the child sent no file"))
}

/// Starts a command whose calls arrive on a file.
///
/// # Errors
/// If it cannot be started, or the kernel refuses the filter.
pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let (ours, theirs) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    let program = program();
    let body = move || {
        let listener = install(&program)?;
        send(theirs.as_fd(), listener.as_fd())
    };
    // SAFETY: between `fork` and `exec` it makes system calls alone, with memory that is there.
    let child = unsafe { command.pre_exec(body) }.spawn()?;
    let listener = receive(ours.as_fd())?;
    debug_assert!(listener.as_raw_fd() >= 0);
    Ok((child, listener))
}
