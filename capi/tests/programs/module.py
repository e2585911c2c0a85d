"""The Python module that is installed beside the libraries, used with the C++ XSched's names."""

import sys

from xsched import XHintPriority, XPolicyType, XQueue, XResult, XSched, XSchedulerType, sim
from xsched.cuda import XSchedCuda
from xsched.hip import XSchedHip
from xsched.host import XSchedHost

OK = XResult.kXSchedSuccess

assert hasattr(XSchedCuda, "CudaQueueGet") and hasattr(XSchedHip, "HipQueueCreate")
policy = XPolicyType.kPolicyHighestPriorityFirst
assert XSched.XHintSetScheduler(XSchedulerType.kSchedulerLocal, policy) == OK
result, hwq = XSchedHost.HostQueueCreate()
assert result == OK
result, xq = XSched.XQueueCreate(hwq, 1, 0)
assert result == OK
assert XHintPriority(xq, 3) == OK
result, command = XSchedHost.HostCommandCreateTimed(100)
assert XSched.XQueueSubmit(xq, command) == OK
assert XSched.XQueueWaitAll(xq) == OK
with XQueue.on_host() as queue:
    assert XHintPriority(queue, 1_000) == OK
    queue.submit(lambda _: None)
assert "bert-mi308x" in sim.scenario_names()

# The library is the one that is installed with the module.
with open("/proc/self/maps", encoding="utf-8") as maps:
    loaded = {line.split()[-1] for line in maps if "libpreempt.so" in line}
assert loaded == {sys.argv[1]}, loaded
