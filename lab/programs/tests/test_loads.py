"""Kinds of load, and when requests arrive."""

import itertools
import statistics
import unittest

from lab_process import loads
from lab_process.faults import BadInput


def some(load, count, seed=1, role="high"):
    """The first arrivals of a role, in ms."""
    arrivals = loads.arrivals(load, loads.source(seed, role))
    return [ns / 1e6 for ns in itertools.islice(arrivals, count)]


class Arrivals(unittest.TestCase):
    def test_periodic_arrivals_begin_at_once(self):
        load = loads.parse({"kind": "periodic", "every_ms": 40}, "load.high")
        self.assertEqual(some(load, 4), [0, 40, 80, 120])

    def test_a_seed_gives_the_same_arrivals(self):
        for value in ({"kind": "poisson", "per_s": 60}, {"kind": "lognormal", "per_s": 60, "sigma": 2}):
            load = loads.parse(value, "load.high")
            self.assertEqual(some(load, 50), some(load, 50))
            self.assertNotEqual(some(load, 50), some(load, 50, role="low"))
            self.assertNotEqual(some(load, 50), some(load, 50, seed=2))
            parts = [loads.source(1, "high", part).random() for part in (0, 1, 2)]
            self.assertEqual(len(set(parts)), 3)
            self.assertEqual(parts[0], loads.source(1, "high").random())

    def test_arrivals_are_those_of_the_day_they_were_written(self):
        load = loads.parse({"kind": "poisson", "per_s": 100}, "load.high")
        self.assertEqual([round(one, 3) for one in some(load, 3)], [0.813, 6.837, 12.206])

    def test_rates_are_met_on_average(self):
        for value in ({"kind": "poisson", "per_s": 200},
                      {"kind": "lognormal", "per_s": 200, "sigma": 0.5}):
            arrivals = some(loads.parse(value, "load.high"), 20000)
            self.assertAlmostEqual(arrivals[-1] / 20000, 5, delta=0.15)

    def test_lognormal_times_have_the_median_of_their_sigma(self):
        load = loads.parse({"kind": "lognormal", "per_s": 100, "sigma": 2}, "load.high")
        arrivals = some(load, 20001)
        between = [later - sooner for sooner, later in zip(arrivals, arrivals[1:])]
        # The mean is exp(sigma² / 2) times the median.
        self.assertAlmostEqual(statistics.median(between), 10 / 7.389, delta=0.1)

    def test_pauses_stay_within_their_jitter(self):
        load = loads.parse({"kind": "closed", "pause_ms": 20, "jitter_ms": 5}, "load.high")
        numbers = loads.source(1, "high")
        pauses = [loads.pause_s(load, numbers) * 1e3 for _ in range(1000)]
        self.assertTrue(all(15 <= pause <= 25 for pause in pauses))
        self.assertGreater(max(pauses) - min(pauses), 9)


class Refused(unittest.TestCase):
    def refuses(self, value, said):
        with self.assertRaisesRegex(BadInput, said):
            loads.parse(value, "load.high")

    def test_what_makes_no_sense_is_refused_with_its_place(self):
        self.refuses({"kind": "often"}, r"load.high.kind: \"often\" is none of closed")
        self.refuses({"kind": "closed"}, "load.high.pause_ms: expected a number, got null")
        self.refuses({"kind": "poisson", "per_s": 0}, "load.high.per_s: 0 is below")
        self.refuses({"kind": "poisson", "per_s": "1"}, "expected a number")
        self.refuses({"kind": "poisson", "per_s": True}, "expected a number")
        self.refuses({"kind": "poisson", "per_s": float("nan")}, "expected a number")
        self.refuses({"kind": "endless", "in_flight": 0}, "in_flight: 0 is below 1")
        self.refuses({"kind": "endless", "in_flight": 2, "pause_ms": 1}, "has no pause_ms")
        self.refuses([], "expected an object")

    def test_optional_settings_may_be_left_out_or_null(self):
        load = loads.parse({"kind": "closed", "pause_ms": 20, "requests": None}, "load.high")
        self.assertEqual(load.requests, float("inf"))
        self.assertEqual(load.jitter_ms, 0)


if __name__ == "__main__":
    unittest.main()
