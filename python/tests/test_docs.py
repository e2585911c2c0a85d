"""The examples of docs/src/guides/python.md run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/src/guides/python.md").read_text(), re.M | re.S)


def test_there_are_some() -> None:
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n", 1)[0])
def test_it_runs(block: str, tmp_path: Path) -> None:
    # Elsewhere than in a checkout, as for a user of the package alone.
    command = [sys.executable, "-c", block]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
