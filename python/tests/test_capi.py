"""The C interface as it is, on the processor as a device."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Callable, Iterator, Tuple

import pytest

import xsched
from xsched import XResult, XSched, _capi
from xsched._callbacks import callbacks
from xsched.host import XSchedHost

OK = XResult.kXSchedSuccess
INVALID = XResult.kXSchedErrorInvalidValue
NOT_FOUND = XResult.kXSchedErrorNotFound
NOT_ALLOWED = XResult.kXSchedErrorNotAllowed
NOT_SUPPORTED = XResult.kXSchedErrorNotSupported

#: No handle is this.
UNKNOWN = 0x1234


@pytest.fixture
def queues() -> Iterator[Tuple[int, int]]:
    """A hardware queue and its XQueue at level 2."""
    result, hwq = XSchedHost.HostQueueCreate()
    assert result == OK and hwq
    result, xq = XSched.XQueueCreate(hwq, 2, 0)
    assert result == OK and xq
    yield hwq, xq
    XSched.XQueueDestroy(xq)
    XSched.HwQueueDestroy(hwq)


def timed(us: int = 10) -> int:
    result, command = XSchedHost.HostCommandCreateTimed(us)
    assert result == OK
    return command


def test_all_functions_are_there() -> None:
    methods = [name for name in vars(XSched) if not name.startswith("_")]
    assert sorted(methods) == sorted(_capi._ARGUMENTS) and len(methods) == 25


def test_a_command_runs_and_is_waited_for(queues: Tuple[int, int]) -> None:
    hwq, xq = queues
    assert XSched.XQueueGet(hwq) == (OK, xq)
    assert XSched.XQueueQuery(xq) == (OK, xsched.XQueueState.kQueueStateIdle)
    command = timed()
    assert XSched.XQueueSubmit(xq, command) == OK
    assert XSched.XQueueWait(xq, command) == OK
    assert XSched.XQueueSubmit(xq, timed()) == OK
    assert XSched.XQueueWaitAll(xq) == OK
    assert XSched.XQueueQuery(xq) == (OK, xsched.XQueueState.kQueueStateIdle)
    assert XSched.XQueueProfileHwCommandCount(xq) == (OK, 2)


def test_a_queue_that_has_an_xqueue_answers_it(queues: Tuple[int, int]) -> None:
    hwq, xq = queues
    assert XSched.XQueueCreate(hwq, 1, 0) == (OK, xq)
    assert XSched.HwQueueDestroy(hwq) == NOT_ALLOWED
    assert XSched.XQueueDestroy(xq) == OK
    assert XSched.XQueueGet(hwq)[0] == NOT_FOUND
    assert XSched.HwQueueDestroy(hwq) == OK
    assert XSched.HwQueueDestroy(hwq) == NOT_FOUND


def test_wrong_arguments_are_answered_and_explained(queues: Tuple[int, int]) -> None:
    hwq, xq = queues
    result, other = XSchedHost.HostQueueCreate()
    assert result == OK
    for level in (-1, 0, 4):
        assert XSched.XQueueCreate(other, level, 0)[0] == INVALID
        assert xsched.last_error()
    assert XSched.HwQueueDestroy(other) == OK
    assert XSched.XQueueCreate(UNKNOWN, 1, 0)[0] == NOT_FOUND
    assert XSched.XQueueSetPreemptLevel(xq, 9) == INVALID
    for wrong in ("queue", 1.5, None):
        with pytest.raises(TypeError, match="XQueueWaitAll: argument 1"):
            XSched.XQueueWaitAll(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="HostCommandCreateTimed: argument 2"):
        XSchedHost.HostCommandCreateTimed(1.5)  # type: ignore[arg-type]


def test_integers_that_do_not_fit_are_refused(queues: Tuple[int, int]) -> None:
    hwq, xq = queues
    # C would see the lower bits, which are those of a handle or of a value that there is.
    for beyond in (2**64, -(2**64)):
        for call in (
            lambda: XSched.XQueueQuery(xq + beyond),
            lambda: XSched.XQueueGet(hwq + beyond),
            lambda: XSched.XQueueCreate(hwq, 1 + beyond, 0),
            lambda: XSched.XHintPriority(xq, 5 + beyond),
            lambda: XSched.XHintPriority(xq, 5 + beyond // 2**32),
            lambda: XSched.XHintUtilization(xq, 5 + beyond // 2**32),
            lambda: XSched.XHintDeadline(xq, 5 + beyond),
            lambda: XSched.XHintLaxity(xq, 5, 1, 1 + beyond // 2**32),
            lambda: XSched.XHintTimeslice(5_000 + beyond),
            lambda: XSched.XHintKDeadline(1 + beyond),
            lambda: XSched.XQueueSuspend(xq, beyond),
            lambda: XSchedHost.HostCommandCreateTimed(10 + beyond),
        ):
            with pytest.raises(OverflowError, match="does not fit"):
                call()
    assert XSched.XHintTimeslice(xsched.TIMESLICE_UNLIMITED) == OK
    assert XSched.XHintTimeslice(xsched.TIMESLICE_DEFAULT) == OK


def test_values_out_of_range_are_taken_unless_strictness_is_asked_for() -> None:
    program = """
