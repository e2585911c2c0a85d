"""What each mechanism is worth: an urgent program beside another one, with each switched off.

    python ablate.py --build DIR [--requests graph,eager,decoder,control] [--neighbours resnet,gemm]
                     [--only NAME,...] [--rounds 5] [--seconds 2] [--limit SECONDS] [--out FILE]

DIR and the programs are those of `cost.py`: the urgent one has the class `interactive`, the other
one `batch`. Keys of the daemon's file are changed by a reload; what variables set is a process of
the other program for each. All ways, with everything as it is by default first, take turns with
blocks, in another order each round.

A row is a mechanism in a cell: P50 and P99 of the urgent program's requests, the rate of the other
one and the daemon's processor time without it over those with it, each with the 95 % interval of
the rounds. `changes` names those whose interval does not contain 1. A mechanism pays in a cell
where one of them gets worse without it. `counts` has the daemon's counts of both, summed over the
rounds: a treatment that changes none of them, nor a figure, may not have been in effect.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import cost

#: What is switched off: keys of the daemon's file by their tables, and variables of the other
#: program or options of `xsched run` for it, which sets the level itself.
MECHANISMS = {
    "direct holds": {"keys": {"scheduler": "direct_holds = false"}},
    "polling": {"keys": {"scheduler": "spin_percent = 0"}},
    "room in pauses": {"keys": {"policy": "fill_pauses = false"}},
    "floor": {"keys": {"policy": "floor = 0"}},
    "stall": {"keys": {"policy": "stall_ms = 0"}},
    "gates": {"options": ["--level", "1"]},
    "gates in graphs": {"variables": {"XSCHED_AUTO_XQUEUE_GRAPHS": "OFF"}},
    "spacing by holds": {"variables": {"XSCHED_GATE_SPACING_US": "300"}},
    "threshold by room": {"variables": {"XSCHED_AUTO_XQUEUE_THRESHOLD": "16"}},
}
#: Figures of a block, and whether more of it is better.
FIGURES = {"p50": False, "p99": False, "kept": True, "daemon": False}


class Daemon(cost.Build):
    """A daemon whose file changes."""

    def start(self):
        self.file = pathlib.Path(f"{self.socket}.toml")
        self.keys = {}
        self.write()
        self.daemon = subprocess.Popen(
            [self.folder / "xschedd", "--user", "--socket", self.socket, "--config", self.file],
            stderr=self.log)
        time.sleep(.5)

    def write(self):
        keys = {"policy": "", **self.keys}
        self.file.write_text("".join(f"[{table}]\n{key}\n" for table, key in keys.items()))

    def set_keys(self, keys):
        if keys == self.keys:
            return
        self.keys = keys
        self.write()
        subprocess.run([self.folder / "xsched", "ctl", "reload"], check=True,
                       stdout=subprocess.DEVNULL,
                       env={**os.environ, "XSCHED_SOCKET": self.socket})
        time.sleep(1.1)  # Processes are told of direct holds within a second.


def counts(status):
    """What the daemon counts of all processes, by what is to be seen of it in a treatment."""
    of = status["processes"]
    return {"holds": sum(one["holds"] for one in of),
            "direct_holds": sum(one["direct_holds"] for one in of),
            "host_bound": sum(one["host_bound"] for one in of),
            "at_level_2": sum(one["levels"][1] for one in of)}


def block(daemon, urgent, other, seconds):
    """Figures of both programs while they run beside each other."""
    other.begin(seconds + .5)
    time.sleep(.25)
    before = counts(daemon.status())
    spent, begin = daemon.processor_s(), time.monotonic()
    taken = urgent.block(seconds)["requests_ms"]
    end = time.monotonic()
    spent = daemon.processor_s() - spent
    after = counts(daemon.status())
    ends = [at for at in other.end_of_block()["ends"] if begin <= at < end]
    # A processor's time is counted in hundredths of a second, the end of a step is one of several.
    return {"p50": cost.rank(taken, .5), "p99": cost.rank(taken, .99),
            "kept": (len(ends) + .5) / (end - begin), "daemon": (spent + .005) / (end - begin),
            "counts": {**after, **{key: after[key] - before[key]
                                   for key in ("holds", "direct_holds")}}}


def row_of(cell, name, default, without):
    """What changes without a mechanism, by the blocks of each round."""
    row = {**cell, "without": name, "changes": [], "is_worse": [],
           "counts": {way: {key: sum(one["counts"][key] for one in blocks)
                            for key in blocks[0]["counts"]}
                      for way, blocks in (("default", default), ("without", without))}}
    for figure, is_more_better in FIGURES.items():
        ratios = [mine[figure] / base[figure] for mine, base in zip(without, default)]
        mean, low, high = row[figure] = cost.interval(ratios)
        if low > 1 or high < 1:
            row["changes"].append(figure)
            if (mean < 1) == is_more_better:
                row["is_worse"].append(figure)
    return row


def summary(rows):
    """Of each mechanism the cells that get worse without it, and those that get better."""
    found = {}
    for row in rows:
        cells = found.setdefault(row["without"], {"worse": [], "better": []})
        cell = f"{row['work']} beside {row['beside']}"
        better = [figure for figure in row["changes"] if figure not in row["is_worse"]]
        for kind, figures in (("worse", row["is_worse"]), ("better", better)):
            if figures:
                cells[kind].append(f"{cell}: {', '.join(figures)}")
    return found


def measure(given, place):
    names = [name for name in MECHANISMS if not given.only or name in given.only.split(",")]
    ways = {"default": {}, **{name: MECHANISMS[name] for name in names}}
    works, neighbours = given.requests.split(","), given.neighbours.split(",")
    daemon, rows, longest = Daemon("build", given.build, place), [], 0
    daemon.start()
    workers = []

    def worker(name, class_, said):
        workers.append(cost.Worker(name, daemon.run("--class", class_, *said.get("options", ())),
                                   XSCHED_SOCKET=daemon.socket, **said.get("variables", {})))
        return workers[-1]
    try:
        urgent = {name: worker(name, "interactive", {}) for name in works}
        others = {}
        for name in neighbours:
            for way, said in ways.items():
                is_other = way == "default" or "keys" not in said
                others[name, way] = (worker(name, "batch", said) if is_other
                                     else others[name, "default"])
        for one in workers:
            one.wait_until_ready()
        for neighbour in neighbours:
            for name in works:
                begun = time.monotonic()
                if begun + longest > given.until:
                    print(f"no time for {name} beside {neighbour}", flush=True)
                    continue
                taken = {way: [] for way in ways}
                order = list(ways)
                for turn in range(given.rounds):
                    for way in order[turn % len(order):] + order[:turn % len(order)]:
                        daemon.set_keys(ways[way].get("keys", {}))
                        taken[way].append(block(daemon, urgent[name], others[neighbour, way],
                                                given.seconds))
                cell = {"work": name, "beside": neighbour, "p50_ms": round(
                    cost.rank([one["p50"] for one in taken["default"]], .5), 4)}
                for way in names:
                    rows.append(row_of(cell, way, taken["default"], taken[way]))
                    print(json.dumps(rows[-1]), flush=True)
                longest = max(longest, time.monotonic() - begun)
    finally:
        for one in workers:
            one.end()
        daemon.end()
    return rows


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, metavar="DIR")
    parser.add_argument("--requests", default="graph,eager,decoder,control")
    parser.add_argument("--neighbours", default="resnet,gemm")
    parser.add_argument("--only", help="; ".join(MECHANISMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of a block")
    parser.add_argument("--limit", type=float, default=math.inf,
                        help="seconds after which no cell begins that may end later")
    parser.add_argument("--out")
    given = parser.parse_args(arguments)
    unknown = set((given.only or "").split(",")) - {*MECHANISMS, ""}
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(MECHANISMS)}")
    if given.rounds < 2:
        parser.error("an interval needs two rounds")
    given.until = time.monotonic() + given.limit
    return given


def main(given):
    with tempfile.TemporaryDirectory() as place:
        rows = measure(given, place)
    found = summary(rows)
    print(json.dumps(found, indent=1))
    if given.out:
        document = {"mechanisms": found, "rows": rows}
        pathlib.Path(given.out).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(parsed(sys.argv[1:]))
