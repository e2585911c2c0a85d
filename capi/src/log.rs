//! The log, to standard error.

use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use tracing::Level;

use crate::env::Log;

/// Standard error without the lock that all of the process's Rust code shares: a child of a fork
/// may find that taken for ever.
struct Stderr(ManuallyDrop<File>);

impl Stderr {
    fn new() -> Self {
        // SAFETY: it is not closed by this, and a program that has closed it gets errors.
        Self(ManuallyDrop::new(unsafe { File::from_raw_fd(2) }))
    }
}

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts logging, unless this library does so already.
pub(crate) fn start(log: Log) {
    let level = match log {
        Log::Errors => Level::ERROR,
        Log::Warnings => Level::WARN,
        Log::Info => Level::INFO,
        Log::Debug => Level::DEBUG,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(Stderr::new)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .finish();
    // Where this is part of a Rust program that logs, its own log has it all.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
