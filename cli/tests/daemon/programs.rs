//! The C programs.

/// A program that fills memory again and again, writes how often into the file that it is told,
/// and ends when that file is gone, or when what it has filled is not what it filled last. Every
/// tenth time it waits for the device. Each time it captures a launch, which goes
/// past unless the process is alone.
pub(crate) const PROGRAM: &str = r#"
#include <stdio.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long); int cuCtxSynchronize(void);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuMemcpyDtoH_v2(void *, unsigned long, unsigned long);
int cuStreamCreate(void **, unsigned); int cuStreamBeginCapture_v2(void *, int);
int cuStreamEndCapture(void *, void **); int cuGraphDestroy(void *);
int main(int count, char **arguments) {
  void *context, *stream, *graph; unsigned long memory; unsigned done = 0;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
  if (cuMemAlloc_v2(&memory, 4096)) return 2;
  if (cuStreamCreate(&stream, 1)) return 6;
  while (count < 2 || !access(arguments[1], F_OK)) {
    if (cuStreamBeginCapture_v2(stream, 2)) return 7;
    if (cuMemsetD32Async(memory, 0, 1024, stream)) return 8;
    if (cuStreamEndCapture(stream, &graph) || cuGraphDestroy(graph)) return 9;
    for (int i = 0; i < 10; ++i)
      if (cuMemsetD32Async(memory, done++, 1024, 0)) return 3;
    if (cuCtxSynchronize()) return 4;
    unsigned last = 0;
    if (cuMemcpyDtoH_v2(&last, memory + 4092, 4) || last != done - 1) return 5;
    if (count < 2 && done >= 200) return 0;
    usleep(1500);
    FILE *file = count < 2 ? NULL : fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
  }
  return 0;
}
"#;

/// A program whose two streams wait for each other by events, and which launches a graph with a
/// short branch. It counts steps like [`PROGRAM`], has 50 waits behind each other before it waits
/// for the device, and prints what the driver counted: waits for events, numbers written, and edges
/// that were added to graphs beside those of gates.
pub(crate) const EVENTS: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long); int cuCtxSynchronize(void);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuMemcpyAsync(unsigned long, unsigned long, unsigned long, void *);
int cuMemcpyDtoH_v2(void *, unsigned long, unsigned long);
int cuStreamCreateWithPriority(void **, unsigned, int); int cuEventCreate(void **, unsigned);
int cuEventRecord(void *, void *); int cuStreamWaitEvent(void *, void *, unsigned);
int cuStreamBeginCapture_v2(void *, int); int cuStreamEndCapture(void *, void **);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long); int cuGraphLaunch(void *, void *);
int cuGraphDestroy(void *);
static int branched(void **exec, unsigned long memory, void **streams, void **events) {
  void *graph;
  if (cuStreamBeginCapture_v2(streams[0], 2)) return 20;
  for (int i = 0; i < 20; ++i) {
    if (cuMemsetD32Async(memory, i, 128, streams[0])) return 21;
    if (i == 5 && cuEventRecord(events[0], streams[0])) return 22;
  }
  if (cuStreamWaitEvent(streams[1], events[0], 0)) return 23;
  if (cuMemsetD32Async(memory + 512, 7, 128, streams[1])) return 24;
  if (cuEventRecord(events[1], streams[1])) return 25;
  if (cuStreamWaitEvent(streams[0], events[1], 0)) return 26;
  if (cuMemsetD32Async(memory, 20, 128, streams[0])) return 27;
  if (cuStreamEndCapture(streams[0], &graph)) return 28;
  if (!exec) return cuGraphDestroy(graph) ? 30 : 0;
  return cuGraphInstantiateWithFlags(exec, graph, 0) ? 29 : 0;
}
int main(int count, char **arguments) {
  void *context, *streams[2], *events[2]; unsigned long memory; unsigned done = 0;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context)) return 1;
  if (count < 2 || cuMemAlloc_v2(&memory, 4096)) return 2;
  for (int i = 0; i < 2; ++i)
    if (cuStreamCreateWithPriority(&streams[i], 1, getenv("APART") ? -5 * i : 0)
        || cuEventCreate(&events[i], 2)) return 3;
  void *exec; int code = branched(&exec, memory + 2048, streams, events);
  if (code) return code;
  while (!access(arguments[1], F_OK)) {
    for (int i = 0; i < 25; ++i) {
      if (cuMemsetD32Async(memory, ++done, 256, streams[0])) return 4;
      if (cuEventRecord(events[0], streams[0])) return 5;
      if (cuStreamWaitEvent(streams[1], events[0], 0)) return 6;
      if (cuMemcpyAsync(memory + 1024, memory, 1024, streams[1])) return 7;
      if (cuEventRecord(events[1], streams[1])) return 8;
      if (cuStreamWaitEvent(streams[0], events[1], 0)) return 9;
    }
    // The same events, now in a capture.
    if ((code = branched(NULL, memory + 2048, streams, events))) return code;
    if (cuGraphLaunch(exec, streams[0])) return 10;
    if (cuCtxSynchronize()) return 11;
    unsigned last = 0, graphs[256];
    if (cuMemcpyDtoH_v2(&last, memory + 2044, 4) || last != done) return 12;
    if (cuMemcpyDtoH_v2(graphs, memory + 2048, 1024) || graphs[127] != 20 || graphs[128] != 7)
      return 13;
    usleep(1500);
    FILE *file = fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
  }
  unsigned long (*calls)(const char *);
  void *driver = dlopen(getenv("XSCHED_CUDA_DRIVER"), RTLD_NOW);
  *(void **)&calls = dlsym(driver, "cuEmulatedCalls");
  if (!calls) return 14;
  fprintf(stderr, "waits=%lu writes=%lu edges=%ld\n", calls("cuStreamWaitEvent"),
          calls("cuStreamWriteValue32_v2"), (long)calls("cuGraphAddDependencies")
          - (long)calls("cuGraphAddBatchMemOpNode"));
  return 0;
}
"#;

