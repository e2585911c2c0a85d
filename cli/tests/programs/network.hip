// Kernels of a small network, for gfx942. Needs no header and no device library; compiled as
// hal-hip/kernels/spin.hip is. Sums are in order and multiplications fused, so that a processor
// computes the same bits.

#define KERNEL extern "C" __attribute__((global, visibility("protected"), amdgpu_flat_work_group_size(1, 256))) void
#define X (__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x())

// c, of rows × columns, is a · b, where a has rows × inner words: or inner × rows, and b
// columns × inner, if bits 0 and 1 of `turned` say so.
KERNEL gemm(const float *a, const float *b, float *c, unsigned rows, unsigned columns, unsigned inner,
            unsigned turned)
{
    unsigned at = X, row = at / columns, column = at % columns;
    if (row >= rows) return;
    float sum = 0;
    for (unsigned n = 0; n < inner; n++) {
        float left = turned & 1 ? a[n * rows + row] : a[row * inner + n];
        float right = turned & 2 ? b[column * inner + n] : b[n * columns + column];
        sum = __builtin_fmaf(left, right, sum);
    }
    c[at] = sum;
}

// What is below zero becomes zero.
KERNEL rectify(float *words, unsigned count)
{
    unsigned at = X;
    if (at < count && words[at] < 0) words[at] = 0;
}

// A gradient is zero where the words that were rectified are.
KERNEL rectify_back(float *gradient, const float *words, unsigned count)
{
    unsigned at = X;
    if (at < count && words[at] == 0) gradient[at] = 0;
}

// The difference to what is wanted, and the sum of its squares by one workgroup.
KERNEL loss(float *words, const float *wanted, float *sum, unsigned count)
{
    __attribute__((shared)) static float parts[256];
    unsigned item = __builtin_amdgcn_workitem_id_x(), items = __builtin_amdgcn_workgroup_size_x();
    float part = 0;
    for (unsigned at = item; at < count; at += items) {
        float difference = words[at] - wanted[at];
        words[at] = difference;
        part = __builtin_fmaf(difference, difference, part);
    }
    parts[item] = part;
    for (unsigned half = items / 2; half; half /= 2) {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        if (item < half) parts[item] += parts[item + half];
    }
    if (!item) *sum = parts[0];
}

// A step of training.
KERNEL descend(float *words, const float *gradient, float rate, unsigned count)
{
    unsigned at = X;
    if (at < count) words[at] = __builtin_fmaf(-rate, gradient[at], words[at]);
}
