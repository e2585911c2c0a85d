"""Three threads with a BERT each: alone, at once, one after the other, and under priorities.

    python test_multi_priority_bert.py [--requests 20] [--out FILE]
    xsched run -- python test_multi_priority_bert.py --xsched

The plan's 5.1 to 5.4. With `--xsched` the last part gives each stream an XQueue with its priority
through the C interface, where XSched's libraries are; without, streams have the device's own
priorities, which XSched takes if the program runs under it.
"""

import sys

from lab_process import bert_tasks, statistics_ms

TASKS = {"Task-A": 3, "Task-B": 2, "Task-C": 1}
HIGH, LOW = "Task-A", "Task-C"
NOTES = ("with so few requests the P99 is the maximum; in this closed loop priorities cannot make the "
         "low task much slower than the high one, so the high one is compared with itself alone")


def results(alone, together, sequence, ranked):
    """What the record has as results."""
    high, low = ranked["tasks"][HIGH], ranked["tasks"][LOW]
    lone = alone["tasks"][HIGH]
    return {
        "alone": alone, "together": together, "one_after_the_other": sequence, "priorities": ranked,
        "high_p99_over_alone": round(high["p99_ms"] / lone["p99_ms"], 3),
        "high_mean_over_alone": round(high["mean_ms"] / lone["mean_ms"], 3),
        "low_over_high_mean": round(low["mean_ms"] / high["mean_ms"], 3),
        "rate_kept": round(ranked["requests_per_s"] / together["requests_per_s"], 3),
    }


def main():
    parser = bert_tasks.arguments(__doc__.splitlines()[0])
    parser.add_argument("--xsched", action="store_true", help="XQueues through the C interface")
    given = parser.parse_args()
    plain = bert_tasks.Tasks(given, TASKS)
    alone, together = plain.run(HIGH), plain.run()
    sequence = [plain.run(name, pause_ms=10) for name in (HIGH, "Task-B")]
    ready = plain.ready
    plain.close()
    # Streams that have priorities are others than those that have none.
    tasks = bert_tasks.Tasks(given, TASKS, priorities=True, with_queues=given.xsched)
    ranked = tasks.run()
    tasks.close()
    found = results(alone, together, sequence, ranked)
    passed = found["high_p99_over_alone"] <= 1.10 and found["rate_kept"] >= 0.90
    written = statistics_ms.record("5.4", "BERT under priority, three tasks", ready, found, passed, NOTES)
    bert_tasks.show(given, written, ("alone", alone), ("together", together), ("priorities", ranked))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(bert_tasks.main(main))
