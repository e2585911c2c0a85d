// A program that launches graphs through CUDA's driver, in the ways that its first argument names,
// and checks what they did. It prints a line that begins with FAILED for what is wrong.

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(truth) \
  if (!(truth)) printf("FAILED in line %d: %s\n", __LINE__, #truth)
#define OK(call) CHECK((call) == 0)

typedef void *handle;
typedef uint64_t pointer;

static const char *const CODE =
    ".version 7.0\n.target sm_70\n.visible .entry fill\n.visible .entry xs_note\n";

// `CUDA_KERNEL_NODE_PARAMS_v2`.
typedef struct {
  handle function;
  unsigned grid[3], block[3], shared;
  void **parameters, **extra;
  handle kernel, context;
} kernel_node;

// A graph of so many kernels in a row, each of which takes so long and is counted, and one that
// fills a word behind them.
enum { KERNELS = 40 };
typedef struct {
  handle graph, exec, nodes[KERNELS + 1];
  // The sixth word of the notes is not used by the kernels. Memory of the emulated device can be
  // read by the host.
  volatile uint64_t *notes;
  pointer word;
  uint64_t ns;
} row;

static handle note, fill;
static int (*launch)(handle, handle), (*stream_synchronize)(handle);
static int (*exec_destroy)(handle), (*graph_destroy)(handle);

static void *find(const char *name) {
  static void *library;
  if (!library) library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *found = library ? dlsym(library, name) : NULL;
  if (!found) printf("FAILED: no %s\n", name), exit(1);
  return found;
}

// A function of the driver's own library, without the interposer.
static void *find_behind(const char *name) {
  void *driver = dlopen(getenv("XSCHED_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  void *found = driver ? dlsym(driver, name) : NULL;
  if (!found) printf("FAILED: no %s\n", name), exit(1);
  return found;
}

static uint64_t gates(void) {
  return ((uint64_t(*)(const char *))find_behind("cuEmulatedCalls"))("cuGraphAddBatchMemOpNode");
}

static uint64_t handles(void) {
  return ((uint64_t(*)(void))find_behind("cuEmulatedHandles"))();
}

static void begin(void) {
  handle context, module;
  OK(((int (*)(handle *, int))find("cuDevicePrimaryCtxRetain"))(&context, 0));
  OK(((int (*)(handle))find("cuCtxSetCurrent"))(context));
  OK(((int (*)(handle *, const void *))find("cuModuleLoadData"))(&module, CODE));
  int (*function)(handle *, handle, const char *) = find("cuModuleGetFunction");
  OK(function(&fill, module, "fill"));
  OK(function(&note, module, "xs_note"));
}

static pointer memory(size_t bytes) {
  pointer at = 0;
  OK(((int (*)(pointer *, size_t))find("cuMemAlloc_v2"))(&at, bytes));
  memset((void *)at, 0, bytes);
  return at;
}

static handle stream_of(int priority) {
  handle stream;
  OK(((int (*)(handle *, unsigned, int))find("cuStreamCreateWithPriority"))(&stream, 1, priority));
  return stream;
}

static uint64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

static uint64_t done(const row *row) { return row->notes[1]; }

static kernel_node kernel_of(handle function, void **parameters) {
  kernel_node node = {function, {1, 1, 1}, {1, 1, 1}, 0, parameters, NULL, NULL, NULL};
  return node;
}

// Adds a kernel behind the one before.
static void add(row *row, int at, kernel_node *node) {
  OK(((int (*)(handle *, handle, handle *, size_t, kernel_node *))find("cuGraphAddKernelNode_v2"))(
      &row->nodes[at], row->graph, &row->nodes[at - !!at], !!at, node));
}

static row row_of(uint64_t ns, unsigned value) {
  row row = {.notes = (volatile uint64_t *)memory(128), .word = memory(64), .ns = ns};
  pointer clock = memory(64), notes = (pointer)row.notes;
  unsigned words = 1;
  void *parameters[] = {&ns, &clock, &notes}, *to_fill[] = {&row.word, &value, &words};
  kernel_node noted = kernel_of(note, parameters), filled = kernel_of(fill, to_fill);
  OK(((int (*)(handle *, unsigned))find("cuGraphCreate"))(&row.graph, 0));
  for (int n = 0; n < KERNELS; n++) add(&row, n, &noted);
  add(&row, KERNELS, &filled);
  return row;
}

static void make_executable(row *row, unsigned long long flags) {
  OK(((int (*)(handle *, handle, unsigned long long))find("cuGraphInstantiateWithFlags"))(
      &row->exec, row->graph, flags));
}

// Launches it so often, and waits for each.
static void run(row *row, handle stream, int times) {
  for (int n = 0; n < times; n++) {
    uint64_t before = done(row);
    OK(launch(row->exec, stream));
    OK(stream_synchronize(stream));
    CHECK(done(row) == before + KERNELS);
  }
}

static uint64_t queue_of(handle stream) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_NOLOAD);
  uint64_t hwq = 0, xq = 0;
  OK(((int (*)(uint64_t *, handle))dlsym(library, "xsched_private_stream_queue_get"))(&hwq, stream));
  OK(((int (*)(uint64_t *, uint64_t))dlsym(library, "XQueueGet"))(&xq, hwq));
  return xq;
}

static void suspend(uint64_t xq) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_NOLOAD);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueSuspend"))(xq, 0));
}

