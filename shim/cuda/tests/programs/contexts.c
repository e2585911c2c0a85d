// A program whose streams are those of several contexts and threads, in the ways that its first
// argument names. It prints a line that begins with FAILED for what is wrong, and ends by a signal if
// it waits for too long.

#include <dirent.h>
#include <sys/wait.h>

#include "calls.h"

typedef int (*launch_function)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, handle, void **, void **);

static void set_current(handle context) {
  OK(((int (*)(handle))find("cuCtxSetCurrent"))(context));
}

// Makes a context on a device current, by this version of the call, and the kernel in it.
static handle create_by(int version, int device, handle *function) {
  handle own = NULL, module;
  if (version == 2) OK(((int (*)(handle *, unsigned, int))find("cuCtxCreate_v2"))(&own, 0, device));
  if (version == 3)
    OK(((int (*)(handle *, void *, int, unsigned, int))find("cuCtxCreate_v3"))(&own, NULL, 0, 0,
                                                                               device));
  if (version == 4)
    OK(((int (*)(handle *, void *, unsigned, int))find("cuCtxCreate_v4"))(&own, NULL, 0, device));
  OK(((int (*)(handle *, const void *))find("cuModuleLoadData"))(&module, CODE));
  int (*get)(handle *, handle, const char *) = find("cuModuleGetFunction");
  OK(get(function, module, "fill"));
  return own;
}

static void end(handle context) { OK(((int (*)(handle))find("cuCtxDestroy_v2"))(context)); }

static int launch_by(launch_function launch, handle function, handle stream, pointer to,
                     unsigned value) {
  unsigned count = WORDS;
  void *parameters[] = {&to, &value, &count};
  return launch(function, 1, 1, 1, WORDS, 1, 1, 0, stream, parameters, NULL);
}

static int put(handle function, handle stream, pointer to, unsigned value) {
  return launch_by(launch_kernel, function, stream, to, value);
}

// A function that a stream calls: it ends when the flag is set.
static void waits_for(void *flag) {
  while (!__atomic_load_n((int *)flag, __ATOMIC_ACQUIRE)) usleep(200);
}

static int call_in(handle stream, int *flag) {
  return ((int (*)(handle, void (*)(void *), void *))find("cuLaunchHostFunc"))(stream, waits_for,
                                                                              flag);
}

// Naps that have begun.
static int naps_begun;

static void naps(void *nothing) {
  (void)nothing;
  __atomic_fetch_add(&naps_begun, 1, __ATOMIC_RELEASE);
  usleep(2000);
}

// A thread that has a stream of a context always busy with short work: one that ends nothing for
// long would hold no other.
static struct {
  handle stream, context;
  pthread_t thread;
  int is_over;
} busy;

static void set_current(handle context);

static void *keeps_busy(void *nothing) {
  (void)nothing;
  int (*call)(handle, void (*)(void *), void *) = find("cuLaunchHostFunc");
  set_current(busy.context);
  while (!__atomic_load_n(&busy.is_over, __ATOMIC_ACQUIRE)) OK(call(busy.stream, naps, NULL));
  return NULL;
}

static void keep_busy(handle stream) {
  busy.stream = stream;
  OK(((int (*)(handle *))find("cuCtxGetCurrent"))(&busy.context));
  CHECK(pthread_create(&busy.thread, NULL, keeps_busy, NULL) == 0);
  // On a busy machine the first of them comes late.
  for (int ms = 0; ms < 10000 && __atomic_load_n(&naps_begun, __ATOMIC_ACQUIRE) < 10; ms++) {
    usleep(1000);
  }
}

static void end_busy(void) {
  __atomic_store_n(&busy.is_over, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(busy.thread, NULL) == 0);
}

static void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }

static handle stream_of(int priority) {
  handle stream = NULL;
  OK(((int (*)(handle *, unsigned, int))find("cuStreamCreateWithPriority"))(&stream, 1, priority));
  return stream;
}

