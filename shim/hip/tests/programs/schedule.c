// A program that launches through HIP's runtime, in the ways that its first argument names, and
// checks the results. It prints a line that begins with FAILED for what is wrong.
//
// With LINKED defined it is linked with the runtime, else it opens it.

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(truth) \
  if (!(truth)) printf("FAILED in line %d: %s\n", __LINE__, #truth)
#define OK(call) CHECK((call) == 0)

typedef void *handle;
typedef uint32_t *pointer;
typedef struct {
  unsigned x, y, z;
} dim3;

enum { WORDS = 256, TO_HOST = 2, TO_DEVICE = 1 };

static int (*launch_kernel)(const void *, dim3, dim3, void **, size_t, handle);
static int (*stream_create)(handle *, unsigned), (*stream_destroy)(handle);
static int (*stream_synchronize)(handle), (*synchronize)(void);
static int (*alloc)(pointer *, size_t), (*release)(pointer);
static int (*copy)(void *, const void *, size_t, unsigned);
static int (*copy_async)(void *, const void *, size_t, unsigned, handle);

static void *find(const char *name) {
  static void *library;
  const char *soname = getenv("SONAME") ? getenv("SONAME") : "libamdhip64.so.7";
  if (!library) library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) printf("FAILED: no %s\n", name), exit(1);
  return found;
}

// What a module is made of: the file that KERNELS names, or what the emulated runtime takes.
static const void *image(void) {
  _Alignas(4096) static char read[1 << 16] = "xsched emulated kernels";
  const char *path = getenv("KERNELS");
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (path && (!file || !fread(read, 1, sizeof read - 1, file)))
    printf("FAILED: no %s\n", path), exit(1);
  if (file) fclose(file);
  return read;
}

// What a compiler puts in the place of a kernel: `fill`, of the emulated runtime or of fill.hip.
static void fill(pointer to, unsigned value, unsigned count) { (void)to, (void)value, (void)count; }

#ifdef LINKED
void **__hipRegisterFatBinary(const void *);
void __hipRegisterFunction(void **, const void *, const char *, const char *, unsigned, void *,
                          void *, void *, void *, void *);
#endif

// As compilers do, before main.
__attribute__((constructor)) static void load(void) {
#ifndef LINKED
  void **(*__hipRegisterFatBinary)(const void *) = find("__hipRegisterFatBinary");
  void (*__hipRegisterFunction)(void **, const void *, const char *, const char *, unsigned, void *,
                               void *, void *, void *, void *) = find("__hipRegisterFunction");
#endif
  static struct {
    unsigned magic, version;
    const void *image, *none;
  } code = {0x48495046, 1, NULL, NULL};
  code.image = image();
  void **modules = __hipRegisterFatBinary(&code);
  __hipRegisterFunction(modules, (const void *)fill, "fill", "fill", 0, NULL, NULL, NULL, NULL, NULL);
}

static const dim3 ONE = {1, 1, 1}, BLOCK = {WORDS, 1, 1};

static int fill_with(handle stream, pointer to, unsigned value) {
  unsigned words = WORDS;
  void *parameters[] = {&to, &value, &words};
  return launch_kernel((const void *)fill, ONE, BLOCK, parameters, 0, stream);
}

static pointer words(void) {
  pointer at = NULL;
  OK(alloc(&at, WORDS * 4));
  return at;
}

static int read_are(const unsigned *read, unsigned value) {
  for (int i = 0; i < WORDS; i++)
    if (read[i] != value) return 0;
  return 1;
}

static int all_are(pointer at, unsigned value) {
  unsigned read[WORDS];
  OK(copy(read, at, sizeof read, TO_HOST));
  return read_are(read, value);
}

static int version(void) {
  int version = 0;
  OK(((int (*)(int *))find("hipRuntimeGetVersion"))(&version));
  return version;
}

static void streams(void) {
  // HIP 5 takes hipStreamLegacy for a stream's address.
  handle own[4] = {NULL, (handle)(uintptr_t)(version() >= 60000000)};
  OK(stream_create(&own[2], 0));
  OK(stream_create(&own[3], 1));
  pointer at[4];
  for (int s = 0; s < 4; s++) at[s] = words();
  for (unsigned n = 1; n <= 50; n++)
    for (int s = 0; s < 4; s++) OK(fill_with(own[s], at[s], n * 10 + s));
  for (int s = 0; s < 4; s++) OK(stream_synchronize(own[s]));
  for (int s = 0; s < 4; s++) CHECK(all_are(at[s], 500 + s));
  OK(stream_destroy(own[2]));
  OK(stream_destroy(own[3]));
}

