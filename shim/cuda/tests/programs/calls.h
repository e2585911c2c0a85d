// What the programs share that launch through CUDA's driver: its functions, and checks of what they
// did. A program has a list of modes, and its first argument names one.

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(truth) \
  if (!(truth)) printf("FAILED in line %d: %s\n", __LINE__, #truth)
#define OK(call) CHECK((call) == 0)

typedef void *handle;
typedef uint64_t pointer;

// `CUDA_KERNEL_NODE_PARAMS_v2`.
typedef struct {
  handle function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
  handle kernel, context;
} kernel_node;

enum { WORDS = 256 };

static const char *const CODE =
    ".version 7.0\n.target sm_70\n.visible .entry fill\n.visible .entry vector_add\n";

static int (*launch_kernel)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, handle, void **, void **);
static int (*stream_create)(handle *, unsigned), (*stream_destroy)(handle);
static int (*stream_synchronize)(handle), (*synchronize)(void);
static int (*alloc)(pointer *, size_t), (*release)(pointer);
static int (*to_host)(void *, pointer, size_t), (*to_device)(pointer, const void *, size_t);
static handle fill, primary;

static inline void *find(const char *name) {
  static void *library;
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) printf("FAILED: no %s\n", name), exit(1);
  return found;
}

// Makes the primary context current and loads the kernels, for the first time or again. Answers the
// context.
static inline handle begin(void) {
  handle context, module;
  OK(((int (*)(handle *, int))find("cuDevicePrimaryCtxRetain"))(&context, 0));
  OK(((int (*)(handle))find("cuCtxSetCurrent"))(context));
  OK(((int (*)(handle *, const void *))find("cuModuleLoadData"))(&module, CODE));
  OK(((int (*)(handle *, handle, const char *))find("cuModuleGetFunction"))(&fill, module, "fill"));
  return context;
}

static inline int fill_with(handle stream, pointer to, unsigned value) {
  unsigned words = WORDS;
  void *parameters[] = {&to, &value, &words};
  return launch_kernel(fill, 1, 1, 1, WORDS, 1, 1, 0, stream, parameters, NULL);
}

static inline pointer words(void) {
  pointer at = 0;
  OK(alloc(&at, WORDS * 4));
  return at;
}

static inline int all_are(pointer at, unsigned value) {
  unsigned read[WORDS];
  OK(to_host(read, at, sizeof read));
  for (int i = 0; i < WORDS; i++)
    if (read[i] != value) return 0;
  return 1;
}

static inline size_t allocated(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// How often the driver itself was called by this name.
static inline uint64_t calls_of(const char *name) {
  static uint64_t (*calls)(const char *);
  if (!calls) {
    void *driver = dlopen(getenv("XSCHED_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    calls = driver ? (uint64_t(*)(const char *))dlsym(driver, "cuEmulatedCalls") : NULL;
    if (!calls) printf("FAILED: no calls\n"), exit(1);
  }
  return calls(name);
}

// The XQueue of a stream, and the library.
static inline uint64_t queue_of(handle stream, void **library) {
  *library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_NOLOAD);
  CHECK(*library != NULL);
  uint64_t hwq = 0, xq = 0;
  OK(((int (*)(uint64_t *, handle))dlsym(*library, "xsched_private_stream_queue_get"))(&hwq, stream));
  OK(((int (*)(uint64_t *, uint64_t))dlsym(*library, "XQueueGet"))(&xq, hwq));
  return xq;
}

typedef struct {
  const char *name;
  void (*run)(void);
} mode;

// Runs the mode that the first argument names, and says its name.
static inline int run_mode(const mode *modes, unsigned many, int count, char **words) {
  launch_kernel = find("cuLaunchKernel");
  stream_create = find("cuStreamCreate");
  stream_destroy = find("cuStreamDestroy_v2");
  stream_synchronize = find("cuStreamSynchronize");
  synchronize = find("cuCtxSynchronize");
  alloc = find("cuMemAlloc_v2");
  release = find("cuMemFree_v2");
  to_host = find("cuMemcpyDtoH_v2");
  to_device = find("cuMemcpyHtoD_v2");
  OK(((int (*)(unsigned))find("cuInit"))(0));
  primary = begin();
  for (unsigned n = 0; n < many; n++)
    if (count > 1 && !strcmp(words[1], modes[n].name)) {
      modes[n].run();
      printf("%s\n", words[1]);
    }
  return 0;
}
