"""Two endless programs with shares of the GPU, each in a process of its own.

    python shares.py --xsched target/release/xsched --xschedd target/release/xschedd
                     [--seconds 20] [--kinds gemm,gemm] [--shares 75:25,30:70] [--out FILE]

Both run the steps of `beside.py`'s background alone for three seconds each, then beside each other
under `up`. Prints the first one's part of the GPU, over the seconds: its rate over its rate alone,
over the sum of both.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import beside


def parts(counters, alone, seconds):
    """The first one's part in each second, in percent."""
    found, before = [], [beside.count(counter) for counter in counters]
    for _ in range(seconds):
        time.sleep(1)
        now = [beside.count(counter) for counter in counters]
        used = [(new - old) / rate for new, old, rate in zip(now, before, alone)]
        found.append(100 * used[0] / sum(used) if sum(used) else 0)
        before = now
    return found


def main(given):
    rows, kinds = [], given.kinds.split(",")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XSCHED_SOCKET"] = f"{folder}/socket"
        daemon = subprocess.Popen([given.xschedd, "--user", "--policy", "up"])
        time.sleep(0.5)
        counters = [pathlib.Path(folder) / f"count{number}" for number in range(2)]
        for counter in counters:
            counter.write_text("0")

        def start(number, share):
            way = [given.xsched, "run", "--share", str(share), "--"]
            return beside.Role(way, "background", kinds[number],
                               BESIDE_COUNT=str(counters[number]))

        alone = []
        for number in range(2):
            role = start(number, 50)
            time.sleep(1)
            alone.append(beside.rate(counters[number], 3))
            role.end()
        for pair in given.shares.split(","):
            wanted = [int(share) for share in pair.split(":")]
            roles = [start(number, wanted[number]) for number in range(2)]
            time.sleep(2)
            seconds = parts(counters, alone, given.seconds)
            row = {"kinds": kinds, "wanted": wanted, "mean": round(statistics.fmean(seconds), 2),
                   "least": round(min(seconds), 2), "most": round(max(seconds), 2)}
            rows.append(row)
            print(row, flush=True)
            if given.show:
                print(subprocess.run([given.xsched, "ps"], capture_output=True, text=True).stdout)
            for role in roles:
                role.end()
        daemon.terminate()
        daemon.wait()
    if given.out:
        document = {"alone_per_s": alone, "rows": rows}
        pathlib.Path(given.out).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xsched", required=True)
    parser.add_argument("--xschedd", required=True)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--kinds", default="gemm,gemm")
    parser.add_argument("--shares", default="75:25,30:70")
    parser.add_argument("--show", action="store_true", help="what `xsched ps` says of each pair")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    arguments.xsched, arguments.xschedd = map(os.path.abspath, (arguments.xsched, arguments.xschedd))
    main(arguments)
