"""The functions of libpreempt.so, as they are: they answer results and raise nothing."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Tuple

from ._callbacks import LAUNCH, Function, Launch, callbacks
from ._library import LibraryVersionError, load, path_of, version_of
from ._types import (
    TIMESLICE_UNLIMITED,
    Deadline,
    HwCommandHandle,
    HwQueueHandle,
    Laxity,
    Priority,
    Timeslice,
    Utilization,
    XPolicyType,
    XQueueCreateFlag,
    XQueueHandle,
    XQueueState,
    XResult,
    XSchedulerType,
)

_HANDLE = c_uint64
_OUT = POINTER(c_uint64)
_ARGUMENTS: Dict[str, List[Any]] = {
    "XQueueCreate": [_OUT, _HANDLE, c_int64, c_int64],
    "XQueueDestroy": [_HANDLE],
    "XQueueGet": [_OUT, _HANDLE],
    "XQueueSetPreemptLevel": [_HANDLE, c_int32],
    "XQueueSetLaunchConfig": [_HANDLE, c_int64, c_int64],
    "XQueueSubmit": [_HANDLE, _HANDLE],
    "XQueueWait": [_HANDLE, _HANDLE],
    "XQueueWaitAll": [_HANDLE],
    "XQueueQuery": [_HANDLE, POINTER(c_int32)],
    "XQueueSuspend": [_HANDLE, c_int64],
    "XQueueResume": [_HANDLE, c_int64],
    "XQueueProfileHwCommandCount": [_HANDLE, POINTER(c_int64)],
    "HwQueueDestroy": [_HANDLE],
    "HwQueueLaunch": [_HANDLE, _HANDLE],
    "HwQueueSynchronize": [_HANDLE],
    "HwCommandCreateCallback": [_OUT, c_void_p, c_void_p],
    "HwCommandDestroy": [_HANDLE],
    "XHintSetScheduler": [c_int32, c_int32],
    "XHintPriority": [_HANDLE, c_int32],
    "XHintUtilization": [_HANDLE, c_int32],
    "XHintTimeslice": [c_int64],
    "XHintLaxity": [_HANDLE, c_int64, c_int32, c_int32],
    "XHintDeadline": [_HANDLE, c_int64],
    "XHintKDeadline": [c_size_t],
    "XHintFloor": [c_double],
}
_ADDITIONS: Dict[str, List[Any]] = {
    "xsched_private_queue_forget": [_HANDLE],
    "xsched_private_priority": [_HANDLE, POINTER(c_int32)],
}


#: The least and the most that an integer of C can be, of which `ctypes` takes the lower bits only.
_LIMITS: Dict[Any, Tuple[int, int]] = {
    c_int32: (-(1 << 31), (1 << 31) - 1),
    c_int64: (-(1 << 63), (1 << 63) - 1),
    c_size_t: (0, (1 << 64) - 1),
    c_uint64: (0, (1 << 64) - 1),
    c_void_p: (0, (1 << 64) - 1),
}


def declare(library: ctypes.CDLL, arguments: Dict[str, List[Any]]) -> SimpleNamespace:
    """The functions of a library, which take these arguments and answer a result. They raise
    OverflowError for an integer that does not fit, and TypeError for what is none.

    Raises LibraryVersionError if it lacks one."""
    for name in arguments:
        if not hasattr(library, name):
            raise LibraryVersionError(path_of(library), version_of(library), f"it lacks {name}")
    functions = {name: _checked(library, name, types) for name, types in arguments.items()}
    return SimpleNamespace(**functions)


def _checked(library: ctypes.CDLL, name: str, types: List[Any]) -> Callable[..., int]:
    function = getattr(library, name)
    function.argtypes = types
    function.restype = c_int32
    limits = [(place, *_LIMITS[kind]) for place, kind in enumerate(types) if kind in _LIMITS]

    def call(*arguments: Any) -> int:
        for place, least, most in limits:
            value = arguments[place]
            if isinstance(value, int) and not least <= value <= most:
                raise OverflowError(f"{name}: argument {place + 1} is {value}, which does not fit")
        try:
            return int(function(*arguments))
        except ctypes.ArgumentError as error:
            raise TypeError(f"{name}: {error}") from None

    return call


@lru_cache(maxsize=None)
def preempt() -> SimpleNamespace:
    """The functions of libpreempt.so. Raises LibraryNotFoundError and LibraryVersionError."""
    library = load("preempt")
    functions = declare(library, _ARGUMENTS)
    # Additions, which the C++ library lacks.
    for name, types in _ADDITIONS.items():
        if hasattr(library, name):
            setattr(functions, name, _checked(library, name, types))
    explain = getattr(library, "XSchedGetLastErrorString", None)
    if explain is not None:
        explain.argtypes = []
        explain.restype = ctypes.c_char_p
        functions.XSchedGetLastErrorString = explain
    return functions


def platform(name: str, arguments: Dict[str, List[Any]]) -> SimpleNamespace:
    """The functions of a platform's library. Raises LibraryNotFoundError and LibraryVersionError."""
    # That of another version says which it is.
    preempt()
    return declare(load(name), arguments)


