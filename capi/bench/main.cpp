// What `xsched-lab bench` measures on an NVIDIA GPU, measured by a C++ program through the public C
// API: preempt, overhead, fixed-priority and partition, with the same kernels and plans; and the
// rows of rows.hpp. The rows of host.hpp need no GPU.
//
//   bench EXPERIMENT SPIN_PTX SAMPLES > record.json
//   bench --host [ROUNDS] > record.json
//
// Link with libpreempt, libhalcuda, libhalhip and libhalhost; lab/README.md has the commands.

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "host.hpp"
#include "rows.hpp"

namespace {

double processor_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval time) { return double(time.tv_sec) + double(time.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Rows of commands, in all modes by turns.
void overhead(Bench &bench) {
  struct Empty {
    const Kernels *kernels;
    int launch(CUstream stream) const { return kernels->launch_empty(stream); }
  };
  for (int64_t command_ns : {10'000, 100'000, 1'000'000}) {
    Spin kernel = bench.kernels.spin(command_ns);
    int commands = static_cast<int>(40'000'000 / command_ns);
    std::vector<std::unique_ptr<Task>> tasks;
    for (int level = 0; level <= kLevels; ++level) {
      tasks.push_back(std::make_unique<Task>(bench.driver, Way{kModes[level], level, 16, 8, 0}));
    }
    std::vector<std::vector<int64_t>> times(tasks.size());
    for (int round = 0; round <= 21; ++round) {
      for (size_t n = 0; n < tasks.size(); ++n) {
        int64_t took = tasks[n]->run_ns(kernel, commands);
        if (round > 0) times[n].push_back(took);
      }
    }
    double plain = Quantiles(times[0]).at(0.5);
    for (size_t n = 0; n < tasks.size(); ++n) {
      bench.row();
      std::printf("\"mode\": \"%s\", \"command_ns\": %lld, \"commands\": %d, ", kModes[n],
                  static_cast<long long>(command_ns), commands);
      Quantiles row(times[n]);
      row.print("row");
      std::printf(", \"overhead\": %.5f}", row.at(0.5) / plain - 1);
    }
  }
  Empty empty{&bench.kernels};
  std::vector<std::unique_ptr<Task>> tasks;
  std::vector<std::vector<int64_t>> times(kLevels + 1);
  for (int level = 0; level <= kLevels; ++level) {
    tasks.push_back(std::make_unique<Task>(bench.driver, Way{kModes[level], level, 16, 8, 0}));
  }
  for (int n = 0; n < 3000; ++n) {
    for (size_t mode = 0; mode < tasks.size(); ++mode) {
      times[mode].push_back(tasks[mode]->run_ns(empty, 1));
    }
  }
  double plain = Quantiles(times[0]).at(0.5);
  for (size_t mode = 0; mode < tasks.size(); ++mode) {
    bench.row();
    std::printf("\"mode\": \"%s\", \"lone\": true, ", kModes[mode]);
    Quantiles lone(times[mode]);
    lone.print("time");
    std::printf(", \"added_us\": %.3f}", lone.at(0.5) - plain);
  }
}

// A task that is always busy, in a thread of its own.
class Background {
 public:
  Background(Bench &bench, Task &task, Spin kernel) : kernel_(kernel) {
    thread_ = std::thread([this, &bench, &task] {
      try {
        bench.driver.use();
        while (!stop_.load(std::memory_order_relaxed)) {
          task.launch_within(kernel_);
          launched_.fetch_add(1, std::memory_order_relaxed);
        }
        task.wait();
      } catch (const std::exception &error) {
        std::fprintf(stderr, "the background failed: %s\n", error.what());
        std::exit(1);
      }
    });
  }
  ~Background() {
    stop_ = true;
    thread_.join();
  }
  uint64_t launched() const { return launched_.load(std::memory_order_relaxed); }

 private:
  Spin kernel_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> launched_{0};
  std::thread thread_;
};

// Runs of 20 commands of 100 us, with pauses of 1 to 3 ms.
std::vector<int64_t> foreground(Bench &bench, Task &task) {
  Spin kernel = bench.kernels.spin(100'000);
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> pause_ns(1'000'000, 3'000'000);
  std::vector<int64_t> times;
  for (int n = 0; n < bench.samples + 10; ++n) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns(random)));
    int64_t took = task.run_ns(kernel, 20);
    if (n >= 10) times.push_back(took);
  }
  return times;
}

