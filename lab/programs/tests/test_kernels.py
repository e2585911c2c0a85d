"""The process that measures kernels, without PyTorch and a GPU: what it is asked, and its end."""

import contextlib
import io
import json
import subprocess
import sys
import unittest
from unittest import mock

from lab_process import kernels, spec

#: Stands in for the process: it takes a SPEC, and says of each role how many tokens its requests have.
STAND_IN = """
import json, sys
roles = json.loads(sys.stdin.readline())["roles"]
print(json.dumps({"loaded": True}), flush=True)
sys.stdin.readline()
print(json.dumps({role["name"]: [role["options"].get("tokens", 384)] for role in roles}), flush=True)
"""


def roles(**more):
    """Two roles with one work, one with another, and one whose requests are served together."""
    return spec.Spec("cuda", (
        spec.Role("high", "bert-base", priority=1),
        spec.Role("low", "bert-base"),
        spec.Role("short", "bert-base", options={"tokens": 16}),
        spec.Role("chat", "llm"),
    ), **more)


class Measurement(unittest.TestCase):
    def started(self, program, of):
        def popen(_command, **options):
            return real([sys.executable, "-c", program], **options)
        real = subprocess.Popen
        with mock.patch("subprocess.Popen", popen):
            return kernels.Measurement(of)

    def test_each_work_is_asked_for_once(self):
        measurement = self.started(STAND_IN, roles(way="xsched"))
        self.assertEqual(measurement.kernels_ns(), {"high": [384], "low": [384], "short": [16]})
        self.assertIsNone(measurement.process)

    def test_the_spec_is_one_that_a_process_understands(self):
        told = []
        with mock.patch.object(kernels.Measurement, "tell", lambda _self, order: told.append(order)):
            self.started("", roles()).close()
        of = spec.parse(json.loads(json.dumps(told[0])))
        self.assertEqual([(role.work, role.options) for role in of.roles],
                         [("bert-base", {}), ("bert-base", {"tokens": 16})])

    def test_one_that_fails_says_nothing(self):
        for program in ("", "raise SystemExit(3)", "import sys; sys.stdin.readline(); print('{}')"):
            self.assertEqual(self.started(program, roles()).kernels_ns(), {}, program)

    def test_one_that_has_ended_is_told_nothing(self):
        measurement = self.started("", roles())
        measurement.process.wait()
        measurement.tell({"go": True})
        self.assertEqual(measurement.kernels_ns(), {})

    def test_one_that_is_not_asked_is_ended(self):
        measurement = self.started("import time; time.sleep(1000)", roles())
        process = measurement.process
        measurement.close()
        self.assertIsNotNone(process.poll())

    def test_without_pytorch_it_ends_with_the_reason(self):
        with contextlib.redirect_stderr(io.StringIO()):
            ran = subprocess.run([sys.executable, "-c", "import sys; sys.modules['torch'] = None; "
                                  "from lab_process import kernels; kernels.main()"],
                                 cwd=kernels.HERE, input='{"version": 1, "device": "cuda", '
                                 '"roles": [{"name": "a", "work": "bert-base"}]}\n',
                                 capture_output=True, text=True)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("torch", ran.stderr)


if __name__ == "__main__":
    unittest.main()
