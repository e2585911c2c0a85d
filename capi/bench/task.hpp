// A task on a plain stream or through an XQueue, by the public C API alone.

#pragma once

#include <xsched/xsched.h>
#include <xsched/cuda/hal.h>

#include <atomic>
#include <deque>
#include <memory>

#include "cuda.hpp"

inline void check(XResult result, const char *call) {
  if (result == kXSchedSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + XSchedGetLastErrorString());
}

// How a task reaches the device: past XSched, or at a level.
struct Way {
  const char *mode;
  int level;  // 0 for a plain stream
  int threshold;
  int batch;
  int priority;
  int64_t flags = kQueueCreateFlagNone;
};

class Task {
 public:
  Task(const Driver &driver, Way way) : driver_(driver), way_(way), stream_(driver.stream()) {
    if (way.level == 0) return;
    check(CudaQueueCreate(&hardware_, stream_), "CudaQueueCreate");
    check(XQueueCreate(&queue_, hardware_, way.level, way.flags), "XQueueCreate");
    check(XQueueSetLaunchConfig(queue_, way.threshold, way.batch), "XQueueSetLaunchConfig");
    check(XHintPriority(queue_, way.priority), "XHintPriority");
  }

  ~Task() {
    if (queue_ != 0) XQueueDestroy(queue_);
    if (hardware_ != 0) HwQueueDestroy(hardware_);
  }

  Task(const Task &) = delete;
  Task &operator=(const Task &) = delete;

  // What is launched stays alive until it has run.
  template <typename Kernel>
  void launch(const Kernel &kernel) {
    if (queue_ == 0) {
      Driver::check(kernel.launch(stream_), "cuLaunchKernel");
      return;
    }
    HwCommandHandle command = 0;
    auto run = [](HwQueueHandle, void *data) -> XResult {
      auto *job = static_cast<Job<Kernel> *>(data);
      return job->kernel->launch(job->stream) == 0 ? kXSchedSuccess : kXSchedErrorHardware;
    };
    check(HwCommandCreateCallback(&command, run, job(kernel)), "HwCommandCreateCallback");
    check(XQueueSubmit(queue_, command), "XQueueSubmit");
  }

  void wait() {
    if (queue_ == 0) {
      driver_.wait(stream_);
    } else {
      check(XQueueWaitAll(queue_), "XQueueWaitAll");
    }
  }

  // Launches one more command when fewer than the threshold are in flight.
  template <typename Kernel>
  void launch_within(const Kernel &kernel) {
    launch(kernel);
    if (queue_ != 0) return;  // the window does it
    CUevent event = free_.empty() ? driver_.event() : free_.back();
    if (!free_.empty()) free_.pop_back();
    driver_.record(event, stream_);
    flying_.push_back(event);
    if (flying_.size() < static_cast<size_t>(way_.threshold)) return;
    driver_.wait(flying_.front());
    free_.push_back(flying_.front());
    flying_.pop_front();
  }

  template <typename Kernel>
  int64_t run_ns(const Kernel &kernel, int count) {
    int64_t start = now_ns();
    for (int n = 0; n < count; ++n) launch(kernel);
    wait();
    return now_ns() - start;
  }

  XQueueHandle queue() const { return queue_; }

 private:
  template <typename Kernel>
  struct Job {
    const Kernel *kernel;
    CUstream stream;
  };

  // One kernel is launched again and again, so its job is made once.
  template <typename Kernel>
  void *job(const Kernel &kernel) {
    for (auto &[known, job] : jobs_) {
      if (known == &kernel) return job.get();
    }
    auto made = std::make_shared<Job<Kernel>>(Job<Kernel>{&kernel, stream_});
    jobs_.emplace_back(&kernel, made);
    return made.get();
  }

  const Driver &driver_;
  Way way_;
  CUstream stream_;
  HwQueueHandle hardware_ = 0;
  XQueueHandle queue_ = 0;
  std::vector<std::pair<const void *, std::shared_ptr<void>>> jobs_;
  std::deque<CUevent> flying_;
  std::vector<CUevent> free_;
};
