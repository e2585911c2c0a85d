//! Calls about queues.

use std::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Queues that a process can have; ids are below it (`KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`). An id is
/// the smallest that is free, 0 included, and is used again.
pub const QUEUES_MAX: u32 = 1024;
/// The highest priority of a queue (`KFD_MAX_QUEUE_PRIORITY`).
pub const PRIORITY_MAX: u32 = 15;

/// Kinds of queues (`KFD_IOC_QUEUE_TYPE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QueueType {
    /// PM4 packets.
    Compute = 0,
    /// Copies.
    Sdma = 1,
    /// AQL packets; what HIP's streams are. In sysfs it reads as 0 too.
    ComputeAql = 2,
    /// Copies over XGMI.
    SdmaXgmi = 3,
    /// Copies on a chosen engine, from 1.17.
    SdmaByEngine = 4,
}

impl QueueType {
    /// The kind with this number.
    #[must_use]
    pub const fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Compute,
            1 => Self::Sdma,
            2 => Self::ComputeAql,
            3 => Self::SdmaXgmi,
            4 => Self::SdmaByEngine,
            _ => return None,
        })
    }

    /// True if its waves are saved and restored. Copies are not.
    #[must_use]
    pub const fn runs_waves(self) -> bool {
        matches!(self, Self::Compute | Self::ComputeAql)
    }
}

/// `kfd_ioctl_create_queue_args` before 1.17.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct CreateQueue88 {
    /// In: address of the ring.
    pub ring_base: u64,
    /// In: address of the write pointer.
    pub write_pointer: u64,
    /// In: address of the read pointer.
    pub read_pointer: u64,
    /// Out: what to map for the doorbell.
    pub doorbell_offset: u64,
    /// In: bytes of the ring; a power of two, or 0.
    pub ring_size: u32,
    /// In: the GPU.
    pub gpu_id: u32,
    /// In: a [`QueueType`].
    pub queue_type: u32,
    /// In: 0 to 100; 0 makes it inactive.
    pub percentage: u32,
    /// In: 0 to [`PRIORITY_MAX`].
    pub priority: u32,
    /// Out: the id.
    pub queue_id: u32,
    /// In: address of the end-of-pipe buffer.
    pub eop_address: u64,
    /// In: its bytes.
    pub eop_size: u64,
    /// In: address of the save area.
    pub save_address: u64,
    /// In: its bytes.
    pub save_size: u32,
    /// In: bytes of the control stack in it.
    pub control_stack_size: u32,
}

/// `kfd_ioctl_create_queue_args` since 1.17.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct CreateQueue {
    /// Earlier form of the argument.
    pub base: CreateQueue88,
    /// In: the engine, for [`QueueType::SdmaByEngine`].
    pub sdma_engine: u32,
    /// Zero up to 1.21, then bytes of a metadata ring.
    pub metadata_size: u32,
}

/// `kfd_ioctl_destroy_queue_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct DestroyQueue {
    /// In: the queue.
    pub queue_id: u32,
    /// Zero.
    pub pad: u32,
}

/// `kfd_ioctl_update_queue_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct UpdateQueue {
    /// In: the ring that the queue was created with. Since 6.12 another answers `EFAULT`.
    pub ring_base: u64,
    /// In: the queue.
    pub queue_id: u32,
    /// In: bytes of the ring, exactly.
    pub ring_size: u32,
    /// In: 0 to 100 in the low 8 bits; 0 makes it inactive. The next 8 bits choose an XCC for PM4
    /// queues and stay 0.
    pub percentage: u32,
    /// In: 0 to [`PRIORITY_MAX`]; replaces what was set.
    pub priority: u32,
}

/// `kfd_ioctl_set_cu_mask_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SetCuMask {
    /// In: the queue.
    pub queue_id: u32,
    /// In: bits of the mask; a multiple of 32.
    pub bits: u32,
    /// In: address of the mask, as `u32`s.
    pub mask: u64,
}

/// `kfd_ioctl_get_queue_wave_state_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct GetQueueWaveState {
    /// In: where the control stack goes.
    pub control_stack: u64,
    /// Out: bytes of it that are used.
    pub control_stack_used: u32,
    /// Out: bytes of the save area that are used.
    pub save_area_used: u32,
    /// In: the queue, which has to be inactive.
    pub queue_id: u32,
    /// Zero.
    pub pad: u32,
}

/// `kfd_context_save_area_header`, at the start of a save area for each XCC.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ContextSaveHeader {
    /// Bytes from the start of the area to the control stack.
    pub control_stack_offset: u32,
    /// Bytes.
    pub control_stack_size: u32,
    /// Bytes from the start of the area to the end of the waves' state.
    pub wave_state_offset: u32,
    /// Bytes of the waves' state.
    pub wave_state_size: u32,
    /// Bytes from the start of the area to the debugger's memory.
    pub debug_offset: u32,
    /// Bytes.
    pub debug_size: u32,
    /// Address of a word for exceptions.
    pub error_payload: u64,
    /// Event that exceptions raise.
    pub error_event: u32,
    /// Reserved.
    pub reserved: u32,
}

const _: () = {
    assert!(size_of::<CreateQueue88>() == 88 && size_of::<CreateQueue>() == 96);
    assert!(offset_of!(CreateQueue88, write_pointer) == 8);
    assert!(offset_of!(CreateQueue88, read_pointer) == 16);
    assert!(offset_of!(CreateQueue88, doorbell_offset) == 24);
    assert!(offset_of!(CreateQueue88, ring_size) == 32);
    assert!(offset_of!(CreateQueue88, gpu_id) == 36);
    assert!(offset_of!(CreateQueue88, queue_type) == 40);
    assert!(offset_of!(CreateQueue88, percentage) == 44);
    assert!(offset_of!(CreateQueue88, priority) == 48);
    assert!(offset_of!(CreateQueue88, queue_id) == 52);
    assert!(offset_of!(CreateQueue88, eop_address) == 56);
    assert!(offset_of!(CreateQueue88, eop_size) == 64);
    assert!(offset_of!(CreateQueue88, save_address) == 72);
    assert!(offset_of!(CreateQueue88, save_size) == 80);
    assert!(offset_of!(CreateQueue88, control_stack_size) == 84);
    assert!(offset_of!(CreateQueue, sdma_engine) == 88);
    assert!(offset_of!(CreateQueue, metadata_size) == 92);
    assert!(size_of::<DestroyQueue>() == 8);
    assert!(size_of::<UpdateQueue>() == 24);
    assert!(offset_of!(UpdateQueue, queue_id) == 8);
    assert!(offset_of!(UpdateQueue, ring_size) == 12);
    assert!(offset_of!(UpdateQueue, percentage) == 16);
    assert!(offset_of!(UpdateQueue, priority) == 20);
    assert!(size_of::<SetCuMask>() == 16);
    assert!(offset_of!(SetCuMask, bits) == 4 && offset_of!(SetCuMask, mask) == 8);
    assert!(size_of::<GetQueueWaveState>() == 24);
    assert!(offset_of!(GetQueueWaveState, control_stack_used) == 8);
    assert!(offset_of!(GetQueueWaveState, save_area_used) == 12);
    assert!(offset_of!(GetQueueWaveState, queue_id) == 16);
    assert!(size_of::<ContextSaveHeader>() == 40);
    assert!(offset_of!(ContextSaveHeader, error_payload) == 24);
};
