"""A language model that serves requests with continuous batching.

A request is a prompt and a fixed number of new tokens. Requests come and go between two steps of
the model; the times of their first and last tokens are taken as they are there.
"""

import collections
import time

from .. import loads
from .work import Work

NOW = time.monotonic_ns


class Source:
    """When requests come, as the load says it."""

    def __init__(self, load, numbers, begin, until):
        self.load, self.numbers, self.until = load, numbers, until
        self.made, self.next_ns = 0, begin
        self.arrivals = loads.arrivals(load, numbers) if load.is_open else None
        self.begin = begin
        if self.arrivals:
            self.next_ns = begin + next(self.arrivals)

    def take(self, now, busy):
        """The arrival of a request that is there by `now`, with so many being served, or none."""
        load = self.load
        if min(now, self.next_ns) >= self.until or self.made >= load.requests:
            return None
        if load.is_open:
            arrival = self.next_ns
            if arrival > now or arrival >= self.until:
                return None
            self.next_ns = self.begin + next(self.arrivals)
        else:
            if now >= self.until or busy >= load.in_flight or now < self.next_ns:
                return None
            arrival = now
        self.made += 1
        return arrival

    def ended(self, now):
        """A request has ended."""
        if self.load.kind == "closed":
            self.next_ns = now + int(loads.pause_s(self.load, self.numbers) * 1e9)

    def is_over(self, now):
        """Whether no request comes any more."""
        over = now >= self.until or self.made >= self.load.requests
        return over or (self.load.is_open and self.next_ns >= self.until)


class Request:
    """A request in a slot."""

    def __init__(self, number, arrival):
        self.number, self.arrival = number, arrival
        self.first_ns, self.left = None, 0


class LanguageModel(Work):
    """A decoder of 1 to 8 billion random weights."""

    settings = {"size": ("1b", "3b", "8b"), "slots": 16, "prompt_tokens": 256, "new_tokens": 64}
    is_capturable = False
    serves = True
    digested = 4
    prompts = 64

    def __init__(self, role, device):
        super().__init__(role, device)
        from . import decoder

        torch = self.torch
        shape = decoder.SHAPES["tiny" if self.is_tiny else self.option("size")]
        self.slots, self.new = self.option("slots", tiny=4), self.option("new_tokens", tiny=5)
        prompt = self.option("prompt_tokens", tiny=8)
        self.model = decoder.Decoder(shape, self.slots, prompt, self.new, self.dtype, device.target)
        size = (self.prompts, 1, prompt)
        self.texts = torch.randint(0, shape.vocabulary, size, device=device.target)
        self.numbers = torch.arange(self.slots, device=device.target)
        self.read, self.step = self.model.read, self.model.step
        self.lone, self.kept, self.event = 0, {}, device.event()

    def prepare(self, stream):
        self.stream = stream
        for _ in range(3):
            self.model.read()
            self.model.step()
        if self.role.graph and self.device.has_graphs:
            # The graphs are kept with the work, not by the role: a request is many launches.
            self.graphs = [self.device.graph(one, stream) for one in (self.read, self.step)]
            self.read, self.step = (graph.replay for graph in self.graphs)

    def begin(self):
        self.lone, self.kept = 0, {}

    def admit(self, number, slot):
        """Has the prompt of a request read into a slot."""
        self.model.given.copy_(self.texts[number % self.prompts])
        self.model.slot.copy_(self.numbers[slot:slot + 1])
        self.read()

    def keep(self, number, slot):
        """Keeps the tokens of the first requests of a phase."""
        if number < self.digested:
            self.kept[number] = self.model.written[slot].clone()

    def launch(self):
        """A request by itself, without a wait between its tokens."""
        self.admit(self.lone, 0)
        for _ in range(self.new - 1):
            self.step()
        self.keep(self.lone, 0)
        self.lone += 1

    def outputs(self):
        return [self.kept[number] for number in sorted(self.kept)]

    def wait(self):
        """Waits for what was launched."""
        self.event.record(self.stream)
        self.event.synchronize()

    def serve(self, load, numbers, begin, until, taken):
        """Serves the requests of a phase."""
        source, waiting = Source(load, numbers, begin, until), collections.deque()
        free, served, tokens = collections.deque(range(self.slots)), {}, 0
        while True:
            now = NOW()
            while (arrival := source.take(now, len(waiting) + len(served))) is not None:
                waiting.append(Request(source.made - 1, arrival))
            if waiting and free:
                request, slot = waiting.popleft(), free.popleft()
                self.first_token(request, slot)
                served[request] = slot
                tokens += 1
            elif not served:
                if source.is_over(now):
                    break
                self.sleep(source, now)
                continue
            tokens += self.next_token(source, served, free, taken)
        taken.tokens = tokens

    def first_token(self, request, slot):
        """Reads a request's prompt and takes the time of its first token."""
        self.admit(request.number, slot)
        self.wait()
        request.first_ns, request.left = NOW(), self.new - 1

    def next_token(self, source, served, free, taken):
        """A step of all requests; those that have all tokens leave. Answers how many tokens."""
        going = [request for request in served if request.left]
        if going:
            self.step()
            self.wait()
        now = NOW()
        for request in going:
            request.left -= 1
        for request in [request for request in served if not request.left]:
            slot = served.pop(request)
            self.keep(request.number, slot)
            free.append(slot)
            taken.add(request.arrival, now)
            taken.first_token_ns.append(request.first_ns)
            source.ended(now)
        return len(going)

    @staticmethod
    def sleep(source, now):
        """Sleeps until the next request comes, or none can."""
        ends = source.next_ns if source.next_ns > now else now + 100_000
        time.sleep(max(0, min(ends, source.until) - now) / 1e9)
