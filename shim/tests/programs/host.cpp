// A program that launches on the host device and makes no XQueues: an urgent thread, and a busy one
// that is nice. It prints how many commands of the busy one ran while the urgent one had something
// to do, per request.

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <xsched/host/hal.h>
#include <xsched/xsched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

void check(XResult result, const char *call) {
  if (result == kXSchedSuccess) return;
  std::fprintf(stderr, "%s: %s\n", call, XSchedGetLastErrorString());
  std::exit(1);
}

void launch(HwQueueHandle queue, int64_t us) {
  HwCommandHandle command = 0;
  check(HostCommandCreateTimed(&command, us), "HostCommandCreateTimed");
  check(HwQueueLaunch(queue, command), "HwQueueLaunch");
}

std::atomic<bool> stop{false};
std::atomic<int> ran{0};

void busy(HwQueueHandle queue) {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 10);
  while (!stop) {
    for (int n = 0; n < 2; ++n) launch(queue, 1'000);
    check(HwQueueSynchronize(queue), "HwQueueSynchronize");
    ran += 2;
  }
}

}  // namespace

int main() {
  constexpr int kRequests = 15, kCommands = 40;
  HwQueueHandle urgent = 0, lazy = 0;
  check(HostQueueCreate(&urgent), "HostQueueCreate");
  check(HostQueueCreate(&lazy), "HostQueueCreate");
  std::thread background(busy, lazy);
  int beside = 0;
  for (int n = 0; n < kRequests; ++n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    int before = ran;
    for (int k = 0; k < kCommands; ++k) launch(urgent, 1'000);
    check(HwQueueSynchronize(urgent), "HwQueueSynchronize");
    beside += ran - before;
  }
  stop = true;
  background.join();
  check(HwQueueDestroy(urgent), "HwQueueDestroy");
  check(HwQueueDestroy(lazy), "HwQueueDestroy");
  std::printf("%.2f\n", static_cast<double>(beside) / kRequests);
  return ran > 0 ? 0 : 1;
}
