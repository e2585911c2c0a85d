"""What is worse without a mechanism is found from the blocks of each round."""

import contextlib
import io
import unittest

import ablate

COUNTS = {"holds": 3, "direct_holds": 2}
DEFAULT = [{"p50": 2.0 + n / 100, "p99": 4.0, "kept": 10.0, "daemon": .05, "counts": COUNTS}
           for n in range(5)]


def without(noise=0, **scale):
    """Blocks that are as the default ones but for these factors, and this noise of each round."""
    def figures(n, one):
        return {figure: one[figure] * scale.get(figure, 1) * (1 + noise * (-1) ** n)
                for figure in ablate.FIGURES}
    return [{"counts": COUNTS, **figures(n, one)} for n, one in enumerate(DEFAULT)]


class Ablate(unittest.TestCase):
    def row(self, blocks, name="gates", work="graph"):
        return ablate.row_of({"work": work, "beside": "gemm"}, name, DEFAULT, blocks)

    def test_a_figure_changes_if_its_interval_does_not_contain_one(self):
        self.assertEqual(self.row(without())["changes"], [])
        self.assertEqual(self.row(without(noise=.3, p50=1.1))["changes"], [])
        row = self.row(without(noise=.001, p50=1.1, kept=1.2))
        self.assertEqual((row["changes"], row["is_worse"]), (["p50", "kept"], ["p50"]))
        self.assertEqual(row["counts"]["without"], {"holds": 15, "direct_holds": 10})
        mean, low, high = row["p50"]
        self.assertTrue(1 < low <= mean <= high < 1.2, row)

    def test_less_of_the_other_program_is_worse(self):
        row = self.row(without(noise=.001, kept=.5, daemon=.5))
        self.assertEqual((row["changes"], row["is_worse"]), (["kept", "daemon"], ["kept"]))

    def test_mechanisms_have_their_cells(self):
        rows = [self.row(without(p50=2)), self.row(without(p50=2), work="eager"),
                self.row(without(kept=2), name="floor"), self.row(without(), name="stall")]
        self.assertEqual(ablate.summary(rows), {
            "gates": {"worse": ["graph beside gemm: p50", "eager beside gemm: p50"], "better": []},
            "floor": {"worse": [], "better": ["graph beside gemm: kept"]},
            "stall": {"worse": [], "better": []}})

    def test_names_that_there_are_not_are_refused(self):
        for arguments in (["--only", "gate"], ["--rounds", "1"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                ablate.parsed(["--build", "x", *arguments])


if __name__ == "__main__":
    unittest.main()
