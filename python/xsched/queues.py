"""Queues and commands for Python: they close themselves, and raise what went wrong."""

from __future__ import annotations

import operator
import os
import threading
import weakref
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, Union

from . import _streams, host
from ._callbacks import Function, Launch, callbacks, is_in_function
from ._capi import XSched, create_command, forget_queue, preempt, priority_of
from ._streams import Backend
from ._types import (
    NO_DEADLINE,
    NO_LAXITY,
    PRIORITY_MAX,
    PRIORITY_NO_EXECUTE,
    UTILIZATION_MAX,
    UTILIZATION_MIN,
    HwCommandHandle,
    HwQueueHandle,
    Priority,
    XQueueCreateFlag,
    XQueueHandle,
    XQueueResumeFlag,
    XQueueState,
    XQueueSuspendFlag,
    XResult,
)
from .errors import InvalidValueError, NotAllowedError, check, error_of
from .hip import XSchedHip
from .host import XSchedHost

__all__ = ["Backend", "Command", "HwQueue", "Queue", "XHintPriority", "XQueue", "priority"]

_DAY_US = 86_400_000_000


def _integer(call: str, value: int) -> int:
    """Takes an integer. Raises TypeError for anything else, a number that is none included."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{call}: an integer is expected, not {value!r}") from None


def _fits(call: str, value: int, bits: int) -> int:
    """Takes an integer that fits into C's of so many bits."""
    value = _integer(call, value)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise InvalidValueError(call, XResult.kXSchedErrorInvalidValue, f"{value} does not fit")
    return value


def _within(call: str, value: int, least: int, most: int) -> int:
    """Takes an integer in a range. The C interface takes others as well, and something else counts
    then."""
    value = _integer(call, value)
    if not least <= value <= most:
        why = f"must be {least} to {most}, is {value}"
        raise InvalidValueError(call, XResult.kXSchedErrorInvalidValue, why)
    return value