static void captured(void) {
  handle stream, other, graph, executable;
  OK(stream_create(&stream, 1));
  OK(stream_create(&other, 1));
  pointer at = words(), beside = words();
  OK(((int (*)(handle, int))find("hipStreamBeginCapture"))(stream, 0));
  OK(fill_with(stream, at, 7));
  OK(fill_with(stream, at, 8));
  OK(fill_with(other, beside, 9));
  OK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(stream, &graph));
  OK(((int (*)(handle *, handle, handle, char *, size_t))find("hipGraphInstantiate"))(
      &executable, graph, NULL, NULL, 0));
  CHECK(!all_are(at, 8));
  int (*launch)(handle, handle) = find("hipGraphLaunch");
  for (int n = 0; n < 3; n++) OK(launch(executable, stream));
  OK(stream_synchronize(stream));
  OK(stream_synchronize(other));
  CHECK(all_are(at, 8) && all_are(beside, 9));
}

// Captures while another thread launches into a queue of its own, whose events are looked at all
// the time.
static handle beside_stream;
static pointer beside_words;

static void *fills_beside(void *nothing) {
  for (unsigned n = 1; n <= 3000; n++) OK(fill_with(beside_stream, beside_words, n));
  return nothing;
}

static void beside(void) {
  pthread_t thread;
  handle stream;
  OK(stream_create(&stream, 1));
  OK(stream_create(&beside_stream, 1));
  pointer at = words();
  beside_words = words();
  OK(fill_with(stream, at, 1));
  OK(fill_with(beside_stream, beside_words, 0));
  OK(synchronize());
  CHECK(pthread_create(&thread, NULL, fills_beside, NULL) == 0);
  for (unsigned n = 0; n < 200; n++) {
    handle graph = NULL;
    OK(((int (*)(handle, int))find("hipStreamBeginCapture"))(stream, 0));
    OK(fill_with(stream, at, 2));
    OK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(stream, &graph));
    CHECK(graph != NULL);
    if (graph) OK(((int (*)(handle))find("hipGraphDestroy"))(graph));
  }
  CHECK(pthread_join(thread, NULL) == 0);
  OK(synchronize());
  CHECK(all_are(at, 1) && all_are(beside_words, 3000));
}

// Captures a stream, and another that joins it and is joined, where each has had work before.
static void joined(void) {
  int (*record)(handle, handle) = find("hipEventRecord");
  int (*await)(handle, handle, unsigned) = find("hipStreamWaitEvent");
  handle streams[2], events[2], graph;
  pointer at[2] = {words(), words()};
  for (int s = 0; s < 2; s++) {
    OK(stream_create(&streams[s], 1));
    OK(((int (*)(handle *, unsigned))find("hipEventCreateWithFlags"))(&events[s], 2));
    OK(fill_with(streams[s], at[s], 1));
  }
  for (int n = 0; n < 20; n++) {
    OK(((int (*)(handle, int))find("hipStreamBeginCapture"))(streams[0], 0));
    OK(fill_with(streams[0], at[0], 2));
    OK(record(events[0], streams[0]));
    OK(await(streams[1], events[0], 0));
    OK(fill_with(streams[1], at[1], 2));
    OK(record(events[1], streams[1]));
    OK(await(streams[0], events[1], 0));
    graph = NULL;
    OK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(streams[0], &graph));
    CHECK(graph != NULL);
    if (graph) OK(((int (*)(handle))find("hipGraphDestroy"))(graph));
    for (int s = 0; s < 2; s++) OK(fill_with(streams[s], at[s], 3));
  }
  for (int s = 0; s < 2; s++) OK(stream_synchronize(streams[s]));
  CHECK(all_are(at[0], 3) && all_are(at[1], 3));
}

