// A program that `xsched run` has started: CUDA's driver library is the interposer that the CMake
// package names.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int says(const char *variable, const char *value) {
    const char *there = getenv(variable);
    if (there != NULL && strcmp(there, value) == 0) return 1;
    fprintf(stderr, "%s is %s, and not %s\n", variable, there == NULL ? "not set" : there, value);
    return 0;
}

/* The first of what is preloaded. */
static int is_first(const char *value) {
    const char *there = getenv("LD_PRELOAD");
    size_t length = strlen(value);
    if (there != NULL && strncmp(there, value, length) == 0 && strchr(":", there[length])) return 1;
    fprintf(stderr, "LD_PRELOAD is %s, and not first %s\n", there == NULL ? "not set" : there, value);
    return 0;
}

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver == NULL || dlsym(driver, "xsched_shim_cuda") == NULL) {
        fputs("the driver is not the interposer\n", stderr);
        return 1;
    }
    int is_ours = is_first(INTERPOSER) && says("XSCHED_AUTO_XQUEUE", "ON");
    return is_ours && says("XSCHED_AUTO_XQUEUE_PRIORITY", "-100") ? 0 : 1;
}
