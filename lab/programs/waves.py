"""Short tasks beside endless kernels in another process, with the ways of sharing a GPU.

    g++ -std=c++17 -O2 lab/programs/waves.cpp -Icapi/include -ldl -pthread -o waves
    python waves.py --xsched target/release/xsched --xschedd target/release/xschedd
                    --waves ./waves [--ptx lab/kernels/next.ptx] [--tasks 1000] [--us 100,500,2000]
                    [--ways plain,priorities,xsched,mps,mps+xsched] [--out FILE]
                    [--cpp FOLDER] [--cpp-limits 16,8] [--cpp-port 50000]

A task is 20 kernels of 100 µs. The endless kernels take as long as --us says. Prints how long tasks
take over tasks alone, P50 and P99, and how many endless kernels ran, over those alone. With
`priorities` both are streams of one process, with the highest and the lowest priority.

With `cpp` both are scheduled by the C++ XSched that `lab/cpp/build.sh` has built into FOLDER: by
its `xserver` with the policy HPF, at level 1, with priorities 1 and 0. --cpp-limits has threshold
and batch size of the endless kernels' queue: how many kernels are on their way at most, and
after how many it is looked whether they have ended. The tasks' queue has the defaults, 16 and 8.
XSched's example has 4,2 for what is less urgent. XSCHED_CUDA_LIB has the path of the driver, if it
is not the one that the dynamic loader finds.
"""

import argparse
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.request

import beside


class Waves:
    """A process of `waves.cpp`."""

    def __init__(self, given, way=(), **variables):
        command = [*way, given.waves, given.ptx, *given.cycles_per_ns]
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **variables})
        self.take()

    def tell(self, line):
        self.program.stdin.write(line + "\n")
        self.program.stdin.flush()

    def take(self):
        line = self.program.stdout.readline()
        if not line:
            raise SystemExit(f"a program has ended: {self.program.wait()}")
        return line.strip()

    def ask(self, line):
        self.tell(line)
        return self.take()

    def asked(self, line):
        return json.loads(self.ask(line))

    def rate(self, seconds):
        before, begin = int(self.ask("count")), time.perf_counter()
        time.sleep(seconds)
        return (int(self.ask("count")) - before) / (time.perf_counter() - begin)

    def end(self):
        self.program.kill()
        self.program.wait()


def driver():
    """The path of the CUDA driver, which XSched's own library would hide."""
    address = ctypes.cast(ctypes.CDLL("libcuda.so.1").cuInit, ctypes.c_void_p).value
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(word, 16) for word in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split(maxsplit=5)[5]


class Cpp:
    """What the C++ XSched needs besides the programs; has what a `Node` has."""

    def __init__(self, given, folder):
        if not given.cpp:
            raise SystemExit("the way cpp needs --cpp")
        library = pathlib.Path(folder) / "cpp"
        library.mkdir()
        (library / "libcuda.so.1").symlink_to(f"{given.cpp}/libshimcuda.so")
        threshold, batch_size = given.cpp_limits.split(",")
        self.urgent = ["env", "XSCHED_AUTO_XQUEUE_PRIORITY=1"]
        self.batch = ["env", "XSCHED_AUTO_XQUEUE_PRIORITY=0",
                      f"XSCHED_AUTO_XQUEUE_THRESHOLD={threshold}",
                      f"XSCHED_AUTO_XQUEUE_BATCH_SIZE={batch_size}"]
        path = os.environ.get("LD_LIBRARY_PATH", "")
        self.variables = {
            "XSCHED_SCHEDULER": "GLB", "XSCHED_AUTO_XQUEUE": "ON", "XSCHED_AUTO_XQUEUE_LEVEL": "1",
            "XSCHED_AUTO_XQUEUE_THRESHOLD": "16", "XSCHED_AUTO_XQUEUE_BATCH_SIZE": "8",
            "XSCHED_CUDA_LIB": os.environ.get("XSCHED_CUDA_LIB") or driver(),
            "LD_LIBRARY_PATH": ":".join(filter(None, [str(library), given.cpp, path]))}
        self.port = given.cpp_port
        self.server = subprocess.Popen([f"{given.cpp}/xserver", "HPF", str(self.port)])
        self.await_server()

    def queues(self):
        """The queues that the server knows, as it describes them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/xqueues", timeout=5) as answer:
            return json.load(answer)["xqueues"]

    def await_server(self):
        for _ in range(100):
            time.sleep(0.1)
            if self.server.poll() is not None:
                raise SystemExit(f"xserver has ended: {self.server.returncode}")
            try:
                return self.queues()
            except OSError:
                pass
        raise SystemExit("xserver does not answer")

    def end(self):
        self.server.send_signal(signal.SIGINT)
        try:
            self.server.wait(5)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()


def row_of(given, us, urgent, endless):
    """Tasks alone, endless kernels alone, and both."""
    task = f"task {given.tasks} {given.pause_us}"
    alone = urgent.asked(task)["task"]
    endless.ask(f"load {us}")
    time.sleep(0.2)
    rate_alone = endless.rate(1)
    before, begin = int(endless.ask("count")), time.perf_counter()
    urgent.tell(task)
    beside_it = json.loads(urgent.take())
    # The two may be one process, which answers one after the other.
    kept = (int(endless.ask("count")) - before) / (time.perf_counter() - begin) / rate_alone
    stopped = endless.asked("stop")
    task = beside_it["task"]
    assert not (stopped["lost"] or stopped["wrong"] or beside_it["wrong"]), (stopped, beside_it)
    row = {"us": us, "alone_p50_us": alone["p50_us"], "p50_us": task["p50_us"],
           "p50_over_alone": task["p50_us"] / alone["p50_us"],
           "p99_over_alone": task["p99_us"] / alone["p99_us"] if task["p99_us"] else None,
           "kept": kept}
    return {key: round(value, 3) if value else value for key, value in row.items()}


def main(given):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for way in given.ways.split(","):
            node = Cpp(given, folder) if way == "cpp" else beside.Node(way, given, folder)
            urgent = Waves(given, node.urgent, **node.variables)
            one = way == "priorities"
            endless = urgent if one else Waves(given, node.batch, **node.variables)
            for us in given.us.split(","):
                rows.append({"way": way, **row_of(given, int(us), urgent, endless)})
                print(rows[-1], flush=True)
            for program in {urgent, endless}:
                program.end()
            node.end()
    if given.out:
        with open(given.out, "w") as file:
            json.dump(rows, file, indent=1)


def arguments(parser):
    """What is common with `kills.py`."""
    parser.add_argument("--xsched", required=True, type=os.path.abspath)
    parser.add_argument("--xschedd", required=True, type=os.path.abspath)
    parser.add_argument("--waves", default="./waves", type=os.path.abspath)
    parser.add_argument("--ptx", default="lab/kernels/next.ptx", type=os.path.abspath)
    parser.add_argument("--cycles-per-ns", nargs=1, default=[], metavar="CYCLES",
                        help="the GPU's clock, which the programs measure otherwise")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments(parser)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--pause-us", type=int, default=4000)
    parser.add_argument("--us", default="100,500,2000")
    parser.add_argument("--ways", default="plain,priorities,xsched,mps,mps+xsched")
    parser.add_argument("--cpp", type=os.path.abspath, help="what lab/cpp/build.sh has built")
    parser.add_argument("--cpp-limits", default="16,8", help="threshold and batch size")
    parser.add_argument("--cpp-port", type=int, default=50000)
    parser.add_argument("--out")
    main(parser.parse_args())
