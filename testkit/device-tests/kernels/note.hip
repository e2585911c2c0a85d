// The command of the conformance suite that notes what it does, as hal-cuda/kernels/spin.ptx has it
// for CUDA. No header and no device library is needed:
//
//   hipcc --genco --offload-arch=gfx942 -O3 -o note.hsaco note.hip
//   clang -x hip --cuda-device-only --offload-arch=gfx942 -O3 -nogpuinc -nogpulib
//       --no-gpu-bundle-output -mcode-object-version=5 -fuse-cuid=none -o note.hsaco note.hip
// (all in one line)

#ifndef XS_TICK_NS
#define XS_TICK_NS 10
#endif

typedef unsigned long long u64;

#define XS_DEVICE static inline __attribute__((device, always_inline))

// Time between two ticks that counts at most: more means that the command did not run.
#define TICK_MAX_NS 20000

// Nanoseconds of the clock that runs at one rate.
XS_DEVICE u64 ns_now() { return __builtin_amdgcn_s_memrealtime() * XS_TICK_NS; }

// Host memory that the host reads at the same time, and nothing else writes to.
XS_DEVICE void put(u64 *word, u64 value)
{
    __hip_atomic_store(word, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
}

XS_DEVICE u64 get(const u64 *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// The words of `Notes`.
enum { STARTS, ENDS, FIRST_START, LAST_END, PROGRESS, COUNTED };

// Runs for `ns` and notes start, progress and end in the words at `notes`, with the clock at
// `clock`. For one work-item.
extern "C" __attribute__((global, visibility("protected"), amdgpu_flat_work_group_size(1, 64)))
void xs_note(u64 ns, u64 *clock, u64 *notes)
{
    u64 at = get(clock);
    put(clock, at + 1);
    if (get(notes + FIRST_START) == 0)
        put(notes + FIRST_START, at);
    put(notes + STARTS, get(notes + STARTS) + 1);

    u64 left = ns, counted = 0, before = ns_now();
    while (left) {
        __hip_atomic_store(notes + PROGRESS, ++counted, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
        const u64 now = ns_now(), past = now - before;
        const u64 ran = past < TICK_MAX_NS ? past : TICK_MAX_NS;
        left = left > ran ? left - ran : 0;
        before = now;
    }

    put(notes + COUNTED, counted);
    at = get(clock);
    put(clock, at + 1);
    put(notes + LAST_END, at);
    put(notes + ENDS, get(notes + ENDS) + 1);
}
