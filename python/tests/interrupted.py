"""Interrupts a running kernel at level 3 while another queue's runs. `test_kfd.py` runs it, on the
emulated driver."""

from __future__ import annotations

import ctypes
import sys
import time
from ctypes import byref, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Tuple

from xsched import Queue

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import work  # noqa: E402

#: Rounds of the kernel, of about a microsecond each.
LONG, SHORT = 1_000_000, 1_000


class Run:
    """One run of a kernel that says when it was last seen to run, and leaves a sum."""

    def __init__(self, hip: work.Hip, kernel: c_void_p, stream: int, rounds: int) -> None:
        self._hip, self._kernel, self._stream, self._rounds = hip, kernel, stream, rounds
        self._beats, self._sums = (c_uint64 * 2)(), (c_uint64 * 2)()

    def launch(self, _: int) -> None:
        """Launches it. The device has one unit, so two do not run at once."""
        beats, sums = ctypes.addressof(self._beats), ctypes.addressof(self._sums)
        values = [c_uint64(value) for value in (self._rounds, beats, 1 << 32 | 1, sums, 0)]
        pointers = (c_void_p * 5)(*(ctypes.addressof(value) for value in values))
        one, none = c_uint32(1), c_uint32(0)
        shape = (one, one, one, one, one, one, none)
        stream = c_void_p(self._stream)
        self._hip.call("hipModuleLaunchKernel", self._kernel, *shape, stream, pointers, c_void_p())

    @property
    def beat(self) -> int:
        """When it was last seen to run; 0 before that."""
        return int(self._beats[0])

    @property
    def result(self) -> Tuple[int, int]:
        """How often it has ended, and its sum."""
        return int(self._sums[1]), int(self._sums[0])


def main() -> None:
    hip = work.Hip()
    module, kernel = c_void_p(), c_void_p()
    hip.call("hipModuleLoadData", byref(module), work.EMULATED_IMAGE)
    hip.call("hipModuleGetFunction", byref(kernel), module, b"xs_work_alu")
    with Queue.on_hip() as queue, Queue.on_hip() as other:
        first, second = queue.hardware.hip_stream, other.hardware.hip_stream
        alone = Run(hip, kernel, first, LONG)
        queue.submit(alone.launch).wait()
        long, short = Run(hip, kernel, first, LONG), Run(hip, kernel, second, SHORT)
        command = queue.submit(long.launch)
        while not long.beat:
            time.sleep(0.001)
        with queue.held(synchronize=True):
            beat = long.beat
            time.sleep(0.05)
            assert long.beat == beat, "it ran on"
            # On a busy machine this launch may let it go for a moment.
            other.submit(short.launch).wait()
            assert (short.result[0], long.result[0]) == (1, 0), "the first was not interrupted"
        command.wait()
        assert long.result == alone.result, "the interrupted kernel's result is wrong"
    print("interrupted")


if __name__ == "__main__":
    main()
