"""What processes answer to what makes no sense, and what is missing."""

import dataclasses
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from lab_process import protocol, spec
from lab_process.faults import BadInput, Missing

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent
ROLE = {"name": "high", "work": "bert-base", "dtype": "fp32", "batch": 1, "graph": False,
        "priority": 1, "options": {}}
SPEC = {"version": 1, "device": "cpu", "seed": 1, "quick": True, "way": "native", "roles": [ROLE]}


class Channel:
    """What was said."""

    def __init__(self):
        self.lines = []

    def say(self, **answer):
        self.lines.append(json.loads(json.dumps(answer)))


class Echo:
    """A process that says what it was told."""

    roles = ["high", "low"]
    closed = False

    def __init__(self, reached=protocol.straight):
        self.said = [reached("imported"), reached("loaded")]

    def ready(self):
        return {"roles": {}}

    def phase(self, number, seconds, load):
        if number == 13:
            raise ValueError("the device is gone")
        return {"phase": number, "seconds": seconds, "kinds": [one.kind for one in load.values()]}

    def close(self):
        self.closed = True


def serve(*lines, make=lambda _reached: Echo()):
    """The exit code and the answers."""
    channel = Channel()
    said = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return protocol.serve(make, channel, io.StringIO(said)), channel.lines


class Orders(unittest.TestCase):
    def test_phases_are_answered_until_the_input_ends(self):
        load = {"low": {"kind": "endless", "in_flight": 2}}
        code, said = serve({"phase": 1, "seconds": 0.5, "load": load}, "",
                           {"phase": 2, "seconds": 1, "load": {}})
        self.assertEqual(code, 0)
        self.assertEqual(said[0], {"ready": True, "roles": {}})
        self.assertEqual(said[1], {"phase": 1, "seconds": 0.5, "kinds": ["endless"]})
        self.assertEqual(said[2]["phase"], 2)

    def test_a_line_that_makes_no_sense_is_answered_and_the_next_one_counts(self):
        good = {"phase": 1, "seconds": 1, "load": {}}
        bad = {
            "{": "the line is no JSON",
            "[]": "the line is no object",
            '{"seconds": 1, "load": {}}': "phase: expected a number, got null",
            '{"phase": 1, "seconds": 1, "load": {}, "part": -1}': "part: expected a number of at least 0",
            '{"phase": 1, "seconds": -1, "load": {}}': "seconds: -1 is not above 0",
            '{"phase": 1, "seconds": NaN, "load": {}}': "seconds: nan",
            '{"phase": 1, "seconds": 1}': "load: expected an object",
            '{"phase": 1, "seconds": 1, "load": {"mid": {}}}': "no role is called mid",
            '{"phase": 1, "seconds": 1, "load": {"low": {"kind": "x"}}}': "load.low.kind",
        }
        for line, wanted in bad.items():
            code, said = serve(line, good)
            self.assertIn(wanted, said[1]["error"])
            self.assertEqual((code, said[2]["phase"]), (0, 1))

    def test_a_failure_is_said_and_ends_it(self):
        load = {"phase": 13, "seconds": 1, "load": {}}
        with open(os.devnull, "w") as silence:
            stderr, sys.stderr = sys.stderr, silence
            try:
                code, said = serve(load, load)
            finally:
                sys.stderr = stderr
        self.assertEqual((code, len(said)), (1, 2))
        self.assertEqual(said[1]["error"], "ValueError: the device is gone")

    def test_what_is_missing_is_said_and_no_failure(self):
        def make(_reached):
            raise Missing("TorchVision is not installed")
        self.assertEqual(serve(make=make), (0, [{"missing": "TorchVision is not installed"}]))


class Steps(unittest.TestCase):
    def test_a_process_waits_at_each_step_and_gets_what_the_lab_says(self):
        made = []
        code, said = serve({"go": True, "measure": False}, {"go": True},
                           {"phase": 1, "seconds": 1, "load": {}},
                           make=lambda reached: made.append(Echo(reached)) or made[0])
        self.assertEqual(made[0].said, [{"go": True, "measure": False}, {"go": True}])
        self.assertEqual(said[:2], [{"step": "imported"}, {"step": "loaded"}])
        self.assertEqual((code, said[2]["ready"], said[3]["phase"]), (0, True, 1))

    def test_an_input_that_ends_or_makes_no_sense_at_a_step_ends_the_process(self):
        self.assertEqual(serve(make=Echo), (0, [{"step": "imported"}]))
        code, said = serve("[]", make=Echo)
        self.assertEqual((code, said[-1]), (2, {"error": "the line is no object"}))


