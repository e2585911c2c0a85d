"""Runs every work with every load on the processor, and works beside each other.

    python try_works.py [--device cpu] [--seconds 0.3] [--together] [WORK ...]

Prints a line for each and exits with 1 if one fails or computes something else than alone. With
`--device cuda` or `hip` the works are those of the lab, at full size. `--together` has all works in
one process, eager and as graphs, alone and at once: a look that takes a minute on a GPU.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from lab_process import works

HERE = pathlib.Path(__file__).resolve().parent
LOADS = (
    {"kind": "closed", "pause_ms": 2, "jitter_ms": 1},
    {"kind": "closed", "pause_ms": 0, "requests": 5},
    {"kind": "periodic", "every_ms": 20},
    {"kind": "poisson", "per_s": 50},
    {"kind": "lognormal", "per_s": 50, "sigma": 2},
    {"kind": "endless", "in_flight": 3},
)


def run(given, roles, phases):
    """What a process answers to the phases."""
    spec = {"version": 1, "device": given.device, "seed": 1, "quick": True, "way": "priorities",
            "roles": roles}
    orders = "".join(json.dumps({"phase": number, "seconds": given.seconds, "load": load}) + "\n"
                     for number, load in enumerate(phases))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "spec.json"
        path.write_text(json.dumps(spec))
        ran = subprocess.run([sys.executable, str(HERE / "roles.py"), str(path)], input=orders,
                             capture_output=True, text=True)
    said = [json.loads(line) for line in ran.stdout.splitlines()]
    if len(said) != len(phases) + 1 or "ready" not in said[0]:
        return None, f"{said[-1:]} {ran.stderr[-1500:]}"
    return said[0], said[1:]


def judged(title, ready, answers):
    """Prints a line; whether all is as it should be."""
    if ready is None:
        print(f"{title:34} FAILED {answers}", flush=True)
        return False
    wrong, counts = [], []
    for answer in answers:
        for name, one in answer["roles"].items():
            alone = ready["roles"][name]["digest"]
            counts.append(len(one["end_ns"]))
            if one.get("digest", alone) != alone:
                wrong.append(f"phase {answer['phase']}: {name} computed {one['digest']}, not {alone}")
            if any(end < begin for begin, end in zip(one["begin_ns"], one["end_ns"])):
                wrong.append(f"phase {answer['phase']}: {name} has requests that end before they begin")
    print(f"{title:34} requests {counts} {'; '.join(wrong)}", flush=True)
    for name, one in ready["roles"].items():
        # What a role needs alone.
        times, found = [one[key] / 1e6 for key in ("request_ns", "host_ns")], one.get("kernels_ns", [])
        print(f"    {name:26} ms: request {times[0]:.3f} host {times[1]:.3f} "
              f"{len(found)} kernels {sum(found) / 1e6:.3f}", flush=True)
    return not wrong


def without_failures(given, title, roles, phases):
    """Runs a case; roles that fail are said and left out, so that the others are seen."""
    fine = True
    while True:
        ready, answers = run(given, roles, phases)
        words = "the role {}: ".format
        bad = [one["name"] for one in roles if ready is None and words(one["name"]) in answers]
        if not bad or len(roles) == 1:
            return judged(title, ready, answers) and fine
        fine = judged(f"{title}: {bad[0]}", ready, answers)
        roles = [one for one in roles if one["name"] != bad[0]]
        left = [{name: load for name, load in phase.items() if name != bad[0]} for phase in phases]
        phases = [phase for phase in left if phase]


def role(name, work, dtype="fp32", graph=True, priority=0, **options):
    """A role as SPEC has it."""
    return {"name": name, "work": work, "dtype": dtype, "batch": 2, "graph": graph,
            "priority": priority, "options": options}


def together(given):
    """All works as roles of one process, each alone with two loads, and then all at once."""
    roles = []
    for work in given.works or works.WORKS:
        dtype = "bf16" if work == "llm" else "fp16" if work in ("deeplabv3", "whisper") else "fp32"
        for suite in works.class_of(work).settings.get("suite", (None,)):
            options = {"suite": suite} if suite else {}
            name = suite or work
            roles.append(role(f"{name} eager", work, dtype, False, 1, **options))
            if not suite and work != "whisper":
                roles.append(role(f"{name} graph", work, dtype, True, 0, **options))
    names = [one["name"] for one in roles]
    phases = [{name: load} for name in names for load in (LOADS[1], LOADS[5])]
    return [("all works", roles, [*phases, dict.fromkeys(names, LOADS[0])])]


def cases(given):
    """Titles, roles and phases."""
    if given.together:
        yield from together(given)
        return
    alone = [{"high": load} for load in LOADS]
    for work in given.works or works.WORKS:
        suites = works.class_of(work).settings.get("suite", (None,))
        for suite in suites:
            options = {"suite": suite} if suite else {}
            dtype = "bf16" if work == "llm" else "fp32"
            yield f"{work} {suite or ''}", [role("high", work, dtype, **options)], alone
    for work in () if given.works else ("bert-base", "resnet50", "resnet50-train", "whisper", "llm"):
        for dtype in ("fp16", "bf16"):
            yield f"{work} {dtype} eager", [role("high", work, dtype, graph=False)], alone[:2]
    if not given.works:
        roles = [role("high", "bert-base", priority=1), role("train", "bert-large-train"),
                 role("speech", "whisper"), role("chat", "llm", "bf16", priority=1)]
        endless = {"kind": "endless", "in_flight": 2}
        both = {"high": LOADS[0], "train": endless, "speech": LOADS[2], "chat": LOADS[3]}
        yield "four works at once", roles, [{"train": endless}, both, both]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "hip"))
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("works", nargs="*")
    given = parser.parse_args()
    fine = [without_failures(given, *case) for case in cases(given)]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
