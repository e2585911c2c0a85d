// Rows that need no GPU: callbacks that launch nothing, on the host device or, where XSCHED_HIP_LIB
// names a HIP runtime, such as the emulated one, on its streams. What a row takes is compared with
// what this machine takes at that moment for something simple, so that a figure of a slow or busy
// machine still says something.

#pragma once

#include <xsched/hip/hal.h>
#include <xsched/host/hal.h>

#include <dlfcn.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "report.hpp"

namespace host {

constexpr int kCommands = 4'000;
constexpr int kThreads = 4;

// Where queues are made.
class Device {
 public:
  Device() {
    const char *path = std::getenv("XSCHED_HIP_LIB");
    if (path == nullptr) return;
    void *library = dlopen(path, RTLD_NOW);
    void *create = library == nullptr ? nullptr : dlsym(library, "hipStreamCreateWithFlags");
    if (create == nullptr) throw std::runtime_error(std::string("cannot use ") + path);
    create_stream_ = reinterpret_cast<int (*)(hipStream_t *, unsigned)>(create);
  }

  HwQueueHandle queue() const {
    HwQueueHandle hardware = 0;
    if (create_stream_ == nullptr) {
      check(HostQueueCreate(&hardware), "HostQueueCreate");
      return hardware;
    }
    constexpr unsigned kNonBlocking = 1;
    hipStream_t stream = nullptr;
    Driver::check(create_stream_(&stream, kNonBlocking), "hipStreamCreateWithFlags");
    check(HipQueueCreate(&hardware, stream), "HipQueueCreate");
    return hardware;
  }

  const char *name() const { return create_stream_ == nullptr ? "host" : "hip"; }

 private:
  int (*create_stream_)(hipStream_t *, unsigned) = nullptr;
};

class Queue {
 public:
  explicit Queue(const Device &device) : hardware_(device.queue()) {
    check(XQueueCreate(&queue_, hardware_, 1, kQueueCreateFlagNone), "XQueueCreate");
    // Many commands between two events, so that the device takes little of what is measured.
    check(XQueueSetLaunchConfig(queue_, 1024, 512), "XQueueSetLaunchConfig");
  }
  ~Queue() {
    XQueueDestroy(queue_);
    HwQueueDestroy(hardware_);
  }
  Queue(const Queue &) = delete;
  Queue &operator=(const Queue &) = delete;

  void submit(HwCommandHandle command) const {
    check(XQueueSubmit(queue_, command), "XQueueSubmit");
  }
  void suspend() const { check(XQueueSuspend(queue_, kQueueSuspendFlagNone), "XQueueSuspend"); }
  void resume() const { check(XQueueResume(queue_, kQueueResumeFlagNone), "XQueueResume"); }
  void wait() const { check(XQueueWaitAll(queue_), "XQueueWaitAll"); }

 private:
  HwQueueHandle hardware_;
  XQueueHandle queue_ = 0;
};

using Queues = std::vector<std::unique_ptr<Queue>>;

inline HwCommandHandle create() {
  HwCommandHandle command = 0;
  auto nothing = [](HwQueueHandle, void *) -> XResult { return kXSchedSuccess; };
  check(HwCommandCreateCallback(&command, nothing, nullptr), "HwCommandCreateCallback");
  return command;
}

// What rows are compared with: a record goes into a ring under a mutex that no other thread wants.
class Ring {
 public:
  void push(uint64_t value) {
    std::lock_guard<std::mutex> guard(mutex_);
    records_[next_++ % records_.size()].fill(value);
  }

 private:
  std::mutex mutex_;
  uint64_t next_ = 0;
  std::array<std::array<uint64_t, 8>, 1024> records_{};
};

// Nanoseconds of a processor that this thread or the process has had. A thread that another program
// keeps from running takes none.
inline int64_t used_ns(clockid_t of) {
  timespec used{};
  clock_gettime(of, &used);
  return int64_t(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
}

// Nanoseconds for each of so many calls.
template <typename Call>
double each_ns(int count, Call call) {
  int64_t start = used_ns(CLOCK_THREAD_CPUTIME_ID);
  for (int n = 0; n < count; ++n) call(n);
  return double(used_ns(CLOCK_THREAD_CPUTIME_ID) - start) / count;
}

// The same for the process, with what its other threads do for the calls.
template <typename Calls>
double each_of_process_ns(int count, Calls calls) {
  int64_t start = used_ns(CLOCK_PROCESS_CPUTIME_ID);
  calls();
  return double(used_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / count;
}

// The same as the first in threads that call at once: of the thread in the middle.
template <typename Call>
double each_in_threads_ns(int count, Call call) {
  std::atomic<int> ready{0};
  std::vector<double> times(kThreads);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      ready.fetch_add(1);
      while (ready.load() < kThreads) std::this_thread::yield();
      times[thread] = each_ns(count, [&](int) { call(thread); });
    });
  }
  for (auto &thread : threads) thread.join();
  std::sort(times.begin(), times.end());
  return times[kThreads / 2];
}

