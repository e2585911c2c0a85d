// Programs drawn at random: kernels, copies, host functions, graphs, events and values that streams
// of all kinds wait for. None has a race, so what is in memory at the end follows from the order of
// the calls. Each ends in moments where nothing is scheduled.

#include "calls.h"

enum { STREAMS = 6, GRAPHS = 3, ADDS = 8, STEPS = 40 };
static const float ONE = 1;

// A cell is memory that one stream writes; others read it in between. A graph has one of its own,
// to which each of its launches adds, in whatever stream.
typedef struct {
  pointer at;
  float value;
} cell;

static handle streams[STREAMS], execs[GRAPHS], graphs[GRAPHS], nodes[GRAPHS];
static int is_blocking[STREAMS];
static cell cells[STREAMS], sums[GRAPHS];
static pointer one, zero, scratch[GRAPHS], flag_words, host_flag;
static volatile unsigned *host_word;
static unsigned flags, host_flags;
static volatile unsigned called;
static unsigned expected_calls;
static handle add, spin;
// Handles of hardware queue and XQueue that the program has made, if it has.
static uint64_t hwq, xq;
static void *preempt;

static int (*record)(handle, handle), (*await)(handle, handle, unsigned), (*event_sync)(handle);
static int (*await_value)(handle, pointer, unsigned, unsigned);
static int (*write_value)(handle, pointer, unsigned, unsigned);
static int (*call_host)(handle, void (*)(void *), void *), (*launch_graph)(handle, handle);
static int (*copy)(pointer, pointer, size_t, handle), (*query)(handle);

static uint64_t state;

static unsigned below(unsigned end) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % end;
}

static unsigned bits(float value) {
  unsigned word;
  memcpy(&word, &value, sizeof word);
  return word;
}

static handle event(void) {
  handle made = NULL;
  OK(((int (*)(handle *, unsigned))find("cuEventCreate"))(&made, 2));
  return made;
}

static void forget(handle event) { OK(((int (*)(handle))find("cuEventDestroy_v2"))(event)); }

static int add_to(handle stream, pointer a, pointer b, pointer sum) {
  unsigned words = WORDS;
  void *parameters[] = {&a, &b, &sum, &words};
  return launch_kernel(add, 1, 1, 1, WORDS, 1, 1, 0, stream, parameters, NULL);
}

static void set_cell(cell *cell, handle stream, float value) {
  OK(fill_with(stream, cell->at, bits(value)));
  cell->value = value;
}

// A word that nothing has waited for.
static pointer next_flag(void) {
  CHECK(flags < WORDS);
  return flag_words + 4 * flags++;
}

