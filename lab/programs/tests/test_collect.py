"""What is collected of result files."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import collect_results

SCRIPT = pathlib.Path(collect_results.__file__)


def result(test_id, passed, status="measured"):
    return {"test_id": test_id, "test_name": "a | b", "date": "", "hardware": "a card", "notes": "",
            "xsched_version": "1", "pass": passed, "status": status,
            "results": {"foreground_p99_ms": 5.25, "figures": [], "build": "abc"}}


class Collects(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, what):
        (self.folder / name).write_text(json.dumps(what), encoding="utf-8")

    def collect(self):
        return subprocess.run([sys.executable, SCRIPT, self.folder], capture_output=True, text=True)

    def test_pass_rates_are_of_what_was_judged(self):
        self.write("7.2.1_fixed_priority.json", result("7.2.1", True))
        self.write("7.2.2_bandwidth_partition.json", result("7.2.2", False))
        self.write("7.1.1_portability.json", result("7.1.1", None, "not_run"))
        self.write("other.json", {"rows": []})
        ran = self.collect()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("| uniformity | 2 | 1 | 1 | 0 | 50 % |", ran.stdout)
        self.assertIn("| portability | 1 | 0 | 0 | 1 |  |", ran.stdout)
        report = (self.folder / "REPORT.md").read_text(encoding="utf-8")
        self.assertIn("| 7.2.2 | a / b | fail | foreground_p99_ms 5.25 |", report)
        self.assertIn("| 7.1.1 | a / b | not run |", report)
        self.assertIn("Devices: a card. Builds: abc.", report)

    def test_a_folder_without_results_and_a_broken_file_are_refused(self):
        self.assertIn("has no results", self.collect().stderr)
        (self.folder / "7.2.1.json").write_text("{", encoding="utf-8")
        ran = self.collect()
        self.assertEqual(ran.returncode, 1)
        self.assertIn("7.2.1.json", ran.stderr)


if __name__ == "__main__":
    unittest.main()
