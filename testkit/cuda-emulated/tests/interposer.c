/* An interposer that calls itself as the driver does and has one function of its own, for
   `linked.rs`. Everything else is the driver's, which it opens by its path. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void *driver(void) {
    static void *handle;
    if (!handle) handle = dlopen(getenv("DRIVER"), RTLD_NOW | RTLD_LOCAL);
    return handle;
}

int cuInit(unsigned flags) {
    int (*real)(unsigned) = (int (*)(unsigned))dlsym(driver(), "cuInit");
    printf("interposed\n");
    return real(flags);
}

int cuGetProcAddress_v2(const char *name, void **to, int version, uint64_t flags, int *status) {
    int (*real)(const char *, void **, int, uint64_t, int *) =
        (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver(), "cuGetProcAddress_v2");
    int code = real(name, to, version, flags, status);
    if (*to == dlsym(driver(), "cuInit")) *to = (void *)cuInit;
    return code;
}
