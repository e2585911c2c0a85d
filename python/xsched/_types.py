"""Names and numbers of the C interface."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

#: A device: its type in the upper 32 bits, its PCI address below.
XDevice = int
XDeviceId = int
#: What the C interface knows queues and commands by. 0 is none.
XQueueHandle = int
HwQueueHandle = int
HwCommandHandle = int

#: Higher is more urgent.
Priority = int
PRIORITY_NO_EXECUTE = -256
PRIORITY_MIN = -255
PRIORITY_DEFAULT = 0
PRIORITY_MAX = 255

#: Share of a device in percent.
Utilization = int
UTILIZATION_MIN = 0
UTILIZATION_DEFAULT = 100
UTILIZATION_MAX = 100

#: Microseconds.
Timeslice = int
TIMESLICE_MIN = 100
TIMESLICE_DEFAULT = 5_000
TIMESLICE_MAX = 10_000_000
TIMESLICE_UNLIMITED = 0xFFFF_FFFF_FFFF_FFFF

#: Microseconds after becoming ready.
Laxity = int
NO_LAXITY = -1

#: Microseconds after becoming ready.
Deadline = int
NO_DEADLINE = -1


class XResult(IntEnum):
    """What a call answers."""

    kXSchedSuccess = 0
    kXSchedErrorHardware = 1
    kXSchedErrorInvalidValue = 2
    kXSchedErrorNotFound = 3
    kXSchedErrorNotAllowed = 4
    kXSchedErrorNotSupported = 5
    kXSchedErrorBadResponse = 6
    kXSchedErrorUnknown = 999

    @classmethod
    def _missing_(cls, value: object) -> Any:
        # A newer library may answer what is not known here; that is no reason to end the program.
        return cls.kXSchedErrorUnknown if isinstance(value, int) else None


class XPlatform(IntEnum):
    """Whose queues."""

    kPlatformUnknown = 0
    kPlatformVPI = 1
    kPlatformCUDA = 2
    kPlatformCUDLA = 3
    kPlatformHIP = 4
    kPlatformAscend = 5
    kPlatformOpenCL = 6
    kPlatformLevelZero = 7


class XDeviceType(IntEnum):
    """Kinds of devices."""

    kDeviceTypeUnknown = 0
    kDeviceTypeCPU = 1
    kDeviceTypeGPU = 2
    kDeviceTypeNPU = 3
    kDeviceTypeFPGA = 4
    kDeviceTypeASIC = 5
    kDeviceTypeMCA = 6


class XPreemptLevel(IntEnum):
    """How deep a hold reaches."""

    kPreemptLevelUnknown = 0
    kPreemptLevelBlock = 1
    kPreemptLevelDeactivate = 2
    kPreemptLevelInterrupt = 3
    kPreemptLevelMax = 4


class XQueueState(IntEnum):
    """Whether a queue has work."""

    kQueueStateUnknown = 0
    kQueueStateIdle = 1
    kQueueStateReady = 2


class XQueueFeature(IntEnum):
    """Bits: what a queue can do."""

    kQueueFeatureNone = 0
    kQueueFeatureAsyncSubmit = 0x01
    kQueueFeatureDynamicLevel = 0x02
    kQueueFeatureDynamicThreshold = 0x04
    kQueueFeatureDynamicBatchSize = 0x08
    kQueueFeatureSyncSuspend = 0x10
    kQueueFeatureResumeDropCommands = 0x20
    kQueueFeatureMaskAll = -1


class XQueueCreateFlag(IntEnum):
    """Bits for `XQueueCreate`."""

    kQueueCreateFlagNone = 0
    kQueueCreateFlagBlockingSubmit = 1
    kQueueCreateFlagLauncherThread = 0x100
    kQueueCreateFlagMaskAll = -1


class XQueueSuspendFlag(IntEnum):
    """Bits for `XQueueSuspend`."""

    kQueueSuspendFlagNone = 0
    kQueueSuspendFlagSyncHwQueue = 1
    kQueueSuspendFlagWaitAll = 2
    kQueueSuspendFlagWaitIdle = 4
    kQueueSuspendFlagMaskAll = -1


class XQueueResumeFlag(IntEnum):
    """Bits for `XQueueResume`."""

    kQueueResumeFlagNone = 0
    kQueueResumeFlagDropCommands = 1
    kQueueResumeFlagMaskAll = -1


class XSchedulerType(IntEnum):
    """Who decides."""

    kSchedulerUnknown = 0
    kSchedulerAppManaged = 1
    kSchedulerLocal = 2
    kSchedulerGlobal = 3
    kSchedulerMax = 4


class XPolicyType(IntEnum):
    """Policies of the local scheduler."""

    kPolicyUnknown = 0
    kPolicyHighestPriorityFirst = 1
    kPolicyHeterogeneousHighestPriorityFirst = 2
    kPolicyCPUHighestPriorityFirst = 3
    kPolicyUtilizationPartition = 4
    kPolicyProcessUtilizationPartition = 5
    kPolicyStrictProcessUtilizationPartition = 6
    kPolicyKEarliestDeadlineFirst = 7
    kPolicyLaxity = 8
    kPolicyActiveWindowFirst = 9
    kPolicyCompletelyFairScheduler = 10
    kPolicyMultiLevelFeedbackQueue = 11
    kPolicyMax = 12
    # Additions, which the C++ library lacks.
    kPolicyFirstComeFirstServed = 1000
    kPolicyEarliestDeadlineFirst = 1001
    kPolicyWeightedFairQueueing = 1002
    kPolicyStrictEarliestDeadlineFirst = 1003
    kPolicyStrictKEarliestDeadlineFirst = 1004
    kPolicyStrictUtilizationPartition = 1005
    kPolicyStrictWeightedFairQueueing = 1006
    # Other names, which documents about XSched use.
    kPolicyBandwidthPartition = 4
    kPolicyLaxityBased = 8
