"""Stand-ins for models on CUDA's driver without PyTorch: requests are kernels that spin.

`XSCHED_LAB_STAND_INS=1` has a process use them. They need no GPU, as the driver may be an emulated one, and
show that launches are scheduled and counted, not how fast anything is.
"""

import contextlib
import ctypes
import os
import threading
import types

from .faults import Missing
from .works.work import Work

VARIABLE = "XSCHED_LAB_STAND_INS"
DRIVER = "libcuda.so.1"
#: Kernels of a request, and how long each is.
KERNELS, CYCLES = 12, 20_000
#: The flags of an event whose wait sleeps, and of a stream that waits for no default stream.
BLOCKING_SYNC, NON_BLOCKING = 1, 1
SOURCE = b"""
.version 6.5
.target sm_70
.address_size 64
.visible .entry xt_spin(.param .u64 counter, .param .u64 cycles)
{
    .reg .b64 %to, %start, %now, %length;
    .reg .pred %goes_on;
    ld.param.u64 %to, [counter];
    ld.param.u64 %length, [cycles];
    mov.u64 %start, %clock64;
SPIN:
    mov.u64 %now, %clock64;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %goes_on, %now, %length;
    @%goes_on bra SPIN;
    red.global.add.u64 [%to], 1;
    ret;
}
"""


def are_wanted():
    """Whether the process uses stand-ins."""
    return os.environ.get(VARIABLE) == "1"


def instead_of_torch():
    """What a process asks PyTorch for, where there are no models."""
    version = types.SimpleNamespace(hip=None, cuda="stand-ins")
    cuda = types.SimpleNamespace(is_available=lambda: True)
    return types.SimpleNamespace(version=version, cuda=cuda, manual_seed=lambda seed: None,
                                 inference_mode=contextlib.nullcontext,
                                 enable_grad=contextlib.nullcontext)


class Stream:
    """A stream, with its handle as PyTorch's have it."""

    def __init__(self, handle):
        self.cuda_stream = handle


class Event:
    """An event whose wait sleeps."""

    def __init__(self, driver):
        self.driver, self.handle = driver, ctypes.c_void_p()
        driver.call("cuEventCreate", ctypes.byref(self.handle), BLOCKING_SYNC)

    def record(self, stream):
        """Records it into a stream."""
        self.driver.call("cuEventRecord", self.handle, ctypes.c_void_p(stream.cuda_stream))

    def synchronize(self):
        """Waits for it."""
        self.driver.call("cuEventSynchronize", self.handle)


class Driver:
    """The device as a process uses it."""

    name, target, has_graphs = "cuda", None, False

    def __init__(self, torch):
        self.torch, self.current = torch, threading.local()
        try:
            self.library = ctypes.CDLL(DRIVER)
        except OSError as error:
            raise Missing(f"{error}; name the folder of {DRIVER} in LD_LIBRARY_PATH") from error
        self.call("cuInit", 0)
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.attach()
        module, self.kernel = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), SOURCE)
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"xt_spin")
        self.counter = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(self.counter), ctypes.c_size_t(8))

    def call(self, name, *arguments):
        """Calls a function of the driver, which has to answer that all is well."""
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} answered {code}")

    def hardware(self):
        """The device's name."""
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, len(name), 0)
        return f"{name.value.decode()}, stand-ins"

    def software(self):
        """Versions by name."""
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        return {"driver": str(version.value)}

    def attach(self):
        """Makes the context that of the calling thread."""
        self.call("cuCtxSetCurrent", self.context)

    def stream(self, priority):
        """A stream of this priority."""
        handle = ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.byref(handle), NON_BLOCKING, priority or 0)
        return Stream(handle.value)

    @contextlib.contextmanager
    def within(self, stream):
        """A context in which launches go into `stream`."""
        self.current.stream = stream
        yield

    def event(self):
        """An event whose wait sleeps."""
        return Event(self)

    def synchronize(self):
        """Waits for all streams."""
        self.call("cuCtxSynchronize")

    def kernels_ns(self, _request):
        """Device time of each kernel of a request, where a cycle is a nanosecond."""
        return [CYCLES] * KERNELS


class Spins(Work):
    """A request of some kernels, in the place of any model."""

    settings = {}

    def launch(self):
        device = self.device
        stream = ctypes.c_void_p(device.current.stream.cuda_stream)
        values = device.counter, ctypes.c_uint64(CYCLES)
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        for _ in range(KERNELS):
            device.call("cuLaunchKernel", device.kernel, 1, 1, 1, 1, 1, 1, 0, stream, pointers, None)

    def outputs(self):
        """Nothing: spins compute nothing."""
        return []
