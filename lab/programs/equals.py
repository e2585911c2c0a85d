"""Several processes of a GPU, some of them of equal priority, under policies of the daemon.

    python equals.py --xsched target/release/xsched --xschedd target/release/xschedd
                     [--policies plain,hpf,hpf:turns=false] [--sets six,endless,large,three]
                     [--seconds 30] [--out FILE]

Each client makes requests of a BERT with 384 tokens, one after the other with pauses of 20 ms, or
without end. As CUDA graphs: `six` have the priorities 3, 3, 2, 2, 1 and 1; `endless` is one beside
five without pauses that come after it, and `large` the same with BERT-large in half precision; `three`
and, without pauses, `two` have the same priority. `eager` is the three kernel by kernel, and `mixed`
one of them beside one of the two. `plain` is without XSched; a policy may have keys as in the daemon's
file.
Prints the P50, P95 and P99 of the first client's requests in ms and over those alone, the P50 of all, and
the requests of each in a second. All is JSON in the file, if one is named.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import beside

HERE = pathlib.Path(__file__).resolve()
PAUSE = 0.02
PAUSED, BUSY = ("base", "graph", PAUSE), ("base", "graph", 0)
EAGER = ("base", "eager", PAUSE)
LARGE, LARGE_BUSY = ("large", "graph", PAUSE), ("large", "graph", 0)
SETS = {
    "six": ([PAUSED] * 6, [3, 3, 2, 2, 1, 1]),
    "endless": ([PAUSED] + [BUSY] * 5, [1] + [-1] * 5),
    "large": ([LARGE] + [LARGE_BUSY] * 5, [1] + [-1] * 5),
    "three": ([PAUSED] * 3, [0] * 3),
    "two": ([BUSY] * 2, [0] * 2),
    "eager": ([EAGER] * 3, [0] * 3),
    "mixed": ([EAGER, BUSY], [0] * 2),
}


def client(size, mode, pause, seconds):
    import common

    torch = common.torch_of()
    model, tokens = common.bert(torch, size)
    if size == "large":
        model = model.half()
    with torch.inference_mode():
        request = common.request_of(torch, model, tokens, mode)
        for _ in range(10):
            request()
            torch.cuda.synchronize()
        print("ready", flush=True)
        sys.stdin.readline()
        taken, end = [], time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            request()
            torch.cuda.synchronize()
            taken.append(1e3 * (time.perf_counter() - begin))
            time.sleep(pause)
    print(json.dumps(taken), flush=True)


def measure(clients, ways, seconds, **variables):
    """The milliseconds that requests of each client took, all at a time."""
    roles = [beside.Role(way, "client", *one, seconds, script=HERE, **variables)
             for way, one in zip(ways, clients)]
    for role in roles:
        role.program.stdin.write("go\n")
        role.program.stdin.flush()
    return [json.loads(role.program.communicate()[0].splitlines()[-1]) for role in roles]


@contextlib.contextmanager
def scheduler(given, policy):
    """The variables of processes under a daemon with this policy."""
    if policy == "plain":
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        variables = {"XSCHED_SOCKET": f"{folder}/socket"}
        name, *keys = policy.split(":")
        config = pathlib.Path(folder) / "xschedd.toml"
        config.write_text("\n".join(["[policy]", f'name = "{name}"', *keys, ""]))
        daemon = subprocess.Popen([given.xschedd, "--user", "--config", config],
                                  env={**os.environ, **variables})
        try:
            time.sleep(0.5)
            yield variables
        finally:
            daemon.terminate()
            daemon.wait()


def row_of(given, policy, name, alone):
    clients, priorities = SETS[name]
    with scheduler(given, policy) as variables:
        run = [given.xsched, "run", "--priority"] if variables else []
        ways = [[*run, str(priority), "--"] if run else [] for priority in priorities]
        samples = measure(clients, ways, given.seconds, **variables)
    first = samples[0]
    row = {"policy": policy, "set": name, "samples": len(first)}
    for part, title in ((.5, "p50"), (.95, "p95"), (.99, "p99")):
        row |= {f"{title}_ms": round(beside.rank(first, part), 2),
                f"{title}_over_alone": round(beside.rank(first, part) / beside.rank(alone, part), 3)}
    return row | {"all_p50_ms": [round(beside.rank(one, .5), 2) for one in samples],
                  "per_s": [round(len(one) / given.seconds, 1) for one in samples]}


def main(given):
    alone, rows = {}, []
    for policy in given.policies.split(","):
        for name in given.sets.split(","):
            first = SETS[name][0][0]
            if first not in alone:
                alone[first] = measure([first], [[]], given.seconds)[0]
                both = [round(beside.rank(alone[first], part), 2) for part in (.5, .99)]
                print(f"{name} alone: {both}", flush=True)
            rows.append(row_of(given, policy, name, alone[first]))
            print(rows[-1], flush=True)
    if given.out:
        pathlib.Path(given.out).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:3] == ["--role", "client"]:
        client(sys.argv[3], sys.argv[4], float(sys.argv[5]), float(sys.argv[6]))
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xsched", required=True, type=os.path.abspath)
    parser.add_argument("--xschedd", required=True, type=os.path.abspath)
    parser.add_argument("--policies", default="plain,hpf,hpf:turns=false")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--out")
    main(parser.parse_args())
