"""Streams: HIP's of the emulated runtime, and whatever says that it is one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Iterator

import pytest

import xsched
from xsched import Queue, XResult, XSched, _streams
from xsched.cuda import XSchedCuda
from xsched.hip import XSchedHip

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python" / "examples"))

import work  # noqa: E402

needs_hip = pytest.mark.skipif(
    "XSCHED_HIP_LIB" not in os.environ,
    reason="XSCHED_HIP_LIB does not name a HIP library; `cargo xtask python` does",
)


@pytest.fixture(scope="session")
def hip() -> work.Hip:
    return work.Hip()


@pytest.fixture
def stream(hip: work.Hip) -> Iterator[work.Stream]:
    made = work.Stream(hip)
    yield made
    made.close()


@needs_hip
def test_the_c_interface_takes_a_stream(stream: work.Stream) -> None:
    result, hwq = XSchedHip.HipQueueCreate(stream.cuda_stream)
    assert result == XResult.kXSchedSuccess, xsched.last_error()
    assert XSchedHip.HipQueueCreate(0)[0] == XResult.kXSchedErrorNotSupported
    # The stream may share a ring with others, so that nothing but launches can be held.
    result, xq = XSched.XQueueCreate(hwq, 2, 0)
    assert result == XResult.kXSchedSuccess, xsched.last_error()
    assert XSched.XQueueSetPreemptLevel(xq, 2) == XResult.kXSchedErrorNotSupported
    for _ in range(10):
        result, command = XSched.HwCommandCreateCallback(lambda _: stream.spin(50))
        assert XSched.XQueueSubmit(xq, command) == XResult.kXSchedSuccess
    assert XSched.XQueueWaitAll(xq) == XResult.kXSchedSuccess
    assert XSched.XQueueDestroy(xq) == XResult.kXSchedSuccess
    assert XSched.HwQueueDestroy(hwq) == XResult.kXSchedSuccess


@needs_hip
def test_a_queue_on_a_stream_runs_what_is_launched(stream: work.Stream) -> None:
    with pytest.raises(xsched.NotSupportedError, match="level 1 at most"):
        Queue.of_stream(stream, "hip", level=3)
    with Queue.of_stream(stream, "hip", level=1, priority=1) as queue:
        commands = [queue.submit(lambda _: stream.spin(50)) for _ in range(20)]
        commands[5].wait()
        with queue.held():
            queue.submit(lambda _: stream.spin(50))
        queue.wait()
        assert queue.submitted == 21 and queue.is_idle


@needs_hip
def test_a_failed_launch_is_raised(stream: work.Stream) -> None:
    with Queue.of_stream(stream.cuda_stream, "hip") as queue:
        command = queue.submit(lambda _: stream._hip.call("hipModuleUnload", None))
        with pytest.raises(xsched.XSchedError) as caught:
            command.wait()
        assert "hipModuleUnload failed" in str(caught.value.__cause__)
        with pytest.raises(xsched.XSchedError):
            queue.wait()


@needs_hip
def test_a_stream_has_a_priority_for_a_block(stream: work.Stream) -> None:
    with xsched.priority(stream, 10, backend="hip") as queue:
        queue.submit(lambda _: stream.spin(50)).wait()
        with xsched.priority(stream.cuda_stream, 20, backend="hip") as same:
            assert same is queue
        with pytest.raises(ValueError):
            with xsched.priority(stream, 1_000, backend="hip"):
                raise AssertionError("there is no such priority")
        assert queue.handle
    assert queue.handle == 0
    stream.spin(50)
    stream.synchronize()


@needs_hip
def test_a_stream_with_a_queue_keeps_it(stream: work.Stream) -> None:
    with Queue.of_stream(stream, "hip", level=1) as queue:
        with xsched.priority(stream, 10, backend="hip", before=3) as found:
            assert found.handle == queue.handle
        queue.submit(lambda _: stream.spin(10)).wait()


@needs_hip
def test_blocks_of_several_threads_may_overlap(stream: work.Stream) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with xsched.priority(stream, 5, backend="hip"):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with xsched.priority(stream, 10, backend="hip") as queue:
        thread.start()
        inside.wait()
    # The other's block is still open.
    queue.submit(lambda _: stream.spin(10)).wait()
    leave.set()
    thread.join()
    assert queue.handle == 0


@needs_hip
def test_the_loaded_driver_says_whose_streams(hip: work.Hip, stream: work.Stream) -> None:
    # The emulated runtime has another file name, so it is not taken for AMD's.
    with pytest.raises(ValueError, match="say whose stream it is"):
        _streams.backend_of(stream)


def test_streams_have_their_address_in_many_places() -> None:
    assert _streams.address_of(0x40) == 0x40
    assert _streams.address_of(SimpleNamespace(cuda_stream=0x41)) == 0x41
    assert _streams.address_of(SimpleNamespace(hip_stream=0x42, cuda_stream=0x41)) == 0x42
    assert _streams.address_of(SimpleNamespace(ptr=0x43)) == 0x43
    assert _streams.address_of(SimpleNamespace(__cuda_stream__=lambda: (0, 0x44))) == 0x44
    with pytest.raises(ValueError, match="the default stream cannot be scheduled"):
        _streams.address_of(SimpleNamespace(cuda_stream=0))
    for wrong in ("0x40", None, True, 1.5):
        with pytest.raises(TypeError, match="a stream or its address"):
            _streams.address_of(wrong)


def test_pytorch_says_whose_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(cuda_stream=0x40)
    torch = SimpleNamespace(version=SimpleNamespace(hip="6.4", cuda=None))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert _streams.backend_of(stream) == "hip"
    torch.version = SimpleNamespace(hip=None, cuda="12.9")
    assert _streams.backend_of(stream) == "cuda"
    assert _streams.backend_of(SimpleNamespace(hip_stream=1)) == "hip"
    with pytest.raises(ValueError, match='"hip" or "cuda", not \'tpu\''):
        _streams.create(0x40, "tpu")  # type: ignore[arg-type]


def test_cuda_without_a_driver_is_an_error_that_says_so() -> None:
    program = """
import xsched
from xsched.cuda import XSchedCuda
answers = [XSchedCuda.CudaQueueCreate(0x40)[0], XSchedCuda.CudaQueueGet(0x40)[0]]
print([answer.name for answer in answers])
try:
    xsched.Queue.of_stream(0x40, "cuda")
except xsched.XSchedError as error:
    print(error)
"""
    environment = {**os.environ, "XSCHED_CUDA_LIB": "/nowhere/libcuda.so"}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=True,
    )
    names, message = answer.stdout.strip().splitlines()
    assert "kXSchedSuccess" not in names
    assert message.startswith("CudaQueueCreate: ") and "/nowhere/libcuda.so" in message


def test_the_null_stream_of_cuda_is_not_supported() -> None:
    assert XSchedCuda.CudaQueueGet(0)[0] != XResult.kXSchedSuccess