import xsched
from xsched.host import XSchedHost
_, hwq = XSchedHost.HostQueueCreate()
_, xq = xsched.XSched.XQueueCreate(hwq, 1, 0)
calls = [xsched.XHintPriority(xq, 1_000), xsched.XSched.XHintTimeslice(-1)]
calls += [xsched.XSched.XHintUtilization(xq, 101), xsched.XHintPriority(xq, -257)]
print([int(result) for result in calls])
"""
    for strict, expected in (("OFF", "[0, 0, 0, 0]"), ("ON", "[2, 2, 2, 2]")):
        answer = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "XSCHED_STRICT": strict},
        )
        assert (answer.returncode, answer.stdout.strip()) == (0, expected), answer.stderr
        assert answer.stderr.count("priority must be -256 to 255") == (strict == "OFF")


@pytest.mark.parametrize("handle", [0, UNKNOWN, 2**64 - 1])
def test_unknown_handles_are_not_found(handle: int) -> None:
    answers = [
        XSched.XQueueDestroy(handle),
        XSched.XQueueGet(handle)[0],
        XSched.XQueueSetPreemptLevel(handle, 1),
        XSched.XQueueSetLaunchConfig(handle, 8, 4),
        XSched.XQueueSubmit(handle, UNKNOWN),
        XSched.XQueueWait(handle, UNKNOWN),
        XSched.XQueueWaitAll(handle),
        XSched.XQueueQuery(handle)[0],
        XSched.XQueueSuspend(handle, 0),
        XSched.XQueueResume(handle, 0),
        XSched.XQueueProfileHwCommandCount(handle)[0],
        XSched.HwQueueDestroy(handle),
        XSched.HwQueueLaunch(handle, UNKNOWN),
        XSched.HwQueueSynchronize(handle),
        XSched.HwCommandDestroy(handle),
        XSched.XHintPriority(handle, 1),
        XSched.XHintUtilization(handle, 1),
        XSched.XHintLaxity(handle, 1, 0, 1),
        XSched.XHintDeadline(handle, 1),
    ]
    assert set(answers) <= {NOT_FOUND, INVALID}


def test_settings_are_taken(queues: Tuple[int, int]) -> None:
    _, xq = queues
    for level in (1, 2, 3):
        assert XSched.XQueueSetPreemptLevel(xq, level) == OK
    assert XSched.XQueueSetLaunchConfig(xq, 8, 4) == OK
    assert XSched.XQueueSetLaunchConfig(xq, 4, -1) == OK
    assert XSched.XHintPriority(xq, xsched.PRIORITY_MAX) == OK
    assert XSched.XHintPriority(xq, xsched.PRIORITY_DEFAULT) == OK
    assert XSched.XHintUtilization(xq, xsched.UTILIZATION_DEFAULT) == OK
    assert XSched.XHintTimeslice(xsched.TIMESLICE_DEFAULT) == OK
    assert XSched.XHintLaxity(xq, 1_000, 0, 5) == OK
    assert XSched.XHintDeadline(xq, 1_000) == OK
    assert XSched.XHintDeadline(xq, xsched.NO_DEADLINE) == OK
    assert XSched.XHintKDeadline(4) == OK
    local = xsched.XSchedulerType.kSchedulerLocal
    none = {xsched.XPolicyType.kPolicyUnknown, xsched.XPolicyType.kPolicyMax}
    for policy in set(xsched.XPolicyType) - none:
        assert XSched.XHintSetScheduler(local, policy) == OK, policy
    highest = xsched.XPolicyType.kPolicyHighestPriorityFirst
    assert XSched.XHintSetScheduler(local, xsched.XPolicyType.kPolicyMax) == INVALID
    everywhere = xsched.XSchedulerType.kSchedulerGlobal
    assert XSched.XHintSetScheduler(everywhere, highest) == OK
    assert XSched.XHintSetScheduler(everywhere, xsched.XPolicyType.kPolicyUnknown) == NOT_SUPPORTED
    app = xsched.XSchedulerType.kSchedulerAppManaged
    assert XSched.XHintSetScheduler(app, highest) == OK


def test_a_held_queue_does_not_run_and_can_drop(queues: Tuple[int, int]) -> None:
    _, xq = queues
    ran: list[int] = []

    def appending(number: int) -> Callable[[int], None]:
        return lambda _: ran.append(number)

    flags = xsched.XQueueSuspendFlag.kQueueSuspendFlagWaitAll
    assert XSched.XQueueSuspend(xq, flags) == OK
    for number in range(3):
        result, command = XSched.HwCommandCreateCallback(appending(number))
        assert result == OK
        assert XSched.XQueueSubmit(xq, command) == OK
    assert XSched.XQueueQuery(xq) == (OK, xsched.XQueueState.kQueueStateReady)
    assert ran == [] and len(callbacks) == 3
    drop = xsched.XQueueResumeFlag.kQueueResumeFlagDropCommands
    assert XSched.XQueueResume(xq, drop) == OK
    XSched.XQueueWaitAll(xq)
    assert ran == []
    result, command = XSched.HwCommandCreateCallback(appending(7))
    assert XSched.XQueueSubmit(xq, command) == OK
    assert XSched.XQueueWait(xq, command) == OK
    assert ran == [7]
    # Nothing is left of what was dropped, once the queue is gone.
    assert XSched.XQueueDestroy(xq) == OK
    assert len(callbacks) == 0


def test_a_function_gets_its_hardware_queue_and_its_result_counts(queues: Tuple[int, int]) -> None:
    hwq, xq = queues
    got: list[int] = []
    result, good = XSched.HwCommandCreateCallback(got.append)
    assert (result, XSched.XQueueSubmit(xq, good), XSched.XQueueWait(xq, good)) == (OK, OK, OK)
    assert got == [hwq]
    result, bad = XSched.HwCommandCreateCallback(lambda _: XResult.kXSchedErrorHardware)
    assert XSched.XQueueSubmit(xq, bad) == OK
    assert XSched.XQueueWait(xq, bad) != OK
    assert len(callbacks) == 0


def test_a_function_that_raises_fails_its_command_alone(queues: Tuple[int, int]) -> None:
    _, xq = queues

    def fail(_: int) -> None:
        raise ZeroDivisionError("on purpose")

    result, bad = XSched.HwCommandCreateCallback(fail)
    assert XSched.XQueueSubmit(xq, bad) == OK
    assert XSched.XQueueWait(xq, bad) != OK
    assert isinstance(callbacks.failure(bad), ZeroDivisionError)
    assert callbacks.failure(bad) is None
    good = timed()
    assert XSched.XQueueSubmit(xq, good) == OK
    assert XSched.XQueueWait(xq, good) == OK


def test_a_command_is_submitted_once_or_destroyed(queues: Tuple[int, int]) -> None:
    hwq, xq = queues
    command = timed()
    assert XSched.HwCommandDestroy(command) == OK
    assert XSched.HwCommandDestroy(command) == NOT_FOUND
    assert XSched.XQueueSubmit(xq, command) == NOT_FOUND
    result, unused = XSched.HwCommandCreateCallback(lambda _: None)
    assert result == OK and len(callbacks) == 1
    assert XSched.HwCommandDestroy(unused) == OK and len(callbacks) == 0
    command = timed()
    assert XSched.XQueueSubmit(xq, command) == OK
    assert XSched.XQueueSubmit(xq, command) != OK
    direct = timed()
    assert XSched.HwQueueLaunch(hwq, direct) == OK
    assert XSched.HwQueueSynchronize(hwq) == OK


def test_waiting_lets_other_threads_run(queues: Tuple[int, int]) -> None:
    _, xq = queues
    assert XSched.XQueueSuspend(xq, 0) == OK
    assert XSched.XQueueSubmit(xq, timed()) == OK
    answers = []
    waiters = [
        threading.Thread(target=lambda: answers.append(XSched.XQueueWaitAll(xq))) for _ in range(4)
    ]
    for waiter in waiters:
        waiter.start()
    # Had a waiter the interpreter's lock, this would not be reached.
    assert answers == []
    assert XSched.XQueueResume(xq, 0) == OK
    for waiter in waiters:
        waiter.join()
    assert answers == [OK] * 4


def test_many_threads_use_queues_at_once() -> None:
    counts = [0] * 4
    failures = []

    def work(place: int) -> None:
        def count(_: int) -> None:
            counts[place] += 1

        result, hwq = XSchedHost.HostQueueCreate()
        result, xq = XSched.XQueueCreate(hwq, 1, 0)
        for _ in range(200):
            result, command = XSched.HwCommandCreateCallback(count)
            if XSched.XQueueSubmit(xq, command) != OK:
                failures.append(xsched.last_error())
        answers = [XSched.XQueueWaitAll(xq), XSched.XQueueDestroy(xq), XSched.HwQueueDestroy(hwq)]
        if answers != [OK] * 3:
            failures.append(str(answers))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and counts == [200] * 4 and len(callbacks) == 0


@pytest.mark.parametrize("held", [False, True])
def test_a_process_ends_with_commands_in_its_queues(held: bool) -> None:
    program = f"""
