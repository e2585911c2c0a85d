"""Commands, queues and arguments that `hypothesis` draws, and what holds for all of them.

`XSCHED_TEST_SEQUENCES` says how many programs are drawn. A failure prints what repeats it, and a
smaller program, which `drawn.py` takes from its standard input.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Type

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

import xsched
from xsched import Command, Queue, Runtime, XResult, XSched
from xsched._callbacks import callbacks
from xsched._capi import priority_of

PROGRAM = Path(__file__).with_name("drawn.py")
#: Where failures are kept for the next run, which is not in the repository.
FOLDER = Path(tempfile.gettempdir()) / f"xsched-hypothesis-{os.getuid()}"
#: Programs, and arguments of each kind, unless the variable says otherwise.
SEQUENCES = int(os.environ.get("XSCHED_TEST_SEQUENCES", "100"))
#: How long smaller programs are looked for that fail.
SEARCH_S = 30

set_hypothesis_home_dir(FOLDER)


def drawing(*, shrinks: bool = True) -> settings:
    """How examples are drawn: others in each run."""
    return settings(
        phases=[phase for phase in Phase if shrinks or phase not in (Phase.shrink, Phase.explain)],
        max_examples=SEQUENCES,
        database=DirectoryBasedExampleDatabase(FOLDER / "examples"),
        derandomize=False,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


# Arguments.


class Index:
    """An integer of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"Index({self.value})"


#: Near to where C's integers end, on both sides, and to where they would begin anew.
EDGES = [
    sign * (1 << bits) + more
    for bits in (8, 16, 31, 32, 63, 64, 65)
    for sign in (-1, 1)
    for more in (-2, -1, 0, 1, 5, 100)
]
INTEGERS = st.one_of(
    st.integers(-3, 300), st.integers(), st.sampled_from(EDGES), st.integers(0, 1 << 36)
)
NO_INTEGERS: st.SearchStrategy[Any] = st.one_of(
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.none(),
    st.lists(st.integers(), max_size=2),
    st.builds(Decimal, st.integers()),
    st.builds(Fraction, st.integers()),
    st.builds(object),
    st.just(int),
)


class Taker(NamedTuple):
    """What takes an integer: a call, which integers it is to take, and what then is said of it."""

    call: Callable[[Queue, Any], object]
    takes: Callable[[int], bool]
    reads: Optional[Callable[[Queue], int]] = None


def within(least: int, most: int, *others: int) -> Callable[[int], bool]:
    return lambda value: least <= value <= most or value in others


def closing(queue: Queue) -> None:
    queue.close()


DAY_US = 86_400_000_000
IS_PRIORITY = within(-256, 255)
IS_LEVEL = within(1, 3)
#: Those that are not above 0 leave what is.
IS_LIMIT = within(-(1 << 63), 65_536)

TAKERS: Dict[str, Taker] = {
    "timed": Taker(lambda queue, value: Command.timed(value), within(0, 60_000_000)),
    "priority": Taker(
        lambda queue, value: queue.set_priority(value),
        IS_PRIORITY,
        lambda queue: priority_of(queue.handle)[1],
    ),
    "utilization": Taker(lambda queue, value: queue.set_utilization(value), within(0, 100)),
    "deadline": Taker(lambda queue, value: queue.set_deadline(value), within(1, DAY_US, -1)),
    "laxity": Taker(lambda queue, value: queue.set_laxity(value, 0, 1), within(1, DAY_US, -1)),
    "priority of laxity": Taker(lambda queue, value: queue.set_laxity(5, value, 1), IS_PRIORITY),
    "critical priority": Taker(lambda queue, value: queue.set_laxity(5, 0, value), IS_PRIORITY),
    "level": Taker(lambda queue, value: queue.set_level(value), IS_LEVEL),
    "threshold": Taker(lambda queue, value: queue.set_launch_config(threshold=value), IS_LIMIT),
    "batch": Taker(lambda queue, value: queue.set_launch_config(65_536, value), IS_LIMIT),
    "timeslice": Taker(lambda queue, value: Runtime(timeslice_us=value), within(100, 10_000_000)),
    "k": Taker(lambda queue, value: Runtime(k=value), within(1, 65_536)),
    "level of a new one": Taker(
        lambda queue, value: closing(Queue.on_host(level=value)), IS_LEVEL
    ),
    "priority of a new one": Taker(
        lambda queue, value: closing(Queue.on_host(priority=value)), IS_PRIORITY
    ),
}
#: Those for which None is a value: it leaves what is.
OPTIONAL = ("threshold", "batch", "timeslice", "k", "priority of a new one")