static void versions(void) {
  for (int version = 2; version <= 4; version++) {
    handle function, streams[4] = {NULL, (handle)1};
    handle own = create_by(version, 0, &function);
    OK(stream_create(&streams[2], 0));
    OK(stream_create(&streams[3], 1));
    pointer at[4];
    for (int s = 0; s < 4; s++) at[s] = words();
    for (unsigned n = 1; n <= 20; n++)
      for (int s = 0; s < 4; s++) OK(put(function, streams[s], at[s], n * 10 + s));
    for (int s = 0; s < 4; s++) OK(stream_synchronize(streams[s]));
    for (int s = 0; s < 4; s++) CHECK(all_are(at[s], 200 + s));
    // The default streams of two contexts are two.
    set_current(primary);
    pointer here = words();
    OK(fill_with(NULL, here, 7));
    CHECK(all_are(here, 7));
    end(own);
  }
}

// A context ends with work, and another one may get its place.
static void ends(void) {
  for (unsigned n = 1; n <= 20; n++) {
    handle function, own = create_by(2, 0, &function), streams[2] = {NULL};
    OK(stream_create(&streams[1], 1));
    pointer at[2] = {words(), words()};
    for (int s = 0; s < 2; s++)
      for (unsigned value = 1; value <= 10; value++) OK(put(function, streams[s], at[s], value));
    end(own);
    set_current(primary);
    // Streams of other contexts go on.
    pointer here = words();
    OK(fill_with(NULL, here, n));
    CHECK(all_are(here, n));
  }
}

// A context ends with the last reference, and not before: its streams keep their XQueues.
static void attached(void) {
  int (*query)(uint64_t, int *), state;
  handle again, function, own = create_by(2, 0, &function), stream;
  int (*detach)(handle) = find("cuCtxDetach");
  OK(stream_create(&stream, 1));
  pointer at = words();
  OK(put(function, stream, at, 1));
  void *library;
  uint64_t xq = queue_of(stream, &library);
  *(void **)&query = dlsym(library, "XQueueQuery");
  for (unsigned n = 2; n <= 4; n++) {
    OK(((int (*)(handle *, unsigned))find("cuCtxAttach"))(&again, 0));
    CHECK(again == own);
    OK(detach(own));
    OK(query(xq, &state));
    OK(put(function, stream, at, n));
    OK(stream_synchronize(stream));
    CHECK(all_are(at, n));
  }
  OK(detach(own));
  CHECK(query(xq, &state) == 3);
}

static unsigned count_threads(void) {
  unsigned count = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (tasks && readdir(tasks)) count++;
  if (tasks) closedir(tasks);
  return count;
}

// Says how many bytes each context leaves behind that is made, launched into and destroyed, and
// checks that they leave no thread. At level 2 they are beside one that stays.
static void kept(void) {
  enum { FIRST = 50, MANY = 200 };
  const char *level = getenv("XSCHED_AUTO_XQUEUE_LEVEL");
  size_t before = 0;
  unsigned threads = 0;
  if (level && !strcmp(level, "2")) OK(fill_with(NULL, words(), 1));
  for (unsigned n = 0; n < FIRST + MANY; n++) {
    if (n == FIRST) before = allocated(), threads = count_threads();
    handle function, own = create_by(2, 0, &function), stream;
    OK(stream_create(&stream, 1));
    pointer at = words();
    OK(put(function, stream, at, n));
    OK(stream_synchronize(stream));
    OK(put(function, NULL, at, n));
    end(own);
    set_current(primary);
  }
  size_t after = allocated();
  unsigned now = count_threads();
  if (now > threads + 5) printf("FAILED: %u threads more\n", now - threads);
  printf("%zu\n", after > before ? (after - before) / MANY : 0);
}

static void *launches_once(void *at) {
  set_current(primary);
  OK(put(fill, (handle)2, (pointer)(uintptr_t)at, 7));
  OK(stream_synchronize((handle)2));
  return NULL;
}

// Says how many events were made for threads that launch into their default streams and end, one
// after the other.
static void short_threads(void) {
  enum { MANY = 300 };
  pointer at = words();
  for (int n = 0; n < MANY; n++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, launches_once, (void *)(uintptr_t)at) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  printf("%lu\n", calls_of("cuEventCreate"));
  CHECK(all_are(at, 7));
}

