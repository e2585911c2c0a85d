"""Clients of the server over HTTP: threads, each with a connection that is kept."""

import hashlib
import http.client
import json
import random
import struct
import threading
import time

from .. import loads
from ..role import Taken, sleep_until

NOW = time.monotonic_ns
#: Requests of an open loop that may be at the server at once; more wait in the client.
CONNECTIONS = 32


def body_of(role, tokens, seed):
    """What is sent for each request: the head as JSON, and the tokens."""
    numbers = random.Random(f"{seed}/{role.name}")
    count = role.batch * tokens
    data = struct.pack(f"<{count}q", *(numbers.randrange(30000) for _ in range(count)))
    given = {"name": "tokens", "shape": [role.batch, tokens], "datatype": "INT64",
             "parameters": {"binary_data_size": len(data)}}
    wanted = {"name": "hidden", "parameters": {"binary_data": True}}
    head = json.dumps({"inputs": [given], "outputs": [wanted]}).encode()
    return head + data, len(head)


class Connection:
    """A connection to a model."""

    def __init__(self, port, role, body, head):
        self.path = f"/v2/models/{role.name}/infer"
        self.body = body
        self.headers = {"Content-Type": "application/octet-stream",
                        "Inference-Header-Content-Length": str(head)}
        self.client = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def infer(self):
        """Sends a request and waits for its answer: the bytes of the output."""
        self.client.request("POST", self.path, self.body, self.headers)
        answer = self.client.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{self.path} answered {answer.status}: {said[:500]!r}")
        return said[int(answer.headers["Inference-Header-Content-Length"]):]

    def close(self):
        """Ends the connection."""
        self.client.close()


class Client:
    """All requests of a role."""

    def __init__(self, spec, role, port):
        self.spec, self.role, self.port = spec, role, port
        tokens = role.options.get("tokens", 16 if spec.device == "cpu" else 384)
        self.body, self.head = body_of(role, tokens, spec.seed)
        self.lock, self.idle = threading.Lock(), []

    def connection(self):
        """A connection that nobody uses."""
        with self.lock:
            if self.idle:
                return self.idle.pop()
        return Connection(self.port, self.role, self.body, self.head)

    def close(self):
        """Ends all connections."""
        for one in self.idle:
            one.close()

    def phase(self, load, begin, until):
        """Makes the requests of a phase; when they arrived and ended, and what came out."""
        phase = Phase(self, load, begin, until)
        threads = [threading.Thread(target=phase.work) for _ in range(phase.threads())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if phase.failure:
            raise phase.failure
        return phase


class Phase:
    """The requests of a role in a phase."""

    def __init__(self, client, load, begin, until):
        self.client, self.load, self.begin, self.until = client, load, begin, until
        self.numbers = loads.source(client.spec.seed, client.role.name, load.part)
        self.arrivals = loads.arrivals(load, self.numbers) if load.is_open else None
        self.lock, self.taken, self.outputs, self.failure = threading.Lock(), Taken(), set(), None

    def threads(self):
        """How many requests may be at the server."""
        return {"closed": 1, "endless": self.load.in_flight}.get(self.load.kind, CONNECTIONS)

    def work(self):
        """One request after the other, over one connection."""
        connection = self.client.connection()
        try:
            sleep_until(self.begin)
            while (arrival := self.next()) is not None:
                sleep_until(arrival)
                self.request(connection, arrival if self.load.is_open else NOW())
                if self.load.kind == "closed":
                    pause_ns = int(loads.pause_s(self.load, self.numbers) * 1e9)
                    sleep_until(min(self.until, NOW() + pause_ns))
        except Exception as error:
            self.failure = error
            connection.close()
            return
        with self.client.lock:
            self.client.idle.append(connection)

    def next(self):
        """When the next request arrives; none if it does not in this phase."""
        with self.lock:
            if self.failure:
                return None
            if self.arrivals:
                arrival = self.begin + next(self.arrivals)
                return arrival if arrival < self.until else None
            if NOW() >= self.until or len(self.taken.end_ns) >= self.load.requests:
                return None
            return NOW()

    def request(self, connection, begin_ns):
        """A request."""
        output = connection.infer()
        end_ns = NOW()
        with self.lock:
            self.taken.add(begin_ns, end_ns)
            self.outputs.add(output)

    def digest(self):
        """The digest of what came out; of all outputs, if they were not the same."""
        state = hashlib.sha256()
        for output in sorted(self.outputs):
            state.update(output)
        return state.hexdigest()[:16]