def last_error() -> str:
    """Why this thread's last call was refused; empty if none was, or the library does not say."""
    explain = getattr(preempt(), "XSchedGetLastErrorString", None)
    text = explain() if explain is not None else None
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else ""


def _handle(name: str, *arguments: Any) -> Tuple[XResult, int]:
    """Calls a function whose first argument is where a handle goes."""
    handle = c_uint64()
    result = getattr(preempt(), name)(byref(handle), *arguments)
    return XResult(result), handle.value


def create_command(
    create: Callable[..., int], function: Function, *, is_lent: bool = False
) -> Tuple[XResult, HwCommandHandle]:
    """Makes a command of a function of Python by a function of the C interface that takes one. If it
    is lent, the caller keeps it until the command is submitted."""
    number = function.add(is_lent=is_lent)
    handle = c_uint64()
    result = XResult(create(byref(handle), LAUNCH, number))
    if result == XResult.kXSchedSuccess:
        callbacks.name(number, handle.value)
    else:
        callbacks.forget(number)
    return result, handle.value


def hand_over(call: Callable[..., int], queue: int, hw_cmd: HwCommandHandle) -> XResult:
    """Calls a function that takes a queue and a command, which is the library's if it succeeds."""
    result = XResult(call(queue, hw_cmd))
    if result == XResult.kXSchedSuccess:
        callbacks.submitted(hw_cmd)
    else:
        callbacks.refused(hw_cmd)
    return result


def _forget_dropped(xq: XQueueHandle) -> None:
    """Lets go of functions that were dropped, once the queue has nothing to do."""
    waiting = callbacks.submitted_to(xq)
    if waiting and XSched.XQueueQuery(xq)[1] == XQueueState.kQueueStateIdle:
        callbacks.forget_all(waiting)


def priority_of(xq: XQueueHandle) -> Tuple[XResult, int]:
    """The priority that a queue has; 0 if the library does not say."""
    ask = getattr(preempt(), "xsched_private_priority", None)
    priority = c_int32()
    result = XResult.kXSchedSuccess if ask is None else XResult(ask(xq, byref(priority)))
    return result, priority.value


def forget_queue(xq: XQueueHandle, hwq: HwQueueHandle) -> None:
    """Ends a queue that no object has any more, and `hwq` unless it is 0. What was submitted runs."""
    preempt().xsched_private_queue_forget(xq)
    if hwq:
        preempt().HwQueueDestroy(hwq)


