"""Runs unmodified programs plain and under `xsched run` in turns, and sets them side by side.

    python run.py --xsched target/release/xsched [--rounds 3] [--seconds 0] [--out FILE] [--cupti]
                  [--turns] [--cores 4,5] [PROGRAM ...]

Each program prints a digest of its output and its times. With `--turns` both ways of a round are
alive at once and take turns of ten requests or 0.1 s, so that a change of the machine meets both. The
first turn is that of each way in every other round. Threads that launch keep to the same processors,
since processors differ. There are more rounds while they fit into the seconds of a program. With
`--cupti` each is run once more with CUPTI beside the interposer's own counts. A program may have
arguments: "bert_threads.py --threads 6". Exits with 1 if a digest differs or a program fails.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import common

HERE = pathlib.Path(__file__).resolve().parent
SHARED = {"beside.py", "collect_results.py", "common.py", "cupti.py", "hip_examples.py", "kills.py", "roles.py", "run.py",
          "shares.py", "soak.py", "test_multi_priority_bert.py", "test_xsched_integration.py",
          "triton_server.py", "try_works.py", "waves.py"}
#: Programs whose requests start threads, which would all keep to the main thread's processor.
SPREAD = {"bert_threads.py", "threads.py"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xsched", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0, help="more rounds within this time")
    parser.add_argument("--out")
    parser.add_argument("--cupti", action="store_true")
    parser.add_argument("--limit", type=int, default=150, help="seconds for each run")
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--cores", help="processors that programs may use, such as 4,5")
    parser.add_argument("--preload", help="a library that scheduled programs get as well")
    parser.add_argument("--options", default="", help="options of `xsched run`")
    parser.add_argument("programs", nargs="*")
    given = parser.parse_args()
    given.xsched = os.path.abspath(given.xsched)
    if given.cores:
        # Programs inherit it, so that a faster processor favours neither way.
        os.sched_setaffinity(0, {int(core) for core in given.cores.split(",")})
    return given


def start(command, **more):
    """The program, and the ends of the pipes with which it asks for a turn and gets one."""
    asks, gets = os.pipe(), os.pipe()
    environment = {**os.environ, **more, "XSCHED_LAB_TURNS": f"{gets[0]},{asks[1]}"}
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment, cwd=HERE, pass_fds=(gets[0], asks[1]))
    os.close(gets[0])
    os.close(asks[1])
    return program, asks[0], gets[1]


def take_turns(commands, limit, spread=False):
    """What two programs reported that were measured in turns."""
    both = [start(command, **more) for command, more in commands]
    killers = [threading.Timer(limit, program.kill) for program, _, _ in both]
    readers = [concurrent.futures.ThreadPoolExecutor(1) for _ in both]
    outputs = [reader.submit(one[0].communicate) for reader, one in zip(readers, both)]
    for killer in killers:
        killer.start()
    # Both ask before one begins.
    waiting = [one for one in both if os.read(one[1], 1)]
    for program, _, _ in waiting if not spread else ():
        common.keep_to_processor(program)
    while waiting:
        for one in list(waiting):
            try:
                os.write(one[2], b"t")
                asked = os.read(one[1], 1)
            except BrokenPipeError:
                asked = b""
            if not asked:
                waiting.remove(one)
    results = []
    for (program, asks, gets), output, killer in zip(both, outputs, killers):
        results.append(result(output.result(), program.returncode))
        killer.cancel()
        os.close(asks)
        os.close(gets)
    return results


def execute(command, limit, **more):
    """What a program reported, or why it did not."""
    begin = time.perf_counter_ns()
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit,
                             env={**os.environ, **more}, cwd=HERE)
    except subprocess.TimeoutExpired as late:
        said = late.stderr.decode() if late.stderr else ""
        return {"failed": f"no end within {limit} s", "said": said[-1500:]}
    wall_ms = round((time.perf_counter_ns() - begin) / 1e6, 1)
    return {**result((ran.stdout, ran.stderr), ran.returncode), "wall_ms": wall_ms}


def result(output, code):
    """What a program that ended reported."""
    stdout, stderr = output
    kept = ("xsched", "holder:", " warn ", " error ")
    said = [line for line in stderr.splitlines() if any(word in f" {line} ".lower() for word in kept)]
    lines = [line for line in stdout.splitlines() if line.startswith("{")]
    if code != 0 or not lines:
        return {"failed": f"exit {code}", "said": stderr[-1500:]}
    return {**json.loads(lines[-1]), "said": said[:5]}


def counted(folder):
    """The interposer's counts of the process that launched most."""
    files = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("counts-*.json")]
    return max(files, key=lambda one: sum(one["launches"].values()), default={})


