"""The process that the lab talks to: a server, and clients for each role."""

import json
import statistics
import tempfile
import threading
import time

from .. import kernels, protocol
from . import clients, server

NOW = time.monotonic_ns
LONE, LONE_QUICK = 20, 10


class Process:
    """A server with all models loaded."""

    def __init__(self, spec, reached=protocol.straight):
        server.check(spec)
        self.spec, self.roles = spec, [role.name for role in spec.roles]
        server.find()
        self.reached, self.briefly = reached, reached("imported").get("measure") is False
        self.kernels = None if self.briefly else kernels.Measurement(spec)
        self.folder = tempfile.TemporaryDirectory(prefix="xsched-triton-")
        self.server, self.clients = None, {}
        try:
            self.server = server.Server(spec, self.folder.name, self.briefly)
        except BaseException:
            self.close()
            raise
        port = self.server.port
        self.clients = {role.name: clients.Client(spec, role, port) for role in spec.roles}

    def ready(self):
        """What the models said of themselves, and their requests over HTTP."""
        self.reached("loaded")
        roles, said = {}, {}
        for name, path in self.server.profiles.items():
            said = json.loads(path.read_text())
            request_ns, digest = self.lone(self.clients[name])
            # What the model measured itself, without HTTP.
            model_ns = said["role"]["request_ns"]
            roles[name] = {**said["role"], "model_request_ns": model_ns, "request_ns": request_ns,
                           "digest": digest}
        for name, found in (self.kernels.kernels_ns() if self.kernels else {}).items():
            roles[name]["kernels_ns"] = found
        return {"software": {**said["software"], **self.version()}, "hardware": said["hardware"],
                "roles": roles}

    def version(self):
        """The server's version."""
        import http.client

        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        client.request("GET", "/v2")
        said = json.loads(client.getresponse().read())
        client.close()
        return {"tritonserver": said.get("version", "")}

    def lone(self, client):
        """The median of lone requests, and the digest of what came out."""
        load = clients.loads.Load("closed", requests=LONE_QUICK if self.spec.quick else LONE)
        client.phase(clients.loads.Load("closed", requests=5), NOW(), NOW() + int(60e9))
        phase = client.phase(load, NOW(), NOW() + int(60e9))
        taken = phase.taken
        spans = [end - begin for begin, end in zip(taken.begin_ns, taken.end_ns)]
        return int(statistics.median(spans)), phase.digest()

    def phase(self, number, seconds, load):
        """Has the clients of the named roles send requests at once, and says what came of it."""
        cpu_ns = self.cpu_ns()
        begin_ns = NOW() + 20_000_000
        until, done, failures = begin_ns + int(seconds * 1e9), {}, []

        def run(name, one):
            try:
                done[name] = self.clients[name].phase(one, begin_ns, until)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=item) for item in load.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        end_ns, cpu_ns = NOW(), self.cpu_ns() - cpu_ns
        said = {name: self.said(one) for name, one in done.items()}
        return {"phase": number, "begin_ns": begin_ns, "end_ns": end_ns, "cpu_ns": cpu_ns,
                "roles": said}

    def cpu_ns(self):
        """Processor time of the clients, the server and the models."""
        return time.process_time_ns() + self.server.cpu_ns()

    @staticmethod
    def said(phase):
        """The answer of a role."""
        return {**phase.taken.answer(), **({"digest": phase.digest()} if phase.outputs else {})}

    def close(self):
        """Ends the server, and what measures kernels."""
        if self.kernels:
            self.kernels.close()
        for client in self.clients.values():
            client.close()
        if self.server:
            self.server.end()
        self.folder.cleanup()
