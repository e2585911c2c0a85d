// What XSched uses of its library `cuxtra`, with the same names. Parameters of kernels come from
// the driver, CUDA 12.4 or later. What levels 2 and 3 need ends the program.

#pragma once

#include <cstddef>
#include <cstdint>

#include "xsched/cuda/hal/common/cuda.h"

// The function of a kernel in the current context; a function is answered as it is.
CUfunction cuXtraKernelGetFunction(CUkernel kernel);
size_t cuXtraGetParamCount(CUfunction function);
void cuXtraGetParamInfo(CUfunction function, size_t at, size_t *offset, size_t *size, void *unused);
// The buffer of parameters that `extra` of a launch names.
void cuXtraGetExtraBuffer(void **extra, void **buffer, size_t *size);

[[noreturn]] void cuXtraUnsupported(const char *name);

#define CUXTRA_UNSUPPORTED(name)  \
  template <typename... Given>    \
  inline uint64_t name(Given...) { \
    cuXtraUnsupported(#name);     \
  }

CUXTRA_UNSUPPORTED(cuXtraGetBarrierCnt)
CUXTRA_UNSUPPORTED(cuXtraGetBinary)
CUXTRA_UNSUPPORTED(cuXtraGetEntryPoint)
CUXTRA_UNSUPPORTED(cuXtraGetLocalRegsPerThread)
CUXTRA_UNSUPPORTED(cuXtraGetTimeslice)
CUXTRA_UNSUPPORTED(cuXtraGetTrapHandlerInfo)
CUXTRA_UNSUPPORTED(cuXtraInstrMemBlockAlloc)
CUXTRA_UNSUPPORTED(cuXtraInstrMemBlockFree)
CUXTRA_UNSUPPORTED(cuXtraInstrMemcpyHtoD)
CUXTRA_UNSUPPORTED(cuXtraInvalInstrCache)
CUXTRA_UNSUPPORTED(cuXtraMemcpyDtoH)
CUXTRA_UNSUPPORTED(cuXtraMemcpyHtoD)
CUXTRA_UNSUPPORTED(cuXtraSetBarrierCnt)
CUXTRA_UNSUPPORTED(cuXtraSetDebuggerParams)
CUXTRA_UNSUPPORTED(cuXtraSetEntryPoint)
CUXTRA_UNSUPPORTED(cuXtraSetLocalRegsPerThread)
CUXTRA_UNSUPPORTED(cuXtraSetTimeslice)
CUXTRA_UNSUPPORTED(cuXtraTriggerTrap)

#undef CUXTRA_UNSUPPORTED
