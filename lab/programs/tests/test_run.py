"""How often `run.py` runs a program, and in which order."""

import argparse
import json
import pathlib
import stat
import tempfile
import unittest

import run

#: Stands for `xsched run --`: runs the program as it is, and says where it does.
XSCHED = "#!/bin/sh\nshift 2\nSCHEDULED=1 exec \"$@\"\n"
#: A program that notes that it has begun.
PROGRAM = """import json, os
with open({log!r}, "a") as log:
    log.write(os.environ.get("SCHEDULED", "0"))
print(json.dumps({{"digest": "1", "p50_ms": 2 if "SCHEDULED" in os.environ else 1}}))
"""


def given(folder, **more):
    xsched = pathlib.Path(folder, "xsched")
    xsched.write_text(XSCHED)
    xsched.chmod(xsched.stat().st_mode | stat.S_IXUSR)
    options = {"rounds": 3, "seconds": 0, "turns": False, "limit": 20, "options": "", "preload": None,
               "cupti": False, "xsched": str(xsched), **more}
    return argparse.Namespace(**options)


class Rounds(unittest.TestCase):
    def test_each_way_is_first_in_every_other_round(self):
        with tempfile.TemporaryDirectory() as folder:
            log = str(pathlib.Path(folder, "log"))
            program = pathlib.Path(folder, "program.py")
            program.write_text(PROGRAM.format(log=log))
            row = run.compare(str(program), given(folder))
            self.assertEqual(pathlib.Path(log).read_text(), "011001")
            self.assertEqual((row["ratio"], row["same"]), (2, True), json.dumps(row))

    def test_short_programs_have_more_rounds(self):
        self.assertEqual(list(run.rounds(argparse.Namespace(rounds=2, seconds=0))), [0, 1])
        self.assertGreater(len(list(run.rounds(argparse.Namespace(rounds=2, seconds=0.05)))), 2)


if __name__ == "__main__":
    unittest.main()
