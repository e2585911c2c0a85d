"""Builds examples of the C++ XSched for HIP, unchanged, and runs them with and without scheduling.

    cargo xtask install --prefix PREFIX
    python hip_examples.py --source XSCHED --prefix PREFIX --runtime LIB [--seconds 40] [--out FILE]

XSCHED is a checkout of the C++ project and LIB a HIP runtime: `/opt/rocm/lib/libamdhip64.so`, or one
of this project's, `libxsched_hip_emulated.so` or `libxsched_hip_over_cuda.so` (which takes kernels
from the PTX file that HIP_OVER_CUDA_KERNELS names). Needs clang 19 and HIP's headers. Each example
has an urgent task beside another one. Without scheduling its kernels go past `xsched run`. Exits
with 1 if the urgent task is not twice as fast with it.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

#: The examples with both tasks in one process, and what their lines begin with.
EXAMPLES = {
    "3_intra_process_sched/app_concurrent": ("Prio 2", "Prio 1"),
    "4_manual_sched/app_sched": ("high prio", "low  prio"),
}
LINE = re.compile(r"^(.+?) Task \d+ completed in (\d+) ms$")
COMPILE = "clang++-19 -x hip --cuda-host-only -nogpulib -fuse-cuid=none -O3 -std=c++17 -w -c"
#: What the linker of HIP's compiler would add: the kernels' code, which the runtimes here have.
CODE = "char __hip_fatbin_[4096]; void *__hip_gpubin_handle_;"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--prefix", required=True, type=pathlib.Path)
    parser.add_argument("--runtime", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--out")
    parser.add_argument("--built", type=pathlib.Path, help="keep the programs, or take those there")
    return parser.parse_args()


def build(given, folder):
    runtime = folder / "libamdhip64.so.6"
    shutil.copy(given.runtime.resolve(), runtime)
    code, prefix = folder / "code.c", given.prefix.resolve()
    code.write_text(CODE)
    for name in EXAMPLES:
        program = folder / pathlib.Path(name).name
        if program.exists():
            continue
        source = given.source / "examples" / "Linux" / f"{name}.hip"
        made = program.with_suffix(".o")
        subprocess.run([*COMPILE.split(), f"-I{prefix}/include", str(source), "-o", str(made)],
                       check=True)
        subprocess.run(["g++", str(made), "-x", "c", str(code), "-x", "none", "-o", str(program),
                        f"-L{prefix}/lib", "-lpreempt", "-lhalhip", f"-L{folder}",
                        "-l:libamdhip64.so.6", "-pthread"], check=True)


def times(command, seconds, environment):
    """The ms of each task, by what its line begins with; the first of each is left out."""
    program = subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    time.sleep(seconds)
    program.kill()
    output, said = program.communicate()
    found = {}
    for line in filter(None, map(LINE.match, output.splitlines())):
        found.setdefault(line[1], []).append(int(line[2]))
    if not found:
        raise SystemExit(f"{command[-1]} printed no task:\n{output[-500:]}{said[-1500:]}")
    return {task: every[1:] for task, every in found.items()}


def main():
    given = arguments()
    xsched, rows = given.prefix / "bin" / "xsched", []
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.built or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        build(given, folder)
        library_path = f"{folder}:{given.prefix.resolve()}/lib"
        environment = {"LD_LIBRARY_PATH": f"{library_path}:{os.environ.get('LD_LIBRARY_PATH', '')}",
                       "XSCHED_HIP_LIB": str(folder / "libamdhip64.so.6"),
                       "XSCHED_HIP_RUNTIME": str(folder / "libamdhip64.so.6")}
        for name, (urgent, other) in EXAMPLES.items():
            program = str(folder / pathlib.Path(name).name)
            row = {"example": name}
            for way, command in (("without", [program]), ("with", [str(xsched), "run", "--", program])):
                measured = times(command, given.seconds, environment)
                row[way] = {kind: {"tasks": len(ms), "p50_ms": statistics.median(ms), "ms": ms}
                            for kind, ms in (("urgent", measured.get(urgent, [])),
                                             ("other", measured.get(other, []))) if ms}
            without, with_it = row["without"].get("urgent"), row["with"].get("urgent")
            if without and with_it:
                row["faster"] = round(without["p50_ms"] / with_it["p50_ms"], 2)
            rows.append(row)
            print(name, {way: {kind: (one["p50_ms"], one["tasks"]) for kind, one in row[way].items()}
                         for way in ("without", "with")}, row.get("faster"), flush=True)
    if given.out:
        pathlib.Path(given.out).write_text(json.dumps({"examples": rows}, indent=1) + "\n")
    sys.exit(0 if all(row.get("faster", 0) >= 2 for row in rows) else 1)


if __name__ == "__main__":
    main()