// What is put into a stream while another context is current.
static void elsewhere(void) {
  handle function, own = create_by(2, 0, &function), stream;
  OK(stream_create(&stream, 1));
  pointer at = words();
  set_current(primary);
  int (*fill_async)(pointer, unsigned, size_t, handle) = find("cuMemsetD32Async");
  for (unsigned n = 1; n <= 20; n++) {
    OK(fill_async(at, n, WORDS, stream));
    // The driver does not allow it, and sees the context that is current here.
    CHECK(put(function, stream, at, 77) == 400);
  }
  OK(stream_synchronize(stream));
  CHECK(all_are(at, 20));
  end(own);
}

static void devices(void) {
  handle function, own = create_by(2, 1, &function);
  pointer at = words();
  OK(put(function, NULL, at, 3));
  CHECK(all_are(at, 3));
  set_current(primary);
  at = words();
  OK(fill_with(NULL, at, 4));
  CHECK(all_are(at, 4));
  end(own);
}

// A stream of another context waits while an urgent one has work.
static handle low_stream, low_function, low_context;
static pointer low_words;
static int was_launched;

static void *launches_low(void *nothing) {
  (void)nothing;
  set_current(low_context);
  OK(put(low_function, low_stream, low_words, 2));
  set(&was_launched);
  return NULL;
}

static void compared(void) {
  low_context = create_by(2, 0, &low_function);
  low_stream = stream_of(0);
  low_words = words();
  OK(put(low_function, low_stream, low_words, 1));
  OK(stream_synchronize(low_stream));
  set_current(primary);
  handle urgent = stream_of(-1);
  keep_busy(urgent);
  usleep(50 * 1000);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, launches_low, NULL) == 0);
  usleep(200 * 1000);
  CHECK(!__atomic_load_n(&was_launched, __ATOMIC_ACQUIRE));
  end_busy();
  CHECK(pthread_join(thread, NULL) == 0);
  OK(stream_synchronize(low_stream));
  set_current(low_context);
  CHECK(all_are(low_words, 2));
  end(low_context);
}

// Holds a stream of the current context behind its gates, for an urgent one of another context.
static int first_done;
static pointer held_words;

static handle hold(handle function, handle *urgent) {
  handle here = NULL, beside = NULL, low = stream_of(0);
  OK(((int (*)(handle *))find("cuCtxGetCurrent"))(&here));
  held_words = words();
  OK(call_in(low, &first_done));
  for (unsigned n = 1; n <= 8; n++) OK(put(function, low, held_words, n));
  handle other;
  beside = here == primary ? create_by(2, 0, &other) : primary;
  set_current(beside);
  *urgent = stream_of(-1);
  keep_busy(*urgent);
  set_current(here);
  usleep(50 * 1000);
  set(&first_done);
  usleep(50 * 1000);
  // The rest is behind closed gates.
  CHECK(((int (*)(handle))find("cuStreamQuery"))(low) == 600);
  return low;
}

static void frees(void) {
  handle urgent;
  pointer memory = words();
  handle low = hold(fill, &urgent);
  OK(release(memory));
  CHECK(((int (*)(handle))find("cuStreamQuery"))(low) == 0);
  end_busy();
  CHECK(all_are(held_words, 8));
}

// What a thread does while it ends, after the destructors of libraries' variables.
static pthread_key_t at_end;
static handle late_stream;
static pointer late_words, early_memory, late_memory;

static void launches_late(void *rounds) {
  (void)rounds;
  set_current(primary);
  for (unsigned n = 1; n <= 10; n++) OK(put(fill, late_stream, late_words, 100 + n));
  OK(stream_synchronize(late_stream));
}

static void *launches_until_the_end(void *rounds) {
  set_current(primary);
  OK(put(fill, late_stream, late_words, 1));
  CHECK(pthread_setspecific(at_end, rounds) == 0);
  return NULL;
}

static void of_ending_threads(void) {
  OK(stream_create(&late_stream, 1));
  late_words = words();
  CHECK(pthread_key_create(&at_end, launches_late) == 0);
  for (int n = 0; n < 5; n++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, launches_until_the_end, &at_end) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(all_are(late_words, 110));
  }
}

static void frees_late(void *low) {
  OK(release(late_memory));
  CHECK(((int (*)(handle))find("cuStreamQuery"))((handle)low) == 0);
}

