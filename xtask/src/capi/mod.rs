//! The C API: its headers, its installation, and programs that use it.

pub mod check;
mod compile;
pub mod headers;
pub mod install;
mod interpose;
mod sanitize;
mod speed;
