"""Level 3: a program in Python on the emulated kernel driver, with both mechanisms."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: The program that runs others on the emulated driver, beside the library that sees queues made.
EMULATE = os.environ.get("XSCHED_TEST_KFD_EMULATE", "")
PROGRAM = Path(__file__).with_name("interrupted.py")


@pytest.mark.skipif(
    not EMULATE,
    reason="XSCHED_TEST_KFD_EMULATE does not name kfd-emulate; `cargo xtask python` does",
)
@pytest.mark.parametrize("mechanism", ["update-queue", "debug-trap"])
def test_a_running_kernel_is_interrupted(mechanism: str) -> None:
    watch = Path(EMULATE).with_name("libxsched_kfd_watch.so")
    environment = {**os.environ, "XSCHED_EMULATED_KFD": "1", "XSCHED_KFD_MECHANISM": mechanism}
    if mechanism == "update-queue":
        environment["LD_PRELOAD"] = str(watch)
    ended = subprocess.run(
        [EMULATE, sys.executable, str(PROGRAM)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "interrupted\n"), ended.stderr
