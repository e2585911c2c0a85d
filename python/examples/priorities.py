"""Three tasks of different priorities on one device: what the urgent one gains, and the others pay.

    python priorities.py

Each task always has its next request ready. The device is the processor, where all levels work.
"""

from __future__ import annotations

import threading
import time
from typing import Dict, List

import xsched

SECONDS = 1.0
COMMANDS, COMMAND_US = 4, 500
PRIORITIES = {"urgent": 10, "normal": 0, "background": -10}


def requests(queue: xsched.Queue, pause_s: float, latencies_ms: List[float]) -> None:
    """Makes requests for a while."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        start = time.perf_counter()
        for _ in range(COMMANDS):
            queue.submit(xsched.Command.timed(COMMAND_US))
        queue.wait()
        latencies_ms.append((time.perf_counter() - start) * 1e3)
        time.sleep(pause_s)


def measure(runtime: xsched.Runtime, level: int) -> Dict[str, List[float]]:
    """The latencies of each task. The urgent one pauses, so that there is something to gain."""
    latencies: Dict[str, List[float]] = {name: [] for name in PRIORITIES}
    queues = {
        name: runtime.host_queue(level=level, priority=value, threshold=4, batch_size=2)
        for name, value in PRIORITIES.items()
    }
    threads = [
        threading.Thread(
            target=requests,
            args=(queue, 0.02 if name == "urgent" else 0.0, latencies[name]),
        )
        for name, queue in queues.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runtime.close()
    return latencies


def main() -> None:
    runtime = xsched.Runtime()
    for title, level in (("no policy", 1), ("level 1", 1), ("level 2", 2), ("level 3", 3)):
        if title == "no policy":
            runtime.set_app_managed()
        else:
            runtime.set_policy("hpf")
        print(title)
        for name, latencies in measure(runtime, level).items():
            median = sorted(latencies)[(len(latencies) - 1) // 2]
            print(f"  {name:>10}: {len(latencies):4} requests, median {median:7.2f} ms")


if __name__ == "__main__":
    main()
