// Kernels for tests of the interpreter: what the instructions of a compute unit compute. Each
// work-item reads its own words of `in` and writes its own words of `out`; result `r` of work-item
// `i` is at `out[r * count + i]`. `tests/kernels.rs` computes the same on the processor.
//
//   clang -x hip --cuda-device-only --offload-arch=gfx942 -O3 -nogpuinc -nogpulib
//       --no-gpu-bundle-output -mcode-object-version=5 -fuse-cuid=none -ffp-contract=off
//       -o arithmetic.O3.hsaco arithmetic.hip
// (all in one line; also with -O0 and -O1)

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
typedef _Float16 f16;
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x2 __attribute__((ext_vector_type(2)));
typedef short i16x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x3 __attribute__((ext_vector_type(3)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x8 __attribute__((ext_vector_type(8)));

#define KERNEL \
    extern "C" __attribute__((global, visibility("protected"), amdgpu_flat_work_group_size(1, 256)))
#define DEVICE static inline __attribute__((device, always_inline))
#define CALLED static __attribute__((device, noinline))
#define SHARED static __attribute__((shared))

DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 item() { return __builtin_amdgcn_workgroup_id_x() * 256 + thread(); }

DEVICE u64 bits(double x) { return __builtin_bit_cast(u64, x); }
DEVICE u64 bits(float x) { return __builtin_bit_cast(u32, x); }
DEVICE u64 bits(f16 x) { return __builtin_bit_cast(u16, x); }
DEVICE u64 bits(f16x2 x) { return __builtin_bit_cast(u32, x); }
DEVICE u64 bits(i16x2 x) { return __builtin_bit_cast(u32, x); }
DEVICE u64 bits(f32x2 x) { return __builtin_bit_cast(u64, x); }
DEVICE u64 bits(u64 x) { return x; }
DEVICE u64 bits(i64 x) { return x; }
DEVICE u64 bits(u32 x) { return x; }
DEVICE u64 bits(int x) { return (u32)x; }
DEVICE u64 bits(bool x) { return x; }

// On both halves at once where the compiler can.
DEVICE f32x2 fma_of(f32x2 x, f32x2 y, f32x2 z)
{
#if __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(x, y, z);
#else
    return f32x2{__builtin_fmaf(x.x, y.x, z.x), __builtin_fmaf(x.y, y.y, z.y)};
#endif
}

DEVICE f16x2 fma_of(f16x2 x, f16x2 y, f16x2 z)
{
#if __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(x, y, z);
#else
    return f16x2{(f16)__builtin_fmaf16(x.x, y.x, z.x), (f16)__builtin_fmaf16(x.y, y.y, z.y)};
#endif
}

// Older compilers have other names for these.
#if !__has_builtin(__builtin_amdgcn_logf)
#define __builtin_amdgcn_logf __builtin_log2f
#define __builtin_amdgcn_exp2f __builtin_exp2f
#endif
#if __has_builtin(__builtin_amdgcn_ballot_w64)
#define BALLOT(x) ((u64)__builtin_amdgcn_ballot_w64(x))
#else
#define BALLOT(x) ((u64)__builtin_amdgcn_uicmp((u32)(bool)(x), 0, 33))
#endif

#define OUT(r, x) out[(u64)(r) * count + i] = bits(x)
#define BEGIN                     \
    const u64 i = item();         \
    if (i >= count)               \
        return;                   \
    const u64 a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];

KERNEL void k_f32(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    const float x = __builtin_bit_cast(float, (u32)a), y = __builtin_bit_cast(float, (u32)b);
    const float z = __builtin_bit_cast(float, (u32)c);
    OUT(0, x + y);
    OUT(1, x - y);
    OUT(2, x * y);
    OUT(3, x / y);
    OUT(4, __builtin_fmaf(x, y, z));
    OUT(5, __builtin_sqrtf(__builtin_fabsf(x)));
    OUT(6, __builtin_floorf(x));
    OUT(7, __builtin_ceilf(x));
    OUT(8, __builtin_truncf(x));
    OUT(9, __builtin_rintf(x));
    OUT(10, __builtin_fminf(x, y));
    OUT(11, __builtin_fmaxf(x, y));
    OUT(12, x < y);
    OUT(13, x >= y);
    OUT(14, x == y);
    OUT(15, __builtin_isnan(x));
    OUT(16, __builtin_isinf(x));
    OUT(17, -__builtin_fabsf(y));
    OUT(18, x < y ? z : x);
    OUT(19, __builtin_copysignf(x, y));
    OUT(20, 1.0f / x);
    OUT(21, (double)x);
    OUT(22, (f16)x);
    const f32x2 v = {x, y}, w = {z, x}, u = {y, z};
    OUT(23, v + w);
    OUT(24, v * w);
    OUT(25, fma_of(v, w, u));
    OUT(26, __builtin_amdgcn_ldexpf(x, (int)(b % 300) - 150));
}

KERNEL void k_f64(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    const double x = __builtin_bit_cast(double, a), y = __builtin_bit_cast(double, b);
    const double z = __builtin_bit_cast(double, c);
    OUT(0, x + y);
    OUT(1, x - y);
    OUT(2, x * y);
    OUT(3, x / y);
    OUT(4, __builtin_fma(x, y, z));
    OUT(5, __builtin_sqrt(__builtin_fabs(x)));
    OUT(6, __builtin_floor(x));
    OUT(7, __builtin_ceil(x));
    OUT(8, __builtin_trunc(x));
    OUT(9, __builtin_rint(x));
    OUT(10, __builtin_fmin(x, y));
    OUT(11, __builtin_fmax(x, y));
    OUT(12, x < y);
    OUT(13, x != y);
    OUT(14, __builtin_isnan(x));
    OUT(15, x < y ? z : -x);
    OUT(16, (float)x);
    OUT(17, __builtin_amdgcn_ldexp(x, (int)(b % 2400) - 1200));
    OUT(18, __builtin_copysign(x, y));
    OUT(19, 1.0 / x);
}

KERNEL void k_f16(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    const f16 x = __builtin_bit_cast(f16, (u16)a), y = __builtin_bit_cast(f16, (u16)b);
    const f16 z = __builtin_bit_cast(f16, (u16)c);
    OUT(0, (f16)(x + y));
    OUT(1, (f16)(x - y));
    OUT(2, (f16)(x * y));
    OUT(3, (f16)(x / y));
    OUT(4, (f16)__builtin_fmaf16(x, y, z));
    OUT(5, (float)x);
    OUT(6, (double)x);
    OUT(7, x < y);
    OUT(8, (f16)__builtin_floorf16(x));
    OUT(9, (f16)__builtin_fmaxf16(x, y));
    const f16x2 v = {x, y}, w = {z, x}, u = {y, z};
    OUT(10, v + w);
    OUT(11, v * w);
    OUT(12, fma_of(v, w, u));
    OUT(13, v - w);
    OUT(14, __builtin_elementwise_max(v, w));
    const f16x2 turned = {v.y, v.x};
    OUT(15, turned * w + u);
    OUT(16, __builtin_fmaf((float)x, (float)y, (float)z));
}

KERNEL void k_convert(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    // Numbers that fit, since others are undefined in C.
    const float x = (float)(int)a / 7.0f;
    const double y = (double)(i64)b / 7.0;
    OUT(0, (int)x);
    OUT(1, (u32)__builtin_fabsf(x));
    OUT(2, (i64)x);
    OUT(3, (u64)__builtin_fabsf(x));
    OUT(4, (i64)y);
    OUT(5, (u64)__builtin_fabs(y));
    OUT(6, (int)(y / 4294967296.0));
    OUT(7, (float)(int)a);
    OUT(8, (float)(u32)a);
    OUT(9, (float)(i64)a);
    OUT(10, (float)a);
    OUT(11, (double)(i64)a);
    OUT(12, (double)a);
    OUT(13, (double)(int)a);
    OUT(14, (float)(u8)(a >> 8));
    OUT(15, (f16)(short)a);
    OUT(16, (u32)(short)(f16)(float)(a % 1000));
    OUT(17, (float)(signed char)a);
}

KERNEL void k_integer(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    const u32 x = a, y = b | 1, z = c;
    const int s = (int)a >> (c & 31), t = (int)y | 1;
    const u64 d = b >> (c & 63) | 1;
    OUT(0, x / y);
    OUT(1, x % y);
    OUT(2, s / (t == -1 ? 3 : t));
    OUT(3, s % (t == -1 ? 3 : t));
    OUT(4, a / d);
    OUT(5, a % d);
    OUT(6, (i64)a / ((i64)d == -1 ? 5 : (i64)d));
    OUT(7, (i64)a % ((i64)d == -1 ? 5 : (i64)d));
    OUT(8, (u64)x * y);
    OUT(9, (u64)(((unsigned __int128)a * b) >> 64));
    OUT(10, (i64)(((__int128)(i64)a * (i64)b) >> 64));
    OUT(11, a << (c & 63));
    OUT(12, (i64)a >> (c & 63));
    OUT(13, __builtin_popcountll(a));
    OUT(14, __builtin_clz(x | 1));
    OUT(15, __builtin_ctzll(b | (1ull << 63)));
    OUT(16, __builtin_bitreverse32(x));
    OUT(17, (u64)__builtin_bswap64(a));
    OUT(18, x << (z & 31) | x >> (-z & 31));
    OUT(19, __builtin_elementwise_add_sat(x, z));
    OUT(20, __builtin_elementwise_sub_sat((int)x, (int)z));
    OUT(21, __builtin_elementwise_max((int)x, (int)z));
    OUT(22, __builtin_elementwise_min((i64)a, (i64)c));
    OUT(23, (int)(short)x * (int)(short)z);
    OUT(24, (u32)(u8)(x + z) + (u32)(u8)(x >> 24));
    OUT(25, (x & 0xffffff) * (z & 0xffffff) + y);
    OUT(26, x >> 7 & 0x1ff);
    OUT(27, (int)(x << 5) >> 20);
    OUT(28, (x & z) | (~x & y));
    OUT(29, a + b * c);
    OUT(30, a - b - c);
    const i16x2 v = {(short)x, (short)(x >> 16)}, w = {(short)z, (short)(z >> 16)};
    OUT(31, v + w);
    OUT(32, v * w);
    OUT(33, __builtin_elementwise_max(v, w));
    OUT(34, v << (i16x2)(w & (short)15));
    OUT(35, __builtin_elementwise_abs((int)(x | 1)));
    OUT(36, x * 7 + (y << 3) + (z << 2 | 1));
    OUT(37, a < b);
    OUT(38, (i64)a < (i64)b);
    OUT(39, (u16)x < (u16)z);
    OUT(40, (short)x >= (short)z);
}

// What the instruction does with fewer digits than the processor, and only about the same.
KERNEL void k_near(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    const float x = __builtin_fabsf((float)(int)a) / 65536.0f;
    OUT(0, __builtin_amdgcn_rcpf(x));
    OUT(1, __builtin_amdgcn_rsqf(x));
    OUT(2, __builtin_amdgcn_sqrtf(x));
    OUT(3, __builtin_amdgcn_logf(x));
    OUT(4, __builtin_amdgcn_exp2f(x / 512.0f));
    OUT(5, __builtin_amdgcn_sinf(x / 512.0f));
    OUT(6, __builtin_amdgcn_cosf(x / 512.0f));
    OUT(7, __builtin_amdgcn_fractf(x));
    OUT(8, __builtin_amdgcn_frexp_mantf(x));
    OUT(9, __builtin_amdgcn_frexp_expf(x));
    OUT(10, __builtin_amdgcn_fmed3f(x, 1000.0f, 2000.0f));
    OUT(11, __builtin_amdgcn_rcp((double)x));
    OUT(12, __builtin_amdgcn_rsq((double)x));
}

#define DPP(x, control, rows, banks, bound) \
    __builtin_amdgcn_update_dpp((int)0xdead, (int)(x), control, rows, banks, bound)

// Values of other lanes.
KERNEL void k_lanes(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    const u32 x = a, z = c;
    OUT(0, (u32)DPP(x, 0x111, 15, 15, false));
    OUT(1, (u32)DPP(x, 0x102, 15, 15, true));
    OUT(2, (u32)DPP(x, 0x121, 15, 15, false));
    OUT(3, (u32)DPP(x, 0x4e, 15, 15, false));
    OUT(4, (u32)DPP(x, 0x140, 15, 15, false));
    OUT(5, (u32)DPP(x, 0x141, 15, 15, false));
    OUT(6, (u32)DPP(x, 0x142, 10, 15, false));
    OUT(7, (u32)DPP(x, 0x143, 12, 15, false));
    OUT(8, (u32)DPP(x, 0x138, 15, 15, false));
    OUT(9, (u32)DPP(x, 0x114, 15, 14, false));
    OUT(10, (u32)__builtin_amdgcn_ds_bpermute((int)(z << 2), (int)x));
    OUT(11, (u32)__builtin_amdgcn_ds_permute((int)((thread() * 5 + 3) << 2), (int)x));
    OUT(12, (u32)__builtin_amdgcn_ds_swizzle((int)x, 0x041f));
    OUT(13, (u32)__builtin_amdgcn_ds_swizzle((int)x, 0x80b1));
    OUT(14, (u32)__builtin_amdgcn_readlane((int)x, 17));
    OUT(15, (u32)__builtin_amdgcn_readfirstlane((int)x));
    OUT(16, BALLOT(x & 1));
    OUT(17, (u32)__builtin_amdgcn_mbcnt_hi(x, __builtin_amdgcn_mbcnt_lo(z, 5)));
    OUT(18, __builtin_amdgcn_perm(x, z, 0x0d060c01));
    OUT(19, __builtin_amdgcn_alignbit(x, z, 13));
    OUT(20, (u32)__builtin_amdgcn_ubfe(x, 5, 9));
    OUT(21, (u32)__builtin_amdgcn_sbfe((int)x, 5, 9));
    OUT(22, (u32)__builtin_amdgcn_sdot4((int)x, (int)z, (int)b, false));
    OUT(23, __builtin_amdgcn_udot4(x, z, (u32)b, false));
    if (x & 2)
        OUT(24, (u32)DPP(z, 0x111, 15, 15, false));
    else
        OUT(24, (u32)__builtin_amdgcn_readfirstlane((int)z));
    OUT(25, BALLOT(true));
}

SHARED u64 cells[256];
SHARED u32 wave_sums[4];

// The sum of a block, by lanes and then by waves.
KERNEL void k_reduce(const u64 *in, u64 *out, u64 count)
{
    const u64 i = item();
    u32 sum = in[3 * i];
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x111, 15, 15, false);
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x112, 15, 15, false);
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x114, 15, 15, false);
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x118, 15, 15, false);
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x142, 10, 15, false);
    sum += __builtin_amdgcn_update_dpp(0, sum, 0x143, 12, 15, false);
    if (thread() % 64 == 63)
        wave_sums[thread() / 64] = sum;
    cells[thread()] = in[3 * i + 1];
    for (u32 half = 128; half > 0; half /= 2) {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_s_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
        if (thread() < half)
            cells[thread()] += cells[thread() + half];
    }
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    OUT(0, sum);
    OUT(1, wave_sums[0] + wave_sums[1] + wave_sums[2] + wave_sums[3]);
    OUT(2, cells[0]);
}

