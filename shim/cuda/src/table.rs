//! The functions of the list: their names, their classes, their stubs and their hooks, as the build
//! script writes them.

use std::ffi::{CStr, c_void};

use xsched_shim_engine::{Class, Part, Tells, signatures, stubs};

use crate::vendor::VENDOR;

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

impl Part for Location {}
impl Part for Words8 {}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