static void *frees_until_the_end(void *nothing) {
  (void)nothing;
  handle urgent;
  set_current(primary);
  OK(release(early_memory));
  late_stream = hold(fill, &urgent);
  CHECK(pthread_setspecific(at_end, late_stream) == 0);
  return NULL;
}

static void frees_at_end(void) {
  early_memory = words();
  late_memory = words();
  pthread_t thread;
  CHECK(pthread_key_create(&at_end, frees_late) == 0);
  CHECK(pthread_create(&thread, NULL, frees_until_the_end, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  end_busy();
  CHECK(all_are(held_words, 8));
}

static int waited;

static void *waits_for_low(void *low) {
  set_current(primary);
  OK(stream_synchronize(low));
  set(&waited);
  return NULL;
}

static void waits(void) {
  handle urgent, low = hold(fill, &urgent);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, waits_for_low, low) == 0);
  usleep(200 * 1000);
  CHECK(!__atomic_load_n(&waited, __ATOMIC_ACQUIRE));
  end_busy();
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(all_are(held_words, 8));
}

static void ends_held(void) {
  handle urgent, function, own = create_by(2, 0, &function);
  hold(function, &urgent);
  end(own);
  end_busy();
  set_current(primary);
  OK(synchronize());
}

// The default streams of threads.
enum { THREADS = 6, EACH = 50 };
static handle second, second_function;

static void *launches_by_thread(void *number) {
  launch_function of_thread = find("cuLaunchKernel_ptsz");
  handle contexts[2] = {primary, second}, functions[2] = {fill, second_function};
  unsigned add = (unsigned)(uintptr_t)number * 100;
  for (int c = 0; c < 2; c++) {
    set_current(contexts[c]);
    pointer at[2] = {words(), words()};
    for (unsigned n = 1; n <= EACH; n++) {
      OK(launch_by(of_thread, functions[c], NULL, at[0], add + n));
      OK(put(functions[c], (handle)2, at[1], add + n));
    }
    OK(stream_synchronize((handle)2));
    CHECK(all_are(at[0], add + EACH) && all_are(at[1], add + EACH));
  }
  return NULL;
}

static void of_threads(void) {
  pthread_t threads[THREADS];
  second = create_by(2, 0, &second_function);
  for (int round = 0; round < 3; round++) {
    for (int t = 0; t < THREADS; t++)
      CHECK(!pthread_create(&threads[t], NULL, launches_by_thread, (void *)(uintptr_t)t));
    for (int t = 0; t < THREADS; t++) CHECK(pthread_join(threads[t], NULL) == 0);
  }
  // The main thread has one too, when it exits.
  set_current(primary);
  pointer at = words();
  OK(put(fill, (handle)2, at, 9));
  OK(stream_synchronize((handle)2));
  CHECK(all_are(at, 9));
  end(second);
}

// A thread ends before what it launched.
static int thread_done;
static pointer thread_words;

static void *leaves(void *context) {
  set_current(context);
  OK(call_in((handle)2, &thread_done));
  OK(put(second_function, (handle)2, thread_words, 5));
  return NULL;
}

static void *sets_later(void *flag) {
  usleep(100 * 1000);
  set(flag);
  return NULL;
}