class Specs(unittest.TestCase):
    def refuses(self, said, **changed):
        role = {**ROLE, **changed.pop("role", {})}
        with self.assertRaisesRegex(BadInput, said):
            spec.parse({**SPEC, "roles": [role], **changed})

    def test_what_makes_no_sense_is_refused_with_its_place(self):
        self.refuses("SPEC.version: 2 is not 1", version=2)
        self.refuses("SPEC.device: 'tpu' is none of cuda", device="tpu")
        self.refuses("SPEC.seed: expected int", seed="1")
        self.refuses("at least one", roles=[])
        self.refuses("no name twice", roles=[ROLE, ROLE])
        self.refuses(r"SPEC.roles\[0\].dtype: 'int4' is none of", role={"dtype": "int4"})
        self.refuses(r"SPEC.roles\[0\].batch: 0 is not within", role={"batch": 0})
        self.refuses(r"SPEC.roles\[0\].graph: expected bool", role={"graph": 1})
        self.refuses(r"SPEC.roles\[0\].name: expected str", role={"name": None})
        self.refuses(r"SPEC.roles\[0\]: expected an object", roles=[1])

    def test_streams_have_priorities_only_where_the_way_has(self):
        read = spec.parse({**SPEC, "roles": [ROLE, {**ROLE, "name": "low", "priority": 0}]})
        self.assertEqual([read.stream_priority(role) for role in read.roles], [None, None])
        read = spec.parse({**SPEC, "way": "xsched", "roles": read_roles(1, 0, -5)})
        self.assertEqual([read.stream_priority(role) for role in read.roles], [-5, -1, 0])
        ranked = dataclasses.replace(read, by_rank=True)
        self.assertEqual([ranked.stream_priority(role) for role in ranked.roles], [-2, -1, 0])


def read_roles(*priorities):
    """Roles with these priorities."""
    return [{**ROLE, "name": f"r{number}", "priority": priority}
            for number, priority in enumerate(priorities)]


class Programs(unittest.TestCase):
    """The programs as the lab starts them."""

    def run_program(self, name, text, torch=None):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "spec.json"
            if text is not None:
                path.write_text(text)
            # No package of the machine is found, PyTorch least of all.
            absent = "raise ModuleNotFoundError('none', name='torch')"
            pathlib.Path(folder, "torch.py").write_text(torch or absent)
            environment = {**os.environ, "PYTHONPATH": folder, "PATH": folder}
            ran = subprocess.run([sys.executable, str(PROGRAMS / name), str(path)], input="",
                                 capture_output=True, text=True, timeout=60, env=environment)
        return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()]

    def test_a_missing_package_is_said_with_the_command_that_installs_it(self):
        code, said = self.run_program("roles.py", json.dumps(SPEC))
        self.assertEqual(code, 0)
        self.assertEqual(said, [{"missing": "PyTorch is not installed; pip install torch"}])

    def test_a_package_that_is_broken_is_not_called_missing(self):
        broken = "raise ImportError('libcudart.so.13 is not there')"
        _, said = self.run_program("roles.py", json.dumps(SPEC), broken)
        self.assertEqual(said, [{"missing": "PyTorch cannot be used: libcudart.so.13 is not there"}])

    def test_a_missing_server_is_said(self):
        try:
            import pytriton  # noqa: F401
        except ImportError:
            code, said = self.run_program("triton_server.py", json.dumps(SPEC))
            self.assertEqual(code, 0)
            self.assertIn("pip install --no-deps nvidia-pytriton", said[0]["missing"])
        else:
            self.skipTest("nvidia-pytriton is installed")

    def test_bad_files_are_refused(self):
        for program in ("roles.py", "triton_server.py"):
            code, said = self.run_program(program, None)
            self.assertEqual((code, len(said)), (2, 1))
            self.assertIn("No such file", said[0]["error"])
            code, said = self.run_program(program, "{")
            self.assertEqual(code, 2)

    def test_unknown_works_and_options_are_refused_before_anything_is_loaded(self):
        def refused(program, **changed):
            text = json.dumps({**SPEC, "roles": [{**ROLE, **changed}]})
            code, said = self.run_program(program, text)
            self.assertEqual(code, 2)
            return said[0]["error"]

        self.assertIn("'bert-tiny' is none of bert-base", refused("roles.py", work="bert-tiny"))
        self.assertIn("options.token: bert-base has tokens",
                      refused("roles.py", options={"token": 1}))
        self.assertIn("expected a number from 1", refused("roles.py", options={"tokens": 0}))
        self.assertIn("'9b' is none of 1b, 3b, 8b",
                      refused("roles.py", work="llm", options={"size": "9b"}))
        self.assertIn("is none of bert-base, bert-large",
                      refused("triton_server.py", work="resnet50"))
        self.assertIn("a model has tokens, instances",
                      refused("triton_server.py", options={"size": 1}))


if __name__ == "__main__":
    unittest.main()
