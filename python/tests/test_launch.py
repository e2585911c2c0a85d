"""`python -m xsched run`, and priorities of streams in programs that it starts, on the emulated CUDA
driver."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, Optional, Sequence

import pytest

import xsched
from xsched import _library, _native, _streams

#: Where the emulated driver is; the interposer has the same variable.
DRIVER = "XSCHED_CUDA_DRIVER"
needs_cuda = pytest.mark.skipif(
    DRIVER not in os.environ,
    reason=f"{DRIVER} does not name CUDA's driver; `cargo xtask python` does",
)
#: The same of HIP: what the tests are told, and the interposer's variable.
HIP_LIB, RUNTIME = "XSCHED_HIP_LIB", "XSCHED_HIP_RUNTIME"
needs_hip = pytest.mark.skipif(
    HIP_LIB not in os.environ,
    reason=f"{HIP_LIB} does not name HIP's runtime; `cargo xtask python` does",
)
#: What this machine's environment says must not matter.
OURS = ("LD_PRELOAD", "XSCHED_POLICY", "XSCHED_SCHEDULER", "XSCHED_SHIM_COUNTS", DRIVER, RUNTIME)

#: A program of CUDA's that knows nothing of XSched. `Stream` is like PyTorch's.
CUDA = """
import ctypes, os, threading
from ctypes import byref, c_size_t, c_uint64, c_void_p
cuda = ctypes.CDLL(os.environ.get("XSCHED_CUDA_LIB", "libcuda.so.1"))

def ok(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, f"{name} answered {code}"

def enter(device=0):
    context = c_void_p()
    ok("cuDevicePrimaryCtxRetain", byref(context), device)
    ok("cuCtxSetCurrent", context)

class Stream:
    def __init__(self, priority=0):
        handle = c_void_p()
        ok("cuStreamCreateWithPriority", byref(handle), 1, priority)
        self.cuda_stream = handle.value

words = c_uint64()
def launch(times, stream=0):
    for _ in range(times):
        ok("cuMemsetD32Async", words, 7, c_size_t(1), c_void_p(getattr(stream, "cuda_stream", 0)))

ok("cuInit", 0)
enter()
ok("cuMemAlloc_v2", byref(words), c_size_t(4))
"""
#: One that uses the package as well.
XSCHED = CUDA + "import xsched\n"


#: One of HIP's that does, too.
HIP = """
import ctypes, xsched
from ctypes import byref, c_size_t, c_void_p
hip = ctypes.CDLL("libamdhip64.so.7")

class Stream:
    def __init__(self):
        handle = c_void_p()
        assert hip.hipStreamCreateWithFlags(byref(handle), 1) == 0
        self.hip_stream = handle.value

words = c_void_p()
assert hip.hipMalloc(byref(words), c_size_t(4)) == 0
def launch(times, address=0):
    for _ in range(times):
        assert hip.hipMemsetAsync(words, 7, c_size_t(4), c_void_p(address)) == 0
"""


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A new interpreter, which has found nothing that it complains of itself."""
    environment = {name: value for name, value in os.environ.items() if name not in OURS}
    answer = subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env={**environment, **variables},
    )
    assert "Traceback" not in answer.stderr, answer.stderr
    return answer


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "xsched", "run", *arguments, **variables)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_program_for_musl_runs_unscheduled_and_that_is_said(tmp_path: Path) -> None:
    # A loader of glibc's by the name of musl's: the program runs on this machine.
    own = Path(sys.executable).resolve().read_bytes()
    begin = own.index(b"/lib6")
    loader = tmp_path / "ld-musl-x86_64.so.1"
    loader.symlink_to(own[begin : own.index(b"\0", begin)].decode())
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        'int main(void) { puts(getenv("LD_PRELOAD") ? "preloaded" : "as it is"); return 3; }'
    )
    linked = f"-Wl,--dynamic-linker={loader}"
    subprocess.run(["cc", linked, "-o", str(program), str(source)], check=True)
    answer = run("--", str(program))
    assert (answer.returncode, answer.stdout) == (3, "as it is\n")
    assert "has musl's loader" in answer.stderr and "runs unscheduled" in answer.stderr


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """The emulated driver under the name of CUDA's."""
    return Path(shutil.copy(os.environ[DRIVER], tmp_path / "libcuda.so.1"))


