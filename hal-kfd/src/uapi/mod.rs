//! Arguments of the driver's calls, declared once, with layouts checked by the compiler.
//!
//! Source: `include/uapi/linux/kfd_ioctl.h` of Linux 6.12 (KFD 1.17), with what other versions have
//! differently named where it is declared. The two calls of the patched driver are in no kernel;
//! [`patched`] says where they come from.
//!
//! **The driver goes by the number alone.** It looks neither at the magic byte, nor at the
//! direction, nor at the size (`kfd_ioctl` in `kfd_chardev.c`): what is shorter than it expects is
//! filled with zeros. So a number that means something else to the driver in hand is not refused,
//! it does something else. That is why [`Call::since`] exists and nothing is sent before the
//! version is known ([`crate::Versioned`]).

mod call;
mod debug;
mod device;
pub mod patched;
mod queue;

pub use call::{Call, Direction};
pub use debug::{
    DbgTrap, DeviceSnapshot, DisableDebug, EC_PROCESS_RUNTIME, EC_QUEUE_NEW, EnableDebug,
    FAILED_BIT, ID_MASK, INVALID_BIT, MODE_ENABLE, MODE_TTMP, Operation, Payload, QueueSnapshot,
    QueueSnapshotEntry, ResumeQueues, RuntimeEnable, RuntimeInfo, SendRuntimeEvent, SetExceptions,
    SuspendQueues, exception, runtime_state,
};
pub use device::{AvailableMemory, GetProcessAperturesNew, GetVersion, ProcessAperture, SmiEvents};
pub use queue::{
    ContextSaveHeader, CreateQueue, CreateQueue88, DestroyQueue, GetQueueWaveState, PRIORITY_MAX,
    QUEUES_MAX, QueueType, SetCuMask, UpdateQueue,
};

/// `AMDKFD_IOC_GET_VERSION`: the one call that may be made before the version is known.
pub const GET_VERSION: Call<GetVersion> = Call::new("GET_VERSION", Direction::Read, 0x01, 0);
/// `AMDKFD_IOC_CREATE_QUEUE` since 1.17.
pub const CREATE_QUEUE: Call<CreateQueue> =
    Call::new("CREATE_QUEUE", Direction::Both, 0x02, CREATE_QUEUE_96_SINCE);
/// `AMDKFD_IOC_CREATE_QUEUE` before 1.17. Later drivers take it too and see zeros behind it.
pub const CREATE_QUEUE_88: Call<CreateQueue88> =
    Call::new("CREATE_QUEUE", Direction::Both, 0x02, 0);
/// `AMDKFD_IOC_DESTROY_QUEUE`.
pub const DESTROY_QUEUE: Call<DestroyQueue> = Call::new("DESTROY_QUEUE", Direction::Both, 0x03, 0);
/// `AMDKFD_IOC_UPDATE_QUEUE`.
pub const UPDATE_QUEUE: Call<UpdateQueue> = Call::new("UPDATE_QUEUE", Direction::Write, 0x07, 0);
/// `AMDKFD_IOC_GET_PROCESS_APERTURES_NEW`.
pub const GET_PROCESS_APERTURES_NEW: Call<GetProcessAperturesNew> =
    Call::new("GET_PROCESS_APERTURES_NEW", Direction::Both, 0x14, 0);
/// `AMDKFD_IOC_SET_CU_MASK`.
pub const SET_CU_MASK: Call<SetCuMask> = Call::new("SET_CU_MASK", Direction::Write, 0x1a, 0);
/// `AMDKFD_IOC_GET_QUEUE_WAVE_STATE`.
pub const GET_QUEUE_WAVE_STATE: Call<GetQueueWaveState> =
    Call::new("GET_QUEUE_WAVE_STATE", Direction::Both, 0x1b, 0);
/// `AMDKFD_IOC_SMI_EVENTS`.
pub const SMI_EVENTS: Call<SmiEvents> = Call::new("SMI_EVENTS", Direction::Both, 0x1f, 3);
/// `AMDKFD_IOC_AVAILABLE_MEMORY`.
pub const AVAILABLE_MEMORY: Call<AvailableMemory> =
    Call::new("AVAILABLE_MEMORY", Direction::Both, 0x23, 9);
/// `AMDKFD_IOC_RUNTIME_ENABLE`.
pub const RUNTIME_ENABLE: Call<RuntimeEnable> =
    Call::new("RUNTIME_ENABLE", Direction::Both, 0x25, DEBUG_SINCE);
/// `AMDKFD_IOC_DBG_TRAP`.
pub const DBG_TRAP: Call<DbgTrap> = Call::new("DBG_TRAP", Direction::Both, 0x26, DEBUG_SINCE);

/// The minor from which `CREATE_QUEUE` takes 96 bytes instead of 88 (the engine of an SDMA queue).
pub const CREATE_QUEUE_96_SINCE: u32 = 17;
/// The minor from which there are `RUNTIME_ENABLE` and `DBG_TRAP`.
pub const DEBUG_SINCE: u32 = 13;
/// The only major version there has been.
pub const MAJOR: u32 = 1;

const _: () = {
    assert!(GET_VERSION.request == 0x8008_4b01);
    assert!(CREATE_QUEUE.request == 0xc060_4b02);
    assert!(CREATE_QUEUE_88.request == 0xc058_4b02);
    assert!(DESTROY_QUEUE.request == 0xc008_4b03);
    assert!(UPDATE_QUEUE.request == 0x4018_4b07);
    assert!(GET_PROCESS_APERTURES_NEW.request == 0xc010_4b14);
    assert!(SET_CU_MASK.request == 0x4010_4b1a);
    assert!(GET_QUEUE_WAVE_STATE.request == 0xc018_4b1b);
    assert!(SMI_EVENTS.request == 0xc008_4b1f);
    assert!(AVAILABLE_MEMORY.request == 0xc010_4b23);
    assert!(RUNTIME_ENABLE.request == 0xc010_4b25);
    assert!(DBG_TRAP.request == 0xc020_4b26);
};
