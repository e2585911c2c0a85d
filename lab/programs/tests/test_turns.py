"""What turns cost is found from when kernels ran."""

import unittest

import turns

# Kernels of 10 µs. The first program has 20 µs, the other one 10, and what runs is cut short once.
KERNELS = [
    (0, 10_000, 0), (10_000, 20_000, 0),
    (21_000, 31_000, 1),
    (33_000, 43_000, 0), (43_000, 53_000, 0), (53_000, 65_000, 0),
    (60_000, 72_000, 1),
    (73_000, 83_000, 0),
]
ALONE_NS = [10_000, 10_000]


class Turns(unittest.TestCase):
    def test_kernels_are_told_apart_by_their_program(self):
        found = turns.turns_of(KERNELS)
        self.assertEqual([(who, len(row)) for who, row in found], [(0, 2), (1, 1), (0, 3), (1, 1), (0, 1)])

    def test_what_ran_at_a_time_is_counted_once(self):
        self.assertEqual(turns.both_ns(KERNELS), 5_000)

    def test_costs_are_those_of_whole_turns(self):
        first, other = turns.costs(turns.turns_of(KERNELS), ALONE_NS)
        self.assertEqual(first, {"turns": 1, "turn": 27, "lost": -3, "first": 0, "inner": 0, "last": 2,
                                 "gap": -5})
        # Turns of 12 and 13 µs, with a kernel each.
        self.assertEqual(other, {"turns": 2, "turn": 12.5, "lost": 2.5, "first": 1, "inner": None,
                                 "last": 1, "gap": 1.5})


if __name__ == "__main__":
    unittest.main()