def scheduled(
    driver: Path, program: str, options: Sequence[str] = (), **variables: str
) -> Dict[str, Any]:
    """Runs a program, which is to end well, and answers what the interposer has counted."""
    counts = driver.parent / "counts.json"
    variables.update({DRIVER: str(driver), "XSCHED_SHIM_COUNTS": str(counts)})
    answer = run(*options, "--", sys.executable, "-c", program, **variables)
    assert (answer.returncode, answer.stderr) == (0, ""), answer
    counted: Dict[str, Any] = json.loads(counts.read_text())
    return counted


def fills(counted: Dict[str, Any]) -> Dict[str, Optional[int]]:
    """How many fills there were, how many went through XQueues, and how many of these at once."""
    kinds = ("launches", "scheduled", "alone")
    return {kind: counted[kind].get("cuMemsetD32Async") for kind in kinds}


def test_the_wheel_has_what_is_preloaded() -> None:
    folder = Path(_library.BUNDLED)
    if not folder.is_dir():
        folder = _library.BESIDE / "xsched"
    for file in _native.INTERPOSERS:
        assert (folder / file).is_file(), file


def test_a_program_gets_what_it_needs_and_runs_as_it_is() -> None:
    script = 'echo "$1" $XSCHED_AUTO_XQUEUE $XSCHED_POLICY $XSCHED_AUTO_XQUEUE_PRIORITY $LD_PRELOAD; exit 7'
    answer = run("--class", "batch", "--", "sh", "-c", script, "sh", "--quiet")
    assert (answer.returncode, answer.stderr) == (7, "")
    assert answer.stdout.startswith("--quiet ON hpf -100 /")
    assert answer.stdout.endswith(f"/{_native.INTERPOSERS[-1]}\n")
    assert run("sh", "-c", "kill -s KILL $$").returncode == -signal.SIGKILL


def test_signals_that_the_interpreter_ignores_are_not_ignored() -> None:
    ignored = run("sed", "-n", "s/^SigIgn:\t//p", "/proc/self/status")
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not int(ignored.stdout, 16) & 1 << (number - 1), ignored


def test_what_is_done_is_said_if_asked_for() -> None:
    answer = run("--verbose", "--streams", "true")
    assert answer.returncode == 0
    assert "xsched: XSCHED_AUTO_XQUEUE_UNIT is streams\n" in answer.stderr


def test_mistakes_are_errors_that_say_so() -> None:
    answer = run("--", "/nowhere/program")
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: cannot run /nowhere/program: ")
    for wrong in ([], ["--priority", "256", "true"], ["--clas", "batch", "true"]):
        answer = run(*wrong)
        assert answer.returncode == 2 and answer.stderr.startswith("error: "), answer
    nowhere = run("true", XSCHED_LIB_DIR="/nowhere")
    assert nowhere.returncode == 2 and "/nowhere" in nowhere.stderr


def test_there_is_help() -> None:
    answer = python("-m", "xsched", "--help")
    assert answer.returncode == 0 and "Usage: python -m xsched " in answer.stdout
    assert "--share <P>" in python("-m", "xsched", "run", "--help").stdout
    assert python("-m", "xsched", "--version").stdout == f"python -m xsched {xsched.__version__}\n"
    assert python("-m", "xsched").returncode == 2


@needs_cuda
def test_a_program_is_scheduled(driver: Path) -> None:
    program = CUDA + "launch(3); launch(2, Stream())"
    assert fills(scheduled(driver, program)) == {"launches": 5, "scheduled": 5, "alone": 5}
    one_by_one = scheduled(driver, program, ["--streams"])
    assert fills(one_by_one) == {"launches": 5, "scheduled": 5, "alone": None}


@needs_cuda
def test_launches_in_and_behind_a_block_are_scheduled(driver: Path) -> None:
    program = """
from xsched._capi import priority_of
stream = Stream(priority=-1)
with xsched.priority(stream, 10) as queue:
    launch(3, stream)
    with xsched.priority(stream, 20) as same:
        assert same is queue and priority_of(queue.handle)[1] == 20
    assert queue.submitted == 3 and priority_of(queue.handle)[1] == 10
launch(4, stream)
# It has the stream's own priority again, and the next block finds it.
with xsched.priority(stream, 30, before=5) as queue:
    assert queue.submitted == 7
with xsched.priority(stream, 30) as queue:
    pass
assert priority_of(queue.handle)[1] == 5
ok("cuStreamDestroy_v2", c_void_p(stream.cuda_stream))
"""
    counted = scheduled(driver, XSCHED + program)
    assert fills(counted) == {"launches": 7, "scheduled": 7, "alone": None}