#define ADD(p, x) __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ALL(op, p, x) __hip_atomic_fetch_##op(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)

SHARED u32 shared_word;
SHARED u64 shared_long;
SHARED float shared_float;

// Every work-item of all blocks uses the same words at `out`; what they are does not depend on the
// order.
KERNEL void k_atomics(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    u32 *words = (u32 *)(out + 16);
    ADD(out, a);
    ALL(min, out + 1, b);
    ALL(max, out + 2, b);
    ALL(min, (i64 *)out + 3, (i64)c);
    ALL(max, (i64 *)out + 4, (i64)c);
    ALL(xor, out + 5, a);
    ALL(or, out + 6, a & b & c);
    ALL(and, out + 7, a | b | c);
    ADD((double *)out + 8, (double)(a & 0xffff));
    u64 seen = __hip_atomic_load(out + 9, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    while (!__hip_atomic_compare_exchange_strong(out + 9, &seen, seen * 3 + 1, __ATOMIC_RELAXED,
                                                 __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {
    }
    ADD(words, (u32)a);
    ALL(min, words + 1, (u32)b);
    ALL(max, (int *)words + 2, (int)c);
    ALL(xor, words + 3, (u32)b);
    ADD((float *)words + 4, (float)(a & 0xff));
    __builtin_amdgcn_atomic_inc32(words + 5, 99, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_atomic_dec32(words + 6, 99, __ATOMIC_RELAXED, "agent");
    if (thread() == 0) {
        shared_word = 0;
        shared_long = 0;
        shared_float = 0.0f;
    }
    __builtin_amdgcn_s_barrier();
    __hip_atomic_fetch_add(&shared_word, (u32)a, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_max(&shared_long, b, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    __hip_atomic_fetch_add(&shared_float, (float)(c & 7), __ATOMIC_RELAXED,
                           __HIP_MEMORY_SCOPE_WORKGROUP);
    __builtin_amdgcn_s_barrier();
    if (thread() == 0) {
        ADD(out + 10, (u64)shared_word);
        ALL(max, out + 11, shared_long);
        ADD(out + 12, (u64)shared_float);
    }
    // Each work-item has one of these, so that their results are what was there.
    u64 *own = out + 32 + i;
    OUT(2, __hip_atomic_exchange(own, a, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) + *own);
}

// Arrays whose index is not known to the compiler are in scratch memory.
KERNEL void k_scratch(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    u64 words[24];
    u8 small[40];
    for (u32 n = 0; n < 24; n++)
        words[n] = a * (n + 1) + b;
    for (u32 n = 0; n < 40; n++)
        small[n] = (u8)(c >> n % 8);
    for (u32 n = 0; n < 100; n++) {
        const u32 at = (words[n % 24] >> 7) % 24;
        words[at] ^= words[(at + n) % 24] + small[at];
        small[(u32)words[at] % 40] += (u8)n;
    }
    u64 sum = 0;
    for (u32 n = 0; n < 24; n++)
        sum = sum * 31 + words[n];
    for (u32 n = 0; n < 40; n++)
        sum = sum * 31 + small[n];
    OUT(0, sum);
    // A vector's elements by an index, in registers.
    u32x8 v = {(u32)a, (u32)b, (u32)c, 1, 2, 3, 4, 5};
    const u32 at = in[0] % 8;
    v[at] = (u32)(a >> 32);
    OUT(1, v[(at + 3) % 8] + v[at]);
    OUT(2, v[c % 8]);
}

CALLED u64 collatz(u64 n, u64 *steps)
{
    while (n != 1 && *steps < 50) {
        n = n % 2 ? 3 * n + 1 : n / 2;
        ++*steps;
    }
    return n;
}

CALLED u64 fibonacci(u32 n)
{
    if (n < 2)
        return n;
    return fibonacci(n - 1) + fibonacci(n - 2);
}

CALLED u64 twice(u64 x) { return x * 2 + 1; }
CALLED u64 thrice(u64 x) { return x * 3 + 2; }

KERNEL void k_call(const u64 *in, u64 *out, u64 count)
{
    BEGIN
    u64 steps = 0;
    OUT(0, collatz(a % 1000 + 1, &steps));
    OUT(1, steps);
    OUT(2, fibonacci(b % 9));
    u64 (*which)(u64) = c & 1 ? twice : thrice;
    OUT(3, which(a));
}

SHARED u8 shared_bytes[4096];

// Loads and stores of all widths.
KERNEL void k_widths(const u64 *in, u64 *out, u64 count)
{
    const u64 i = item();
    if (i >= count)
        return;
    const u8 *from = (const u8 *)(in + 3 * i);
    volatile u8 *shared = shared_bytes + 16 * thread();
    *(volatile u32x4 *)shared = *(const u32x4 *)(in + 3 * (i & ~1ull));
    u64 sum = shared[1] + *(volatile signed char *)(shared + 2) + *(volatile u16 *)(shared + 4);
    sum += *(volatile short *)(shared + 6) + *(volatile u32 *)(shared + 8);
    OUT(0, sum + *(volatile u64 *)(shared + 8));
    *(volatile u8 *)(shared + 3) = from[5];
    *(volatile u16 *)(shared + 10) = (u16)i;
    OUT(1, *(volatile u64 *)shared);
    OUT(2, *(volatile u64 *)(shared + 8));
    OUT(3, (u64)(from[3] + *(const signed char *)(from + 7) + *(const short *)(from + 10)));
    u8 *to = (u8 *)(out + 4 * count + 4 * i);
    *(volatile u32x3 *)to = *(const u32x3 *)(in + 3 * (i & ~1ull));
    *(volatile u8 *)(to + 12) = (u8)i;
    *(volatile u8 *)(to + 13) = 0;
    *(volatile u16 *)(to + 14) = from[0] | (u16)from[9] << 8;
    *(volatile u64 *)(to + 16) = *(const u64 *)from;
    *(volatile f16 *)(to + 24) = (f16)(float)(i + 1);
    *(volatile u16 *)(to + 26) = *(const u16 *)(from + 6) >> 1;
    *(volatile u32 *)(to + 28) = (u32)from[2] << 8;
}

// Which work-item of which block it is, in three dimensions.
KERNEL void k_grid(const u64 *in, u64 *out, u64 count)
{
    const u64 *unused = in;
    const u64 sizes = in[0];
    const u32 x = __builtin_amdgcn_workgroup_id_x() * (sizes & 0xff) + __builtin_amdgcn_workitem_id_x();
    const u32 y =
        __builtin_amdgcn_workgroup_id_y() * (sizes >> 8 & 0xff) + __builtin_amdgcn_workitem_id_y();
    const u32 z =
        __builtin_amdgcn_workgroup_id_z() * (sizes >> 16 & 0xff) + __builtin_amdgcn_workitem_id_z();
    const u32 width = __builtin_amdgcn_grid_size_x(), height = __builtin_amdgcn_grid_size_y();
    out[x + width * (y + (u64)height * z)] += 1 + unused[1];
}
