"""When the kernels of two endless programs ran by the GPU's clock, and what their turns cost.

    python turns.py --xsched target/release/xsched --xschedd target/release/xschedd
                    [--us 800] [--each 4] [--shares 75:25] [--seconds 4] [--timeslice-us N]
                    [--ptx hal-cuda/kernels/spin.ptx] [--out FILE]

Each program launches kernels that fill the device for --us microseconds, which write down when they
begin and end, and records an event behind each --each of them; five such events may be ahead. Both
are started by `xsched run` under a daemon with the policy `up`. A turn is a row of kernels of one
program, from the begin of the first until a kernel of the other one begins.
Prints for each program, as medians over its turns, all in microseconds:

    turn     how long a turn is
    lost     how much of it is more than its kernels take alone
    first    how much longer the first kernel of a turn takes than one alone
    inner    the same of those between, in the mean
    last     the same of the last one
    gap      from the end of the last kernel until the other program's first one begins; less than
             nothing if that one has begun before

and for how much of the time kernels of both were under way, so that they took time slices. --out
has the begin and end of each kernel in nanoseconds.
"""

import argparse
import array
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import shares

HERE = pathlib.Path(__file__).resolve()
THREADS = 1024
# Kernels that a program writes down at most, and how many events may be ahead.
MOST, AHEAD = 1 << 18, 4


class Kernels:
    """Kernels of one stream which fill the device, and when they ran."""

    def __init__(self, ptx):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.kernel, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        stamps, self.address, blocks = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuDeviceGetAttribute", ctypes.byref(blocks), 16, device)
        self.blocks = 2 * blocks.value
        self.call("cuModuleLoad", ctypes.byref(module), os.fsencode(ptx))
        self.call("cuModuleGetFunction", ctypes.byref(self.kernel), module, b"xs_spin")
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)
        # Memory of the host at an address of the device.
        self.call("cuMemHostAlloc", ctypes.byref(stamps), ctypes.c_size_t(16 * MOST), 2)
        self.call("cuMemHostGetDevicePointer_v2", ctypes.byref(self.address), stamps, 0)
        self.stamps = (ctypes.c_uint64 * (2 * MOST)).from_address(stamps.value)
        self.launched, self.cycles = 0, ctypes.c_uint64(1_000_000)

    def call(self, name, *arguments):
        if (code := getattr(self.cuda, name)(*arguments)) != 0:
            raise SystemExit(f"{name}: error {code}")

    def launch(self):
        at = ctypes.c_uint64(self.address.value + 16 * self.launched)
        parameters = [ctypes.addressof(self.cycles), ctypes.addressof(at)]
        self.call("cuLaunchKernel", self.kernel, self.blocks, 1, 1, THREADS, 1, 1, 0, self.stream,
                  (ctypes.c_void_p * 2)(*parameters), None)
        self.launched += 1

    def wait(self):
        self.call("cuStreamSynchronize", self.stream)

    def taken_ns(self, count):
        """How long the last ones took, in the median."""
        self.wait()
        last = range(self.launched - count, self.launched)
        return statistics.median(self.stamps[2 * n + 1] - self.stamps[2 * n] for n in last)

    def calibrate(self, wanted_ns):
        """Has kernels take so long, and answers how long they do."""
        for _ in range(2):
            for _ in range(9):
                self.launch()
            self.cycles.value = round(self.cycles.value * wanted_ns / self.taken_ns(8))
        for _ in range(21):
            self.launch()
        return self.taken_ns(20)

    def run(self, seconds, each):
        """Launches them for so long, with an event behind so many, and answers the first one."""
        first, waiting, free = self.launched, [], []
        for _ in range(AHEAD + 1):
            free.append(ctypes.c_void_p())
            self.call("cuEventCreate", ctypes.byref(free[-1]), 2)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end and self.launched + each <= MOST:
            for _ in range(each):
                self.launch()
            waiting.append(free.pop(0))
            self.call("cuEventRecord", waiting[-1], self.stream)
            if len(waiting) > AHEAD:
                self.call("cuEventSynchronize", waiting[0])
                free.append(waiting.pop(0))
        self.wait()
        return first


def role(ptx, wanted_us, seconds, each, path):
    """One of the two programs."""
    kernels = Kernels(ptx)
    alone_ns = kernels.calibrate(wanted_us * 1000)
    print(alone_ns, flush=True)
    sys.stdin.readline()
    first = kernels.run(seconds, each)
    stamps = kernels.stamps[2 * first:2 * kernels.launched]
    pathlib.Path(path).write_bytes(array.array("Q", stamps).tobytes())