static void resume(uint64_t xq) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_NOLOAD);
  OK(((int (*)(uint64_t, int64_t))dlsym(library, "XQueueResume"))(xq, 0));
}

// Launches it, suspends the queue after some kernels, and answers how many have run when nothing
// more seems to. It stays suspended.
static uint64_t held_at(row *row, handle stream, uint64_t xq) {
  uint64_t before = done(row);
  OK(launch(row->exec, stream));
  while (done(row) < before + 3) usleep(50);
  suspend(xq);
  usleep(5 * row->ns / 1000 + 20000);
  uint64_t held = done(row) - before;
  usleep(10 * row->ns / 1000);
  // Where the gates were opened since a thread got no processor, it is not held.
  return done(row) - before == held ? held : KERNELS;
}

// Whether holds stop it. On a busy machine the watch may open gates, so it is tried more than once.
static int is_gated(row *row, handle stream, uint64_t xq) {
  for (int n = 0; n < 4; n++) {
    uint64_t before = done(row);
    int is_held = held_at(row, stream, xq) < KERNELS;
    resume(xq);
    OK(stream_synchronize(stream));
    CHECK(done(row) == before + KERNELS && *(volatile unsigned *)row->word == 7);
    if (is_held) return 1;
  }
  return 0;
}

// Whether it runs to its end though the queue is suspended meanwhile.
static int runs_on(row *row, handle stream, uint64_t xq) {
  uint64_t end = done(row) + KERNELS, begin = now_us();
  OK(launch(row->exec, stream));
  while (done(row) + KERNELS < end + 3) usleep(50);
  suspend(xq);
  while (done(row) < end && now_us() < begin + 3000000) usleep(1000);
  int ended = done(row) == end;
  resume(xq);
  OK(stream_synchronize(stream));
  return ended;
}

// Launches a graph until it has gates. The XQueue of its stream.
static uint64_t gets_gates(row *row, unsigned long long flags, handle stream) {
  make_executable(row, flags);
  run(row, stream, 1);
  uint64_t xq = queue_of(stream);
  run(row, stream, 3);
  CHECK(gates() > 0);
  return xq;
}

// A graph with gates in a stream of its own, made of a graph that is gone by then.
static row gated_row(handle *stream, uint64_t *xq) {
  row row = row_of(500000, 7);
  *stream = stream_of(0);
  // As PyTorch does: nothing is allocated, so nothing is freed.
  *xq = gets_gates(&row, 1, *stream);
  return row;
}

static void held(void) {
  handle stream;
  uint64_t xq;
  row row = gated_row(&stream, &xq);
  OK(graph_destroy(row.graph));
  CHECK(is_gated(&row, stream, xq));
  OK(exec_destroy(row.exec));
}