// Captures blocking streams, right behind launches into the legacy default stream, which nothing
// may use meanwhile.
static void blocking(void) {
  handle stream;
  OK(stream_create(&stream, 0));
  pointer at = words(), of_default = words();
  for (unsigned n = 0; n < 100; n++) {
    handle graph = NULL;
    for (int m = 0; m < 20; m++) OK(fill_with(NULL, of_default, n));
    OK(((int (*)(handle, int))find("hipStreamBeginCapture"))(stream, 0));
    OK(fill_with(stream, at, n));
    usleep(200);
    OK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(stream, &graph));
    CHECK(graph != NULL);
    if (graph) OK(((int (*)(handle))find("hipGraphDestroy"))(graph));
  }
  CHECK(all_are(of_default, 99));
}

static void short_lived(void) {
  pointer at = words();
  for (unsigned n = 1; n <= 200; n++) {
    handle stream;
    OK(stream_create(&stream, n % 2));
    OK(fill_with(stream, at, n));
    if (n % 3 == 0) OK(stream_synchronize(stream));
    OK(stream_destroy(stream));
    CHECK(all_are(at, n));
  }
}

static void reset(void) {
  for (unsigned n = 1; n <= 3; n++) {
    handle stream;
    OK(stream_create(&stream, 1));
    pointer at = words();
    OK(fill_with(stream, at, n));
    OK(fill_with(NULL, at, n));
    OK(synchronize());
    CHECK(all_are(at, n));
    OK(((int (*)(void))find("hipDeviceReset"))());
  }
}

static unsigned count_threads(void) {
  unsigned count = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (tasks && readdir(tasks)) count++;
  if (tasks) closedir(tasks);
  return count;
}

// A device that is reset again and again leaves no thread behind each time.
static void resets(void) {
  unsigned before = 0;
  for (unsigned n = 0; n < 60; n++) {
    if (n == 20) before = count_threads();
    handle stream;
    OK(stream_create(&stream, 1));
    pointer at = words();
    OK(fill_with(stream, at, n));
    OK(stream_synchronize(stream));
    CHECK(all_are(at, n));
    OK(((int (*)(void))find("hipDeviceReset"))());
  }
  unsigned now = count_threads();
  if (now > before + 5) printf("FAILED: %u threads became %u\n", before, now);
}

static void *fills(void *count) {
  handle stream;
  OK(stream_create(&stream, 1));
  pointer at = words();
  for (unsigned n = 1; n <= *(unsigned *)count; n++) OK(fill_with(stream, at, n));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, *(unsigned *)count));
  OK(stream_destroy(stream));
  return NULL;
}

static void threads(void) {
  unsigned count = 200;
  pthread_t threads[8];
  for (int t = 0; t < 8; t++) CHECK(pthread_create(&threads[t], NULL, fills, &count) == 0);
  for (int t = 0; t < 8; t++) CHECK(pthread_join(threads[t], NULL) == 0);
}

static volatile int called;

static void call(void *data) { called += *(int *)data; }

static void call_back(handle stream, int code, void *data) {
  called += stream && !code ? *(int *)data : 0;
}

static void copies(void) {
  unsigned here[WORDS];
  int one = 1;
  handle stream;
  for (int i = 0; i < WORDS; i++) here[i] = 77;
  pointer at = words(), to = words(), ordered = NULL;
  OK(stream_create(&stream, 1));
  OK(copy(at, here, sizeof here, TO_DEVICE));
  OK(copy_async(to, at, sizeof here, 3, stream));
  OK(stream_synchronize(stream));
  CHECK(all_are(to, 77));
  OK(((int (*)(void *, int, size_t, handle))find("hipMemsetD32Async"))(to, 5, WORDS, stream));
  OK(((int (*)(void *, const void *, size_t, unsigned, handle))find("hipMemcpyWithStream"))(
      here, to, sizeof here, TO_HOST, stream));
  CHECK(read_are(here, 5));
  OK(((int (*)(void *, int, size_t))find("hipMemset"))(to, 1, sizeof here));
  CHECK(all_are(to, 0x01010101));
  OK(((int (*)(pointer *, size_t, handle))find("hipMallocAsync"))(&ordered, sizeof here, stream));
  OK(((int (*)(void *, int, size_t, handle))find("hipMemsetAsync"))(ordered, 2, sizeof here, stream));
  OK(copy_async(here, ordered, sizeof here, TO_HOST, stream));
  OK(((int (*)(void *, handle))find("hipFreeAsync"))(ordered, stream));
  OK(((int (*)(handle, void (*)(void *), void *))find("hipLaunchHostFunc"))(stream, call, &one));
  OK(((int (*)(handle, void (*)(handle, int, void *), void *, unsigned))find(
      "hipStreamAddCallback"))(stream, call_back, &one, 0));
  OK(stream_synchronize(stream));
  CHECK(read_are(here, 0x02020202) && called == 2);
  OK(release(at));
}

