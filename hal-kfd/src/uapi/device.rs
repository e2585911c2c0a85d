//! Calls about the driver and its devices.

use std::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `kfd_ioctl_get_version_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct GetVersion {
    /// Out: the major version. 1 so far.
    pub major: u32,
    /// Out: the minor version, which says what the driver can do.
    pub minor: u32,
}

/// `kfd_ioctl_get_process_apertures_new_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct GetProcessAperturesNew {
    /// In: address of the entries ([`ProcessAperture`]).
    pub entries: u64,
    /// In: number of entries that there is room for; out: number of nodes. 0 asks for the number
    /// only. With more than there are nodes of the topology the driver answers `EINVAL`.
    pub nodes: u32,
    /// Zero.
    pub pad: u32,
}

/// `kfd_process_device_apertures`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ProcessAperture {
    /// Where the LDS begins.
    pub lds_base: u64,
    /// Last address.
    pub lds_limit: u64,
    /// Where scratch begins.
    pub scratch_base: u64,
    /// Last address.
    pub scratch_limit: u64,
    /// Where the GPU's addresses begin.
    pub gpuvm_base: u64,
    /// Last one.
    pub gpuvm_limit: u64,
    /// The GPU, or partition of one.
    pub gpu_id: u32,
    /// Zero.
    pub pad: u32,
}

/// `kfd_ioctl_smi_events_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SmiEvents {
    /// In: the GPU.
    pub gpu_id: u32,
    /// Out: a descriptor to read events from.
    pub descriptor: u32,
}

/// `kfd_ioctl_get_available_memory_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct AvailableMemory {
    /// Out: bytes.
    pub available: u64,
    /// In: the GPU.
    pub gpu_id: u32,
    /// Zero.
    pub pad: u32,
}

const _: () = {
    assert!(size_of::<GetVersion>() == 8 && offset_of!(GetVersion, minor) == 4);
    assert!(size_of::<GetProcessAperturesNew>() == 16);
    assert!(offset_of!(GetProcessAperturesNew, nodes) == 8);
    assert!(size_of::<ProcessAperture>() == 56 && offset_of!(ProcessAperture, gpu_id) == 48);
    assert!(size_of::<SmiEvents>() == 8 && offset_of!(SmiEvents, descriptor) == 4);
    assert!(size_of::<AvailableMemory>() == 16 && offset_of!(AvailableMemory, gpu_id) == 8);
};