// Many holds at any time.
static void holds(void) {
  handle stream;
  uint64_t xq;
  row row = gated_row(&stream, &xq);
  OK(graph_destroy(row.graph));
  int stopped = 0, tried = 0;
  uint64_t launched = 4;
  srand(1);
  for (int n = 0; n < 200; n++) {
    if (done(&row) == launched * KERNELS) {
      OK(launch(row.exec, stream));
      launched++;
    }
    usleep(rand() % 3000);
    suspend(xq);
    usleep(1500);
    uint64_t first = done(&row);
    usleep(1500);
    if (first < launched * KERNELS) tried++, stopped += done(&row) == first;
    resume(xq);
  }
  OK(stream_synchronize(stream));
  CHECK(done(&row) == launched * KERNELS);
  if (tried < 100 || stopped < tried / 2) printf("FAILED: %d of %d stopped\n", stopped, tried);
  OK(exec_destroy(row.exec));
}

// An urgent stream beside a long graph.
static void urgent(void) {
  handle stream = stream_of(0), soon = stream_of(-1);
  row row = row_of(500000, 7), brief = row_of(300000, 7);
  make_executable(&row, 0);
  make_executable(&brief, 0);
  // Their queues, the second of which tells them apart.
  run(&row, stream, 1);
  run(&brief, soon, 1);
  run(&row, stream, 3);
  uint64_t most = KERNELS, launched = done(&row);
  for (int n = 0; n < 5; n++) {
    OK(launch(row.exec, stream));
    launched += KERNELS;
    while (done(&row) < launched - KERNELS + 5) usleep(50);
    uint64_t before = done(&row);
    run(&brief, soon, 1);
    uint64_t passed = done(&row) - before;
    most = passed < most ? passed : most;
    OK(stream_synchronize(stream));
    CHECK(done(&row) == launched);
  }
  // One that ran, and what is between two gates.
  if (most > 3) printf("FAILED: %d kernels ran beside the urgent stream\n", (int)most);
}

static int changes(row *row, const char *how) {
  uint64_t ns = 500000;
  unsigned value = 7, words = 1;
  pointer clock = memory(64), notes = (pointer)row->notes;
  void *parameters[] = {&ns, &clock, &notes}, *to_fill[] = {&row->word, &value, &words};
  kernel_node noted = kernel_of(note, parameters), filled = kernel_of(fill, to_fill);
  uint64_t info[3];
  handle node;
  if (!strcmp(how, "update"))
    return ((int (*)(handle, handle, void *))find("cuGraphExecUpdate_v2"))(row->exec, row->graph,
                                                                           info);
  if (!strcmp(how, "update_old"))
    return ((int (*)(handle, handle, handle *, void *))find("cuGraphExecUpdate"))(
        row->exec, row->graph, &node, info);
  if (!strcmp(how, "set_new"))
    return ((int (*)(handle, handle, void *))find("cuGraphExecKernelNodeSetParams_v2"))(
        row->exec, row->nodes[KERNELS], &filled);
  if (!strcmp(how, "set"))
    return ((int (*)(handle, handle, void *))find("cuGraphExecKernelNodeSetParams"))(
        row->exec, row->nodes[1], &noted);
  return ((int (*)(handle, handle, unsigned))find("cuGraphNodeSetEnabled"))(row->exec,
                                                                            row->nodes[5], 1);
}

static void changed_by(const char *how) {
  handle stream;
  uint64_t xq;
  row row = gated_row(&stream, &xq);
  // Its copy is in the stream, and held, when it changes.
  uint64_t before = done(&row);
  held_at(&row, stream, xq);
  OK(changes(&row, how));
  resume(xq);
  OK(stream_synchronize(stream));
  CHECK(done(&row) == before + KERNELS);
  CHECK(runs_on(&row, stream, xq));
  OK(exec_destroy(row.exec));
}

static void changed(void) {
  const char *const ALL[] = {"update", "update_old", "set", "set_new", "enable"};
  for (int n = 0; n < 5; n++) changed_by(ALL[n]);
}

