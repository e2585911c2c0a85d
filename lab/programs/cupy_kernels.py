"""CuPy: element-wise kernels, a reduction, a product, a raw kernel, streams and its memory pool."""

import common
import cupy

numbers = cupy.random.RandomState(1).standard_normal((1024, 1024), dtype=cupy.float32)
raw = cupy.RawKernel(r"""
extern "C" __global__ void scale(const float *in, float *out, float by, int count) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) out[at] = in[at] * by;
}""", "scale")
outputs = []


def request():
    scaled = cupy.empty_like(numbers)
    raw((4096,), (256,), (numbers, scaled, cupy.float32(3), cupy.int32(numbers.size)))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        product = numbers @ numbers
        rows = cupy.sqrt(cupy.abs(product)).max(axis=1)
        stream.synchronize()
    outputs[:] = [scaled, rows, cupy.sort(numbers[0])]
    cupy.cuda.Device().synchronize()


measured = common.times(request, 50)
common.report(common.digest([cupy.asnumpy(output) for output in outputs]), measured)