class HwQueue:
    """A hardware queue: a stream, or one of the processor's. A context manager."""

    def __init__(self, handle: HwQueueHandle, stream: int = 0) -> None:
        """Takes a handle of the C interface, and closes it in the end."""
        self._handle = handle
        #: The address of the stream that `on_hip` made; 0 for others.
        self.hip_stream = stream

    @classmethod
    def on_hip(cls, level: int = 3) -> HwQueue:
        """A new stream of HIP in a hardware ring of its own, whose address is `hip_stream`. It ends when
        this is closed.

        Only queues on such streams can have level 2 and, on AMD GPUs, level 3. `level` is the highest
        that they are to have.
        """
        level = _fits("HipStreamQueueCreate", level, 64)
        result, handle, stream = XSchedHip.HipStreamQueueCreate(level)
        check("HipStreamQueueCreate", result)
        return cls(handle, stream)

    @classmethod
    def of_stream(cls, stream: Any, backend: Optional[Backend] = None) -> HwQueue:
        """The hardware queue of a stream, or of an address of one. Not of the default stream.

        Raises TypeError, ValueError, or what the library answered.
        """
        address = _streams.address_of(stream)
        backend = backend or _streams.backend_of(stream)
        with _streams.in_context_of(stream, address, backend):
            call, result, handle = _streams.create(address, backend)
        check(call, result)
        return cls(handle)

    @classmethod
    def on_host(cls) -> HwQueue:
        """A new hardware queue of the processor's."""
        result, handle = XSchedHost.HostQueueCreate()
        check("HostQueueCreate", result)
        return cls(handle)

    @property
    def handle(self) -> HwQueueHandle:
        """For the C interface; 0 once closed."""
        return self._handle

    def launch(self, command: Command) -> None:
        """Launches a command past any queue's scheduling."""
        check("HwQueueLaunch", XSched.HwQueueLaunch(self._handle, command.handle))
        command._given(0)

    def synchronize(self) -> None:
        """Waits until everything that was launched is done."""
        check("HwQueueSynchronize", XSched.HwQueueSynchronize(self._handle))

    def close(self) -> None:
        """Forgets it. A stream stays unless `on_hip` made it. Raises NotAllowedError while a Queue is on it."""
        if self._handle:
            check("HwQueueDestroy", XSched.HwQueueDestroy(self._handle))
            self._handle = 0

    def __enter__(self) -> HwQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Command:
    """A command, to be submitted once. One that is not submitted is destroyed with its object."""

    def __init__(self, handle: HwCommandHandle) -> None:
        """Takes a handle of the C interface."""
        self._handle = handle
        self._queue: XQueueHandle = 0
        #: Until the library has the command, nothing else refers to it.
        self._function: Optional[Function] = None
        self._finalizer = weakref.finalize(self, XSched.HwCommandDestroy, handle)
        self._finalizer.atexit = False

    @classmethod
    def callback(cls, function: Launch) -> Command:
        """A command that launches what `function` launches: it gets the handle of the hardware queue.

        It is called once, on any thread, and must not wait for a queue. What it raises is the
        command's failure, and the cause of what `Command.wait` or `Queue.wait` raises. It returns None
        or an XResult. Raises TypeError if it cannot be called.
        """
        create = preempt().HwCommandCreateCallback
        return cls._of_function("HwCommandCreateCallback", create, function)

    @classmethod
    def timed(cls, duration_us: int) -> Command:
        """A command for the processor, which computes for so many microseconds, 60,000,000 at most."""
        duration_us = _fits("HostCommandCreateTimed", duration_us, 64)
        result, handle = XSchedHost.HostCommandCreateTimed(duration_us)
        check("HostCommandCreateTimed", result)
        return cls(handle)

    @classmethod
    def function(cls, function: Launch) -> Command:
        """A command for the processor that runs `function` on the thread of the hardware queue.

        Unlike one of `callback`, it takes its turn among all commands of the device, and is done when
        the function returns. A hold takes effect when it has returned.
        """
        create = host.functions().HostCommandCreateFunction
        return cls._of_function("HostCommandCreateFunction", create, function)

    @classmethod
    def _of_function(cls, call: str, create: Callable[..., int], launch: Launch) -> Command:
        function = Function(launch)
        result, handle = create_command(create, function, is_lent=True)
        check(call, result)
        command = cls(handle)
        command._function = function
        return command

    @property
    def handle(self) -> HwCommandHandle:
        """For the C interface. Keep the object until a library other than this one has run it."""
        return self._handle

    def wait(self) -> None:
        """Waits until it is done. Raises what it failed with, or NotAllowedError before it was
        submitted."""
        if not self._queue:
            detail = "the command was not submitted; submit it to a queue first"
            raise NotAllowedError("XQueueWait", XResult.kXSchedErrorNotAllowed, detail)
        result = XSched.XQueueWait(self._queue, self._handle)
        # A function that raises has this result, and a wait that is refused has another.
        raised = result == XResult.kXSchedErrorUnknown
        cause = callbacks.failure(self._handle) if raised else None
        error = error_of("XQueueWait", result, cause)
        if error is not None:
            try:
                raise error from cause
            finally:
                # It has this frame, and would keep itself and what the function had.
                del error, cause

    def _given(self, queue: XQueueHandle) -> None:
        """The library has it now."""
        self._queue = queue
        self._function = None
        self._finalizer.detach()