// A change of what it does counts from the next launch on.
static void disabled(void) {
  handle stream;
  uint64_t xq;
  row row = gated_row(&stream, &xq);
  int (*enable)(handle, handle, unsigned) = find("cuGraphNodeSetEnabled");
  uint64_t before = done(&row);
  OK(launch(row.exec, stream));
  OK(enable(row.exec, row.nodes[5], 0));
  OK(launch(row.exec, stream));
  OK(stream_synchronize(stream));
  CHECK(done(&row) == before + 2 * KERNELS - 1);
}

// Ends it while its copy is in the stream and held.
static void ended(void) {
  handle stream;
  uint64_t xq;
  row first = gated_row(&stream, &xq);
  OK(graph_destroy(first.graph));
  OK(exec_destroy(first.exec));
  uint64_t before = handles();
  for (int n = 0; n < 3; n++) {
    row row = row_of(500000, 7);
    make_executable(&row, 0);
    OK(graph_destroy(row.graph));
    run(&row, stream, 4);
    uint64_t ran = done(&row);
    held_at(&row, stream, xq);
    OK(exec_destroy(row.exec));
    resume(xq);
    OK(stream_synchronize(stream));
    CHECK(done(&row) == ran + KERNELS);
  }
  // Events for each, at most, which are destroyed when a word is next given back.
  uint64_t after = handles();
  if (after > before + 4) printf("FAILED: %d handles more\n", (int)(after - before));
}

// Launches it in another stream while its copy is held in the first: both end, one after the other.
static void elsewhere(void) {
  handle stream, other = stream_of(0);
  uint64_t xq;
  row row = gated_row(&stream, &xq);
  uint64_t before = done(&row);
  held_at(&row, stream, xq);
  uint64_t begin = now_us();
  OK(launch(row.exec, other));
  CHECK(now_us() < begin + 900000);
  OK(stream_synchronize(other));
  CHECK(done(&row) == before + 2 * KERNELS);
  resume(xq);
  OK(stream_synchronize(stream));
  CHECK(done(&row) == before + 2 * KERNELS);
  CHECK(runs_on(&row, stream, xq));
}

// Launches of one executable run one after the other, in whatever streams they are, whether it is
// the copy or the program's. Several kernels may run at once here.
static row *volatile watched;
static volatile int overlaps, is_over;

static void *watches(void *unused) {
  while (!is_over) {
    row *row = watched;
    // In this order, since kernels may start and end in between.
    uint64_t started = row->notes[0];
    if (started > row->notes[1] + 1) overlaps++;
  }
  return unused;
}

static void order(void) {
  handle streams[3] = {stream_of(0), stream_of(0), stream_of(0)}, stream = stream_of(0);
  row first = row_of(100000, 7);
  make_executable(&first, 0);
  run(&first, stream, 3);
  uint64_t xq = queue_of(stream);
  watched = &first;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, watches, NULL) == 0);
  srand(2);
  row rows[12];
  for (int n = 0; n < 12; n++) {
    rows[n] = row_of(100000, 7);
    make_executable(&rows[n], 0);
    run(&rows[n], stream, 3);
    uint64_t launched = done(&rows[n]);
    watched = &rows[n];
    for (int m = 0; m < 6; m++, launched += KERNELS) {
      handle into = rand() % 3 || m < 2 ? stream : streams[rand() % 3];
      OK(launch(rows[n].exec, into));
      usleep(rand() % 2000);
      if (rand() % 2) suspend(xq), usleep(rand() % 1000), resume(xq);
      if (m == 3) OK(((int (*)(handle, handle, unsigned))find("cuGraphNodeSetEnabled"))(
            rows[n].exec, rows[n].nodes[5], 1));
    }
    for (int s = 0; s < 3; s++) OK(stream_synchronize(streams[s]));
    OK(stream_synchronize(stream));
    CHECK(done(&rows[n]) == launched);
  }
  is_over = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(gates() > 12);
  CHECK(overlaps == 0);
}

// Launches a graph behind so many of its kernels. One into an urgent stream waits until the launch
// before has begun, which would be held for it otherwise.
static void launch_behind(row *row, handle stream, int is_urgent, uint64_t *launched) {
  while (is_urgent && *launched && row->notes[0] < *launched - KERNELS + 1) usleep(50);
  OK(launch(row->exec, stream));
  *launched += KERNELS;
}