class XSched:
    """The C interface of libpreempt.so, with the names and results of the C++ XSched's Python module.

    Nothing here raises because of a result. An integer that does not fit into C's is an OverflowError,
    and what is none a TypeError. Every call lets other threads of Python run meanwhile.
    """

    @staticmethod
    def XQueueCreate(hwq: HwQueueHandle, level: int, flags: int) -> Tuple[XResult, XQueueHandle]:
        """Makes a queue preemptible at a level, 1 to 3. `flags` are of XQueueCreateFlag."""
        return _handle("XQueueCreate", hwq, level, flags)

    @staticmethod
    def XQueueDestroy(xq: XQueueHandle) -> XResult:
        """Ends a queue, after all that was submitted has run."""
        result = XResult(preempt().XQueueDestroy(xq))
        if result == XResult.kXSchedSuccess:
            callbacks.closed(xq)
        return result

    @staticmethod
    def XQueueGet(hwq: HwQueueHandle) -> Tuple[XResult, XQueueHandle]:
        """The XQueue of a hardware queue."""
        return _handle("XQueueGet", hwq)

    @staticmethod
    def XQueueSetPreemptLevel(xq: XQueueHandle, level: int) -> XResult:
        """Sets the level, 1 to 3."""
        return XResult(preempt().XQueueSetPreemptLevel(xq, level))

    @staticmethod
    def XQueueSetLaunchConfig(xq: XQueueHandle, threshold: int, batch_size: int) -> XResult:
        """Sets how many commands are in flight, and how many between two fences; -1 keeps one."""
        return XResult(preempt().XQueueSetLaunchConfig(xq, threshold, batch_size))

    @staticmethod
    def XQueueSubmit(xq: XQueueHandle, hw_cmd: HwCommandHandle) -> XResult:
        """Submits a command. It may wait for room."""
        callbacks.submitting(xq, hw_cmd)
        return hand_over(preempt().XQueueSubmit, xq, hw_cmd)

    @staticmethod
    def XQueueWait(xq: XQueueHandle, hw_cmd: HwCommandHandle) -> XResult:
        """Waits for a command; the answer is the command's own result."""
        return XResult(preempt().XQueueWait(xq, hw_cmd))

    @staticmethod
    def XQueueWaitAll(xq: XQueueHandle) -> XResult:
        """Waits for all that was submitted."""
        try:
            waiting = callbacks.submitted_to(xq)
        except (TypeError, OverflowError):
            # The call says what is wrong.
            waiting = []
        result = XResult(preempt().XQueueWaitAll(xq))
        if result == XResult.kXSchedSuccess:
            # Those that have not run were dropped, whatever was submitted meanwhile.
            callbacks.forget_all(waiting)
        else:
            _forget_dropped(xq)
        return result

    @staticmethod
    def XQueueQuery(xq: XQueueHandle) -> Tuple[XResult, XQueueState]:
        """Whether the queue has work."""
        state = c_int32()
        result = preempt().XQueueQuery(xq, byref(state))
        return XResult(result), XQueueState(state.value)

    @staticmethod
    def XQueueSuspend(xq: XQueueHandle, flags: int) -> XResult:
        """Holds a queue. `flags` are of XQueueSuspendFlag."""
        return XResult(preempt().XQueueSuspend(xq, flags))

    @staticmethod
    def XQueueResume(xq: XQueueHandle, flags: int) -> XResult:
        """Ends a hold. `flags` are of XQueueResumeFlag."""
        result = XResult(preempt().XQueueResume(xq, flags))
        if flags:
            _forget_dropped(xq)
        return result

    @staticmethod
    def XQueueProfileHwCommandCount(xq: XQueueHandle) -> Tuple[XResult, int]:
        """How many commands were ever submitted."""
        count = c_int64()
        result = preempt().XQueueProfileHwCommandCount(xq, byref(count))
        return XResult(result), count.value

    @staticmethod
    def HwQueueDestroy(hwq: HwQueueHandle) -> XResult:
        """Forgets a hardware queue that has no XQueue."""
        return XResult(preempt().HwQueueDestroy(hwq))

    @staticmethod
    def HwQueueLaunch(hwq: HwQueueHandle, hw_cmd: HwCommandHandle) -> XResult:
        """Launches a command past any XQueue."""
        callbacks.submitting(0, hw_cmd)
        return hand_over(preempt().HwQueueLaunch, hwq, hw_cmd)

    @staticmethod
    def HwQueueSynchronize(hwq: HwQueueHandle) -> XResult:
        """Waits for the hardware queue."""
        return XResult(preempt().HwQueueSynchronize(hwq))

    @staticmethod
    def HwCommandCreateCallback(launch: Launch) -> Tuple[XResult, HwCommandHandle]:
        """Makes a command of a function. It is called once, with the hardware queue, on any thread.

        An addition: the C++ XSched's Python module lacks it.
        """
        return create_command(preempt().HwCommandCreateCallback, Function(launch))

    @staticmethod
    def HwCommandDestroy(hw_cmd: HwCommandHandle) -> XResult:
        """Destroys a command that was not submitted."""
        result = XResult(preempt().HwCommandDestroy(hw_cmd))
        if result == XResult.kXSchedSuccess:
            callbacks.destroyed(hw_cmd)
        return result

    @staticmethod
    def XHintSetScheduler(scheduler: XSchedulerType, policy: XPolicyType) -> XResult:
        """Says who decides which queues of this process run, and by which policy."""
        return XResult(preempt().XHintSetScheduler(scheduler, policy))

    @staticmethod
    def XHintPriority(xq: XQueueHandle, prio: Priority) -> XResult:
        """Sets a priority."""
        return XResult(preempt().XHintPriority(xq, prio))

    @staticmethod
    def XHintUtilization(xq: XQueueHandle, util: Utilization) -> XResult:
        """Sets a share in percent."""
        return XResult(preempt().XHintUtilization(xq, util))

    @staticmethod
    def XHintTimeslice(ts_us: Timeslice) -> XResult:
        """Sets the policy's timeslice in microseconds."""
        # The constant is unsigned, the argument is not.
        ts_us = -1 if ts_us == TIMESLICE_UNLIMITED else ts_us
        return XResult(preempt().XHintTimeslice(ts_us))

    @staticmethod
    def XHintLaxity(
        xq: XQueueHandle, lax_us: Laxity, lax_prio: Priority, crit_prio: Priority
    ) -> XResult:
        """Sets a laxity in microseconds, the priority until then, and the one from then on."""
        return XResult(preempt().XHintLaxity(xq, lax_us, lax_prio, crit_prio))

    @staticmethod
    def XHintDeadline(xq: XQueueHandle, ddl_us: Deadline) -> XResult:
        """Sets a deadline in microseconds after becoming ready."""
        return XResult(preempt().XHintDeadline(xq, ddl_us))

    @staticmethod
    def XHintFloor(ratio: float) -> XResult:
        """Sets the part of the device's time for queues below the highest priority, 0 to 0.5."""
        return XResult(preempt().XHintFloor(ratio))

    @staticmethod
    def XHintKDeadline(k: int) -> XResult:
        """Sets how many queues run at once under K-EDF."""
        return XResult(preempt().XHintKDeadline(k))