// The other ways to launch a kernel.
static void kernels(void) {
  handle stream, module, function, start, stop;
  unsigned value = 1, count = WORDS;
  pointer at = words();
  void *parameters[] = {&at, &value, &count};
  OK(stream_create(&stream, 1));
  OK(((int (*)(handle *, const void *))find("hipModuleLoadData"))(&module, image()));
  OK(((int (*)(handle *, handle, const char *))find("hipModuleGetFunction"))(&function, module,
                                                                           "fill"));
  OK(((int (*)(handle *))find("hipEventCreate"))(&start));
  OK(((int (*)(handle *))find("hipEventCreate"))(&stop));
  OK(((int (*)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,
               void **, void **))find("hipModuleLaunchKernel"))(
      function, 1, 1, 1, WORDS, 1, 1, 0, stream, parameters, NULL));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 1));
  value = 2;
  OK(((int (*)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t, handle,
               void **, void **, handle, handle, unsigned))find("hipExtModuleLaunchKernel"))(
      function, WORDS, 1, 1, WORDS, 1, 1, 0, stream, parameters, NULL, start, stop, 0));
  OK(((int (*)(handle))find("hipEventSynchronize"))(stop));
  CHECK(all_are(at, 2));
  value = 3;
  OK(((int (*)(const void *, dim3, dim3, void **, size_t, handle, handle, handle, int))find(
      "hipExtLaunchKernel"))((const void *)fill, ONE, BLOCK, parameters, 0, stream, NULL, stop, 0));
  OK(((int (*)(handle))find("hipEventSynchronize"))(stop));
  CHECK(all_are(at, 3));
  value = 4;
  OK(((int (*)(const void *, dim3, dim3, void **, unsigned, handle))find(
      "hipLaunchCooperativeKernel"))((const void *)fill, ONE, BLOCK, parameters, 0, stream));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 4));
  struct {
    dim3 grid, block;
    size_t shared;
    handle stream;
    void *attributes;
    unsigned count;
  } config = {ONE, BLOCK, 0, stream, NULL, 0};
  value = 5;
  OK(((int (*)(const void *, const void *, void **))find("hipLaunchKernelExC"))(
      &config, (const void *)fill, parameters));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 5));
  value = 6;
  OK(((int (*)(const void *, handle, void **, void **))find("hipDrvLaunchKernelEx"))(
      &config, function, parameters, NULL));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 6));
  // What a compiler makes of fill<<<ONE, BLOCK, 0, stream>>>(…).
  dim3 grid, block;
  size_t shared;
  handle pushed;
  value = 7;
  OK(((int (*)(dim3, dim3, size_t, handle))find("__hipPushCallConfiguration"))(ONE, BLOCK, 0,
                                                                               stream));
  OK(((int (*)(dim3 *, dim3 *, size_t *, handle *))find("__hipPopCallConfiguration"))(
      &grid, &block, &shared, &pushed));
  CHECK(pushed == stream);
  OK(launch_kernel((const void *)fill, grid, block, parameters, shared, pushed));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 7));
  // By an address that the runtime hands out.
  void *found = NULL;
  int status = -1;
  value = 8;
  OK(((int (*)(const char *, void **, int, uint64_t, int *))find("hipGetProcAddress"))(
      "hipLaunchKernel", &found, 60400000, 0, &status));
  CHECK(found == (void *)launch_kernel && status == 0);
  OK(((int (*)(const void *, dim3, dim3, void **, size_t, handle))found)(
      (const void *)fill, ONE, BLOCK, parameters, 0, stream));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 8));
}

