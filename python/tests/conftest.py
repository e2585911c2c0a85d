"""What the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from xsched import sim

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "sim" / "scenarios"


@pytest.fixture
def bert() -> sim.Scenario:
    """Three tasks with the priorities 3, 2 and 1 on one device."""
    return sim.Scenario.load(SCENARIOS / "bert-mi308x.toml")


@pytest.fixture
def small() -> dict[str, object]:
    """Two tasks without an end on one device, as a dictionary."""
    task = {"arrival": {"kind": "closed", "think_ms": 0}, "commands": 4, "threshold": 4, "batch": 2}
    command = {"kind": "constant", "us": 100}
    return {
        "version": 1,
        "name": "small",
        "policy": "fcfs",
        "duration_ms": 50,
        "device": [{"name": "d", "max_level": 3}],
        "task": [
            {"name": "high", "priority": 2, "command": command, **task},
            {"name": "low", "priority": 1, "command": command, **task},
        ],
    }