import xsched
queue = xsched.Queue.on_host(level=1)
if {held}:
    queue.suspend()
for _ in range(10):
    queue.submit(lambda hwq: None)
    queue.submit(xsched.Command.timed(1000))
unused = xsched.Command.callback(lambda hwq: None)
print("done")
"""
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout.strip()) == (0, "done"), answer.stderr


def test_the_child_of_a_fork_starts_clean() -> None:
    program = """
import os, warnings, xsched
warnings.simplefilter("ignore")
queue = xsched.Queue.on_host()
queue.suspend()
waiting = queue.submit(lambda hwq: print("parent", flush=True))
child = os.fork()
if child == 0:
    try:
        queue.wait()
    except xsched.NotFoundError:
        print("not found", flush=True)
    with xsched.Queue.on_host() as own:
        own.submit(lambda hwq: print("child", flush=True))
else:
    _, status = os.waitpid(child, 0)
    queue.resume()
    waiting.wait()
    raise SystemExit(os.waitstatus_to_exitcode(status))
"""
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == ["not found", "child", "parent"]


def test_an_answer_that_is_not_known_is_unknown() -> None:
    assert XResult(12345) == XResult.kXSchedErrorUnknown


def test_a_subinterpreter_is_refused_and_leaves_the_main_one_alone() -> None:
    program = """
