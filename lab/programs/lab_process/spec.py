"""What a process is to be: the file SPEC, as `xsched-lab` writes it."""

from __future__ import annotations

import dataclasses
import json
import pathlib

from .faults import BadInput

VERSION = 1
DEVICES = ("cuda", "hip", "cpu")
DTYPES = ("fp32", "fp16", "bf16")
#: Priorities of streams; PyTorch takes the nearest that the device has.
HIGHEST, MIDDLE, LOWEST = -5, -1, 0
#: Ways in which streams have priorities.
WITH_PRIORITIES = ("priorities", "xsched", "mps+xsched", "triton-priorities")


@dataclasses.dataclass(frozen=True)
class Role:
    """A model or a job with a stream of its own."""

    name: str
    work: str
    dtype: str = "fp32"
    batch: int = 1
    graph: bool = False
    priority: int = 0
    deadline_ms: float | None = None
    #: The place of its thread's processor, in phases, among those of the process.
    processor: int | None = None
    options: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Spec:
    """The process."""

    device: str
    roles: tuple
    way: str = "native"
    seed: int = 1
    quick: bool = False
    #: Whether the process waits for the lab at each step until it is ready.
    steps: bool = False
    #: Whether streams have as many priorities as roles; the plan's scripts have three.
    by_rank: bool = False

    def stream_priority(self, role):
        """The priority of a role's stream as drivers count it, downwards; none without one."""
        if self.way not in WITH_PRIORITIES:
            return None
        if self.by_rank:
            ranks = sorted({one.priority for one in self.roles})
            return -ranks.index(role.priority)
        # What is neither urgent nor the least has its own only above others.
        is_above = role.priority == 0 and any(one.priority < 0 for one in self.roles)
        return HIGHEST if role.priority > 0 else MIDDLE if is_above else LOWEST


def _take(table, place, key, types, default=None, required=False):
    value = table.get(key, default)
    if value is None and not required:
        return default
    # True is an int for Python, but not here.
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        names = types.__name__ if isinstance(types, type) else "number"
        raise BadInput(f"{place}.{key}: expected {names}, got {json.dumps(value)}")
    return value


def _one_of(place, value, allowed):
    if value not in allowed:
        raise BadInput(f"{place}: {value!r} is none of {', '.join(allowed)}")
    return value


def _role(value, place):
    if not isinstance(value, dict):
        raise BadInput(f"{place}: expected an object")
    batch = _take(value, place, "batch", int, 1)
    if not 1 <= batch <= 65536:
        raise BadInput(f"{place}.batch: {batch} is not within 1 to 65536")
    deadline = _take(value, place, "deadline_ms", (int, float))
    return Role(
        name=_take(value, place, "name", str, required=True),
        work=_take(value, place, "work", str, required=True),
        dtype=_one_of(f"{place}.dtype", _take(value, place, "dtype", str, "fp32"), DTYPES),
        batch=batch,
        graph=_take(value, place, "graph", bool, False),
        priority=_take(value, place, "priority", int, 0),
        deadline_ms=deadline,
        processor=_take(value, place, "processor", int),
        options=_take(value, place, "options", dict, {}),
    )


def parse(value):
    """A `Spec` of what was in the file."""
    if not isinstance(value, dict):
        raise BadInput("SPEC: expected an object")
    version = value.get("version")
    if version != VERSION:
        raise BadInput(f"SPEC.version: {version!r} is not {VERSION}, the one that is understood")
    listed = _take(value, "SPEC", "roles", list, required=True)
    roles = tuple(_role(one, f"SPEC.roles[{number}]") for number, one in enumerate(listed))
    names = [role.name for role in roles]
    if not roles or len(set(names)) != len(names):
        raise BadInput("SPEC.roles: at least one is needed, and no name twice")
    return Spec(
        device=_one_of("SPEC.device", _take(value, "SPEC", "device", str, required=True), DEVICES),
        roles=roles,
        way=_take(value, "SPEC", "way", str, "native"),
        seed=_take(value, "SPEC", "seed", int, 1),
        quick=_take(value, "SPEC", "quick", bool, False),
        steps=_take(value, "SPEC", "steps", bool, False),
    )


def read(path):
    """The `Spec` in a file."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    try:
        return parse(json.loads(text))
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from error