def turns_of(kernels):
    """Rows of kernels of one program: (program, [(begin, end)])."""
    turns = []
    for begin, end, who in sorted(kernels):
        if not turns or turns[-1][0] != who:
            turns.append((who, []))
        turns[-1][1].append((begin, end))
    return turns


def both_ns(kernels):
    """For how long kernels of both were under way."""
    total, until = 0, [0, 0]
    for begin, end, who in sorted(kernels):
        total += max(0, min(end, until[1 - who]) - begin)
        until[who] = max(until[who], end)
    return total


def costs(turns, alone_ns):
    """The medians of each program's turns, without the first and the last one."""
    names = ("turn", "lost", "first", "inner", "last", "gap")
    found = [{name: [] for name in names} for _ in alone_ns]
    for (who, row), (_, following) in zip(turns[1:-1], turns[2:]):
        more = [end - begin - alone_ns[who] for begin, end in row]
        turn = following[0][0] - row[0][0]
        values = {"turn": turn, "lost": turn - len(row) * alone_ns[who], "first": more[0],
                  "last": more[-1], "gap": following[0][0] - max(end for _, end in row)}
        if len(row) > 2:
            values["inner"] = statistics.mean(more[1:-1])
        for name, value in values.items():
            found[who][name].append(value)

    def median_us(values):
        return round(statistics.median(values) / 1000, 1) if values else None
    return [{"turns": len(one["turn"]), **{name: median_us(values) for name, values in one.items()}}
            for one in found]


def measure(given, folder):
    """The kernels that both ran beside each other, and how long one of each takes alone."""
    files = [pathlib.Path(folder) / f"stamps{number}" for number in range(2)]
    programs, alone_ns = [], []
    for share, path in zip(given.shares.split(":"), files):
        command = [given.xsched, "run", "--share", share, "--", sys.executable, str(HERE), "--role",
                   given.ptx, str(given.us), str(given.seconds), str(given.each), str(path)]
        programs.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True))
        said = programs[-1].stdout.readline()
        if not said:
            raise SystemExit(f"a program did not begin: {programs[-1].wait()}")
        alone_ns.append(float(said))
    for program in programs:
        program.stdin.write("go\n")
        program.stdin.flush()
    kernels = []
    for who, (program, path) in enumerate(zip(programs, files)):
        if code := program.wait():
            raise SystemExit(f"a program failed: {code}")
        stamps = array.array("Q", path.read_bytes())
        kernels += [(begin, end, who) for begin, end in zip(stamps[::2], stamps[1::2])]
    # As long as both ran.
    ran = [[one for one in kernels if one[2] == who] for who in range(2)]
    since, until = max(row[0][0] for row in ran), min(row[-1][0] for row in ran)
    return [one for one in kernels if since <= one[0] <= until], alone_ns


def main(given):
    with shares.scheduler(given) as folder:
        kernels, alone_ns = measure(given, folder)
    work = [sum(1 for one in kernels if one[2] == who) * alone_ns[who] for who in range(2)]
    whole = max(end for _, end, _ in kernels) - min(begin for begin, _, _ in kernels)
    rows = costs(turns_of(kernels), alone_ns)
    print({"part": round(100 * work[0] / sum(work), 2), "used": round(100 * sum(work) / whole, 2),
           "both": round(100 * both_ns(kernels) / whole, 2)})
    for row, alone in zip(rows, alone_ns):
        print({"alone": round(alone / 1000, 1), **row})
    if given.out:
        document = {"alone_ns": alone_ns, "turns": rows, "kernels": sorted(kernels)}
        pathlib.Path(given.out).write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        role(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xsched", required=True)
    parser.add_argument("--xschedd", required=True)
    parser.add_argument("--us", type=float, default=800)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--shares", default="75:25")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--timeslice-us", type=int, help="the policy's, instead of the default")
    parser.add_argument("--ptx", default=str(HERE.parents[2] / "hal-cuda/kernels/spin.ptx"))
    parser.add_argument("--out")
    arguments = parser.parse_args()
    for key in ("xsched", "xschedd", "ptx"):
        setattr(arguments, key, os.path.abspath(getattr(arguments, key)))
    main(arguments)
