"""How a role makes requests, with a work that sleeps."""

import os
import threading
import time
import unittest

from lab_process import loads, spec
from lab_process.role import NOW, Role, Taken
from lab_process.works.language import Source

REQUEST_S = 0.004


class Sleeps:
    """The end of a request on a device that runs one at a time."""

    def __init__(self, role):
        self.role, self.end_s = role, 0

    def record(self, stream=None):
        self.end_s = self.role.busy_until_s

    def synchronize(self):
        time.sleep(max(0, self.end_s - time.monotonic()))
        self.role.flying -= 1


class Device:
    """What a role needs of a device."""

    def __init__(self):
        self.role = None

    def event(self):
        return Sleeps(self.role)


class Sleeper(Role):
    """A role whose requests take a while on the device, and no time of the host."""

    def __init__(self, processor=None):
        process = spec.Spec("cpu", ())
        device = Device()
        super().__init__(spec.Role("high", "bert-base", processor=processor), process, device)
        device.role, self.event = self, Sleeps(self)
        self.busy_until_s, self.flying, self.most = 0, 0, 0

    def launch(self):
        self.busy_until_s = max(time.monotonic(), self.busy_until_s) + REQUEST_S
        self.flying += 1
        self.most = max(self.most, self.flying)


class Loops(unittest.TestCase):
    def setUp(self):
        self.role, self.taken = Sleeper(), Taken()
        self.addCleanup(self.role.close)

    def spans_ms(self):
        pairs = zip(self.taken.begin_ns, self.taken.end_ns)
        return [(end - begin) / 1e6 for begin, end in pairs]

    def test_a_closed_loop_ends_after_its_requests(self):
        load, numbers = loads.Load("closed", pause_ms=1, requests=3), loads.source(1, "high")
        self.role.closed(load, numbers, NOW() + int(5e9), self.taken)
        self.assertEqual(len(self.taken.end_ns), 3)
        self.assertTrue(all(span >= REQUEST_S * 1e3 for span in self.spans_ms()))

    def test_a_closed_loop_ends_with_its_phase(self):
        load, numbers = loads.Load("closed", pause_ms=60_000), loads.source(1, "high")
        begin = NOW()
        self.role.closed(load, numbers, begin + int(0.05e9), self.taken)
        self.assertEqual(len(self.taken.end_ns), 1)
        self.assertLess(NOW() - begin, 30e9)

    def test_in_an_open_loop_requests_wait_for_those_before_them(self):
        begin = NOW()
        # Five arrivals at once: the last one waits for four.
        self.role.open(iter([0, 0, 0, 0, 0, int(60e9)]), begin, begin + int(1e9), self.taken)
        self.assertEqual(self.taken.begin_ns, [begin] * 5)
        self.assertGreaterEqual(self.spans_ms()[4], 5 * REQUEST_S * 1e3)

    def test_an_endless_loop_keeps_so_many_in_flight(self):
        self.role.endless(loads.Load("endless", in_flight=3), NOW() + int(0.5e9), self.taken)
        self.assertEqual(self.role.most, 3)
        self.assertEqual(self.role.flying, 0)
        self.assertGreaterEqual(len(self.taken.end_ns), 3)
        self.assertEqual(self.taken.begin_ns, sorted(self.taken.begin_ns))

    def test_a_role_keeps_to_its_processor_and_no_other_thread_does(self):
        role, own = Sleeper(processor=1), os.sched_getaffinity(0)
        self.addCleanup(role.close)
        role.begin(role.keep_to_processor)()
        kept = role.begin(lambda: os.sched_getaffinity(0))()
        self.assertEqual(kept, {sorted(own)[1 % len(own)]})
        self.assertEqual(os.sched_getaffinity(0), own)

    def test_failures_reach_the_caller(self):
        def fails():
            raise ValueError("no")
        with self.assertRaisesRegex(ValueError, "no"):
            self.role.begin(fails)()
        self.assertEqual(self.role.begin(lambda: threading.current_thread().name)(), "high")


class Requests(unittest.TestCase):
    """When a language model gets requests."""

    def source(self, load):
        return Source(load, loads.source(1, "high"), 0, 1000)

    def test_open_loops_give_what_has_arrived(self):
        source = self.source(loads.Load("periodic", every_ms=400e-6))
        self.assertEqual([source.take(450, 0) for _ in range(3)], [0, 400, None])
        # What arrives after the end of the phase does not count, however late it is asked for.
        self.assertEqual([source.take(5000, 9) for _ in range(2)], [800, None])
        self.assertTrue(source.is_over(900))

    def test_endless_loads_are_bounded_by_what_is_served(self):
        source = self.source(loads.Load("endless", in_flight=2))
        self.assertEqual([source.take(10, 1), source.take(10, 2)], [10, None])
        self.assertIsNone(source.take(1000, 0))

    def test_closed_loops_pause_after_each_request(self):
        load = loads.Load("closed", pause_ms=100e-6, requests=2)
        source = self.source(load)
        self.assertEqual(source.take(10, 0), 10)
        self.assertIsNone(source.take(11, 1))
        source.ended(50)
        self.assertEqual([source.take(149, 0), source.take(150, 0)], [None, 150])
        source.ended(200)
        self.assertIsNone(source.take(900, 0))
        self.assertTrue(source.is_over(900))


if __name__ == "__main__":
    unittest.main()
