// Commands that are callbacks: they are called in order when it is their turn, and what they answer
// comes back from the waits. Ends with 0 if it is so.

#include "device.hpp"

#include <vector>

namespace {

std::vector<int> order;

XResult note(HwQueueHandle, void *data) {
    // Callbacks of one queue are called one at a time.
    order.push_back(*static_cast<int *>(data));
    return kXSchedSuccess;
}

XResult refuse(HwQueueHandle, void *) { return kXSchedErrorNotSupported; }

}  // namespace

int main(int argc, char **argv) {
    Device device(argc > 1 ? argv[1] : "host");
    HwQueueHandle hwq = device.queue();
    XQueueHandle xq = 0;
    CHECK(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    std::vector<int> numbers(100);
    for (int n = 0; n < 100; ++n) {
        numbers[n] = n;
        HwCommandHandle noting = 0;
        CHECK(HwCommandCreateCallback(&noting, note, &numbers[n]));
        CHECK(XQueueSubmit(xq, noting));
    }
    CHECK(XQueueWaitAll(xq));
    HwCommandHandle refusing = 0;
    CHECK(HwCommandCreateCallback(&refusing, refuse, nullptr));
    CHECK(XQueueSubmit(xq, refusing));
    XResult result = XQueueWait(xq, refusing);
    std::cout << order.size() << " callbacks, "
              << (order == numbers ? "in order" : "out of order") << "; another one: "
              << XSchedGetLastErrorString() << '\n';
    bool same = XQueueWaitAll(xq) == result && XQueueWaitAll(xq) == kXSchedSuccess;
    CHECK(XQueueDestroy(xq));
    CHECK(HwQueueDestroy(hwq));
    return same && order == numbers && result == kXSchedErrorNotSupported ? 0 : 1;
}
