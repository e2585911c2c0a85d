"""Queues and commands as Python would like them, on the processor as a device."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from typing import Any, Callable, cast

import pytest

import xsched
from xsched import Command, HwQueue, Queue, Runtime, XResult, XSched, sim
from xsched._callbacks import callbacks


def appending(to: list[int], number: int) -> Callable[[int], None]:
    return lambda _: to.append(number)


def test_a_queue_waits_and_closes_at_the_end_of_its_block() -> None:
    ran: list[int] = []
    with Queue.on_host(level=1, priority=3, threshold=8, batch_size=4) as queue:
        for number in range(20):
            queue.submit(appending(ran, number))
        handle, hardware = queue.handle, queue.hardware
    assert ran == list(range(20))
    assert XSched.XQueueQuery(handle)[0] == XResult.kXSchedErrorNotFound
    assert queue.handle == hardware.handle == 0
    queue.close()


def test_commands_can_be_waited_for_one_by_one() -> None:
    with Queue.on_host() as queue:
        first = queue.submit(Command.timed(10))
        second = queue.submit(Command.callback(lambda hwq: None))
        second.wait()
        first.wait()
        assert queue.submitted == 2
        queue.wait()
        assert queue.is_idle


def test_what_a_function_raises_is_the_cause() -> None:
    def fail(_: int) -> None:
        raise KeyError("on purpose")

    with Queue.on_host() as queue:
        command = queue.submit(fail)
        with pytest.raises(xsched.XSchedError) as caught:
            command.wait()
        assert isinstance(caught.value.__cause__, KeyError)
        assert str(caught.value) == "XQueueWait: the command's function raised KeyError('on purpose')"
        assert caught.value.call == "XQueueWait" and caught.value.result != 0
        # A wait for all raises it as well, once.
        with pytest.raises(xsched.UnknownError):
            queue.wait()
    with pytest.raises(xsched.XSchedError) as caught:
        with Queue.on_host() as queue:
            queue.submit(fail)
            handle = queue.handle
    assert isinstance(caught.value.__cause__, KeyError)
    # It was closed all the same.
    assert XSched.XQueueQuery(handle)[0] == XResult.kXSchedErrorNotFound


def test_a_wait_that_is_refused_takes_no_failure() -> None:
    with Queue.on_host() as queue:
        failing = queue.submit(lambda _: int("text"))  # type: ignore[arg-type, return-value]

        def waits(_: int) -> None:
            for wait in (queue.wait, failing.wait):
                with pytest.raises(xsched.NotAllowedError) as caught:
                    wait()
                assert caught.value.__cause__ is None

        queue.submit(waits).wait()
        with pytest.raises(xsched.UnknownError) as caught:
            failing.wait()
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(xsched.UnknownError):
            queue.wait()


def test_an_exception_is_the_cause_of_its_own_failure_only() -> None:
    def raises(_: int) -> None:
        raise KeyError

    with Queue.on_host() as queue:
        queue.submit(lambda _: XResult.kXSchedErrorNotSupported)
        last = queue.submit(raises)
        with pytest.raises(xsched.NotSupportedError) as caught:
            queue.wait()
        assert caught.value.__cause__ is None
        with pytest.raises(xsched.UnknownError) as unknown:
            last.wait()
        assert isinstance(unknown.value.__cause__, KeyError)


def test_an_error_in_the_block_is_what_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        with Queue.on_host() as queue:
            handle = queue.handle
            queue.suspend()
            queue.submit(lambda _: None)
            raise ZeroDivisionError
    assert XSched.XQueueQuery(handle)[0] == XResult.kXSchedErrorNotFound


def test_results_are_exceptions_with_the_librarys_words() -> None:
    with Queue.on_host() as queue:
        with pytest.raises(xsched.InvalidValueError, match="XHintPriority: .+256") as caught:
            queue.set_priority(256)
        assert isinstance(caught.value, ValueError)
        assert caught.value.result == XResult.kXSchedErrorInvalidValue
        with pytest.raises(ValueError, match="must be -256 to 255"):
            queue.set_priority(2**32 + 5)
        with pytest.raises(ValueError, match="does not fit"):
            queue.set_level(2**32 + 1)
        for value in (-1, 101):
            with pytest.raises(ValueError):
                queue.set_utilization(value)
        for value in (-2, 0, 2**63 - 1):
            with pytest.raises(ValueError):
                queue.set_deadline(value)
            with pytest.raises(ValueError):
                queue.set_laxity(value, 0, 1)
        with pytest.raises(ValueError):
            queue.set_laxity(5, 0, 256)
        with pytest.raises(ValueError):
            queue.set_level(4)
        for call in (
            lambda: Command.timed(2**64 + 10),
            lambda: Command.timed(-1),
            lambda: Queue.on_host(level=2**64 + 1),
            lambda: queue.set_launch_config(2**64 + 8, 1),
            lambda: queue.set_launch_config(8, -(2**63) - 1),
        ):
            with pytest.raises(ValueError):
                call()
        for wrong in (1.5, "1", None, [1]):
            number: Any = wrong
            for take in (
                Command.timed,
                queue.set_priority,
                queue.set_utilization,
                queue.set_deadline,
                queue.set_level,
                lambda value: queue.set_laxity(value, 0, 1),
                lambda value: queue.set_laxity(5, value, 1),
                lambda value: Queue.on_host(level=value),
            ):
                with pytest.raises(TypeError, match="an integer is expected, not"):
                    take(number)
        with pytest.raises(TypeError, match="XQueueSetLaunchConfig: an integer is expected, not 1.5"):
            queue.set_launch_config(cast(Any, 1.5))
        with pytest.raises(xsched.NotAllowedError):
            queue.hardware.close()
        command = Command.timed(1)
        with pytest.raises(xsched.NotAllowedError, match="submit it to a queue first"):
            command.wait()
    with pytest.raises(xsched.NotFoundError) as missing:
        queue.wait()
    assert isinstance(missing.value, LookupError)
    with pytest.raises(ValueError):
        Queue.on_host(level=0)
    with pytest.raises(ValueError):
        Queue.on_host(priority=1_000)


def test_documents_have_other_names_for_queues_and_priorities() -> None:
    assert xsched.XQueue is Queue
    with xsched.XQueue.on_host() as queue:
        assert xsched.XHintPriority(queue, 2) == XResult.kXSchedSuccess
        assert xsched.XHintPriority(queue.handle, 1) == XResult.kXSchedSuccess
        handle = queue.handle
    assert xsched.XHintPriority(handle, 1) == XResult.kXSchedErrorNotFound
    policies = xsched.XPolicyType
    others = {
        "kPolicyBandwidthPartition": policies.kPolicyUtilizationPartition,
        "kPolicyLaxityBased": policies.kPolicyLaxity,
    }
    for name, policy in others.items():
        assert policies[name] is policy


def test_all_settings_can_be_made() -> None:
    with Queue.on_host(blocking_submit=True) as queue:
        for level in (1, 2, 3):
            queue.set_level(level)
        queue.set_launch_config(threshold=4)
        queue.set_launch_config(batch_size=2)
        queue.set_utilization(50)
        queue.set_deadline(5_000)
        queue.set_deadline(-1)
        queue.set_laxity(5_000, 0, 10)
        queue.submit(Command.timed(10)).wait()


def test_a_hold_lasts_for_its_block() -> None:
    ran = threading.Event()
    with Queue.on_host() as queue:
        with queue.held(synchronize=True):
            command = queue.submit(lambda _: ran.set())
            assert not queue.is_idle and not ran.is_set()
        command.wait()
        assert ran.is_set()
        queue.suspend(wait_all=True)
        queue.submit(lambda _: ran.clear())
        queue.resume(drop_commands=True)
    assert ran.is_set()


def test_commands_that_are_not_submitted_go_with_their_objects() -> None:
    command = Command.callback(lambda _: None)
    handle = command.handle
    assert len(callbacks) == 1
    del command
    gc.collect()
    assert len(callbacks) == 0
    assert XSched.HwCommandDestroy(handle) == XResult.kXSchedErrorNotFound


def test_hardware_queues_can_be_used_without_a_queue() -> None:
    with HwQueue.on_host() as hardware:
        command = Command.timed(10)
        hardware.launch(command)
        hardware.synchronize()
        with Queue(hardware) as queue:
            queue.submit(Command.timed(10))
        assert hardware.handle
    assert hardware.handle == 0


def test_a_runtime_sets_the_scheduler_and_closes_its_queues() -> None:
    with Runtime("hpf", timeslice_us=1_000, k=2, floor=0.05) as runtime:
        high = runtime.host_queue(level=3, priority=10)
        low = runtime.host_queue(level=3, priority=1)
        for queue in (low, high):
            for _ in range(4):
                queue.submit(Command.timed(100))
        high.wait()
        for name in Runtime.POLICIES:
            runtime.set_policy(name.upper())
        runtime.set_app_managed()
    assert high.handle == low.handle == 0
    # One list everywhere.
    assert list(Runtime.POLICIES) == sim.policy_names()
    with pytest.raises(ValueError, match="no policy 'nope'; there are fcfs, hpf, "):
        Runtime("nope")
    with pytest.raises(ValueError):
        Runtime(timeslice_us=1)
    with pytest.raises(ValueError):
        Runtime(k=0)
    with pytest.raises(ValueError):
        Runtime(floor=0.6)


def test_the_urgent_queue_runs_first() -> None:
    order = []
    with Runtime("hpf") as runtime:
        blocker = runtime.host_queue(priority=20, level=1)
        low, high = (runtime.host_queue(priority=p, level=1) for p in (1, 10))
        # All are held by hand, so that all are there when the scheduler may choose.
        for queue in (blocker, low, high):
            queue.suspend()
        for _ in range(3):
            low.submit(lambda _: order.append("low"))
            high.submit(lambda _: order.append("high"))
        last = blocker.submit(lambda _: order.append("blocker"))
        for queue in (low, high):
            queue.resume()
        high.wait()
        blocker.resume()
        last.wait()
        low.wait()
        runtime.set_app_managed()
    assert sorted(order) == ["blocker"] + ["high"] * 3 + ["low"] * 3


def test_functions_that_are_dropped_are_let_go_of() -> None:
    class Kept:
        def __call__(self, _: int) -> None: ...

    with Queue.on_host() as queue:
        for wait in (False, True):
            queue.submit(Command.timed(1_000 if wait else 0))
            if not wait:
                queue.wait()
            queue.suspend()
            functions = [Kept() for _ in range(200)]
            alive = weakref.WeakSet(functions)
            for function in functions:
                queue.submit(function)
            del function, functions
            assert len(alive) == 200
            queue.resume(drop_commands=True)
            if wait:
                queue.wait()
            gc.collect()
            assert len(alive) == 0 and len(callbacks) == 0


def test_queues_that_nobody_refers_to_close() -> None:
    ran: list[int] = []
    with Runtime() as runtime:
        # More than a process can have.
        for _ in range(1_100):
            handle = runtime.host_queue().handle
        assert XSched.XQueueQuery(handle)[0] == XResult.kXSchedErrorNotFound
        # What was submitted runs.
        Queue.on_host().submit(appending(ran, 1)).wait
        queue = runtime.host_queue()
        queue.suspend()
        queue.submit(Command.timed(2_000))
        queue.submit(appending(ran, 2))
        del queue
        with Queue.on_host() as other:
            while sorted(ran) != [1, 2]:
                other.submit(Command.timed(100)).wait()
    # One that was there already is not the second object's to close.
    with HwQueue.on_host() as hardware, Queue(hardware) as queue:
        Queue(hardware)
        assert queue.is_idle


def test_an_urgent_function_on_the_device_does_not_come_after_all_others() -> None:
    ran: list[int] = []

    def background(_: int) -> None:
        time.sleep(0.001)
        ran.append(0)

    with Runtime("hpf") as runtime:
        urgent, low = (runtime.host_queue(priority=value) for value in (10, 0))
        for _ in range(50):
            low.submit(Command.function(background))
        threads: list[int] = []
        urgent.submit(Command.function(lambda _: threads.append(threading.get_native_id()))).wait()
        # At level 1 what is launched runs: 16 at most.
        assert len(ran) < 40
        assert threads != [threading.get_native_id()]
        low.wait()
        assert len(ran) == 50
        failing = low.submit(Command.function(lambda _: ran.remove(99)))
        with pytest.raises(xsched.UnknownError, match="the command's function raised ValueError"):
            failing.wait()
        runtime.set_app_managed()


def test_a_function_can_submit_and_launch() -> None:
    ran: list[int] = []
    with Queue.on_host() as first, Queue.on_host() as second, HwQueue.on_host() as hardware:

        def submits(_: int) -> None:
            second.submit(appending(ran, 1))
            hardware.launch(Command.callback(appending(ran, 2)))
            ran.append(3)

        for _ in range(20):
            first.submit(submits).wait()
            second.wait()
    assert sorted(ran) == [1] * 20 + [2] * 20 + [3] * 20


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_the_child_of_a_fork_within_a_function_can_use_queues() -> None:
    status: list[int] = []

    def forks(_: int) -> None:
        child = os.fork()
        if child == 0:
            code = 99
            try:
                ran: list[int] = []
                with Queue.on_host() as queue:
                    queue.submit(appending(ran, 1))
                    queue.submit(Command.timed(10)).wait()
                code = 7 if ran == [1] else 8
            finally:
                os._exit(code)
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with Queue.on_host() as queue:
        queue.submit(forks).wait()
    assert status == [7]


@pytest.mark.parametrize("rounds", [50])
def test_queues_come_and_go(rounds: int) -> None:
    for _ in range(rounds):
        with Queue.on_host() as queue:
            queue.submit(lambda _: None)
    assert len(callbacks) == 0