@pytest.fixture(scope="module")
def queue() -> Iterator[Queue]:
    """A queue whose settings are changed, and that nothing is submitted to."""
    with Queue.on_host() as queue:
        yield queue
    Runtime(timeslice_us=5_000, k=1).set_app_managed()


@pytest.mark.parametrize("name", TAKERS)
@drawing()
@given(value=INTEGERS, as_index=st.booleans())
def test_an_integer_is_taken_as_it_is_or_refused(
    queue: Queue, name: str, value: int, as_index: bool
) -> None:
    taker = TAKERS[name]
    argument = Index(value) if as_index else value
    if taker.takes(value):
        taker.call(queue, argument)
        assert taker.reads is None or taker.reads(queue) == value
    else:
        with pytest.raises(ValueError):
            taker.call(queue, argument)


@pytest.mark.parametrize("name", TAKERS)
@drawing()
@given(value=NO_INTEGERS)
def test_what_is_no_integer_is_a_type_error(queue: Queue, name: str, value: object) -> None:
    if value is None and name in OPTIONAL:
        TAKERS[name].call(queue, value)
        return
    with pytest.raises(TypeError, match="an integer is expected, not"):
        TAKERS[name].call(queue, value)


class Place(NamedTuple):
    """A function of the C interface with one integer that is drawn, and how many bits that has."""

    call: Callable[[int, Any], Any]
    bits: int
    is_signed: bool = True


#: The first argument is a queue's handle.
PLACES: Dict[str, Place] = {
    "XQueueCreate": Place(lambda _, value: XSched.XQueueCreate(0, value, 0), 64),
    "XQueueGet": Place(lambda _, value: XSched.XQueueGet(value), 64, is_signed=False),
    "XQueueSetPreemptLevel": Place(XSched.XQueueSetPreemptLevel, 32),
    "XQueueSetLaunchConfig": Place(lambda q, v: XSched.XQueueSetLaunchConfig(q, v, -1), 64),
    "XQueueSubmit": Place(XSched.XQueueSubmit, 64, is_signed=False),
    "XQueueWait": Place(XSched.XQueueWait, 64, is_signed=False),
    "XQueueSuspend": Place(XSched.XQueueSuspend, 64),
    "XQueueResume": Place(XSched.XQueueResume, 64),
    "HwQueueLaunch": Place(lambda _, value: XSched.HwQueueLaunch(0, value), 64, is_signed=False),
    "HwCommandDestroy": Place(lambda _, v: XSched.HwCommandDestroy(v), 64, is_signed=False),
    "XHintPriority": Place(XSched.XHintPriority, 32),
    "XHintUtilization": Place(XSched.XHintUtilization, 32),
    "XHintLaxity": Place(lambda queue, value: XSched.XHintLaxity(queue, value, 0, 1), 64),
    "XHintDeadline": Place(XSched.XHintDeadline, 64),
    "XHintKDeadline": Place(lambda _, value: XSched.XHintKDeadline(value), 64, is_signed=False),
    "HostCommandCreateTimed": Place(
        lambda _, value: xsched.host.XSchedHost.HostCommandCreateTimed(value), 64
    ),
}


@pytest.mark.parametrize("name", PLACES)
@drawing()
@given(value=st.one_of(INTEGERS, NO_INTEGERS))
def test_the_c_interface_gets_no_other_integer(queue: Queue, name: str, value: Any) -> None:
    place = PLACES[name]
    least = -(1 << place.bits - 1) if place.is_signed else 0
    error: Optional[Type[Exception]] = None
    if not isinstance(value, int):
        error = TypeError
    elif not least <= value < least + (1 << place.bits):
        error = OverflowError
    if error is not None:
        with pytest.raises(error):
            place.call(queue.handle, value)
        return
    answer = place.call(queue.handle, value)
    if name == "HostCommandCreateTimed":
        result, command = answer
        assert (result == XResult.kXSchedSuccess) == (0 <= value <= 60_000_000)
        XSched.HwCommandDestroy(command)
    XSched.XQueueResume(queue.handle, 0)


@drawing()
@given(function=st.one_of(INTEGERS, NO_INTEGERS.filter(lambda value: not callable(value))))
def test_what_cannot_be_called_is_a_type_error(queue: Queue, function: Any) -> None:
    makers = (Command.callback, Command.function, XSched.HwCommandCreateCallback, queue.submit)
    before = queue.submitted
    for make in makers:
        with pytest.raises(TypeError, match="must be callable, is"):
            make(function)
    assert queue.submitted == before and len(callbacks) == 0


