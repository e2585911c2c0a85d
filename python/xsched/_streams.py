"""Streams of PyTorch and others: their address, whose they are, and what an interposer says of them."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from ctypes import byref, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Iterator, Literal, Optional, Tuple

from ._types import HwQueueHandle, XResult
from .cuda import XSchedCuda
from .hip import XSchedHip

#: Whose streams.
Backend = Literal["hip", "cuda"]

#: Where objects have the address of their stream.
_ATTRIBUTES = ("hip_stream", "cuda_stream", "ptr")
#: The legacy default stream, and its handle.
_DEFAULT = (0, 1)
#: The library of CUDA's driver, or an interposer in its place.
_CUDA_DRIVER = "libcuda.so.1"
#: The libraries of which a process has one loaded.
_DRIVERS: Tuple[Tuple[str, Backend], ...] = (("libamdhip64.so", "hip"), ("libcuda.so", "cuda"))


def address_of(stream: Any) -> int:
    """The address of a stream: of an integer, of a stream of PyTorch or CuPy, or of whatever has
    `hip_stream`, `cuda_stream`, `ptr` or `__cuda_stream__`.

    Raises TypeError for anything else, ValueError for the default stream.
    """
    address = any_address_of(stream)
    if address in _DEFAULT:
        raise ValueError(
            "the default stream cannot be scheduled here; make a stream and use that, or start the "
            "program with `xsched run` and use `xsched.priority`"
        )
    return address


def any_address_of(stream: Any) -> int:
    """The address of a stream, with 0 for the default stream.

    Raises TypeError for anything else, ValueError for a number that is no address.
    """
    address = _address_in(stream)
    if not 0 <= address < 1 << 64:
        raise ValueError(f"{address} is not the address of a stream")
    return address


def _address_in(stream: Any) -> int:
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
    files = {Path(line.split(maxsplit=5)[5]) for line in maps.splitlines() if "/" in line}
    vendors = [file.name for file in files if not _is_preloaded(file)]
    found = [backend for driver, backend in _DRIVERS if any(driver in name for name in vendors)]
    return found[0] if len(found) == 1 else None


def _is_preloaded(file: Path) -> bool:
    """Whether `xsched run` has preloaded it, whether the program uses the vendor or not."""
    return (file.parent / "libshimcuda.so").exists()


def current() -> Any:
    """This thread's stream: PyTorch's current one, or without PyTorch the default stream."""
    torch = sys.modules.get("torch")
    return 0 if torch is None else torch.cuda.current_stream()


def interposed(address: int, backend: Backend) -> HwQueueHandle:
    """The hardware queue that the stream's launches go through, as the interposer says that is
    preloaded; the stream's context is current. 0 if there is none, or they go past it."""
    ask = getattr(ctypes.CDLL(None), f"xsched_shim_{backend}_queue", None)
    if ask is None:
        return 0
    ask.argtypes = [c_void_p]
    ask.restype = c_uint64
    return int(ask(address))


@contextmanager
def in_context_of(stream: Any, address: int, backend: Backend) -> Iterator[None]:
    """Makes a stream's context, or the device of a default stream, current for a `with` block."""
    torch = sys.modules.get("torch")
    device = getattr(stream, "device", None)
    if address in _DEFAULT:
        if torch is None or device is None:
            yield
            return
        with torch.cuda.device(device):
            yield
        return
    driver = _pushed(address) if backend == "cuda" else None
    try:
        yield
    finally:
        if driver is not None:
            driver.cuCtxPopCurrent_v2(byref(c_void_p()))


def _pushed(address: int) -> Optional[ctypes.CDLL]:
    """Makes the context of CUDA's stream current, unless it is or the driver does not say. The driver,
    if there is something to take back."""
    try:
        driver = ctypes.CDLL(_CUDA_DRIVER, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    current, own = c_void_p(), c_void_p()
    known = driver.cuStreamGetCtx(c_void_p(address), byref(own)) == 0
    if not known or driver.cuCtxGetCurrent(byref(current)) != 0 or current.value == own.value:
        return None
    return driver if driver.cuCtxPushCurrent_v2(own) == 0 else None


def create(address: int, backend: Backend) -> Tuple[str, XResult, HwQueueHandle]:
    """A hardware queue for a stream, and the function that was called.

    Raises ValueError for another backend.
    """
    if backend == "hip":
        return ("HipQueueCreate", *XSchedHip.HipQueueCreate(address))
    if backend == "cuda":
        return ("CudaQueueCreate", *XSchedCuda.CudaQueueCreate(address))
    raise ValueError(f'the backend is "hip" or "cuda", not {backend!r}')
