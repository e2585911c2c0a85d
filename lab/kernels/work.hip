// Kernels whose results are checked, to see that being interrupted changes nothing: one for each
// part of a compute unit whose state has to be saved. Nothing here is meant for production use. No
// header and no device library is needed:
//
//   hipcc --genco --offload-arch=gfx942 -O3 -o work.hsaco work.hip
//   clang -x hip --cuda-device-only --offload-arch=gfx942 -O3 -nogpuinc -nogpulib
//       --no-gpu-bundle-output -mcode-object-version=5 -fuse-cuid=none -o work.hsaco work.hip
// (all in one line)
//
// All have the same arguments, and are for blocks of 256 work-items:
//   rounds   how much there is to do
//   beats    host memory, 2 words for each of the first `beaters` blocks: when the block's first
//            wave last got on, and when it first did after a start or a pause of PAUSE_NS
//   beaters  in the lower half, blocks that write there
//   sums     host memory, 2 words for each block: the sum of all results, and how many there were
//   memory   device memory, WORDS words for each work-item, and 2 more
//
// Every result depends on the number of rounds and the work-item alone, so that each launch adds
// the same. Times are nanoseconds of the clock that runs at one rate, as in spin.hip.

#ifndef XS_TICK_NS
#define XS_TICK_NS 10
#endif

typedef unsigned long long u64;
typedef unsigned int u32;

#define XS_KERNEL \
    extern "C" __attribute__((global, visibility("protected"), amdgpu_flat_work_group_size(256, 256)))
#define XS_DEVICE static inline __attribute__((device, always_inline))
#define XS_SHARED static __attribute__((shared))

#define THREADS 256
#define WORDS 8
#define PAUSE_NS 20000
// Steps of a round, so that a round takes in the order of a microsecond.
#define STEPS 32
// A block that waits longer for others gives up, and its sum is wrong.
#define GIVE_UP_NS 5000000000ull

XS_DEVICE u32 thread() { return __builtin_amdgcn_workitem_id_x(); }
XS_DEVICE u32 block() { return __builtin_amdgcn_workgroup_id_x(); }
XS_DEVICE u64 ns_now() { return __builtin_amdgcn_s_memrealtime() * XS_TICK_NS; }