// The same for an urgent stream, which is held for no other, and whose launches are not measured.
static void priorities(void) {
  handle streams[3] = {stream_of(0), stream_of(-1), stream_of(0)};
  row first = row_of(50000, 7), second = row_of(50000, 7), rows[16];
  make_executable(&first, 0);
  make_executable(&second, 0);
  run(&first, streams[0], 1);
  run(&second, streams[1], 1);
  watched = &first;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, watches, NULL) == 0);
  int (*enable)(handle, handle, unsigned) = find("cuGraphNodeSetEnabled");
  srand(3);
  for (int n = 0; n < 16; n++) {
    row *row = &rows[n];
    *row = row_of(50000, 7);
    make_executable(row, 0);
    // Measured, but for a launch before, between or behind, which may be in the way still.
    int urgent = rand() % 5;
    uint64_t launched = 0;
    watched = row;
    for (int m = 0; m < 4; m++) {
      if (m == urgent) launch_behind(row, streams[1], 1, &launched);
      launch_behind(row, streams[0], 0, &launched);
      if (m < 3) OK(stream_synchronize(streams[0]));
    }
    for (int m = 0; m < 6; m++) {
      int into = rand() % 3;
      launch_behind(row, streams[into], into == 1, &launched);
      if (rand() % 2) usleep(rand() % 1000);
      if (m == 3) OK(enable(row->exec, row->nodes[5], 1));
    }
    for (int s = 0; s < 3; s++) OK(stream_synchronize(streams[s]));
    if (done(row) != launched)
      printf("FAILED: %d of %d kernels\n", (int)done(row), (int)launched);
  }
  is_over = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(gates() > 0);
  CHECK(overlaps == 0);
}

// An urgent stream waits for an event behind a graph with gates: the graph is not held for it, now
// or later.
static void awaited(void) {
  handle stream = stream_of(0), soon = stream_of(-1), event;
  row row = row_of(300000, 7), brief = row_of(10000, 7);
  make_executable(&row, 0);
  make_executable(&brief, 0);
  OK(((int (*)(handle *, unsigned))find("cuEventCreate"))(&event, 0));
  run(&row, stream, 1);
  run(&brief, soon, 1);
  run(&row, stream, 3);
  CHECK(gates() > 0);
  // A wait for what has run changes nothing.
  OK(((int (*)(handle, handle))find("cuEventRecord"))(event, stream));
  OK(stream_synchronize(stream));
  OK(((int (*)(handle, handle, unsigned))find("cuStreamWaitEvent"))(soon, event, 0));
  CHECK(is_gated(&row, stream, queue_of(stream)));
  for (int n = 0; n < 3; n++) {
    uint64_t before = done(&row);
    OK(launch(row.exec, stream));
    OK(((int (*)(handle, handle))find("cuEventRecord"))(event, stream));
    OK(((int (*)(handle, handle, unsigned))find("cuStreamWaitEvent"))(soon, event, 0));
    run(&brief, soon, 1);
    CHECK(done(&row) == before + KERNELS);
  }
  CHECK(runs_on(&row, stream, queue_of(stream)));
}

// The kernels of a row, without a graph.
static void launch_kernels(row *row, handle stream) {
  pointer clock = (pointer)&row->notes[8], notes = (pointer)row->notes;
  void *parameters[] = {&row->ns, &clock, &notes};
  for (int n = 0; n < KERNELS; n++)
    OK(((int (*)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle,
                 void **, void **))find("cuLaunchKernel"))(note, 1, 1, 1, 1, 1, 1, 0, stream,
                                                          parameters, NULL));
}

// An urgent stream waits for an event behind kernels of another stream: these are not held for it.
static void awaited_kernels(void) {
  handle stream = stream_of(0), soon = stream_of(-1), event;
  row row = row_of(300000, 7), brief = row_of(10000, 7);
  OK(((int (*)(handle *, unsigned))find("cuEventCreate"))(&event, 0));
  launch_kernels(&brief, soon);
  launch_kernels(&row, stream);
  OK(stream_synchronize(stream));
  for (int n = 0; n < 5; n++) {
    uint64_t before = done(&row);
    launch_kernels(&row, stream);
    OK(((int (*)(handle, handle))find("cuEventRecord"))(event, stream));
    OK(((int (*)(handle, handle, unsigned))find("cuStreamWaitEvent"))(soon, event, 0));
    launch_kernels(&brief, soon);
    OK(stream_synchronize(soon));
    CHECK(done(&row) == before + KERNELS);
  }
}

