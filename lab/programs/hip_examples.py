"""Builds examples of the C++ XSched for HIP, unchanged, and runs them with and without scheduling.

    cargo xtask install --prefix PREFIX
    python hip_examples.py --source XSCHED --prefix PREFIX --runtime LIB [--seconds 40] [--out FILE]

XSCHED is a checkout of the C++ project and LIB a HIP runtime: `/opt/rocm/lib/libamdhip64.so`, or one
of this project's, `libxsched_hip_emulated.so` or `libxsched_hip_over_cuda.so` (which takes kernels
from the PTX file that HIP_OVER_CUDA_KERNELS names). Needs clang 19 and HIP's headers. Each example
has an urgent task beside others. Examples 3 and 4 are one process each. Of examples 1, 2 and 7 three
processes run, with the node's scheduler, `xschedd`; with `--core` all on one processor, which the
emulated GPUs of the three then share. Without scheduling kernels go past `xsched run`. Exits with 1
if the urgent task is not twice as fast with it.
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
#: Those that are several processes: the policy, the urgent one's arguments and the others', and
#: whether the urgent one is told to have the active window.
PROCESSES = {
    "1_transparent_sched/app": ("hpf", ["--priority", "1"], ["--priority", "0"], False),
    "2_give_hints/app_with_hints": ("hpf", ["1"], ["0"], False),
    "7_terminal_window/app": ("awf", [], [], True),
}
TASK = re.compile(r"^Task \d+ completed in (\d+) ms$", re.M)
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
    parser.add_argument("--core", type=int, help="the processor of examples 1, 2 and 7")
    parser.add_argument("--only", default="", help="examples whose names begin so")
    parser.add_argument("--built", type=pathlib.Path, help="keep the programs, or take those there")
    return parser.parse_args()


def chosen(examples, given):
    return {name: of for name, of in examples.items() if name.startswith(given.only)}


def build(given, folder):
    runtime = folder / "libamdhip64.so.6"
    shutil.copy(given.runtime.resolve(), runtime)
    code, prefix = folder / "code.c", given.prefix.resolve()
    code.write_text(CODE)
    for name in chosen({**EXAMPLES, **PROCESSES}, given):
        program = folder / name.replace("/", "-")
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


def processes(given, folder, name, environment, scheduled):
    """The ms of the urgent one's tasks and the others', without the first of each."""
    policy, urgent, other, is_window = PROCESSES[name]
    bin_folder, socket = given.prefix.resolve() / "bin", f"{folder}/socket"
    pin = ["taskset", "-c", str(given.core)] if given.core is not None else []
    program = ["stdbuf", "-oL", str(folder / name.replace("/", "-"))]
    environment = {**os.environ, **environment, "XSCHED_SOCKET": socket}
    daemon = None
    if scheduled:
        daemon = subprocess.Popen([bin_folder / "xschedd", "--user", "--policy", policy],
                                  env=environment)
        time.sleep(0.5)
    running = []
    for own in (urgent, other, other):
        # Options are those of `xsched run`, other arguments the program's.
        options = own if own[:1] == ["--priority"] else []
        command = [*program, *([] if options else own)]
        if scheduled:
            command = [bin_folder / "xsched", "run", *options, "--", *command]
        running.append(subprocess.Popen([*pin, *command], stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env=environment))
    if scheduled and is_window:
        # `stdbuf` and `xsched run` become the program.
        tell = [bin_folder / "xsched", "ctl", "set", str(running[0].pid), "--active", "true"]
        while subprocess.run(tell, env=environment, stderr=subprocess.DEVNULL).returncode != 0:
            time.sleep(0.1)
    time.sleep(given.seconds)
    for one in running:
        one.kill()
    outputs = [[int(ms) for ms in TASK.findall(one.communicate()[0])] for one in running]
    if daemon:
        daemon.terminate()
        daemon.wait()
    return {"urgent": outputs[0][1:], "other": outputs[1][1:] + outputs[2][1:]}


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
        for name in chosen({**EXAMPLES, **PROCESSES}, given):
            program = str(folder / name.replace("/", "-"))
            row = {"example": name}
            for way, command in (("without", [program]), ("with", [str(xsched), "run", "--", program])):
                if name in EXAMPLES:
                    found = times(command, given.seconds, environment)
                    measured = dict(zip(("urgent", "other"), map(found.get, EXAMPLES[name])))
                else:
                    measured = processes(given, folder, name, environment, way == "with")
                row[way] = {kind: {"tasks": len(ms), "p50_ms": statistics.median(ms), "ms": ms}
                            for kind, ms in measured.items() if ms}
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
