"""Carries out programs of commands and queues that `test_drawn.py` draws: one per line of standard
input, and a line of answer for each, which says what is wrong with it, or nothing.

A program that hangs ends the process, with the stacks of its threads in standard error.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import json
import signal
import sys
import threading
import time
import traceback
import weakref
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import xsched
from xsched import Command, HwQueue, Queue, Runtime, XResult, XSched
from xsched._callbacks import callbacks

#: A program that takes longer hangs.
HANG_S = 10
#: How long the end of what other threads do is waited for.
PATIENCE_S = 5
#: Exceptions that the package keeps.
KEPT = 256
#: Time between two signals.
ALARM_S = 0.000_3

#: What a function returns by its name. Where it is no result, the command fails with a TypeError.
RETURNS: Dict[str, Any] = {
    "nothing": None,
    "zero": 0,
    "success": XResult.kXSchedSuccess,
    "not supported": XResult.kXSchedErrorNotSupported,
    "hardware": XResult.kXSchedErrorHardware,
    "true": True,
    "text": "text",
    "fraction": 1.5,
}
#: The error of what a function returns, unless that is success.
ERRORS = {
    "not supported": xsched.NotSupportedError,
    "hardware": xsched.HardwareError,
    "true": xsched.UnknownError,
    "text": xsched.UnknownError,
    "fraction": xsched.UnknownError,
}
NO_RESULTS = ("true", "text", "fraction")


class Failed(Exception):
    """What a function raises. It may carry a function with commands."""

    def __init__(self, number: int, carried: Optional[Work]) -> None:
        super().__init__(number)
        self.number = number
        self.carried = carried


class Note:
    """What is known of a function. It refers to nothing of the program's."""

    def __init__(self, spec: Dict[str, Any]) -> None:
        self.on_device = bool(spec["on_device"])
        self.raises = bool(spec["raises"])
        self.returns = str(spec["returns"])
        #: Whose submission it was, and its place among all; none if it was not submitted.
        self.submitter = ""
        self.place: Optional[int] = None
        self.slot: Optional[int] = None
        #: It was launched past the queues.
        self.is_launched = False
        #: Waits for all that its queue had seen by then.
        self.waits = 0

    @property
    def fails(self) -> bool:
        return self.raises or self.returns in ERRORS

    @property
    def has_cause(self) -> bool:
        return self.raises or self.returns in NO_RESULTS

    def error(self) -> type[xsched.XSchedError]:
        return xsched.UnknownError if self.raises else ERRORS[self.returns]


class Work:
    """A function of a command, with commands that are not submitted."""

    def __init__(self, run: Run, spec: Dict[str, Any]) -> None:
        self.run = run
        self.spec = spec
        self.number = run.note(spec, self)
        self.commands = [run.command(inner)[0] for inner in spec["holds"]]
        self.queue = None if spec["queue"] is None else run.queue(spec["queue"])
        self.own: Optional[Command] = None
        if spec["own"]:
            # A cycle: the command is of a method of its owner.
            self.own = self.make(self.launch)

    def make(self, function: Any) -> Command:
        """A command of the kind that was drawn."""
        return (Command.function if self.spec["on_device"] else Command.callback)(function)

    def launch(self, hwq: int) -> Any:
        """The function itself."""
        run, spec = self.run, self.spec
        run.ran.append(self.number)
        for slot, inner in spec["submits"]:
            run.submit_within(slot, inner, f"function {self.number}")
        if spec["waits"] is not None:
            run.wait_within(spec["waits"])
        if spec["collects"]:
            gc.collect()
        if spec["raises"]:
            carried = spec["carries"]
            raise Failed(self.number, None if carried is None else Work(run, carried))
        return RETURNS[spec["returns"]]

    __call__ = launch