/// A program with a stream of low priority, which never pauses, and an urgent one, which does, each
/// with a thread of its own. Both count steps: into a file, and into one with `-urgent` behind its
/// name. With `WHOLE` set the urgent thread waits for the whole device.
pub(crate) const STREAMS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long); int cuCtxSynchronize(void);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuMemcpyDtoHAsync_v2(void *, unsigned long, unsigned long, void *);
int cuStreamCreateWithPriority(void **, unsigned, int); int cuStreamSynchronize(void *);
int cuStreamDestroy_v2(void *);
static void *context;
static char *counters[2];
static long work(int urgent) {
  void *stream; unsigned long memory; unsigned done = 0, last;
  if (cuCtxSetCurrent(context) || cuMemAlloc_v2(&memory, 65536)) return 2;
  if (cuStreamCreateWithPriority(&stream, 1, urgent ? -5 : 0)) return 3;
  while (!access(counters[0], F_OK)) {
    for (int i = 0; i < 10; ++i)
      if (cuMemsetD32Async(memory, ++done, 16384, stream)) return 4;
    if (urgent && getenv("WHOLE") && cuCtxSynchronize()) return 5;
    if (cuMemcpyDtoHAsync_v2(&last, memory + 65532, 4, stream)) return 6;
    if (cuStreamSynchronize(stream) || last != done) return 7;
    FILE *file = fopen(counters[urgent], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
    if (urgent) usleep(1500);
  }
  return cuStreamDestroy_v2(stream) ? 8 : 0;
}
static void *thread(void *urgent) { return (void *)work(urgent != NULL); }
int main(int count, char **arguments) {
  pthread_t urgent; void *low, *high;
  if (count < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
  counters[0] = arguments[1];
  counters[1] = malloc(strlen(arguments[1]) + 8);
  sprintf(counters[1], "%s-urgent", arguments[1]);
  if (pthread_create(&urgent, NULL, thread, context)) return 1;
  low = thread(NULL);
  if (pthread_join(urgent, &high)) return 1;
  return (long)low + 10 * (long)high;
}
"#;

/// Variant of [`PROGRAM`], which asks for the scheduler of the node twice, and prints what it was
/// answered. It waits for a line in between; `early` makes it use the GPU before.
pub(crate) const ASKING: &str = r#"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char **arguments) {
  int (*choose)(int, int);
  *(void **)&choose = dlsym(dlopen(getenv("PREEMPT"), RTLD_NOW), "XHintSetScheduler");
  if (!choose) return 20;
  printf("%d\n", choose(3, 0));
  if (strstr(arguments[1], "early") && work(1, arguments)) return 21;
  fflush(stdout);
  getchar();
  printf("%d\n", choose(3, 0));
  fflush(stdout);
  return work(count, arguments);
}
"#;

/// A program with an XQueue on the host device, at the level that it is told. It counts commands
/// into a file until that is gone. Its pauses are as long as its work, and thus not short.
pub(crate) const ON_HOST: &str = r#"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef uint64_t handle;
#define GET(name) if (!(*(void **)&name = dlsym(library, #name))) return 20
int main(int count, char **arguments) {
  void *library = dlopen(getenv("PREEMPT"), RTLD_NOW | RTLD_GLOBAL);
  if (count < 3 || !library) return 21;
  int (*xsched_private_host_queue_create)(handle *); GET(xsched_private_host_queue_create);
  int (*XQueueCreate)(handle *, handle, int64_t, int64_t); GET(XQueueCreate);
  int (*xsched_private_host_command_create_timed)(handle *, int64_t);
  GET(xsched_private_host_command_create_timed);
  int (*XQueueSubmit)(handle, handle); GET(XQueueSubmit);
  int (*XQueueWaitAll)(handle); GET(XQueueWaitAll);
  handle hwq, xq, command; unsigned done = 0;
  if (xsched_private_host_queue_create(&hwq)) return 1;
  if (XQueueCreate(&xq, hwq, atoi(arguments[2]), 0)) return 2;
  while (!access(arguments[1], F_OK)) {
    for (int i = 0; i < 4; ++i) {
      if (xsched_private_host_command_create_timed(&command, 250)) return 3;
      if (XQueueSubmit(xq, command)) return 4;
    }
    if (XQueueWaitAll(xq)) return 5;
    usleep(1000);
    FILE *file = fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done += 4); fclose(file); }
  }
  return 0;
}
"#;

