"""Runs a program with PyTorch's profiler around it, and counts what CUPTI saw on the device.

    python cupti.py PROGRAM.py OUT.json

CUPTI writes down each kernel, copy and fill with the number of the call that launched it, so calls
of different kinds are counted by different numbers.
"""

import collections
import json
import os
import runpy
import sys
import tempfile

import torch

program, out = sys.argv[1:3]
sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
kinds = {"kernel": "kernels", "gpu_memcpy": "copies", "gpu_memset": "fills"}
calls = {"cuda_runtime", "cuda_driver"}
torch.cuda.init()
profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
profiler.start()
try:
    runpy.run_path(program, run_name="__main__")
finally:
    torch.cuda.synchronize()
    profiler.stop()
with tempfile.NamedTemporaryFile(suffix=".json") as file:
    profiler.export_chrome_trace(file.name)
    events = json.load(open(file.name))["traceEvents"]
launched, caller = collections.defaultdict(list), {}
for event in events:
    number = event.get("args", {}).get("correlation")
    if event.get("cat") in kinds:
        launched[number].append(kinds[event["cat"]])
    elif event.get("cat") in calls:
        caller[number] = event["name"]
by_call = collections.Counter(caller.get(number, "no call") for number in launched)
on_device = collections.Counter(kind for group in launched.values() for kind in group)
with open(out, "w") as file:
    json.dump({"on_device": on_device, "launched_by": by_call}, file, indent=1)
