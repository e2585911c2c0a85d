"""libhalhost.so: the processor as a device, to try things without a GPU."""

from __future__ import annotations

from ctypes import POINTER, byref, c_int64, c_uint64, c_void_p
from functools import lru_cache
from types import SimpleNamespace
from typing import Tuple

from ._callbacks import Function, Launch
from ._capi import create_command, platform
from ._types import HwCommandHandle, HwQueueHandle, XResult

__all__ = ["XSchedHost"]


@lru_cache(maxsize=None)
def functions() -> SimpleNamespace:
    """The functions of the library. Raises LibraryNotFoundError and LibraryVersionError."""
    out = POINTER(c_uint64)
    return platform(
        "halhost",
        {
            "HostQueueCreate": [out],
            "HostCommandCreateTimed": [out, c_int64],
            "HostCommandCreateFunction": [out, c_void_p, c_void_p],
        },
    )


class XSchedHost:
    """The C interface of libhalhost.so."""

    @staticmethod
    def HostQueueCreate() -> Tuple[XResult, HwQueueHandle]:
        """A hardware queue of the processor's, with a thread of its own."""
        handle = c_uint64()
        result = functions().HostQueueCreate(byref(handle))
        return XResult(result), handle.value

    @staticmethod
    def HostCommandCreateTimed(us: int) -> Tuple[XResult, HwCommandHandle]:
        """A command that computes for so many microseconds."""
        handle = c_uint64()
        result = functions().HostCommandCreateTimed(byref(handle), us)
        return XResult(result), handle.value

    @staticmethod
    def HostCommandCreateFunction(function: Launch) -> Tuple[XResult, HwCommandHandle]:
        """A command that runs a function on the thread of the hardware queue, which it gets."""
        return create_command(functions().HostCommandCreateFunction, Function(function))
