"""A role: a thread with a stream and a work, which makes requests as its load says."""

import collections
import queue
import statistics
import threading
import time

from . import device as devices
from . import loads, works

NOW = time.monotonic_ns
#: Lone requests that are measured, and for how long at most.
LONE, LONE_S, LONE_QUICK_S, LONE_LEAST = 20, 4.0, 1.0, 3
WARM = 3


class Taken:
    """Requests of a phase: when they arrived and ended."""

    def __init__(self):
        self.begin_ns, self.end_ns, self.first_token_ns, self.tokens = [], [], [], None

    def add(self, begin_ns, end_ns):
        """A request that has ended."""
        self.begin_ns.append(begin_ns)
        self.end_ns.append(end_ns)

    def answer(self):
        """As the protocol has it."""
        said = {"begin_ns": self.begin_ns, "end_ns": self.end_ns}
        if self.first_token_ns:
            said["first_token_ns"] = self.first_token_ns
        if self.tokens is not None:
            said["tokens"] = self.tokens
        return said


def sleep_until(at_ns):
    """Sleeps, if the time has not come."""
    left_ns = at_ns - NOW()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)


class Role:
    """What is said of a role in SPEC, and its thread."""

    def __init__(self, spec, process, device):
        self.spec, self.process, self.device = spec, process, device
        self.work = self.stream = self.graph = None
        self.calls = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.run, name=spec.name, daemon=True)
        self.thread.start()

    def run(self):
        """Makes calls one after the other, all in this thread."""
        while (call := self.calls.get()) is not None:
            answer, function, arguments = call
            try:
                answer.put((function(*arguments), None))
            except BaseException as error:
                answer.put((None, error))

    def begin(self, function, *arguments):
        """Has the thread call a function; a function that waits for the answer."""
        answer = queue.SimpleQueue()
        self.calls.put((answer, function, arguments))

        def wait():
            value, error = answer.get()
            if error:
                raise error
            return value
        return wait

    def close(self):
        """Ends the thread once it has made its calls."""
        self.calls.put(None)
        self.thread.join(timeout=5)

    # What follows runs in the role's thread.

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

    def measure(self):
        """What the role needs alone, as `ready` says it."""
        until = NOW() + int((LONE_QUICK_S if self.process.quick else LONE_S) * 1e9)
        whole, host = [], []
        with self.within():
            self.work.begin()
            while len(whole) < LONE and (NOW() < until or len(whole) < LONE_LEAST):
                begin = NOW()
                launched_ns = self.lone()
                whole.append(NOW() - begin)
                host.append(launched_ns - begin)
            request_ns = int(statistics.median(whole))
            said = {"request_ns": request_ns, "host_ns": int(statistics.median(host))}
            self.work.begin()
            for _ in range(self.work.digested):
                self.lone()
            said["digest"] = devices.digest(self.work.outputs())
            kernels = self.device.kernels_ns(self.lone, request_ns) or [request_ns]
        return {"kernels_ns": kernels, **said}

    def phase(self, load, barrier, seconds):
        """Makes requests for that long, from when all roles have come to the barrier."""
        numbers = loads.source(self.process.seed, self.spec.name)
        taken = Taken()
        with self.within():
            self.work.begin()
            self.device.synchronize()
            barrier.wait()
            begin = NOW()
            until = begin + int(seconds * 1e9)
            if self.work.serves:
                self.work.serve(load, numbers, begin, until, taken)
            elif load.kind == "endless":
                self.endless(load, until, taken)
            elif load.is_open:
                self.open(loads.arrivals(load, numbers), begin, until, taken)
            else:
                self.closed(load, numbers, until, taken)
        return taken

    def closed(self, load, numbers, until, taken):
        """A request, a pause, and so on."""
        while NOW() < until and len(taken.end_ns) < load.requests:
            begin = NOW()
            self.lone()
            taken.add(begin, NOW())
            sleep_until(min(until, NOW() + int(loads.pause_s(load, numbers) * 1e9)))

    def open(self, arrivals, begin, until, taken):
        """Requests that arrive whether the last one has ended or not, and wait for it."""
        for after_ns in arrivals:
            arrival = begin + after_ns
            if arrival >= until:
                return
            sleep_until(arrival)
            self.lone()
            taken.add(arrival, NOW())

    def endless(self, load, until, taken):
        """Always so many requests in flight."""
        idle = [self.device.event() for _ in range(load.in_flight)]
        flying = collections.deque()
        while NOW() < until or flying:
            if idle and NOW() < until:
                begin, event = NOW(), idle.pop()
                self.launch()
                event.record(self.stream)
                flying.append((begin, event))
            else:
                begin, event = flying.popleft()
                self.wait(event)
                taken.add(begin, NOW())
                idle.append(event)

    def outputs_digest(self, requests):
        """The digest of what was computed; none where there were too few requests."""
        if requests < self.work.digested:
            return None
        with self.within():
            return devices.digest(self.work.outputs())
