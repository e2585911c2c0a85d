"""Python functions as commands.

The C interface has one function for all of them, of the extension module, and a number for each. It
lets no thread in while the interpreter ends.
"""

from __future__ import annotations

import atexit
import operator
import os
import threading
import weakref
from typing import Callable, Optional

from . import _native
from ._types import HwQueueHandle, XResult

#: Gets the queue that it is launched on. What it returns is the command's result; None is success.
Launch = Callable[[HwQueueHandle], Optional[XResult]]

#: How long the end of the program waits for functions that still run, in milliseconds.
PATIENCE_MS = 5_000

#: The functions that are still to run.
callbacks = _native.Callbacks()

#: How many functions of commands a thread is in.
_inside = threading.local()


def is_in_function() -> bool:
    """Whether this thread runs a command's function, for which its queue may wait."""
    return getattr(_inside, "depth", 0) > 0


class Function:
    """A function that is to be a command.

    The object of a command that is not submitted yet has it, and nothing else does: otherwise an
    object with a command of one of its own methods would never be freed.
    """

    __slots__ = ("__weakref__", "launch")

    def __init__(self, launch: Launch) -> None:
        """Raises TypeError if it cannot be called."""
        if not callable(launch):
            raise TypeError(f"a command's function must be callable, is {launch!r}")
        self.launch = launch

    def add(self, *, is_lent: bool) -> int:
        """A number for it. If it is lent, it must be kept until the command is submitted."""
        if is_lent:
            return callbacks.add(None, weakref.ref(self))
        return callbacks.add(self, None)


def _result_of(answer: object) -> XResult:
    """The result of a command whose function returned this."""
    if answer is None:
        return XResult.kXSchedSuccess
    # True is 1, which is a failure of the hardware, and nobody means that.
    if isinstance(answer, bool) or not hasattr(answer, "__index__"):
        raise TypeError(f"a command's function must return None or an XResult, returned {answer!r}")
    return XResult(operator.index(answer))


def _call(queue: int, number: int) -> int:
    """Runs the function with this number."""
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        return _run(queue, number)
    finally:
        _inside.depth -= 1


def _run(queue: int, number: int) -> int:
    function = callbacks.function(number)
    if function is None:
        return int(XResult.kXSchedErrorNotFound)
    failure: Optional[BaseException] = None
    try:
        result = _result_of(function.launch(queue))
    except BaseException as error:  # Nothing may pass into C.
        failure, result = error, XResult.kXSchedErrorUnknown
    callbacks.ended(number, failure)
    # The exception has this frame, and would keep itself and the function.
    del failure, function
    return int(result)


#: What the library is to call.
LAUNCH: int = _native.launch_address(_call)


def _after_fork() -> None:
    callbacks.clear()
    _native.reset_launches()


atexit.register(_native.close_launches, PATIENCE_MS)
os.register_at_fork(after_in_child=_after_fork)
