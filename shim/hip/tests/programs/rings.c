// A program that launches into streams that share hardware rings, holds some of them through
// libpreempt.so, and checks what goes on and what does not. Its first argument says which. It prints
// a line that begins with FAILED for what is wrong.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(truth) \
  if (!(truth)) printf("FAILED in line %d: %s\n", __LINE__, #truth)
#define OK(call) CHECK((call) == 0)

typedef void *handle;
typedef volatile uint32_t *pointer;

enum { ROUNDS = 30, SPIN_NS = 10 * 1000 * 1000 };

static void *runtime, *library;
static handle module, spin, fill, work;

static void *find(const char *name) {
  void *found = dlsym(runtime, name);
  if (!found) printf("FAILED: no %s\n", name), exit(1);
  return found;
}

static int launch(handle function, handle stream, void **parameters) {
  int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,
                void **, void **) = find("hipModuleLaunchKernel");
  return launch(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static void start(void) {
  runtime = dlopen("libamdhip64.so.7", RTLD_NOW | RTLD_LOCAL);
  if (!runtime) printf("FAILED: no runtime\n"), exit(1);
  OK(((int (*)(handle *, const void *))find("hipModuleLoadData"))(&module,
                                                                "xsched emulated kernels"));
  int (*get)(handle *, handle, const char *) = find("hipModuleGetFunction");
  OK(get(&spin, module, "xs_spin"));
  OK(get(&fill, module, "fill"));
  OK(get(&work, module, "xs_work_alu"));
}

static pointer word(void) {
  void *at = NULL;
  OK(((int (*)(void **, size_t))find("hipMalloc"))(&at, 64));
  // It is the host's memory.
  return memset(at, 0, 64);
}

static int write_into(handle stream, pointer at, unsigned value) {
  unsigned count = 1;
  void *parameters[] = {&at, &value, &count};
  return launch(fill, stream, parameters);
}

// Work of 300 ms, which counts up.
static void count_up(handle stream, pointer at) {
  for (unsigned n = 1; n <= ROUNDS; n++) {
    uint64_t ns = SPIN_NS, stamps = 0;
    void *parameters[] = {&ns, &stamps};
    OK(launch(spin, stream, parameters));
    OK(write_into(stream, at, n));
  }
}

static int becomes(pointer at, unsigned value) {
  for (int ms = 0; ms < 10000 && *at != value; ms++) usleep(1000);
  return *at == value;
}

// So that it is known how long the work takes, and where gates are to be.
static void measure(handle stream, pointer at) {
  count_up(stream, at);
  CHECK(becomes(at, ROUNDS));
  *at = 0;
}

// Whether a count stands still, at a number that is not the last one.
static int stands(pointer at) {
  usleep(60 * 1000);
  unsigned before = *at;
  usleep(200 * 1000);
  return *at == before && before < ROUNDS;
}

static handle stream(unsigned flags) {
  handle stream = NULL;
  OK(((int (*)(handle *, unsigned))find("hipStreamCreateWithFlags"))(&stream, flags));
  return stream;
}

static uint64_t queue_of(handle stream) {
  if (!library) library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_NOLOAD);
  if (!library) printf("FAILED: no libpreempt.so\n"), exit(1);
  uint64_t hwq = 0, xq = 0;
  OK(((int (*)(uint64_t *, handle))dlsym(library, "xsched_private_stream_queue_get"))(&hwq, stream));
  OK(((int (*)(uint64_t *, uint64_t))dlsym(library, "XQueueGet"))(&xq, hwq));
  return xq;
}

static void suspend(handle stream) {
  uint64_t xq = queue_of(stream);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueSuspend"))(xq, 0));
}

static void resume(handle stream) {
  uint64_t xq = queue_of(stream);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueResume"))(xq, 0));
}

// Streams of which each is used once, so that it has its XQueue.
static void use(handle *streams, int count, unsigned flags, pointer at) {
  for (int s = 0; s < count; s++) {
    streams[s] = stream(flags);
    OK(write_into(streams[s], at, 77 + s));
    CHECK(becomes(at, 77 + s));
    queue_of(streams[s]);
  }
}

// Six streams in four rings: the first and the fifth share one, and the second and the sixth.
static void shared(void) {
  handle s[6];
  pointer at[2] = {word(), word()};
  use(s, 6, 1, at[1]);
  measure(s[0], at[0]);
  // It is held as long as the other stream in its ring has nothing to do. What that launches is
  // behind all of it.
  count_up(s[0], at[0]);
  suspend(s[0]);
  CHECK(stands(at[0]));
  OK(write_into(s[4], at[1], 1));
  CHECK(becomes(at[1], 1));
  CHECK(*at[0] == ROUNDS);
  resume(s[0]);
  // Both are held.
  *at[0] = *at[1] = 0;
  count_up(s[0], at[0]);
  OK(write_into(s[4], at[1], 2));
  suspend(s[0]), suspend(s[4]);
  CHECK(stands(at[0]) && *at[1] == 0);
  // No other ring is.
  pointer other = word();
  OK(write_into(s[1], other, 3));
  CHECK(becomes(other, 3));
  // Once one is let go all is.
  resume(s[4]);
  CHECK(becomes(at[1], 2));
  CHECK(*at[0] == ROUNDS);
  resume(s[0]);
}

// One stream in a ring.
static void alone(void) {
  handle s[2];
  pointer at[2] = {word(), word()};
  use(s, 2, 1, at[1]);
  measure(s[0], at[0]);
  count_up(s[0], at[0]);
  suspend(s[0]);
  CHECK(stands(at[0]));
  OK(write_into(s[1], at[1], 1));
  CHECK(becomes(at[1], 1));
  // The fifth stream, which is new to the scheduler, is in the ring of the first.
  handle later[3] = {stream(1), stream(1), stream(1)};
  CHECK(stands(at[0]));
  OK(write_into(later[2], at[1], 2));
  CHECK(becomes(at[1], 2));
  CHECK(becomes(at[0], ROUNDS));
  resume(s[0]);
}

// Blocking streams are held, but not for the legacy default stream.
static void blocking(void) {
  handle s[2], event;
  pointer at[2] = {word(), word()};
  OK(((int (*)(handle *))find("hipEventCreate"))(&event));
  // Its ring is the first.
  OK(write_into(NULL, at[1], 9));
  CHECK(becomes(at[1], 9));
  use(s, 2, 0, at[1]);
  measure(s[0], at[0]);
  count_up(s[0], at[0]);
  suspend(s[0]);
  CHECK(stands(at[0]));
  // It waits for the one that is held, and the other one for it.
  OK(write_into(NULL, at[1], 1));
  OK(write_into(s[1], at[1], 2));
  CHECK(becomes(at[1], 2));
  CHECK(becomes(at[0], ROUNDS));
  resume(s[0]);
  // The same for what is no launch.
  *at[0] = 0;
  count_up(s[0], at[0]);
  suspend(s[0]);
  CHECK(stands(at[0]));
  OK(((int (*)(handle, handle))find("hipEventRecord"))(event, NULL));
  OK(write_into(s[1], at[1], 3));
  CHECK(becomes(at[1], 3));
  resume(s[0]);
  CHECK(becomes(at[0], ROUNDS));
  // And waiting for it.
  *at[0] = 0;
  count_up(s[0], at[0]);
  suspend(s[0]);
  CHECK(stands(at[0]));
  OK(((int (*)(handle))find("hipStreamSynchronize"))(NULL));
  resume(s[0]);
  CHECK(becomes(at[0], ROUNDS));
}

// What another stream waits for on the device is not held by a gate.
static void awaited(void) {
  handle s[2], event;
  pointer at[2] = {word(), word()};
  OK(((int (*)(handle *))find("hipEventCreate"))(&event));
  use(s, 2, 1, at[1]);
  measure(s[0], at[0]);
  count_up(s[0], at[0]);
  OK(((int (*)(handle, handle))find("hipEventRecord"))(event, s[0]));
  suspend(s[0]);
  CHECK(stands(at[0]));
  OK(((int (*)(handle, handle, unsigned))find("hipStreamWaitEvent"))(s[1], event, 0));
  OK(write_into(s[1], at[1], 1));
  CHECK(becomes(at[1], 1));
  CHECK(*at[0] == ROUNDS);
  resume(s[0]);
}

// A graph of five kernels that write this value: one, then three beside each other, then one.
static handle branches(handle *s, handle *events, pointer *at, unsigned value) {
  int (*record)(handle, handle) = find("hipEventRecord");
  int (*wait)(handle, handle, unsigned) = find("hipStreamWaitEvent");
  handle graph = NULL, exec = NULL;
  OK(((int (*)(handle, int))find("hipStreamBeginCapture"))(s[0], 2));
  OK(write_into(s[0], at[0], value));
  OK(record(events[0], s[0]));
  for (int b = 1; b < 4; b++) {
    OK(wait(s[b], events[0], 0));
    OK(write_into(s[b], at[b], value));
    OK(record(events[b], s[b]));
  }
  for (int b = 1; b < 4; b++) OK(wait(s[0], events[b], 0));
  OK(write_into(s[0], at[0], value + 1));
  OK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(s[0], &graph));
  OK(((int (*)(handle *, handle, handle *, char *, size_t))find("hipGraphInstantiate"))(
      &exec, graph, NULL, NULL, 0));
  OK(((int (*)(handle))find("hipGraphDestroy"))(graph));
  return exec;
}

