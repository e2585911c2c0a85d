"""What the Pythonic layer raises."""

from __future__ import annotations

from typing import Dict, Optional, Type

from ._capi import last_error
from ._library import LibraryNotFoundError, LibraryVersionError
from ._types import XResult

__all__ = [
    "BadResponseError",
    "HardwareError",
    "InvalidValueError",
    "LibraryNotFoundError",
    "LibraryVersionError",
    "NotAllowedError",
    "NotFoundError",
    "NotSupportedError",
    "UnknownError",
    "XSchedError",
    "check",
]


class XSchedError(Exception):
    """A call did not succeed. The message is the call and what the library says about it."""

    #: What the call answered.
    result: XResult
    #: The function of the C interface.
    call: str

    def __init__(self, call: str, result: XResult, detail: str = "") -> None:
        super().__init__(f"{call}: {detail or result.name}")
        self.call = call
        self.result = result


class HardwareError(XSchedError):
    """The device, its driver or a command failed."""


class InvalidValueError(XSchedError, ValueError):
    """An argument makes no sense."""


class NotFoundError(XSchedError, LookupError):
    """The queue or command is closed, or never was."""


class NotAllowedError(XSchedError):
    """The call is not possible in the present state."""


class NotSupportedError(XSchedError):
    """The device or the library cannot do it."""


class BadResponseError(XSchedError):
    """The scheduler did not answer in time."""


class UnknownError(XSchedError):
    """Something else."""


_ERRORS: Dict[XResult, Type[XSchedError]] = {
    XResult.kXSchedErrorHardware: HardwareError,
    XResult.kXSchedErrorInvalidValue: InvalidValueError,
    XResult.kXSchedErrorNotFound: NotFoundError,
    XResult.kXSchedErrorNotAllowed: NotAllowedError,
    XResult.kXSchedErrorNotSupported: NotSupportedError,
    XResult.kXSchedErrorBadResponse: BadResponseError,
}


def check(call: str, result: XResult) -> None:
    """Raises the error that goes with a result of this thread's last call, unless it is success."""
    error = error_of(call, result)
    if error is not None:
        raise error


def error_of(
    call: str, result: XResult, cause: Optional[BaseException] = None
) -> Optional[XSchedError]:
    """The error that goes with a result of this thread's last call; None for success. `cause` is what
    a function of Python raised, if that is why."""
    if result == XResult.kXSchedSuccess:
        return None
    detail = last_error() if cause is None else f"the command's function raised {cause!r}"
    return _ERRORS.get(result, UnknownError)(call, result, detail)