void fixed_priority(Bench &bench) {
  check(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst), "XHintSetScheduler");
  auto fore = [](int level) { return Way{kModes[level], level > 0 ? 1 : 0, 64, 16, 10}; };
  auto back = [](int level) { return Way{kModes[level], level, 8, 1, 0}; };
  Task alone(bench.driver, fore(0));
  Quantiles plain(foreground(bench, alone));
  for (int64_t command_ns : {100'000, 500'000, 2'000'000}) {
    for (int level = 0; level <= kLevels; ++level) {
      Task first(bench.driver, fore(level)), second(bench.driver, back(level));
      Background background(bench, second, bench.kernels.spin(command_ns));
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      uint64_t before = background.launched();
      int64_t start = now_ns();
      Quantiles times(foreground(bench, first));
      auto ran = static_cast<double>(background.launched() - before) * double(command_ns);
      double share = ran / double(now_ns() - start);
      bench.row();
      std::printf("\"mode\": \"%s\", \"background_ns\": %lld, ", kModes[level],
                  static_cast<long long>(command_ns));
      times.print("foreground");
      std::printf(", \"p99_over_alone\": %.4f, \"p50_over_alone\": %.4f, ",
                  times.at(0.99) / plain.at(0.99), times.at(0.5) / plain.at(0.5));
      std::printf("\"background_share\": %.4f}", share);
    }
  }
}

