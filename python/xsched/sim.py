"""The simulator: what a policy would do, without a device.

    from xsched import sim

    scenario = sim.Scenario.load("sim/scenarios/bert-mi308x.toml")
    outcome = sim.run(scenario, "hpf", level=2)
    print(outcome.task("a").p99_ms)

Everything runs the same code as the command line `xsched sim`, so the same seed gives the same
figures. A policy may be written in Python: see `Policy`.
"""

from __future__ import annotations

import json
import os
from array import array
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Union,
    cast,
)

from . import _native
from ._native import Decisions, Event, QueueView, Table

__all__ = [
    "Check",
    "CompareRow",
    "Comparison",
    "Decisions",
    "DeviceOutcome",
    "Event",
    "Outcome",
    "Policy",
    "QueueView",
    "Samples",
    "Scenario",
    "Span",
    "Table",
    "TaskOutcome",
    "compare",
    "policy_names",
    "run",
    "scenario_names",
]

#: Where the wheel has them.
_SCENARIOS = Path(__file__).resolve().parent / "data" / "scenarios"


class Samples(Protocol):
    """Times in nanoseconds: a NumPy array of uint64 if NumPy is installed, else an `array`."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_dataframe needs pandas; `pip install pandas`") from error
    return pandas


def _samples(data: bytes) -> Samples:
    try:
        import numpy
    except ImportError:
        values = array("Q")
        values.frombytes(data)
        return values
    return cast(Samples, numpy.frombuffer(data, dtype=numpy.uint64))


class Scenario:
    """A checked scenario; docs/src/reference/scenarios.md says what is in one. It does not change."""

    __slots__ = ("_raw",)

    def __init__(self, raw: _native.RawScenario) -> None:
        self._raw = raw

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> Scenario:
        """Reads a file.

        Raises OSError (FileNotFoundError, say) if it cannot be read, and ValueError, with the file,
        the line and the key, if it is not a scenario.
        """
        with open(path, "rb"):
            return cls(_native.RawScenario.load(os.fspath(path)))

    @classmethod
    def bundled(cls, name: str) -> Scenario:
        """A scenario that comes with the package, by a name of `scenario_names`.

        Raises ValueError for another name.
        """
        if name not in scenario_names():
            raise ValueError(f"no scenario {name!r}; there are {', '.join(scenario_names())}")
        return cls.load(_SCENARIOS / f"{name}.toml")

    @classmethod
    def parse(cls, text: str, file: Union[str, "os.PathLike[str]"] = "<text>") -> Scenario:
        """Takes TOML text. `file` names it in messages; files that it names are in that folder."""
        return cls(_native.RawScenario.parse(text, os.fspath(file)))

    @classmethod
    def of(
        cls, table: Mapping[str, Any], file: Union[str, "os.PathLike[str]"] = "<dict>"
    ) -> Scenario:
        """Takes the same as a dictionary, with the keys of the TOML form.

        Raises ValueError if it is not a scenario, TypeError if it holds what TOML has not.
        """
        return cls(_native.RawScenario.from_json(json.dumps(table), os.fspath(file)))

    @property
    def name(self) -> str:
        """Its short name."""
        return self._raw.name

    @property
    def description(self) -> str:
        """What it shows."""
        return self._raw.description

    @property
    def policy(self) -> str:
        """The policy to use if no other is asked for."""
        return self._raw.policy

    @property
    def level(self) -> int:
        """The preemption level, 1 to 3, if no other is asked for."""
        return self._raw.level

    @property
    def seed(self) -> int:
        """The first seed."""
        return self._raw.seed

    @property
    def seeds(self) -> int:
        """How many seeds the command line would run."""
        return self._raw.seeds

    @property
    def devices(self) -> List[str]:
        """The names of the devices; policies know them by their place here."""
        return self._raw.devices

    @property
    def tasks(self) -> List[str]:
        """The names of the tasks, without the copies that `count` makes."""
        return self._raw.tasks

    def __repr__(self) -> str:
        return f"<Scenario {self.name!r}: {len(self.devices)} devices, {len(self.tasks)} tasks>"


class Policy:
    """A policy written in Python, for the simulator.

    Subclass it and write `decide`, and `observe` if something is to be counted. It is asked in
    simulated time, so it may take as long as it likes; a real device would not wait for it. What it
    raises ends up where `run` was called.
    """

    #: For reports.
    name: str = "python"
    #: Whether it ever holds a queue.
    holds: bool = True
    #: How often queues report the device time that they used, in nanoseconds of device time.
    progress_every_ns: Optional[int] = None

    @property
    def _observes(self) -> bool:
        return type(self).observe is not Policy.observe

    def configure(self, hint: str, value: Optional[int]) -> bool:
        """A hint for the policy: `timeslice_ns`, `k` or `ageing_ns`. Whether it has a use for it."""
        return False

    def observe(self, now_ns: int, queue: QueueView, event: Event, table: Table) -> None:
        """Something happened to a queue. The table shows the new state."""

    def decide(
        self, now_ns: int, changed: Optional[List[QueueView]], table: Table, out: Decisions
    ) -> None:
        """Says through `out` which queues run.

        Only what changed has to be said: a verdict stays until it is replaced, for idle queues too.
        `changed` are the queues to look at, and None if every verdict must be said (all are `run`
        then, and no device has a floor). Asked again without a change, it must change nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} must have a method `decide`")