// The default streams of two devices, and streams of both, used from the other one.
static void devices(void) {
  int (*set_device)(int) = find("hipSetDevice");
  handle own[2];
  pointer at[2], by_default[2];
  for (int d = 0; d < 2; d++) {
    OK(set_device(d));
    OK(stream_create(&own[d], 1));
    at[d] = words(), by_default[d] = words();
  }
  for (unsigned n = 1; n <= 20; n++)
    for (int d = 0; d < 2; d++) {
      OK(set_device(d));
      OK(fill_with(NULL, by_default[d], n));
      OK(fill_with(own[1 - d], at[1 - d], n));
    }
  for (int d = 0; d < 2; d++) {
    OK(set_device(d));
    OK(synchronize());
    CHECK(all_are(at[d], 20) && all_are(by_default[d], 20));
  }
  // The first one keeps its queues.
  OK(((int (*)(void))find("hipDeviceReset"))());
  OK(set_device(0));
  OK(fill_with(own[0], at[0], 21));
  OK(fill_with(NULL, by_default[0], 22));
  OK(synchronize());
  CHECK(all_are(at[0], 21) && all_are(by_default[0], 22));
}

// The default stream of a thread.
static void of_thread(void) {
  pointer at = words();
  unsigned value = 3, count = WORDS;
  void *parameters[] = {&at, &value, &count};
  int (*launch)(const void *, dim3, dim3, void **, size_t, handle) = find("hipLaunchKernel_spt");
  OK(launch((const void *)fill, ONE, BLOCK, parameters, 0, NULL));
  OK(((int (*)(handle))find("hipStreamSynchronize_spt"))(NULL));
  CHECK(all_are(at, 3));
  OK(fill_with((handle)2, at, 4));
  OK(stream_synchronize((handle)2));
  CHECK(all_are(at, 4));
}

// The XQueue of a stream, and the library.
static uint64_t queue_of(handle stream, void **library) {
  *library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_NOLOAD);
  CHECK(*library != NULL);
  uint64_t hwq = 0, xq = 0;
  OK(((int (*)(uint64_t *, handle))dlsym(*library, "xsched_private_stream_queue_get"))(&hwq, stream));
  OK(((int (*)(uint64_t *, uint64_t))dlsym(*library, "XQueueGet"))(&xq, hwq));
  return xq;
}

// What suspends, and what is held.
static handle held_stream;
static pointer held_words;
static volatile int was_launched;

static void *launches(void *nothing) {
  OK(fill_with(held_stream, held_words, 2));
  was_launched = 1;
  return nothing;
}

static void hold(void *library, uint64_t xq) {
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueSuspend"))(xq, 0));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, launches, NULL) == 0);
  usleep(100 * 1000);
  CHECK(!was_launched);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueResume"))(xq, 0));
  CHECK(pthread_join(thread, NULL) == 0);
  OK(stream_synchronize(held_stream));
  CHECK(was_launched && all_are(held_words, 2));
}

static void held(void) {
  OK(stream_create(&held_stream, 1));
  held_words = words();
  for (int n = 0; n < 50; n++) OK(fill_with(held_stream, held_words, 1));
  void *library;
  uint64_t xq = queue_of(held_stream, &library);
  hold(library, xq);
}

static int is_done(handle stream) {
  int (*query)(handle) = find("hipStreamQuery");
  for (int ms = 0; ms < 10000 && query(stream); ms++) usleep(1000);
  return query(stream) == 0;
}

enum { LONG = 1 << 14 };

// Twenty kernels of one thread, which fill so many words each.
static void launch_long(handle stream, pointer to) {
  unsigned value = 3, count = LONG;
  void *parameters[] = {&to, &value, &count};
  for (int n = 0; n < 20; n++)
    OK(launch_kernel((const void *)fill, ONE, ONE, parameters, 0, stream));
}

