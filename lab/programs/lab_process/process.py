"""The process: its roles, and phases in which they work at once."""

import contextlib
import functools
import threading
import time

from . import device as devices
from . import kernels, protocol, works
from .faults import BadInput, Missing
from .role import Role


def failed(name, error):
    """That a role failed, and why."""
    return RuntimeError(f"the role {name}: {type(error).__name__}: {error}")


class Process:
    """All roles of a SPEC, loaded and warm; `on_stream` is told each role's stream, still unused."""

    def __init__(self, spec, on_stream=None, reached=protocol.straight):
        works.check(spec)
        torch = devices.torch_of(spec.seed)
        works.preload(spec)
        self.briefly = reached("imported").get("measure") is False
        self.kernels = None if self.briefly else kernels.Measurement(spec)
        self.spec, self.reached, self.device = spec, reached, devices.make(spec.device, torch)
        works.set_deterministic(torch, spec)
        self.by_name = {role.name: Role(role, spec, self.device) for role in spec.roles}
        self.roles = list(self.by_name)
        for role in self.by_name.values():
            if on_stream:
                role.on_stream = functools.partial(on_stream, role.spec)
            self.have(role, role.make)

    @staticmethod
    def have(role, function):
        """What a function answers in the role's thread; failures name the role."""
        try:
            return role.begin(function)()
        except (BadInput, Missing):
            raise
        except Exception as error:
            raise failed(role.spec.name, error) from error

    def ready(self):
        """What is said once: versions, the device, and what each role needs alone."""
        self.reached("loaded")
        measure = {name: functools.partial(role.measure, briefly=self.briefly)
                   for name, role in self.by_name.items()}
        measured = {name: self.have(role, measure[name]) for name, role in self.by_name.items()}
        for name, found in (self.kernels.kernels_ns() if self.kernels else {}).items():
            measured[name]["kernels_ns"] = found
        software = {**self.device.software(), **works.versions()}
        return {"software": software, "hardware": self.device.hardware(), "roles": measured}

    def phase(self, number, seconds, load):
        """Has the named roles work at once, and says what they did."""
        barrier = threading.Barrier(len(load) + 1)
        waits = {}
        for name, one in load.items():
            role = self.by_name[name]
            waits[name] = role.begin(self.guarded, role, one, barrier, seconds)
        with contextlib.suppress(threading.BrokenBarrierError):
            barrier.wait()
        begin_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns()
        taken = self.all_of(waits)
        end_ns, cpu_ns = time.monotonic_ns(), time.process_time_ns() - cpu_ns
        said = {name: self.said(name, one) for name, one in taken.items()}
        return {"phase": number, "begin_ns": begin_ns, "end_ns": end_ns, "cpu_ns": cpu_ns,
                "roles": said}

    @staticmethod
    def all_of(waits):
        """What the roles answered; if some failed, the failure of one that others waited for."""
        answers, failures = {}, []
        for name, wait in waits.items():
            try:
                answers[name] = wait()
            except Exception as error:
                failures.append((isinstance(error, threading.BrokenBarrierError), name, error))
        for _, name, error in sorted(failures, key=lambda one: one[0])[:1]:
            raise failed(name, error) from error
        return answers

    @staticmethod
    def guarded(role, load, barrier, seconds):
        """A role's phase; one that fails before it begins lets no other wait for it."""
        try:
            return role.phase(load, barrier, seconds)
        except BaseException:
            barrier.abort()
            raise

    def said(self, name, taken):
        """The answer of a role, with the digest of what it computed."""
        role = self.by_name[name]
        digest = role.begin(role.outputs_digest, len(taken.end_ns))()
        return {**taken.answer(), **({"digest": digest} if digest else {})}

    def close(self):
        """Ends the threads, and what measures kernels."""
        if self.kernels:
            self.kernels.close()
        for role in self.by_name.values():
            role.close()
