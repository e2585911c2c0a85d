/* Calls every function of the API once, as C and as C++. It ends with 0 if all went well. */

#include <xsched/host/hal.h>
#include <xsched/xsched.h>

#include <stdio.h>
#include <string.h>

static int calls;

static XResult count(HwQueueHandle hwq, void *data) {
    (void)hwq;
    ++*(int *)data;
    return kXSchedSuccess;
}

#define EXPECT(wanted, call)                                                      \
    do {                                                                          \
        XResult got_ = (call);                                                    \
        if (got_ != (wanted)) {                                                   \
            fprintf(stderr, "%s:%d: %s answered %d: %s\n", __FILE__, __LINE__,    \
                    #call, (int)got_, XSchedGetLastErrorString());                \
            return 1;                                                             \
        }                                                                         \
    } while (0)
#define OK(call) EXPECT(kXSchedSuccess, call)

static int hints(XQueueHandle xq) {
    OK(XHintSetScheduler(kSchedulerLocal, kPolicyWeightedFairQueueing));
    OK(XHintSetScheduler(kSchedulerLocal, kPolicyHighestPriorityFirst));
    OK(XHintPriority(xq, PRIORITY_MAX));
    OK(XHintUtilization(xq, 50));
    OK(XHintTimeslice(TIMESLICE_DEFAULT));
    OK(XHintLaxity(xq, 1000, PRIORITY_MIN, PRIORITY_MAX));
    OK(XHintDeadline(xq, 1000));
    OK(XHintKDeadline(2));
    OK(XHintFloor(0.05));
    EXPECT(kXSchedErrorInvalidValue, XHintFloor(5));
    OK(XHintSetScheduler(kSchedulerLocal, kPolicyBandwidthPartition));
    OK(XHintSetBandwidthRatio(xq, 0.75));
    EXPECT(kXSchedErrorInvalidValue, XHintSetBandwidthRatio(xq, 75));
    OK(XHintSetScheduler(kSchedulerLocal, kPolicyLaxityBased));
    if (kPolicyBandwidthPartition != kPolicyUtilizationPartition) return 1;
    if (kPolicyLaxityBased != kPolicyLaxity) return 1;
    /* What the C++ library takes. */
    OK(XHintPriority(xq, 1000));
    OK(XHintTimeslice((Timeslice)TIMESLICE_UNLIMITED));
    OK(XHintSetScheduler(kSchedulerGlobal, kPolicyHighestPriorityFirst));
    EXPECT(kXSchedErrorNotSupported, XHintSetScheduler(kSchedulerGlobal, kPolicyUnknown));
    return 0;
}

static int holds(XQueueHandle xq) {
    HwCommandHandle command;
    XQueueState state = kQueueStateUnknown;
    int before = calls;
    OK(XQueueSetPreemptLevel(xq, kPreemptLevelBlock));
    OK(XQueueSetLaunchConfig(xq, 4, -1));
    OK(XQueueSuspend(xq, kQueueSuspendFlagWaitAll | kQueueSuspendFlagSyncHwQueue));
    OK(HwCommandCreateCallback(&command, count, &calls));
    OK(XQueueSubmit(xq, command));
    OK(XQueueQuery(xq, &state));
    if (state != kQueueStateReady || calls != before) return 1;
    OK(XQueueResume(xq, kQueueResumeFlagDropCommands));
    OK(XQueueWaitAll(xq));
    OK(XQueueQuery(xq, &state));
    return state != kQueueStateIdle || calls != before;
}

static int commands(HwQueueHandle hwq, XQueueHandle xq) {
    HwCommandHandle command;
    int64_t submitted = 0;
    OK(HwCommandCreateCallback(&command, count, &calls));
    OK(XQueueSubmit(xq, command));
    OK(XQueueWait(xq, command));
    OK(HostCommandCreateTimed(&command, 100));
    OK(XQueueSubmit(xq, command));
    OK(XQueueWaitAll(xq));
    OK(HostCommandCreateFunction(&command, count, &calls));
    OK(XQueueSubmit(xq, command));
    OK(XQueueWait(xq, command));
    OK(HwCommandCreateCallback(&command, count, &calls));
    OK(XQueueLaunch(xq, command));
    OK(XQueueWait(xq, command));
    OK(XQueueProfileHwCommandCount(xq, &submitted));
    OK(HwCommandCreateCallback(&command, count, &calls));
    OK(HwQueueLaunch(hwq, command));
    OK(HwQueueSynchronize(hwq));
    OK(HwCommandCreateCallback(&command, count, &calls));
    OK(HwCommandDestroy(command));
    return submitted != 4 || calls != 4;
}

int main(void) {
    HwQueueHandle hwq;
    XQueueHandle xq, there = 0;
    OK(HostQueueCreate(&hwq));
    OK(XQueueCreate(&xq, hwq, kPreemptLevelInterrupt, kQueueCreateFlagNone));
    OK(XQueueGet(&there, hwq));
    if (there != xq) return 1;
    if (commands(hwq, xq) || hints(xq) || holds(xq)) {
        fprintf(stderr, "not as expected\n");
        return 1;
    }
    EXPECT(kXSchedErrorNotAllowed, HwQueueDestroy(hwq));
    OK(XQueueDestroy(xq));
    OK(HwQueueDestroy(hwq));
    EXPECT(kXSchedErrorNotFound, XQueueWaitAll(xq));
    return strstr(XSchedGetLastErrorString(), "no such XQueue") == NULL;
}
