"""Figures of latencies, by nearest rank, and the plan's records of results."""

import datetime
import json
import math
import os
import pathlib
import statistics

from .device import first_line


def figures(begin_ns, end_ns):
    """Figures of requests in ms."""
    ranked = sorted((end - begin) / 1e6 for begin, end in zip(begin_ns, end_ns))

    def at(percent):
        return ranked[max(math.ceil(len(ranked) * percent / 100), 1) - 1]
    found = {"mean_ms": statistics.fmean(ranked), "median_ms": at(50), "p95_ms": at(95),
             "p99_ms": at(99), "min_ms": ranked[0], "max_ms": ranked[-1],
             "deviation_ms": statistics.pstdev(ranked)}
    return {"requests": len(ranked), **{key: round(value, 3) for key, value in found.items()}}


def xsched():
    """The command `xsched`."""
    return os.environ.get("XSCHED", "xsched")


def record(test_id, name, ready, results, passed, notes):
    """A result as the plan has it."""
    software = ready["software"]
    return {
        "test_id": test_id, "test_name": name,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "hardware": ready["hardware"], "rocm_version": software.get("hip", ""), "software": software,
        "xsched_version": first_line(xsched(), "--version"), "results": results, "pass": passed,
        "notes": notes,
    }


def write(path, written):
    """Writes a record, and makes its folder."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written, indent=1) + "\n")


def table(tasks):
    """The figures of tasks, for people."""
    columns = ("mean_ms", "median_ms", "p95_ms", "p99_ms", "min_ms", "max_ms", "deviation_ms")
    yield f"{'task':16}{'requests':>9}" + "".join(f"{column:>14}" for column in columns)
    for name, one in tasks.items():
        yield f"{name:16}{one['requests']:>9}" + "".join(f"{one[column]:>14.2f}" for column in columns)
