"""Streams of PyTorch and others: their address, and whose they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal, Optional, Tuple

from ._types import HwQueueHandle, XResult
from .cuda import XSchedCuda
from .hip import XSchedHip

#: Whose streams.
Backend = Literal["hip", "cuda"]

#: Where objects have the address of their stream.
_ATTRIBUTES = ("hip_stream", "cuda_stream", "ptr")
#: The libraries of which a process has one loaded.
_DRIVERS: Tuple[Tuple[str, Backend], ...] = (("libamdhip64.so", "hip"), ("libcuda.so", "cuda"))


def address_of(stream: Any) -> int:
    """The address of a stream: of an integer, of a stream of PyTorch or CuPy, or of whatever has
    `hip_stream`, `cuda_stream`, `ptr` or `__cuda_stream__`.

    Raises TypeError for anything else, ValueError for the default stream.
    """
    address = _address(stream)
    if address == 0:
        raise ValueError("the default stream cannot be scheduled; make a stream and use that")
    return address


def _address(stream: Any) -> int:
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    for attribute in _ATTRIBUTES:
        value = getattr(stream, attribute, None)
        if isinstance(value, int):
            return value
    protocol = getattr(stream, "__cuda_stream__", None)
    if callable(protocol):
        _, value = protocol()
        return int(value)
    raise TypeError(f"a stream or its address is expected, not {type(stream).__name__}")


def backend_of(stream: Any) -> Backend:
    """Whose stream it is: by its attributes, by the PyTorch that is loaded, or by the driver that is.

    Raises ValueError if that does not tell.
    """
    if hasattr(stream, "hip_stream"):
        return "hip"
    version = getattr(sys.modules.get("torch"), "version", None)
    if getattr(version, "hip", None):
        return "hip"
    if getattr(version, "cuda", None):
        return "cuda"
    loaded = _loaded()
    if loaded is None:
        raise ValueError('say whose stream it is: backend="hip" or backend="cuda"')
    return loaded


def _loaded() -> Optional[Backend]:
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = [backend for driver, backend in _DRIVERS if driver in maps]
    return found[0] if len(found) == 1 else None


def create(address: int, backend: Backend) -> Tuple[str, XResult, HwQueueHandle]:
    """A hardware queue for a stream, and the function that was called.

    Raises ValueError for another backend.
    """
    if backend == "hip":
        return ("HipQueueCreate", *XSchedHip.HipQueueCreate(address))
    if backend == "cuda":
        return ("CudaQueueCreate", *XSchedCuda.CudaQueueCreate(address))
    raise ValueError(f'the backend is "hip" or "cuda", not {backend!r}')
