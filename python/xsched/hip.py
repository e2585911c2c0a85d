"""libhalhip.so: HIP streams as hardware queues."""

from __future__ import annotations

from ctypes import POINTER, byref, c_int64, c_uint64, c_void_p
from functools import lru_cache
from types import SimpleNamespace
from typing import Tuple

from ._capi import platform
from ._types import HwQueueHandle, XResult

__all__ = ["XSchedHip"]

#: The address of a stream.
hipStream_t = int


@lru_cache(maxsize=None)
def functions() -> SimpleNamespace:
    """The functions of the library. Raises LibraryNotFoundError and LibraryVersionError."""
    handle = POINTER(c_uint64)
    arguments = {
        "HipQueueCreate": [handle, c_void_p],
        "HipStreamQueueCreate": [handle, POINTER(c_void_p), c_int64],
    }
    return platform("halhip", arguments)


class XSchedHip:
    """The C interface of libhalhip.so."""

    @staticmethod
    def HipQueueCreate(stream: hipStream_t) -> Tuple[XResult, HwQueueHandle]:
        """A hardware queue for a stream. The null stream is not supported."""
        handle = c_uint64()
        result = functions().HipQueueCreate(byref(handle), stream)
        return XResult(result), handle.value

    @staticmethod
    def HipStreamQueueCreate(level: int) -> Tuple[XResult, HwQueueHandle, hipStream_t]:
        """A new stream in a hardware ring of its own, and a hardware queue for it, with which it ends.

        Only XQueues of such streams can have level 2 and, on AMD GPUs, level 3. `level` is the highest
        that they are to have, 1 to 3.
        """
        handle, stream = c_uint64(), c_void_p()
        result = functions().HipStreamQueueCreate(byref(handle), byref(stream), level)
        return XResult(result), handle.value, stream.value or 0
