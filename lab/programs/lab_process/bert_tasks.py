"""Threads that make requests to a BERT each, as the plan's scripts have them."""

import argparse
import json
import sys
import time

from . import loads, spec, statistics_ms, xqueues
from .faults import BadInput, Missing
from .process import Process

#: Enough for any number of requests; a phase ends when they are done.
SECONDS = 86400


def arguments(description):
    """The options that the scripts share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--requests", type=int, default=20, help="of each task")
    parser.add_argument("--pause-ms", type=float, default=20)
    parser.add_argument("--model", choices=("bert-base", "bert-large"), default="bert-base")
    parser.add_argument("--dtype", choices=spec.DTYPES, default="fp32")
    parser.add_argument("--graph", action="store_true", help="a graph for each request")
    parser.add_argument("--device", choices=spec.DEVICES, help="by default the one there is")
    parser.add_argument("--level", type=int, choices=(1, 2, 3), default=2, help="of XQueues")
    parser.add_argument("--out", help="a file for the record")
    parser.add_argument("--json", action="store_true", help="print the record")
    return parser


def device():
    """The GPU's vendor, or the processor."""
    from .device import torch_of

    torch = torch_of(1)
    if not torch.cuda.is_available():
        return "cpu"
    return "hip" if torch.version.hip else "cuda"


def without_kernels(_step):
    """What the process is told at its steps: nothing is predicted of it."""
    return {"measure": False}


class Tasks:
    """A process with a thread for each task; `tasks` are names with their priorities."""

    def __init__(self, given, tasks, priorities=False, with_queues=False):
        roles = tuple(spec.Role(name, given.model, given.dtype, graph=given.graph, priority=priority)
                      for name, priority in tasks.items())
        way = "priorities" if priorities else "native"
        chosen = given.device or device()
        self.spec = spec.Spec(chosen, roles, way, quick=True, by_rank=True)
        self.given, self.queues = given, None
        if with_queues:
            if chosen == "cpu":
                raise Missing("XQueues need a GPU")
            self.queues = xqueues.XQueues(chosen, given.level)
        self.process = Process(self.spec, self.add if with_queues else None, without_kernels)
        self.ready = self.process.ready()
        self.digests = {name: one["digest"] for name, one in self.ready["roles"].items()}

    def add(self, role, stream):
        """Gives a task's stream an XQueue, before the interposer gives it one."""
        self.queues.add(stream, role.priority)

    def run(self, *names, pause_ms=None):
        """Runs tasks at once: the figures of each, and requests a second of all."""
        pause_ms = self.given.pause_ms if pause_ms is None else pause_ms
        load = loads.Load("closed", pause_ms=pause_ms, requests=self.given.requests)
        chosen = names or [role.name for role in self.spec.roles]
        begin = time.monotonic()
        said = self.process.phase(1, SECONDS, {name: load for name in chosen})
        took_s = time.monotonic() - begin
        for name, one in said["roles"].items():
            if one["digest"] != self.digests[name]:
                raise RuntimeError(f"{name} computed {one['digest']}, not {self.digests[name]}")
        tasks = {name: statistics_ms.figures(one["begin_ns"], one["end_ns"])
                 for name, one in said["roles"].items()}
        requests = sum(one["requests"] for one in tasks.values())
        return {"tasks": tasks, "wall_s": round(took_s, 3), "requests_per_s": round(requests / took_s, 2)}

    def close(self):
        """Ends the queues and the threads."""
        self.process.device.synchronize()
        if self.queues:
            self.queues.close()
        self.process.close()


def show(given, written, *runs):
    """Prints the figures, or the record as JSON, and writes it to the file that was asked for."""
    if given.out:
        statistics_ms.write(given.out, written)
    if given.json:
        print(json.dumps(written))
        return
    for title, run in runs:
        print(f"{title}: {run['requests_per_s']} requests/s")
        print("\n".join(statistics_ms.table(run["tasks"])))
    print("pass" if written["pass"] else "no pass", written["notes"], sep=": ")


def main(run):
    """Runs a script; answers its exit code."""
    try:
        return run()
    except (Missing, BadInput) as error:
        print(f"not run: {error}", file=sys.stderr)
        return 2
