//! Descriptors in a program that is not this library's.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::fcntl_dupfd_cloexec;

/// The first number behind those of standard input, output and error.
const FIRST: i32 = 3;

/// The descriptor under a number that stands for no stream of the program's: one that it has closed
/// is closed for whatever writes there. If there are no more, it stays as it is.
pub(crate) fn apart(descriptor: OwnedFd) -> OwnedFd {
    if descriptor.as_raw_fd() >= FIRST {
        return descriptor;
    }
    fcntl_dupfd_cloexec(&descriptor, FIRST).unwrap_or(descriptor)
}