// In a default stream of a thread.
static void past(void) {
  handle stream;
  uint64_t xq;
  row row = gated_row(&stream, &xq);
  uint64_t before = done(&row);
  OK(launch(row.exec, stream));
  OK(((int (*)(handle, handle))find("cuGraphLaunch_ptsz"))(row.exec, NULL));
  OK(launch(row.exec, stream));
  OK(stream_synchronize((handle)2));
  OK(stream_synchronize(stream));
  CHECK(done(&row) == before + 3 * KERNELS && row.notes[0] == row.notes[1]);
}

// Launches it after its stream has ended.
static void orphan(void) {
  handle stream, other = stream_of(0);
  uint64_t xq;
  row row = gated_row(&stream, &xq);
  uint64_t before = done(&row);
  OK(launch(row.exec, stream));
  // What was launched there runs on, and the next launch behind it.
  OK(((int (*)(handle))find("cuStreamDestroy_v2"))(stream));
  OK(launch(row.exec, other));
  OK(stream_synchronize(other));
  CHECK(done(&row) == before + 2 * KERNELS);
  run(&row, other, 3);
  OK(exec_destroy(row.exec));
}

// After a reset of the device it goes with the rest.
static void reset(void) {
  handle stream;
  uint64_t xq;
  for (int n = 0; n < 2; n++) {
    row row = gated_row(&stream, &xq);
    CHECK(row.exec != NULL);
    OK(((int (*)(int))find("cuDevicePrimaryCtxReset_v2"))(0));
    begin();
  }
}

// Graphs that stay as they are.
static void stays(row *row, unsigned long long flags, handle stream) {
  uint64_t before = gates();
  make_executable(row, flags);
  run(row, stream, 5);
  if (gates() != before) printf("FAILED: flags %d: it has gates\n", (int)flags);
  OK(exec_destroy(row->exec));
}

static void left(void) {
  handle stream = stream_of(0);
  row row = row_of(300000, 7), brief = row_of(2000, 7);
  stays(&row, 4, stream);
  // Legacy default streams have no gates.
  stays(&row, 0, NULL);
  // Shorter than the spacing, which is set for this.
  stays(&brief, 0, stream);
  // A node that allocates memory.
  handle allocates = NULL;
  pointer from_pool;
  OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(stream, 2));
  OK(((int (*)(pointer *, size_t, handle))find("cuMemAllocAsync"))(&from_pool, 64, stream));
  OK(((int (*)(handle, handle *))find("cuStreamEndCapture"))(stream, &allocates));
  handle copy;
  CHECK(((int (*)(handle *, handle))find("cuGraphClone"))(&copy, allocates) == 801);
  handle exec;
  OK(((int (*)(handle *, handle, unsigned long long))find("cuGraphInstantiateWithFlags"))(
      &exec, allocates, 0));
  for (int n = 0; n < 4; n++) OK(launch(exec, stream));
  OK(stream_synchronize(stream));
}

// One that could have gates, where something else says that it has none.
static void plain(void) {
  row row = row_of(300000, 7);
  stays(&row, 0, stream_of(0));
  CHECK(((uint64_t(*)(const char *))find_behind("cuEmulatedCalls"))("cuGraphClone") ==
        (getenv("COPIES") ? 1 : 0));
}

// Node priorities are passed on; a child, and a function of the host's, are nodes as others are.
static int called;
static void calls(void *data) { *(int *)data += 1; }

