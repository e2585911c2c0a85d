"""Threads of one process with a BERT-base each: one urgent with pauses, the others endless.

    python bert_threads.py [--threads 3] [--mode eager|graph] [--priorities] [--seconds 8]

The urgent thread sends a request every 20 ms after the last one's end. With `--priorities` its
stream has the highest priority, the others' the lowest. First it runs alone. Prints one line of
JSON, with times in ms.
"""

import argparse
import statistics
import threading
import time

import common

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=3)
parser.add_argument("--mode", choices=("eager", "graph"), default="graph")
parser.add_argument("--priorities", action="store_true")
parser.add_argument("--seconds", type=float, default=8)
given = parser.parse_args()

torch = common.torch_of()
model, _ = common.bert(torch)
PAUSE_S = 0.02


class Worker:
    """A stream, its input, and the requests that were made in it."""

    def __init__(self, number):
        urgent = number == 0 and given.priorities
        self.stream = torch.cuda.Stream(priority=-5 if urgent else 0)
        seed = torch.Generator().manual_seed(number)
        self.tokens = torch.randint(0, 30000, (1, 384), generator=seed).cuda()
        self.output, self.graph, self.times_ms = None, None, []
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            for _ in range(3):
                self.output = model(self.tokens).last_hidden_state
            self.stream.synchronize()
        if given.mode == "graph":
            self.graph = torch.cuda.CUDAGraph()
            with torch.inference_mode(), torch.cuda.graph(self.graph, stream=self.stream):
                self.output = model(self.tokens).last_hidden_state

    def request(self):
        if self.graph:
            self.graph.replay()
        else:
            self.output = model(self.tokens).last_hidden_state
        self.stream.synchronize()

    def run(self, until, pause_s):
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            while time.perf_counter() < until:
                begin = time.perf_counter_ns()
                self.request()
                self.times_ms.append((time.perf_counter_ns() - begin) / 1e6)
                time.sleep(pause_s) if pause_s else None


def figures(times_ms):
    ranked = sorted(times_ms)
    at = lambda share: round(ranked[min(len(ranked) - 1, int(len(ranked) * share))], 3)
    return {"requests": len(ranked), "mean": round(statistics.fmean(ranked), 3), "p50": at(0.5),
            "p95": at(0.95), "p99": at(0.99)}


def phase(workers, seconds):
    """The first worker with pauses, the others without, at once."""
    until = time.perf_counter() + seconds
    for worker in workers:
        worker.times_ms = []
    threads = [threading.Thread(target=worker.run, args=(until, 0 if number else PAUSE_S))
               for number, worker in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


torch.cuda.synchronize()
workers = [Worker(number) for number in range(given.threads)]
phase(workers[:1], given.seconds / 2)
alone = figures(workers[0].times_ms)
phase(workers, given.seconds)
others = [ms for worker in workers[1:] for ms in worker.times_ms]
rate = sum(len(worker.times_ms) for worker in workers) / given.seconds
urgent = figures(workers[0].times_ms)
digest = common.digest([worker.output.cpu() for worker in workers])
common.report(digest, workers[0].times_ms, threads=given.threads, mode=given.mode,
              priorities=given.priorities, alone=alone, urgent=urgent, others=figures(others),
              requests_per_s=round(rate, 2), p99_over_alone=round(urgent["p99"] / alone["p99"], 3))
