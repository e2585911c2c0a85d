"""XQueues of PyTorch's streams through the C interface, by `ctypes`, as the plan's programs do it.

Launches get into them if the program was started by `xsched run`.
"""

import ctypes
import os
import pathlib

from .faults import Missing

LOCAL, HIGHEST_PRIORITY_FIRST = 2, 1
#: The library and the function that make a hardware queue of a stream.
VENDORS = {"cuda": ("libhalcuda.so", "CudaQueueCreate"), "hip": ("libhalhip.so", "HipQueueCreate")}


def library(name):
    """A library of XSched, from XSCHED_LIB_DIR or where the loader looks."""
    folder = os.environ.get("XSCHED_LIB_DIR")
    try:
        return ctypes.CDLL(str(pathlib.Path(folder) / name) if folder else name)
    except OSError as error:
        raise Missing(f"{error}; name the folder of XSched's libraries in LD_LIBRARY_PATH") from error


def answered(code, what):
    """Raises what a call answered, unless it was fine."""
    if code != 0:
        raise RuntimeError(f"{what} answered {code}")


class XQueues:
    """XQueues, one for each stream, under the policy by priority."""

    def __init__(self, vendor, level):
        self.preempt, self.level, self.made = library("libpreempt.so"), level, []
        name, function = VENDORS[vendor]
        self.create = getattr(library(name), function)
        code = self.preempt.XHintSetScheduler(LOCAL, HIGHEST_PRIORITY_FIRST)
        answered(code, "XHintSetScheduler")

    def add(self, stream, priority):
        """Gives a stream an XQueue with a priority."""
        hwq, xq = ctypes.c_uint64(), ctypes.c_uint64()
        handle = ctypes.c_void_p(stream.cuda_stream)
        answered(self.create(ctypes.byref(hwq), handle), self.create.__name__)
        made = self.preempt.XQueueCreate(ctypes.byref(xq), hwq, ctypes.c_int64(self.level),
                                         ctypes.c_int64(0))
        answered(made, "XQueueCreate")
        self.made.append((xq, hwq))
        config = ctypes.c_int64(8), ctypes.c_int64(4)
        answered(self.preempt.XQueueSetLaunchConfig(xq, *config), "XQueueSetLaunchConfig")
        answered(self.preempt.XHintPriority(xq, ctypes.c_int32(priority)), "XHintPriority")

    def close(self):
        """Ends all."""
        for xq, hwq in self.made:
            answered(self.preempt.XQueueDestroy(xq), "XQueueDestroy")
            answered(self.preempt.HwQueueDestroy(hwq), "HwQueueDestroy")
        self.made.clear()