static void nodes(void) {
  handle stream = stream_of(0);
  row row = row_of(500000, 7), child = row_of(10000, 7);
  struct {
    void (*function)(void *);
    void *data;
  } host = {calls, &called};
  handle node;
  typedef int added(handle *, handle, handle *, size_t, void *);
  added *add_host = find("cuGraphAddHostNode"), *add_child = find("cuGraphAddChildGraphNode");
  OK(add_host(&node, row.graph, &row.nodes[9], 1, &host));
  OK(add_child(&node, row.graph, &row.nodes[9], 1, child.graph));
  CHECK(is_gated(&row, stream, gets_gates(&row, 8, stream)));
  CHECK((uint64_t)called * KERNELS == done(&row) && done(&child) == done(&row));
}

// Kernels may begin before those in front of them end, all but one.
static void edges(void) {
  handle stream = stream_of(0);
  row row = row_of(500000, 7);
  uint64_t data = 1 | 1 << 16;
  typedef int edges(handle, handle *, handle *, uint64_t *, size_t);
  edges *separate = find("cuGraphRemoveDependencies_v2"), *join = find("cuGraphAddDependencies_v2");
  for (int n = 2; n < KERNELS; n++) {
    OK(separate(row.graph, &row.nodes[n - 1], &row.nodes[n], NULL, 1));
    OK(join(row.graph, &row.nodes[n - 1], &row.nodes[n], &data, 1));
  }
  CHECK(separate(row.graph, &row.nodes[1], &row.nodes[2], NULL, 1) == 1);
  CHECK(is_gated(&row, stream, gets_gates(&row, 0, stream)));
}

// Captured into another graph, it is what the program made.
static void captured(void) {
  handle stream, graph, other = stream_of(0);
  uint64_t xq;
  row row = gated_row(&stream, &xq);
  uint64_t before = done(&row);
  OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(other, 2));
  OK(launch(row.exec, other));
  OK(((int (*)(handle, handle *))find("cuStreamEndCapture"))(other, &graph));
  CHECK(done(&row) == before);
  CHECK(is_gated(&row, stream, xq));
}

// In a stream with an XQueue of the program's own.
static void own(void) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW);
  CHECK(library != NULL);
  uint64_t hwq = 0, xq = 0;
  handle stream = stream_of(0);
  OK(((int (*)(uint64_t *, handle))dlsym(library, "xsched_private_cuda_queue_create"))(
      &hwq, stream));
  OK(((int (*)(uint64_t *, uint64_t, int64_t, int64_t))dlsym(library, "XQueueCreate"))(
      &xq, hwq, 2, 0));
  row row = row_of(500000, 7);
  CHECK(gets_gates(&row, 0, stream) == xq);
  CHECK(is_gated(&row, stream, xq));
  OK(exec_destroy(row.exec));
  OK(((int (*)(uint64_t))dlsym(library, "XQueueDestroy"))(xq));
  OK(((int (*)(uint64_t))dlsym(library, "HwQueueDestroy"))(hwq));
}

int main(int count, char **words) {
  static const struct {
    const char *name;
    void (*run)(void);
  } MODES[] = {{"held", held}, {"holds", holds}, {"urgent", urgent}, {"changed", changed},
               {"disabled", disabled}, {"ended", ended}, {"elsewhere", elsewhere}, {"past", past}, {"order", order}, {"priorities", priorities}, {"awaited", awaited},
               {"awaited-kernels", awaited_kernels},
               {"orphan", orphan}, {"reset", reset}, {"left", left}, {"plain", plain},
               {"nodes", nodes}, {"edges", edges}, {"captured", captured}, {"own", own}};
  alarm(60);
  if (count > 1 && (!strcmp(words[1], "order") || !strcmp(words[1], "priorities"))) setenv("XSCHED_EMULATED_UNITS", "8", 1);
  launch = find("cuGraphLaunch");
  stream_synchronize = find("cuStreamSynchronize");
  exec_destroy = find("cuGraphExecDestroy");
  graph_destroy = find("cuGraphDestroy");
  OK(((int (*)(unsigned))find("cuInit"))(0));
  begin();
  for (unsigned n = 0; n < sizeof MODES / sizeof *MODES; n++)
    if (count > 1 && !strcmp(words[1], MODES[n].name)) {
      MODES[n].run();
      printf("%s\n", words[1]);
    }
  return 0;
}
