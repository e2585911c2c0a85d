"""Policies that are written in Python."""

from __future__ import annotations

import json
from typing import Any, Optional

import pytest

from xsched import sim
from xsched.sim import Decisions, Event, Policy, QueueView, Table


class Highest(Policy):
    """Highest priority first, by floors."""

    name = "highest"

    def decide(
        self, now_ns: int, changed: Optional[list[QueueView]], table: Table, out: Decisions
    ) -> None:
        for device in table.devices:
            out.floor(device, table.top_ready(device))


class HighestByQueues(Highest):
    """The same, by a verdict for each queue."""

    def decide(
        self, now_ns: int, changed: Optional[list[QueueView]], table: Table, out: Decisions
    ) -> None:
        for device in table.devices:
            top = table.top_ready(device)
            for queue in table.queues(device):
                if top is not None and queue.priority < top:
                    out.hold(queue)
                else:
                    out.run(queue.id)


class TakeTurns(Policy):
    """Ready queues take turns, each for a slice of device time."""

    name = "take-turns"
    SLICE_NS = 1_000_000
    progress_every_ns = SLICE_NS // 4

    def __init__(self) -> None:
        self.used: dict[int, int] = {}
        self.kinds: set[str] = set()

    def observe(self, now_ns: int, queue: QueueView, event: Event, table: Table) -> None:
        self.kinds.add(event.kind)
        if event.kind == "progress":
            assert event.busy_ns is not None
            self.used[queue.id] = self.used.get(queue.id, 0) + event.busy_ns
        elif event.kind == "ready":
            others = [self.used.get(q.id, 0) for q in table.ready(queue.device) if q != queue]
            self.used[queue.id] = max(self.used.get(queue.id, 0), min(others, default=0))
        elif event.kind == "held":
            assert event.level in (1, 2, 3)

    def decide(
        self, now_ns: int, changed: Optional[list[QueueView]], table: Table, out: Decisions
    ) -> None:
        for device in table.devices:
            ready = table.ready(device)
            turn = min(
                ready, key=lambda q: (self.used.get(q.id, 0) // self.SLICE_NS, q.id), default=None
            )
            for queue in table.queues(device):
                if turn is None or queue == turn:
                    out.run(queue)
                else:
                    out.hold(queue)


def figures(outcome: sim.Outcome) -> Any:
    return {**json.loads(outcome.to_json()), "policy": ""}


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("policy", [Highest, HighestByQueues])
def test_highest_priority_first_decides_as_the_built_in_one(
    bert: sim.Scenario, policy: type[Policy], level: int
) -> None:
    for seed in range(5):
        ours = sim.run(bert, policy(), level=level, seed=seed)
        assert ours.policy == "highest"
        assert figures(ours) == figures(sim.run(bert, "hpf", level=level, seed=seed))
        assert ours.violations == 0


def test_another_policy_decides_otherwise(bert: sim.Scenario) -> None:
    assert figures(sim.run(bert, Highest())) != figures(sim.run(bert, "fcfs"))


def test_turns_are_taken_by_device_time(small: dict[str, Any]) -> None:
    small["task"][1]["command"] = {"kind": "constant", "us": 400}
    policy = TakeTurns()
    outcome = sim.run(small, policy, level=3)
    high, low = (task.device_time_ns for task in outcome.tasks)
    # Round robin by commands would give 1 : 4.
    assert 0.5 < high / low < 2
    assert {"attached", "ready", "progress", "held", "resumed"} <= policy.kinds
    assert outcome.violations == 0


def test_it_is_asked_again_when_it_wants(small: dict[str, Any]) -> None:
    class Ticking(Policy):
        def __init__(self) -> None:
            self.ticks: list[int] = []

        def decide(
            self, now_ns: int, changed: Optional[list[QueueView]], table: Table, out: Decisions
        ) -> None:
            if now_ns % 1_000_000 == 0:
                self.ticks.append(now_ns)
            out.wake_at((now_ns // 1_000_000 + 1) * 1_000_000)

    policy = Ticking()
    sim.run(small, policy)
    assert set(range(1_000_000, 49_000_000, 1_000_000)) <= set(policy.ticks)


def test_the_table_shows_what_is_known(small: dict[str, Any]) -> None:
    class Looking(Policy):
        seen: list[str] = []

        def decide(
            self, now_ns: int, changed: Optional[list[QueueView]], table: Table, out: Decisions
        ) -> None:
            if len(table) < 2:
                return
            low, high = sorted(table.queues(), key=lambda q: q.priority)
            assert (low.priority, high.priority) == (1, 2)
            assert table.get(low.id) == low != high and table.get(1 << 40) is None
            assert (low.device, low.weight, low.deadline_ns, low.laxity) == (0, 1, None, None)
            assert low.submitted >= low.launched >= low.retired
            assert low.ready_since_ns <= now_ns
            assert table.top_ready(0) in (None, 1, 2) and table.top_ready(9) is None
            assert table.queues(9) == []
            assert changed is None or set(changed) <= {low, high}
            assert repr(low).startswith("QueueView(id=")
            self.seen.append(repr(low))

    sim.run(small, Looking())
    assert Looking.seen


def test_settings_reach_it(small: dict[str, Any]) -> None:
    class Set(Highest):
        got: dict[str, Optional[int]] = {}

        def configure(self, hint: str, value: Optional[int]) -> bool:
            self.got[hint] = value
            return True

    sim.run({**small, "timeslice_us": 2_000, "k": 3}, Set())
    assert Set.got == {"timeslice_ns": 2_000_000, "k": 3}


@pytest.mark.parametrize("where", ["decide", "observe", "configure"])
def test_what_it_raises_comes_out_of_run(small: dict[str, Any], where: str) -> None:
    class Failing(Highest):
        calls = 0

        def fail(self, *_: object) -> bool:
            Failing.calls += 1
            if where == "configure" or Failing.calls == 20:
                raise ZeroDivisionError(where)
            return False

    setattr(Failing, where, Failing.fail)
    with pytest.raises(ZeroDivisionError, match=where):
        sim.run({**small, "k": 2}, Failing())
    # It is not asked again.
    assert Failing.calls == (1 if where == "configure" else 20)


def test_a_policy_that_held_all_queues_and_failed_does_not_hang_the_run(bert: sim.Scenario) -> None:
    class HoldsAll(Policy):
        calls = 0

        def decide(
            self, now_ns: int, changed: Optional[list[QueueView]], table: Table, out: Decisions
        ) -> None:
            self.calls += 1
            if self.calls > 30:
                raise RuntimeError("gave up")
            out.floor(0, 255)
            for queue in table.queues():
                out.hold(queue)
            out.wake_at(now_ns + 1_000_000)

    with pytest.raises(RuntimeError, match="gave up"):
        sim.run(bert, HoldsAll())


def test_wrong_decisions_are_refused(small: dict[str, Any]) -> None:
    kept: list[Decisions] = []

    class Wrong(Highest):
        def decide(
            self, now_ns: int, changed: Optional[list[QueueView]], table: Table, out: Decisions
        ) -> None:
            with pytest.raises(ValueError, match="priority must be -256 to 255, is 999"):
                out.floor(0, 999)
            with pytest.raises(TypeError, match="a queue of the table or its id"):
                out.run("q")  # type: ignore[arg-type]
            with pytest.raises(OverflowError):
                out.wake_at(-1)
            # No queue has these.
            out.run(1 << 40)
            out.floor(77, 3)
            kept.append(out)
            super().decide(now_ns, changed, table, out)

    assert figures(sim.run(small, Wrong(), level=2)) == figures(sim.run(small, "hpf", level=2))
    with pytest.raises(RuntimeError, match="count only until `decide` returns"):
        kept[0].run(0)


def test_a_policy_must_decide(small: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError, match="Policy must have a method `decide`"):
        sim.run(small, Policy())

    class Odd(Highest):
        name = 3  # type: ignore[assignment]

    with pytest.raises(TypeError):
        sim.run(small, Odd())


def test_a_policy_that_never_holds_says_so(small: dict[str, Any]) -> None:
    class Never(Highest):
        holds = False

    small["device"][0]["max_level"] = 1
    with pytest.raises(ValueError, match="asks for level 3"):
        sim.run(small, Highest(), level=3)
    assert sim.run(small, Never(), level=3).violations == 0


def test_policies_in_python_are_compared_with_others(bert: sim.Scenario) -> None:
    made = []

    def make() -> Policy:
        made.append(Highest())
        return made[-1]

    comparison = sim.compare(bert, ["hpf", make], levels=[2], seeds=3)
    assert len(made) == 3
    theirs, ours = comparison.rows[:3], comparison.rows[3:]
    assert [row.policy for row in ours] == ["highest"] * 3
    assert [row.p99_ms for row in ours] == [row.p99_ms for row in theirs]
    assert all(row.p99_ratio == 1 for row in comparison.rows)
