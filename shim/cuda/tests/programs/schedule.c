// A program that launches through CUDA's driver, in the ways that its first argument names, and
// checks the results. It prints a line that begins with FAILED for what is wrong.

#include <dlfcn.h>
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

enum { WORDS = 256 };

static const char *const CODE =
    ".version 7.0\n.target sm_70\n.visible .entry fill\n.visible .entry vector_add\n";

static int (*launch_kernel)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, handle, void **, void **);
static int (*launch_of_thread)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, handle, void **, void **);
static int (*stream_create)(handle *, unsigned), (*stream_destroy)(handle);
static int (*stream_synchronize)(handle), (*synchronize)(void);
static int (*alloc)(pointer *, size_t), (*release)(pointer);
static int (*to_host)(void *, pointer, size_t), (*to_device)(pointer, const void *, size_t);
static handle fill;

static void *find(const char *name) {
  static void *library;
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) printf("FAILED: no %s\n", name), exit(1);
  return found;
}

// Makes the primary context current and loads the kernels, for the first time or again.
static void begin(void) {
  handle context, module;
  OK(((int (*)(handle *, int))find("cuDevicePrimaryCtxRetain"))(&context, 0));
  OK(((int (*)(handle))find("cuCtxSetCurrent"))(context));
  OK(((int (*)(handle *, const void *))find("cuModuleLoadData"))(&module, CODE));
  OK(((int (*)(handle *, handle, const char *))find("cuModuleGetFunction"))(&fill, module, "fill"));
}

static int fill_with(handle stream, pointer to, unsigned value) {
  unsigned words = WORDS;
  void *parameters[] = {&to, &value, &words};
  return launch_kernel(fill, 1, 1, 1, WORDS, 1, 1, 0, stream, parameters, NULL);
}

static pointer words(void) {
  pointer at = 0;
  OK(alloc(&at, WORDS * 4));
  return at;
}

static int all_are(pointer at, unsigned value) {
  unsigned read[WORDS];
  OK(to_host(read, at, sizeof read));
  for (int i = 0; i < WORDS; i++)
    if (read[i] != value) return 0;
  return 1;
}

static void streams(void) {
  handle own[4] = {NULL, (handle)1};
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
  OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(stream, 0));
  OK(fill_with(stream, at, 7));
  OK(fill_with(stream, at, 8));
  OK(fill_with(other, beside, 9));
  OK(((int (*)(handle, handle *))find("cuStreamEndCapture"))(stream, &graph));
  OK(((int (*)(handle *, handle, unsigned long long))find("cuGraphInstantiateWithFlags"))(
      &executable, graph, 0));
  CHECK(!all_are(at, 8));
  int (*launch)(handle, handle) = find("cuGraphLaunch");
  for (int n = 0; n < 3; n++) OK(launch(executable, stream));
  OK(stream_synchronize(stream));
  OK(stream_synchronize(other));
  CHECK(all_are(at, 8) && all_are(beside, 9));
}

static void *fills(void *count) {
  handle stream;
  handle context;
  OK(((int (*)(handle *, int))find("cuDevicePrimaryCtxRetain"))(&context, 0));
  OK(((int (*)(handle))find("cuCtxSetCurrent"))(context));
  OK(stream_create(&stream, 1));
  pointer at = words();
  for (unsigned n = 1; n <= *(unsigned *)count; n++) OK(fill_with(stream, at, n));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, *(unsigned *)count));
  OK(stream_destroy(stream));
  return NULL;
}

// Captures while another thread launches into a queue of its own, whose events are looked at all
// the time.
static handle beside_stream;
static pointer beside_words;

static void *fills_beside(void *context) {
  OK(((int (*)(handle))find("cuCtxSetCurrent"))(context));
  for (unsigned n = 1; n <= 3000; n++) OK(fill_with(beside_stream, beside_words, n));
  return NULL;
}

static void beside(void) {
  pthread_t thread;
  handle stream, context;
  OK(((int (*)(handle *))find("cuCtxGetCurrent"))(&context));
  OK(stream_create(&stream, 1));
  OK(stream_create(&beside_stream, 1));
  pointer at = words();
  beside_words = words();
  OK(fill_with(stream, at, 1));
  OK(fill_with(beside_stream, beside_words, 0));
  OK(synchronize());
  CHECK(pthread_create(&thread, NULL, fills_beside, context) == 0);
  for (unsigned n = 0; n < 200; n++) {
    handle graph = NULL;
    OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(stream, 0));
    OK(fill_with(stream, at, 2));
    OK(((int (*)(handle, handle *))find("cuStreamEndCapture"))(stream, &graph));
    CHECK(graph != NULL);
    OK(((int (*)(handle))find("cuGraphDestroy"))(graph));
  }
  CHECK(pthread_join(thread, NULL) == 0);
  OK(synchronize());
  CHECK(all_are(at, 1) && all_are(beside_words, 3000));
}

