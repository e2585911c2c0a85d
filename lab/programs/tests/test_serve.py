"""Requests to a server that is no vLLM: what is asked, counted and compared."""

import argparse
import asyncio
import pathlib
import random
import statistics
import sys
import tempfile
import unittest
from unittest import mock

import aiohttp

import serve

FAKE = pathlib.Path(__file__).with_name("fake_vllm.py")


class Serve(unittest.TestCase):
    def test_lengths_have_the_median_and_mean_of_the_trace(self):
        draw = random.Random(1)
        lengths = [serve.length(draw, *serve.ANSWER[:2], 100000) for _ in range(50000)]
        self.assertAlmostEqual(statistics.median(lengths) / serve.ANSWER[0], 1, delta=.03)
        self.assertAlmostEqual(statistics.mean(lengths) / serve.ANSWER[1], 1, delta=.03)

    def test_figures_are_ratios_with_intervals_around_them(self):
        draw = random.Random(2)

        def drawn(scale):
            return [([scale * draw.uniform(9, 11)], [scale * draw.uniform(1, 2) for _ in range(50)])
                    for _ in range(300)]
        alone = drawn(1)
        found = serve.figures(drawn(1.5), alone)
        for name in ("first_p50", "first_p99", "gap_p50", "gap_p99"):
            ratio, low, high = found[f"{name}_over_alone"]
            self.assertTrue(low <= ratio <= high, found)
            self.assertAlmostEqual(ratio, 1.5, delta=.1)
        ratio, low, high = serve.figures(alone, alone)["gap_p99_over_alone"]
        self.assertEqual(ratio, 1)
        self.assertTrue(low < 1 < high)

    def test_arrivals_wait_for_no_answer(self):
        class Slow:
            asked = []

            async def answer(self, tokens, count):
                self.asked.append(asyncio.get_running_loop().time())
                await asyncio.sleep(.3)
                return [1] * count, [1.0] * count
        server = Slow()
        done = asyncio.run(serve.requests(server, 200, 20))
        self.assertEqual(len(done), 20)
        self.assertLess(server.asked[-1] - server.asked[0], .3)

    def test_rows_of_a_server_without_a_gpu(self):
        fake = f"{sys.executable} {FAKE}"
        given = serve.parsed(["--model", "none", "--vllm", fake, "--ways", "plain", "--beside",
                              "server", "--loads", "20", "--requests", "12", "--port", "18200"])
        with mock.patch.object(serve, "RATE_S", 1):
            document = asyncio.run(serve.measured(given))
        rows = document["rows"]
        self.assertEqual([row["beside"] for row in rows], [None, "server", None])
        self.assertEqual(len({row["greedy"] for row in rows}), 1)
        self.assertGreater(rows[1]["kept"], .3)
        self.assertGreater(rows[0]["gap_p50_ms"], .9)
        alone = sorted(rows[at]["gap_p50_over_alone"][0] for at in (0, 2))
        self.assertTrue(alone[0] <= 1 <= alone[1], alone)

    def test_a_server_that_ends_is_said_with_its_log(self):
        given = argparse.Namespace(vllm=f"{sys.executable} -c 'exit(\"no memory\")'", model="m",
                                   more="")

        async def wait(folder):
            async with aiohttp.ClientSession() as session:
                server = serve.Server("server", 18210, [], given, folder, {})
                await server.wait_until_ready(session, 10)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(SystemExit, "did not begin:\nno memory"):
                asyncio.run(wait(folder))


if __name__ == "__main__":
    unittest.main()
