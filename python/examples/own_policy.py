"""A policy in Python, tried in the simulator beside the built-in ones.

    python own_policy.py
"""

from __future__ import annotations

from pathlib import Path
from typing import List, Optional

from xsched import Policy, sim

SCENARIO = Path(__file__).resolve().parents[2] / "sim" / "scenarios" / "bert-mi308x.toml"


class LeastServed(Policy):
    """On each device, the ready queue runs that has used the least device time so far."""

    name = "least-served"
    #: Queues report after so much device time.
    progress_every_ns = 250_000

    def decide(
        self,
        now_ns: int,
        changed: Optional[List[sim.QueueView]],
        table: sim.Table,
        out: sim.Decisions,
    ) -> None:
        for device in table.devices:
            turn = min(table.ready(device), key=lambda queue: queue.busy_ns, default=None)
            for queue in table.queues(device):
                if turn is None or queue == turn:
                    out.run(queue)
                else:
                    out.hold(queue)


def main() -> None:
    comparison = sim.compare(SCENARIO, ["fcfs", "hpf", LeastServed], levels=[2], seeds=20)
    print(f"{'policy':>14} {'task':>5} {'mean ms':>8} {'P99 ms':>8}")
    for row in comparison.rows:
        print(f"{row.policy:>14} {row.task:>5} {row.mean_ms:8.2f} {row.p99_ms:8.2f}")
    assert comparison.violations == 0


if __name__ == "__main__":
    main()
