// A program that launches through CUDA's driver, in the ways that its first argument names, and
// checks the results. It prints a line that begins with FAILED for what is wrong.

#include <sys/wait.h>

#include "calls.h"

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

// Asks the driver something before it is initialised, and then forks, as servers do with their
// workers. The children go on as the parent does, which waits for them.
static void fork_workers(void) {
  int version, count;
  OK(((int (*)(int *))find("cuDriverGetVersion"))(&version));
  CHECK(((int (*)(int *))find("cuDeviceGetCount"))(&count) == 3);
  for (int n = 0; n < 2; n++) {
    fflush(stdout);
    pid_t child = fork();
    int status = -1;
    if (!child) return;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
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

// A capture of this stream that is never ended.
static void capture(handle stream) {
  OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(stream, 2));
  OK(fill_with(stream, words(), 1));
}

static void *captures_own(void *context) {
  OK(((int (*)(handle))find("cuCtxSetCurrent"))(context));
  capture((handle)2);
  return NULL;
}

// Launches into a stream that had no queue before.
static void launches_anew(void) {
  handle stream;
  OK(stream_create(&stream, 1));
  pointer at = words();
  for (unsigned n = 1; n <= 20; n++) OK(fill_with(stream, at, n));
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 20));
}

// A capture ends with its stream, the thread of that, and its context.
static void abandoned(void) {
  handle stream;
  OK(stream_create(&stream, 1));
  capture(stream);
  OK(stream_destroy(stream));
  launches_anew();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, captures_own, primary) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  launches_anew();
  OK(stream_create(&stream, 1));
  capture(stream);
  OK(((int (*)(int))find("cuDevicePrimaryCtxReset_v2"))(0));
  begin();
  launches_anew();
}

// Events that are recorded once and destroyed leave nothing behind.
static void events(void) {
  handle stream, event;
  OK(stream_create(&stream, 1));
  OK(fill_with(stream, words(), 1));
  size_t before = 0;
  for (int n = 0; n < 40000; n++) {
    if (n == 10000) before = allocated();
    OK(((int (*)(handle *, unsigned))find("cuEventCreate"))(&event, 2));
    OK(((int (*)(handle, handle))find("cuEventRecord"))(event, stream));
    OK(stream_synchronize(stream));
    OK(((int (*)(handle))find("cuEventDestroy_v2"))(event));
  }
  size_t after = allocated();
  if (after > before + 100000) printf("FAILED: %zu bytes more\n", after - before);
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

// Captures a stream, and another that joins it and is joined, where each has had work before.
static void joined(void) {
  int (*record)(handle, handle) = find("cuEventRecord");
  int (*await)(handle, handle, unsigned) = find("cuStreamWaitEvent");
  handle streams[2], events[2], graph;
  pointer at[2] = {words(), words()};
  for (int s = 0; s < 2; s++) {
    OK(stream_create(&streams[s], 1));
    OK(((int (*)(handle *, unsigned))find("cuEventCreate"))(&events[s], 2));
    OK(fill_with(streams[s], at[s], 1));
  }
  for (int n = 0; n < 20; n++) {
    OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(streams[0], 0));
    OK(fill_with(streams[0], at[0], 2));
    OK(record(events[0], streams[0]));
    OK(await(streams[1], events[0], 0));
    OK(fill_with(streams[1], at[1], 2));
    OK(record(events[1], streams[1]));
    OK(await(streams[0], events[1], 0));
    graph = NULL;
    OK(((int (*)(handle, handle *))find("cuStreamEndCapture"))(streams[0], &graph));
    CHECK(graph != NULL);
    if (graph) OK(((int (*)(handle))find("cuGraphDestroy"))(graph));
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
    OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(stream, 0));
    OK(fill_with(stream, at, n));
    usleep(200);
    OK(((int (*)(handle, handle *))find("cuStreamEndCapture"))(stream, &graph));
    CHECK(graph != NULL);
    if (graph) OK(((int (*)(handle))find("cuGraphDestroy"))(graph));
  }
  CHECK(all_are(of_default, 99));
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