// A graph with branches, which run in hardware queues of other streams, beside a stream that is held
// at a gate, and then behind that gate.
static void branches(void) {
  enum { STREAMS = 4 };
  int (*record)(handle, handle) = find("hipEventRecord");
  int (*wait)(handle, handle, unsigned) = find("hipStreamWaitEvent");
  int (*run)(handle, handle) = find("hipGraphLaunch");
  handle s[STREAMS], events[STREAMS], graph = NULL, fork = NULL;
  pointer at[STREAMS], long_words = NULL;
  for (int n = 0; n < STREAMS; n++) {
    OK(stream_create(&s[n], 1));
    OK(((int (*)(handle *))find("hipEventCreate"))(&events[n]));
    at[n] = words();
    OK(fill_with(s[n], at[n], 1));
    OK(stream_synchronize(s[n]));
  }
  OK(alloc(&long_words, LONG * 4));
  OK(((int (*)(handle, int))find("hipStreamBeginCapture"))(s[1], 2));
  OK(record(events[1], s[1]));
  for (int n = 0; n < STREAMS; n++) {
    if (n != 1) OK(wait(s[n], events[1], 0));
    for (unsigned value = 7; value < 9; value++) OK(fill_with(s[n], at[n], value));
    if (n != 1) OK(record(events[n], s[n]));
  }
  for (int n = 0; n < STREAMS; n++)
    if (n != 1) OK(wait(s[1], events[n], 0));
  OK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(s[1], &graph));
  OK(((int (*)(handle *, handle, handle, char *, size_t))find("hipGraphInstantiate"))(
      &fork, graph, NULL, NULL, 0));
  void *library;
  uint64_t xq = queue_of(s[0], &library);
  for (int turn = 0; turn < 2; turn++) {
    launch_long(s[0], long_words);
    if (turn) OK(run(fork, s[0]));
    OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueSuspend"))(xq, 0));
    usleep(20 * 1000);
    if (!turn) OK(run(fork, s[1]));
    for (int n = 1; turn && n < STREAMS; n++) OK(fill_with(s[n], at[n], 9));
    for (int n = 1; n < STREAMS; n++) CHECK(is_done(s[n]));
    OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueResume"))(xq, 0));
    OK(stream_synchronize(s[0]));
    CHECK(turn || all_are(at[3], 8));
  }
  OK(((int (*)(handle))find("hipGraphExecDestroy"))(fork));
}

// A copy beside a stream that is held with copies behind its kernels: all are in the queues of the
// same copy engines, where they wait for what is in front of them in their stream.
static void copied(void) {
  enum { BYTES = 1 << 20 };
  handle s[2];
  pointer at[2], long_words = NULL;
  char *host[2];
  for (int n = 0; n < 2; n++) {
    OK(stream_create(&s[n], 1));
    OK(alloc(&at[n], BYTES));
    OK(((int (*)(void *, size_t, unsigned))find("hipHostMalloc"))(&host[n], BYTES, 0));
    memset(host[n], 5 + n, BYTES);
    OK(copy_async(at[n], host[n], BYTES, TO_DEVICE, s[n]));
    OK(fill_with(s[n], at[n], 1));
    OK(stream_synchronize(s[n]));
  }
  OK(alloc(&long_words, LONG * 4));
  void *library;
  uint64_t xq = queue_of(s[0], &library);
  for (int turn = 0; turn < 2; turn++) {
    launch_long(s[0], long_words);
    OK(turn ? copy_async(at[0], host[0], BYTES, TO_DEVICE, s[0])
            : copy_async(host[0], at[0], BYTES, TO_HOST, s[0]));
    OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueSuspend"))(xq, 0));
    usleep(20 * 1000);
    if (!turn) memset(host[1], 0, BYTES);
    OK(turn ? copy_async(at[1], host[1], BYTES, TO_DEVICE, s[1])
            : copy_async(host[1], at[1], BYTES, TO_HOST, s[1]));
    CHECK(is_done(s[1]));
    CHECK(host[1][BYTES - 1] == 6);
    OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueResume"))(xq, 0));
    OK(stream_synchronize(s[0]));
  }
}

static volatile int was_synchronized;

static void *synchronizes(void *nothing) {
  OK(synchronize());
  was_synchronized = 1;
  return nothing;
}

// The whole device is waited for while a queue is held.
static void synchronized(void) {
  OK(stream_create(&held_stream, 1));
  held_words = words();
  OK(fill_with(held_stream, held_words, 1));
  void *library;
  uint64_t xq = queue_of(held_stream, &library);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueSuspend"))(xq, 0));
  pthread_t threads[2];
  CHECK(pthread_create(&threads[0], NULL, launches, NULL) == 0);
  usleep(20 * 1000);
  CHECK(pthread_create(&threads[1], NULL, synchronizes, NULL) == 0);
  usleep(100 * 1000);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueResume"))(xq, 0));
  for (int t = 0; t < 2; t++) CHECK(pthread_join(threads[t], NULL) == 0);
  OK(stream_synchronize(held_stream));
  CHECK(was_launched && was_synchronized && all_are(held_words, 2));
}

