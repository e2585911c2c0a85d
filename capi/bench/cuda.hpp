// What the bench needs of the CUDA driver, loaded at run time, so that it builds without CUDA.
// Signatures are those of cuda.h, CUDA 12 and 13.

#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

using CUcontext = struct CUctx_st *;
using CUstream = struct CUstream_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUevent = struct CUevent_st *;
using CUdeviceptr = unsigned long long;

// Nanoseconds of the host's clock.
inline int64_t now_ns() {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// The driver, with a context current on every thread that called `use`.
class Driver {
 public:
  Driver() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) throw std::runtime_error("there is no CUDA driver");
    check(find<int(unsigned)>("cuInit")(0), "cuInit");
    int device = 0;
    check(find<int(int *, int)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
    auto retain = find<int(CUcontext *, int)>("cuDevicePrimaryCtxRetain");
    check(retain(&context_, device), "cuDevicePrimaryCtxRetain");
    use();
    char name[128] = "";
    find<int(char *, int, int)>("cuDeviceGetName")(name, sizeof name, device);
    device_ = name;
    auto attribute = find<int(int *, int, int)>("cuDeviceGetAttribute");
    constexpr int kMultiprocessors = 16;
    check(attribute(&multiprocessors_, kMultiprocessors, device), "cuDeviceGetAttribute");
    find<int(int *)>("cuDriverGetVersion")(&version_);
  }

  void use() const { check(find<int(CUcontext)>("cuCtxSetCurrent")(context_), "cuCtxSetCurrent"); }

  CUmodule load(const std::string &path) const {
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (text.empty()) throw std::runtime_error("cannot read " + path);
    CUmodule module = nullptr;
    auto load = find<int(CUmodule *, const void *)>("cuModuleLoadData");
    check(load(&module, text.c_str()), "cuModuleLoadData");
    return module;
  }

  CUfunction function(CUmodule module, const char *name) const {
    CUfunction function = nullptr;
    auto get = find<int(CUfunction *, CUmodule, const char *)>("cuModuleGetFunction");
    check(get(&function, module, name), name);
    return function;
  }

  CUstream stream() const {
    constexpr unsigned kNonBlocking = 1;
    CUstream stream = nullptr;
    auto create = find<int(CUstream *, unsigned)>("cuStreamCreate");
    check(create(&stream, kNonBlocking), "cuStreamCreate");
    return stream;
  }

  // Memory of the host that kernels write to, cleared.
  uint64_t *shared(size_t words) const {
    constexpr unsigned kMapped = 2;
    void *memory = nullptr;
    auto allocate = find<int(void **, size_t, unsigned)>("cuMemHostAlloc");
    check(allocate(&memory, words * 8, kMapped), "cuMemHostAlloc");
    auto *shared = static_cast<uint64_t *>(memory);
    std::fill(shared, shared + words, 0);
    return shared;
  }

  CUdeviceptr on_device(void *shared) const {
    CUdeviceptr address = 0;
    auto get = find<int(CUdeviceptr *, void *, unsigned)>("cuMemHostGetDevicePointer_v2");
    check(get(&address, shared, 0), "cuMemHostGetDevicePointer");
    return address;
  }

  int launch(CUfunction function, unsigned blocks, unsigned threads, CUstream stream,
             void **parameters) const {
    return launch_(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  }

  void wait(CUstream stream) const { check(synchronize_(stream), "cuStreamSynchronize"); }

  CUevent event() const {
    constexpr unsigned kDisableTiming = 2;
    CUevent event = nullptr;
    auto create = find<int(CUevent *, unsigned)>("cuEventCreate");
    check(create(&event, kDisableTiming), "cuEventCreate");
    return event;
  }
  void record(CUevent event, CUstream stream) const {
    check(record_(event, stream), "cuEventRecord");
  }
  void wait(CUevent event) const { check(wait_event_(event), "cuEventSynchronize"); }

  unsigned blocks() const { return 2 * static_cast<unsigned>(multiprocessors_); }
  const std::string &device() const { return device_; }
  int version() const { return version_; }

  static void check(int code, const char *call) {
    if (code == 0) return;
    throw std::runtime_error(std::string(call) + " answered " + std::to_string(code));
  }

 private:
  template <typename Signature>
  Signature *find(const char *name) const {
    void *found = dlsym(library_, name);
    if (found == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
    return reinterpret_cast<Signature *>(found);
  }

  void *library_;
  CUcontext context_ = nullptr;
  int multiprocessors_ = 0;
  int version_ = 0;
  std::string device_;

  using Launch = int(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void **, void **);
  // Found once: they are what is measured.
  Launch *launch_ = load_later<Launch>("cuLaunchKernel");
  int (*synchronize_)(CUstream) = load_later<int(CUstream)>("cuStreamSynchronize");
  int (*record_)(CUevent, CUstream) = load_later<int(CUevent, CUstream)>("cuEventRecord");
  int (*wait_event_)(CUevent) = load_later<int(CUevent)>("cuEventSynchronize");

  template <typename Signature>
  static Signature *load_later(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library == nullptr ? nullptr : dlsym(library, name);
    if (found == nullptr) throw std::runtime_error(std::string("there is no CUDA, or no ") + name);
    return reinterpret_cast<Signature *>(found);
  }
};

// A kernel that fills the device for some time, and may write its start and end to two words.
struct Spin {
  const Driver *driver;
  CUfunction function;
  unsigned blocks;
  uint64_t cycles;
  CUdeviceptr stamps;

  int launch(CUstream stream) const {
    uint64_t length = cycles;
    CUdeviceptr words = stamps;
    void *parameters[] = {&length, &words};
    constexpr unsigned kThreads = 1024;
    return driver->launch(function, blocks, kThreads, stream, parameters);
  }
};

// The kernels, and how fast they spin.
class Kernels {
 public:
  Kernels(const Driver &driver, const std::string &ptx)
      : driver_(driver), module_(driver.load(ptx)), spin_(driver.function(module_, "xs_spin")) {
    clock_ = driver.function(module_, "xs_clock");
    empty_ = driver.function(module_, "xs_nothing");
    stream_ = driver.stream();
    words_ = driver.shared(kRounds + 8);
    measure();
  }

  // Kernels in a row take so long each.
  Spin spin(int64_t ns, CUdeviceptr stamps = 0) const {
    auto cycles = static_cast<double>(ns - gap_ns_) * cycles_per_ns_;
    auto whole = static_cast<uint64_t>(std::max(cycles, 0.0));
    return {&driver_, spin_, driver_.blocks(), whole, stamps};
  }

  int launch_empty(CUstream stream) const {
    return driver_.launch(empty_, 1, 1, stream, nullptr);
  }

  // The device's clock less the host's, in nanoseconds, and how far it may be off. Nothing else may
  // fill the device meanwhile.
  std::pair<int64_t, int64_t> clock() const {
    std::fill(words_, words_ + kRounds + 8, 0);
    uint64_t rounds = kRounds;
    CUdeviceptr words = driver_.on_device(words_);
    void *parameters[] = {&words, &rounds};
    Driver::check(driver_.launch(clock_, 1, 1, stream_, parameters), "cuLaunchKernel");
    int64_t offset = 0, best = INT64_MAX;
    volatile uint64_t *shared = words_;
    for (uint64_t n = 1; n <= kRounds; ++n) {
      int64_t before = now_ns();
      shared[0] = n;
      while (shared[7 + n] == 0) {
      }
      int64_t after = now_ns();
      if (after - before < best) {
        best = after - before;
        offset = static_cast<int64_t>(shared[7 + n]) - (before + after) / 2;
      }
    }
    driver_.wait(stream_);
    return {offset, best / 2};
  }

 private:
  static constexpr uint64_t kRounds = 24;
  static constexpr int kRow = 200;

  // The time of a kernel in a row is that of its cycles and a gap between two kernels.
  void measure() {
    double shorter = row_ns(50'000), longer = row_ns(500'000);
    shorter = std::min(shorter, row_ns(50'000));
    longer = std::min(longer, row_ns(500'000));
    cycles_per_ns_ = 450'000 / (longer - shorter);
    gap_ns_ = static_cast<int64_t>(shorter - 50'000 / cycles_per_ns_);
  }

  double row_ns(uint64_t cycles) const {
    Spin spin{&driver_, spin_, driver_.blocks(), cycles, 0};
    for (int n = 0; n < 20; ++n) spin.launch(stream_);
    driver_.wait(stream_);
    int64_t start = now_ns();
    for (int n = 0; n < kRow; ++n) spin.launch(stream_);
    driver_.wait(stream_);
    return static_cast<double>(now_ns() - start) / kRow;
  }

  const Driver &driver_;
  CUmodule module_;
  CUfunction spin_, clock_ = nullptr, empty_ = nullptr;
  CUstream stream_ = nullptr;
  uint64_t *words_ = nullptr;
  double cycles_per_ns_ = 1;
  int64_t gap_ns_ = 0;
};
