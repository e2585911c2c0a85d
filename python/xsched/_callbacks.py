"""Python functions as commands.

The C interface has one function for all of them, of the extension module, and a number for each. It
lets no thread in while the interpreter ends.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from typing import Callable, Dict, Iterable, List, Optional, Set, Tuple

from . import _native
from ._types import HwCommandHandle, HwQueueHandle, XQueueHandle, XResult

#: Gets the queue that it is launched on. What it returns is the command's result; None is success.
Launch = Callable[[HwQueueHandle], Optional[XResult]]

#: How long the end of the program waits for functions that still run, in milliseconds.
PATIENCE_MS = 5_000
#: Most exceptions that are kept for calls that wait; the oldest go first.
FAILURES_MAX = 256


class _Waiting:
    """A function that is still to run."""

    __slots__ = ("command", "function", "queue", "submitted")

    def __init__(self, function: Launch) -> None:
        self.function = function
        self.command: HwCommandHandle = 0
        self.queue: XQueueHandle = 0
        #: The call that submits it has returned.
        self.submitted = False


class Callbacks:
    """The functions that are still to run, by the number that the library carries for each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: Dict[int, _Waiting] = {}
        self._of_command: Dict[HwCommandHandle, int] = {}
        self._of_queue: Dict[XQueueHandle, Set[int]] = {}
        # With the queue, so that a wait for all of it raises them as well.
        self._failures: Dict[HwCommandHandle, Tuple[XQueueHandle, BaseException]] = {}

    def add(self, function: Launch) -> int:
        """A number for a function."""
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = _Waiting(function)
            return number

    def name(self, number: int, command: HwCommandHandle) -> None:
        """Says which command the function became."""
        with self._lock:
            self._waiting[number].command = command
            self._of_command[command] = number
            self._failures.pop(command, None)

    def forget(self, number: int) -> None:
        """The function will not run."""
        with self._lock:
            self._drop(number)

    def destroyed(self, command: HwCommandHandle) -> None:
        """The command was destroyed."""
        with self._lock:
            self._drop(self._of_command.get(command, 0))
            self._failures.pop(command, None)

    def submitting(self, queue: XQueueHandle, command: HwCommandHandle) -> None:
        """The command goes into a queue, or (0) did not. A drop there is not announced: see
        `submitted_to`."""
        with self._lock:
            number = self._of_command.get(command, 0)
            waiting = self._waiting.get(number)
            if waiting is not None:
                self._leave(number, waiting)
                waiting.queue = queue
                if queue:
                    self._of_queue.setdefault(queue, set()).add(number)

    def submitted(self, command: HwCommandHandle) -> None:
        """The command is in its queue."""
        with self._lock:
            waiting = self._waiting.get(self._of_command.get(command, 0))
            if waiting is not None:
                waiting.submitted = True

    def submitted_to(self, queue: XQueueHandle) -> List[int]:
        """The functions in the queue that have not been called. When it has done all that is in it
        now, those that still have not were dropped: `forget_all` them."""
        with self._lock:
            numbers = self._of_queue.get(queue, ())
            return [number for number in numbers if self._waiting[number].submitted]

    def forget_all(self, numbers: Iterable[int]) -> None:
        """These functions will not run."""
        with self._lock:
            for number in numbers:
                self._drop(number)

    def closed(self, queue: XQueueHandle) -> None:
        """The queue is gone, and what it had not run will not run."""
        with self._lock:
            for number in list(self._of_queue.get(queue, ())):
                self._drop(number)

    def failure(self, command: HwCommandHandle) -> Optional[BaseException]:
        """What the function of the command raised, once."""
        with self._lock:
            return self._failures.pop(command, (0, None))[1]

    def failure_in(self, queue: XQueueHandle) -> Optional[BaseException]:
        """The first that a function in the queue raised and no call has returned yet, once."""
        with self._lock:
            failed = (command for command, (where, _) in self._failures.items() if where == queue)
            return self._failures.pop(next(failed, 0), (0, None))[1]

    def __len__(self) -> int:
        """How many functions are still to run."""
        with self._lock:
            return len(self._waiting)

    def _drop(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            return
        if self._of_command.get(waiting.command) == number:
            del self._of_command[waiting.command]
        self._leave(number, waiting)

    def _leave(self, number: int, waiting: _Waiting) -> None:
        numbers = self._of_queue.get(waiting.queue, set())
        numbers.discard(number)
        if not numbers:
            self._of_queue.pop(waiting.queue, None)

    def call(self, queue: int, number: int) -> int:
        """Runs the function with this number."""
        with self._lock:
            waiting = self._waiting.get(number)
        if waiting is None:
            return int(XResult.kXSchedErrorNotFound)
        failure: Optional[BaseException] = None
        try:
            answer = waiting.function(queue)
            result = XResult.kXSchedSuccess if answer is None else XResult(answer)
        except BaseException as error:  # Nothing may pass into C.
            failure, result = error, XResult.kXSchedErrorUnknown
        with self._lock:
            self._drop(number)
            if failure is not None:
                self._failures[waiting.command] = (waiting.queue, failure)
                while len(self._failures) > FAILURES_MAX:
                    del self._failures[next(iter(self._failures))]
        return int(result)


callbacks = Callbacks()
#: What the library is to call.
LAUNCH: int = _native.launch_address(lambda queue, number: callbacks.call(queue, number))


def _after_fork() -> None:
    # What waited waits in the parent, and so does the thread that had the lock.
    callbacks.__init__()  # type: ignore[misc]
    _native.reset_launches()


atexit.register(_native.close_launches, PATIENCE_MS)
os.register_at_fork(after_in_child=_after_fork)
