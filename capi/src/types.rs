//! The types of the C API, as `xsched/types.h` has them. Numbers are those of the C++ XSched 1.2.

use std::ffi::{c_int, c_void};

use XPolicyType::{kPolicyLaxity, kPolicyUtilizationPartition};

/// A device: its type in the upper half, its PCI id in the lower.
pub type XDevice = u64;
/// A device's PCI id.
pub type XDeviceId = u32;
/// An XQueue. Never 0; a handle that was destroyed, or is another process's, is not found.
pub type XQueueHandle = u64;
/// A hardware queue, such as a stream.
pub type HwQueueHandle = u64;
/// A command.
pub type HwCommandHandle = u64;

/// How a call went.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XResult {
    /// Done.
    kXSchedSuccess = 0,
    /// The device, its driver or a command failed.
    kXSchedErrorHardware = 1,
    /// An argument makes no sense.
    kXSchedErrorInvalidValue = 2,
    /// A handle is unknown: destroyed, never given out, or another process's.
    kXSchedErrorNotFound = 3,
    /// The call is not possible in the present state.
    kXSchedErrorNotAllowed = 4,
    /// The device or this library cannot do it.
    kXSchedErrorNotSupported = 5,
    /// The scheduler did not answer in time.
    kXSchedErrorBadResponse = 6,
    /// Something else.
    kXSchedErrorUnknown = 999,
}

/// An interface of a vendor.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of interfaces")]
pub enum XPlatform {
    kPlatformUnknown = 0,
    kPlatformVPI = 1,
    kPlatformCUDA = 2,
    kPlatformCUDLA = 3,
    kPlatformHIP = 4,
    kPlatformAscend = 5,
    kPlatformOpenCL = 6,
    kPlatformLevelZero = 7,
}

/// A kind of device.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of kinds")]
pub enum XDeviceType {
    kDeviceTypeUnknown = 0,
    kDeviceTypeCPU = 1,
    kDeviceTypeGPU = 2,
    kDeviceTypeNPU = 3,
    kDeviceTypeFPGA = 4,
    kDeviceTypeASIC = 5,
    kDeviceTypeMCA = 6,
}

/// How deep a queue is held.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XPreemptLevel {
    /// None of them.
    kPreemptLevelUnknown = 0,
    /// Nothing more is launched.
    kPreemptLevelBlock = 1,
    /// Launched commands that have not started do not start.
    kPreemptLevelDeactivate = 2,
    /// The running command is stopped.
    kPreemptLevelInterrupt = 3,
    /// One past the last.
    kPreemptLevelMax = 4,
}

/// State of a queue: idle, or with something to do.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XQueueState {
    /// Neither.
    kQueueStateUnknown = 0,
    /// Everything that was submitted is done.
    kQueueStateIdle = 1,
    /// Something is not.
    kQueueStateReady = 2,
}

/// Features of an XQueue. This library's queues have all of it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of features")]
pub enum XQueueFeature {
    kQueueFeatureNone = 0x0000,
    kQueueFeatureAsyncSubmit = 0x0001,
    kQueueFeatureDynamicLevel = 0x0002,
    kQueueFeatureDynamicThreshold = 0x0004,
    kQueueFeatureDynamicBatchSize = 0x0008,
    kQueueFeatureSyncSuspend = 0x0010,
    kQueueFeatureResumeDropCommands = 0x0020,
    kQueueFeatureMaskAll = -1,
}

/// Flags of `XQueueCreate`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XQueueCreateFlag {
    /// `XQueueSubmit` returns when the command is queued.
    kQueueCreateFlagNone = 0x0000,
    /// `XQueueSubmit` returns when the command has been launched.
    kQueueCreateFlagBlockingSubmit = 0x0001,
    /// A thread of the XQueue's own launches its commands, so `XQueueSubmit` returns at once. The
    /// C++ XSched does not have this flag.
    kQueueCreateFlagLauncherThread = 0x0100,
    /// All of them.
    kQueueCreateFlagMaskAll = -1,
}

/// Flags of `XQueueSuspend`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XQueueSuspendFlag {
    /// Hold the queue, and return.
    kQueueSuspendFlagNone = 0x0000,
    /// After that, wait until nothing of it runs.
    kQueueSuspendFlagSyncHwQueue = 0x0001,
    /// Before that, wait until everything submitted so far is done.
    kQueueSuspendFlagWaitAll = 0x0002,
    /// Before that, wait until nothing is submitted that is not done.
    kQueueSuspendFlagWaitIdle = 0x0004,
    /// All of them.
    kQueueSuspendFlagMaskAll = -1,
}

