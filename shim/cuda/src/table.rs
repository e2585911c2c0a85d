//! The functions of the list: their names, their classes, their stubs and their hooks, as the build
//! script writes them.

use std::ffi::{CStr, c_void};

use crate::engine::{self, Stream};
use crate::hooks::{hook, place, signatures, stream};
use crate::stubs::stubs;
use crate::{Address, Code, driver};

/// What is done with a function; `functions.toml` explains the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Launch,
    Ordered,
    Waits,
    Lifetime,
    Forwarded,
}

/// A handle of CUDA's, or a pointer.
type Handle = *mut c_void;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    kind: u32,
    id: i32,
}

/// `CUipcMemHandle` and `CUipcEventHandle`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes64([u8; 64]);

/// `CUeglFrame`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words8([u64; 8]);

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// The place of a function in the list; `None` if it is not in it.
pub(crate) fn index(name: &CStr) -> Option<usize> {
    NAMES.binary_search(&name).ok()
}

/// Whether the list says of a name that it is left out.
pub(crate) fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|prefix| name.starts_with(prefix))
}
