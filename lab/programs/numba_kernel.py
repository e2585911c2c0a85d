"""Numba: a kernel of its own, on the default stream and on one of its own."""

import common
import numpy

if not hasattr(numpy, "row_stack"):
    # Removed in NumPy 2.5, and Numba's CUDA target of that time still asks for it.
    numpy.row_stack = numpy.vstack
from numba import cuda  # noqa: E402


@cuda.jit
def add(a, b, out):
    at = cuda.grid(1)
    if at < out.size:
        out[at] = a[at] + 2 * b[at]


a = numpy.arange(1 << 20, dtype=numpy.float32)
stream = cuda.stream()
first, second = cuda.to_device(a), cuda.to_device(a[::-1].copy())
out = cuda.device_array_like(first)
result = None


def request():
    global result
    add[4096, 256](first, second, out)
    add[4096, 256, stream](out, second, first)
    stream.synchronize()
    cuda.synchronize()
    result = first.copy_to_host()
    first.copy_to_device(a)


measured = common.times(request, 50)
common.report(common.digest([result]), measured)