@needs_cuda
def test_default_streams_have_priorities(driver: Path) -> None:
    program = """
launch(1)
launched = threading.Event()
def other():
    enter()
    launch(1)
    launched.set()
with xsched.priority(STREAM, xsched.PRIORITY_NO_EXECUTE) as queue:
    thread = threading.Thread(target=other)
    thread.start()
    assert not launched.wait(0.2)
thread.join()
with xsched.priority(Default(), 1) as same:
    assert same.handle == queue.handle
"""
    default = "class Default:\n    cuda_stream = 0\n"
    for stream in ("None", "0", "1", "Default()"):
        counted = scheduled(driver, XSCHED + default + program.replace("STREAM", stream))
        assert fills(counted) == {"launches": 2, "scheduled": 2, "alone": 1}


@needs_hip
def test_streams_of_hip_have_priorities(tmp_path: Path) -> None:
    program = """
stream = Stream()
with xsched.priority(stream, 10) as queue:
    launch(3, stream.hip_stream)
    assert queue.submitted == 3
launch(1, stream.hip_stream)
with xsched.priority(stream, 20) as same:
    assert same.handle == queue.handle
with xsched.priority(0, 10, backend="hip") as default:
    launch(2)
    assert default.submitted == 2 and default.handle != queue.handle
"""
    counts = tmp_path / "counts.json"
    variables = {RUNTIME: os.environ[HIP_LIB], "XSCHED_SHIM_COUNTS": str(counts)}
    answer = run("--", sys.executable, "-c", HIP + program, **variables)
    assert (answer.returncode, answer.stderr) == (0, ""), answer
    assert json.loads(counts.read_text())["scheduled"] == {"hipMemsetAsync": 6}


@needs_hip
@needs_cuda
def test_a_program_may_use_both_vendors(driver: Path) -> None:
    variables = {
        DRIVER: str(driver),
        RUNTIME: os.environ[HIP_LIB],
        "XSCHED_SHIM_COUNTS": str(driver.parent / "counts-%v.json"),
    }
    program = f"{CUDA}launch(2)\n{HIP}launch(3)\n"
    answer = run("--", sys.executable, "-c", program, **variables)
    assert (answer.returncode, answer.stderr) == (0, ""), answer
    counted = {
        vendor: json.loads((driver.parent / f"counts-{vendor}.json").read_text())["scheduled"]
        for vendor in ("cuda", "hip")
    }
    assert counted == {"cuda": {"cuMemsetD32Async": 2}, "hip": {"hipMemsetAsync": 3}}


@needs_cuda
def test_a_stream_of_another_device_is_found(driver: Path) -> None:
    program = """
enter(1)
stream = Stream()
enter(0)
with xsched.priority(stream, 10) as queue:
    enter(1)
    launch(2, stream)
    assert queue.submitted == 2
def other():
    with xsched.priority(stream, 10) as queue:
        assert queue.submitted == 2
    context = c_void_p(1)
    ok("cuCtxGetCurrent", byref(context))
    assert not context.value
    seen.append(1)
seen = []
thread = threading.Thread(target=other)
thread.start()
thread.join()
assert seen
"""
    counted = scheduled(driver, XSCHED + program, XSCHED_EMULATED_DEVICES="2")
    assert fills(counted) == {"launches": 2, "scheduled": 2, "alone": None}


@needs_cuda
def test_a_capture_bears_a_priority(driver: Path) -> None:
    program = """
stream = Stream()
launch(1, stream)
ok("cuStreamBeginCapture_v2", c_void_p(stream.cuda_stream), 0)
with xsched.priority(stream, 10) as queue:
    launch(2, stream)
graph = c_void_p()
ok("cuStreamEndCapture", c_void_p(stream.cuda_stream), byref(graph))
launch(1, stream)
assert queue.submitted == 1
"""
    counted = scheduled(driver, XSCHED + program)
    assert fills(counted) == {"launches": 4, "scheduled": 2, "alone": 1}


