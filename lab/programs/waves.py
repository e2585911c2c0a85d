"""Short tasks beside endless kernels in another process, with the ways of sharing a GPU.

    g++ -std=c++17 -O2 lab/programs/waves.cpp -Icapi/include -ldl -pthread -o waves
    python waves.py --xsched target/release/xsched --xschedd target/release/xschedd
                    --waves ./waves [--ptx lab/kernels/next.ptx] [--tasks 1000] [--us 100,500,2000]
                    [--ways plain,priorities,xsched,mps,mps+xsched] [--out FILE]

A task is 20 kernels of 100 µs. The endless kernels take as long as --us says. Prints how long tasks
take over tasks alone, P50 and P99, and how many endless kernels ran, over those alone. With
`priorities` both are streams of one process, with the highest and the lowest priority.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

import beside


class Waves:
    """A process of `waves.cpp`."""

    def __init__(self, given, way=(), **variables):
        self.program = subprocess.Popen([*way, given.waves, given.ptx], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **variables})
        self.take()

    def tell(self, line):
        self.program.stdin.write(line + "\n")
        self.program.stdin.flush()

    def take(self):
        line = self.program.stdout.readline()
        if not line:
            raise SystemExit(f"a program has ended: {self.program.wait()}")
        return line.strip()

    def ask(self, line):
        self.tell(line)
        return self.take()

    def asked(self, line):
        return json.loads(self.ask(line))

    def rate(self, seconds):
        before, begin = int(self.ask("count")), time.perf_counter()
        time.sleep(seconds)
        return (int(self.ask("count")) - before) / (time.perf_counter() - begin)

    def end(self):
        self.program.kill()
        self.program.wait()


def row_of(given, us, urgent, endless):
    """Tasks alone, endless kernels alone, and both."""
    task = f"task {given.tasks} {given.pause_us}"
    alone = urgent.asked(task)["task"]
    endless.ask(f"load {us}")
    time.sleep(0.2)
    rate_alone = endless.rate(1)
    before, begin = int(endless.ask("count")), time.perf_counter()
    urgent.tell(task)
    beside_it = json.loads(urgent.take())
    # The two may be one process, which answers one after the other.
    kept = (int(endless.ask("count")) - before) / (time.perf_counter() - begin) / rate_alone
    stopped = endless.asked("stop")
    task = beside_it["task"]
    assert not (stopped["lost"] or stopped["wrong"] or beside_it["wrong"]), (stopped, beside_it)
    row = {"us": us, "alone_p50_us": alone["p50_us"], "p50_us": task["p50_us"],
           "p50_over_alone": task["p50_us"] / alone["p50_us"],
           "p99_over_alone": task["p99_us"] / alone["p99_us"] if task["p99_us"] else None,
           "kept": kept}
    return {key: round(value, 3) if value else value for key, value in row.items()}


def main(given):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for way in given.ways.split(","):
            node = beside.Node(way, given, folder)
            urgent = Waves(given, node.urgent, **node.variables)
            one = way == "priorities"
            endless = urgent if one else Waves(given, node.batch, **node.variables)
            for us in given.us.split(","):
                rows.append({"way": way, **row_of(given, int(us), urgent, endless)})
                print(rows[-1], flush=True)
            for program in {urgent, endless}:
                program.end()
            node.end()
    if given.out:
        with open(given.out, "w") as file:
            json.dump(rows, file, indent=1)


def arguments(parser):
    """What is common with `kills.py`."""
    parser.add_argument("--xsched", required=True, type=os.path.abspath)
    parser.add_argument("--xschedd", required=True, type=os.path.abspath)
    parser.add_argument("--waves", default="./waves", type=os.path.abspath)
    parser.add_argument("--ptx", default="lab/kernels/next.ptx", type=os.path.abspath)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments(parser)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--pause-us", type=int, default=4000)
    parser.add_argument("--us", default="100,500,2000")
    parser.add_argument("--ways", default="plain,priorities,xsched,mps,mps+xsched")
    parser.add_argument("--out")
    main(parser.parse_args())
