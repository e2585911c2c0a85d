// What calls of the driver cost: each line has a name, and the least time of a call in nanoseconds.

#include <time.h>

#include "../tests/programs/calls.h"

enum { ROUNDS = 400, CALLS = 64 };

static handle stream, event;
static pointer memory;
static int (*set_words)(pointer, unsigned, size_t, handle);
static int (*record)(handle, handle), (*wait_event)(handle, handle, unsigned);
static int (*query_event)(handle), (*query_stream)(handle), (*set_current)(handle);
static int (*set_attribute)(handle, int, int);

static void own(void) { fill_with(stream, memory, 1); }
static void legacy(void) { fill_with(NULL, memory, 1); }
static void memset_own(void) { set_words(memory, 1, 1, stream); }
static void record_own(void) { record(event, stream); }
static void wait_own(void) { wait_event(stream, event, 0); }
static void ask_event(void) { query_event(event); }
static void ask_stream(void) { query_stream(stream); }
static void synchronize_own(void) { stream_synchronize(stream); }
static void current(void) { set_current(primary); }
static void attribute(void) { set_attribute(fill, 8, 0); }

static const mode MEASURED[] = {
    {"launch, own stream", own},
    {"launch, default stream", legacy},
    {"memset", memset_own},
    {"record an event", record_own},
    {"wait for an event", wait_own},
    {"ask for an event", ask_event},
    {"ask for a stream", ask_stream},
    {"synchronize an idle stream", synchronize_own},
    {"set the context", current},
    {"call that may wait", attribute},
};

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

static void measure(const mode *what) {
  double least = 1e18;
  for (int round = 0; round < ROUNDS; round++) {
    OK(synchronize());
    double start = now_ns();
    for (int n = 0; n < CALLS; n++) what->run();
    double ns = (now_ns() - start) / CALLS;
    if (ns < least) least = ns;
  }
  OK(synchronize());
  printf("%s\t%.1f\n", what->name, least);
}

static void calls(void) {
  set_words = find("cuMemsetD32Async");
  record = find("cuEventRecord");
  wait_event = find("cuStreamWaitEvent");
  query_event = find("cuEventQuery");
  query_stream = find("cuStreamQuery");
  set_current = find("cuCtxSetCurrent");
  set_attribute = find("cuFuncSetAttribute");
  OK(stream_create(&stream, 1));
  OK(((int (*)(handle *, unsigned))find("cuEventCreate"))(&event, 0));
  memory = words();
  for (unsigned n = 0; n < sizeof MEASURED / sizeof *MEASURED; n++) measure(&MEASURED[n]);
}

int main(int count, char **words) {
  static const mode modes[] = {{"calls", calls}};
  return run_mode(modes, 1, count, words);
}
