// A program that others may hold, and none does, in the ways that its first argument names. It
// checks what the library asks of the driver beside what the program asks. It prints a line that
// begins with FAILED for what is wrong.

#include "calls.h"

enum { NODES = 20, STEPS = 200, DEPTH = 8, EVENTS = 2 * DEPTH };

static handle streams[2], events[EVENTS];
static int (*record)(handle, handle), (*wait_event)(handle, handle, unsigned);
static int (*await_value)(handle, pointer, unsigned, unsigned);
static int (*change)(handle, handle, kernel_node *), (*launch_graph)(handle, handle);
static int (*call_host)(handle, void (*)(void *), void *);

// Calls of the driver that a library makes which schedules.
static uint64_t own_calls(void) {
  static const char *const NAMES[] = {
      "cuCtxGetCurrent",  "cuCtxPushCurrent_v2",     "cuEventElapsedTime",
      "cuEventQuery",     "cuEventRecord",           "cuStreamIsCapturing",
      "cuStreamQuery",    "cuStreamWaitValue32_v2",  "cuThreadExchangeStreamCaptureMode",
      "cuLaunchHostFunc", "cuStreamWriteValue32_v2",
  };
  uint64_t sum = 0;
  for (unsigned n = 0; n < sizeof NAMES / sizeof *NAMES; n++) sum += calls_of(NAMES[n]);
  return sum;
}

static unsigned hosted;

static void note(void *at) {
  (void)at;
  __atomic_fetch_add(&hosted, 1, __ATOMIC_RELEASE);
}

// Of a training, as JAX does it: changes the kernels of a graph, launches it, and has the host
// called in another stream behind it.
static void step(unsigned number, handle exec, handle *nodes, kernel_node *node) {
  for (int n = 0; n < NODES; n++) OK(change(exec, nodes[n], node));
  OK(launch_graph(exec, streams[0]));
  handle *of_step = &events[2 * (number % DEPTH)];
  OK(record(of_step[0], streams[0]));
  OK(record(of_step[1], streams[0]));
  OK(wait_event(streams[1], of_step[1], 0));
  OK(call_host(streams[1], note, &hosted));
  while (__atomic_load_n(&hosted, __ATOMIC_ACQUIRE) + DEPTH <= number) usleep(20);
}

static void open_all(void) {
  int (*create)(handle *, unsigned) = find("cuEventCreate");
  // Without times.
  for (int n = 0; n < EVENTS; n++) OK(create(&events[n], 2));
  for (int s = 0; s < 2; s++) OK(stream_create(&streams[s], 1));
}

static void training(void) {
  open_all();
  handle graph, exec, nodes[NODES];
  unsigned value = 1, many = 1;
  pointer at = words();
  void *parameters[] = {&at, &value, &many};
  kernel_node node = {fill, {1, 1, 1}, {1, 1, 1}, 0, parameters, NULL, NULL, NULL};
  OK(((int (*)(handle *, unsigned))find("cuGraphCreate"))(&graph, 0));
  int (*add)(handle *, handle, handle *, size_t, kernel_node *) = find("cuGraphAddKernelNode_v2");
  for (int n = 0; n < NODES; n++) OK(add(&nodes[n], graph, &nodes[n - !!n], !!n, &node));
  OK(((int (*)(handle *, handle, uint64_t))find("cuGraphInstantiateWithFlags"))(&exec, graph, 0));
  unsigned number = 0;
  while (number < STEPS) step(number++, exec, nodes, &node);
  OK(synchronize());
  uint64_t before = own_calls();
  while (number < 2 * STEPS) step(number++, exec, nodes, &node);
  OK(synchronize());
  // Two events and a function of the host are the program's. It was 17 before.
  uint64_t own = own_calls() - before - 3 * STEPS;
  if (own > 2 * STEPS) printf("FAILED: %.1f calls a step\n", (double)own / STEPS);
}

// Has the second stream wait for an event in the first one. Answers how many numbers are written
// and waited for.
static unsigned await_first(handle event) {
  uint64_t written = calls_of("cuStreamWriteValue32_v2");
  OK(record(event, streams[0]));
  written = calls_of("cuStreamWriteValue32_v2") - written;
  uint64_t waited = calls_of("cuStreamWaitValue32_v2");
  OK(wait_event(streams[1], event, 0));
  waited = calls_of("cuStreamWaitValue32_v2") - waited;
  return 10 * written + waited;
}

// A hold may come once all is launched: behind a gate the stream says how far it is, once.
static void numbers(void) {
  open_all();
  pointer at = words(), flag = words();
  *(volatile unsigned *)flag = 0;
  // Both have their XQueues.
  for (int s = 0; s < 2; s++) OK(fill_with(streams[s], at, 1));
  OK(synchronize());
  CHECK(await_first(events[0]) == 0);
  OK(await_value(streams[0], flag, 1, 0));
  // Two, as the first may be in front of all gates.
  for (int n = 0; n < 2; n++) OK(fill_with(streams[0], at, 2));
  CHECK(await_first(events[1]) == 11);
  CHECK(await_first(events[2]) == 0);
  OK(fill_with(streams[0], at, 3));
  CHECK(await_first(events[3]) == 11);
  CHECK(await_first(events[3]) == 0);
  // What waits for a number is held where that is.
  OK(fill_with(streams[1], at, 4));
  uint64_t written = calls_of("cuStreamWriteValue32_v2");
  OK(record(events[4], streams[1]));
  CHECK(calls_of("cuStreamWriteValue32_v2") == written + 1);
  *(volatile unsigned *)flag = 1;
  OK(synchronize());
  CHECK(all_are(at, 4));
}

int main(int count, char **words) {
  static const mode modes[] = {{"training", training}, {"numbers", numbers}};
  record = find("cuEventRecord");
  wait_event = find("cuStreamWaitEvent");
  await_value = find("cuStreamWaitValue32_v2");
  change = find("cuGraphExecKernelNodeSetParams_v2");
  launch_graph = find("cuGraphLaunch");
  call_host = find("cuLaunchHostFunc");
  return run_mode(modes, 2, count, words);
}
