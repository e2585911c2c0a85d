//! Bodies of fuzz targets: a daemon on the caller's thread, with connections and pages that bytes
//! stand for, and an honest process that none of them may harm.
//!
//! Part of the interface for the fuzzer alone.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a panic is how a target says what it found"
)]

mod bytes;
mod files;
mod pages;
mod socket;
#[cfg(test)]
mod tests;

pub use pages::pages;
pub use socket::socket;
