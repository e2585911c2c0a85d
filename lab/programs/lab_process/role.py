"""A role: a thread with a stream and a work, which makes requests as its load says."""

import collections
import os
import queue
import threading
import time

from . import loads
from .launcher import Launcher

NOW = time.monotonic_ns


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


class Role(Launcher):
    """What is said of a role in SPEC, and its thread."""

    def __init__(self, spec, process, device):
        super().__init__(spec, process, device)
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

    def keep_to_processor(self):
        """Has the thread keep to the processor that SPEC says, of those that the process has."""
        if self.spec.processor is not None:
            processors = sorted(os.sched_getaffinity(os.getpid()))
            os.sched_setaffinity(0, {processors[self.spec.processor % len(processors)]})

    def phase(self, load, barrier, seconds):
        """Makes requests for that long, from when all roles have come to the barrier."""
        self.keep_to_processor()
        numbers = loads.source(self.process.seed, self.spec.name, load.part)
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
