/* A program that is linked with the driver, for `linked.rs`. It prints what the test expects. */
#include <stdint.h>
#include <stdio.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(uint64_t *memory, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
int cuModuleLoadData(void **module, const void *image);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, void *stream, void **parameters, void **extra);
int cuGetExportTable(const void **table, const void *id);

static const char image[] =
    ".version 6.5\n.target sm_70\n.address_size 64\n"
    ".visible .entry fill(.param .u64 to, .param .u32 value, .param .u32 n) { ret; }\n"
    ".visible .entry xs_trap() { trap; }\n";

/* Says what two calls answered, of which the second comes last. */
static void say(const char *what, int first, int second) { printf("%s %d %d\n", what, first, second); }

static int launch(void *module, const char *name, void **parameters) {
    void *function;
    int code = cuModuleGetFunction(&function, module, name);
    return code ? code : cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0);
}

int main(void) {
    int version = 0, count = 0;
    const void *table;
    int code = cuDriverGetVersion(&version);
    say("early", code, cuDeviceGetCount(&count));
    printf("init %d, version %d\n", cuInit(0), version);
    void *context, *module;
    uint64_t memory;
    unsigned value = 7, one = 1, read = 0;
    void *parameters[] = {&memory, &value, &one};
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuMemAlloc_v2(&memory, 4);
    cuModuleLoadData(&module, image);
    printf("launch %d\n", launch(module, "fill", parameters));
    printf("read %d", cuMemcpyDtoH_v2(&read, memory, 4));
    printf(" %u\n", read);
    code = launch(module, "xs_trap", 0);
    say("trap", code, cuCtxSynchronize());
    printf("lost %d\n", cuMemAlloc_v2(&memory, 4));
    code = cuDevicePrimaryCtxReset_v2(0);
    say("reset", code, cuCtxSynchronize());
    code = cuDevicePrimaryCtxRelease_v2(0);
    say("release", code, cuCtxSynchronize());
    printf("table %d\n", cuGetExportTable(&table, "0123456789abcdef"));
    return 0;
}