class Run:
    """One program that was drawn."""

    def __init__(self, program: Dict[str, Any]) -> None:
        self.program = program
        self.options: List[Dict[str, Any]] = program["queues"]
        self.queues: List[Optional[Queue]] = [Queue.on_host(**options) for options in self.options]
        self.hardware = HwQueue.on_host()
        self.handles = [queue.handle for queue in self.queues if queue is not None]
        self.suspended = [False for _ in self.queues]
        self.closed = [False for _ in self.queues]
        #: The place up to which commands of a queue may have been dropped.
        self.dropped = [-1 for _ in self.queues]
        #: Failures of a queue that an earlier wait for all may have returned.
        self.accounted: List[Set[int]] = [set() for _ in self.queues]
        self.waits = [0 for _ in self.queues]
        self.places = itertools.count()
        self.notes: Dict[int, Note] = {}
        self.alive: List[weakref.ref[Work]] = []
        self.ran: List[int] = []
        self.wrong: List[str] = []
        self._numbers = itertools.count()

    # What functions and threads of the program do.

    def note(self, spec: Dict[str, Any], work: Work) -> int:
        """A number for a function."""
        # No lock: a signal may come in between, and does the same.
        number = next(self._numbers)
        self.notes[number] = Note(spec)
        self.alive.append(weakref.ref(work))
        return number

    def command(self, spec: Dict[str, Any]) -> Tuple[Command, int]:
        """A command of a new function."""
        work = Work(self, spec)
        return work.own or work.make(work), work.number

    def queue(self, slot: int) -> Optional[Queue]:
        """A queue, unless the program has left it."""
        return self.queues[slot % len(self.queues)]

    def submit(self, slot: int, command: Command, number: int, submitter: str) -> bool:
        """Submits it, and answers whether the queue was there to take it."""
        slot %= len(self.queues)
        queue, note = self.queues[slot], self.notes[number]
        if queue is None:
            return False
        note.waits = self.waits[slot]
        note.submitter, note.place, note.slot = submitter, next(self.places), slot
        try:
            queue.submit(command)
        except xsched.NotFoundError:
            note.slot = note.place = None
            if not self.closed[slot]:
                self.wrong.append(f"{submitter}: queue {slot} did not take function {number}")
            return False
        return True

    def submit_within(self, slot: int, spec: Dict[str, Any], submitter: str) -> None:
        """Submits it in a function, unless that might wait."""
        slot %= len(self.queues)
        if not self.options[slot].get("blocking_submit"):
            command, number = self.command(spec)
            self.submit(slot, command, number, submitter)

    def wait_within(self, slot: int) -> None:
        """Waits in a function, which is refused."""
        queue = self.queue(slot)
        if queue is None:
            return
        try:
            queue.wait()
            self.wrong.append("a wait in a function returned")
        except (xsched.NotAllowedError, xsched.NotFoundError):
            pass

    def wait(self, slot: int, submitter: str = "") -> None:
        """Waits for a queue that is not suspended. All that this submitter has submitted is done
        then, or what all threads have that have ended."""
        queue = self.queues[slot]
        if queue is None or self.suspended[slot]:
            return
        place, accounted = next(self.places), self.accounted[slot]
        self.waits[slot] += 1
        try:
            queue.wait()
        except xsched.NotFoundError:
            if not self.closed[slot]:
                self.wrong.append(f"queue {slot} is not there to be waited for")
            return
        except xsched.XSchedError as error:
            self._check_cause(slot, error)
        else:
            failed = self.failed(slot) - accounted
            missing = {n for n in failed if self.was_before(n, place, submitter or "thread")}
            if missing:
                self.wrong.append(f"a wait for queue {slot} does not tell of functions {missing}")
        accounted |= self.failed(slot)

    def was_before(self, number: int, place: int, submitter: str) -> bool:
        """Whether it had submitted a function by then."""
        note = self.notes[number]
        is_before = note.place is not None and note.place < place
        return is_before and note.submitter.startswith(submitter)

    def failed(self, slot: int) -> Set[int]:
        """The functions of a queue that have been called and fail."""
        ran = set(self.ran)
        return {n for n in ran if self.notes[n].slot == slot and self.notes[n].fails}

    def _check_cause(self, slot: int, error: xsched.XSchedError) -> None:
        cause = error.__cause__
        failing = [note for note in self.notes.copy().values() if note.fails and note.slot == slot]
        if not failing:
            self.wrong.append(f"a wait for queue {slot}, where nothing fails, raised {error!r}")
        elif isinstance(cause, Failed) and self.notes[cause.number].slot != slot:
            self.wrong.append(f"a wait for queue {slot} raised what another's function did")
        elif not any(type(error) is note.error() for note in failing):
            self.wrong.append(f"a wait for queue {slot} raised {error!r}, which no function means")

    def wait_for(self, command: Command, number: int) -> None:
        """Waits for one command."""
        note = self.notes[number]
        slot = note.slot
        if slot is None or self.suspended[slot] or self.closed[slot] or self.queues[slot] is None:
            return
        try:
            command.wait()
        except xsched.NotAllowedError as error:
            if not self.may_be_dropped(note):
                self.wrong.append(f"function {number} was not dropped: {error}")
        except xsched.XSchedError as error:
            cause = error.__cause__
            is_own = isinstance(cause, Failed) and cause.number == number
            is_own = is_own or isinstance(cause, TypeError) and not note.raises
            if not note.fails or type(error) is not note.error():
                self.wrong.append(f"function {number} did not fail so: {error!r}")
            elif cause is not None and not is_own:
                self.wrong.append(f"function {number} did not raise {cause!r}")
            elif cause is None and note.has_cause and self.must_have_cause(note, slot):
                self.wrong.append(f"what function {number} raised is not the cause of {error!r}")
        else:
            if note.fails:
                self.wrong.append(f"function {number} failed, and its wait does not tell")

    def must_have_cause(self, note: Note, slot: int) -> bool:
        """Whether what it raised was returned by no wait for all, and displaced by no other."""
        return note.waits == self.waits[slot] and len(self.notes) < KEPT

    def may_be_dropped(self, note: Note) -> bool:
        """Whether a resume has come after it that drops commands."""
        return note.slot is not None and (note.place or 0) < self.dropped[note.slot]

    def resume(self, slot: int, *, drop: bool) -> None:
        """Ends a hold."""
        queue = self.queues[slot]
        if queue is not None and not self.closed[slot]:
            if drop:
                # Those that other threads submit meanwhile may be among them.
                self.dropped[slot] = sys.maxsize
            queue.resume(drop_commands=drop)
            if drop:
                self.dropped[slot] = next(self.places)
            self.suspended[slot] = False

    def suspend(self, slot: int, flags: Dict[str, bool]) -> None:
        """Holds a queue whose commands no thread waits for in a submission."""
        queue = self.queues[slot]
        if queue is None or self.closed[slot] or self.options[slot].get("blocking_submit"):
            return
        queue.suspend(**flags)
        self.suspended[slot] = True

    def close(self, slot: int) -> None:
        """Closes a queue, by its end or at once."""
        queue = self.queues[slot]
        if queue is not None:
            self.closed[slot] = True
            self.suspended[slot] = False
            queue.close()
            queue.close()

    def leave(self, slot: int) -> None:
        """Lets a queue go that may have work, and be in functions that are to run."""
        self.resume(slot, drop=False)
        self.queues[slot] = None