static void left(void) {
  pthread_t thread;
  second = create_by(2, 0, &second_function);
  thread_words = words();
  CHECK(pthread_create(&thread, NULL, leaves, second) == 0);
  // It does not wait for what this thread does only then.
  CHECK(pthread_join(thread, NULL) == 0);
  set(&thread_done);
  OK(synchronize());
  CHECK(all_are(thread_words, 5));
  // Nor does the end of the context forget it.
  thread_done = 0;
  CHECK(pthread_create(&thread, NULL, leaves, second) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(pthread_create(&thread, NULL, sets_later, &thread_done) == 0);
  end(second);
  // While nothing tells streams apart, their XQueues know of no launches.
  if (getenv("XSCHED_AUTO_XQUEUE_UNIT")) CHECK(__atomic_load_n(&thread_done, __ATOMIC_ACQUIRE));
  CHECK(pthread_join(thread, NULL) == 0);
}

static void captured(void) {
  handle graph = NULL, executable;
  launch_function of_thread = find("cuLaunchKernel_ptsz");
  pointer at = words();
  OK(launch_by(of_thread, fill, NULL, at, 1));
  OK(((int (*)(handle, int))find("cuStreamBeginCapture_v2_ptsz"))(NULL, 0));
  OK(launch_by(of_thread, fill, NULL, at, 2));
  OK(((int (*)(handle, handle *))find("cuStreamEndCapture_ptsz"))(NULL, &graph));
  OK(stream_synchronize((handle)2));
  CHECK(all_are(at, 1));
  OK(((int (*)(handle *, handle, unsigned long long))find("cuGraphInstantiateWithFlags"))(
      &executable, graph, 0));
  OK(((int (*)(handle, handle))find("cuGraphLaunch_ptsz"))(executable, NULL));
  OK(stream_synchronize((handle)2));
  CHECK(all_are(at, 2));
}

// Children of a fork while other threads make, use and end streams.
static int over;

static void *is_busy(void *nothing) {
  (void)nothing;
  set_current(primary);
  pointer at = words();
  handle event;
  OK(((int (*)(handle *, unsigned))find("cuEventCreate"))(&event, 2));
  int (*record)(handle, handle) = find("cuEventRecord");
  while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
    handle stream;
    OK(stream_create(&stream, 1));
    for (unsigned n = 0; n < 5; n++) OK(fill_with(stream, at, n));
    for (unsigned n = 0; n < 100; n++) OK(record(event, stream));
    OK(put(fill, (handle)2, at, 1));
    OK(stream_synchronize(stream));
    OK(stream_destroy(stream));
  }
  return NULL;
}

static void child(handle stream, pointer at) {
  // It does not wait for locks of its parent's threads.
  alarm(20);
  int is_past = fill_with(stream, at, 1) == 3 && fill_with(NULL, at, 1) == 3;
  is_past &= put(fill, (handle)2, at, 1) == 3 && stream_synchronize(stream) == 3;
  is_past &= release(at) == 3 && synchronize() == 3 && stream_destroy(stream) == 3;
  is_past &= ((int (*)(handle, handle))find("cuEventRecord"))(NULL, stream) == 3;
  is_past &= ((int (*)(handle))find("cuCtxDestroy_v2"))(primary) == 3;
  is_past &= ((int (*)(int))find("cuDevicePrimaryCtxReset_v2"))(0) == 3;
  is_past &= ((int (*)(handle, int))find("cuStreamBeginCapture_v2"))(stream, 0) == 3;
  exit(is_past ? 0 : 1);
}

static void forks(void) {
  pthread_t threads[3];
  handle stream;
  OK(stream_create(&stream, 1));
  pointer at = words();
  OK(fill_with(stream, at, 1));
  OK(put(fill, (handle)2, at, 1));
  for (int t = 0; t < 3; t++) CHECK(pthread_create(&threads[t], NULL, is_busy, NULL) == 0);
  for (int n = 0; n < 200; n++) {
    fflush(stdout);
    pid_t process = fork();
    if (process == 0) child(stream, at);
    int status = -1;
    CHECK(waitpid(process, &status, 0) == process);
    if (status) printf("FAILED: a child ended with %d\n", status);
    OK(fill_with(stream, at, n));
  }
  set(&over);
  for (int t = 0; t < 3; t++) CHECK(pthread_join(threads[t], NULL) == 0);
  OK(synchronize());
  CHECK(all_are(at, 199));
}

int main(int count, char **words) {
  static const mode MODES[] = {
      {"versions", versions}, {"ends", ends},           {"elsewhere", elsewhere},
      {"attached", attached}, {"kept", kept},           {"short_threads", short_threads},
      {"devices", devices},   {"compared", compared},   {"frees", frees},
      {"waits", waits},       {"ends_held", ends_held}, {"of_threads", of_threads},
      {"of_ending_threads", of_ending_threads}, {"frees_at_end", frees_at_end},
      {"left", left},         {"captured", captured},   {"forks", forks}};
  alarm(60);
  return run_mode(MODES, sizeof MODES / sizeof *MODES, count, words);
}