class Queue:
    """A queue that a scheduler can hold: an XQueue. A context manager.

    At the end of a `with` block it waits for what was submitted and closes. One that no object refers
    to any more closes as well, without a wait: what was submitted runs. Close one on a stream before
    the stream ends. It may be used from any thread; while one waits, others of Python run.

    `XQueue`, as documents about XSched say, is another name of it.
    """

    def __init__(
        self,
        hardware: HwQueue,
        *,
        level: int = 1,
        priority: Optional[int] = None,
        threshold: Optional[int] = None,
        batch_size: Optional[int] = None,
        blocking_submit: bool = False,
        launcher_thread: bool = False,
        owns_hardware: bool = False,
    ) -> None:
        """Makes a hardware queue preemptible at a level, 1 to 3.

        `threshold` is how many commands are in flight at most, and `batch_size` how many there are
        between two fences. With `blocking_submit`, `submit` returns once the command is launched.
        With `launcher_thread`, a thread of the queue's own launches, so `submit` returns at once.
        With `owns_hardware`, closing this closes `hardware` too.

        Raises NotSupportedError for a level above the device's.
        """
        flags = int(XQueueCreateFlag.kQueueCreateFlagNone)
        if blocking_submit:
            flags |= XQueueCreateFlag.kQueueCreateFlagBlockingSubmit
        if launcher_thread:
            flags |= XQueueCreateFlag.kQueueCreateFlagLauncherThread
        result, handle = XSched.XQueueGet(hardware.handle)
        is_new = result != XResult.kXSchedSuccess
        self._hardware = hardware
        #: One that was there already, an interposer's say, is not this object's to end.
        self._is_ours = is_new
        self._owns_hardware = owns_hardware and is_new
        self._handle = 0
        self._finalizer: Optional[weakref.finalize[..., Queue]] = None
        try:
            if is_new:
                level = _fits("XQueueCreate", level, 64)
                result, handle = XSched.XQueueCreate(hardware.handle, level, flags)
            check("XQueueCreate", result)
            self._handle = handle
            if is_new:
                hwq = hardware.handle if owns_hardware else 0
                self._finalizer = weakref.finalize(self, forget_queue, handle, hwq)
                self._finalizer.atexit = False
                # The C interface takes one above the device's, for the highest that there is.
                self.set_level(level)
            if threshold is not None or batch_size is not None:
                self.set_launch_config(threshold, batch_size)
            if priority is not None:
                self.set_priority(priority)
        except BaseException:
            self._close_quietly()
            raise

    @classmethod
    def of_stream(cls, stream: Any, backend: Optional[Backend] = None, **options: Any) -> Queue:
        """A queue on a stream, with the options of a Queue. See `HwQueue.of_stream`."""
        return cls(HwQueue.of_stream(stream, backend), owns_hardware=True, **options)

    @classmethod
    def on_hip(cls, *, level: int = 3, **options: Any) -> Queue:
        """A queue on a new stream of HIP, `hardware.hip_stream`, with the options of a Queue. See
        `HwQueue.on_hip`. Raises NotSupportedError if it cannot have the level, and says why."""
        return cls(HwQueue.on_hip(level), owns_hardware=True, level=level, **options)

    @classmethod
    def on_host(cls, **options: Any) -> Queue:
        """A queue on the processor, with the options of a Queue."""
        return cls(HwQueue.on_host(), owns_hardware=True, **options)

    @property
    def handle(self) -> XQueueHandle:
        """For the C interface; 0 once closed."""
        return self._handle

    @property
    def hardware(self) -> HwQueue:
        """What it is on."""
        return self._hardware

    def submit(self, command: Union[Command, Launch]) -> Command:
        """Submits a command, or a function as `Command.callback` takes it.

        Waits for room if the queue is full. Raises NotFoundError if the command was submitted before.
        """
        if not isinstance(command, Command):
            command = Command.callback(command)
        check("XQueueSubmit", XSched.XQueueSubmit(self._handle, command.handle))
        command._given(self._handle)
        return command

    def wait(self) -> None:
        """Waits for all that was submitted. Raises the first failure of a command since the last time,
        even if a thread has waited for that command."""
        result = XSched.XQueueWaitAll(self._handle)
        raised = result == XResult.kXSchedErrorUnknown
        cause = callbacks.failure_in(self._handle) if raised else None
        error = error_of("XQueueWaitAll", result, cause)
        if error is not None:
            try:
                raise error from cause
            finally:
                # It has this frame, and would keep itself and what the function had.
                del error, cause

    @property
    def is_idle(self) -> bool:
        """Whether everything that was submitted is done."""
        result, state = XSched.XQueueQuery(self._handle)
        check("XQueueQuery", result)
        return state == XQueueState.kQueueStateIdle

    @property
    def submitted(self) -> int:
        """How many commands were ever submitted."""
        result, count = XSched.XQueueProfileHwCommandCount(self._handle)
        check("XQueueProfileHwCommandCount", result)
        return count

    def set_priority(self, value: int) -> None:
        """Sets the priority: -255 (lowest) to 255 (highest), or -256: must not run."""
        value = _within("XHintPriority", value, PRIORITY_NO_EXECUTE, PRIORITY_MAX)
        check("XHintPriority", XSched.XHintPriority(self._handle, value))

    def set_utilization(self, percent: int) -> None:
        """Sets the share that it shall have of its device, 0 to 100 percent."""
        percent = _within("XHintUtilization", percent, UTILIZATION_MIN, UTILIZATION_MAX)
        check("XHintUtilization", XSched.XHintUtilization(self._handle, percent))

    def set_deadline(self, after_ready_us: int) -> None:
        """Sets a deadline in microseconds after becoming ready; -1 for none."""
        after_ready_us = _integer("XHintDeadline", after_ready_us)
        if after_ready_us != NO_DEADLINE:
            after_ready_us = _within("XHintDeadline", after_ready_us, 1, _DAY_US)
        check("XHintDeadline", XSched.XHintDeadline(self._handle, after_ready_us))

    def set_laxity(self, lax_us: int, lax_priority: int, critical_priority: int) -> None:
        """Gives it one priority until `lax_us` microseconds after becoming ready, then another."""
        lax_us = _integer("XHintLaxity", lax_us)
        if lax_us != NO_LAXITY:
            lax_us = _within("XHintLaxity", lax_us, 1, _DAY_US)
        lax, critical = (
            _within("XHintLaxity", value, PRIORITY_NO_EXECUTE, PRIORITY_MAX)
            for value in (lax_priority, critical_priority)
        )
        result = XSched.XHintLaxity(self._handle, lax_us, lax, critical)
        check("XHintLaxity", result)

    def set_level(self, level: int) -> None:
        """Sets the preemption level, 1 to 3. Raises NotSupportedError above the device's."""
        level = _fits("XQueueSetPreemptLevel", level, 32)
        check("XQueueSetPreemptLevel", XSched.XQueueSetPreemptLevel(self._handle, level))

    def set_launch_config(
        self, threshold: Optional[int] = None, batch_size: Optional[int] = None
    ) -> None:
        """Sets how many commands are in flight at most, and how many there are between two fences.

        None keeps what is.
        """
        call = "XQueueSetLaunchConfig"
        values = (-1 if v is None else _fits(call, v, 64) for v in (threshold, batch_size))
        check(call, XSched.XQueueSetLaunchConfig(self._handle, *values))

    def suspend(
        self, *, synchronize: bool = False, wait_all: bool = False, wait_idle: bool = False
    ) -> None:
        """Holds it, whatever the scheduler says, until `resume`.

        `wait_all` waits before for what was submitted, `wait_idle` until nothing is left, and
        `synchronize` waits after that until nothing of it runs, as far as the device can tell.
        """
        flags = (
            (XQueueSuspendFlag.kQueueSuspendFlagSyncHwQueue if synchronize else 0)
            | (XQueueSuspendFlag.kQueueSuspendFlagWaitAll if wait_all else 0)
            | (XQueueSuspendFlag.kQueueSuspendFlagWaitIdle if wait_idle else 0)
        )
        check("XQueueSuspend", XSched.XQueueSuspend(self._handle, flags))

    def resume(self, *, drop_commands: bool = False) -> None:
        """Ends a hold by `suspend`. With `drop_commands`, what was held back is not run any more.

        Functions that are dropped are freed here if the queue has nothing to do, or else by the next
        `wait` or `close`; a queue that the program lets go without either keeps them.
        """
        flags = XQueueResumeFlag.kQueueResumeFlagNone
        if drop_commands:
            flags = XQueueResumeFlag.kQueueResumeFlagDropCommands
        check("XQueueResume", XSched.XQueueResume(self._handle, flags))

    @contextmanager
    def held(self, *, synchronize: bool = False) -> Iterator[Queue]:
        """Holds it for a `with` block."""
        self.suspend(synchronize=synchronize)
        try:
            yield self
        finally:
            self.resume()

    def close(self) -> None:
        """Ends it after all that was submitted has run; a hold ends too. Closing twice is fine. One
        that the stream had before this object stays."""
        if self._handle:
            if self._is_ours:
                check("XQueueDestroy", XSched.XQueueDestroy(self._handle))
            self._closed()
        if self._owns_hardware:
            self._hardware.close()

    def _close_quietly(self) -> None:
        """Closes it where an error is on its way already."""
        if self._handle:
            if self._is_ours:
                XSched.XQueueDestroy(self._handle)
            self._closed()
        if self._owns_hardware and self._hardware.handle:
            XSched.HwQueueDestroy(self._hardware.handle)
            self._hardware._handle = 0

    def _closed(self) -> None:
        self._handle = 0
        if self._finalizer is not None:
            self._finalizer.detach()

    def __enter__(self) -> Queue:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is not None:
            self._close_quietly()
            return
        try:
            self.wait()
        except BaseException:
            self._close_quietly()
            raise
        self.close()