def rounds(given):
    """The numbers of rounds: as many as were asked for, and more while they fit into the time."""
    begin, number = time.perf_counter(), 0
    while number < given.rounds or (number + 1) / number * (time.perf_counter() - begin) < given.seconds:
        yield number
        number += 1


def compare(name, given):
    run = [given.xsched, "run", *given.options.split(), "--"]
    name, *more = name.split()
    python = [sys.executable, str(HERE / name), *more]
    plain, scheduled, row = [], [], {"program": name, "arguments": more, "turns": given.turns}
    preload = {"LD_PRELOAD": given.preload} if given.preload else {}
    with tempfile.TemporaryDirectory() as folder:
        counts = f"{folder}/counts-%p-%v.json"
        variables = {"XSCHED_SHIM_COUNTS": counts, **preload}
        for number in rounds(given):
            ways = [(python, {}), ([*run, *python], variables)]
            if number % 2:
                ways.reverse()
            if given.turns:
                pair = take_turns(ways, given.limit, spread=name in SPREAD)
            else:
                pair = [execute(command, given.limit, **more) for command, more in ways]
            if number % 2:
                pair.reverse()
            plain.append(pair[0])
            scheduled.append(pair[1])
            if any("failed" in one for one in pair):
                break
        row["counts"] = counted(folder)
    if given.cupti and scheduled and "failed" not in scheduled[-1]:
        with tempfile.TemporaryDirectory() as folder:
            seen, counts = f"{folder}/seen.json", f"{folder}/counts-%p-%v.json"
            cupti = [sys.executable, str(HERE / "cupti.py"), str(HERE / name), seen]
            ran = execute([*run, *cupti], given.limit, XSCHED_SHIM_COUNTS=counts)
            row["cupti"] = json.loads(pathlib.Path(seen).read_text()) if os.path.exists(seen) else ran
            row["counts_with_cupti"] = counted(folder)
    row.update(plain=plain, scheduled=scheduled)
    digests = {one.get("digest") for one in plain + scheduled}
    row["same"] = len(digests) == 1 and None not in digests
    for key, of in (("ratio", "p50_ms"), ("wall_ratio", "wall_ms")):
        pairs = [two[of] / one[of] for one, two in zip(plain, scheduled) if one.get(of) and two.get(of)]
        row[key] = round(statistics.median(pairs), 4) if pairs else None
    return row


def main():
    given = arguments()
    every = sorted(path.name for path in HERE.glob("*.py") if path.name not in SHARED)
    rows = []
    for name in given.programs or every:
        row = compare(name, given)
        rows.append(row)
        failed = [one["failed"] for one in row["plain"] + row["scheduled"] if "failed" in one]
        launches, through = (sum(row["counts"].get(key, {}).values()) for key in ("launches", "scheduled"))
        print(f"{name:20} same {row['same']!s:5} ratio {row['ratio']} launches {launches} through "
              f"queues {through} {'; '.join(failed)}", flush=True)
        if given.out:
            pathlib.Path(given.out).write_text(json.dumps({"programs": rows}, indent=1) + "\n")
    sys.exit(0 if all(row["same"] for row in rows) else 1)


if __name__ == "__main__":
    main()
