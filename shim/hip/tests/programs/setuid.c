// A program that may have more rights than its user. It says what it has loaded by its end, and as
// whom it ran. An argument names libpreempt.so.
//
// With LINKED defined it is linked with the interposer and the runtime and uses them, else it makes
// hardware queues of streams.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#ifdef LINKED

int hipStreamCreate(void **);
int hipMemsetD32Async(void *, int, size_t, void *);
int hipMalloc(void **, size_t);
int hipStreamSynchronize(void *);

static void use(const char *preempt) {
  void *stream = NULL, *memory = NULL;
  int failed = hipStreamCreate(&stream) || hipMalloc(&memory, 64);
  failed = failed || hipMemsetD32Async(memory, 1, 16, stream) || hipStreamSynchronize(stream);
  printf("launched: %s\n", failed ? "no" : "yes");
  printf("scheduled: %s\n", dlopen(preempt, RTLD_NOW | RTLD_NOLOAD) ? "yes" : "no");
}

#else

static void use(const char *preempt) {
  void *library = dlopen(preempt, RTLD_NOW);
  printf("libraries: %s\n", library ? "yes" : dlerror());
  for (int i = 0; library && i < 2; i++) {
    const char *names[] = {"xsched_private_cuda_queue_create", "xsched_private_hip_queue_create"};
    int (*create)(uint64_t *, void *) = dlsym(library, names[i]);
    uint64_t queue;
    if (create) create(&queue, (void *)64);
  }
}

#endif

int main(int count, char **arguments) {
  if (count == 2) use(arguments[1]);
  printf("ended as %u\n", (unsigned)geteuid());
  return 0;
}
