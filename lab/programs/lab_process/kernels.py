"""The device time of each kernel of a request, measured by a process of its own.

A tracer that was used once slows the launches of its process, so the processes that are timed
never use one.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

from . import device as devices
from . import protocol, spec, works
from .launcher import Launcher

#: The folder in which Python finds this package.
HERE = pathlib.Path(__file__).resolve().parent.parent


def what(role):
    """What decides about the kernels of a role."""
    return json.dumps([role.work, role.dtype, role.batch, role.graph, role.options], sort_keys=True)


class Measurement:
    """A process that loads the works of a SPEC and waits until it is asked for their kernels."""

    def __init__(self, of):
        self.keys = {role.name: what(role) for role in of.roles}
        distinct = {what(role): role for role in of.roles if not works.class_of(role.work).serves}
        roles = tuple(dataclasses.replace(role, name=key) for key, role in distinct.items())
        self.process = None
        if roles and of.device != "cpu":
            command = (sys.executable, "-m", "lab_process.kernels")
            self.process = subprocess.Popen(command, cwd=HERE, text=True, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE)
            given = dataclasses.asdict(dataclasses.replace(of, roles=roles, way="native"))
            self.tell({"version": spec.VERSION, **given})

    def tell(self, order):
        """Writes a line to the process; one that has ended says why on standard error."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def kernels_ns(self):
        """Device time of each kernel of a request by role, but of those that cannot be measured."""
        if not self.process:
            return {}
        if self.process.stdout.readline():
            self.tell({"go": True})
        line = self.process.stdout.readline()
        said = json.loads(line) if line else {}
        self.close()
        return {name: said[key] for name, key in self.keys.items() if said.get(key)}

    def close(self):
        """Ends the process, wherever it is."""
        if self.process:
            self.process.kill()
            # What it was told after its end is still to be written.
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
            self.process = None


def main():
    """Measures the kernels of the SPEC on standard input, once a second line says so."""
    channel = protocol.Channel()
    # Ending CUPTI after a profile and beginning again fails where there are graphs.
    os.environ.setdefault("TEARDOWN_CUPTI", "0")
    of = spec.parse(json.loads(sys.stdin.readline()))
    device = devices.make(of.device, devices.torch_of(of.seed))
    works.set_deterministic(device.torch, of)
    launchers = [Launcher(role, of, device) for role in of.roles]
    for launcher in launchers:
        launcher.make()
    channel.say(loaded=True)
    if sys.stdin.readline():
        channel.say(**{launcher.spec.name: launcher.kernels_ns() for launcher in launchers})


if __name__ == "__main__":
    main()
