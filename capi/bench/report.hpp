// What all experiments print with, and a queue whose kernels write down when they run.

#pragma once

#include <algorithm>
#include <cstdio>
#include <vector>

#include "task.hpp"

constexpr int kLevels = 2;
inline const char *const kModes[] = {"plain", "lv1", "gate"};
// The same levels with launcher threads.
inline const char *const kLaunchers[] = {"", "lv1_launcher", "gate_launcher"};

// Nearest ranks, in microseconds; the 99th percentile only of 1,000 samples and more.
struct Quantiles {
  explicit Quantiles(std::vector<int64_t> times) : times_(std::move(times)) {
    std::sort(times_.begin(), times_.end());
  }
  double at(double share) const {
    if (times_.empty()) return 0;
    auto rank = static_cast<size_t>(share * static_cast<double>(times_.size()) + 0.999999);
    return static_cast<double>(times_[std::min(std::max<size_t>(rank, 1), times_.size()) - 1]) / 1e3;
  }
  void print(const char *name) const {
    std::printf("\"%s\": {\"samples\": %zu, \"p50_us\": %.3f, \"p90_us\": %.3f, ", name,
                times_.size(), at(0.5), at(0.9));
    if (times_.size() >= 1000) {
      std::printf("\"p99_us\": %.3f, ", at(0.99));
    } else {
      std::printf("\"p99_us\": null, ");
    }
    std::printf("\"max_us\": %.3f}", at(1.0));
  }

 private:
  std::vector<int64_t> times_;
};

struct Bench {
  const Driver &driver;
  const Kernels &kernels;
  int samples;
  bool first = true;

  void row() {
    std::printf(first ? "\n    {" : ",\n    {");
    first = false;
  }
};

// A queue that always has work, whose kernels write down when they start and end.
class Victim {
 public:
  Victim(Bench &bench, Task &task, int64_t command_ns) : bench_(bench), task_(task) {
    stamps_ = bench.driver.shared(2 * kPlaces);
    CUdeviceptr stamps = bench.driver.on_device(stamps_);
    for (unsigned n = 0; n < kPlaces; ++n) {
      kernels_.push_back(bench.kernels.spin(command_ns, stamps + 16 * n));
    }
  }

  // Gives it commands until so many are ahead.
  void feed(unsigned count) {
    for (unsigned n = ahead(); n < count; ++n) task_.launch(kernels_[next_++ % kPlaces]);
  }

  // Gives it one more command; waits while the queue is full.
  void push() { task_.launch(kernels_[next_++ % kPlaces]); }

  // The last that was written down.
  uint64_t last() const {
    uint64_t last = 0;
    volatile uint64_t *stamps = stamps_;
    for (unsigned n = 0; n < 2 * kPlaces; ++n) {
      uint64_t stamp = stamps[n];
      last = std::max(last, stamp);
    }
    return last;
  }

  // How many of the last kernels started or ended later than that, by the device's clock.
  unsigned stamped_after(int64_t at) const {
    unsigned count = 0;
    volatile uint64_t *stamps = stamps_;
    for (unsigned n = 0; n < kPlaces; ++n) {
      auto begin = static_cast<int64_t>(stamps[2 * n]), end = static_cast<int64_t>(stamps[2 * n + 1]);
      count += begin > at || end > at ? 1 : 0;
    }
    return count;
  }

  bool is_inside() const {
    volatile uint64_t *stamps = stamps_;
    for (unsigned n = 0; n < kPlaces; ++n) {
      if (stamps[2 * n] > stamps[2 * n + 1]) return true;
    }
    return false;
  }

 private:
  static constexpr unsigned kPlaces = 256;

  // Commands after the one that ended last.
  unsigned ahead() const {
    unsigned last = 0;
    volatile uint64_t *stamps = stamps_;
    for (unsigned n = 0; n < kPlaces; ++n) {
      if (stamps[2 * n + 1] > stamps[2 * last + 1]) last = n;
    }
    return next_ == 0 ? 0 : (next_ - 1 - last) % kPlaces;
  }

  Bench &bench_;
  Task &task_;
  uint64_t *stamps_;
  std::vector<Spin> kernels_;
  unsigned next_ = 0;
};
