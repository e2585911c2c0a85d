"""Work for the examples and tests: requests of some commands each, on the processor or on HIP streams.

HIP is the library that XSCHED_HIP_LIB names. With the emulated runtime of this repository no GPU is
needed; a real GPU wants the compiled hal-hip/kernels/spin.hip in XSCHED_HIP_KERNELS.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Dict

#: What the emulated runtime takes for a module.
EMULATED_IMAGE = b"xsched emulated kernels\0"
NON_BLOCKING = 1


class Stream:
    """A stream. As PyTorch's on ROCm, its address is in `cuda_stream`."""

    def __init__(self, hip: Hip) -> None:
        self._hip = hip
        address = c_void_p()
        hip.call("hipStreamCreateWithFlags", byref(address), c_uint32(NON_BLOCKING))
        self.cuda_stream = address.value or 0

    def spin(self, us: int) -> None:
        """Launches a kernel that takes so many microseconds."""
        values = (c_uint64(us * 1_000), c_uint64(0))
        pointers = (c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        one, none = c_uint32(1), c_uint32(0)
        shape = (one, one, one, one, one, one, none)
        self._hip.call(
            "hipModuleLaunchKernel",
            self._hip.spin,
            *shape,
            c_void_p(self.cuda_stream),
            pointers,
            c_void_p(),
        )

    def synchronize(self) -> None:
        """Waits for all that was launched."""
        self._hip.call("hipStreamSynchronize", c_void_p(self.cuda_stream))

    def close(self) -> None:
        """Ends the stream."""
        self._hip.call("hipStreamDestroy", c_void_p(self.cuda_stream))


class Hip:
    """A HIP runtime with a kernel that takes as long as it is told."""

    def __init__(self) -> None:
        path = os.environ.get("XSCHED_HIP_LIB", "libamdhip64.so")
        self._library = ctypes.CDLL(path)
        kernels = os.environ.get("XSCHED_HIP_KERNELS")
        image = Path(kernels).read_bytes() if kernels else EMULATED_IMAGE
        self._module, self.spin = c_void_p(), c_void_p()
        self.call("hipInit", c_uint32(0))
        self.call("hipModuleLoadData", byref(self._module), image)
        self.call("hipModuleGetFunction", byref(self.spin), self._module, b"xs_spin")

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function. Raises RuntimeError if it fails."""
        error = getattr(self._library, name)(*arguments)
        if error:
            raise RuntimeError(f"{name} failed with {error}")


class HostRequests:
    """Requests on the processor, through libpreempt.so and libhalhost.so alone."""

    def __init__(self, preempt: ctypes.CDLL) -> None:
        self._preempt = preempt
        self._host = ctypes.CDLL("libhalhost.so")

    def queue(self) -> c_uint64:
        """A hardware queue."""
        hwq = c_uint64()
        answered(self._host.HostQueueCreate(byref(hwq)))
        return hwq

    def request(self, xq: c_uint64, commands: int, us: int) -> None:
        """Submits a request and waits for it."""
        for _ in range(commands):
            command = c_uint64()
            answered(self._host.HostCommandCreateTimed(byref(command), ctypes.c_int64(us)))
            answered(self._preempt.XQueueSubmit(xq, command))
        answered(self._preempt.XQueueWaitAll(xq))


class HipRequests:
    """Requests on HIP streams, through libpreempt.so and libhalhip.so alone."""

    LAUNCH = ctypes.CFUNCTYPE(c_int32, c_uint64, c_void_p)

    def __init__(self, preempt: ctypes.CDLL) -> None:
        self._preempt = preempt
        self._halhip = ctypes.CDLL("libhalhip.so")
        self._hip = Hip()
        self._preempt.HwCommandCreateCallback.argtypes = [POINTER(c_uint64), self.LAUNCH, c_void_p]
        self._stream_of: Dict[int, Stream] = {}
        self._us = 0
        # One function for all commands, which lives as long as this.
        self._launch = self.LAUNCH(self._run)

    def _run(self, hwq: int, _: Any) -> int:
        self._stream_of[hwq].spin(self._us)
        return 0

    def queue(self) -> c_uint64:
        """A hardware queue, of a new stream."""
        stream = Stream(self._hip)
        hwq = c_uint64()
        answered(self._halhip.HipQueueCreate(byref(hwq), c_void_p(stream.cuda_stream)))
        self._stream_of[hwq.value] = stream
        return hwq

    def request(self, xq: c_uint64, commands: int, us: int) -> None:
        """Submits a request and waits for it. All requests have commands of the same length."""
        self._us = us
        for _ in range(commands):
            command = c_uint64()
            answered(self._preempt.HwCommandCreateCallback(byref(command), self._launch, None))
            answered(self._preempt.XQueueSubmit(xq, command))
        answered(self._preempt.XQueueWaitAll(xq))


def answered(result: int) -> None:
    """Raises RuntimeError unless a call of the C interface succeeded."""
    if result:
        raise RuntimeError(f"XSched answered {result}")
