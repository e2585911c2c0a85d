//! The log, to standard error, whatever that is.

use tracing::Level;
use xsched_hal_process::message::Stderr;

use crate::env::Log;

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
        .with_writer(|| Stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .finish();
    // Where this is part of a Rust program that logs, its own log has it all.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
