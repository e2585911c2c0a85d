"""The scheduler of this process."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Any, Dict, List, Optional, Type, Union

from ._capi import XSched
from ._streams import Backend
from ._types import TIMESLICE_MAX, TIMESLICE_MIN, XPolicyType, XSchedulerType
from .errors import check
from .queues import Queue, _within

__all__ = ["Runtime"]

_POLICIES: Dict[str, XPolicyType] = {
    "fcfs": XPolicyType.kPolicyFirstComeFirstServed,
    "hpf": XPolicyType.kPolicyHighestPriorityFirst,
    "hhpf": XPolicyType.kPolicyHeterogeneousHighestPriorityFirst,
    "chpf": XPolicyType.kPolicyCPUHighestPriorityFirst,
    "edf": XPolicyType.kPolicyEarliestDeadlineFirst,
    "kedf": XPolicyType.kPolicyKEarliestDeadlineFirst,
    "lax": XPolicyType.kPolicyLaxity,
    "up": XPolicyType.kPolicyUtilizationPartition,
    "wfq": XPolicyType.kPolicyWeightedFairQueueing,
    "awf": XPolicyType.kPolicyActiveWindowFirst,
    "mlfq": XPolicyType.kPolicyMultiLevelFeedbackQueue,
    "cfs": XPolicyType.kPolicyCompletelyFairScheduler,
    "pup": XPolicyType.kPolicyProcessUtilizationPartition,
    "spup": XPolicyType.kPolicyStrictProcessUtilizationPartition,
    "strict_edf": XPolicyType.kPolicyStrictEarliestDeadlineFirst,
    "strict_kedf": XPolicyType.kPolicyStrictKEarliestDeadlineFirst,
    "strict_up": XPolicyType.kPolicyStrictUtilizationPartition,
    "strict_wfq": XPolicyType.kPolicyStrictWeightedFairQueueing,
}


class Runtime:
    """The scheduler of this process, and the queues that were made through this object.

        with Runtime("hpf") as runtime:
            urgent = runtime.host_queue(priority=10, level=3)

    There is one scheduler per process, so two of these set the same one. Closing closes the queues,
    after all that was submitted to them has run; the scheduler goes on. A queue that the program does
    not keep closes by itself.
    """

    #: The names of policies, the same as in the simulator and in `XSCHED_POLICY`.
    POLICIES = tuple(_POLICIES)

    def __init__(
        self,
        policy: Union[str, XPolicyType, None] = None,
        *,
        timeslice_us: Optional[int] = None,
        k: Optional[int] = None,
        floor: Optional[float] = None,
    ) -> None:
        """Puts a policy in charge, by a name of POLICIES. None leaves what is.

        Raises ValueError for an unknown name or a number out of range.
        """
        self._queues: List[weakref.ref[Queue]] = []
        if policy is not None:
            self.set_policy(policy)
        if timeslice_us is not None:
            self.set_timeslice(timeslice_us)
        if k is not None:
            self.set_k(k)
        if floor is not None:
            self.set_floor(floor)

    def set_policy(self, policy: Union[str, XPolicyType]) -> None:
        """Puts a policy in charge. Raises ValueError for an unknown name."""
        if isinstance(policy, str):
            name = policy.lower().replace("-", "_")
            if name not in _POLICIES:
                raise ValueError(f"no policy {policy!r}; there are {', '.join(self.POLICIES)}")
            policy = _POLICIES[name]
        check("XHintSetScheduler", XSched.XHintSetScheduler(XSchedulerType.kSchedulerLocal, policy))

    def set_app_managed(self) -> None:
        """Lets no policy decide: only `Queue.suspend` and `Queue.resume` hold queues."""
        scheduler = XSchedulerType.kSchedulerAppManaged
        result = XSched.XHintSetScheduler(scheduler, XPolicyType.kPolicyUnknown)
        check("XHintSetScheduler", result)

    def set_timeslice(self, timeslice_us: int) -> None:
        """Sets how long a turn is, 100 to 10,000,000 microseconds, for policies that take turns."""
        timeslice_us = _within("XHintTimeslice", timeslice_us, TIMESLICE_MIN, TIMESLICE_MAX)
        check("XHintTimeslice", XSched.XHintTimeslice(timeslice_us))

    def set_k(self, k: int) -> None:
        """Sets how many queues run at once under `kedf`, 1 to 65,536. Raises ValueError outside."""
        k = _within("XHintKDeadline", k, 1, 65_536)
        check("XHintKDeadline", XSched.XHintKDeadline(k))

    def set_floor(self, ratio: float) -> None:
        """Sets the part of the device's time for queues below the highest priority, 0 to 0.5.

        It counts under policies by priority. Raises ValueError outside.
        """
        check("XHintFloor", XSched.XHintFloor(ratio))

    def queue(self, stream: Any, backend: Optional[Backend] = None, **options: Any) -> Queue:
        """A queue on a stream: see `Queue.of_stream`."""
        return self._keep(Queue.of_stream(stream, backend, **options))

    def host_queue(self, **options: Any) -> Queue:
        """A queue on the processor: see `Queue.on_host`."""
        return self._keep(Queue.on_host(**options))

    def _keep(self, queue: Queue) -> Queue:
        alive = [(known, known()) for known in self._queues]
        self._queues = [known for known, it in alive if it is not None and it.handle]
        self._queues.append(weakref.ref(queue))
        return queue

    def close(self) -> None:
        """Closes the queues that were made through this. Raises what the first failed with."""
        queues, self._queues = [known() for known in self._queues], []
        errors: List[Exception] = []
        for queue in queues:
            try:
                if queue is not None:
                    queue.close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
