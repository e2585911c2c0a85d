"""libhalcuda.so: CUDA streams as hardware queues."""

from __future__ import annotations

from ctypes import POINTER, byref, c_uint64, c_void_p
from functools import lru_cache
from types import SimpleNamespace
from typing import Tuple

from ._capi import platform
from ._types import HwQueueHandle, XResult

__all__ = ["XSchedCuda"]

#: The address of a stream.
CUstream = int


@lru_cache(maxsize=None)
def functions() -> SimpleNamespace:
    """The functions of the library. Raises LibraryNotFoundError and LibraryVersionError."""
    arguments = [POINTER(c_uint64), c_void_p]
    return platform("halcuda", {"CudaQueueCreate": arguments, "CudaQueueGet": arguments})


class XSchedCuda:
    """The C interface of libhalcuda.so."""

    @staticmethod
    def CudaQueueCreate(stream: CUstream) -> Tuple[XResult, HwQueueHandle]:
        """A hardware queue for a stream. The null stream is not supported."""
        handle = c_uint64()
        result = functions().CudaQueueCreate(byref(handle), stream)
        return XResult(result), handle.value

    @staticmethod
    def CudaQueueGet(stream: CUstream) -> Tuple[XResult, HwQueueHandle]:
        """The hardware queue that a stream has."""
        handle = c_uint64()
        result = functions().CudaQueueGet(byref(handle), stream)
        return XResult(result), handle.value
