// Three tasks of one process share a device under highest priority first. Ends with 0 if the most
// urgent one was done first.

#include "device.hpp"

#include <array>
#include <atomic>
#include <vector>

namespace {

constexpr int kTasks = 3;
constexpr int kRequests = 15;
constexpr int kCommands = 8;
constexpr int64_t kCommandUs = 300;

struct Task {
    double mean_ms = 0;
    int place = 0;
};

void run(Device &device, int priority, Task &task, std::atomic<int> &waiting,
         std::atomic<int> &done) {
    HwQueueHandle hwq = device.queue();
    XQueueHandle xq = 0;
    CHECK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    CHECK(XQueueSetLaunchConfig(xq, 2, 1));
    CHECK(XHintPriority(xq, priority));
    // All begin together.
    --waiting;
    while (waiting > 0) std::this_thread::yield();
    double sum_ms = 0;
    for (int request = 0; request < kRequests; ++request) {
        auto begin = std::chrono::steady_clock::now();
        for (int n = 0; n < kCommands; ++n) {
            CHECK(XQueueSubmit(xq, device.command(hwq, kCommandUs)));
        }
        CHECK(XQueueWaitAll(xq));
        std::chrono::duration<double, std::milli> span = std::chrono::steady_clock::now() - begin;
        sum_ms += span.count();
    }
    task.mean_ms = sum_ms / kRequests;
    task.place = ++done;
    CHECK(XQueueDestroy(xq));
    CHECK(HwQueueDestroy(hwq));
}

}  // namespace

int main(int argc, char **argv) {
    Device device(argc > 1 ? argv[1] : "host");
    CHECK(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst));
    std::array<Task, kTasks> tasks;
    std::atomic<int> waiting{kTasks}, done{0};
    std::vector<std::thread> threads;
    for (int n = 0; n < kTasks; ++n) {
        threads.emplace_back([&, n] { run(device, n + 1, tasks[n], waiting, done); });
    }
    for (std::thread &thread : threads) thread.join();
    for (int n = 0; n < kTasks; ++n) {
        std::cout << "priority " << n + 1 << ": " << tasks[n].mean_ms << " ms a request, done as "
                  << tasks[n].place << " of " << kTasks << '\n';
    }
    return tasks[kTasks - 1].place == 1 ? 0 : 1;
}
