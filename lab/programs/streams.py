"""An urgent and an endless stream in one process, beside another endless process.

    python streams.py --xsched target/release/xsched --xschedd target/release/xschedd
                      [--seconds 12] [--ways plain,process,streams] [--out FILE]

The first process makes a request of a BERT-base of 384 tokens every 20 ms, in a stream of the
highest priority, and infers batches of 64 in another stream without end, both as CUDA graphs. The
other one infers such batches too. `plain` is without XSched. With `process` and `streams` both are
started by `xsched run` under a daemon with the policy `hpf`, the other one with priority 3. With
`process` the daemon has the first one as a whole, which has the priority of its urgent stream, 5,
and always has work: the other one starves. With `streams`, by `xsched run --streams`, it has each
stream of the first one by itself, so the other one runs before the endless stream.

Prints the P50 and P99 of requests, alone first, and what the endless stream and the other process
keep of their rates alone. All is JSON in the file, if one is named.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import beside

HERE = pathlib.Path(__file__).resolve()


def first(has_endless, seconds):
    """The process with two streams. Prints times in ms, and steps of the endless one in a second."""
    import common

    torch = common.torch_of()
    model, tokens = common.bert(torch)
    large, _ = common.bert(torch)
    large, many = large.bfloat16(), torch.randint(0, 30000, (64, 384), device="cuda")
    urgent, low = torch.cuda.Stream(priority=-5), torch.cuda.Stream()
    with torch.inference_mode():
        graphs = [common.graph_of(torch, lambda: model(tokens))[0],
                  common.graph_of(torch, lambda: large(many))[0]]
    steps, over = 0, threading.Event()

    def endless():
        nonlocal steps
        ends = []
        while not over.is_set():
            with torch.cuda.stream(low):
                graphs[1].replay()
                event = torch.cuda.Event()
                event.record()
            ends.append(event)
            if len(ends) > 4:
                ends.pop(0).synchronize()
                steps += 1
        torch.cuda.synchronize()

    def request():
        with torch.cuda.stream(urgent):
            graphs[0].replay()
        urgent.synchronize()

    for _ in range(20):
        request()
    with torch.cuda.stream(low):
        graphs[1].replay()
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    thread = threading.Thread(target=endless)
    if has_endless:
        thread.start()
        time.sleep(1)
    taken, start, begun = [], time.perf_counter_ns(), steps
    while (begin := time.perf_counter_ns()) < start + int(seconds * 1e9):
        request()
        now = time.perf_counter_ns()
        taken.append((now - begin) / 1e6)
        time.sleep(max(0, begin + beside.EVERY_NS - now) / 1e9)
    rate = (steps - begun) / (time.perf_counter_ns() - start) * 1e9
    print(json.dumps({"taken": taken, "rate": rate}), flush=True)
    over.set()
    if has_endless:
        thread.join()


class First(beside.Role):
    """That process, once it says that it is ready."""

    def __init__(self, way, has_endless, seconds, **variables):
        command = [*way, sys.executable, str(HERE), "--role", str(int(has_endless)), str(seconds)]
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **variables}, cwd=HERE.parent)
        if (said := self.program.stdout.readline()) != "ready\n":
            raise SystemExit(f"the first process did not begin: {said!r}")

    def measure(self):
        output, _ = self.program.communicate("go\n", timeout=120)
        return json.loads(output.splitlines()[-1])


def of_samples(samples):
    return {"samples": len(samples), "p50_ms": round(beside.rank(samples, .5), 3),
            "p99_ms": round(beside.rank(samples, .99), 3)}


def main(given):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        counter = pathlib.Path(folder) / "count"
        alone = of_samples(First([], False, given.seconds).measure()["taken"])
        low_alone = First([], True, given.seconds).measure()["rate"]
        counter.write_text("0")
        other = beside.Role([], "background", "graph", BESIDE_COUNT=str(counter))
        time.sleep(3)
        other_alone = beside.rate(counter, 5)
        other.end()
        print("alone", alone, flush=True)
        for way in given.ways.split(","):
            node = beside.Node("plain" if way == "plain" else "xsched", given, folder)
            run = [] if way == "plain" else [given.xsched, "run"]
            options = ["--streams"] if way == "streams" else []
            counter.write_text("0")
            between = [*run, "--priority", "3", "--"] if run else []
            process = First([*run, *options, "--"] if run else [], True, given.seconds,
                            **node.variables)
            other = beside.Role(between, "background", "graph", BESIDE_COUNT=str(counter),
                                **node.variables)
            begin, before = time.perf_counter(), beside.count(counter)
            said = process.measure()
            kept = (beside.count(counter) - before) / (time.perf_counter() - begin) / other_alone
            rows.append({"way": way, **of_samples(said["taken"]),
                         "low_kept": round(said["rate"] / low_alone, 3),
                         "other_kept": round(kept, 3)})
            print(rows[-1], flush=True)
            other.end()
            node.end()
    if given.out:
        document = {"alone": alone, "low_per_s": low_alone, "other_per_s": other_alone,
                    "rows": rows}
        pathlib.Path(given.out).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        first(sys.argv[2] == "1", float(sys.argv[3]))
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xsched", required=True)
    parser.add_argument("--xschedd", required=True)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--ways", default="plain,process,streams")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    arguments.xsched, arguments.xschedd = map(os.path.abspath, (arguments.xsched, arguments.xschedd))
    main(arguments)
