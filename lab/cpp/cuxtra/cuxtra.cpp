#include <cuxtra/cuxtra.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "xsched/cuda/hal/common/driver.h"

namespace {

using xsched::cuda::Driver;

struct Parameter {
  size_t offset, size;
};

// What the driver said of a handle, asked once, as each launch needs it.
struct Kernel {
  CUfunction function;
  std::vector<Parameter> parameters;
};

// A handle may be that of a kernel, which this call refuses.
bool is_function(CUfunction handle) {
  size_t offset = 0, size = 0;
  CUresult result = Driver::FuncGetParamInfo(handle, 0, &offset, &size);
  return result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE;
}

Kernel ask(CUfunction handle) {
  Kernel kernel{handle, {}};
  if (!is_function(handle)) {
    auto given = reinterpret_cast<CUkernel>(handle);
    if (Driver::KernelGetFunction(&kernel.function, given) != CUDA_SUCCESS) {
      cuXtraUnsupported("a handle that is neither a function nor a kernel");
    }
  }
  Parameter next{};
  while (Driver::FuncGetParamInfo(kernel.function, kernel.parameters.size(), &next.offset,
                                  &next.size) == CUDA_SUCCESS) {
    kernel.parameters.push_back(next);
  }
  return kernel;
}

const Kernel &kernel_of(CUfunction handle) {
  static std::shared_mutex mutex;
  static std::unordered_map<CUfunction, Kernel> kernels;
  {
    std::shared_lock<std::shared_mutex> lock(mutex);
    auto found = kernels.find(handle);
    if (found != kernels.end()) return found->second;
  }
  Kernel kernel = ask(handle);
  std::unique_lock<std::shared_mutex> lock(mutex);
  return kernels.emplace(handle, std::move(kernel)).first->second;
}

}  // namespace

CUfunction cuXtraKernelGetFunction(CUkernel kernel) {
  return kernel_of(reinterpret_cast<CUfunction>(kernel)).function;
}

size_t cuXtraGetParamCount(CUfunction function) { return kernel_of(function).parameters.size(); }

void cuXtraGetParamInfo(CUfunction function, size_t at, size_t *offset, size_t *size, void *) {
  const Parameter &parameter = kernel_of(function).parameters.at(at);
  *offset = parameter.offset;
  *size = parameter.size;
}

void cuXtraGetExtraBuffer(void **extra, void **buffer, size_t *size) {
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) *buffer = extra[1];
    if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE) *size = *static_cast<size_t *>(extra[1]);
  }
}

void cuXtraUnsupported(const char *name) {
  std::fprintf(stderr, "the stand-in of cuxtra does not have this: %s\n", name);
  std::abort();
}