static void short_lived(void) {
  pointer at = words();
  for (unsigned n = 1; n <= 200; n++) {
    handle stream;
    OK(stream_create(&stream, n % 2));
    OK(fill_with(stream, at, n));
    OK(stream_synchronize(stream));
    CHECK(all_are(at, n));
    OK(stream_destroy(stream));
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
    OK(((int (*)(int))find("cuDevicePrimaryCtxReset_v2"))(0));
    begin();
  }
}

static void threads(void) {
  unsigned count = 200;
  pthread_t threads[8];
  for (int t = 0; t < 8; t++) CHECK(pthread_create(&threads[t], NULL, fills, &count) == 0);
  for (int t = 0; t < 8; t++) CHECK(pthread_join(threads[t], NULL) == 0);
}

static void copies(void) {
  unsigned here[WORDS];
  for (int i = 0; i < WORDS; i++) here[i] = 77;
  pointer at = words(), to = words();
  OK(to_device(at, here, sizeof here));
  OK(((int (*)(pointer, pointer, size_t, handle))find("cuMemcpyAsync"))(to, at, sizeof here, NULL));
  CHECK(all_are(to, 77));
  OK(((int (*)(pointer, unsigned, size_t, handle))find("cuMemsetD32Async"))(to, 5, WORDS, NULL));
  CHECK(all_are(to, 5));
  OK(release(at));
}

