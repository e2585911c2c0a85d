// A library in the place of HIP's runtime: a few functions with simple answers, and its versions.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int hipError_t;

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_FOUND = 500 };

#ifndef VERSION
#define VERSION 70253211
#endif

typedef struct {
  unsigned x, y, z;
} dim3;

// Through the PLT, as all calls below of functions that are exported here: the library is linked
// without -Bsymbolic, so they go to whatever has that name first, which is the interposer.
hipError_t hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, void *stream,
                                 void **parameters, void **extra);

static int registered;

void **__hipRegisterFatBinary(const void *code) {
  static void *modules;
  modules = (void *)code;
  registered++;
  return &modules;
}

void __hipUnregisterFatBinary(void **modules) { registered -= modules != NULL; }

hipError_t hipRuntimeGetVersion(int *version) {
  if (!version) return INVALID_VALUE;
  *version = VERSION;
  return SUCCESS;
}

hipError_t hipGetDeviceCount(int *count) {
  *count = registered;
  return SUCCESS;
}

const char *hipGetErrorName(hipError_t code) { return code ? "an error" : "hipSuccess"; }

hipError_t hipPeekAtLastError(void) { return SUCCESS; }

// Answers a number that every argument counts in.
static hipError_t sum_of(const uintptr_t *all, unsigned count) {
  uintptr_t sum = 0;
  for (unsigned i = 0; i < count; i++) sum = sum * 3 + all[i];
  return (hipError_t)(sum % 100003);
}

hipError_t hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, void *stream,
                                 void **parameters, void **extra) {
  uintptr_t all[] = {(uintptr_t)function, gx, gy, gz, bx, by, bz, shared, (uintptr_t)stream,
                     (uintptr_t)parameters, (uintptr_t)extra};
  return sum_of(all, sizeof all / sizeof *all);
}

// Structures by value: two registers each, and the rest on the stack.
hipError_t hipLaunchKernel(const void *function, dim3 grid, dim3 block, void **parameters,
                           size_t shared, void *stream) {
  return hipModuleLaunchKernel((void *)function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                               (unsigned)shared, stream, parameters, NULL);
}

hipError_t hipExtModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                                    unsigned bx, unsigned by, unsigned bz, size_t shared,
                                    void *stream, void **parameters, void **extra, void *start,
                                    void *stop, unsigned flags) {
  uintptr_t all[] = {(uintptr_t)function,   gx, gy, gz, bx, by, bz, shared, (uintptr_t)stream,
                     (uintptr_t)parameters, (uintptr_t)extra, (uintptr_t)start, (uintptr_t)stop,
                     flags};
  return sum_of(all, sizeof all / sizeof *all);
}

// By its name in C++, as HIP 5 has it alone.
hipError_t _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(
    void *function) {
  return function == (void *)77 ? 78 : 0;
}

struct extent {
  size_t width, height, depth;
};

struct pitched {
  void *at;
  size_t pitch, width, height;
};

hipError_t hipMemset3DAsync(struct pitched to, int value, struct extent extent, void *stream) {
  uintptr_t all[] = {(uintptr_t)to.at, to.pitch, to.width, to.height, (uintptr_t)value,
                     extent.width, extent.height, extent.depth, (uintptr_t)stream};
  return sum_of(all, sizeof all / sizeof *all);
}

// A function that no list has.
hipError_t hipBrandNew(void) { return 99; }

#define OWN(name) \
  extern __typeof(name) own_##name __attribute__((alias(#name), visibility("hidden")))

hipError_t hipGetProcAddress(const char *name, void **found, int version, uint64_t flags,
                             int *status);
OWN(hipLaunchKernel);
OWN(hipBrandNew);
OWN(hipGetErrorName);
OWN(hipGetProcAddress);

hipError_t hipGetProcAddress(const char *name, void **found, int version, uint64_t flags,
                             int *status) {
  (void)version, (void)flags;
  if (!name || !found) return INVALID_VALUE;
  *found = NULL;
  if (!strcmp(name, "hipLaunchKernel")) *found = (void *)own_hipLaunchKernel;
  if (!strcmp(name, "hipBrandNew")) *found = (void *)own_hipBrandNew;
  if (!strcmp(name, "hipGetErrorName")) *found = (void *)own_hipGetErrorName;
  if (!strcmp(name, "hipGetProcAddress")) *found = (void *)own_hipGetProcAddress;
  // As a runtime does that is linked so that others can get in front.
  if (!strcmp(name, "hipModuleLaunchKernel")) *found = (void *)hipModuleLaunchKernel;
  if (status) *status = *found ? 0 : 1;
  return *found || status ? SUCCESS : NOT_FOUND;
}

hipError_t hipGetDriverEntryPoint(const char *name, void **found, uint64_t flags, int *status) {
  return own_hipGetProcAddress(name, found, 0, flags, status);
}
