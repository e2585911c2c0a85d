"""libhalhip.so: HIP streams as hardware queues."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_uint64, c_void_p
from functools import lru_cache
from typing import Tuple

from ._capi import declare
from ._library import load
from ._types import HwQueueHandle, XResult

__all__ = ["XSchedHip"]

#: The address of a stream.
hipStream_t = int


@lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    return declare(load("halhip"), {"HipQueueCreate": [POINTER(c_uint64), c_void_p]})


class XSchedHip:
    """The C interface of libhalhip.so."""

    @staticmethod
    def HipQueueCreate(stream: hipStream_t) -> Tuple[XResult, HwQueueHandle]:
        """A hardware queue for a stream. The null stream is not supported."""
        handle = c_uint64()
        result = _library().HipQueueCreate(byref(handle), stream)
        return XResult(result), handle.value
