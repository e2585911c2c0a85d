/* A program that opens the driver when it runs, and gets functions by their names, for
   `linked.rs`. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return printf("%s\n", dlerror()), 1;
    int (*address)(const char *, void **, int, uint64_t, int *) =
        (int (*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
    int (*init)(unsigned), (*count)(int *), status, devices = 0;
    address("cuInit", (void **)&init, 12000, 0, &status);
    printf("init %d\n", init(0));
    address("cuDeviceGetCount", (void **)&count, 12000, 0, &status);
    int code = count(&devices);
    printf("count %d %d\n", code, devices);
    return 0;
}
