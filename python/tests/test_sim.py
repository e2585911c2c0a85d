"""The simulator from Python."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
import threading
from array import array
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xsched
from xsched import sim


def test_a_scenario_comes_from_a_file_text_or_a_dictionary(
    small: dict[str, Any], tmp_path: Path, bert: sim.Scenario
) -> None:
    assert (bert.name, bert.tasks, bert.devices) == ("bert-mi308x", ["a", "b", "c"], ["mi308x"])
    assert (bert.policy, bert.level, bert.seed, bert.seeds) == ("fcfs", 2, 1, 200)
    text = """
        version = 1
        name = "small"
        policy = "fcfs"
        duration_ms = 50
        [[device]]
        name = "d"
        max_level = 3
        [[task]]
        name = "t"
        arrival = { kind = "closed", think_ms = 0 }
        command = { kind = "constant", us = 100 }
    """
    path = tmp_path / "small.toml"
    path.write_text(text)
    small["task"] = [{k: small["task"][0][k] for k in ("arrival", "command")} | {"name": "t"}]
    runs = [sim.run(scenario).to_json() for scenario in (sim.Scenario.parse(text), path, small)]
    assert runs[0] == runs[1] == runs[2]


def test_what_is_wrong_with_a_scenario_is_said(small: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="here.toml:1: version: missing"):
        sim.Scenario.parse("name = 'x'", "here.toml")
    with pytest.raises(FileNotFoundError, match="gone.toml"):
        sim.Scenario.load(tmp_path / "gone.toml")
    with pytest.raises(IsADirectoryError):
        sim.run(tmp_path)
    with pytest.raises(ValueError, match="<dict>.*task.1..commands"):
        small["task"][1]["commands"] = 0
        sim.Scenario.of(small)
    with pytest.raises(ValueError, match="null"):
        sim.Scenario.of({"version": None})
    with pytest.raises(TypeError):
        sim.Scenario.of({"version": object()})


def test_scenarios_come_with_the_package() -> None:
    names = sim.scenario_names()
    assert {"bert-mi308x", "paper/priority"} <= set(names)
    for name in names:
        assert sim.Scenario.bundled(name).tasks
    with pytest.raises(ValueError, match="no scenario 'nope'; there are .*bert-mi308x"):
        sim.Scenario.bundled("nope")


def test_figures_can_be_had_as_a_dataframe(bert: sim.Scenario) -> None:
    outcome = sim.run(bert, "hpf")
    frame = outcome.to_dataframe()
    assert list(frame["task"]) == ["a", "b", "c"] and set(frame["policy"]) == {"hpf"}
    assert list(frame["p99_ms"]) == [task.p99_ms for task in outcome.tasks]
    comparison = sim.compare(bert, ["fcfs", "hpf"], levels=[1])
    frame = comparison.to_dataframe()
    assert len(frame) == len(comparison.rows) == 6
    assert list(frame["mean_ms"]) == [row.mean_ms for row in comparison.rows]


def test_an_outcome_has_the_figures(bert: sim.Scenario) -> None:
    outcome = sim.run(bert, "hpf", level=2, seed=7)
    assert (outcome.scenario, outcome.policy, outcome.level, outcome.seed) == (
        "bert-mi308x",
        "hpf",
        2,
        7,
    )
    figures = json.loads(outcome.to_json())
    for task, theirs in zip(outcome.tasks, figures["tasks"]):
        assert task.completed == theirs["completed"] == 20
        assert task.mean_ms == pytest.approx(theirs["latency_ms"]["mean"])
        assert task.p50_ms == theirs["latency_ms"]["p50"]
        assert task.percentile_ms(95) == theirs["latency_ms"]["p95"]
        assert task.p99_ms == theirs["latency_ms"]["p99"]
        assert task.percentile_ms(0) == theirs["latency_ms"]["min"]
        assert task.percentile_ms(100) == theirs["latency_ms"]["max"]
        assert task.throughput_rps == pytest.approx(theirs["throughput_rps"])
    (device,) = outcome.devices
    assert 0 < device.busy_ns <= outcome.duration_ns
    assert len(device.quiet_latency_ns) == device.preemptions > 0
    assert len(outcome.checks) == 8 and outcome.violations == 0
    assert all(check.first is None for check in outcome.checks.values())
    assert sum(check.observed for check in outcome.checks.values()) > 0
    assert "<svg" in outcome.latency_svg()
    with pytest.raises(KeyError, match="no task 'd'; there are a, b, c"):
        outcome.task("d")
    with pytest.raises(ValueError, match="0 to 100"):
        outcome.task("a").percentile_ms(101)
    with pytest.raises(FrozenInstanceError):
        outcome.seed = 1  # type: ignore[misc]


def test_samples_are_numpy_arrays_that_cannot_be_changed(bert: sim.Scenario) -> None:
    samples = sim.run(bert).tasks[0].latencies_ns
    assert isinstance(samples, np.ndarray)
    assert samples.dtype == np.uint64 and not samples.flags.writeable


def test_samples_are_arrays_without_numpy(
    bert: sim.Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_numpy = sim.run(bert)
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "numpy":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    plain = sim.run(bert)
    samples = plain.tasks[0].latencies_ns
    assert isinstance(samples, array)
    assert samples.tolist() == [int(sample) for sample in with_numpy.tasks[0].latencies_ns]
    assert plain.tasks[0].p99_ms == with_numpy.tasks[0].p99_ms


def test_a_timeline_is_kept_if_asked_for(bert: sim.Scenario) -> None:
    assert sim.run(bert).spans == ()
    outcome = sim.run(bert, "hpf", timeline_spans=100)
    assert len(outcome.spans) == 100 and outcome.spans_dropped > 0
    assert {span.kind for span in outcome.spans} <= {"command", "request", "hold", "save", "restore"}
    assert all(span.start_ns <= span.end_ns for span in outcome.spans)
    # The viewer's format is a list of events.
    assert json.loads(outcome.trace_json())["traceEvents"]


def test_the_same_seed_gives_the_same_figures(bert: sim.Scenario) -> None:
    one, same, other = (sim.run(bert, "hpf", seed=seed).to_json() for seed in (3, 3, 4))
    assert one == same != other


def test_what_cannot_be_run_is_refused(bert: sim.Scenario, small: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="unknown policy `nope`; known are fcfs, hpf"):
        sim.run(bert, "nope")
    with pytest.raises(ValueError, match="there is no level 4"):
        sim.run(bert, level=4)
    small["device"][0]["max_level"] = 1
    with pytest.raises(ValueError, match="task `high` asks for level 3, but device `d` has"):
        sim.run(small, "hpf", level=3)
    with pytest.raises(OverflowError):
        sim.run(bert, seed=-1)
    for wrong in (3, object(), xsched):
        with pytest.raises(TypeError, match="the name of one or an object"):
            sim.run(bert, wrong)  # type: ignore[arg-type]


def test_policies_and_levels_are_compared(bert: sim.Scenario) -> None:
    comparison = sim.compare(bert, ["fcfs", "hpf"], levels=[1, 2], seeds=3, threads=2)
    names = [(row.policy, row.level, row.task) for row in comparison.rows]
    assert names == [(p, v, t) for p, v in (("fcfs", None), ("hpf", 1), ("hpf", 2)) for t in "abc"]
    base, favoured = comparison.rows[0], comparison.rows[6]
    assert base.p99_ratio == base.total_ratio == 1
    assert favoured.p99_ratio is not None and favoured.p99_ratio < 0.5
    assert comparison.violations == 0
    assert len(json.loads(comparison.json)["runs"]) == 3
    with pytest.raises(ValueError, match="unknown policy"):
        sim.compare(bert, ["nope"])


def test_names_of_policies_can_be_run(small: dict[str, Any]) -> None:
    names = sim.policy_names()
    assert {"fcfs", "hpf", "edf", "wfq"} <= set(names)
    for name in names:
        assert sim.run(small, name).policy == name


def test_runs_let_other_threads_run(bert: sim.Scenario) -> None:
    done = []
    threads = [
        threading.Thread(target=lambda seed=seed: done.append(sim.run(bert, "hpf", seed=seed)))
        for seed in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.seed for outcome in done) == list(range(8))
    assert all(outcome.violations == 0 for outcome in done)


def test_the_package_imports_in_a_new_process() -> None:
    command = [sys.executable, "-c", "import xsched; print(xsched.__version__)"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == xsched.__version__
    assert all(hasattr(xsched, name) for name in xsched.__all__)