// Streams with masks of compute units, which are destroyed when they are idle.
static void masks(void) {
  int (*create)(handle *, uint32_t, const uint32_t *) = find("hipExtStreamCreateWithCUMask");
  handle streams[8];
  pointer at[8];
  for (int s = 0; s < 8; s++) {
    OK(create(&streams[s], 1, &(uint32_t){1}));
    at[s] = words();
  }
  for (unsigned n = 1; n <= 20; n++)
    for (int s = 0; s < 8; s++) OK(fill_with(streams[s], at[s], n));
  for (int s = 0; s < 8; s++) {
    OK(stream_synchronize(streams[s]));
    CHECK(all_are(at[s], 20));
    OK(stream_destroy(streams[s]));
  }
}

// Processes that use the device at once, made before any of them does.
static void children(void) {
  pid_t pids[3];
  unsigned count = 50;
  for (int c = 0; c < 3; c++) {
    pids[c] = fork();
    if (!pids[c]) {
      fills(&count);
      fflush(stdout);
      _exit(0);
    }
  }
  fills(&count);
  for (int c = 0; c < 3; c++) {
    int status = -1;
    CHECK(waitpid(pids[c], &status, 0) == pids[c] && status == 0);
  }
}

// A command of the program's own, which launches what the interposer sees.
static int submitted(uint64_t hwq, void *to) {
  (void)hwq;
  return fill_with(held_stream, to, 3);
}

// The program makes the XQueue of the stream itself, before its first launch, and submits to it.
static void own_queue(void) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_GLOBAL);
  CHECK(library != NULL);
  uint64_t hwq = 0, xq = 0, command = 0;
  OK(stream_create(&held_stream, 1));
  held_words = words();
  OK(((int (*)(uint64_t *, handle))dlsym(library, "xsched_private_hip_queue_create"))(&hwq,
                                                                                    held_stream));
  OK(((int (*)(uint64_t *, uint64_t, int, int64_t))dlsym(library, "XQueueCreate"))(&xq, hwq, 1, 0));
  OK(fill_with(held_stream, held_words, 1));
  hold(library, xq);
  OK(((int (*)(uint64_t *, int (*)(uint64_t, void *), void *))dlsym(
      library, "HwCommandCreateCallback"))(&command, submitted, held_words));
  OK(((int (*)(uint64_t, uint64_t))dlsym(library, "XQueueSubmit"))(xq, command));
  OK(((int (*)(uint64_t))dlsym(library, "XQueueWaitAll"))(xq));
  CHECK(all_are(held_words, 3));
}

// How often the runtime itself was called by these names.
static uint64_t calls_of(const char *const *names) {
  static int (*calls)(const char *, uint64_t *);
  if (!calls) {
    void *runtime = dlopen(getenv("XSCHED_HIP_RUNTIME"), RTLD_NOW | RTLD_NOLOAD);
    calls = runtime ? (int (*)(const char *, uint64_t *))dlsym(runtime, "xsched_emulated_calls") : 0;
    if (!calls) printf("FAILED: no calls\n"), exit(1);
  }
  uint64_t sum = 0;
  for (; *names; names++) {
    uint64_t count = 0;
    OK(calls(*names, &count));
    sum += count;
  }
  return sum;
}

static void calls(void) {
  static const char *const NAMES[] = {
      "hipThreadExchangeStreamCaptureMode", "hipStreamIsCapturing", "hipEventRecord",
      "hipEventQuery", "hipStreamWriteValue32", "hipSetDevice", "hipPeekAtLastError", NULL};
  handle streams[2] = {NULL};
  OK(stream_create(&streams[1], 1));
  pointer at[2] = {words(), words()};
  for (int s = 0; s < 2; s++) OK(fill_with(streams[s], at[s], 1));
  for (int s = 0; s < 2; s++) OK(stream_synchronize(streams[s]));
  // What the library does beside is done by then, nearly.
  usleep(20 * 1000);
  uint64_t before = calls_of(NAMES);
  CHECK(before > 0);
  for (unsigned n = 1; n <= 1000; n++)
    for (int s = 0; s < 2; s++) OK(fill_with(streams[s], at[s], n));
  CHECK(calls_of(NAMES) < before + 100);
  OK(stream_synchronize(streams[1]));
  for (int s = 0; s < 2; s++) CHECK(all_are(at[s], 1000));
}

