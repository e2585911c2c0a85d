// Short tasks and endless kernels, as standard input says, one command a line:
//
//   load US        endless kernels of so many microseconds, with 32 on their way
//   stop           no more of them; prints how many ran, how many were lost, repeated or out of
//                  order, and the longest time between two that completed, in milliseconds
//   count          prints how many have completed
//   task N PAUSE   N tasks of 20 kernels of 100 microseconds, with pauses of up to PAUSE
//                  microseconds; prints how long they took
//
// A program that knows nothing of XQueues. Kernels fill the device; one of n times 100 µs stands for
// n waves of blocks. The streams have the priorities that their work suggests.
//
// Usage: waves next.ptx [CYCLES]
//
// CYCLES are those of the GPU's clock in a nanosecond. Without them, kernels of a tenth of a second
// measure it first.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "../../capi/bench/cuda.hpp"
#include "../../capi/bench/report.hpp"

namespace {

template <typename Signature>
Signature *find(const char *name) {
  void *found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (found == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  return reinterpret_cast<Signature *>(found);
}

CUstream stream_of(int priority) {
  CUstream stream = nullptr;
  auto create = find<int(CUstream *, unsigned, int)>("cuStreamCreateWithPriority");
  Driver::check(create(&stream, 1, priority), "cuStreamCreateWithPriority");
  return stream;
}

// Kernels of one stream, which count.
class Row {
 public:
  Row(const Driver &driver, CUfunction kernel, int priority)
      : driver_(driver), kernel_(kernel), stream_(stream_of(priority)), words_(driver.shared(2)) {
    address_ = driver.on_device(words_);
  }

  void launch(uint64_t cycles) {
    constexpr unsigned kThreads = 1024;
    uint64_t number = launched_++;
    void *parameters[] = {&cycles, &address_, &number};
    Driver::check(driver_.launch(kernel_, driver_.blocks(), kThreads, stream_, parameters),
                  "cuLaunchKernel");
  }
  void record(CUevent event) const { driver_.record(event, stream_); }
  void wait() const { driver_.wait(stream_); }
  uint64_t launched() const { return launched_; }
  uint64_t completed() const { return static_cast<volatile uint64_t *>(words_)[0]; }
  uint64_t wrong() const { return static_cast<volatile uint64_t *>(words_)[1]; }

 private:
  const Driver &driver_;
  CUfunction kernel_;
  CUstream stream_;
  uint64_t *words_;
  CUdeviceptr address_ = 0;
  uint64_t launched_ = 0;
};

// Cycles of a kernel by its time in a row, from a device that has nothing else to do. Where it has,
// kernels may be some times shorter or longer than they should be, and no more than that.
struct Clock {
  explicit Clock(double cycles_per_ns) : cycles_per_ns_(cycles_per_ns) {}
  explicit Clock(Row &row) {
    double shorter = 1e18, longer = 1e18;
    for (int n = 0; n < 3; ++n) {
      shorter = std::min(shorter, row_ns(row, 100'000));
      longer = std::min(longer, row_ns(row, 500'000));
    }
    // Other programs may have had the device for more of one of the two, or held this one.
    cycles_per_ns_ = 400'000 / std::clamp(longer - shorter, 400'000 / kFastest, 400'000 / kSlowest);
    gap_ns_ = std::max(shorter - 100'000 / cycles_per_ns_, 0.0);
  }
  uint64_t cycles(double ns) const {
    return static_cast<uint64_t>(std::max(ns - gap_ns_, 0.0) * cycles_per_ns_);
  }

 private:
  // Between these is the clock of every GPU, in cycles a nanosecond.
  static constexpr double kSlowest = 0.2, kFastest = 10;

  static double row_ns(Row &row, uint64_t cycles) {
    constexpr int kRow = 50;
    row.launch(cycles);
    row.wait();
    int64_t begin = now_ns();
    for (int n = 0; n < kRow; ++n) row.launch(cycles);
    row.wait();
    return static_cast<double>(now_ns() - begin) / kRow;
  }

  double cycles_per_ns_ = 1, gap_ns_ = 0;
};

// Endless kernels, launched by a thread of their own.
class Load {
 public:
  Load(const Driver &driver, Row &row, uint64_t cycles)
      : thread_([this, &driver, &row, cycles] { run(driver, row, cycles); }) {}
  ~Load() {
    is_over_ = true;
    thread_.join();
  }
  double longest_ms() const { return longest_ns_ / 1e6; }

 private:
  void run(const Driver &driver, Row &row, uint64_t cycles) {
    constexpr size_t kEvents = 4, kEach = 8;
    driver.use();
    std::deque<CUevent> waiting, free;
    for (size_t n = 0; n <= kEvents; ++n) free.push_back(driver.event());
    int64_t before = now_ns();
    while (!is_over_) {
      for (size_t n = 0; n < kEach; ++n) row.launch(cycles);
      waiting.push_back(free.front());
      free.pop_front();
      row.record(waiting.back());
      if (waiting.size() < kEvents) continue;
      driver.wait(waiting.front());
      free.push_back(waiting.front());
      waiting.pop_front();
      int64_t now = now_ns();
      longest_ns_ = std::max<int64_t>(longest_ns_, now - before);
      before = now;
    }
    row.wait();
  }

  std::atomic<bool> is_over_{false};
  std::atomic<int64_t> longest_ns_{0};
  std::thread thread_;
};

void tasks(Row &row, uint64_t cycles, int count, unsigned pause_us) {
  std::mt19937 random(1);
  std::vector<int64_t> times;
  for (int n = 0; n < count; ++n) {
    std::this_thread::sleep_for(std::chrono::microseconds(1 + random() % (pause_us + 1)));
    int64_t begin = now_ns();
    for (int k = 0; k < 20; ++k) row.launch(cycles);
    row.wait();
    times.push_back(now_ns() - begin);
  }
  std::printf("{");
  Quantiles(std::move(times)).print("task");
  std::printf(", \"wrong\": %llu}\n", static_cast<unsigned long long>(row.wrong()));
}

}  // namespace

int main(int count, char **arguments) {
  double known = count > 2 ? std::atof(arguments[2]) : 1;
  if (count < 2 || known <= 0) return std::fprintf(stderr, "usage: waves next.ptx [CYCLES]\n"), 2;
  Driver driver;
  CUfunction kernel = driver.function(driver.load(arguments[1]), "xs_next");
  int least = 0, greatest = 0;
  auto range = find<int(int *, int *)>("cuCtxGetStreamPriorityRange");
  Driver::check(range(&least, &greatest), "cuCtxGetStreamPriorityRange");
  Row urgent(driver, kernel, greatest), endless(driver, kernel, least);
  Clock clock = count > 2 ? Clock(known) : Clock(urgent);
  std::optional<Load> load;
  std::printf("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line); std::fflush(stdout)) {
    std::istringstream words(line);
    std::string what;
    unsigned number = 0, pause_us = 0;
    words >> what >> number >> pause_us;
    if (what == "load") {
      load.emplace(driver, endless, clock.cycles(number * 1e3));
      std::printf("loaded\n");
    } else if (what == "stop") {
      double longest_ms = load ? load->longest_ms() : 0;
      load.reset();
      endless.wait();
      auto lost = static_cast<long long>(endless.launched() - endless.completed());
      std::printf("{\"ran\": %llu, \"lost\": %lld, \"wrong\": %llu, \"longest_ms\": %.3f}\n",
                  static_cast<unsigned long long>(endless.completed()), lost,
                  static_cast<unsigned long long>(endless.wrong()), longest_ms);
    } else if (what == "count") {
      std::printf("%llu\n", static_cast<unsigned long long>(endless.completed()));
    } else {
      tasks(urgent, clock.cycles(100e3), static_cast<int>(number), pause_us);
    }
  }
}