ERRORS = {
    XResult.kXSchedErrorHardware: xsched.HardwareError,
    XResult.kXSchedErrorInvalidValue: xsched.InvalidValueError,
    XResult.kXSchedErrorNotFound: xsched.NotFoundError,
    XResult.kXSchedErrorNotAllowed: xsched.NotAllowedError,
    XResult.kXSchedErrorNotSupported: xsched.NotSupportedError,
    XResult.kXSchedErrorBadResponse: xsched.BadResponseError,
}


@drawing()
@given(
    answer=st.one_of(
        st.sampled_from(XResult), INTEGERS, INTEGERS.map(Index), st.booleans(), NO_INTEGERS
    ),
    on_device=st.booleans(),
)
def test_what_a_function_returns_is_its_result(answer: Any, on_device: bool) -> None:
    make = Command.function if on_device else Command.callback
    is_result = hasattr(answer, "__index__") and not isinstance(answer, (bool, type))
    with Queue.on_host() as queue:
        command = queue.submit(make(lambda _: answer))
        if answer is None or (is_result and answer.__index__() == 0):
            command.wait()
            return
        with pytest.raises(xsched.XSchedError) as caught:
            command.wait()
        if is_result:
            result = XResult(answer.__index__())
            assert type(caught.value) is ERRORS.get(result, xsched.UnknownError)
            assert caught.value.__cause__ is None
        else:
            assert type(caught.value) is xsched.UnknownError
            assert isinstance(caught.value.__cause__, TypeError)
        with pytest.raises(type(caught.value)):
            queue.wait()


# Programs.


class Choices:
    """Choices out of one number that is drawn, of which 0 makes each the first. With a draw for
    each choice, most programs would have one operation."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._code = 0
        self.renew()

    def renew(self) -> None:
        """Draws the next number."""
        self._code = self._draw(st.integers(0, (1 << 24) - 1))

    def one_of(self, *choices: Any) -> Any:
        """One of them."""
        self._code, place = divmod(self._code, len(choices))
        return choices[place]

    def is_so(self, of: int = 2) -> bool:
        """Whether it is so, which is the case once in so many times."""
        return bool(self.one_of(*range(of)) == of - 1)

    def slot(self) -> int:
        """A queue."""
        return int(self.one_of(0, 1, 2))


#: What functions return; `drawn.py` knows it by these names.
RETURNS = ("zero", "success", "not supported", "hardware", "true", "text", "fraction")


@st.composite
def functions(draw: st.DrawFn, depth: int = 2) -> Dict[str, Any]:
    """Functions of commands, with functions that they hold, submit or raise."""
    choices = Choices(draw)
    returns = choices.one_of(*RETURNS) if choices.is_so(3) else "nothing"
    function: Dict[str, Any] = {
        "on_device": choices.is_so(),
        "own": choices.is_so(),
        "queue": choices.slot() if choices.is_so(4) else None,
        "waits": choices.slot() if choices.is_so(6) else None,
        "collects": choices.is_so(6),
        "raises": choices.is_so(4),
        "returns": returns,
        "holds": [],
        "submits": [],
        "carries": None,
    }
    if depth > 0:
        choices.renew()
        inner = functions(depth - 1)
        function["holds"] = [draw(inner) for _ in range(choices.one_of(0, 0, 1, 2))]
        slots = [choices.slot() for _ in range(choices.one_of(0, 0, 0, 1, 2))]
        function["submits"] = [(slot, draw(inner)) for slot in slots]
        if function["raises"] and choices.is_so():
            function["carries"] = draw(inner)
    return function


FUNCTIONS = functions()
#: Operations of a thread that have nothing but a queue, or nothing.
OF_QUEUE = ("wait", "close", "leave", "submit_made")
ALONE = ("collect", "drop_made", "wait_for_one")


def flags(choices: Choices) -> Dict[str, bool]:
    """What a hold is to wait for."""
    return {name: choices.is_so(3) for name in ("wait_all", "wait_idle", "synchronize")}


@st.composite
def parts(draw: st.DrawFn) -> List[Any]:
    """Operations of a thread that belong together."""
    choices = Choices(draw)
    slot = choices.slot()
    kind = choices.one_of("submit", "submit", "held", "held", "make", "launch", "queue", "alone")
    if kind == "queue":
        return [(choices.one_of(*OF_QUEUE), slot)]
    if kind == "alone":
        return [(choices.one_of(*ALONE),)]
    if kind == "submit":
        submits = [("submit", slot, draw(FUNCTIONS)) for _ in range(choices.one_of(1, 2, 3))]
        return [*submits, *([("wait_for_one",)] if choices.is_so() else [])]
    if kind == "held":
        suspend, resume = ("suspend", slot, flags(choices)), ("resume", slot, choices.is_so())
        submits = [("submit", slot, draw(FUNCTIONS)) for _ in range(choices.one_of(1, 2, 3))]
        # Or it is held on.
        return [suspend, *submits, *([resume] if choices.is_so() else [])]
    return [(kind, draw(FUNCTIONS))]


PARTS = st.lists(parts())
SCRIPTS = st.tuples(PARTS, PARTS).map(lambda lists: list(chain(*chain(*lists))))


@st.composite
def queues(draw: st.DrawFn) -> Dict[str, Any]:
    """Options of a queue."""
    choices = Choices(draw)
    return {
        "level": choices.one_of(1, 2, 3),
        "priority": choices.one_of(0, -255, 255, 1, 10),
        "threshold": choices.one_of(None, 3, 4, 8, 40),
        "batch_size": choices.one_of(None, 1, 3),
        "blocking_submit": choices.is_so(6),
        "launcher_thread": choices.is_so(),
    }


class Program(Dict[str, Any]):
    """A program for `drawn.py`: queues, and what threads do with them."""

    def __repr__(self) -> str:
        # It is long, and a smaller one is shown.
        return f"<{sum(map(len, self['threads']))} operations>"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs of up to three threads."""
    choices = Choices(draw)
    count = choices.one_of(1, 1, 2, 3)
    threads = [draw(SCRIPTS) for _ in range(count)]
    if choices.is_so(15):
        # Not all exceptions are kept then.
        function = {**draw(FUNCTIONS), "raises": True, "submits": []}
        threads[0].append(("fail", choices.slot(), function, 280))
    return Program(
        # A queue that the program holds may hold others under a policy, each time for 50 ms.
        policy=choices.one_of(None, None, None, None, None, "hpf", "wfq", "mlfq"),
        gc=choices.one_of(700, 50, 1),
        alarms=choices.is_so(3),
        queues=[draw(queues()) for _ in range(max(count, choices.one_of(1, 2, 3)))],
        threads=threads,
    )