// Branches of graphs run in rings of other streams. Neither do they wait for those that are held,
// nor hold they any.
static void graphs(void) {
  handle s[4], events[4], row = NULL, graph = NULL;
  pointer at[5] = {word(), word(), word(), word(), word()};
  int (*run)(handle, handle) = find("hipGraphLaunch");
  for (int n = 0; n < 4; n++) OK(((int (*)(handle *))find("hipEventCreate"))(&events[n]));
  // One in each ring.
  use(s, 4, 1, at[4]);
  measure(s[0], at[4]);
  handle fork = branches(s, events, at, 7);
  OK(((int (*)(handle, int))find("hipStreamBeginCapture"))(s[1], 2));
  for (unsigned n = 1; n < 4; n++) OK(write_into(s[1], at[1], 20 + n));
  OK(((int (*)(handle, handle *))find("hipStreamEndCapture"))(s[1], &graph));
  OK(((int (*)(handle *, handle, uint64_t))find("hipGraphInstantiateWithFlags"))(&row, graph, 0));
  count_up(s[0], at[4]);
  suspend(s[0]);
  CHECK(stands(at[4]));
  // A row is in its stream alone.
  OK(run(row, s[1]));
  CHECK(becomes(at[1], 23));
  CHECK(stands(at[4]));
  // Branches are in the ring of what is held too.
  OK(run(fork, s[1]));
  CHECK(becomes(at[0], 8) && at[1][0] == 7 && at[2][0] == 7 && at[3][0] == 7);
  resume(s[0]);
  CHECK(becomes(at[4], ROUNDS));
  // What is held has branches in the rings of what goes on.
  *at[0] = *at[4] = 0;
  count_up(s[0], at[4]);
  OK(run(fork, s[0]));
  suspend(s[0]);
  for (int n = 1; n < 4; n++) {
    OK(write_into(s[n], at[n], 30 + n));
    CHECK(becomes(at[n], 30 + n));
  }
  resume(s[0]);
  CHECK(becomes(at[4], ROUNDS) && becomes(at[0], 8));
  OK(((int (*)(handle))find("hipGraphExecDestroy"))(fork));
}