/// Flags of `XQueueResume`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XQueueResumeFlag {
    /// Everything goes on.
    kQueueResumeFlagNone = 0x0000,
    /// Commands that were not launched are dropped, and with them what can be taken back from the
    /// device.
    kQueueResumeFlagDropCommands = 0x0001,
    /// All of them.
    kQueueResumeFlagMaskAll = -1,
}

/// Scheduler that decides which queues run.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XSchedulerType {
    /// None of them.
    kSchedulerUnknown = 0,
    /// The program, by `XQueueSuspend` and `XQueueResume` alone.
    kSchedulerAppManaged = 1,
    /// A policy in this process.
    kSchedulerLocal = 2,
    /// The daemon `xschedd`, for all processes, which a process joins at its start; with a policy,
    /// `kSchedulerLocal`.
    kSchedulerGlobal = 3,
    /// One past the last.
    kSchedulerMax = 4,
}

/// Policy that decides.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of policies")]
pub enum XPolicyType {
    kPolicyUnknown = 0,
    kPolicyHighestPriorityFirst = 1,
    kPolicyHeterogeneousHighestPriorityFirst = 2,
    kPolicyCPUHighestPriorityFirst = 3,
    kPolicyUtilizationPartition = 4,
    kPolicyProcessUtilizationPartition = 5,
    kPolicyStrictProcessUtilizationPartition = 6,
    kPolicyKEarliestDeadlineFirst = 7,
    kPolicyLaxity = 8,
    kPolicyActiveWindowFirst = 9,
    kPolicyCompletelyFairScheduler = 10,
    kPolicyMultiLevelFeedbackQueue = 11,
    kPolicyMax = 12,
    kPolicyFirstComeFirstServed = 1000,
    kPolicyEarliestDeadlineFirst = 1001,
    kPolicyWeightedFairQueueing = 1002,
    kPolicyStrictEarliestDeadlineFirst = 1003,
    kPolicyStrictKEarliestDeadlineFirst = 1004,
    kPolicyStrictUtilizationPartition = 1005,
    kPolicyStrictWeightedFairQueueing = 1006,
}

/// Another name of `kPolicyUtilizationPartition`, which documents about XSched use. The C++ XSched
/// does not have it.
pub const kPolicyBandwidthPartition: XPolicyType = kPolicyUtilizationPartition;
/// Another name of `kPolicyLaxity`, which documents about XSched use. The C++ XSched does not have
/// it.
pub const kPolicyLaxityBased: XPolicyType = kPolicyLaxity;

/// An `XResult` as it comes from C, where any number can be in it.
pub type XResultValue = c_int;
/// An `XPreemptLevel` as it comes from C.
pub type XPreemptLevelValue = c_int;
/// An `XSchedulerType` as it comes from C.
pub type XSchedulerTypeValue = c_int;
/// An `XPolicyType` as it comes from C.
pub type XPolicyTypeValue = c_int;

/// Launches something into the hardware queue that it gets, with the data that it was given. It is
/// called once, on any thread, and must neither wait for queues nor throw. What it answers other
/// than `kXSchedSuccess` is the failure of its command.
pub type LaunchCallback =
    Option<unsafe extern "C" fn(hwq: HwQueueHandle, data: *mut c_void) -> XResultValue>;

/// A priority: higher is more urgent.
pub type Priority = i32;
/// The queue must not run.
pub const PRIORITY_NO_EXECUTE: i32 = -256;
/// The lowest priority that runs.
pub const PRIORITY_MIN: i32 = -255;
/// The priority of a queue that was given none.
pub const PRIORITY_DEFAULT: i32 = 0;
/// The highest priority.
pub const PRIORITY_MAX: i32 = 255;

/// A share of the device in percent.
pub type Utilization = i32;
/// Nothing.
pub const UTILIZATION_MIN: i32 = 0;
/// The share of a queue that was given none.
pub const UTILIZATION_DEFAULT: i32 = 100;
/// All of it.
pub const UTILIZATION_MAX: i32 = 100;

/// The length of a turn in microseconds.
pub type Timeslice = i64;
/// 0.1 ms.
pub const TIMESLICE_MIN: i64 = 100;
/// 5 ms.
pub const TIMESLICE_DEFAULT: i64 = 5_000;
/// 10 s.
pub const TIMESLICE_MAX: i64 = 10_000_000;
/// No end: the longest, `TIMESLICE_MAX`.
pub const TIMESLICE_UNLIMITED: u64 = u64::MAX;

/// How long after becoming ready a queue is not yet urgent, in microseconds.
pub type Laxity = i64;
/// No laxity.
pub const NO_LAXITY: i64 = -1;

/// The deadline after becoming ready, in microseconds.
pub type Deadline = i64;
/// No deadline.
pub const NO_DEADLINE: i64 = -1;
