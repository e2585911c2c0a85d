"""What the lab and a process say to each other: an object of JSON a line.

The process says that it is ready, or what is missing; it is told phases until its input ends.
"""

import dataclasses
import json
import math
import os
import sys
import traceback

from . import loads
from .faults import BadInput, Missing


class Ended(Exception):
    """The input ended while the process was getting ready."""


def straight(_step):
    """A step at which a process does not wait; what the lab would say to it."""
    return {}


class Channel:
    """Standard output for answers alone: what libraries print goes to standard error."""

    def __init__(self):
        sys.stdout.flush()
        self.answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def say(self, **answer):
        """Writes a line."""
        self.answers.write(json.dumps(answer) + "\n")
        self.answers.flush()


def object_of(line):
    """The object of JSON that a line is."""
    try:
        said = json.loads(line)
    except ValueError as error:
        raise BadInput(f"the line is no JSON: {error}") from error
    if not isinstance(said, dict):
        raise BadInput("the line is no object")
    return said


def order_of(line, roles):
    """The number of a phase, its seconds and the loads by role, of a line that asks for it."""
    order = object_of(line)
    phase, seconds = order.get("phase"), order.get("seconds")
    if isinstance(phase, bool) or not isinstance(phase, int):
        raise BadInput(f"phase: expected a number, got {json.dumps(phase)}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise BadInput(f"seconds: expected a number, got {json.dumps(seconds)}")
    if not 0 < seconds <= 86400 or math.isnan(seconds):
        raise BadInput(f"seconds: {seconds} is not above 0 and at most 86400")
    named = order.get("load")
    if not isinstance(named, dict):
        raise BadInput("load: expected an object with a load for each role")
    unknown = set(named) - set(roles)
    if unknown:
        raise BadInput(f"load: no role is called {', '.join(sorted(unknown))}; "
                       f"there are {', '.join(roles)}")
    part = order.get("part", 0)
    if isinstance(part, bool) or not isinstance(part, int) or part < 0:
        raise BadInput(f"part: expected a number of at least 0, got {json.dumps(part)}")
    load = {name: loads.parse(one, f"load.{name}") for name, one in named.items()}
    return phase, seconds, {name: dataclasses.replace(one, part=part) for name, one in load.items()}


def serve(make, channel=None, orders=None):
    """Makes the process and carries out its orders; answers the exit code.

    `make(reached)` answers an object with `roles` (names), `ready()` (what is said of them),
    `phase(number, seconds, loads)` (the answer) and `close()`. A process whose SPEC has `steps`
    calls `reached(step)` and waits there until the lab lets it go on.
    """
    channel, orders = channel or Channel(), orders or sys.stdin
    process = None

    def reached(step):
        channel.say(step=step)
        line = orders.readline()
        if not line:
            raise Ended
        return object_of(line)

    try:
        process = make(reached)
        channel.say(ready=True, **process.ready())
        for line in orders:
            if not line.strip():
                continue
            try:
                order = order_of(line, process.roles)
            except BadInput as error:
                channel.say(error=str(error))
                continue
            channel.say(**process.phase(*order))
        return 0
    except Missing as missing:
        channel.say(missing=str(missing))
        return 0
    except BadInput as error:
        channel.say(error=str(error))
        return 2
    except Ended:
        return 0
    except BrokenPipeError:
        return 1
    except Exception as error:
        traceback.print_exc()
        channel.say(error=f"{type(error).__name__}: {error}"[:5000])
        return 1
    finally:
        if process:
            process.close()
