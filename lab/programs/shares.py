"""Two endless programs with shares of the GPU, each in a process of its own.

    python shares.py --xsched target/release/xsched --xschedd target/release/xschedd
                     [--seconds 20] [--kinds gemm,gemm] [--shares 75:25,30:70] [--out FILE]

Both run the steps of `beside.py`'s background alone for three seconds each, then beside each other
under `up`. Prints the first one's part of the GPU in all, and in the seconds where it was least and
most: its rate over its rate alone, over the sum of both; what each keeps of its rate alone, which is
less in sum the more the turns of `--timeslice-us` cost; and the first one's part by the device time
that both report, in all and again in the seconds where it was least and most: a second has only some
twenty steps of a graph.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time

import beside


def part(used):
    """The first one's part of what both used, in percent."""
    return round(100 * used[0] / sum(used), 2) if sum(used) else 0


def spread(used, moments, name):
    """The first one's part between the first and the last moment, and between each and the next."""
    seconds = [part(used(before, after)) for before, after in zip(moments, moments[1:])]
    return {name: part(used(moments[0], moments[-1])),
            f"{name}_least": min(seconds), f"{name}_most": max(seconds)}


def measured(given, counters, alone):
    """What both get done and report in so many seconds."""
    counts, said, begin = [], [], time.perf_counter()
    for number in range(given.seconds + 1):
        time.sleep(max(0, begin + number - time.perf_counter()))
        counts.append([beside.count(counter) for counter in counters])
        said.append(reported(given))

    def work(before, after):
        return [(new - old) / rate for new, old, rate in zip(after, before, alone)]
    used = work(counts[0], counts[-1])
    return {**spread(work, counts, "part"),
            "kept": [round(100 * one / given.seconds, 2) for one in used],
            **spread(lambda *moments: grown(*moments)[0], said, "reported"),
            "us_per_command": grown(said[0], said[-1])[1]}


def reported(given):
    """The device time of each process in ms and its commands that retired, in order of starts."""
    said = subprocess.run([given.xsched, "ps", "--json"], capture_output=True, text=True, check=True)
    clients = sorted(json.loads(said.stdout)["processes"], key=lambda one: one["pid"])
    return [(one["device_ms"], one["retired"]) for one in clients]


def grown(before, after):
    """The device time of each process between two reports in ms, and µs of it per command."""
    both = [(ms - ms0, count - count0) for (ms, count), (ms0, count0) in zip(after, before)]
    return [ms for ms, _ in both], [round(1000 * ms / count, 1) if count else 0 for ms, count in both]


@contextlib.contextmanager
def scheduler(given):
    """A daemon with the policy `up`, and a folder that is there as long."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XSCHED_SOCKET"] = f"{folder}/socket"
        config = pathlib.Path(folder) / "xschedd.toml"
        slice_us = f"timeslice_us = {given.timeslice_us}\n" if given.timeslice_us else ""
        config.write_text(f'[policy]\nname = "up"\n{slice_us}')
        daemon = subprocess.Popen([given.xschedd, "--user", "--config", config])
        try:
            time.sleep(0.5)
            yield folder
        finally:
            daemon.terminate()
            daemon.wait()


def main(given):
    rows, kinds = [], given.kinds.split(",")
    with scheduler(given) as folder:
        counters = [pathlib.Path(folder) / f"count{number}" for number in range(2)]

        def start(number, share):
            counters[number].write_text("0")
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
            row = {"kinds": kinds, "wanted": wanted, **measured(given, counters, alone)}
            rows.append(row)
            print(row, flush=True)
            if given.show:
                print(subprocess.run([given.xsched, "ps"], capture_output=True, text=True).stdout)
            for role in roles:
                role.end()
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
    parser.add_argument("--timeslice-us", type=int, help="the policy's, instead of the default")
    parser.add_argument("--show", action="store_true", help="what `xsched ps` says of each pair")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    arguments.xsched, arguments.xschedd = map(os.path.abspath, (arguments.xsched, arguments.xschedd))
    main(arguments)