import importlib
for name in ("_interpreters", "_xxsubinterpreters"):
    try:
        interpreters = importlib.import_module(name)
        break
    except ImportError:
        pass
else:
    raise SystemExit("no subinterpreters")
IMPORTS = '''
try:
    import xsched
except ImportError as error:
    print(error, flush=True)
'''

def elsewhere():
    other = interpreters.create()
    interpreters.run_string(other, IMPORTS)
    interpreters.destroy(other)

# Before and after the first import.
elsewhere()
import xsched
elsewhere()
with xsched.Queue.on_host() as queue:
    queue.submit(lambda hwq: print("ran", flush=True)).wait()
"""
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "no subinterpreters" in answer.stderr:
        pytest.skip("this Python makes no subinterpreters")
    assert answer.returncode == 0, answer.stderr
    first, second, last = answer.stdout.splitlines()
    assert first == second and last == "ran"
    assert "xsched cannot be imported in a subinterpreter" in first


def test_a_missing_library_is_said(tmp_path: object) -> None:
    program = """
import xsched
try:
    xsched.Queue.on_host()
except xsched.LibraryNotFoundError as error:
    print(error)
"""
    command = [sys.executable, "-c", program]
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "XSCHED_LIB_DIR": str(tmp_path)},
        check=True,
    )
    assert "cannot load libpreempt.so" in answer.stdout and str(tmp_path) in answer.stdout
