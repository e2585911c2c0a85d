"""Who keeps the function of a command, and what its end may do."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

import xsched
from xsched import Command, HwQueue, Queue, XResult, XSched
from xsched._callbacks import callbacks

#: What the programs below have. An object of `Refers` has a command that is not submitted.
COMMON = """
import gc, signal, weakref
import xsched
from xsched import Command, Queue, XSched, _capi
from xsched._callbacks import callbacks

class Refers:
    def __init__(self):
        self.command = Command.callback(lambda hwq: None)
    def __call__(self, hwq):
        pass

class Failed(Exception):
    def __init__(self, refers):
        self.refers = refers
        alive.add(self)

alive = weakref.WeakSet()

def fails(hwq):
    raise Failed(Refers())
"""

#: Programs that end with nothing left, each by another way in which a function is let go of.
PROGRAMS = {
    "it has run": """
with Queue.on_host() as queue:
    for _ in range(20):
        queue.submit(Refers()).wait()
""",
    "it was dropped": """
with Queue.on_host() as queue:
    queue.suspend(wait_all=True)
    for _ in range(20):
        queue.submit(Refers())
    queue.resume(drop_commands=True)
    queue.wait()
""",
    "its queue is closed": """
with Queue.on_host() as queue:
    queue.suspend(wait_all=True)
    for _ in range(20):
        queue.submit(Refers())
    # Past the package, which hears of the drop with the queue's end.
    _capi.load("preempt").XQueueResume(_capi.c_uint64(queue.handle), 1)
""",
    "its command is destroyed": """
for _ in range(20):
    outer = Command.callback(Refers())
    del outer
    assert XSched.HwCommandDestroy(XSched.HwCommandCreateCallback(Refers())[1]) == 0
""",
    "its exception was returned": """
with Queue.on_host() as queue:
    for _ in range(20):
        command = queue.submit(fails)
        try:
            command.wait()
        except xsched.XSchedError:
            pass
        try:
            queue.wait()
        except xsched.XSchedError:
            pass
""",
    "its exception is one of too many": """
gc.disable()
with Queue.on_host() as queue:
    for _ in range(600):
        queue.submit(fails)
    try:
        queue.wait()
    except xsched.XSchedError:
        pass
    # The latest are kept, and those before are not left to the garbage collector.
    assert len(alive) == 255, len(alive)
    kept = 0
    while callbacks.failure_in(queue.handle):
        kept += 1
    assert kept == 255, kept
""",
    "it is found as garbage": """
gc.set_threshold(1)
with Queue.on_host() as queue:
    for number in range(300):
        cycle = [Refers()]
        cycle.append(cycle)
        del cycle
        queue.submit(lambda hwq: None)
        XSched.HwCommandDestroy(XSched.HwCommandCreateCallback(Refers())[1])
gc.set_threshold(700)
""",
    "a signal interrupts a call": """
period_s = 0.0001

def on_alarm(number, frame):
    XSched.HwCommandDestroy(XSched.HwCommandCreateCallback(Refers())[1])
    # Once more, and not by a period: one that is shorter than this function nests its calls.
    signal.setitimer(signal.ITIMER_REAL, period_s)

signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, period_s)
with Queue.on_host() as queue:
    for _ in range(3000):
        queue.submit(lambda hwq: None)
period_s = 0
signal.setitimer(signal.ITIMER_REAL, 0)
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_function_may_have_other_commands_with_it(program: str) -> None:
    text = f"{COMMON}{program}\ngc.collect()\nassert len(callbacks) == 0, len(callbacks)\n"
    # A process of its own: it has hung where the end of a function came upon a lock.
    command = [sys.executable, "-c", text]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr


#: A program that draws which functions have other commands with them, and how each is let go of.
DRAWN = """
import random
rng = random.Random(SEED)

class Nest:
    def __init__(self, depth):
        makers = [Command.callback, Command.function]
        count = rng.randrange(3) if depth else 0
        self.commands = [rng.choice(makers)(Nest(depth - 1)) for _ in range(count)]
        if rng.random() < 0.2:
            self.commands.append(rng.choice(makers)(self.run))

    def run(self, _):
        if rng.random() < 0.2:
            raise Failed(Nest(1))

    __call__ = run

def wait(waits):
    try:
        waits()
    except xsched.XSchedError:
        pass

gc.set_threshold(rng.choice([1, 50, 700]))
for _ in range(4):
    with Queue.on_host() as queue:
        kept = []
        for _ in range(60):
            what = rng.randrange(7)
            if what == 0:
                queue.suspend(wait_all=rng.random() < 0.5)
            elif what == 1:
                queue.resume(drop_commands=rng.random() < 0.5)
            elif what == 2:
                kept.append(Command.callback(Nest(3)))
            elif what == 3 and kept:
                queue.submit(kept.pop())
            elif what == 4:
                kept.clear()
            elif what == 5:
                queue.resume()
                wait(queue.wait)
            else:
                queue.submit(Nest(rng.randrange(4)))
        queue.resume(drop_commands=rng.random() < 0.5)
        wait(queue.wait)
        del kept
        # Those that nobody has asked for are kept up to a number, and what they refer to.
        while callbacks.failure_in(queue.handle):
            pass
"""


