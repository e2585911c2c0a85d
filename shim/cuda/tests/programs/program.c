// A program that uses CUDA's driver, in the ways that its first argument names. It prints what it
// finds, and a line that begins with FAILED for what is wrong.
//
// With LINKED defined it is linked with the driver's library, else it opens it.

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(truth) \
  if (!(truth)) printf("FAILED in line %d: %s\n", __LINE__, #truth)

typedef int launch_kernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, void *, void **, void **);

// What the driver answers to these arguments.
enum { LAUNCHED = 32851 };

static int launch(launch_kernel *function) {
  return function((void *)1, 2, 3, 4, 5, 6, 7, 8, (void *)9, (void *)10, (void *)11);
}

#ifdef LINKED

int cuInit(unsigned);
launch_kernel cuLaunchKernel;

int main(void) {
  CHECK(cuInit(0) == 0);
  CHECK(launch(cuLaunchKernel) == LAUNCHED);
  printf("%d\n", launch(cuLaunchKernel));
  return 0;
}

#else

static void *library;

static void *find(const char *name) {
  void *found = dlsym(library, name);
  if (!found) printf("FAILED: no %s\n", name);
  return found;
}

static void local(void) {
  CHECK(((int (*)(unsigned))find("cuInit"))(0) == 0);
  CHECK(launch(find("cuLaunchKernel")) == LAUNCHED);
  CHECK(dlsym(RTLD_DEFAULT, "cuBrandNew") == NULL);
  CHECK(dlsym(library, "cuBrandNew") == NULL);
}

static void arguments(void) {
  int (*full)(long, long, long, long, long, long, double, double, double, double, double, double,
              double, double, long, long, double) = find("cuTensorMapEncodeTiled");
  int (*variable)(int, ...) = find("cuParamSetv");
  errno = 77;
  // The first call of all, and one that has its address.
  for (int i = 0; i < 2; i++) {
    CHECK(full(1, 2, 3, 4, 5, 6, .5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 7, 8, 8.5) == 204525);
    CHECK(errno == 77);
  }
  CHECK(variable(9, 1., 2., 3., 4., 5., 6., 7., 8., 9.) == 45);
  int (*copy)(uint64_t, void *, size_t, void *) = find("cuMemcpyHtoDAsync_v2");
  CHECK(copy(5ull << 32, NULL, 6ull << 32, NULL) == 11);
  struct location {
    int kind, id;
  } to = {3, 4};
  int (*prefetch)(uint64_t, size_t, struct location, unsigned, void *) =
      find("cuMemPrefetchAsync_v2");
  CHECK(prefetch(1, 2, to, 5, NULL) == 345);
  struct frame {
    char bytes[64];
  } frame = {{0}};
  frame.bytes[0] = 1, frame.bytes[63] = 2;
  int (*present)(void *, struct frame, void **) = find("cuEGLStreamProducerPresentFrame");
  CHECK(present(NULL, frame, NULL) == 102);
  CHECK(((int (*)(void))find("cuMemAlloc_v2"))() == 500);
}

typedef int get_address(const char *, void **, int, uint64_t, int *);
typedef int get_address_first(const char *, void **, int, uint64_t);

