"""The Triton server: where its binary is, its models' folder, its start and its end."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import http.client
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time

from .. import spec as spec_of
from ..faults import BadInput, Missing

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE.parent.parent
#: A command that the server is to be started under, such as `xsched run`.
PREFIX = "XSCHED_LAB_PREFIX"
WORKS = ("bert-base", "bert-large")
MISSING = ("there is no tritonserver on PATH, and the package nvidia-pytriton is not installed; "
           "pip install --no-deps nvidia-pytriton==0.7.0")
START_S, END_S = 280, 3
#: How often the rate limiter lets the urgent model run for each time of the other.
URGENT, OTHERS = 1, 10


@dataclasses.dataclass(frozen=True)
class Binary:
    """The server and its backend for Python."""

    path: pathlib.Path
    #: The folder with the backend, which lacks the program for this Python; or none.
    backend: pathlib.Path | None = None
    stub: pathlib.Path | None = None
    libraries: pathlib.Path | None = None


def find():
    """The server of the package nvidia-pytriton, or else the one on PATH."""
    package = importlib.util.find_spec("pytriton")
    if package and package.submodule_search_locations:
        home = pathlib.Path(package.submodule_search_locations[0])
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        stub = home / "tritonserver/python_backend_stubs" / version / "triton_python_backend_stub"
        if not stub.exists():
            raise Missing(f"nvidia-pytriton has no backend for Python {version} ({stub})")
        return Binary(home / "tritonserver/bin/tritonserver", home / "tritonserver/backends", stub,
                      home.parent / "nvidia_pytriton.libs")
    found = shutil.which("tritonserver")
    if not found:
        raise Missing(MISSING)
    return Binary(pathlib.Path(found))


def model_config(spec, role, profile, briefly=False):
    """The configuration of a role's model, in Protocol Buffers' text format."""
    tokens = role.options.get("tokens", 16 if spec.device == "cpu" else 384)
    options = {key: value for key, value in role.options.items() if key != "instances"}
    options["tokens"] = tokens
    lab = {"device": spec.device, "seed": spec.seed, "quick": spec.quick, "profile": str(profile),
           "briefly": briefly,
           "modules": [str(PROGRAMS), *(path for path in sys.path if os.path.isdir(path))],
           "role": {**dataclasses.asdict(role), "options": options}}
    urgent = role.priority > 0
    limiter, optimization = "", ""
    if spec.way == "triton-rate-limiter":
        limiter = ('rate_limiter { resources [ { name: "gpu" global: true count: 1 } ] '
                   f"priority: {URGENT if urgent else OTHERS} }}")
    if spec.stream_priority(role) is not None:
        names = {spec_of.HIGHEST: "MAX", spec_of.MIDDLE: "DEFAULT", spec_of.LOWEST: "MIN"}
        priority = f"PRIORITY_{names[spec.stream_priority(role)]}"
        optimization = f"optimization {{ priority: {priority} }}"
    # The model places itself, so that the server itself needs nothing of the GPU.
    return f"""