class Thread:
    """What one thread of the program does. It alone holds, ends and waits for its queues."""

    def __init__(self, run: Run, number: int, of: int) -> None:
        self.run = run
        self.name = f"thread {number}"
        self.own = [slot for slot in range(len(run.queues)) if slot % of == number]
        self.made: List[Tuple[Command, int]] = []
        self.submitted: List[Tuple[Command, int]] = []

    def do(self, operations: List[Any]) -> None:
        """Does all of them."""
        try:
            for name, *arguments in operations:
                getattr(self, name)(*arguments)
        except BaseException as error:
            self.run.wrong.append(f"{self.name}: {type(error).__name__}: {error}")

    def _own(self, slot: int) -> int:
        return self.own[slot % len(self.own)]

    def submit(self, slot: int, spec: Dict[str, Any]) -> None:
        """Submits a new command to any queue."""
        self._submit(slot, *self.run.command(spec))

    def _submit(self, slot: int, command: Command, number: int) -> None:
        if self.run.submit(slot, command, number, self.name):
            if self.run.notes[number].slot in self.own:
                self.submitted.append((command, number))

    def fail(self, slot: int, spec: Dict[str, Any], count: int) -> None:
        """Submits so many, whose exceptions are more than are kept."""
        for _ in range(count):
            self.run.submit(slot, *self.run.command(spec), self.name)

    def make(self, spec: Dict[str, Any]) -> None:
        """Makes a command."""
        self.made.append(self.run.command(spec))

    def submit_made(self, slot: int) -> None:
        """Submits the latest that was made, and is there still."""
        if self.made:
            self._submit(slot, *self.made.pop())

    def drop_made(self) -> None:
        """Lets go of what was made."""
        self.made.clear()

    def launch(self, spec: Dict[str, Any]) -> None:
        """Launches a command past the queues."""
        command, number = self.run.command(spec)
        note = self.run.notes[number]
        note.is_launched, note.place = True, next(self.run.places)
        try:
            self.run.hardware.launch(command)
        except xsched.XSchedError:
            if not note.fails:
                raise

    def suspend(self, slot: int, flags: Dict[str, bool]) -> None:
        """Holds a queue."""
        self.run.suspend(self._own(slot), flags)

    def resume(self, slot: int, drop: bool) -> None:
        """Ends its hold."""
        self.run.resume(self._own(slot), drop=drop)

    def wait(self, slot: int) -> None:
        """Waits for a queue."""
        self.run.wait(self._own(slot), self.name)

    def wait_for_one(self) -> None:
        """Waits for the latest command that was submitted."""
        if self.submitted:
            self.run.wait_for(*self.submitted.pop())

    def close(self, slot: int) -> None:
        """Closes a queue."""
        self.run.close(self._own(slot))

    def leave(self, slot: int) -> None:
        """Lets a queue go."""
        self.run.leave(self._own(slot))

    def collect(self) -> None:
        """Has the garbage collector look."""
        gc.collect()