// A context of the program's own, and the default stream of a thread.
static void past(void) {
  handle own;
  launch_of_thread = find("cuLaunchKernel_ptsz");
  pointer at = words();
  unsigned value = 3, count = WORDS;
  void *parameters[] = {&at, &value, &count};
  OK(launch_of_thread(fill, 1, 1, 1, WORDS, 1, 1, 0, NULL, parameters, NULL));
  OK(stream_synchronize((handle)2));
  CHECK(all_are(at, 3));
  OK(((int (*)(handle *, unsigned, int))find("cuCtxCreate_v2"))(&own, 0, 0));
  handle module;
  OK(((int (*)(handle *, const void *))find("cuModuleLoadData"))(&module, CODE));
  OK(((int (*)(handle *, handle, const char *))find("cuModuleGetFunction"))(&fill, module, "fill"));
  pointer there = words();
  OK(fill_with(NULL, there, 4));
  CHECK(all_are(there, 4));
  OK(((int (*)(handle))find("cuCtxDestroy_v2"))(own));
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

static void *launches(void *context) {
  OK(((int (*)(handle))find("cuCtxSetCurrent"))(context));
  OK(fill_with(held_stream, held_words, 2));
  was_launched = 1;
  return NULL;
}

static void held(void) {
  handle context;
  OK(((int (*)(handle *))find("cuCtxGetCurrent"))(&context));
  OK(stream_create(&held_stream, 1));
  held_words = words();
  for (int n = 0; n < 50; n++) OK(fill_with(held_stream, held_words, 1));
  void *library;
  uint64_t xq = queue_of(held_stream, &library);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueSuspend"))(xq, 0));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, launches, context) == 0);
  usleep(100 * 1000);
  CHECK(!was_launched);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueResume"))(xq, 0));
  CHECK(pthread_join(thread, NULL) == 0);
  OK(stream_synchronize(held_stream));
  CHECK(was_launched && all_are(held_words, 2));
}

// What was waited for is known to have run, unless the thread of the stream gets no processor.
static void waited(void) {
  handle stream;
  OK(stream_create(&stream, 1));
  pointer at = words();
  OK(fill_with(stream, at, 1));
  void *library;
  uint64_t xq = queue_of(stream, &library);
  int (*query)(uint64_t, int *) = (int (*)(uint64_t, int *))dlsym(library, "XQueueQuery");
  int is_idle = 0;
  for (int round = 0; round < 200; round++) {
    for (unsigned n = 0; n < 3; n++) OK(fill_with(stream, at, n));
    OK(stream_synchronize(stream));
    int state = 0;
    OK(query(xq, &state));
    is_idle += state == 1;
  }
  CHECK(is_idle > 100);
}

// How often the driver itself was called by this name.
static uint64_t calls_of(const char *name) {
  static uint64_t (*calls)(const char *);
  if (!calls) {
    void *driver = dlopen(getenv("XSCHED_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    calls = driver ? (uint64_t(*)(const char *))dlsym(driver, "cuEmulatedCalls") : NULL;
    if (!calls) printf("FAILED: no calls\n"), exit(1);
  }
  return calls(name);
}

// How often by those that are to be spared.
static uint64_t driver_calls(void) {
  static const char *const NAMES[] = {"cuThreadExchangeStreamCaptureMode", "cuStreamIsCapturing",
                                      "cuEventRecord", "cuEventQuery", "cuStreamWriteValue32_v2",
                                      "cuCtxPushCurrent_v2"};
  uint64_t sum = 0;
  for (unsigned n = 0; n < sizeof NAMES / sizeof *NAMES; n++) sum += calls_of(NAMES[n]);
  return sum;
}

static void calls(void) {
  handle streams[2] = {NULL};
  OK(stream_create(&streams[1], 1));
  pointer at[2] = {words(), words()};
  for (int s = 0; s < 2; s++) OK(fill_with(streams[s], at[s], 1));
  for (int s = 0; s < 2; s++) OK(stream_synchronize(streams[s]));
  // What the library does beside is done by then, nearly.
  usleep(20 * 1000);
  uint64_t before = driver_calls();
  CHECK(before > 0);
  for (unsigned n = 1; n <= 1000; n++)
    for (int s = 0; s < 2; s++) OK(fill_with(streams[s], at[s], n));
  CHECK(driver_calls() < before + 100);
  OK(stream_synchronize(streams[1]));
  for (int s = 0; s < 2; s++) CHECK(all_are(at[s], 1000));
}

// Captures unscheduled.
static void unasked(void) {
  handle stream, graph = NULL;
  OK(stream_create(&stream, 1));
  OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(stream, 0));
  OK(((int (*)(handle, handle *))find("cuStreamEndCapture"))(stream, &graph));
  CHECK(graph != NULL && calls_of("cuStreamEndCapture") == 1);
  CHECK(calls_of("cuStreamIsCapturing") == 0);
}

// Fills ten times by each of three streams, which have these priorities. Nothing goes into the
// legacy default stream, which has a priority too.
static void fill_by(const int *priorities) {
  handle streams[3];
  unsigned read[WORDS];
  int (*read_by)(void *, pointer, size_t, handle) = find("cuMemcpyDtoHAsync_v2");
  int (*create)(handle *, unsigned, int) = find("cuStreamCreateWithPriority");
  for (int s = 0; s < 3; s++) {
    OK(create(&streams[s], 1, priorities[s]));
    pointer at = words();
    for (unsigned n = 1; n <= 10; n++) OK(fill_with(streams[s], at, n));
    OK(read_by(read, at, sizeof read, streams[s]));
    OK(stream_synchronize(streams[s]));
    CHECK(read[0] == 10 && read[WORDS - 1] == 10);
  }
  for (int s = 0; s < 3; s++) OK(stream_destroy(streams[s]));
}

static void alike(void) { fill_by((int[]){-1, -1, -1}); }

// A default stream has a priority as well.
static void beside_default(void) {
  handle stream;
  pointer at = words();
  OK(fill_with(NULL, at, 1));
  // The stream does not wait for the default one.
  OK(synchronize());
  OK(((int (*)(handle *, unsigned, int))find("cuStreamCreateWithPriority"))(&stream, 1, -1));
  for (unsigned n = 1; n <= 10; n++) OK(fill_with(stream, at, n));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 10));
}

static void priorities(void) { fill_by((int[]){0, -1, 0}); }

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(void);
  } MODES[] = {{"streams", streams}, {"captured", captured}, {"beside", beside},
               {"short_lived", short_lived}, {"reset", reset}, {"threads", threads},
               {"copies", copies}, {"past", past}, {"held", held}, {"waited", waited},
               {"calls", calls}, {"unasked", unasked}, {"alike", alike},
               {"beside_default", beside_default}, {"priorities", priorities}};
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
  begin();
  for (unsigned n = 0; n < sizeof MODES / sizeof *MODES; n++)
    if (count > 1 && !strcmp(words[1], MODES[n].name)) {
      MODES[n].run();
      printf("%s\n", words[1]);
    }
  return 0;
}
