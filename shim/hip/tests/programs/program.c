// A program that uses HIP's runtime, in the ways that its first argument names. It prints what it
// finds, and a line that begins with FAILED for what is wrong.
//
// With LINKED defined it is linked with the runtime, else it opens what its second argument names.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(truth) \
  if (!(truth)) printf("FAILED in line %d: %s\n", __LINE__, #truth)

typedef struct {
  unsigned x, y, z;
} dim3;

typedef int launch_kernel(const void *, dim3, dim3, void **, size_t, void *);

// What the runtime answers to these arguments.
enum { LAUNCHED = 32840, EXT = 87114, FILLED = 14757 };

static int launch(launch_kernel *function) {
  return function((void *)1, (dim3){2, 3, 4}, (dim3){5, 6, 7}, (void **)10, 8, (void *)9);
}

#ifdef LINKED

void **__hipRegisterFatBinary(const void *);
void __hipUnregisterFatBinary(void **);
int hipGetDeviceCount(int *), hipRuntimeGetVersion(int *);
launch_kernel hipLaunchKernel;

static void **modules;

static void unload(void) { __hipUnregisterFatBinary(modules); }

// As compilers do: before main, and after it.
__attribute__((constructor)) static void load(void) {
  modules = __hipRegisterFatBinary("code");
  atexit(unload);
}

int main(void) {
  int count = 0, version = 0;
  CHECK(modules != NULL && hipGetDeviceCount(&count) == 0 && count == 1);
  CHECK(launch(hipLaunchKernel) == LAUNCHED);
  CHECK(hipRuntimeGetVersion(&version) == 0);
  void *other = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
  CHECK(other && dlsym(other, "hipLaunchKernel") == (void *)hipLaunchKernel);
  printf("linked, version %d\n", version);
  return 0;
}

#else

static void *library;

static void *find(const char *name) {
  void *found = dlsym(library, name);
  if (!found) printf("FAILED: no %s\n", name);
  return found;
}

static void version(void) {
  int version = 0;
  CHECK(((int (*)(int *))find("hipRuntimeGetVersion"))(&version) == 0);
  printf("version %d\n", version);
}

static void arguments(void) {
  CHECK(launch(find("hipLaunchKernel")) == LAUNCHED);
  int (*module)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                void *, void **, void **) = find("hipModuleLaunchKernel");
  CHECK(module((void *)1, 2, 3, 4, 5, 6, 7, 8, (void *)9, (void **)10, NULL) == LAUNCHED);
  int (*ext)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t, void *,
             void **, void **, void *, void *, unsigned) = find("hipExtModuleLaunchKernel");
  CHECK(ext((void *)1, 2, 3, 4, 5, 6, 7, 8, (void *)9, (void **)10, (void **)11, (void *)12,
            (void *)13, 14) == EXT);
  int (*mangled)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t, void *,
                 void **, void **, void *, void *, unsigned) =
      find("_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_"
           "tPPvS4_P11ihipEvent_tS6_j");
  CHECK(mangled((void *)77, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0) == 78);
  struct pitched {
    void *at;
    size_t pitch, width, height;
  } to = {(void *)1, 2, 3, 4};
  struct extent {
    size_t width, height, depth;
  } extent = {6, 7, 8};
  int (*fill)(struct pitched, int, struct extent, void *) = find("hipMemset3DAsync");
  CHECK(fill(to, 5, extent, (void *)9) == FILLED);
  // One that this runtime lacks, and one of another type.
  CHECK(((int (*)(void))find("hipMallocAsync"))() == 801);
  CHECK(!strcmp(((const char *(*)(int))find("hipGetErrorName"))(0), "hipSuccess"));
}

typedef int get_address(const char *, void **, int, uint64_t, int *);

static void addresses(void) {
  get_address *get = find("hipGetProcAddress");
  int (*entry)(const char *, void **, uint64_t, int *) = find("hipGetDriverEntryPoint");
  void *found = NULL;
  int status = -1;
  CHECK(get("hipLaunchKernel", &found, 70200000, 0, &status) == 0 && status == 0);
  CHECK(found == find("hipLaunchKernel") && launch(found) == LAUNCHED);
  CHECK(entry("hipLaunchKernel", &found, 0, NULL) == 0 && found == find("hipLaunchKernel"));
  CHECK(get("hipModuleLaunchKernel", &found, 70200000, 0, &status) == 0);
  CHECK(found == find("hipModuleLaunchKernel"));
  CHECK(get("hipGetProcAddress", &found, 70200000, 0, &status) == 0 && found == (void *)get);
  // A function without a hook is the runtime's own, and so is one that the list lacks.
  CHECK(get("hipGetErrorName", &found, 70200000, 0, &status) == 0);
  CHECK(found && found != find("hipGetErrorName"));
  CHECK(get("hipBrandNew", &found, 70200000, 0, &status) == 0 && ((int (*)(void))found)() == 99);
  CHECK(get("hipNone", &found, 70200000, 0, &status) == 0 && status == 1 && !found);
  CHECK(get("hipNone", &found, 70200000, 0, NULL) == 500);
  CHECK(get(NULL, &found, 70200000, 0, &status) == 1);
  CHECK(get("hipInit", NULL, 70200000, 0, &status) == 1);
}

static void missing(void) {
  CHECK(launch(find("hipLaunchKernel")) == 100);
  CHECK(!strcmp(((const char *(*)(int))find("hipGetErrorName"))(100), "hipErrorNoDevice"));
  CHECK(((void *(*)(const void *))find("__hipRegisterFatBinary"))("code") != NULL);
  CHECK(*((const char *(*)(void *))find("hipKernelNameRef"))(NULL) == 0);
}

static void forks(void) {
  for (int parent_first = 0; parent_first < 2; parent_first++) {
    if (parent_first) CHECK(launch(find("hipLaunchKernel")) == LAUNCHED);
    fflush(stdout);
    pid_t child = fork();
    if (!child) _exit(launch(find("hipLaunchKernel")) != LAUNCHED);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
}

int main(int count, char **words) {
  const char *mode = count > 1 ? words[1] : "";
  int scope = count > 3 ? RTLD_GLOBAL : RTLD_LOCAL;
  library = dlopen(count > 2 ? words[2] : "libamdhip64.so.7", RTLD_NOW | scope);
  if (!library) {
    printf("FAILED: %s\n", dlerror());
    return 1;
  }
  if (!strcmp(mode, "version")) version();
  if (!strcmp(mode, "launch")) CHECK(launch(find("hipLaunchKernel")) == LAUNCHED);
  if (!strcmp(mode, "arguments")) arguments();
  if (!strcmp(mode, "addresses")) addresses();
  if (!strcmp(mode, "missing")) missing();
  if (!strcmp(mode, "forks")) forks();
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096];
  int runtimes = 0;
  while (fgets(line, sizeof line, maps)) runtimes += strstr(line, "fakeruntime") != NULL;
  fclose(maps);
  printf("%s, runtime %s\n", mode, runtimes ? "open" : "not open");
  return 0;
}

#endif