def alarms(run: Run) -> Iterator[None]:
    """Interrupts the main thread, wherever it is, with code that makes and destroys commands."""
    spec = {"on_device": False, "holds": [], "own": False, "queue": None, "submits": []}
    spec.update(waits=None, collects=False, raises=False, carries=None, returns="nothing")
    outer = dict(spec, holds=[spec])
    is_on = True

    def on_alarm(*_: object) -> None:
        Work(run, outer).make(lambda _: None)
        if is_on:
            # Not by a period: one that is shorter than this function nests its calls.
            signal.setitimer(signal.ITIMER_REAL, ALARM_S)

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, ALARM_S)
    yield
    is_on = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def end(run: Run) -> None:
    """Ends the queues, each after what was submitted to it."""
    for slot, queue in enumerate(run.queues):
        if queue is not None and not run.closed[slot]:
            run.resume(slot, drop=False)
    for slot, queue in enumerate(run.queues):
        if queue is not None and not run.closed[slot]:
            run.wait(slot)
    for slot in range(len(run.queues)):
        run.close(slot)
    run.hardware.synchronize()
    run.hardware.close()
    run.queues = []


def patiently(is_done: Any) -> bool:
    """Waits until it is, and answers whether that is so."""
    start = time.monotonic()
    while not is_done():
        if time.monotonic() - start > PATIENCE_S:
            return False
        time.sleep(0.001)
    return True


def check_calls(run: Run) -> None:
    """Each function that was submitted has been called once, in order, and no other has."""

    def wanted(number: int, note: Note) -> bool:
        return note.is_launched or note.slot is not None and not run.may_be_dropped(note)

    def missing() -> List[int]:
        ran = set(run.ran)
        return [n for n, note in run.notes.copy().items() if wanted(n, note) and n not in ran]

    if not patiently(lambda: not missing()):
        run.wrong.append(f"functions that were not called: {missing()}")
    twice = {number for number in run.ran if run.ran.count(number) > 1}
    if twice:
        run.wrong.append(f"functions that were called twice: {twice}")
    extra = [number for number in run.ran if run.notes[number].place is None]
    if extra:
        run.wrong.append(f"functions that were called and not submitted: {extra}")
    last: Dict[Tuple[Optional[int], str, bool], int] = {}
    for number in run.ran:
        note = run.notes[number]
        key = (note.slot, note.submitter, note.on_device)
        place = note.place or 0
        if note.slot is not None and place < last.get(key, -1):
            run.wrong.append(f"function {number} was called after a later one")
        last[key] = place


def check_freed(run: Run, handles: List[int]) -> None:
    """Nothing is kept, where no command was dropped: one that is dropped while others submit keeps
    its function now and then."""
    for handle in [*handles, 0]:
        while callbacks.failure_in(handle) is not None:
            pass

    def is_gone() -> bool:
        gc.collect()
        return len(callbacks) == 0 and not any(reference() for reference in run.alive)

    if not any(run.dropped) and not patiently(is_gone):
        kept = [n for n, reference in enumerate(run.alive) if reference() is not None]
        run.wrong.append(f"functions that are not freed: {kept}; {len(callbacks)} are to run")


def carry_out(program: Dict[str, Any]) -> List[str]:
    """Does what the program says, and answers what is wrong."""
    runtime = Runtime()
    if program["policy"] is None:
        runtime.set_app_managed()
    else:
        runtime.set_policy(program["policy"])
    gc.set_threshold(program["gc"])
    run = Run(program)
    interrupts = alarms(run) if program["alarms"] else iter([None])
    next(interrupts)
    scripts = program["threads"]
    rest = [
        threading.Thread(target=Thread(run, number, len(scripts)).do, args=(script,))
        for number, script in enumerate(scripts)
        if number > 0
    ]
    for thread in rest:
        thread.start()
    Thread(run, 0, len(scripts)).do(scripts[0])
    for thread in rest:
        thread.join()
    del rest
    next(interrupts, None)
    handles = run.handles
    try:
        end(run)
    except xsched.XSchedError as error:
        run.wrong.append(f"the end: {error!r}")
    check_calls(run)
    check_freed(run, handles)
    gc.set_threshold(700)
    return run.wrong


def main() -> None:
    faulthandler.enable()
    for line in sys.stdin:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            wrong = carry_out(json.loads(line))
        except Exception:
            wrong = traceback.format_exc().splitlines()
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(wrong), flush=True)


if __name__ == "__main__":
    main()