// All streams' cooperative kernels are in one ring.
static void cooperative(void) {
  int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,
                void **) = find("hipModuleLaunchCooperativeKernel");
  handle s[2];
  pointer at[2] = {word(), word()};
  unsigned value = 5, count = 1;
  use(s, 2, 1, at[1]);
  measure(s[0], at[0]);
  count_up(s[0], at[0]);
  void *parameters[] = {&at[0], &value, &count};
  OK(launch(fill, 1, 1, 1, 1, 1, 1, 0, s[0], parameters));
  suspend(s[0]);
  parameters[0] = &at[1];
  OK(launch(fill, 1, 1, 1, 1, 1, 1, 0, s[1], parameters));
  CHECK(becomes(at[1], 5));
  resume(s[0]);
  CHECK(becomes(at[0], 5));
}

// A kernel of a second or so, which counts while it runs.
static int run_long(handle stream, pointer beats, pointer sums) {
  uint64_t rounds = 1000000, flags = 1ull << 32 | 1, none = 0;
  void *parameters[] = {&rounds, &beats, &flags, &sums, &none};
  return launch(work, stream, parameters);
}

static int begins(pointer beats) {
  for (int ms = 0; ms < 10000 && !*beats; ms++) usleep(1000);
  return *beats != 0;
}

