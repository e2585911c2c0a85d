// Rows that other programs meet: many queues fed by one thread, live submits, drains, calls that
// hold and resume, small thresholds, the first use of a queue, and what runs after a hold.

#pragma once

#include <mutex>
#include <thread>

#include "report.hpp"
#include "task.hpp"

namespace rows {

using Tasks = std::vector<std::unique_ptr<Task>>;

inline Tasks tasks(Bench &bench, int level, int count, int64_t flags = 0) {
  Tasks made;
  for (int n = 0; n < count; ++n) {
    Way way{kModes[level], level, 16, 8, 0, flags};
    made.push_back(std::make_unique<Task>(bench.driver, way));
  }
  return made;
}

inline void wait(Tasks &tasks) {
  for (auto &task : tasks) task->wait();
}

// A callback that launches nothing.
struct Nothing {
  int launch(CUstream) const { return 0; }
};

// A kernel that does nothing.
struct Tiny {
  const Kernels *kernels;
  int launch(CUstream stream) const { return kernels->launch_empty(stream); }
};

inline double us(int64_t ns, int64_t count) { return double(ns) / 1e3 / double(count); }

// What the driver takes if each plain stream is fed by a thread of its own, per command of all.
inline int64_t threads_ns(Bench &bench, Tasks &streams, int commands) {
  Tiny tiny{&bench.kernels};
  std::atomic<size_t> ready{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> running;
  for (auto &stream : streams) {
    running.emplace_back([&] {
      bench.driver.use();
      ++ready;
      while (!go) std::this_thread::yield();
      for (size_t n = 0; n < static_cast<size_t>(commands) / streams.size(); ++n) stream->launch(tiny);
      stream->wait();
    });
  }
  while (ready < streams.size()) std::this_thread::yield();
  int64_t start = now_ns();
  go = true;
  for (auto &thread : running) thread.join();
  return (now_ns() - start) / commands;
}

// One thread feeds queues in turn until all commands are done.
inline void many(Bench &bench) {
  constexpr int kCommands = 16'000;
  Tiny tiny{&bench.kernels};
  for (int queues : {1, 4, 16}) {
    std::vector<Tasks> modes;
    std::vector<const char *> names;
    for (int level = 0; level <= kLevels; ++level) {
      modes.push_back(tasks(bench, level, queues));
      names.push_back(kModes[level]);
    }
    for (int level = 1; level <= kLevels; ++level) {
      modes.push_back(tasks(bench, level, queues, kQueueCreateFlagLauncherThread));
      names.push_back(kLaunchers[level]);
    }
    std::vector<std::vector<int64_t>> times(modes.size()), lone(modes.size());
    std::vector<int64_t> threads;
    for (int round = 0; round < 7; ++round) {
      for (size_t mode = 0; mode < modes.size(); ++mode) {
        int64_t start = now_ns();
        for (int n = 0; n < kCommands; ++n) {
          int64_t before = now_ns();
          modes[mode][static_cast<size_t>(n % queues)]->launch(tiny);
          // Beyond that an XQueue may be full, and a submit waits.
          if (n < 8'000) lone[mode].push_back(now_ns() - before);
        }
        wait(modes[mode]);
        if (round > 0) times[mode].push_back((now_ns() - start) / kCommands);
      }
      int64_t took = threads_ns(bench, modes[0], kCommands);
      if (round > 0) threads.push_back(took);
    }
    for (size_t mode = 0; mode < modes.size(); ++mode) {
      bench.row();
      std::printf("\"mode\": \"%s\", \"queues\": %d, ", names[mode], queues);
      Quantiles(times[mode]).print("per_command");
      std::printf(", ");
      Quantiles(lone[mode]).print("submit");
      std::printf("}");
    }
    bench.row();
    std::printf("\"mode\": \"plain_threads\", \"queues\": %d, ", queues);
    Quantiles(threads).print("per_command");
    std::printf("}");
  }
}

// Empty callbacks submitted to suspended queues, then let go: by one thread, and each by its own.
inline void drain(Bench &bench) {
  constexpr int kCommands = 8'000;
  Nothing nothing;
  for (int queues : {1, 4, 16}) {
    for (int level = 1; level <= kLevels; ++level) {
      Tasks all = tasks(bench, level, queues);
      std::vector<int64_t> times;
      for (int round = 0; round < 6; ++round) {
        for (auto &task : all) check(XQueueSuspend(task->queue(), 0), "XQueueSuspend");
        for (int n = 0; n < kCommands; ++n) all[static_cast<size_t>(n % queues)]->launch(nothing);
        int64_t start = now_ns();
        for (auto &task : all) check(XQueueResume(task->queue(), 0), "XQueueResume");
        wait(all);
        if (round > 0) times.push_back((now_ns() - start) / kCommands);
      }
      bench.row();
      std::printf("\"mode\": \"%s\", \"queues\": %d, ", kModes[level], queues);
      Quantiles(times).print("per_command");
      std::printf("}");
    }
  }
}

// Live submits of empty callbacks: threads on suspended queues of their own.
inline void submit(Bench &bench) {
  constexpr int kCommands = 4'000;
  for (int threads : {1, 4}) {
    for (int level = 1; level <= kLevels; ++level) {
      Tasks all = tasks(bench, level, threads);
      for (auto &task : all) check(XQueueSuspend(task->queue(), 0), "XQueueSuspend");
      std::mutex mutex;
      std::vector<int64_t> times;
      std::vector<std::thread> running;
      for (auto &task : all) {
        running.emplace_back([&bench, &mutex, &times, &task] {
          bench.driver.use();
          Nothing nothing;
          std::vector<int64_t> own;
          for (int n = 0; n < kCommands; ++n) {
            int64_t before = now_ns();
            task->launch(nothing);
            own.push_back(now_ns() - before);
          }
          std::lock_guard<std::mutex> guard(mutex);
          times.insert(times.end(), own.begin(), own.end());
        });
      }
      for (auto &thread : running) thread.join();
      for (auto &task : all) check(XQueueResume(task->queue(), 0), "XQueueResume");
      wait(all);
      bench.row();
      std::printf("\"mode\": \"%s\", \"threads\": %d, ", kModes[level], threads);
      Quantiles(times).print("submit");
      std::printf("}");
    }
  }
}

// The calls that hold and resume a queue that always has work, and by how much the first outlives
// the last kernel.
inline void control(Bench &bench) {
  for (int64_t command_ns : {100'000, 500'000, 1'000'000}) {
    for (int level = 1; level <= kLevels; ++level) {
      Task task(bench.driver, Way{kModes[level], level, 8, 4, 0});
      Victim victim(bench, task, command_ns);
      std::vector<int64_t> suspends, resumes, late;
      for (int n = 0; n < std::min(bench.samples, 200); ++n) {
        victim.feed(64);
        std::this_thread::sleep_for(std::chrono::nanoseconds(10 * command_ns));
        int64_t start = now_ns();
        check(XQueueSuspend(task.queue(), kQueueSuspendFlagSyncHwQueue), "XQueueSuspend");
        int64_t held = now_ns();
        suspends.push_back(held - start);
        std::this_thread::sleep_for(std::chrono::nanoseconds(command_ns / 2));
        auto clock = bench.kernels.clock();
        int64_t last = static_cast<int64_t>(victim.last()) - clock.first;
        late.push_back(std::max<int64_t>(held - std::max(last, start), 0));
        start = now_ns();
        check(XQueueResume(task.queue(), kQueueResumeFlagNone), "XQueueResume");
        resumes.push_back(now_ns() - start);
      }
      task.wait();
      bench.row();
      std::printf("\"mode\": \"%s\", \"command_ns\": %lld, ", kModes[level],
                  static_cast<long long>(command_ns));
      Quantiles(suspends).print("suspend");
      std::printf(", ");
      Quantiles(late).print("after_the_last_kernel");
      std::printf(", ");
      Quantiles(resumes).print("resume");
      std::printf("}");
    }
  }
}

// Commands in a row under small thresholds.
inline void threshold(Bench &bench) {
  const std::pair<int, int64_t> cells[] = {{1, 10'000}, {1, 100'000}, {2, 100'000}};
  for (auto [threshold, command_ns] : cells) {
    Spin kernel = bench.kernels.spin(command_ns);
    for (int level = 1; level <= kLevels; ++level) {
      Task task(bench.driver, Way{kModes[level], level, threshold, 1, 0});
      std::vector<int64_t> times;
      for (int round = 0; round < 11; ++round) {
        int64_t took = task.run_ns(kernel, 300);
        if (round > 0) times.push_back(took / 300);
      }
      bench.row();
      std::printf("\"mode\": \"%s\", \"threshold\": %d, \"command_ns\": %lld, ", kModes[level],
                  threshold, static_cast<long long>(command_ns));
      Quantiles(times).print("per_command");
      std::printf("}");
    }
  }
}

// The first requests of a queue: 70 of 50 commands of 100 us, for each of several new queues.
inline void first_use(Bench &bench) {
  Spin kernel = bench.kernels.spin(100'000);
  std::vector<std::vector<int64_t>> longest(kLevels + 1);
  for (int round = 0; round < 5; ++round) {
    for (int level = 0; level <= kLevels; ++level) {
      Task task(bench.driver, Way{kModes[level], level, 16, 8, 0});
      int64_t most = 0;
      for (int n = 0; n < 70; ++n) most = std::max(most, task.run_ns(kernel, 50));
      longest[static_cast<size_t>(level)].push_back(most);
    }
  }
  double plain = Quantiles(longest[0]).at(0.5);
  for (int level = 0; level <= kLevels; ++level) {
    Quantiles found(longest[static_cast<size_t>(level)]);
    bench.row();
    std::printf("\"mode\": \"%s\", ", kModes[level]);
    found.print("longest_of_70");
    std::printf(", \"over_plain\": %.4f}", found.at(0.5) / plain);
  }
}

// Kernels that start or end after a suspend that waits for the hardware has returned, while another
// thread submits, and how long the call takes.
inline void after_hold(Bench &bench) {
  constexpr int kSuspends = 150;
  // More than the two clocks are off.
  constexpr int64_t kTolerance = 20'000;
  for (int64_t command_ns : {10'000, 100'000, 500'000}) {
    for (int level = 1; level <= kLevels; ++level) {
      Task task(bench.driver, Way{kModes[level], level, 16, 8, 0});
      Victim victim(bench, task, command_ns);
      std::atomic<bool> stop{false};
      std::thread feeder([&] {
        bench.driver.use();
        while (!stop.load(std::memory_order_relaxed)) victim.push();
      });
      unsigned late = 0;
      std::vector<int64_t> ends, calls;
      for (int n = 0; n < kSuspends; ++n) {
        std::this_thread::sleep_for(std::chrono::microseconds(3'000));
        int64_t start = now_ns();
        check(XQueueSuspend(task.queue(), kQueueSuspendFlagSyncHwQueue), "XQueueSuspend");
        int64_t held = now_ns();
        calls.push_back(held - start);
        std::this_thread::sleep_for(std::chrono::nanoseconds(5'000'000 + 4 * command_ns));
        auto clock = bench.kernels.clock();
        int64_t after = static_cast<int64_t>(victim.last()) - clock.first - held;
        ends.push_back(std::max<int64_t>(after, 0));
        late += victim.stamped_after(held + clock.first + kTolerance);
        check(XQueueResume(task.queue(), kQueueResumeFlagNone), "XQueueResume");
      }
      stop = true;
      feeder.join();
      task.wait();
      bench.row();
      std::printf("\"mode\": \"%s\", \"command_ns\": %lld, \"suspends\": %d, \"late\": %u, ",
                  kModes[level], static_cast<long long>(command_ns), kSuspends, late);
      Quantiles(ends).print("last_end_after_return");
      std::printf(", ");
      Quantiles(calls).print("suspend");
      std::printf("}");
    }
  }
}

}  // namespace rows
