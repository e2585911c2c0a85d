"""XSched: preemptible queues for GPUs, and a simulator of them.

- `Runtime`, `Queue`, `Command` and `priority` are for programs.
- `XSched` with the enums and constants, `xsched.hip`, `xsched.cuda` and `xsched.host` are the C
  interface as it is, with the names of the C++ XSched's Python module.
- `xsched.sim` is the simulator, with policies in Python (`Policy`).

The C libraries are loaded when they are first needed.
"""

from __future__ import annotations

from . import _main_interpreter, sim  # In this order: a subinterpreter must load nothing else.
from ._capi import XSched, last_error
from ._native import __version__
from ._types import (
    NO_DEADLINE,
    NO_LAXITY,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    PRIORITY_MIN,
    PRIORITY_NO_EXECUTE,
    TIMESLICE_DEFAULT,
    TIMESLICE_MAX,
    TIMESLICE_MIN,
    TIMESLICE_UNLIMITED,
    UTILIZATION_DEFAULT,
    UTILIZATION_MAX,
    UTILIZATION_MIN,
    Deadline,
    HwCommandHandle,
    HwQueueHandle,
    Laxity,
    Priority,
    Timeslice,
    Utilization,
    XDevice,
    XDeviceId,
    XDeviceType,
    XPlatform,
    XPolicyType,
    XPreemptLevel,
    XQueueCreateFlag,
    XQueueFeature,
    XQueueHandle,
    XQueueResumeFlag,
    XQueueState,
    XQueueSuspendFlag,
    XResult,
    XSchedulerType,
)
from .errors import (
    BadResponseError,
    HardwareError,
    InvalidValueError,
    LibraryNotFoundError,
    LibraryVersionError,
    NotAllowedError,
    NotFoundError,
    NotSupportedError,
    UnknownError,
    XSchedError,
)
from .queues import Backend, Command, HwQueue, Queue, XHintPriority, XQueue, priority
from .runtime import Runtime
from .sim import Policy

__all__ = [
    "Backend",
    "BadResponseError",
    "Command",
    "Deadline",
    "HardwareError",
    "HwCommandHandle",
    "HwQueue",
    "HwQueueHandle",
    "InvalidValueError",
    "Laxity",
    "LibraryNotFoundError",
    "LibraryVersionError",
    "NO_DEADLINE",
    "NO_LAXITY",
    "NotAllowedError",
    "NotFoundError",
    "NotSupportedError",
    "PRIORITY_DEFAULT",
    "PRIORITY_MAX",
    "PRIORITY_MIN",
    "PRIORITY_NO_EXECUTE",
    "Policy",
    "Priority",
    "Queue",
    "Runtime",
    "TIMESLICE_DEFAULT",
    "TIMESLICE_MAX",
    "TIMESLICE_MIN",
    "TIMESLICE_UNLIMITED",
    "Timeslice",
    "UTILIZATION_DEFAULT",
    "UTILIZATION_MAX",
    "UTILIZATION_MIN",
    "UnknownError",
    "Utilization",
    "XDevice",
    "XDeviceId",
    "XDeviceType",
    "XHintPriority",
    "XPlatform",
    "XPolicyType",
    "XPreemptLevel",
    "XQueue",
    "XQueueCreateFlag",
    "XQueueFeature",
    "XQueueHandle",
    "XQueueResumeFlag",
    "XQueueState",
    "XQueueSuspendFlag",
    "XResult",
    "XSched",
    "XSchedError",
    "XSchedulerType",
    "__version__",
    "last_error",
    "priority",
    "sim",
]
