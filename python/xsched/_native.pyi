"""The extension module. Use `xsched.sim` and `xsched`."""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

__version__: str

class RawScenario:
    @staticmethod
    def load(path: str) -> RawScenario: ...
    @staticmethod
    def parse(text: str, file: str) -> RawScenario: ...
    @staticmethod
    def from_json(json: str, file: str) -> RawScenario: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def policy(self) -> str: ...
    @property
    def level(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def seeds(self) -> int: ...
    @property
    def devices(self) -> list[str]: ...
    @property
    def tasks(self) -> list[str]: ...

class RawOutcome:
    def head(self) -> dict[str, Any]: ...
    def tasks(self) -> list[dict[str, Any]]: ...
    def devices(self) -> list[dict[str, Any]]: ...
    def checks(self) -> list[tuple[str, int, int, Optional[str]]]: ...
    def spans(self) -> list[tuple[int, str, int, int, int]]: ...
    def spans_dropped(self) -> int: ...
    def to_json(self) -> str: ...
    def trace_json(self) -> str: ...
    def latency_svg(self) -> str: ...

class QueueView:
    """A queue as it was when the policy was asked. Equal if it is the same queue."""

    @property
    def id(self) -> int:
        """Unique in a run; a queue that comes later in the same place has another."""
    @property
    def index(self) -> int:
        """Its place in the table, from 0."""
    @property
    def device(self) -> int:
        """The number of its device, from 0 in the order of the scenario."""
    @property
    def process(self) -> int:
        """The number of its process."""
    @property
    def ready(self) -> bool:
        """Whether it has work that it could run if it were let."""
    @property
    def running(self) -> bool:
        """Whether it may run now."""
    @property
    def held(self) -> Optional[int]:
        """The level of the hold that is in effect, 1 to 3."""
    @property
    def priority(self) -> int:
        """-255 (lowest) to 255 (highest), or -256: must not run."""
    @property
    def utilization(self) -> Optional[int]:
        """The share it shall have, 0 to 100 percent."""
    @property
    def weight(self) -> int:
        """For fair policies, at least 1."""
    @property
    def deadline_ns(self) -> Optional[int]:
        """After becoming ready, in nanoseconds."""
    @property
    def laxity(self) -> Optional[tuple[int, int, int]]:
        """Laxity in nanoseconds after becoming ready, the priority until then, and from then on."""
    @property
    def active_window(self) -> bool:
        """Whether it belongs to the active window."""
    @property
    def ready_since_ns(self) -> int:
        """When it last became ready, in nanoseconds of simulated time."""
    @property
    def submitted(self) -> int:
        """Commands submitted so far."""
    @property
    def launched(self) -> int:
        """Commands launched so far."""
    @property
    def retired(self) -> int:
        """Commands completed so far."""
    @property
    def busy_ns(self) -> int:
        """Device time used so far, as far as it was reported."""

class Table:
    """All queues, as they were when the policy was asked."""

    @property
    def devices(self) -> list[int]:
        """The numbers of the devices."""
    def queues(self, device: Optional[int] = None) -> list[QueueView]:
        """The queues, of all devices or of one, in table order."""
    def ready(self, device: Optional[int] = None) -> list[QueueView]:
        """The ready queues, of all devices or of one, in table order."""
    def get(self, queue: int) -> Optional[QueueView]:
        """The queue with this id."""
    def top_ready(self, device: int) -> Optional[int]:
        """The highest priority among a device's ready queues; those that must not run do not count."""
    def __len__(self) -> int: ...

class Event:
    """What happened to a queue."""

    @property
    def kind(self) -> str:
        """attached, detached, ready, idle, progress, held, resumed, hinted, failed_open or lost."""
    @property
    def busy_ns(self) -> Optional[int]:
        """For progress: device time in nanoseconds since the last such event."""
    @property
    def level(self) -> Optional[int]:
        """For held: how deep, 1 to 3."""

class Decisions:
    """Takes what a policy decides, while it is asked."""

    def run(self, queue: Union[QueueView, int]) -> None:
        """The queue may run (subject to the floor of its device)."""
    def hold(self, queue: Union[QueueView, int], within_ns: int = 0) -> None:
        """The queue is held. It is off the device within this time, or as soon as can be with 0."""
    def floor(self, device: int, priority: Optional[int], within_ns: int = 0) -> None:
        """The queues of the device below this priority are held; None removes the floor."""
    def wake_at(self, at_ns: int) -> None:
        """Asks the policy again at this simulated time. The earliest of all such requests counts."""

class Callbacks:
    """Functions that are still to run, and what those that have run raised.

    What a method lets go of is freed once it has ended."""

    def add(self, function: Optional[Any], lent: Optional[Any]) -> int:
        """A number for a function, or for that of a weak reference, whose command has an object."""
    def name(self, number: int, command: int) -> None:
        """Says which command the function became."""
    def forget(self, number: int) -> None:
        """The function will not run."""
    def forget_all(self, numbers: list[int]) -> None:
        """These functions will not run."""
    def destroyed(self, command: int) -> None:
        """The command was destroyed."""
    def submitting(self, queue: int, command: int) -> None:
        """The command goes into a queue, or (0) to hardware: from now on the function is kept. A drop
        there is not announced: see `submitted_to`."""
    def submitted(self, command: int) -> None:
        """The library has the command."""
    def refused(self, command: int) -> None:
        """The library did not take the command, which is its object's again."""
    def submitted_to(self, queue: int) -> list[int]:
        """The functions in the queue that have not been called. When it has done all that is in it
        now, those that still have not were dropped: `forget_all` them."""
    def closed(self, queue: int) -> None:
        """The queue is gone, and what it had not run will not run."""
    def function(self, number: int) -> Optional[Any]:
        """The function with this number, which is to run now."""
    def ended(self, number: int, exception: Optional[BaseException]) -> None:
        """The function has run, and raised this or nothing."""
    def failure(self, command: int) -> Optional[BaseException]:
        """What the function of the command raised, once."""
    def failure_in(self, queue: int) -> Optional[BaseException]:
        """The first that a function in the queue raised and no call has returned yet, once."""
    def clear(self) -> None:
        """Forgets all, in the child of a fork: what waited waits in the parent."""
    def __len__(self) -> int:
        """How many functions are still to run."""

INTERPOSERS: list[str]

def main(arguments: list[str], folders: list[str]) -> int: ...
def launch_address(launcher: Callable[[int, int], int]) -> int: ...
def close_launches(limit_ms: int) -> bool: ...
def reset_launches() -> None: ...
def policy_names() -> list[str]: ...
def run(
    scenario: RawScenario,
    policy: Any,
    *,
    level: Optional[int],
    seed: Optional[int],
    checks: bool,
    timeline_spans: int,
    by_cost: bool,
) -> RawOutcome: ...
def compare(
    scenario: RawScenario,
    policies: list[Union[str, Callable[[], Any]]],
    *,
    levels: list[int],
    seed: Optional[int],
    seeds: int,
    threads: Optional[int],
) -> tuple[list[dict[str, Any]], str, int]: ...