// What each row took in each round, and what it is compared with right before and after.
class Rows {
 public:
  template <typename Call, typename Reference>
  void add(const char *name, Call row_ns, Reference reference_ns) {
    double before = reference_ns(), took = row_ns();
    double reference = (before + reference_ns()) / 2;
    if (!counts) return;
    auto same = [name](const Row &row) { return std::strcmp(row.name, name) == 0; };
    auto row = std::find_if(rows_.begin(), rows_.end(), same);
    if (row == rows_.end()) row = rows_.insert(row, Row{name, {}, {}, {}});
    row->ns.push_back(took);
    row->reference_ns.push_back(reference);
    row->ratios.push_back(took / reference);
  }

  void print() {
    const char *between = "";
    for (Row &row : rows_) {
      std::printf("%s\n    {\"row\": \"%s\", \"rounds\": %zu, ", between, row.name, row.ns.size());
      std::printf("\"ns\": %.1f, \"reference_ns\": %.1f, ", at(row.ns, 0.5),
                  at(row.reference_ns, 0.5));
      std::printf("\"ratio\": %.3f, \"p10\": %.3f, \"p90\": %.3f}", at(row.ratios, 0.5),
                  at(row.ratios, 0.1), at(row.ratios, 0.9));
      between = ",";
    }
  }

  // Rounds before that are not kept: they warm up.
  bool counts = false;

 private:
  struct Row {
    const char *name;
    std::vector<double> ns, reference_ns, ratios;
  };

  static double at(std::vector<double> &times, double share) {
    std::sort(times.begin(), times.end());
    return times[static_cast<size_t>(share * double(times.size() - 1) + 0.5)];
  }

  std::vector<Row> rows_;
};

class Rig {
 public:
  explicit Rig(const Device &device) {
    for (int n = 0; n < 16; ++n) queues_.push_back(std::make_unique<Queue>(device));
    commands_.resize(2 * kCommands);
  }

  void round() {
    held();
    drained("empty callbacks after a hold, 4 queues", 4);
    drained("empty callbacks after a hold, 16 queues", 16);
    threads();
    live();
  }

  Rows rows;

 private:
  // The calls for one held queue, and what runs when it is resumed.
  void held() {
    const Queue &queue = *queues_[0];
    queue.suspend();
    add("create a command", [&] {
      return each_ns(kCommands, [&](int n) { commands_[static_cast<size_t>(n)] = create(); });
    });
    add("submit to a held queue", [&] {
      return each_ns(kCommands, [&](int n) { queue.submit(commands_[static_cast<size_t>(n)]); });
    });
    add("empty callbacks after a hold, 1 queue", [&] { return drain_ns(1, kCommands); });
  }

  // Commands submitted in turn to held queues, then let go.
  void drained(const char *name, size_t count) {
    for (size_t n = 0; n < count; ++n) queues_[n]->suspend();
    for (size_t n = 0; n < commands_.size(); ++n) queues_[n % count]->submit(create());
    add(name, [&] { return drain_ns(count, static_cast<int>(commands_.size())); });
  }

  double drain_ns(size_t count, int commands) {
    return each_of_process_ns(commands, [&] {
      for (size_t n = 0; n < count; ++n) queues_[n]->resume();
      for (size_t n = 0; n < count; ++n) queues_[n]->wait();
    });
  }

  // Threads that create commands and submit them to held queues of their own.
  void threads() {
    for (size_t n = 0; n < kThreads; ++n) queues_[n]->suspend();
    auto submits = [&](size_t thread) { queues_[thread]->submit(create()); };
    auto pushes = [&](size_t thread) { rings_[thread].push(thread); };
    rows.add(
        "create and submit to held queues, 4 threads",
        [&] { return each_in_threads_ns(kCommands, submits); },
        [&] { return each_in_threads_ns(4 * kCommands, pushes); });
    drain_ns(kThreads, kCommands);
  }

  // The calls for one queue that is not held.
  void live() {
    const Queue &queue = *queues_[0];
    add("empty callbacks as they come", [&] {
      return each_of_process_ns(kCommands, [&] {
        for (int n = 0; n < kCommands; ++n) queue.submit(create());
        queue.wait();
      });
    });
    add("suspend and resume", [&] {
      return each_ns(kCommands / 10, [&](int) {
        queue.suspend();
        queue.resume();
      });
    });
  }

  template <typename Row>
  void add(const char *name, Row row_ns) {
    auto push = [&](int n) { rings_[0].push(static_cast<uint64_t>(n)); };
    rows.add(name, row_ns, [&] { return each_ns(kCommands, push); });
  }

  Queues queues_;
  std::vector<HwCommandHandle> commands_;
  std::array<Ring, kThreads> rings_;
};

inline void run(int rounds) {
  constexpr int kWarmUp = 3;
  Device device;
  Rig rig(device);
  for (int round = 0; round < kWarmUp + rounds; ++round) {
    rig.rows.counts = round >= kWarmUp;
    rig.round();
  }
  std::printf("{\n  \"bench\": \"host\",\n  \"through\": \"the C API\",\n");
  std::printf("  \"device\": \"%s\",\n", device.name());
  std::printf("  \"reference\": \"64 bytes into a ring under a mutex\",\n  \"rows\": [");
  rig.rows.print();
  std::printf("\n  ]\n}\n");
}

}  // namespace host
