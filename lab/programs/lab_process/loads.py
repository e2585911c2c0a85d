"""How requests of a role come: kinds of load, and the arrivals of open loops.

Arrivals follow from the seed of the process and the name of the role, so that they are the same
alone and beside others, and in each way of sharing the device.
"""

import dataclasses
import json
import math
import random

from .faults import BadInput

#: The settings of each kind: the least value, and the default or None if it has to be given.
KINDS = {
    "closed": {"pause_ms": (0, None), "jitter_ms": (0, 0), "requests": (1, math.inf)},
    "periodic": {"every_ms": (1e-3, None)},
    "poisson": {"per_s": (1e-6, None)},
    "lognormal": {"per_s": (1e-6, None), "sigma": (0, None)},
    "endless": {"in_flight": (1, None)},
}
OPEN = ("periodic", "poisson", "lognormal")


@dataclasses.dataclass(frozen=True)
class Load:
    """The load of a role in a phase."""

    kind: str
    pause_ms: float = 0
    jitter_ms: float = 0
    requests: float = math.inf
    every_ms: float = 0
    per_s: float = 0
    sigma: float = 0
    in_flight: int = 1
    #: The part of what is measured in several phases; each has arrivals of its own.
    part: int = 0

    @property
    def is_open(self):
        """Whether requests arrive however long the last one takes."""
        return self.kind in OPEN


def parse(value, place):
    """A `Load` of an object as orders have it."""
    if not isinstance(value, dict):
        raise BadInput(f"{place}: expected an object")
    kind = value.get("kind")
    if kind not in KINDS:
        raise BadInput(f"{place}.kind: {json.dumps(kind)} is none of {', '.join(KINDS)}")
    unknown = set(value) - set(KINDS[kind]) - {"kind"}
    if unknown:
        raise BadInput(f"{place}: a {kind} load has no {', '.join(sorted(unknown))}")
    settings = {key: _number(value, place, key, *rule) for key, rule in KINDS[kind].items()}
    if kind == "endless":
        settings["in_flight"] = int(settings["in_flight"])
    return Load(kind, **settings)


def _number(value, place, key, least, default):
    given = value.get(key, default)
    if given is None and default is not None:
        given = default
    if isinstance(given, bool) or not isinstance(given, (int, float)) or math.isnan(given):
        raise BadInput(f"{place}.{key}: expected a number, got {json.dumps(given)}")
    if given < least:
        raise BadInput(f"{place}.{key}: {given} is below {least}")
    return given


def source(seed, role, part=0):
    """The random numbers of a role in a part, the same on each machine."""
    return random.Random(f"{seed}/{role}/{part}" if part else f"{seed}/{role}")


def arrivals(load, numbers):
    """Times of arrivals in ns after the begin of a phase, without end."""
    if load.kind == "periodic":
        count = 0
        while True:
            yield round(count * load.every_ms * 1e6)
            count += 1
    at_s = 0.0
    while True:
        at_s += _between(load, numbers)
        yield round(at_s * 1e9)


def _between(load, numbers):
    """Seconds to the next arrival; their mean is the same for both kinds."""
    if load.kind == "poisson":
        return numbers.expovariate(load.per_s)
    middle = -math.log(load.per_s) - load.sigma**2 / 2
    return numbers.lognormvariate(middle, load.sigma)


def pause_s(load, numbers):
    """The next pause of a closed loop."""
    jitter = numbers.uniform(-load.jitter_ms, load.jitter_ms) if load.jitter_ms else 0
    return max(0.0, load.pause_ms + jitter) / 1e3
