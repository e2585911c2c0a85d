// A program that is linked with HIP's own runtime, and prints what that answers.

#include <stdio.h>

typedef struct {
  unsigned x, y, z;
} dim3;

int hipRuntimeGetVersion(int *), hipGetDeviceCount(int *), hipGetLastError(void);
int hipLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int hipStreamCreate(void **), hipMalloc(void **, size_t);
const char *hipGetErrorString(int), *hipGetErrorName(int);

int main(void) {
  int version = 0, count = 0;
  void *made = NULL;
  int versioned = hipRuntimeGetVersion(&version);
  int counted = hipGetDeviceCount(&count);
  int launched = hipLaunchKernel((const void *)main, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL);
  int last = hipGetLastError(), again = hipGetLastError();
  int created = hipStreamCreate(&made), allocated = hipMalloc(&made, 64);
  printf("%d %d, %d %d, %d %d %d, %d %d, %s, %s\n", versioned, version, counted, count, launched,
         last, again, created, allocated, hipGetErrorName(100), hipGetErrorString(100));
  return 0;
}