XQueue = Queue


def XHintPriority(queue: Union[Queue, XQueueHandle], prio: Priority) -> XResult:
    """`XSched.XHintPriority`, for a Queue or a handle: documents about XSched have it here.

    It answers a result and raises nothing; `Queue.set_priority` raises.
    """
    handle = queue.handle if isinstance(queue, Queue) else queue
    return XSched.XHintPriority(handle, prio)


class _Borrowed:
    """A stream in one or several `with priority` blocks."""

    def __init__(self, queue: Queue, before: Optional[int]) -> None:
        self.queue = queue
        #: The priority to leave behind if the queue stays.
        self.before = before
        #: The blocks by their order, and what each asks for.
        self.wanted: List[Tuple[object, int]] = []
        #: The thread that closes the queue, once no block is open.
        self.closer: Optional[int] = None
        #: Whether it has.
        self.closed = threading.Event()

    def wait_closed(self) -> None:
        """Waits until the queue is closed. Raises NotAllowedError where that may wait for this thread."""
        if self.closer == threading.get_ident() or is_in_function():
            detail = "the stream's queue is closing, and waits for this thread; open the block later"
            raise NotAllowedError("XQueueCreate", XResult.kXSchedErrorNotAllowed, detail)
        self.closed.wait()


#: The backend, and the address, or for what an interposer schedules the hardware queue.
_Key = Tuple[Backend, int, HwQueueHandle]
_borrowed: Dict[_Key, _Borrowed] = {}
#: Not held while a queue closes: that waits for functions of the program, and lets go of them.
_borrowing = threading.Lock()


