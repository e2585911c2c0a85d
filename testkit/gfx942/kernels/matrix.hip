// Kernels for tests of the interpreter's matrix multiplications, compiled as `arithmetic.hip`. Of
// each, a wave multiplies matrices of small whole numbers, so that every result is exact:
// result `r` of lane `l` is at `out[64 * r + l]`.

typedef unsigned long long u64;
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef short i16x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef float f32x32 __attribute__((ext_vector_type(32)));
typedef double f64x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef int i32x16 __attribute__((ext_vector_type(16)));

#define KERNEL \
    extern "C" __attribute__((global, visibility("protected"), amdgpu_flat_work_group_size(64, 64)))
#define DEVICE static inline __attribute__((device, always_inline))

DEVICE unsigned lane() { return __builtin_amdgcn_workitem_id_x(); }

// Element `n` of the lane's part of the first or the second matrix.
DEVICE int element(u64 word, int n) { return (int)(word >> (8 * n) & 15) - 7; }

DEVICE f16x4 halves(u64 word)
{
    return f16x4{(_Float16)element(word, 0), (_Float16)element(word, 1),
                 (_Float16)element(word, 2), (_Float16)element(word, 3)};
}

DEVICE short brain(int value)
{
    return (short)(__builtin_bit_cast(unsigned, (float)value) >> 16);
}

DEVICE i16x4 brains(u64 word)
{
    return i16x4{brain(element(word, 0)), brain(element(word, 1)), brain(element(word, 2)),
                 brain(element(word, 3))};
}

#define MATRIX(name, type, count, a, b, call)                           \
    KERNEL void name(const u64 *in, long long *out)                     \
    {                                                                   \
        const u64 x = in[2 * lane()], y = in[2 * lane() + 1];           \
        type c;                                                         \
        for (int n = 0; n < count; n++)                                 \
            c[n] = element(x, 7) * (n + 1);                             \
        c = call(a, b, c, 0, 0, 0);                                     \
        for (int n = 0; n < count; n++)                                 \
            out[64 * n + lane()] = (long long)c[n];                     \
    }

MATRIX(m_16x16x16_f16, f32x4, 4, halves(x), halves(y), __builtin_amdgcn_mfma_f32_16x16x16f16)
MATRIX(m_32x32x8_f16, f32x16, 16, halves(x), halves(y), __builtin_amdgcn_mfma_f32_32x32x8f16)
MATRIX(m_4x4x4_f16, f32x4, 4, halves(x), halves(y), __builtin_amdgcn_mfma_f32_4x4x4f16)
MATRIX(m_16x16x4_f16, f32x16, 16, halves(x), halves(y), __builtin_amdgcn_mfma_f32_16x16x4f16)
MATRIX(m_32x32x4_f16, f32x32, 32, halves(x), halves(y), __builtin_amdgcn_mfma_f32_32x32x4f16)
MATRIX(m_16x16x16_bf16, f32x4, 4, brains(x), brains(y), __builtin_amdgcn_mfma_f32_16x16x16bf16_1k)
MATRIX(m_32x32x8_bf16, f32x16, 16, brains(x), brains(y), __builtin_amdgcn_mfma_f32_32x32x8bf16_1k)
MATRIX(m_4x4x4_bf16, f32x4, 4, brains(x), brains(y), __builtin_amdgcn_mfma_f32_4x4x4bf16_1k)
MATRIX(m_16x16x4_f32, f32x4, 4, (float)element(x, 0), (float)element(y, 0),
       __builtin_amdgcn_mfma_f32_16x16x4f32)
MATRIX(m_32x32x2_f32, f32x16, 16, (float)element(x, 0), (float)element(y, 0),
       __builtin_amdgcn_mfma_f32_32x32x2f32)
MATRIX(m_4x4x1_f32, f32x4, 4, (float)element(x, 0), (float)element(y, 0),
       __builtin_amdgcn_mfma_f32_4x4x1f32)
MATRIX(m_32x32x1_f32, f32x32, 32, (float)element(x, 0), (float)element(y, 0),
       __builtin_amdgcn_mfma_f32_32x32x1f32)
MATRIX(m_16x16x32_i8, i32x4, 4, (long)x, (long)y, __builtin_amdgcn_mfma_i32_16x16x32_i8)
MATRIX(m_32x32x16_i8, i32x16, 16, (long)x, (long)y, __builtin_amdgcn_mfma_i32_32x32x16_i8)
MATRIX(m_4x4x4_i8, i32x4, 4, (int)x, (int)y, __builtin_amdgcn_mfma_i32_4x4x4i8)
MATRIX(m_16x16x4_f64, f64x4, 4, (double)element(x, 0), (double)element(y, 0),
       __builtin_amdgcn_mfma_f64_16x16x4f64)

KERNEL void m_4x4x4_f64(const u64 *in, long long *out)
{
    const u64 x = in[2 * lane()], y = in[2 * lane() + 1];
    const double c = element(x, 7);
    out[lane()] = (long long)__builtin_amdgcn_mfma_f64_4x4x4f64(
        (double)element(x, 0), (double)element(y, 0), c, 0, 0, 0);
}
