// A library in the place of CUDA's driver: a few functions with simple answers.

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int CUresult;

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_FOUND = 500 };

// Through the PLT, as all calls below of functions that are exported here: the library is linked
// without -Bsymbolic, so they go to whatever has that name first, which is the interposer.
CUresult cuDriverGetVersion(int *version);
CUresult cuStreamSynchronize(void *stream);

static int version_at_load, initialised;

// A driver that calls its own function while it is being loaded.
__attribute__((constructor)) static void load(void) { cuDriverGetVersion(&version_at_load); }

CUresult cuInit(unsigned flags) {
  __atomic_add_fetch(&initialised, 1, __ATOMIC_RELAXED);
  return version_at_load == 13000 ? (CUresult)flags : NOT_FOUND;
}

CUresult cuDriverGetVersion(int *version) {
  if (!version) return INVALID_VALUE;
  *version = 13000;
  return SUCCESS;
}

// How often cuInit was called.
CUresult cuDeviceGetCount(int *count) {
  *count = __atomic_load_n(&initialised, __ATOMIC_RELAXED);
  return SUCCESS;
}

static int waits;

CUresult cuStreamSynchronize(void *stream) {
  (void)stream;
  return ++waits;
}

CUresult cuCtxSynchronize(void) { return cuStreamSynchronize(NULL); }

// Answers a number that every argument counts in.
CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters,
                        void **extra) {
  uintptr_t all[] = {(uintptr_t)function, gx, gy, gz, bx, by, bz, shared, (uintptr_t)stream,
                     (uintptr_t)parameters, (uintptr_t)extra};
  uintptr_t sum = 0;
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) sum = sum * 3 + all[i];
  return (CUresult)(sum % 100003);
}

CUresult cuLaunchKernel_ptsz(void *function) {
  (void)function;
  return 7;
}

// Two versions of a function, at addresses of their own.
CUresult cuMemcpyHtoDAsync(unsigned to, const void *from, unsigned bytes, void *stream) {
  (void)from, (void)stream;
  return (CUresult)(to + bytes);
}

CUresult cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  (void)from, (void)stream;
  return (CUresult)((to >> 32) + (bytes >> 32));
}

// By-value structures: eight bytes in a register, and 64 on the stack.
struct location {
  int kind, id;
};

CUresult cuMemPrefetchAsync_v2(uint64_t at, size_t bytes, struct location to, unsigned flags,
                               void *stream) {
  (void)at, (void)bytes, (void)stream;
  return to.kind * 100 + to.id * 10 + (int)flags;
}

struct frame {
  char bytes[64];
};

CUresult cuEGLStreamProducerPresentFrame(void *connection, struct frame frame, void **stream) {
  (void)connection, (void)stream;
  return frame.bytes[0] * 100 + frame.bytes[63];
}

// A function without a hook, with all registers and the stack full of arguments.
CUresult cuTensorMapEncodeTiled(long a, long b, long c, long d, long e, long f, double p, double q,
                                double r, double s, double t, double u, double v, double w, long g,
                                long h, double x) {
  long whole = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
  double real = p + 2 * q + 3 * r + 4 * s + 5 * t + 6 * u + 7 * v + 8 * w + 9 * x;
  return (CUresult)(whole * 1000 + (long)(real * 2));
}

// One with a variable number of arguments, which says in a register how many are floating-point.
CUresult cuParamSetv(int count, ...) {
  va_list list;
  va_start(list, count);
  double sum = 0;
  while (count-- > 0) sum += va_arg(list, double);
  va_end(list);
  return (CUresult)sum;
}

// A function that no list has.
CUresult cuBrandNew(void) { return 99; }

// The functions' own addresses, which nothing can get in front of: what the driver hands out.
#define OWN(name) \
  extern __typeof(name) own_##name __attribute__((alias(#name), visibility("hidden")))

CUresult cuGetProcAddress(const char *name, void **found, int version, uint64_t flags);
CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags,
                             int *status);

OWN(cuLaunchKernel);
OWN(cuLaunchKernel_ptsz);
OWN(cuMemcpyHtoDAsync);
OWN(cuMemcpyHtoDAsync_v2);
OWN(cuCtxSynchronize);
OWN(cuDeviceGetCount);
OWN(cuBrandNew);
OWN(cuGetProcAddress);
OWN(cuGetProcAddress_v2);

static void *by_name(const char *name, int version, uint64_t flags) {
  if (!strcmp(name, "cuLaunchKernel"))
    return flags & 2 ? (void *)own_cuLaunchKernel_ptsz : (void *)own_cuLaunchKernel;
  if (!strcmp(name, "cuMemcpyHtoDAsync"))
    return version < 3020 ? (void *)own_cuMemcpyHtoDAsync : (void *)own_cuMemcpyHtoDAsync_v2;
  if (!strcmp(name, "cuCtxSynchronize")) return (void *)own_cuCtxSynchronize;
  if (!strcmp(name, "cuDeviceGetCount")) return (void *)own_cuDeviceGetCount;
  // As a driver does that is linked so that others can get in front.
  if (!strcmp(name, "cuStreamSynchronize")) return (void *)cuStreamSynchronize;
  if (!strcmp(name, "cuBrandNew")) return (void *)own_cuBrandNew;
  return NULL;
}

CUresult cuGetProcAddress(const char *name, void **found, int version, uint64_t flags) {
  if (!name || !found) return INVALID_VALUE;
  if (!strcmp(name, "cuGetProcAddress"))
    *found = version < 12000 ? (void *)own_cuGetProcAddress
                             : (void *)own_cuGetProcAddress_v2;
  else
    *found = by_name(name, version, flags);
  return *found ? SUCCESS : NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags,
                             int *status) {
  CUresult code = own_cuGetProcAddress(name, found, version, flags);
  if (status) *status = code == SUCCESS ? 0 : 1;
  return code == NOT_FOUND && status ? SUCCESS : code;
}
