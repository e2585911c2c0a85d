// `fill` of the emulated runtime, for gfx942. Needs no header and no device library; compiled as
// hal-hip/kernels/spin.hip is.

extern "C" __attribute__((global, visibility("protected"), amdgpu_flat_work_group_size(1, 1024)))
void fill(unsigned *to, unsigned value, unsigned count)
{
    for (unsigned n = __builtin_amdgcn_workitem_id_x(); n < count; n += __builtin_amdgcn_workgroup_size_x())
        to[n] = value;
}
