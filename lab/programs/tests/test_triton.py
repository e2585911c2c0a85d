"""What the server is told, and what its clients send."""

import http.server
import json
import pathlib
import threading
import time
import unittest

from lab_process import loads, spec
from lab_process.triton import clients, server

ROLES = (spec.Role("high", "bert-large", priority=1, batch=2),
         spec.Role("low", "bert-large", options={"instances": 3, "tokens": 128}))


def config(way, role):
    """The configuration of a role's model."""
    return server.model_config(spec.Spec("cuda", ROLES, way), role, pathlib.Path("p.json"))


class Configurations(unittest.TestCase):
    def test_priorities_are_said_only_where_the_way_has_them(self):
        self.assertNotIn("priority", config("native", ROLES[0]).replace('\\"priority\\"', ""))
        self.assertIn("optimization { priority: PRIORITY_MAX }", config("xsched", ROLES[0]))
        self.assertIn("optimization { priority: PRIORITY_MIN }",
                      config("triton-priorities", ROLES[1]))

    def test_the_rate_limiter_has_one_resource_for_all_models(self):
        text = config("triton-rate-limiter", ROLES[0])
        self.assertIn('resources [ { name: "gpu" global: true count: 1 } ] priority: 1 }', text)
        self.assertIn("priority: 10 }", config("triton-rate-limiter", ROLES[1]))
        self.assertNotIn("rate_limiter", config("xsched", ROLES[0]))

    def test_shapes_and_instances_are_those_of_the_role(self):
        self.assertIn("dims: [ 2, 384 ]", config("native", ROLES[0]))
        text = config("native", ROLES[1])
        self.assertIn("dims: [ 1, 128 ]", text)
        self.assertIn("count: 3", text)
        said = json.loads(json.loads(text.split("string_value: ")[1].split(" } }\n")[0]))
        self.assertEqual(said["role"]["options"], {"tokens": 128})


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that answers as Triton does, with the bytes that it was sent."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        head = int(self.headers["Inference-Header-Content-Length"])
        asked = json.loads(body[:head])
        time.sleep(0.002)
        output = body[head:] if asked["inputs"][0]["shape"] == [1, 384] else b""
        status = 200 if self.path == "/v2/models/high/infer" else 400
        self.send_response(status)
        self.send_header("Inference-Header-Content-Length", "2")
        self.send_header("Content-Length", str(2 + len(output)))
        self.end_headers()
        self.wfile.write(b"{}" + output)

    def log_message(self, *_):
        pass


class Clients(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def phase(self, load, seconds=0.3, name="high"):
        role = spec.Role(name, "bert-large")
        client = clients.Client(spec.Spec("cuda", (role,)), role, self.server.server_port)
        self.addCleanup(client.close)
        begin = time.monotonic_ns()
        return client.phase(load, begin, begin + int(seconds * 1e9)), begin

    def test_a_closed_client_sends_so_many_requests(self):
        phase, _ = self.phase(loads.Load("closed", pause_ms=1, requests=4))
        self.assertEqual(len(phase.taken.end_ns), 4)
        self.assertEqual(len(phase.outputs), 1)
        again, _ = self.phase(loads.Load("closed", requests=1))
        self.assertEqual(phase.digest(), again.digest())

    def test_an_open_client_counts_from_the_arrival(self):
        phase, begin = self.phase(loads.Load("periodic", every_ms=30))
        arrivals = sorted((one - begin) // 1_000_000 for one in phase.taken.begin_ns)
        self.assertEqual(arrivals, [30 * number for number in range(10)])

    def test_an_endless_client_has_several_requests_at_the_server(self):
        phase, _ = self.phase(loads.Load("endless", in_flight=4), seconds=1)
        pairs = list(zip(phase.taken.begin_ns, phase.taken.end_ns))
        most = max(sum(begin <= at < end for begin, end in pairs) for at, _ in pairs)
        self.assertTrue(2 <= most <= 4, most)

    def test_a_refusal_is_a_failure(self):
        with self.assertRaisesRegex(RuntimeError, "/v2/models/low/infer answered 400"):
            self.phase(loads.Load("closed", requests=1), name="low")


if __name__ == "__main__":
    unittest.main()
