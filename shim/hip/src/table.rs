//! The functions of the list: their names, their classes, their stubs and their hooks, as the build
//! script writes them.

use std::ffi::{CStr, c_void};

use xsched_shim_engine::{Class, Kind, Part, Tells, signatures, stubs};

use crate::vendor::VENDOR;

/// A handle of HIP's, or a pointer.
type Handle = *mut c_void;

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim3([u32; 3]);

/// `hipMemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    kind: u32,
    id: i32,
}

/// `hipExtent`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words3([u64; 3]);

/// `hipPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words4([u64; 4]);

/// `hipIpcMemHandle_t` and `hipIpcEventHandle_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes64([u8; 64]);

impl Part for Dim3 {
    fn part(&self) -> usize {
        let Self([x, y, z]) = *self;
        Kind::new(x as usize).with(y as usize).with(z as usize).number() as usize
    }
}

impl Part for Words3 {
    fn part(&self) -> usize {
        let volume = self.0.iter().fold(1, |volume: u64, side| volume.saturating_mul(*side));
        (volume as usize).part()
    }
}

impl Part for Words4 {}
impl Part for Location {}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