class Worker:
    """A process that carries programs out, one after another, and is replaced if it has ended."""

    def __init__(self) -> None:
        self._process: Optional[subprocess.Popen[str]] = None
        self._complaints = tempfile.TemporaryFile("w+")

    def carry_out(self, program: Program) -> List[str]:
        """What is wrong with it, or the stacks of a process that hung or ended."""
        return self._ask(json.dumps(program))

    def smaller(self, program: Program) -> Program:
        """The program without the operations that need not be there for something to be wrong."""
        # Not by hypothesis, which would look for minutes where each example takes ten seconds.
        until_s = time.monotonic() + SEARCH_S
        for thread in range(len(program["threads"])):
            size = len(program["threads"][thread])
            while size > 0:
                for at in range(0, len(program["threads"][thread]), size):
                    threads = [list(script) for script in program["threads"]]
                    del threads[thread][at : at + size]
                    without = Program(program, threads=threads)
                    if time.monotonic() < until_s and self.carry_out(without):
                        program = without
                        break
                else:
                    size //= 2
        return program

    def _ask(self, line: str) -> List[str]:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if answer:
            wrong: List[str] = json.loads(answer)
            if wrong:
                # What is kept is not to be found again in the next program.
                self.end()
            return wrong
        status = self.end()
        self._complaints.seek(0)
        return [f"it ended with {status}", *self._complaints.read().splitlines()[-100:]]

    def _start(self) -> subprocess.Popen[str]:
        self._complaints.close()
        self._complaints = tempfile.TemporaryFile("w+")
        command, pipe = [sys.executable, str(PROGRAM)], subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._complaints, text=True
        )
        return self._process

    def end(self) -> Optional[int]:
        """Ends the process, and answers how it ended."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.communicate()
        return process.wait()

    def close(self) -> None:
        """Ends the process, which has to end well."""
        status = self.end()
        self._complaints.close()
        assert status in (None, 0), status


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A process for all programs."""
    # A program that hangs is ended after ten seconds, and many may take long.
    faulthandler.cancel_dump_traceback_later()
    worker = Worker()
    yield worker
    worker.close()


@drawing(shrinks=False)
@given(program=programs())
def test_programs_do_what_they_promise(worker: Worker, program: Program) -> None:
    wrong = worker.carry_out(program)
    if wrong:
        line = json.dumps(worker.smaller(program))
        pytest.fail("\n".join([*wrong, f"A smaller one, for {PROGRAM}:", line]), pytrace=False)


def test_nothing_is_left() -> None:
    gc.collect()
    assert len(callbacks) == 0