@needs_cuda
def test_a_queue_of_the_program_is_used_while_it_is_open(driver: Path) -> None:
    program = """
stream = Stream(priority=-1)
with xsched.Queue.of_stream(stream, priority=7) as queue:
    launch(3, stream)
    assert queue.submitted == 3
    # Not the stream's.
    assert xsched._capi.priority_of(queue.handle)[1] == 7
launch(3, stream)
with xsched.priority(stream, 1) as other:
    assert other.submitted == 3
"""
    counted = scheduled(driver, XSCHED + program)
    assert fills(counted) == {"launches": 6, "scheduled": 6, "alone": None}


@needs_cuda
def test_a_queue_of_the_stream_stays(driver: Path) -> None:
    program = """
stream = Stream()
launch(1, stream)
xsched.Queue.of_stream(stream).close()
launch(3, stream)
with xsched.Queue.of_stream(stream) as queue:
    assert queue.submitted == 3
"""
    counted = scheduled(driver, XSCHED + program)
    assert fills(counted) == {"launches": 4, "scheduled": 4, "alone": 1}


@needs_cuda
def test_without_the_interposer_launches_go_past(driver: Path) -> None:
    program = """
stream = Stream()
with xsched.priority(stream, 10) as queue:
    launch(3, stream)
    assert queue.submitted == 0
assert not queue.handle
for default in (None, 0):
    try:
        with xsched.priority(default, 10):
            raise AssertionError("it has an XQueue")
    except ValueError as error:
        print(error)
"""
    answer = python("-c", XSCHED + program, XSCHED_CUDA_LIB=str(driver))
    assert answer.returncode == 0, answer
    assert answer.stdout.count("start the program with `xsched run`") == 2
    assert answer.stderr.count("unless an interposer is preloaded") == 1


@needs_cuda
def test_a_block_ends_while_others_open_blocks(driver: Path) -> None:
    program = """
closing, opened, seen = threading.Event(), threading.Event(), []
first, second = Stream(), Stream()

def runs_at_the_end(hwq):
    closing.set()
    seen.append(opened.wait(10))

def opens():
    closing.wait()
    enter()
    with xsched.priority(second, 1):
        opened.set()
    # Of the stream whose queue is closing: it gets a new one.
    with xsched.priority(first, 2) as other:
        seen.append(other is not queue)

thread = threading.Thread(target=opens)
thread.start()
with xsched.priority(first, 10) as queue:
    queue.suspend()
    queue.submit(runs_at_the_end)
thread.join()
assert seen == [True, True], seen
"""
    answer = python("-c", XSCHED + program, XSCHED_CUDA_LIB=str(driver))
    assert answer.returncode == 0, answer


@needs_cuda
def test_a_function_opens_no_block_of_a_stream_whose_queue_closes(driver: Path) -> None:
    program = """
stream, seen = Stream(), []

class Opens:
    def __call__(self, hwq):
        self.open()

    def __del__(self):
        self.open()

    def open(self):
        try:
            with xsched.priority(stream, 1):
                seen.append("opened")
        except xsched.XSchedError as error:
            seen.append(type(error).__name__)

with xsched.priority(stream, 10) as queue:
    queue.suspend()
    queue.submit(Opens())
assert seen == ["NotAllowedError"] * 2, seen
with xsched.priority(stream, 10):
    pass
"""
    answer = python("-c", XSCHED + program, XSCHED_CUDA_LIB=str(driver))
    assert answer.returncode == 0, answer


def test_pytorch_says_which_stream_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = []

    class Device:
        def __init__(self, device: object) -> None:
            self.device = device

        def __enter__(self) -> None:
            entered.append(self.device)

        def __exit__(self, *_: object) -> None:
            entered.append("left")

    stream = SimpleNamespace(cuda_stream=0, device="cuda:1")
    cuda = SimpleNamespace(current_stream=lambda: stream, device=Device)
    assert _streams.current() == 0
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert _streams.current() is stream
    with _streams.in_context_of(stream, 0, "cuda"):
        entered.append("inside")
    assert entered == ["cuda:1", "inside", "left"]
