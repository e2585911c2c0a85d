// An urgent command does not wait for the hundred that were submitted before it.

#include <stdio.h>
#include <stdlib.h>
#include <xsched/host/hal.h>
#include <xsched/xsched.h>

static void check(XResult result) {
    if (result == kXSchedSuccess) return;
    fprintf(stderr, "%s\n", XSchedGetLastErrorString());
    exit(1);
}

static XQueueHandle queue(int64_t priority) {
    HwQueueHandle hwq = 0;
    XQueueHandle xq = 0;
    check(HostQueueCreate(&hwq));  // on a GPU: HipQueueCreate or CudaQueueCreate, with a stream
    check(XQueueCreate(&xq, hwq, kPreemptLevelBlock, kQueueCreateFlagNone));
    check(XHintPriority(xq, priority));
    return xq;
}

static HwCommandHandle submit(XQueueHandle xq, int64_t us) {
    HwCommandHandle command = 0;
    check(HostCommandCreateTimed(&command, us));
    check(XQueueSubmit(xq, command));
    return command;
}

int main(void) {
    check(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst));
    XQueueHandle background = queue(-10), urgent = queue(10);
    for (int n = 0; n < 100; ++n) submit(background, 2000);

    check(XQueueWait(urgent, submit(urgent, 100)));
    XQueueState state = kQueueStateUnknown;
    check(XQueueQuery(background, &state));
    check(XQueueWaitAll(background));
    puts(state == kQueueStateReady ? "urgent before background" : "urgent came last");
    return state == kQueueStateReady ? 0 : 1;
}