def _after_fork() -> None:
    global _borrowing
    # The queues are the parent's, and so is the thread that had the lock.
    _borrowed.clear()
    _borrowing = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def priority(
    stream: Any,
    value: int,
    *,
    level: int = 1,
    backend: Optional[Backend] = None,
    before: Optional[int] = None,
) -> Iterator[Queue]:
    """Gives a stream a priority for a `with` block: -255 (lowest) to 255 (highest), or -256: must not run.

    The stream is one of PyTorch's, its address, and so on; None is this thread's current one.

    In a program that `xsched run` has started, or `python -m xsched run`, it counts for what the
    program launches into the stream, which may be a default stream. Afterwards the stream has the
    priority that it had, or `before`. Blocks for the same stream may nest and overlap: the latest that
    is still open counts.

    Without the interposer a stream gets a queue at `level`, 1 to 3, and loses it at the end. What is
    launched into the stream directly goes past that, and has no priority: see
    docs/src/guides/python.md.

    Raises TypeError, ValueError for a default stream without the interposer, or what the library
    answered; NotAllowedError in a command's function while the stream's queue closes.
    """
    if stream is None:
        stream = _streams.current()
    backend = backend or _streams.backend_of(stream)
    value = _within("XHintPriority", value, PRIORITY_NO_EXECUTE, PRIORITY_MAX)
    block = (object(), value)
    while True:
        with _borrowing:
            key, borrowed = _borrow(stream, backend, level, before)
            if borrowed.closer is None:
                borrowed.wanted.append(block)
                break
        borrowed.wait_closed()
    try:
        with _borrowing:
            # A later block may have come in between, and counts.
            if borrowed.wanted[-1] is block:
                borrowed.queue.set_priority(value)
        yield borrowed.queue
    finally:
        with _borrowing:
            borrowed.wanted.remove(block)
            _give_back(key, borrowed)
        if borrowed.closer == threading.get_ident():
            _close(key, borrowed)


def _borrow(
    stream: Any, backend: Backend, level: int, before: Optional[int]
) -> Tuple[_Key, _Borrowed]:
    address = _streams.any_address_of(stream)
    with _streams.in_context_of(stream, address, backend):
        hwq = _streams.interposed(address, backend)
        key = (backend, 0 if hwq else address, hwq)
        borrowed = _borrowed.get(key)
        if borrowed is None:
            hardware = HwQueue(hwq) if hwq else HwQueue.of_stream(stream, backend)
            queue = Queue(hardware, level=level, owns_hardware=not hwq)
            if not queue._is_ours and before is None:
                result, before = priority_of(queue.handle)
                check("XHintPriority", result)
            borrowed = _Borrowed(queue, None if queue._is_ours else before)
            _borrowed[key] = borrowed
    return key, borrowed


def _give_back(key: _Key, borrowed: _Borrowed) -> None:
    """Sets what the latest open block asks for. If none is open, this thread is to close the queue, or
    the queue stays as it was."""
    if borrowed.wanted:
        borrowed.queue.set_priority(borrowed.wanted[-1][1])
    elif borrowed.before is None:
        borrowed.closer = threading.get_ident()
    else:
        _borrowed.pop(key, None)
        borrowed.queue.set_priority(borrowed.before)


def _close(key: _Key, borrowed: _Borrowed) -> None:
    """Closes the queue of a stream that is in no block any more."""
    try:
        borrowed.queue.close()
    finally:
        with _borrowing:
            if _borrowed.get(key) is borrowed:
                del _borrowed[key]
        borrowed.closed.set()