// A library retains and releases the primary context, which the program has as well, with an XQueue
// of its own on one stream and none on another.
static void retained(void) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW);
  CHECK(library != NULL);
  int (*make_hardware)(uint64_t *, handle), (*make)(uint64_t *, uint64_t, int64_t, int64_t);
  int (*query)(uint64_t, int *), (*end)(uint64_t), (*end_hardware)(uint64_t);
  *(void **)&make_hardware = dlsym(library, "xsched_private_cuda_queue_create");
  *(void **)&make = dlsym(library, "XQueueCreate");
  *(void **)&query = dlsym(library, "XQueueQuery");
  *(void **)&end = dlsym(library, "XQueueDestroy");
  *(void **)&end_hardware = dlsym(library, "HwQueueDestroy");
  int (*retain)(handle *, int) = find("cuDevicePrimaryCtxRetain");
  int (*let_go)(int) = find("cuDevicePrimaryCtxRelease_v2");
  handle stream, other, context;
  OK(stream_create(&stream, 1));
  OK(stream_create(&other, 1));
  uint64_t hwq = 0, xq = 0, automatic = 0;
  OK(make_hardware(&hwq, stream));
  OK(make(&xq, hwq, 1, 0));
  pointer at = words(), beside = words();
  int state;
  for (unsigned n = 1; n <= 3; n++) {
    OK(fill_with(stream, at, n));
    OK(fill_with(other, beside, n));
    OK(synchronize());
    CHECK(all_are(at, n) && all_are(beside, n));
    if (n == 1) automatic = queue_of(other, &library);
    // Not the last reference: nothing ends.
    OK(retain(&context, 0));
    OK(let_go(0));
    OK(query(xq, &state));
    OK(query(automatic, &state));
  }
  // The last one: what the interposer has made ends, and the program's XQueue is its own to end.
  OK(let_go(0));
  CHECK(query(automatic, &state) == 3);
  OK(query(xq, &state));
  OK(end(xq));
  OK(end_hardware(hwq));
  begin();
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

// Launches into streams of which one has an XQueue of the program's own now and then, whatever the
// environment says of the others.
static void own_queue(void) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW);
  CHECK(library != NULL);
  int (*make_hardware)(uint64_t *, handle), (*make)(uint64_t *, uint64_t, int64_t, int64_t);
  int (*suspend)(uint64_t, int64_t), (*resume)(uint64_t, int64_t), (*end)(uint64_t);
  int (*end_hardware)(uint64_t), (*submitted)(uint64_t, int64_t *);
  *(void **)&make_hardware = dlsym(library, "xsched_private_cuda_queue_create");
  *(void **)&make = dlsym(library, "XQueueCreate");
  *(void **)&suspend = dlsym(library, "XQueueSuspend");
  *(void **)&resume = dlsym(library, "XQueueResume");
  *(void **)&submitted = dlsym(library, "XQueueProfileHwCommandCount");
  *(void **)&end = dlsym(library, "XQueueDestroy");
  *(void **)&end_hardware = dlsym(library, "HwQueueDestroy");
  int (*query)(handle) = find("cuStreamQuery");
  int is_off = !getenv("XSCHED_AUTO_XQUEUE") || strcmp(getenv("XSCHED_AUTO_XQUEUE"), "ON");
  handle other;
  OK(stream_create(&held_stream, 1));
  OK(stream_create(&other, 1));
  held_words = words();
  pointer beside = words();
  uint64_t hwq = 0, xq = 0;
  int64_t count = -1;
  if (is_off) OK(fill_with(held_stream, held_words, 1));
  OK(make_hardware(&hwq, held_stream));
  // Nothing has told streams from others, and this one has no XQueue yet.
  if (is_off) OK(fill_with(held_stream, held_words, 1));
  OK(make(&xq, hwq, 1, 0));
  OK(fill_with(other, beside, 1));
  OK(suspend(xq, 0));
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, launches, primary) == 0);
  usleep(100 * 1000);
  CHECK(!was_launched);
  OK(fill_with(other, beside, 2));
  OK(stream_synchronize(other));
  OK(resume(xq, 0));
  CHECK(pthread_join(thread, NULL) == 0);
  OK(stream_synchronize(held_stream));
  CHECK(was_launched && all_are(held_words, 2) && all_are(beside, 2));
  OK(submitted(xq, &count));
  CHECK(count == 1);
  // The next one is known at once.
  OK(end(xq));
  OK(make(&xq, hwq, 1, 0));
  OK(fill_with(held_stream, held_words, 3));
  OK(stream_synchronize(held_stream));
  OK(submitted(xq, &count));
  CHECK(count == 1 && all_are(held_words, 3));
  OK(end(xq));
  OK(end_hardware(hwq));
  OK(fill_with(held_stream, held_words, 4));
  OK(fill_with(held_stream, held_words, 5));
  OK(stream_synchronize(held_stream));
  CHECK(all_are(held_words, 5));
  // A fence may have come into the stream meanwhile, and runs at once.
  for (int ms = 0; ms < 10000 && query(held_stream); ms++) usleep(1000);
  OK(query(held_stream));
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

