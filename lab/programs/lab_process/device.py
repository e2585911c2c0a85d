"""The device that PyTorch uses: streams, waits, graphs, and the device time of kernels.

Waits let go of Python's lock and of the processor: events are made with blocking synchronisation.
"""

import contextlib
import hashlib
import os
import pathlib
import subprocess
import sys
import warnings

from . import stand_ins
from .faults import Missing, missing

#: What a profile holds besides commands of the device.
NO_COMMANDS = ("ProfilerStep", "Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event")
#: The driver's version, where AMD's kernel module is loaded.
AMD_VERSION = pathlib.Path("/sys/module/amdgpu/version")


def torch_of(seed):
    """PyTorch with a seed, and with algorithms that give the same bits each time."""
    # Read when cuBLAS is first used: the same workspace in each stream.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if stand_ins.are_wanted():
        return stand_ins.instead_of_torch()
    try:
        import torch
    except ImportError as error:
        raise missing(error, "torch", "torch", "PyTorch") from error
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    torch.manual_seed(seed)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    return torch


def make(name, torch):
    """The device of that name, if PyTorch can use it."""
    if name == "cpu":
        return Processor(torch)
    if stand_ins.are_wanted():
        return stand_ins.Driver(torch)
    built_for = "hip" if torch.version.hip else "cuda" if torch.version.cuda else "the processor"
    if built_for != name:
        raise Missing(f"PyTorch {torch.__version__} is built for {built_for}, not for {name}")
    if not torch.cuda.is_available():
        raise Missing(f"PyTorch {torch.__version__} finds no GPU that it can use")
    return Gpu(torch, name)


def first_line(*command):
    """The first line that a command prints, or nothing."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.splitlines()[0].strip() if ran.returncode == 0 and ran.stdout else ""


def digest(tensors):
    """The SHA-256 of the bits of tensors, shortened."""
    state = hashlib.sha256()
    for tensor in tensors:
        whole = tensor.detach().cpu().contiguous()
        # NumPy has no bfloat16; as float32 it keeps its value.
        whole = whole.float() if whole.is_floating_point() else whole
        state.update(whole.numpy().tobytes())
    return state.hexdigest()[:16]


class Processor:
    """No streams and no graphs: what is launched has run when the call returns."""

    name, has_graphs = "cpu", False

    def __init__(self, torch):
        self.torch, self.target = torch, torch.device("cpu")
        # One thread for each role: the point is that all works run, not how fast.
        torch.set_num_threads(1)

    def hardware(self):
        """The device's name."""
        return "processor"

    def software(self):
        """Versions by name."""
        return {"torch": self.torch.__version__}

    def attach(self):
        """Prepares the calling thread."""

    def stream(self, priority):
        """A stream; there are none."""

    def within(self, stream):
        """A context in which launches go into `stream`."""
        return contextlib.nullcontext()

    def event(self):
        """Something that can be recorded and waited for."""
        return Done()

    def synchronize(self):
        """Waits for all streams."""


class Done:
    """What was launched on the processor has run."""

    def record(self, stream=None):
        """Nothing is left to wait for."""

    def synchronize(self):
        """Returns at once."""


class Gpu:
    """A GPU of NVIDIA or AMD, which PyTorch calls `cuda` both."""

    has_graphs = True

    def __init__(self, torch, name):
        self.torch, self.name, self.target = torch, name, torch.device("cuda", 0)
        torch.cuda.set_device(0)
        torch.zeros(1, device=self.target)

    def hardware(self):
        """The device's name."""
        return self.torch.cuda.get_device_name(0)

    def software(self):
        """Versions by name."""
        versions = {"torch": self.torch.__version__}
        if self.name == "hip":
            versions["hip"] = self.torch.version.hip
            driver = AMD_VERSION.read_text().strip() if AMD_VERSION.exists() else ""
        else:
            versions["cuda"] = self.torch.version.cuda
            query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
            driver = first_line(*query)
        return {**versions, "driver": driver} if driver else versions

    def attach(self):
        """Makes the device's context that of the calling thread."""
        self.torch.cuda.set_device(0)

    def stream(self, priority):
        """A stream of this priority; smaller numbers are more urgent, and none is the default."""
        return self.torch.cuda.Stream(priority=priority or 0)

    def within(self, stream):
        """A context in which launches go into `stream`."""
        return self.torch.cuda.stream(stream)

    def event(self):
        """An event whose wait sleeps."""
        return self.torch.cuda.Event(blocking=True)

    def synchronize(self):
        """Waits for all streams."""
        self.torch.cuda.synchronize()

    def graph(self, launch, stream):
        """A graph of what `launch` launches into `stream`."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            launch()
        return graph

    def kernels_ns(self, request):
        """Device time of each command of a request, in order, by CUPTI or ROCm's tracer.

        Nothing where the tracer cannot be used; standard error says why.
        """
        from torch.profiler import ProfilerActivity, profile

        try:
            with profile(activities=[ProfilerActivity.CUDA]) as profiled:
                request()
                self.synchronize()
        except RuntimeError as error:
            print(f"kernels are not known: {error}", file=sys.stderr)
            return []
        events = [one for one in profiled.profiler.kineto_results.events() if self.is_command(one)]
        events.sort(key=lambda one: one.start_ns())
        return [one.duration_ns() for one in events]

    def is_command(self, event):
        """Whether an event of a profile is a kernel, a copy or a fill."""
        on_device = event.device_type() == self.torch.autograd.DeviceType.CUDA
        return on_device and not event.name().startswith(NO_COMMANDS) and event.duration_ns() > 0