static void spend(handle stream, uint64_t ns) {
  uint64_t nowhere = 0;
  void *parameters[] = {&ns, &nowhere};
  OK(launch_kernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void take_time(handle stream) { spend(stream, 1000 * below(200)); }

static handle behind(handle graph, handle before, handle function, void **parameters) {
  kernel_node node = {function, {1, 1, 1}, {1, 1, 1}, 0, parameters, NULL, NULL, NULL};
  handle added = NULL;
  OK(((int (*)(handle *, handle, handle *, size_t, kernel_node *))find("cuGraphAddKernelNode_v2"))(
      &added, graph, &before, !!before, &node));
  return added;
}

static handle executable(handle graph) {
  handle exec = NULL;
  OK(((int (*)(handle *, handle, unsigned long long))find("cuGraphInstantiateWithFlags"))(
      &exec, graph, 0));
  return exec;
}

static handle new_graph(void) {
  handle graph = NULL;
  OK(((int (*)(handle *, unsigned))find("cuGraphCreate"))(&graph, 0));
  return graph;
}

// A graph that adds one to its cell this many times, each by way of other memory: two of them at a
// time would lose some.
static void make_graph(int g) {
  uint64_t ns = 1000 * below(60), nowhere = 0;
  unsigned words = WORDS;
  void *to_scratch[] = {&sums[g].at, &one, &scratch[g], &words}, *pause[] = {&ns, &nowhere};
  void *back[] = {&scratch[g], &zero, &sums[g].at, &words};
  handle last = NULL;
  graphs[g] = new_graph();
  for (int n = 0; n < ADDS; n++) {
    last = behind(graphs[g], last, add, to_scratch);
    last = behind(graphs[g], last, spin, pause);
    last = nodes[g] = behind(graphs[g], last, add, back);
  }
  execs[g] = executable(graphs[g]);
}

// The stream goes on when the event is there, by a node of a graph.
static void await_in_graph(handle stream, handle event) {
  handle graph = new_graph(), node = NULL;
  OK(((int (*)(handle *, handle, handle *, size_t, handle))find("cuGraphAddEventWaitNode"))(
      &node, graph, NULL, 0, event));
  handle exec = executable(graph);
  OK(launch_graph(exec, stream));
  OK(((int (*)(handle))find("cuGraphExecDestroy"))(exec));
  OK(((int (*)(handle))find("cuGraphDestroy"))(graph));
}

// What comes next in one stream comes behind what is in another one.
static void order(int first, int then) {
  handle before = streams[first], behind = streams[then], reached;
  pointer reached_word;
  int how = below(7);
  printf("  %d before %d, way %d\n", first, then, how);
  switch (how) {
    case 0:
      OK(stream_synchronize(before));
      return;
    case 1:
      while (query(before) == 600) usleep(20);
      return;
    case 2:
      reached_word = next_flag();
      OK(write_value(before, reached_word, 1, 0));
      OK(await_value(behind, reached_word, 1, 0));
      return;
    case 3:
      reached = event();
      OK(record(reached, before));
      OK(event_sync(reached));
      return forget(reached);
    case 4:
      reached = event();
      OK(record(reached, before));
      await_in_graph(behind, reached);
      return forget(reached);
    default:
      reached = event();
      OK(record(reached, before));
      OK(await(behind, reached, 0));
      forget(reached);
  }
}

// Whether no stream waits for another one unless it is told to.
static int is_apart(int s) { return s > 0 && !is_blocking[s]; }

// A stream waits for a value before what writes that is launched into another one.
static void await_first(int s) {
  int other = 1 + below(STREAMS - 1);
  if (other == s || !is_apart(s) || !is_apart(other)) return;
  printf("  it waits for stream %d\n", other);
  pointer word = next_flag();
  OK(await_value(streams[s], word, 1, 0));
  set_cell(&cells[s], streams[s], below(1000));
  take_time(streams[other]);
  OK(write_value(streams[other], word, 1, 0));
}

// A stream waits for what the host writes after it has launched more.
static void await_host(int s) {
  if (!is_apart(s)) return;
  OK(await_value(streams[s], host_flag, ++host_flags, 0));
  for (unsigned n = below(100); n > 0; n--) set_cell(&cells[s], streams[s], n);
  *host_word = host_flags;
}

static void calls(void *count) { __sync_fetch_and_add((unsigned *)count, 1); }

static void read_other(int s) {
  int other = below(STREAMS);
  if (other == s) return;
  order(other, s);
  if (below(2)) {
    OK(copy(cells[s].at, cells[other].at, WORDS * 4, streams[s]));
    cells[s].value = cells[other].value;
  } else {
    OK(add_to(streams[s], cells[s].at, cells[other].at, cells[s].at));
    cells[s].value += cells[other].value;
  }
  // Before it is written to again.
  order(s, other);
}

// Blocking streams and the legacy default stream wait for each other without being told to.
static void read_default(void) {
  int s = 1 + below(STREAMS - 1);
  if (!is_blocking[s]) return;
  take_time(streams[below(2) ? 0 : s]);
  OK(add_to(streams[0], cells[0].at, cells[s].at, cells[0].at));
  cells[0].value += cells[s].value;
  OK(add_to(streams[s], cells[s].at, cells[0].at, cells[s].at));
  cells[s].value += cells[0].value;
}

// What is launched next into both streams begins at once, by what a third one writes later.
static void begin_together(int one, int other) {
  int third = STREAMS - 1;
  while (third > 0 && (third == one || third == other || !is_apart(third))) third--;
  if (one == other || third < 1) return;
  pointer word = next_flag();
  spend(streams[third], 2000000);
  OK(write_value(streams[third], word, 1, 0));
  OK(await_value(streams[one], word, 1, 0));
  OK(await_value(streams[other], word, 1, 0));
}

// So often in one stream, each when the one before has run, that its copy gets gates; and then in
// another one while that runs.
static void settle(int g) {
  int s = 1 + below(STREAMS - 1), other = below(STREAMS);
  for (int n = 0; n < 4; n++) {
    OK(launch_graph(execs[g], streams[s]));
    OK(stream_synchronize(streams[s]));
  }
  begin_together(s, other);
  OK(launch_graph(execs[g], streams[s]));
  usleep(below(200));
  OK(launch_graph(execs[g], streams[other]));
  sums[g].value += 6 * ADDS;
}

static void launch_somewhere(void) {
  int g = below(GRAPHS);
  for (unsigned n = 1 + below(5); n > 0; n--) {
    int into = below(STREAMS);
    printf("  graph %d into stream %d\n", g, into);
    OK(launch_graph(execs[g], streams[into]));
    sums[g].value += ADDS;
  }
  // What is launched before runs as it was. From here on it is launched without gates.
  if (!below(30))
    OK(((int (*)(handle, handle, unsigned))find("cuGraphNodeSetEnabled"))(execs[g], nodes[g], 1));
}

// As a library does that uses the primary context as well.
static void retain(void) {
  handle context;
  OK(((int (*)(handle *, int))find("cuDevicePrimaryCtxRetain"))(&context, 0));
  OK(((int (*)(int))find("cuDevicePrimaryCtxRelease_v2"))(0));
}

static void step(void) {
  int s = below(STREAMS), what = below(12);
  printf("  step %d of stream %d\n", what, s);
  switch (what) {
    case 0: set_cell(&cells[s], streams[s], below(1000)); break;
    case 1: take_time(streams[s]); break;
    case 2: await_first(s); break;
    case 3: await_host(s); break;
    case 4:
      OK(call_host(streams[s], calls, (void *)&called));
      expected_calls++;
      break;
    case 5: read_default(); break;
    case 6: case 7: launch_somewhere(); break;
    case 8: retain(); break;
    default: read_other(s);
  }
}

static void *symbol(const char *name) {
  void *found = dlsym(preempt, name);
  CHECK(found != NULL);
  return found;
}

// An XQueue of the program's own on a stream, now and then.
static void make_queue(void) {
  hwq = xq = 0;
  if (below(3)) return;
  handle stream = streams[2];
  OK(((int (*)(uint64_t *, handle))symbol("xsched_private_cuda_queue_create"))(&hwq, stream));
  OK(((int (*)(uint64_t *, uint64_t, int64_t, int64_t))symbol("XQueueCreate"))(
      &xq, hwq, 1 + below(2), 0));
}

static void end_queue(void) {
  if (!hwq) return;
  int answer;
  OK(((int (*)(uint64_t, int *))symbol("XQueueQuery"))(xq, &answer));
  OK(((int (*)(uint64_t))symbol("XQueueDestroy"))(xq));
  OK(((int (*)(uint64_t))symbol("HwQueueDestroy"))(hwq));
}

// Holds streams at any time, and lets go of them, unlike the program's own thread.
static volatile int is_over;

static void *holds(void *seed) {
  uint64_t own = (uintptr_t)seed;
  int (*queue)(uint64_t *, handle) = symbol("xsched_private_stream_queue_get");
  int (*get)(uint64_t *, uint64_t) = symbol("XQueueGet");
  int (*suspend)(uint64_t, int64_t) = symbol("XQueueSuspend");
  int (*resume)(uint64_t, int64_t) = symbol("XQueueResume");
  while (!is_over) {
    own = own * 6364136223846793005u + 1442695040888963407u;
    uint64_t hardware = 0, held = 0;
    handle stream = streams[1 + (own >> 40) % (STREAMS - 1)];
    if (!queue(&hardware, stream) && !get(&held, hardware) && !suspend(held, 0)) {
      usleep((own >> 33) % 500);
      resume(held, 0);
    }
    usleep((own >> 35) % 1000);
  }
  return NULL;
}

static float first_word(pointer at) {
  float read[WORDS];
  OK(to_host(read, at, sizeof read));
  for (int n = 1; n < WORDS; n++) CHECK(bits(read[n]) == bits(read[0]));
  return read[0];
}

static void check_cell(const char *what, int at, const cell *cell) {
  float found = first_word(cell->at);
  if (bits(found) != bits(cell->value))
    printf("FAILED: %s %d is %g, not %g\n", what, at, found, cell->value);
}

static pointer cell_of(float value) {
  pointer at = words();
  OK(fill_with(NULL, at, bits(value)));
  return at;
}

static void set_up(void) {
  int (*of_priority)(handle *, unsigned, int) = find("cuStreamCreateWithPriority");
  streams[0] = NULL;
  is_blocking[0] = 0;
  for (int s = 1; s < STREAMS; s++) {
    is_blocking[s] = !below(4);
    int priority = -(int)below(3);
    printf("  stream %d, blocking %d, priority %d\n", s, is_blocking[s], priority);
    OK(of_priority(&streams[s], !is_blocking[s], priority));
  }
  // The default stream of this thread.
  if (!below(3)) {
    OK(stream_destroy(streams[STREAMS - 1]));
    streams[STREAMS - 1] = (handle)2;
    is_blocking[STREAMS - 1] = 1;
  }
  one = cell_of(ONE);
  zero = cell_of(0);
  flag_words = words();
  OK(fill_with(NULL, flag_words, 0));
  flags = host_flags = 0;
  host_word = NULL;
  OK(((int (*)(void **, size_t, unsigned))find("cuMemHostAlloc"))((void **)&host_word, 64, 3));
  OK(((int (*)(pointer *, void *, unsigned))find("cuMemHostGetDevicePointer_v2"))(
      &host_flag, (void *)host_word, 0));
  *host_word = 0;
  for (int s = 0; s < STREAMS; s++) cells[s] = (cell){cell_of(s), s};
  for (int g = 0; g < GRAPHS; g++) {
    sums[g] = (cell){cell_of(0), 0};
    scratch[g] = words();
    make_graph(g);
  }
  called = expected_calls = 0;
  OK(synchronize());
  make_queue();
  for (int g = 0; g < GRAPHS; g++) settle(g);
}

static void tear_down(void) {
  end_queue();
  for (int s = 1; s < STREAMS; s++)
    if (streams[s] != (handle)2) OK(stream_destroy(streams[s]));
  for (int g = 0; g < GRAPHS; g++) {
    OK(((int (*)(handle))find("cuGraphExecDestroy"))(execs[g]));
    OK(((int (*)(handle))find("cuGraphDestroy"))(graphs[g]));
    OK(release(sums[g].at));
    OK(release(scratch[g]));
  }
  for (int s = 0; s < STREAMS; s++) OK(release(cells[s].at));
  OK(release(one));
  OK(release(zero));
  OK(release(flag_words));
  OK(((int (*)(void *))find("cuMemFreeHost"))((void *)host_word));
}

static void find_kernels(void) {
  static const char *const CODE_OF_SPIN = ".version 7.0\n.target sm_70\n.visible .entry xs_spin\n"
                                          ".visible .entry vector_add\n";
  handle module;
  OK(((int (*)(handle *, const void *))find("cuModuleLoadData"))(&module, CODE_OF_SPIN));
  int (*function)(handle *, handle, const char *) = find("cuModuleGetFunction");
  OK(function(&add, module, "vector_add"));
  OK(function(&spin, module, "xs_spin"));
}

// The last reference to the primary context goes with all that is there, but for the XQueue of the
// program's own, and the program begins anew.
static void start_over(void) {
  OK(((int (*)(int))find("cuDevicePrimaryCtxRelease_v2"))(0));
  end_queue();
  primary = begin();
  find_kernels();
}

static void run_program(uint64_t seed, int is_held) {
  state = seed * 2 + 1;
  below(2);
  set_up();
  pthread_t thread;
  is_over = 0;
  if (is_held) CHECK(pthread_create(&thread, NULL, holds, (void *)(uintptr_t)seed) == 0);
  for (int n = 0; n < STEPS; n++) step();
  for (int s = 0; s < STREAMS; s++) OK(stream_synchronize(streams[s]));
  is_over = 1;
  if (is_held) CHECK(pthread_join(thread, NULL) == 0);
  for (int s = 0; s < STREAMS; s++) check_cell("the cell of stream", s, &cells[s]);
  for (int g = 0; g < GRAPHS; g++) check_cell("the sum of graph", g, &sums[g]);
  CHECK(called == expected_calls);
  if (below(4)) tear_down();
  else start_over();
}

static unsigned long number(const char *variable, unsigned long otherwise) {
  const char *text = getenv(variable);
  return text ? strtoul(text, NULL, 10) : otherwise;
}

static void random_programs(void) {
  // So that a program that hangs or ends is named.
  setvbuf(stdout, NULL, _IOLBF, 0);
  preempt = dlopen(getenv("PREEMPT"), RTLD_NOW);
  CHECK(preempt != NULL);
  record = find("cuEventRecord");
  await = find("cuStreamWaitEvent");
  event_sync = find("cuEventSynchronize");
  await_value = find("cuStreamWaitValue32_v2");
  write_value = find("cuStreamWriteValue32_v2");
  call_host = find("cuLaunchHostFunc");
  launch_graph = find("cuGraphLaunch");
  copy = find("cuMemcpyDtoDAsync_v2");
  query = find("cuStreamQuery");
  find_kernels();
  unsigned long first = number("FIRST_SEED", 1), end = first + number("SEEDS", 1);
  for (unsigned long seed = first; seed < end; seed++) {
    printf("seed %lu\n", seed);
    alarm(20);
    run_program(seed, getenv("HOLDS") != NULL);
  }
}

int main(int count, char **words) {
  static const mode MODES[] = {{"random", random_programs}};
  return run_mode(MODES, sizeof MODES / sizeof *MODES, count, words);
}