// The thread that has suspended a stream's XQueue launches into it, more than the XQueue has in
// flight at a time. At level 2 that waits on the device, and at level 1 it runs.
static void suspended(void) {
  enum { MANY = 40 };
  handle stream;
  OK(stream_create(&stream, 1));
  pointer at = words();
  OK(fill_with(stream, at, 1));
  OK(stream_synchronize(stream));
  void *library;
  uint64_t xq = queue_of(stream, &library);
  int (*query)(handle) = find("cuStreamQuery");
  int is_gated = !strcmp(getenv("XSCHED_AUTO_XQUEUE_LEVEL"), "2");
  for (unsigned round = 1; round <= 3; round++) {
    OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueSuspend"))(xq, 0));
    for (unsigned n = 1; n <= MANY; n++) OK(fill_with(stream, at, round * 100 + n));
    usleep(50 * 1000);
    CHECK(query(stream) == (is_gated ? 600 : 0));
    OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueResume"))(xq, 0));
    OK(stream_synchronize(stream));
    OK(((int (*)(uint64_t))dlsym(library, "XQueueWaitAll"))(xq));
    CHECK(all_are(at, round * 100 + MANY));
  }
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

static handle next_kernel;
static int (*record)(handle, handle), (*await)(handle, handle, unsigned);

// The first `low` of so many streams have the priority 0, and the others are urgent.
static void open_streams(handle *streams, int low, int all, pointer at) {
  static const char *const CODE = ".version 7.0\n.target sm_70\n.visible .entry xs_next\n";
  handle module;
  OK(((int (*)(handle *, const void *))find("cuModuleLoadData"))(&module, CODE));
  OK(((int (*)(handle *, handle, const char *))find("cuModuleGetFunction"))(&next_kernel, module,
                                                                            "xs_next"));
  record = find("cuEventRecord");
  await = find("cuStreamWaitEvent");
  int (*create)(handle *, unsigned, int) = find("cuStreamCreateWithPriority");
  for (int s = 0; s < all; s++) {
    OK(create(&streams[s], 1, s < low ? 0 : -1));
    OK(fill_with(streams[s], at, s));
    OK(stream_synchronize(streams[s]));
  }
}

static void spin_in(handle stream, uint64_t ms) {
  uint64_t ns = ms * 1000000, number = 0;
  pointer own = words();
  void *parameters[] = {&ns, &own, &number};
  OK(launch_kernel(next_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static handle event_of(handle stream, unsigned flags) {
  handle event;
  OK(((int (*)(handle *, unsigned))find("cuEventCreate"))(&event, flags));
  OK(record(event, stream));
  return event;
}

static handle event_in(handle stream) { return event_of(stream, 2); }

// The time of five kernels of a stream, by events.
static float ms_of_kernels(handle stream) {
  int (*elapsed)(float *, handle, handle) = find("cuEventElapsedTime");
  float ms = -1;
  handle start = event_of(stream, 0);
  for (int n = 0; n < 5; n++) spin_in(stream, 1);
  handle end = event_of(stream, 0);
  OK(stream_synchronize(stream));
  OK(elapsed(&ms, start, end));
  return ms;
}

// A stream measures its kernels alone, and then while it is held for an urgent one.
static void times(void) {
  handle streams[2];
  pointer at = words();
  open_streams(streams, 1, 2, at);
  // The first holds have ended by then.
  usleep(50 * 1000);
  CHECK(ms_of_kernels(streams[0]) >= 4);
  spin_in(streams[1], 40);
  usleep(10 * 1000);
  CHECK(ms_of_kernels(streams[0]) >= 15);
  OK(stream_synchronize(streams[1]));
}

// A wait in the driver would be seen to take long.
static void ends(handle stream) {
  int (*query)(handle) = find("cuStreamQuery");
  for (int ms = 0; ms < 20000 && query(stream); ms++) usleep(1000);
  OK(query(stream));
  OK(synchronize());
}

// With two connections, one of the streams that the urgent one waits for is in that of the first
// one, behind a gate that closes for the urgent one.
static void neighbours(void) {
  handle streams[7];
  pointer at = words();
  open_streams(streams, 6, 7, at);
  spin_in(streams[0], 50);
  OK(fill_with(streams[0], at, 7));
  for (int s = 1; s < 6; s++) {
    OK(fill_with(streams[s], at, 8));
    OK(await(streams[6], event_in(streams[s]), 0));
  }
  OK(fill_with(streams[6], at, 9));
  ends(streams[6]);
}

// With four connections, two of them taken by streams that wait for an urgent one, a second urgent
// one is in that of the first stream, behind a gate that closes for it.
static void waiters(void) {
  enum { MANY = 40 };
  handle streams[5];
  pointer at = words();
  open_streams(streams, 3, 5, at);
  spin_in(streams[0], 20);
  OK(fill_with(streams[0], at, 7));
  spin_in(streams[3], 50);
  for (int n = 0; n < MANY; n++)
    for (int s = 1; s < 3; s++) OK(await(streams[s], event_in(streams[3]), 0));
  OK(fill_with(streams[4], at, 9));
  ends(streams[4]);
}

// Four streams alike, and a fifth that tells them apart.
static void late(void) {
  handle streams[5];
  pointer at[5];
  int (*create)(handle *, unsigned, int) = find("cuStreamCreateWithPriority");
  for (int s = 0; s < 5; s++) {
    at[s] = words();
    OK(create(&streams[s], 1, s < 4 ? 0 : -1));
  }
  for (int s = 0; s < 4; s++) OK(fill_with(streams[s], at[s], s));
  OK(fill_with(streams[0], at[0], 10));
  for (int s = 4; s >= 0; s--) OK(fill_with(streams[s], at[s], 20 + s));
  for (int s = 0; s < 5; s++) {
    OK(stream_synchronize(streams[s]));
    CHECK(all_are(at[s], 20 + s));
    OK(stream_destroy(streams[s]));
  }
}

// Three streams alike, the first of which ends before the others launch again.
static void left(void) {
  handle streams[3];
  pointer at = words();
  for (int s = 0; s < 3; s++) {
    OK(stream_create(&streams[s], 1));
    OK(fill_with(streams[s], at, s));
    OK(stream_synchronize(streams[s]));
  }
  OK(stream_destroy(streams[0]));
  for (int s = 1; s < 3; s++) {
    OK(fill_with(streams[s], at, s));
    OK(stream_synchronize(streams[s]));
  }
  for (int s = 1; s < 3; s++) OK(stream_destroy(streams[s]));
}

int main(int count, char **words) {
  static const mode MODES[] = {{"streams", streams}, {"workers", streams},
               {"captured", captured}, {"abandoned", abandoned}, {"events", events}, {"times", times},
               {"beside", beside},
               {"blocking", blocking}, {"joined", joined},
               {"short_lived", short_lived}, {"reset", reset}, {"threads", threads},
               {"retained", retained}, {"own_queue", own_queue}, {"copies", copies}, {"held", held},
               {"suspended", suspended}, {"waited", waited},
               {"calls", calls}, {"unasked", unasked}, {"alike", alike},
               {"beside_default", beside_default}, {"priorities", priorities},
               {"neighbours", neighbours}, {"waiters", waiters}, {"late", late},
               {"left", left}};
  if (count > 1 && !strcmp(words[1], "workers")) fork_workers();
  return run_mode(MODES, sizeof MODES / sizeof *MODES, count, words);
}