// Captures unscheduled.
static void unasked(void) {
  static const char *const ASKED[] = {"hipStreamIsCapturing", "hipPeekAtLastError", NULL};
  handle stream, graph = NULL;
  OK(stream_create(&stream, 1));
  OK(((int (*)(handle, int))find("hipStreamBeginCapture"))(stream, 0));
  OK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(stream, &graph));
  CHECK(graph != NULL && calls_of(ASKED) == 0);
}

// The program finds the errors of its own calls, and no other ones.
static void errors(void) {
  int (*last)(void) = find("hipGetLastError"), (*peek)(void) = find("hipPeekAtLastError");
  handle stream, graph;
  OK(stream_create(&stream, 1));
  pointer at = words();
  for (unsigned n = 1; n <= 100; n++) {
    OK(fill_with(stream, at, n));
    CHECK(peek() == 0 && last() == 0);
    // A block that is too large.
    void *parameters[] = {&at, &n, &n};
    dim3 large = {2000, 1, 1};
    CHECK(launch_kernel((const void *)fill, ONE, large, parameters, 0, stream) == 9);
    CHECK(peek() == 9 && last() == 9 && peek() == 0 && last() == 0);
    OK(stream_synchronize(stream));
    CHECK(peek() == 0);
    CHECK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(stream, &graph) == 401);
    CHECK(last() == 401 && last() == 0);
  }
  CHECK(all_are(at, 100));
}

// Fills ten times by each of three streams, which have these priorities. Nothing goes into a
// default stream, which has a priority too.
static void fill_by(const int *priorities) {
  handle streams[3];
  unsigned read[WORDS];
  int (*create)(handle *, unsigned, int) = find("hipStreamCreateWithPriority");
  for (int s = 0; s < 3; s++) {
    OK(create(&streams[s], 1, priorities[s]));
    pointer at = words();
    for (unsigned n = 1; n <= 10; n++) OK(fill_with(streams[s], at, n));
    OK(copy_async(read, at, sizeof read, TO_HOST, streams[s]));
    OK(stream_synchronize(streams[s]));
    CHECK(read_are(read, 10));
  }
  for (int s = 0; s < 3; s++) OK(stream_destroy(streams[s]));
}

static void alike(void) { fill_by((int[]){-1, -1, -1}); }

static void priorities(void) { fill_by((int[]){0, -1, 0}); }

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(void);
  } MODES[] = {{"streams", streams}, {"captured", captured}, {"beside", beside},
               {"blocking", blocking}, {"joined", joined},
               {"short_lived", short_lived}, {"reset", reset}, {"resets", resets},
               {"threads", threads},
               {"copies", copies}, {"kernels", kernels}, {"devices", devices}, {"of_thread", of_thread},
               {"held", held}, {"synchronized", synchronized}, {"masks", masks},
               {"children", children}, {"own_queue", own_queue}, {"calls", calls}, {"unasked", unasked},
               {"branches", branches}, {"copied", copied}, {"errors", errors}, {"alike", alike}, {"priorities", priorities}};
  launch_kernel = find("hipLaunchKernel");
  stream_create = find("hipStreamCreateWithFlags");
  stream_destroy = find("hipStreamDestroy");
  stream_synchronize = find("hipStreamSynchronize");
  synchronize = find("hipDeviceSynchronize");
  alloc = find("hipMalloc");
  release = find("hipFree");
  copy = find("hipMemcpy");
  copy_async = find("hipMemcpyAsync");
  for (unsigned n = 0; n < sizeof MODES / sizeof *MODES; n++)
    if (count > 1 && !strcmp(words[1], MODES[n].name)) {
      MODES[n].run();
      printf("%s\n", words[1]);
    }
  return 0;
}