// Device time over time that tasks with commands of 500 us got in 4 s.
std::vector<double> shares(Bench &bench, std::vector<std::unique_ptr<Task>> tasks) {
  constexpr int64_t kCommandNs = 500'000;
  std::vector<std::unique_ptr<Background>> running;
  for (auto &task : tasks) {
    running.push_back(std::make_unique<Background>(bench, *task, bench.kernels.spin(kCommandNs)));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  std::vector<uint64_t> before;
  for (auto &task : running) before.push_back(task->launched());
  int64_t start = now_ns();
  std::this_thread::sleep_for(std::chrono::seconds(4));
  std::vector<double> used;
  for (size_t n = 0; n < running.size(); ++n) {
    used.push_back(double(running[n]->launched() - before[n]) * double(kCommandNs) /
                   double(now_ns() - start));
  }
  return used;
}

void partition(Bench &bench) {
  check(XHintSetScheduler(kSchedulerLocal, kPolicyUtilizationPartition), "XHintSetScheduler");
  auto tasks = [&](int count, int level) {
    std::vector<std::unique_ptr<Task>> made;
    for (int n = 0; n < count; ++n) {
      made.push_back(std::make_unique<Task>(bench.driver, Way{kModes[level], level, 8, 1, 0}));
      if (level == 0) continue;
      check(XHintUtilization(made.back()->queue(), n == 0 ? 75 : 25), "XHintUtilization");
    }
    return made;
  };
  double alone = shares(bench, tasks(1, 0))[0];
  for (int level = 0; level <= kLevels; ++level) {
    double processor = processor_s();
    int64_t start = now_ns();
    std::vector<double> used = shares(bench, tasks(2, level));
    processor = (processor_s() - processor) * 1e9 / double(now_ns() - start);
    bench.row();
    std::printf("\"mode\": \"%s\", \"first_percent\": %.2f, \"total\": %.4f, \"processors\": %.3f}",
                kModes[level], 100 * used[0] / (used[0] + used[1]), (used[0] + used[1]) / alone,
                processor);
  }
}

// From the hold to the victim's last instruction.
int64_t quiet_ns(Bench &bench, Task &task, Victim &victim) {
  int64_t held = now_ns();
  check(XQueueSuspend(task.queue(), kQueueSuspendFlagSyncHwQueue), "XQueueSuspend");
  uint64_t last = victim.last();
  for (int64_t silent = now_ns(); now_ns() - silent < 300'000;) {
    uint64_t seen = victim.last();
    if (seen != last || victim.is_inside()) silent = now_ns();
    last = seen;
  }
  auto clock = bench.kernels.clock();
  check(XQueueResume(task.queue(), kQueueResumeFlagNone), "XQueueResume");
  return std::max<int64_t>(static_cast<int64_t>(last) - clock.first - held, 0);
}

void preempt(Bench &bench) {
  check(XHintSetScheduler(kSchedulerAppManaged, kPolicyUnknown), "XHintSetScheduler");
  for (int64_t command_ns : {10'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000}) {
    for (int level = 1; level <= kLevels; ++level) {
      Task task(bench.driver, Way{kModes[level], level, 8, 1, 0});
      Victim victim(bench, task, command_ns);
      std::mt19937_64 random(1);
      std::uniform_int_distribution<int64_t> run_ns(2 * command_ns, 4 * command_ns);
      std::vector<int64_t> times;
      for (int n = 0; n < bench.samples; ++n) {
        uint64_t before = victim.last();
        victim.feed(64);
        while (victim.last() == before) {
        }
        std::this_thread::sleep_for(std::chrono::nanoseconds(run_ns(random)));
        times.push_back(quiet_ns(bench, task, victim));
      }
      task.wait();
      bench.row();
      std::printf("\"mode\": \"%s\", \"level\": %d, \"command_ns\": %lld, \"threshold\": 8, ",
                  kModes[level], level, static_cast<long long>(command_ns));
      Quantiles(times).print("quiet");
      std::printf("}");
    }
  }
}

int run(const char *experiment, const char *ptx, int samples) {
  const std::pair<const char *, void (*)(Bench &)> known[] = {
      {"preempt", preempt}, {"overhead", overhead}, {"fixed-priority", fixed_priority},
      {"partition", partition},         {"many", rows::many},
      {"drain", rows::drain},           {"submit", rows::submit},
      {"control", rows::control},       {"threshold", rows::threshold},
      {"first-use", rows::first_use},   {"after-hold", rows::after_hold}};
  for (auto [name, measure] : known) {
    if (std::strcmp(name, experiment) != 0) continue;
    Driver driver;
    Kernels kernels(driver, ptx);
    Bench bench{driver, kernels, samples};
    std::printf("{\n  \"bench\": \"%s\",\n  \"through\": \"the C API\",\n", experiment);
    const char *spacing = std::getenv("XSCHED_GATE_SPACING_US");
    std::printf("  \"gate_spacing_us\": %s,\n", spacing == nullptr ? "300" : spacing);
    std::printf("  \"device\": \"%s\",\n  \"driver\": \"CUDA %d.%d\",\n  \"rows\": [",
                driver.device().c_str(), driver.version() / 1000, driver.version() % 1000 / 10);
    measure(bench);
    std::printf("\n  ]\n}\n");
    return 0;
  }
  std::fprintf(stderr, "there is no experiment %s\n", experiment);
  return 2;
}

}  // namespace

int main(int argc, char **argv) {
  constexpr int kRounds = 41;
  bool on_host = argc > 1 && argc < 4 && std::strcmp(argv[1], "--host") == 0;
  int rounds = argc == 3 ? std::atoi(argv[2]) : kRounds;
  if (!(on_host && rounds > 0) && (argc != 4 || std::atoi(argv[3]) < 1)) {
    std::fprintf(stderr,
                 "usage: bench preempt|overhead|fixed-priority|partition|many|drain|submit|control|"
                 "threshold|first-use|after-hold SPIN_PTX SAMPLES\n"
                 "       bench --host [ROUNDS]\n");
    return 2;
  }
  try {
    if (!on_host) return run(argv[1], argv[2], std::atoi(argv[3]));
    host::run(rounds);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
