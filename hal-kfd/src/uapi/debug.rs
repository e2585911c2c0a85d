//! The debugger's calls: `RUNTIME_ENABLE` and `DBG_TRAP`.

use std::mem::offset_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK`; without it the call disables.
pub const MODE_ENABLE: u32 = 1;
/// `KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK`.
pub const MODE_TTMP: u32 = 2;
/// In an id that came back (`KFD_DBG_QUEUE_ERROR_MASK`): the queue could not be suspended or
/// resumed.
pub const FAILED_BIT: u32 = 1 << 30;
/// In an id that came back (`KFD_DBG_QUEUE_INVALID_MASK`): there is no such queue, or it is new to
/// the debugger ([`EC_QUEUE_NEW`]), or already in that state.
pub const INVALID_BIT: u32 = 1 << 31;
/// Bits of the id in an id that came back.
pub const ID_MASK: u32 = !(FAILED_BIT | INVALID_BIT);
/// The bit that every queue carries until a snapshot cleared it (`KFD_EC_MASK(EC_QUEUE_NEW)`).
/// While it does, `SUSPEND_QUEUES` answers [`INVALID_BIT`] for it.
pub const EC_QUEUE_NEW: u64 = exception(31);
/// The exception on which a runtime that starts or ends waits until its debugger sends it
/// (`KFD_EC_MASK(EC_PROCESS_RUNTIME)`).
pub const EC_PROCESS_RUNTIME: u64 = exception(48);

/// The bit of an exception code (`KFD_EC_MASK`), which counts from 1 to 63.
#[must_use]
pub const fn exception(code: u32) -> u64 {
    1 << (code - 1)
}

/// States of a process's runtime (`kfd_dbg_runtime_state`).
pub mod runtime_state {
    /// The runtime has not called `RUNTIME_ENABLE`.
    pub const DISABLED: u32 = 0;
    /// The runtime has called `RUNTIME_ENABLE`.
    pub const ENABLED: u32 = 1;
    /// The runtime waits for the debugger.
    pub const ENABLED_BUSY: u32 = 2;
    /// The runtime has failed.
    pub const ENABLED_ERROR: u32 = 3;
}

/// `kfd_ioctl_runtime_enable_args`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct RuntimeEnable {
    /// In: an address that debuggers read.
    pub r_debug: u64,
    /// In: [`MODE_ENABLE`] and [`MODE_TTMP`].
    pub mode: u32,
    /// Out: what the driver can do.
    pub capabilities: u32,
}

/// `kfd_runtime_info`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct RuntimeInfo {
    /// Argument of `RUNTIME_ENABLE`.
    pub r_debug: u64,
    /// One of [`runtime_state`].
    pub state: u32,
    /// Nonzero if TTMP registers are set up.
    pub ttmp_setup: u32,
}

/// Operations of `DBG_TRAP` (`kfd_dbg_trap_operations`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    /// Become the debugger of a process.
    Enable = 0,
    /// Stop being it. Resumes everything.
    Disable = 1,
    /// Let a `RUNTIME_ENABLE` go on that waits for the debugger.
    SendRuntimeEvent = 2,
    /// Choose the exceptions that are reported.
    SetExceptions = 3,
    /// Change how waves start.
    SetWaveLaunchOverride = 4,
    /// Change how waves start.
    SetWaveLaunchMode = 5,
    /// Suspend queues, all with one preemption per GPU.
    SuspendQueues = 6,
    /// Resume queues.
    ResumeQueues = 7,
    /// Watch an address.
    SetNodeAddressWatch = 8,
    /// Stop watching it.
    ClearNodeAddressWatch = 9,
    /// Set flags.
    SetFlags = 10,
    /// Ask for an exception.
    QueryDebugEvent = 11,
    /// Ask for details of it.
    QueryExceptionInfo = 12,
    /// List the queues.
    GetQueueSnapshot = 13,
    /// List the GPUs.
    GetDeviceSnapshot = 14,
}

impl Operation {
    /// The operation with this number.
    #[must_use]
    pub const fn of(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Enable,
            1 => Self::Disable,
            2 => Self::SendRuntimeEvent,
            3 => Self::SetExceptions,
            4 => Self::SetWaveLaunchOverride,
            5 => Self::SetWaveLaunchMode,
            6 => Self::SuspendQueues,
            7 => Self::ResumeQueues,
            8 => Self::SetNodeAddressWatch,
            9 => Self::ClearNodeAddressWatch,
            10 => Self::SetFlags,
            11 => Self::QueryDebugEvent,
            12 => Self::QueryExceptionInfo,
            13 => Self::GetQueueSnapshot,
            14 => Self::GetDeviceSnapshot,
            _ => return None,
        })
    }
}

/// `kfd_ioctl_dbg_trap_args`: the operation, and 24 bytes that depend on it.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct DbgTrap {
    /// In: the process, as this process numbers processes.
    pub pid: u32,
    /// In: an [`Operation`].
    pub operation: u32,
    /// In and out: what the operation takes.
    pub payload: [u64; 3],
}

impl DbgTrap {
    /// The argument of an operation on a process.
    #[must_use]
    pub fn new<P: Payload>(pid: u32, payload: &P) -> Self {
        let mut bytes = [0_u8; 24];
        let given = payload.as_bytes();
        bytes[..given.len()].copy_from_slice(given);
        let payload = zerocopy::transmute!(bytes);
        Self { pid, operation: P::OPERATION as u32, payload }
    }

    /// Argument of the operation, or its result.
    #[must_use]
    pub fn payload<P: Payload>(&self) -> P {
        let mut payload = P::new_zeroed();
        let room = payload.as_mut_bytes();
        room.copy_from_slice(&self.payload.as_bytes()[..room.len()]);
        payload
    }
}

/// Argument of an operation of `DBG_TRAP`. At most 24 bytes.
pub trait Payload: FromBytes + IntoBytes + Immutable {
    /// The operation.
    const OPERATION: Operation;
}

/// Declares what an operation takes, and checks that it fits.
macro_rules! payload {
    ($name:ident, $operation:ident) => {
        impl Payload for $name {
            const OPERATION: Operation = Operation::$operation;
        }
        const _: () = assert!(size_of::<$name>() <= 24);
    };
}

/// Of [`Operation::Enable`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct EnableDebug {
    /// In: exceptions that are reported to the descriptor.
    pub exceptions: u64,
    /// In: address of a [`RuntimeInfo`], which is written.
    pub info: u64,
    /// In: room for it; out: its bytes.
    pub info_size: u32,
    /// In: a descriptor that exceptions are announced on. Must be open.
    pub descriptor: u32,
}
payload!(EnableDebug, Enable);

/// Of [`Operation::Disable`], which takes nothing.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct DisableDebug {
    /// Zero.
    pub pad: u64,
}
payload!(DisableDebug, Disable);

/// Of [`Operation::SendRuntimeEvent`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SendRuntimeEvent {
    /// In: exceptions.
    pub exceptions: u64,
    /// In: the GPU.
    pub gpu_id: u32,
    /// In: the queue.
    pub queue_id: u32,
}
payload!(SendRuntimeEvent, SendRuntimeEvent);

/// Of [`Operation::SetExceptions`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SetExceptions {
    /// In: exceptions.
    pub exceptions: u64,
}
payload!(SetExceptions, SetExceptions);

/// Of [`Operation::SuspendQueues`]. The call answers how many were suspended.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct SuspendQueues {
    /// In: exceptions that are cleared.
    pub exceptions: u64,
    /// In: address of the ids, `u32` each; [`INVALID_BIT`] and [`FAILED_BIT`] are set in them.
    pub queues: u64,
    /// In: this many ids.
    pub count: u32,
    /// In: how long waves may go on, in units of 1024 clocks of the GPU; 0 means 1.
    pub grace: u32,
}
payload!(SuspendQueues, SuspendQueues);

/// Of [`Operation::ResumeQueues`]. The call answers how many were resumed.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct ResumeQueues {
    /// In: address of the ids, `u32` each; [`INVALID_BIT`] and [`FAILED_BIT`] are set in them.
    pub queues: u64,
    /// In: this many ids.
    pub count: u32,
    /// Zero.
    pub pad: u32,
}
payload!(ResumeQueues, ResumeQueues);

/// Of [`Operation::GetQueueSnapshot`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct QueueSnapshot {
    /// In: exceptions that are cleared, among them [`EC_QUEUE_NEW`].
    pub exceptions: u64,
    /// In: address of the entries ([`QueueSnapshotEntry`]).
    pub entries: u64,
    /// In: room for this many; out: this many queues, which may be more.
    pub count: u32,
    /// In: bytes of an entry; out: bytes that the driver writes of one, which may be fewer.
    pub entry_size: u32,
}
payload!(QueueSnapshot, GetQueueSnapshot);

/// Of [`Operation::GetDeviceSnapshot`], laid out as [`QueueSnapshot`].
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct DeviceSnapshot {
    /// In: exceptions that are cleared.
    pub exceptions: u64,
    /// In: address of the entries.
    pub entries: u64,
    /// In: room for this many; out: this many GPUs.
    pub count: u32,
    /// In and out: bytes of an entry.
    pub entry_size: u32,
}
payload!(DeviceSnapshot, GetDeviceSnapshot);

/// `kfd_queue_snapshot_entry`.
#[repr(C)]
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct QueueSnapshotEntry {
    /// Exceptions that the queue carried.
    pub exceptions: u64,
    /// Address of the ring.
    pub ring_base: u64,
    /// Address of the write pointer.
    pub write_pointer: u64,
    /// Address of the read pointer.
    pub read_pointer: u64,
    /// Address of the save area.
    pub save_address: u64,
    /// The queue.
    pub queue_id: u32,
    /// GPU.
    pub gpu_id: u32,
    /// Bytes of the ring.
    pub ring_size: u32,
    /// A [`QueueType`](super::QueueType).
    pub queue_type: u32,
    /// Bytes of the save area.
    pub save_size: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = {
    assert!(EC_QUEUE_NEW == 1 << 30 && EC_PROCESS_RUNTIME == 1 << 47);
    assert!(size_of::<RuntimeEnable>() == 16);
    assert!(offset_of!(RuntimeEnable, mode) == 8 && offset_of!(RuntimeEnable, capabilities) == 12);
    assert!(size_of::<RuntimeInfo>() == 16 && offset_of!(RuntimeInfo, state) == 8);
    assert!(size_of::<DbgTrap>() == 32);
    assert!(offset_of!(DbgTrap, operation) == 4 && offset_of!(DbgTrap, payload) == 8);
    assert!(size_of::<EnableDebug>() == 24 && offset_of!(EnableDebug, descriptor) == 20);
    assert!(offset_of!(EnableDebug, info) == 8 && offset_of!(EnableDebug, info_size) == 16);
    assert!(size_of::<SendRuntimeEvent>() == 16 && offset_of!(SendRuntimeEvent, gpu_id) == 8);
    assert!(size_of::<SuspendQueues>() == 24 && offset_of!(SuspendQueues, queues) == 8);
    assert!(offset_of!(SuspendQueues, count) == 16 && offset_of!(SuspendQueues, grace) == 20);
    assert!(size_of::<ResumeQueues>() == 16 && offset_of!(ResumeQueues, count) == 8);
    assert!(size_of::<QueueSnapshot>() == 24 && offset_of!(QueueSnapshot, entries) == 8);
    assert!(offset_of!(QueueSnapshot, count) == 16 && offset_of!(QueueSnapshot, entry_size) == 20);
    assert!(size_of::<QueueSnapshotEntry>() == 64);
    assert!(offset_of!(QueueSnapshotEntry, ring_base) == 8);
    assert!(offset_of!(QueueSnapshotEntry, write_pointer) == 16);
    assert!(offset_of!(QueueSnapshotEntry, read_pointer) == 24);
    assert!(offset_of!(QueueSnapshotEntry, save_address) == 32);
    assert!(offset_of!(QueueSnapshotEntry, queue_id) == 40);
    assert!(offset_of!(QueueSnapshotEntry, gpu_id) == 44);
    assert!(offset_of!(QueueSnapshotEntry, ring_size) == 48);
    assert!(offset_of!(QueueSnapshotEntry, queue_type) == 52);
    assert!(offset_of!(QueueSnapshotEntry, save_size) == 56);
};
