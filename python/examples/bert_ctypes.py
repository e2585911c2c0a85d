"""Inference threads under priorities, with `ctypes` alone: the calls of a program that was written for
the C++ XSched.

    LD_LIBRARY_PATH=... XSCHED_HIP_LIB=... python bert_ctypes.py --device hip --tasks 3

Each thread has a stream with a priority and makes requests with a pause between them, as BERT-base does:
about 6.4 ms of device time each. The commands are timed ones here, so that no GPU and no PyTorch are
needed; in a program with PyTorch the stream is `torch.cuda.Stream().cuda_stream`, and what it launches
gets into the XQueue by a launch interposer (docs/src/guides/python.md). Prints a line per task and ends with 1 if
a request failed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import threading
import time
from ctypes import byref, c_int32, c_int64, c_uint64
from typing import Dict, List, Sequence, Union

from work import HipRequests, HostRequests, answered

# From xsched/types.h.
kSchedulerAppManaged = 1
kSchedulerLocal = 2
kPolicyHighestPriorityFirst = 1

#: A request of BERT-base takes 6.4 ms on an MI308X.
COMMANDS, COMMAND_US = 32, 200
PRIORITIES = {3: [3, 2, 1], 6: [3, 3, 2, 2, 1, 1]}


def quantile(sorted_ms: Sequence[float], percent: int) -> float:
    """By nearest rank."""
    return sorted_ms[max(-(-len(sorted_ms) * percent // 100), 1) - 1]


class Task:
    """A thread with an XQueue."""

    def __init__(
        self,
        preempt: ctypes.CDLL,
        work: Union[HostRequests, HipRequests],
        priority: int,
        level: int,
    ) -> None:
        self.preempt, self.work, self.priority = preempt, work, priority
        self.latencies_ms: List[float] = []
        self.hwq, self.xq = work.queue(), c_uint64()
        answered(preempt.XQueueCreate(byref(self.xq), self.hwq, c_int64(level), c_int64(0)))
        answered(preempt.XQueueSetLaunchConfig(self.xq, c_int64(8), c_int64(4)))
        answered(preempt.XHintPriority(self.xq, c_int32(priority)))

    def run(self, requests: int, pause_s: float) -> None:
        """Makes the requests."""
        for _ in range(requests):
            start = time.perf_counter()
            self.work.request(self.xq, COMMANDS, COMMAND_US)
            self.latencies_ms.append((time.perf_counter() - start) * 1e3)
            time.sleep(pause_s)

    def close(self) -> None:
        """Ends the queues."""
        answered(self.preempt.XQueueDestroy(self.xq))
        answered(self.preempt.HwQueueDestroy(self.hwq))

    def figures(self) -> Dict[str, float]:
        """In milliseconds."""
        ordered = sorted(self.latencies_ms)
        return {
            "priority": self.priority,
            "requests": len(ordered),
            "mean": sum(ordered) / len(ordered),
            "p95": quantile(ordered, 95),
            "p99": quantile(ordered, 99),
            "min": ordered[0],
            "max": ordered[-1],
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["host", "hip"], default="host")
    parser.add_argument("--tasks", type=int, choices=sorted(PRIORITIES), default=3)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--pause-ms", type=float, default=20.0)
    parser.add_argument("--level", type=int, choices=[1, 2, 3], default=1)
    parser.add_argument("--unscheduled", action="store_true", help="without a policy, to compare")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()

    preempt = ctypes.CDLL("libpreempt.so")
    scheduler = kSchedulerAppManaged if options.unscheduled else kSchedulerLocal
    answered(preempt.XHintSetScheduler(scheduler, kPolicyHighestPriorityFirst))
    work = HostRequests(preempt) if options.device == "host" else HipRequests(preempt)
    tasks = [Task(preempt, work, number, options.level) for number in PRIORITIES[options.tasks]]

    failures: List[BaseException] = []

    def body(task: Task) -> None:
        try:
            task.run(options.requests, options.pause_ms / 1e3)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(task,)) for task in tasks]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - start
    if failures:
        print(f"a request failed: {failures[0]}", file=sys.stderr)
        return 1
    figures = [task.figures() for task in tasks]
    for task in tasks:
        task.close()
    rate = sum(row["requests"] for row in figures) / took_s
    if options.json:
        print(json.dumps({"tasks_ms": figures, "rps": rate}))
        return 0
    print(f"{options.device}, level {options.level}: milliseconds per request")
    for row in figures:
        cells = " ".join(f"{key} {row[key]:6.2f}" for key in ("mean", "p95", "p99", "min", "max"))
        print(f"priority {row['priority']}: {cells}")
    print(f"{rate:.1f} requests per second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