// With level 3 a kernel is stopped where it is, in streams that can have a ring of their own.
static void interrupted(void) {
  handle s[2];
  int (*create)(handle *) = find("hipStreamCreate"), (*destroy)(handle) = find("hipStreamDestroy");
  pointer at = word(), beats = word(), sums = word();
  OK(create(&s[0]));
  OK(create(&s[1]));
  unsigned flags = 9;
  OK(((int (*)(handle, unsigned *))find("hipStreamGetFlags"))(s[0], &flags));
  CHECK(flags == 0);
  OK(run_long(s[0], beats, sums));
  CHECK(begins(beats));
  suspend(s[0]);
  usleep(60 * 1000);
  unsigned before = *beats;
  // The device has one unit, which is free now.
  OK(write_into(s[1], at, 1));
  CHECK(becomes(at, 1));
  usleep(100 * 1000);
  CHECK(*beats == before && sums[2] == 0);
  resume(s[0]);
  OK(((int (*)(handle))find("hipStreamSynchronize"))(s[0]));
  CHECK(*beats != before && sums[2] == 1);
  for (int n = 0; n < 2; n++) OK(destroy(s[n]));
  // More than there are rings of their own for, some of them never used.
  handle many[24];
  for (int n = 0; n < 24; n++) OK(create(&many[n]));
  for (int n = 0; n < 24; n += 2) OK(write_into(many[n], at, 100 + n));
  for (int n = 0; n < 24; n++) OK(destroy(many[n]));
}

// With level 3 streams in rings that they share are stopped with all that is in them. The last one
// is of a priority, which has other rings; one of the others is in the first one's ring.
static void together(void) {
  handle s[6], beside = NULL;
  pointer at = word(), beats = word(), sums = word();
  int (*wait)(handle) = find("hipStreamSynchronize");
  use(s, 5, 1, at);
  OK(((int (*)(handle *, unsigned, int))find("hipStreamCreateWithPriority"))(&s[5], 1, -1));
  for (int n = 0; n < 6; n += 5) {
    *beats = sums[2] = 0;
    OK(run_long(s[n], beats, sums));
    CHECK(begins(beats));
    suspend(s[n]);
    usleep(60 * 1000);
    unsigned before = *beats;
    // The device has one unit, which is free now.
    OK(write_into(s[1], at, 200 + n));
    CHECK(becomes(at, 200 + n));
    usleep(100 * 1000);
    CHECK(*beats == before && sums[2] == 0);
    if (n == 0) {
      // Another stream of its ring has something to do, which is behind the kernel.
      for (int b = 2; b < 5 && !sums[2]; b++) {
        beside = s[b];
        OK(write_into(beside, at, 300 + b));
        CHECK(becomes(at, 300 + b));
      }
      CHECK(sums[2] == 1);
    }
    resume(s[n]);
    OK(wait(s[n]));
    CHECK(*beats != before && sums[2] == 1);
  }
  // The one is held, then the other, and the other is let go, which has nothing to do.
  *beats = sums[2] = 0;
  OK(run_long(s[0], beats, sums));
  CHECK(begins(beats));
  suspend(s[0]), suspend(beside);
  usleep(60 * 1000);
  resume(beside);
  usleep(60 * 1000);
  unsigned before = *beats;
  usleep(100 * 1000);
  CHECK(*beats == before && sums[2] == 0);
  resume(s[0]);
  OK(wait(s[0]));
  CHECK(sums[2] == 1);
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(void);
  } MODES[] = {{"shared", shared}, {"alone", alone}, {"blocking", blocking}, {"awaited", awaited},
               {"graphs", graphs}, {"cooperative", cooperative}, {"interrupted", interrupted},
               {"together", together}};
  setvbuf(stdout, NULL, _IOLBF, 0);
  start();
  for (unsigned n = 0; n < sizeof MODES / sizeof *MODES; n++)
    if (count > 1 && !strcmp(words[1], MODES[n].name)) {
      MODES[n].run();
      printf("%s\n", words[1]);
    }
  return 0;
}