#: The name of a policy, or a system to compare with, or an object.
AnyPolicy = Union[str, Policy]


@dataclass(frozen=True, eq=False)
class TaskOutcome:
    """The figures of one task. Times are in nanoseconds unless the name says otherwise."""

    name: str
    priority: int
    #: From arrival to completion of each counted request, in order of completion.
    latencies_ns: Samples
    deadline_misses: int
    failed: int
    #: Time over which the latencies were collected.
    measured_ns: int
    #: Device time of its commands.
    device_time_ns: int

    @property
    def completed(self) -> int:
        """Counted requests."""
        return len(self.latencies_ns)

    @property
    def mean_ms(self) -> Optional[float]:
        """Mean latency in milliseconds; None without a request."""
        count = self.completed
        return sum(map(int, self.latencies_ns)) / count / 1e6 if count else None

    def percentile_ms(self, percent: int) -> Optional[float]:
        """A percentile of the latency in milliseconds, by nearest rank; None without a request.

        Raises ValueError unless `percent` is a whole number from 0 to 100.
        """
        if percent != int(percent) or not 0 <= percent <= 100:
            raise ValueError(f"a percentile is a whole number from 0 to 100, not {percent}")
        count = self.completed
        if not count:
            return None
        rank = max(-(-count * int(percent) // 100), 1)
        return int(sorted(self.latencies_ns)[rank - 1]) / 1e6

    @property
    def p50_ms(self) -> Optional[float]:
        """Median latency in milliseconds."""
        return self.percentile_ms(50)

    @property
    def p99_ms(self) -> Optional[float]:
        """99th percentile of the latency in milliseconds."""
        return self.percentile_ms(99)

    @property
    def throughput_rps(self) -> Optional[float]:
        """Counted requests per second; None if no time was measured."""
        return self.completed * 1e9 / self.measured_ns if self.measured_ns else None


@dataclass(frozen=True, eq=False)
class DeviceOutcome:
    """The figures of one device, in nanoseconds."""

    name: str
    #: While at least one command ran.
    busy_ns: int
    #: Spent on gates, saving and restoring.
    overhead_ns: int
    #: Holds of a queue that had work on the device.
    preemptions: int
    #: Per such hold: until the host knew that the victim had stopped.
    preempt_latency_ns: Samples
    #: Per such hold: until the victim's last instruction.
    quiet_latency_ns: Samples
    #: Per such hold: until another queue ran, if one did.
    start_latency_ns: Samples
    #: The part of `overhead_ns` for saving and restoring.
    switch_ns: int
    #: Interrupts and restores.
    switches: int


@dataclass(frozen=True)
class Check:
    """What one of the checkers found."""

    observed: int
    violations: int
    first: Optional[str]


@dataclass(frozen=True)
class Span:
    """A bar of the timeline, in nanoseconds of simulated time."""

    task: int
    #: command, request, hold, save or restore.
    kind: str
    start_ns: int
    end_ns: int
    #: The number of the command or request, or the level of the hold.
    number: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run produced."""

    scenario: str
    policy: str
    level: int
    seed: int
    duration_ns: int
    #: Commands completed on devices.
    commands: int
    #: Events simulated.
    events: int
    tasks: Tuple[TaskOutcome, ...]
    devices: Tuple[DeviceOutcome, ...]
    #: By the name of the invariant; empty if checks were off.
    checks: Mapping[str, Check]
    #: The timeline, as far as it was kept.
    spans: Tuple[Span, ...]
    #: Bars that were not kept.
    spans_dropped: int
    _raw: _native.RawOutcome = field(repr=False)

    @classmethod
    def _of(cls, raw: _native.RawOutcome) -> Outcome:
        def task(fields: Dict[str, Any]) -> TaskOutcome:
            return TaskOutcome(**{**fields, "latencies_ns": _samples(fields["latencies_ns"])})

        def device(fields: Dict[str, Any]) -> DeviceOutcome:
            samples = {k: _samples(v) for k, v in fields.items() if k.endswith("_latency_ns")}
            return DeviceOutcome(**{**fields, **samples})

        return cls(
            tasks=tuple(map(task, raw.tasks())),
            devices=tuple(map(device, raw.devices())),
            checks={name: Check(seen, found, first) for name, seen, found, first in raw.checks()},
            spans=tuple(Span(*span) for span in raw.spans()),
            spans_dropped=raw.spans_dropped(),
            _raw=raw,
            **raw.head(),
        )

    def task(self, name: str) -> TaskOutcome:
        """The task of this name. Raises KeyError with the names that there are."""
        for task in self.tasks:
            if task.name == name:
                return task
        names = ", ".join(task.name for task in self.tasks)
        raise KeyError(f"no task {name!r}; there are {names}")

    @property
    def violations(self) -> int:
        """Violations of all invariants."""
        return sum(check.violations for check in self.checks.values())

    def to_dataframe(self) -> Any:
        """The figures of the tasks as a DataFrame of pandas, a row each.

        Raises ImportError without pandas.
        """
        head = {key: getattr(self, key) for key in ("scenario", "policy", "level", "seed")}
        own = ["completed", "mean_ms", "p50_ms", "p99_ms", "throughput_rps"]
        own += ["deadline_misses", "failed", "measured_ns", "device_time_ns"]
        rows = [
            {**head, "task": task.name, "priority": task.priority}
            | {key: getattr(task, key) for key in own}
            for task in self.tasks
        ]
        return _pandas().DataFrame(rows)

    def to_json(self) -> str:
        """The figures as JSON, in the form that docs/src/reference/files.md describes."""
        return self._raw.to_json()

    def trace_json(self) -> str:
        """The timeline as JSON that Perfetto opens."""
        return self._raw.trace_json()

    def latency_svg(self) -> str:
        """A picture of the latencies."""
        return self._raw.latency_svg()


@dataclass(frozen=True)
class CompareRow:
    """A task under one policy at one level. Everything is a median over the seeds."""

    policy: str
    #: None for a policy that never holds.
    level: Optional[int]
    task: str
    mean_ms: Optional[float]
    p50_ms: Optional[float]
    p99_ms: Optional[float]
    max_ms: Optional[float]
    throughput_rps: Optional[float]
    #: 99th percentile over that under the first policy.
    p99_ratio: Optional[float]
    #: Requests per second of all tasks over that under the first policy.
    total_ratio: Optional[float]
    #: Counted requests that ended after the task's deadline; None without a deadline.
    deadline_misses: Optional[float] = None
    #: Counted requests.
    completed: Optional[float] = None
    #: Requests per second over that of the same task under the first policy.
    throughput_ratio: Optional[float] = None


@dataclass(frozen=True)
class Comparison:
    """Several policies and levels side by side."""

    rows: Tuple[CompareRow, ...]
    #: Violations of all invariants in all runs.
    violations: int
    #: In the form that docs/src/reference/files.md describes.
    json: str = field(repr=False)

    def to_dataframe(self) -> Any:
        """The rows as a DataFrame of pandas.

        Raises ImportError without pandas.
        """
        return _pandas().DataFrame([asdict(row) for row in self.rows])


def scenario_names() -> List[str]:
    """The names of the scenarios that come with the package."""
    files = _SCENARIOS.rglob("*.toml")
    return sorted(file.relative_to(_SCENARIOS).with_suffix("").as_posix() for file in files)


def policy_names() -> List[str]:
    """The names of the policies."""
    return _native.policy_names()


def _scenario(scenario: Union[Scenario, str, "os.PathLike[str]", Mapping[str, Any]]) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario
    if isinstance(scenario, Mapping):
        return Scenario.of(scenario)
    return Scenario.load(Path(scenario))


#: A scenario, the path of one, or a dictionary.
AnyScenario = Union[Scenario, str, "os.PathLike[str]", Mapping[str, Any]]


def run(
    scenario: AnyScenario,
    policy: Optional[AnyPolicy] = None,
    *,
    level: Optional[int] = None,
    seed: Optional[int] = None,
    checks: bool = True,
    timeline_spans: int = 0,
    by_cost: bool = False,
) -> Outcome:
    """Runs a scenario once.

    `policy`, `level` (1 to 3) and `seed` are the scenario's own unless given. `timeline_spans` is
    how many bars of the timeline to keep. With `by_cost`, each hold has the level that its cost
    suggests, up to `level`. An object as the policy must be a fresh one for each run.

    Raises ValueError if the policy or the level does not exist or the device cannot do it, and what
    a policy in Python raised, after the run.
    """
    raw = _native.run(
        _scenario(scenario)._raw,
        policy,
        level=level,
        seed=seed,
        checks=checks,
        timeline_spans=timeline_spans,
        by_cost=by_cost,
    )
    return Outcome._of(raw)


def compare(
    scenario: AnyScenario,
    policies: Sequence[Union[str, Callable[[], Policy]]],
    *,
    levels: Sequence[int] = (2,),
    seed: Optional[int] = None,
    seeds: int = 1,
    threads: Optional[int] = None,
) -> Comparison:
    """Runs a scenario under several policies at several levels, `seeds` times each.

    A policy is a name, or what makes an object, such as a subclass of `Policy`: each run has one of
    its own. The first is what the others are compared with. Runs of policies by name are spread over
    `threads`, by default as many as there are processors. Raises as `run` does.
    """
    rows, document, violations = _native.compare(
        _scenario(scenario)._raw,
        list(policies),
        levels=list(levels),
        seed=seed,
        seeds=seeds,
        threads=threads,
    )
    return Comparison(tuple(CompareRow(**row) for row in rows), violations, document)