name: {json.dumps(role.name)}
backend: "python"
max_batch_size: 0
input [ {{ name: "tokens" data_type: TYPE_INT64 dims: [ {role.batch}, {tokens} ] }} ]
output [ {{ name: "hidden" data_type: TYPE_FP32 dims: [ {role.batch}, -1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: {role.options.get("instances", 1)} {limiter} }} ]
{optimization}
parameters {{ key: "lab" value {{ string_value: {json.dumps(json.dumps(lab))} }} }}
"""


def check(spec):
    """Refuses roles that are no models."""
    for role in spec.roles:
        place = f"the role {role.name}"
        if role.work not in WORKS:
            raise BadInput(f"{place}: {role.work!r} is none of {', '.join(WORKS)}, "
                           "which a server can have as models")
        for key, value in role.options.items():
            if key not in ("tokens", "instances"):
                raise BadInput(f"{place}: options.{key}: a model has tokens, instances")
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{place}: options.{key}: expected a number from 1, got {value!r}")


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def end_with_parent():
    """Has the kernel end the server if this process is killed."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


class Server:
    """A server that runs."""

    def __init__(self, spec, folder, briefly=False):
        self.spec, self.folder, self.briefly = spec, pathlib.Path(folder), briefly
        self.binary, self.port = find(), free_port()
        self.memory = f"xsched-lab-{os.getpid()}-"
        self.profiles = {role.name: self.folder / f"{role.name}.json" for role in spec.roles}
        self.write_models()
        self.log = (self.folder / "log").open("w+")
        self.program = subprocess.Popen(
            self.command(), env=self.environment(), stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=end_with_parent)
        self.wait_until_ready()

    def write_models(self):
        """Writes a folder for each model."""
        for role in self.spec.roles:
            version = self.folder / "models" / role.name / "1"
            version.mkdir(parents=True)
            shutil.copy(HERE / "model.py", version)
            config = model_config(self.spec, role, self.profiles[role.name], self.briefly)
            (version.parent / "config.pbtxt").write_text(config)

    def backends(self):
        """A folder with the backend and the program that runs this Python."""
        made = self.folder / "backends"
        shutil.copytree(self.binary.backend, made)
        stub = made / "python/triton_python_backend_stub"
        shutil.copy(self.binary.stub, stub)
        stub.chmod(0o755)
        return made

    def command(self):
        """The server's command line, after the prefix."""
        if not os.access(self.binary.path, os.X_OK):
            self.binary.path.chmod(0o755)
        options = {
            "model-repository": self.folder / "models",
            "http-address": "127.0.0.1", "http-port": self.port, "http-thread-count": 8,
            "allow-grpc": "false", "allow-metrics": "false", "exit-timeout-secs": 1,
        }
        if self.binary.backend:
            options["backend-directory"] = self.backends()
        if self.spec.way == "triton-rate-limiter":
            options["rate-limit"] = "execution_count"
        arguments = [f"--{name}={value}" for name, value in options.items()]
        for setting in (f"stub-timeout-seconds={START_S}", f"shm-region-prefix-name={self.memory}"):
            arguments.append(f"--backend-config=python,{setting}")
        prefix = shlex.split(os.environ.get(PREFIX, ""))
        return [*prefix, str(self.binary.path), *arguments, "--disable-auto-complete-config"]

    def environment(self):
        """The variables of the server: its libraries, and this Python."""
        def joined(*paths):
            return ":".join(str(path) for path in paths if path)

        variables = {
            # By the first Python there the backend finds its standard library.
            "PATH": joined(pathlib.Path(sys.executable).parent, os.environ.get("PATH")),
            "LD_LIBRARY_PATH": joined(
                self.binary.libraries, os.environ.get("LD_LIBRARY_PATH"),
                # The backend's program needs Python's own library.
                sysconfig.get_config_var("LIBDIR")),
        }
        return {**os.environ, **variables}

    def is_ready(self):
        """Whether all models are loaded."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            client.request("GET", "/v2/health/ready")
            return client.getresponse().status == 200
        except OSError:
            return False
        finally:
            client.close()

    def said(self):
        """What the server printed, or its begin and its end."""
        text = (self.folder / "log").read_text(errors="replace")
        return text if len(text) < 4000 else f"{text[:1000]}\n…\n{text[-3000:]}"

    def wait_until_ready(self):
        """Waits until all models are loaded."""
        until = time.monotonic() + START_S
        while not self.is_ready():
            code = self.program.poll()
            if code is not None or time.monotonic() > until:
                self.end()
                how = f"ended with {code}" if code is not None else f"was not ready in {START_S} s"
                raise RuntimeError(f"tritonserver {how}; it printed: {self.said()}")
            time.sleep(0.2)

    def members(self):
        """The server and its models: their processes, with the fields of each after its name."""
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            # They begin with the state, the parent, the group and the session.
            if int(fields[3]) == self.program.pid:
                yield int(path.parent.name), fields

    def cpu_ns(self):
        """Processor time of the server and of its models so far."""
        ticks = sum(int(fields[11]) + int(fields[12]) for _, fields in self.members())
        return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")

    def end(self):
        """Ends the server and its models."""
        self.program.terminate()
        try:
            self.program.wait(END_S)
        except subprocess.TimeoutExpired:
            self.program.kill()
            self.program.wait()
        # Models notice late that their server has ended.
        for process, _ in list(self.members()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.log.close()
        # A server that had to be killed leaves the memory that it shares with its models.
        for path in pathlib.Path("/dev/shm").glob(f"{self.memory}*"):
            path.unlink(missing_ok=True)
