"""A work with its stream: how its requests are launched, waited for and measured alone."""

import statistics
import time

from . import device as devices
from . import works

NOW = time.monotonic_ns
#: Lone requests that are measured, and for how long at most.
LONE, LONE_S, LONE_QUICK_S, LONE_LEAST = 20, 4.0, 1.0, 3
#: A request that takes longer is measured once.
LONG_S = 1.0
WARM = 3


class Launcher:
    """A work, its stream, and its graph if it is one."""

    def __init__(self, spec, process, device):
        self.spec, self.process, self.device = spec, process, device
        self.work = self.stream = self.graph = self.event = None
        #: What is called with the stream before anything is launched into it.
        self.on_stream = None

    def within(self):
        """The contexts of the work: its stream, and no gradients if it needs none."""
        torch = self.device.torch
        mode = torch.enable_grad() if self.work.has_gradients else torch.inference_mode()
        return works.both(mode, self.device.within(self.stream))

    def make(self):
        """Makes the work, warms it up, and captures its graph if it is to be one."""
        self.device.attach()
        self.device.torch.manual_seed(self.process.seed)
        self.work = works.make(self.spec, self.device)
        self.stream = self.device.stream(self.process.stream_priority(self.spec))
        if self.on_stream:
            self.on_stream(self.stream)
        self.event = self.device.event()
        self.device.synchronize()
        with self.within():
            self.work.prepare(self.stream)
            for _ in range(WARM):
                self.lone()
            if self.spec.graph and self.device.has_graphs and self.work.is_capturable:
                self.work.before_capture()
                self.graph = self.device.graph(self.work.launch, self.stream)
                self.lone()
        self.device.synchronize()

    def launch(self):
        """Launches a request."""
        if self.graph:
            self.graph.replay()
        else:
            self.work.launch()

    def wait(self, event=None):
        """Waits for what was launched, or for an event recorded after it."""
        event = event or self.event
        event.synchronize()

    def lone(self):
        """A request from its first launch to its end; when the launching calls had returned."""
        self.launch()
        launched_ns = NOW()
        self.event.record(self.stream)
        self.wait()
        return launched_ns

    def measure(self, briefly=False):
        """What the role needs alone, as `ready` says it, but for its kernels."""
        seconds = LONE_QUICK_S if self.process.quick else LONE_S
        with self.within():
            self.work.begin()
            request_ns, host_ns = self.median(LONE_LEAST if briefly else LONE, seconds)
            self.work.begin()
            for _ in range(self.work.digested):
                self.lone()
            return {"request_ns": request_ns, "host_ns": host_ns,
                    "digest": devices.digest(self.work.outputs())}

    def kernels_ns(self):
        """Device time of each kernel of a request."""
        with self.within():
            self.work.begin()
            return self.device.kernels_ns(self.lone)

    def median(self, count, seconds):
        """The median of lone requests, and of the time until their launching calls returned."""
        until, whole, host = NOW() + int(seconds * 1e9), [], []
        least = LONE_LEAST
        while len(whole) < count and (NOW() < until or len(whole) < least):
            begin = NOW()
            launched_ns = self.lone()
            whole.append(NOW() - begin)
            host.append(launched_ns - begin)
            least = 1 if whole[-1] > LONG_S * 1e9 else LONE_LEAST
        return int(statistics.median(whole)), int(statistics.median(host))

    def outputs_digest(self, requests):
        """The digest of what was computed; none where there were too few requests."""
        if requests < self.work.digested:
            return None
        with self.within():
            return devices.digest(self.work.outputs())