/// A program that launches into its default stream, never waits, and counts its launches like
/// [`PROGRAM`]. With `APART` set it has a stream of another priority as well.
pub(crate) const AHEAD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuStreamCreateWithPriority(void **, unsigned, int);
int main(int count, char **arguments) {
  void *context, *stream; unsigned long memory; unsigned done = 0;
  if (count < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
  if (cuCtxSetCurrent(context) || cuMemAlloc_v2(&memory, 4096)) return 2;
  if (cuMemsetD32Async(memory, 0, 256, 0)) return 3;
  if (getenv("APART") && cuStreamCreateWithPriority(&stream, 1, -5)) return 4;
  if (getenv("APART") && cuMemsetD32Async(memory + 1024, 0, 256, stream)) return 5;
  while (!access(arguments[1], F_OK)) {
    if (cuMemsetD32Async(memory, ++done, 256, 0)) return 6;
    FILE *file = fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
    usleep(1000);
  }
  return 0;
}
"#;

/// A program that launches into a stream and counts its launches like [`PROGRAM`]. `WAITS` says how
/// it waits for each, if at all.
pub(crate) const WAITING: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long *, unsigned long); int cuCtxSynchronize(void);
int cuMemsetD32Async(unsigned long, unsigned, unsigned long, void *);
int cuMemcpyDtoH_v2(void *, unsigned long, unsigned long);
int cuStreamCreate(void **, unsigned); int cuStreamSynchronize(void *); int cuStreamQuery(void *);
int cuEventCreate(void **, unsigned); int cuEventRecord(void *, void *);
int cuEventSynchronize(void *); int cuEventQuery(void *);
int cuLaunchHostFunc(void *, void (*)(void *), void *);
static void called(void *data) { *(volatile int *)data = 1; }
static int waits(const char *how, void *stream, void *event, unsigned long memory) {
  volatile int done = 0; unsigned word;
  if (!strcmp(how, "stream")) return cuStreamSynchronize(stream);
  if (!strcmp(how, "context")) return cuCtxSynchronize();
  if (!strcmp(how, "copy")) return cuMemcpyDtoH_v2(&word, memory, 4);
  if (!strcmp(how, "stream-query")) while (cuStreamQuery(stream)) usleep(100);
  if (!strcmp(how, "call")) {
    if (cuLaunchHostFunc(stream, called, (void *)&done)) return 1;
    while (!done) usleep(100);
  }
  if (strncmp(how, "event", 5)) return 0;
  if (cuEventRecord(event, stream)) return 2;
  if (!strcmp(how, "event")) return cuEventSynchronize(event);
  while (cuEventQuery(event)) usleep(100);
  return 0;
}
int main(int count, char **arguments) {
  void *context, *stream, *event; unsigned long memory; unsigned done = 0;
  if (count < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
  if (cuCtxSetCurrent(context) || cuMemAlloc_v2(&memory, 4096)) return 2;
  if (cuStreamCreate(&stream, 1) || cuEventCreate(&event, 2)) return 3;
  while (!access(arguments[1], F_OK)) {
    if (cuMemsetD32Async(memory, ++done, 256, stream)) return 4;
    if (waits(getenv("WAITS"), stream, event, memory)) return 5;
    usleep(1000);
    FILE *file = fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done); fclose(file); }
  }
  return 0;
}
"#;

/// A program that launches a kernel of 50 µs each 250 µs or slower, counts its launches like
/// [`PROGRAM`], and waits for the device after 200.
pub(crate) const EAGER: &str = r#"
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void **, int); int cuCtxSetCurrent(void *);
int cuCtxSynchronize(void); int cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *); int cuFuncSetAttribute(void *, int, int);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void *, void **, void **);
static unsigned long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ul + time.tv_nsec;
}
int main(int count, char **arguments) {
  static const char image[] = ".version 6.5\n.visible .entry xs_spin()\n";
  void *context, *module, *spin; unsigned long ns = 50000, stamps = 0; unsigned done = 0;
  void *values[] = {&ns, &stamps};
  if (count < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0)) return 1;
  if (cuCtxSetCurrent(context) || cuModuleLoadData(&module, image)) return 2;
  if (cuModuleGetFunction(&spin, module, "xs_spin")) return 3;
  while (!access(arguments[1], F_OK)) {
    for (int i = 0; i < 200; ++i) {
      unsigned long begin = now();
      if (cuFuncSetAttribute(spin, 8, 0)) return 6;
      if (cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, 0, values, 0)) return 4;
      while (now() - begin < 250000) usleep(50);
    }
    if (cuCtxSynchronize()) return 5;
    FILE *file = fopen(arguments[1], "r+");
    if (file) { fprintf(file, "%u\n", done += 200); fclose(file); }
  }
  return 0;
}
"#;