static void addresses(void) {
  get_address *get = find("cuGetProcAddress_v2");
  get_address_first *first = find("cuGetProcAddress");
  void *found = NULL;
  int status = -1;
  CHECK(get("cuMemcpyHtoDAsync", &found, 3010, 0, &status) == 0 && status == 0);
  CHECK(found == find("cuMemcpyHtoDAsync"));
  CHECK(((int (*)(unsigned, void *, unsigned, void *))found)(2, NULL, 3, NULL) == 5);
  CHECK(get("cuMemcpyHtoDAsync", &found, 12000, 0, NULL) == 0);
  CHECK(found == find("cuMemcpyHtoDAsync_v2"));
  CHECK(get("cuLaunchKernel", &found, 12000, 2, NULL) == 0);
  CHECK(found == find("cuLaunchKernel_ptsz"));
  CHECK(first("cuLaunchKernel", &found, 12000, 0) == 0 && found == find("cuLaunchKernel"));
  CHECK(launch(found) == LAUNCHED);
  // Itself, in both versions.
  CHECK(first("cuGetProcAddress", &found, 11030, 0) == 0 && found == (void *)first);
  CHECK(first("cuGetProcAddress", &found, 12000, 0) == 0 && found == (void *)get);
  // A function without a hook is the driver's own, and so is one that the list lacks.
  CHECK(get("cuDeviceGetCount", &found, 12000, 0, NULL) == 0);
  CHECK(found && found != find("cuDeviceGetCount"));
  CHECK(get("cuCtxSynchronize", &found, 12000, 0, NULL) == 0);
  CHECK(found == find("cuCtxSynchronize"));
  CHECK(get("cuStreamSynchronize", &found, 12000, 0, NULL) == 0);
  CHECK(found == find("cuStreamSynchronize"));
  CHECK(get("cuBrandNew", &found, 12000, 0, NULL) == 0 && ((int (*)(void))found)() == 99);
  // Nothing found, and nothing to find it with.
  CHECK(get("cuNone", &found, 12000, 0, &status) == 0 && status == 1 && !found);
  CHECK(get("cuNone", &found, 12000, 0, NULL) == 500);
  CHECK(get(NULL, &found, 12000, 0, &status) == 1);
  CHECK(get("cuInit", NULL, 12000, 0, &status) == 1);
  CHECK(first(NULL, NULL, 0, 0) == 1);
}

static pthread_barrier_t together;

static void *one_of_many(void *function) {
  pthread_barrier_wait(&together);
  return (void *)(intptr_t)launch(function);
}

static void threads(void) {
  enum { THREADS = 16 };
  pthread_t all[THREADS];
  pthread_barrier_init(&together, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) pthread_create(all + i, NULL, one_of_many, find("cuLaunchKernel"));
  for (int i = 0; i < THREADS; i++) {
    void *code;
    pthread_join(all[i], &code);
    CHECK((intptr_t)code == LAUNCHED);
  }
}

static void missing(void) {
  const char *text = "";
  int (*error)(int, const char **) = find("cuGetErrorString");
  for (int i = 0; i < 2; i++) CHECK(((int (*)(unsigned))find("cuInit"))(0) == 34);
  CHECK(launch(find("cuLaunchKernel")) == 34);
  CHECK(error(34, &text) == 0 && !strcmp(text, "CUDA_ERROR_STUB_LIBRARY"));
  CHECK(error(1, &text) == 1 && !text);
  get_address *get = find("cuGetProcAddress_v2");
  CHECK(get(NULL, NULL, 0, 0, NULL) == 34);
}

static void recursion(void) {
  CHECK(((int (*)(unsigned))find("cuInit"))(0) == 0);
  int (*wait)(void) = find("cuCtxSynchronize");
  CHECK(wait() == 1 && wait() == 2);
}

static void forks(void) {
  for (int parent_first = 0; parent_first < 2; parent_first++) {
    if (parent_first) CHECK(launch(find("cuLaunchKernel")) == LAUNCHED);
    fflush(stdout);
    pid_t child = fork();
    if (!child) _exit(launch(find("cuLaunchKernel")) != LAUNCHED);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
}

static void child(const char *self) {
  char command[4096];
  snprintf(command, sizeof command, "%s local", self);
  CHECK(system(command) == 0);
}

// All ways but those of other modes: nothing is called.
static void nothing(void) { CHECK(find("cuInit")); }

int main(int count, char **words) {
  const char *mode = count > 1 ? words[1] : "";
  const char *name = count > 2 ? words[2] : "libcuda.so.1";
  library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    printf("FAILED: %s\n", dlerror());
    return 1;
  }
  if (!strcmp(mode, "local")) local();
  if (!strcmp(mode, "launch")) CHECK(launch(find("cuLaunchKernel")) == LAUNCHED);
  if (!strcmp(mode, "arguments")) arguments();
  if (!strcmp(mode, "addresses")) addresses();
  if (!strcmp(mode, "threads")) threads();
  if (!strcmp(mode, "missing")) missing();
  if (!strcmp(mode, "recursion")) recursion();
  if (!strcmp(mode, "forks")) forks();
  if (!strcmp(mode, "child")) child(words[0]);
  if (!strcmp(mode, "nothing")) nothing();
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096];
  int drivers = 0;
  while (fgets(line, sizeof line, maps)) drivers += strstr(line, "/libfakedriver.so") != NULL;
  fclose(maps);
  printf("%s, driver %s\n", mode, drivers ? "open" : "not open");
  return 0;
}

#endif