@pytest.mark.parametrize("seed", range(6))
def test_functions_drawn_at_random_are_let_go_of(seed: int) -> None:
    end = "gc.collect()\nassert len(callbacks) == 0, len(callbacks)\n"
    command = [sys.executable, "-c", f"{COMMON}\nSEED = {seed}\n{DRAWN}\n{end}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr


class Worker:
    """An object that is the owner of a command of one of its methods."""

    def __init__(self, of_device: bool) -> None:
        self.ran = 0
        make = Command.function if of_device else Command.callback
        self.command = make(self.work)

    def work(self, _: int) -> None:
        self.ran += 1


@pytest.mark.parametrize("of_device", [False, True])
def test_an_object_with_a_command_of_its_own_method_is_freed(of_device: bool) -> None:
    alive: weakref.WeakSet[Worker] = weakref.WeakSet()
    handles = []
    for _ in range(50):
        worker = Worker(of_device)
        alive.add(worker)
        handles.append(worker.command.handle)
        del worker
    gc.collect()
    assert len(alive) == 0 and len(callbacks) == 0
    assert {XSched.HwCommandDestroy(handle) for handle in handles} == {XResult.kXSchedErrorNotFound}


@pytest.mark.parametrize("of_device", [False, True])
def test_a_submitted_command_keeps_its_function(of_device: bool) -> None:
    class Work:
        def __call__(self, _: int) -> None:
            ran.append(1)

    ran: list[int] = []
    make = Command.function if of_device else Command.callback
    with Queue.on_host() as queue:
        queue.suspend()
        for _ in range(20):
            queue.submit(make(Work()))
            # By its handle, with the object until it is submitted.
            command = make(Work())
            assert XSched.XQueueSubmit(queue.handle, command.handle) == XResult.kXSchedSuccess
            del command
        gc.collect()
        queue.resume()
        queue.wait()
        assert len(ran) == 40 and len(callbacks) == 0
    with HwQueue.on_host() as hardware:
        for _ in range(20):
            hardware.launch(make(Work()))
        gc.collect()
        hardware.synchronize()
    assert len(ran) == 60 and len(callbacks) == 0


def test_a_command_that_was_refused_is_its_objects_still() -> None:
    with Queue.on_host() as queue, Queue.on_host() as other:
        worker = Worker(False)
        handle = worker.command.handle
        assert XSched.XQueueSubmit(0, handle) == XResult.kXSchedErrorNotFound
        assert XSched.HwQueueLaunch(0, handle) == XResult.kXSchedErrorNotFound
        alive = weakref.ref(worker)
        del worker
        gc.collect()
        assert alive() is None and len(callbacks) == 0
        worker = Worker(False)
        queue.suspend()
        queue.submit(worker.command)
        for again in (queue, other):
            with pytest.raises(xsched.NotFoundError):
                again.submit(worker.command)
        queue.resume(drop_commands=True)
        queue.wait()
        assert worker.ran == 0 and len(callbacks) == 0


@pytest.mark.parametrize("answer", [True, False, "text", 1.0, object()])
def test_a_result_that_is_none_is_said(answer: object) -> None:
    def function(_: int) -> xsched.XResult:
        return answer  # type: ignore[return-value]

    with Queue.on_host() as queue:
        command = queue.submit(function)
        with pytest.raises(xsched.UnknownError, match="must return None or an XResult") as caught:
            command.wait()
        assert isinstance(caught.value.__cause__, TypeError)
        with pytest.raises(xsched.UnknownError):
            queue.wait()
        # Results of a driver's functions are numbers.
        queue.submit(lambda _: 0).wait()  # type: ignore[arg-type, return-value]


def test_what_cannot_be_called_is_refused_at_once() -> None:
    for make in (Command.callback, Command.function, XSched.HwCommandCreateCallback):
        for function in (5, None, "text"):
            with pytest.raises(TypeError, match="must be callable, is"):
                make(function)  # type: ignore[arg-type]
    with Queue.on_host() as queue:
        with pytest.raises(TypeError, match="must be callable, is 5"):
            queue.submit(5)  # type: ignore[arg-type]
        assert queue.submitted == 0
    assert len(callbacks) == 0