XS_DEVICE void put(u64 *word, u64 value)
{
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

XS_DEVICE u64 get(const u64 *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// All waves of the block have come this far, and see what the others have written.
XS_DEVICE void meet()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// One step of a sequence in which each number needs the one before. Different numbers stay
// different.
XS_DEVICE u64 mix(u64 state)
{
    u64 x = state + 0x9e3779b97f4a7c15ull;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ (x << 17);
}

XS_DEVICE u64 seed() { return mix((u64)block() * THREADS + thread()); }

struct Beat {
    u64 *words;
    u64 before;
};

XS_DEVICE Beat beat_of(u64 *beats, u64 beaters)
{
    Beat beat = {0, 0};
    if (thread() == 0 && block() < (u32)beaters)
        beat.words = beats + 2 * (u64)block();
    return beat;
}

// The block has got on.
XS_DEVICE void got_on(Beat *beat)
{
    if (!beat->words)
        return;
    const u64 now = ns_now();
    if (now - beat->before > PAUSE_NS)
        put(beat->words + 1, now);
    put(beat->words, now);
    beat->before = now;
}

XS_SHARED u64 total;

// Adds the block's results to its sum.
XS_DEVICE void add_up(u64 result, u64 *sums)
{
    if (thread() == 0)
        total = 0;
    meet();
    __hip_atomic_fetch_add(&total, mix(result), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    meet();
    if (thread() == 0) {
        u64 *own = sums + 2 * (u64)block();
        put(own, get(own) + total);
        put(own + 1, get(own + 1) + 1);
    }
}

// Vector registers.
XS_KERNEL void xs_work_alu(u64 rounds, u64 *beats, u64 beaters, u64 *sums, u64 *memory)
{
    Beat beat = beat_of(beats, beaters);
    u64 a = seed(), b = mix(a), c = mix(b), d = mix(c);
    for (u64 round = 0; round < rounds; round++) {
        for (u32 step = 0; step < STEPS; step++) {
            a = mix(a ^ d);
            b = mix(b ^ a);
            c = mix(c ^ b);
            d = mix(d ^ c);
        }
        got_on(&beat);
    }
    add_up(a ^ b ^ c ^ d, sums);
}

#define LDS_WORDS 4096
XS_SHARED u64 columns[LDS_WORDS];

// Local data share: each work-item has words of its own in it.
XS_KERNEL void xs_work_lds(u64 rounds, u64 *beats, u64 beaters, u64 *sums, u64 *memory)
{
    Beat beat = beat_of(beats, beaters);
    u64 state = seed();
    for (u32 n = thread(); n < LDS_WORDS; n += THREADS)
        columns[n] = mix(state + n);
    for (u64 round = 0; round < rounds; round++) {
        for (u32 step = 0; step < STEPS; step++) {
            const u32 row = state % (LDS_WORDS / THREADS);
            const u64 read = columns[row * THREADS + thread()];
            columns[row * THREADS + thread()] = read + state;
            state = mix(state ^ read);
        }
        got_on(&beat);
    }
    for (u32 n = thread(); n < LDS_WORDS; n += THREADS)
        state = mix(state ^ columns[n]);
    add_up(state, sums);
}

typedef int v4i __attribute__((ext_vector_type(4)));

// Matrix cores and their accumulators. Whole numbers, so that every result is exact.
XS_KERNEL void xs_work_mfma(u64 rounds, u64 *beats, u64 beaters, u64 *sums, u64 *memory)
{
    Beat beat = beat_of(beats, beaters);
    u64 state = seed();
    v4i c = {(int)state, (int)(state >> 32), 1, 2};
    v4i d = {3, 4, (int)state, (int)(state >> 32)};
    for (u64 round = 0; round < rounds; round++) {
        for (u32 step = 0; step < STEPS; step++) {
#if defined(__gfx942__) || defined(__gfx940__) || defined(__gfx941__)
            c = __builtin_amdgcn_mfma_i32_16x16x32_i8((long)state, (long)mix(state), c, 0, 0, 0);
            d = __builtin_amdgcn_mfma_i32_16x16x32_i8((long)mix(state), (long)state, d, 0, 0, 0);
#else
            c = __builtin_amdgcn_mfma_i32_16x16x16i8((int)state, (int)(state >> 32), c, 0, 0, 0);
            d = __builtin_amdgcn_mfma_i32_16x16x16i8((int)(state >> 32), (int)state, d, 0, 0, 0);
#endif
            state = mix(state ^ (u32)c[step % 4]);
        }
        got_on(&beat);
    }
    for (u32 n = 0; n < 4; n++)
        state = mix(state ^ (u32)c[n] ^ ((u64)(u32)d[n] << 32));
    add_up(state, sums);
}

// Device memory: each work-item has words of its own.
XS_KERNEL void xs_work_memory(u64 rounds, u64 *beats, u64 beaters, u64 *sums, u64 *memory)
{
    Beat beat = beat_of(beats, beaters);
    u64 *own = memory + (u64)block() * THREADS * WORDS + thread();
    u64 state = seed();
    for (u32 n = 0; n < WORDS; n++)
        own[n * THREADS] = mix(state + n);
    for (u64 round = 0; round < rounds; round++) {
        for (u32 step = 0; step < 4; step++) {
            volatile u64 *word = own + (state % WORDS) * THREADS;
            const u64 read = *word;
            *word = read + state;
            state = mix(state ^ read);
        }
        got_on(&beat);
    }
    for (u32 n = 0; n < WORDS; n++)
        state = mix(state ^ own[n * THREADS]);
    add_up(state, sums);
}

// Atomic additions to counters that the block's work-items share. Their sums do not depend on the
// order.
XS_KERNEL void xs_work_atomics(u64 rounds, u64 *beats, u64 beaters, u64 *sums, u64 *memory)
{
    Beat beat = beat_of(beats, beaters);
    u64 *own = memory + (u64)block() * THREADS * WORDS;
    u64 state = seed();
    own[thread()] = 0;
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
    meet();
    for (u64 round = 0; round < rounds; round++) {
        for (u32 step = 0; step < 4; step++) {
            __hip_atomic_fetch_add(own + state % THREADS, state, __ATOMIC_RELAXED,
                                   __HIP_MEMORY_SCOPE_AGENT);
            state = mix(state);
        }
        got_on(&beat);
    }
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
    meet();
    state ^= __hip_atomic_load(own + thread(), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    add_up(state, sums);
}

XS_SHARED u64 neighbours[THREADS];

// Barriers of the workgroup: each work-item needs what its neighbour has just written.
XS_KERNEL void xs_work_barrier(u64 rounds, u64 *beats, u64 beaters, u64 *sums, u64 *memory)
{
    Beat beat = beat_of(beats, beaters);
    u64 state = seed();
    for (u64 round = 0; round < rounds; round++) {
        for (u32 step = 0; step < 4; step++) {
            neighbours[thread()] = state;
            meet();
            state = mix(state ^ neighbours[(thread() + 65) % THREADS]);
            meet();
        }
        got_on(&beat);
    }
    add_up(state, sums);
}

XS_SHARED u64 gave_up;

// All blocks meet: the last to come lets the others go. `meeting` is two words, how many are there
// and how often they have met. Not without all blocks on the device at once.
XS_DEVICE bool all_meet(u64 *meeting)
{
    meet();
    if (thread() == 0) {
        const u64 start = ns_now();
        gave_up = 0;
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
        const u64 met = __hip_atomic_load(meeting + 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        const u64 there =
            __hip_atomic_fetch_add(meeting, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT) + 1;
        const u32 blocks = __builtin_amdgcn_grid_size_x() / THREADS;
        if (there == blocks) {
            __hip_atomic_store(meeting, 0, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
            __hip_atomic_store(meeting + 1, met + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
        } else {
            while (__hip_atomic_load(meeting + 1, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)
                   == met) {
                if (ns_now() - start > GIVE_UP_NS) {
                    gave_up = 1;
                    break;
                }
            }
        }
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    }
    meet();
    return !gave_up;
}

// Meetings of all workgroups: each block needs what the next one has just written.
XS_KERNEL void xs_work_cooperative(u64 rounds, u64 *beats, u64 beaters, u64 *sums, u64 *memory)
{
    Beat beat = beat_of(beats, beaters);
    const u32 blocks = __builtin_amdgcn_grid_size_x() / THREADS;
    u64 *meeting = memory + (u64)blocks * THREADS * WORDS;
    u64 *own = memory + (u64)block() * THREADS + thread();
    u64 *next = memory + (u64)((block() + 1) % blocks) * THREADS + thread();
    u64 state = seed();
    for (u64 round = 0; round < rounds; round++) {
        __hip_atomic_store(own, state, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        if (!all_meet(meeting))
            return;
        state = mix(state ^ __hip_atomic_load(next, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT));
        if (!all_meet(meeting))
            return;
        got_on(&beat);
    }
    add_up(state, sums);
}
