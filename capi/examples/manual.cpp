// A queue is suspended and resumed by hand. Ends with 0 if nothing got on meanwhile.

#include "device.hpp"

#include <atomic>

namespace {

std::atomic<int> launched{0};

XResult count(HwQueueHandle, void *) {
    ++launched;
    return kXSchedSuccess;
}

}  // namespace

int main(int argc, char **argv) {
    Device device(argc > 1 ? argv[1] : "host");
    int level = argc > 2 ? std::atoi(argv[2]) : kPreemptLevelBlock;
    HwQueueHandle hwq = device.queue();
    XQueueHandle xq = 0;
    CHECK(XQueueCreate(&xq, hwq, level, kQueueCreateFlagNone));
    for (int n = 0; n < 50; ++n) {
        HwCommandHandle counting = 0;
        CHECK(HwCommandCreateCallback(&counting, count, nullptr));
        CHECK(XQueueSubmit(xq, device.command(hwq, 500)));
        CHECK(XQueueSubmit(xq, counting));
    }
    CHECK(XQueueSuspend(xq, kQueueSuspendFlagSyncHwQueue));
    int before = launched;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    int after = launched;
    CHECK(XQueueResume(xq, kQueueResumeFlagNone));
    CHECK(XQueueWaitAll(xq));
    std::cout << "launched before " << before << ", while suspended " << after - before
              << ", in the end " << launched << '\n';
    CHECK(XQueueDestroy(xq));
    CHECK(HwQueueDestroy(hwq));
    return before == after && launched == 50 ? 0 : 1;
}
