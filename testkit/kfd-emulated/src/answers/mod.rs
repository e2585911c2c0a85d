//! A script of calls, and what the driver answers to them.
//!
//! The same program runs on a real driver in a virtual machine and on the emulator. Its numbers and
//! offsets are its own, not the structures of the crate under test.
//!
//! It needs no GPU and expects none: every queue id is unknown. It makes no assumption about
//! answers, so that it can be run against any driver; [`compare`] says what differs.

mod calls;
mod order;
mod transcript;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use rustix::io::Errno;

pub use order::helper;
pub use transcript::{compare, normalise};

/// The driver.
const PATH: &str = "/dev/kfd";

/// Names of the errors that the driver answers.
const NAMES: [(Errno, &str); 17] = [
    (Errno::PERM, "EPERM"),
    (Errno::SRCH, "ESRCH"),
    (Errno::INTR, "EINTR"),
    (Errno::IO, "EIO"),
    (Errno::BADF, "EBADF"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::ACCESS, "EACCES"),
    (Errno::FAULT, "EFAULT"),
    (Errno::BUSY, "EBUSY"),
    (Errno::EXIST, "EEXIST"),
    (Errno::NODEV, "ENODEV"),
    (Errno::INVAL, "EINVAL"),
    (Errno::NOTTY, "ENOTTY"),
    (Errno::TIME, "ETIME"),
    (Errno::OPNOTSUPP, "EOPNOTSUPP"),
    (Errno::ALREADY, "EALREADY"),
    (Errno::DEADLK, "EDEADLK"),
];

/// The name of an error, or `?`.
fn name(errno: Errno) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == errno).map_or("?", |(_, name)| name)
}

/// Makes a call. `address` may be wrong.
fn ioctl(file: RawFd, request: u32, address: usize) -> Result<u32, Errno> {
    let pointer: *mut libc::c_void = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: the script's arguments are as large as the driver's own idea of the call or larger,
    // and live until it returns; other addresses are meant to be refused.
    let result = unsafe { libc::ioctl(file, u64::from(request), pointer) };
    u32::try_from(result).map_err(|_| last_error())
}

fn last_error() -> Errno {
    let code = io::Error::last_os_error().raw_os_error();
    code.map_or(Errno::INVAL, Errno::from_raw_os_error)
}

/// An argument: more bytes than any call of the script takes.
#[derive(Debug)]
struct Words([u64; 52]);

impl Words {
    const fn new() -> Self {
        Self([0; 52])
    }

    /// With a `u32` put at a place.
    fn with(mut self, at: usize, value: u32) -> Self {
        crate::wire::Argument(self.bytes()).set_u32(at, value);
        self
    }

    /// With a `u64` put at a place.
    fn with_u64(mut self, at: usize, value: u64) -> Self {
        crate::wire::Argument(self.bytes()).set_u64(at, value);
        self
    }

    fn u32(&mut self, at: usize) -> u32 {
        crate::wire::Argument(self.bytes()).u32(at)
    }

    fn u64(&mut self, at: usize) -> u64 {
        crate::wire::Argument(self.bytes()).u64(at)
    }

    fn bytes(&mut self) -> &mut [u8] {
        let bytes = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: every byte of the array belongs to it and may have any value.
        unsafe { std::slice::from_raw_parts_mut(bytes, size_of_val(&self.0)) }
    }

    fn address(&mut self) -> usize {
        self.0.as_mut_ptr().expose_provenance()
    }
}

/// The address of something that the driver reads or writes by way of an argument.
fn address_of<T>(place: &mut [T]) -> u64 {
    place.as_mut_ptr().expose_provenance() as u64
}

/// Where the answers go.
struct Script<'a> {
    out: &'a mut dyn Write,
    file: RawFd,
}

impl Script<'_> {
    /// Makes a call and writes a line about it.
    fn call(&mut self, what: &str, request: u32, words: &mut Words) -> io::Result<()> {
        self.call_at(what, request, words.address())
    }

    fn call_at(&mut self, what: &str, request: u32, address: usize) -> io::Result<()> {
        let start = Instant::now();
        let answer = ioctl(self.file, request, address);
        let us = start.elapsed().as_nanos() / 100;
        let (ret, code, name) = match answer {
            Ok(count) => (i64::from(count), 0, "0"),
            Err(errno) => (-1, errno.raw_os_error(), name(errno)),
        };
        writeln!(
            self.out,
            "IOCTL {what:<44} cmd={request:#010x} ret={ret} errno={code}({name}) us={}.{}",
            us / 10,
            us % 10
        )
    }

    /// Writes a value that came back.
    fn value(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "  {text}")
    }
}

/// Opens the driver so that programs that are started inherit the file.
fn open_inherited() -> Result<File, Errno> {
    use rustix::fs::{Mode, OFlags};
    let file = rustix::fs::open(PATH, OFlags::RDWR, Mode::empty())?;
    Ok(File::from(file))
}

/// Runs the script, and writes what came back.
///
/// # Errors
/// If it cannot be written, or there is no driver.
pub fn run(out: &mut dyn Write) -> io::Result<()> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    writeln!(out, "KERNEL {release}")?;
    let file = open_inherited()?;
    let raw = file.as_raw_fd();
    writeln!(out, "OPEN {PATH} fd={raw} errno=0")?;
    calls::all(&mut Script { out, file: raw })?;
    calls::other_processes(out, raw)?;
    let second = open_inherited()?;
    writeln!(out, "SECOND OPEN same process fd={} errno=0", second.as_raw_fd())?;
    Script { out, file: second.as_raw_fd() }.call(
        "GET_VERSION via second open",
        calls::GET_VERSION,
        &mut Words::new(),
    )?;
    writeln!(out, "ANSWERS_DONE")?;
    order::all(out, raw)?;
    writeln!(out, "ORDER_DONE")?;
    out.flush()
}
