//! The list of the functions of a vendor's library: read, checked, and written as Rust for an
//! interposer's build script and as Markdown for the book.
//!
//! `shim/cuda/functions.toml` says at its top how the list is written.

mod entry;
mod error;
mod list;
mod markdown;
mod rust;
mod types;
mod versions;

pub use entry::{Class, DefaultStream, Function, Parameter};
pub use error::{Error, Problem};
pub use list::{Group, LeftOut, List};
