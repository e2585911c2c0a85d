"""Runs unmodified programs plain and under `xsched run` in turns, and sets them side by side.

    python run.py --xsched target/release/xsched [--rounds 3] [--out FILE] [--cupti] [PROGRAM ...]

Each program prints a digest of its output and its times. With `--cupti` each is run once more with
CUPTI beside the interposer's own counts. Exits with 1 if a digest differs or a program fails.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHARED = {"common.py", "cupti.py", "run.py"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xsched", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    parser.add_argument("--cupti", action="store_true")
    parser.add_argument("--limit", type=int, default=150, help="seconds for each run")
    parser.add_argument("--options", default="", help="options of `xsched run`")
    parser.add_argument("programs", nargs="*")
    return parser.parse_args()


def execute(command, limit, **more):
    """What a program reported, or why it did not."""
    environment = {**os.environ, **more}
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit,
                             env=environment, cwd=HERE)
    except subprocess.TimeoutExpired as late:
        said = late.stderr.decode() if late.stderr else ""
        return {"failed": f"no end within {limit} s", "said": said[-1500:]}
    said = [line for line in ran.stderr.splitlines() if "xsched" in line.lower()]
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode != 0 or not lines:
        return {"failed": f"exit {ran.returncode}", "said": ran.stderr[-1500:]}
    return {**json.loads(lines[-1]), "said": said[:5]}


def counted(folder):
    """The interposer's counts of the process that launched most."""
    files = [json.loads(path.read_text()) for path in pathlib.Path(folder).glob("counts-*.json")]
    return max(files, key=lambda one: sum(one["launches"].values()), default={})


def compare(name, given):
    run = [given.xsched, "run", *given.options.split(), "--"]
    python = [sys.executable, str(HERE / name)]
    plain, scheduled, row = [], [], {"program": name}
    with tempfile.TemporaryDirectory() as folder:
        counts = f"{folder}/counts-%p.json"
        for _ in range(given.rounds):
            plain.append(execute(python, given.limit))
            if "failed" in plain[-1]:
                break
            scheduled.append(execute([*run, *python], given.limit, XSCHED_SHIM_COUNTS=counts))
            if "failed" in scheduled[-1]:
                break
        row["counts"] = counted(folder)
    if given.cupti and scheduled and "failed" not in scheduled[-1]:
        with tempfile.TemporaryDirectory() as folder:
            seen, counts = f"{folder}/seen.json", f"{folder}/counts-%p.json"
            cupti = [sys.executable, str(HERE / "cupti.py"), str(HERE / name), seen]
            ran = execute([*run, *cupti], given.limit, XSCHED_SHIM_COUNTS=counts)
            row["cupti"] = json.loads(pathlib.Path(seen).read_text()) if os.path.exists(seen) else ran
            row["counts_with_cupti"] = counted(folder)
    row.update(plain=plain, scheduled=scheduled)
    digests = {one.get("digest") for one in plain + scheduled}
    row["same"] = len(digests) == 1 and None not in digests
    best = [min((one["p50_ms"] for one in side if "p50_ms" in one), default=0) for side in (plain, scheduled)]
    row["ratio"] = round(best[1] / best[0], 4) if all(best) else None
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
