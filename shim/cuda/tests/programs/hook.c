// Another interposer, in the way of those of several vendors: it takes the place of `dlsym`, whoever
// calls that, and answers with a `cuLaunchKernel` of its own, which calls the driver that the name
// libcuda.so.1 leads to, or with NEXT what the loader finds behind it. It takes the place of
// `dlopen` as well, and leaves that as it is. With LAUNCH it exports `cuLaunchKernel`, as a profiler
// does, and with NO_DLSYM or NO_DLOPEN does not take the place of those. When the process ends, it
// writes how many launches it has seen to the file SEEN, or that HOOK_SEEN names.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;
typedef int launches(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     handle, void **, void **);

static int seen;
static __thread int depth;

static void *next(const char *name) {
  void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.34");
  return found ? found : dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5");
}

static void *find(void *library, const char *name) {
  static void *(*real)(void *, const char *);
  if (!real) real = (void *(*)(void *, const char *))next("dlsym");
  return real(library, name);
}

#ifndef NO_DLOPEN
void *dlopen(const char *path, int flags) {
  return ((void *(*)(const char *, int))next("dlopen"))(path, flags);
}
#endif

static launches *driver_launch(void) {
#ifdef NEXT
  void *found = find(RTLD_NEXT, "cuLaunchKernel");
  if (found) return (launches *)found;
#endif
  return (launches *)find(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
}

static int launch(handle function, unsigned x, unsigned y, unsigned z, unsigned of_x, unsigned of_y,
                  unsigned of_z, unsigned shared, handle stream, void **parameters, void **extra) {
  static launches *real;
  // Two interposers that lead to each other.
  if (++depth > 50) abort();
  if (!real) real = driver_launch();
  __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
  int code = real(function, x, y, z, of_x, of_y, of_z, shared, stream, parameters, extra);
  depth--;
  return code;
}

#ifndef NO_DLSYM
void *dlsym(void *library, const char *name) {
  return strcmp(name, "cuLaunchKernel") ? find(library, name) : (void *)launch;
}
#endif

#ifdef LAUNCH
int cuLaunchKernel(handle function, unsigned x, unsigned y, unsigned z, unsigned of_x,
                   unsigned of_y, unsigned of_z, unsigned shared, handle stream, void **parameters,
                   void **extra) {
  return launch(function, x, y, z, of_x, of_y, of_z, shared, stream, parameters, extra);
}
#endif

__attribute__((destructor)) static void tell(void) {
#ifdef SEEN
  const char *path = SEEN;
#else
  const char *path = getenv("HOOK_SEEN");
#endif
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%d", seen);
  fclose(file);
}
