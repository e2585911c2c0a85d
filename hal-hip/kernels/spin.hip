// Kernels for benches on AMD GPUs: the same as in hal-cuda/kernels/spin.ptx, as far as benches need
// them. Nothing here is meant for production use. No header and no device library is needed:
//
//   hipcc --genco --offload-arch=gfx942 -O3 -o spin.hsaco spin.hip
//   clang -x hip --cuda-device-only --offload-arch=gfx942 -O3 -nogpuinc -nogpulib
//       --no-gpu-bundle-output -mcode-object-version=5 -fuse-cuid=none -o spin.hsaco spin.hip
// (all in one line)
//
// Times are written down in nanoseconds, by the clock that runs at one rate whatever the compute
// units do. It ticks at 100 MHz on all of gfx90a, gfx940, gfx941 and gfx942; elsewhere, say what a
// tick is with -DXS_TICK_NS=.... `xsched-lab bench` compares it with the host's clock and refuses to
// go on if that is wrong.

#ifndef XS_TICK_NS
#define XS_TICK_NS 10
#endif

typedef unsigned long long u64;

#define XS_KERNEL \
    extern "C" __attribute__((global, visibility("protected"), amdgpu_flat_work_group_size(1, 1024)))
#define XS_DEVICE static inline __attribute__((device, always_inline))

// Cycles of the compute unit's clock.
XS_DEVICE u64 cycles_now() { return __builtin_amdgcn_s_memtime(); }

// Nanoseconds of the device's clock.
XS_DEVICE u64 ns_now() { return __builtin_amdgcn_s_memrealtime() * XS_TICK_NS; }

// Host memory, which the other side reads and writes at the same time.
XS_DEVICE void put(u64 *word, u64 value)
{
    __hip_atomic_store(word, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

XS_DEVICE u64 get(const u64 *word)
{
    return __hip_atomic_load(word, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}

// Ends at once.
XS_KERNEL void xs_nothing() {}

// Every work-item spins for `cycles` of its compute unit's clock. If `stamps` is not null, the first
// one of the first block writes the device's clock there when it starts and, 8 bytes on, when it
// ends.
XS_KERNEL void xs_spin(u64 cycles, u64 *stamps)
{
    const u64 start = cycles_now();
    const bool writes = stamps && __builtin_amdgcn_workitem_id_x() == 0
        && __builtin_amdgcn_workgroup_id_x() == 0;
    if (writes)
        put(stamps, ns_now());
    while (cycles_now() - start < cycles) {
    }
    if (writes)
        put(stamps + 1, ns_now());
}

// Reads the device's clock whenever the host asks, `rounds` times: when the first word at `words`
// reaches n, from 1, it writes the clock 56 + 8 n bytes on. Gives up after a second. For one
// work-item.
XS_KERNEL void xs_clock(u64 *words, u64 rounds)
{
    const u64 start = ns_now();
    for (u64 n = 1; n <= rounds; n++) {
        while (get(words) < n) {
            if (ns_now() - start > 1000000000)
                return;
        }
        put(words + 7 + n, ns_now());
    }
}
