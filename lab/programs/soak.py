"""Many programs that come and go under a daemon for minutes, and what becomes of the daemon.

    python soak.py --xsched target/release/xsched --xschedd target/release/xschedd --waves ./waves
                   [--ptx lab/kernels/next.ptx] [--minutes 8] [--seed 1] [--at-once 6] [--dense 1]
                   [--python bert_graph.py,bert_train.py] [--out FILE]

Programs of `waves.cpp` and, with --python, programs of this folder come at random times with random
classes, shares and gangs; some are killed. Meanwhile the policy, priorities and holds are changed,
the configuration is read again, and records are made. The daemon's memory, descriptors and threads
are looked at each second, and its metrics. Ends with 1 if a program failed or lost a kernel, if a
counter went back, if memory grew after the first quarter, or if something was left behind. What
programs and administrators do is chosen by the seed; when they do it also depends on the machine.

How many come: a program is there for 1 to 15 seconds, 8 in the middle, and --at-once of them at a
time, so with 6 there are at most 45 arrivals a minute, and 21,600 in eight hours. With --dense N
programs stay for an N-th of that, and others come sooner. An hour has the arrivals of eight if 360
come in a minute. How many do depends on the machine, since a start takes time: the result says how
many came, and for how many minutes at 45 a minute they stand, `stands_for_minutes`. What goes by the
clock, such as a lease that is renewed, happens as often as in the time that it took.

Without a GPU, on the emulated driver:

    cargo build --release -p xsched-cli -p xsched-daemon -p xsched-capi -p xsched-shim-cuda \\
        -p xsched-cuda-emulated
    mkdir gpu && ln -s $PWD/target/release/libxsched_cuda_emulated.so gpu/libcuda.so.1
    export LD_LIBRARY_PATH=$PWD/gpu XSCHED_CUDA_DRIVER=$PWD/gpu/libcuda.so.1
    python soak.py … --at-once 6 --dense 1000

On two processors that had 254 programs in 24 seconds, which stands for 5.6 minutes. Kernels take
processors there: with many programs at once the daemon and programs are late, and leases run out.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import waves

HERE = pathlib.Path(__file__).resolve().parent
POLICIES = ["hpf", "up", "wfq", "cfs", "edf", "pup", "strict_up"]
# What memory may grow by after the first quarter, in KiB.
GROWTH_KIB = 2048
# How long a program may take to end that comes first, in seconds.
END_S = 60
# Programs that come in a minute, at six at once of eight seconds.
NOMINAL_PER_MINUTE = 45


class Daemon:
    """The daemon, and what is seen of it from outside."""

    def __init__(self, given, folder):
        self.given, self.folder = given, folder
        self.variables = {"XSCHED_SOCKET": f"{folder}/socket"}
        config = pathlib.Path(folder) / "xschedd.toml"
        config.write_text(f'[metrics]\nlisten = "127.0.0.1:{given.port}"\n')
        self.program = subprocess.Popen([given.xschedd, "--user", "--config", config, "--socket",
                                         self.variables["XSCHED_SOCKET"]])
        self.counters, self.went_back, self.ending = {}, [], set()
        time.sleep(0.5)

    def tell(self, *arguments):
        return subprocess.run([self.given.xsched, *map(str, arguments)], capture_output=True,
                              text=True, env={**os.environ, **self.variables})

    def status(self):
        return json.loads(self.tell("ps", "--json").stdout)

    def clients(self):
        return self.status()["processes"]

    def look(self):
        status = pathlib.Path(f"/proc/{self.program.pid}/status").read_text().splitlines()
        words = {line.split(":")[0]: line.split()[1] for line in status if len(line.split()) > 1}
        files = len(os.listdir(f"/proc/{self.program.pid}/fd"))
        return {"rss_kib": int(words["VmRSS"]), "files": files, "threads": int(words["Threads"])}

    def scrape(self):
        """Looks whether a counter went back."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.given.port}/metrics") as answer:
            text = answer.read().decode()
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if "_total{" not in name and "_bucket{" not in name and "_count{" not in name:
                continue
            if float(value) < self.counters.get(name, 0):
                self.went_back.append(f"{name} went back to {value}")
            self.counters[name] = float(value)


class Program(threading.Thread):
    """A program from its start to its end."""

    def __init__(self, given, daemon, number):
        super().__init__()
        self.given, self.daemon_, self.rng = given, daemon, random.Random(f"{given.seed}-{number}")
        self.wrong, self.kernels, self.what = [], 0, ""

    def run(self):
        rng, given = self.rng, self.given
        way = [given.xsched, "run", "--class", rng.choice(["interactive", "normal", "batch"])]
        if rng.random() < 0.3:
            way += ["--share", str(rng.randint(1, 100))]
        if rng.random() < 0.2:
            way += ["--gang", rng.choice("ab")]
        if rng.random() < 0.2:
            way += ["--streams"]
        python = given.python.split(",") if given.python else []
        if python and rng.random() < 0.2:
            return self.script([*way, "--", sys.executable, str(HERE / rng.choice(python))])
        try:
            self.waves([*way, "--"])
        except SystemExit as ended:
            self.wrong.append(f"{ended} ({self.what})")

    def script(self, command):
        """A program that ends by itself, which others that come first can keep from that."""
        program = subprocess.Popen(command, env={**os.environ, **self.daemon_.variables}, cwd=HERE,
                                   stdout=subprocess.DEVNULL)
        try:
            if program.wait(END_S):
                self.wrong.append(f"{command[-1]} ended with {program.returncode}")
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    def give_up(self, program):
        """It should have ended. Notes how it was."""
        status = self.daemon_.status()
        of_it = [client for client in status["processes"] if client["pid"] == program.pid]
        self.what += f", not ended in {END_S} s under {status['policy']}: {of_it}"
        program.kill()

    def waves(self, way):
        rng = self.rng
        program = waves.Waves(self.given, way, **self.daemon_.variables)
        is_load = rng.random() < 0.6
        if is_load:
            line = f"load {rng.choice([50, 100, 500, 2000])}"
        else:
            tasks = max(1, round(rng.randint(10, 200) / self.given.dense))
            line = f"task {tasks} {rng.randint(1, 5000)}"
        self.what = " ".join([*way[2:-1], line])
        program.ask(line) if is_load else program.tell(line)
        time.sleep(rng.uniform(1, 15) / self.given.dense)
        if rng.random() < 0.2:
            return program.end()
        # Others that come first would keep it from its end, and so would an administrator.
        self.daemon_.ending.add(program.program.pid)
        self.daemon_.tell("ctl", "set", program.program.pid, "--priority", 255)
        limit = threading.Timer(END_S, self.give_up, [program.program])
        limit.start()
        answer = program.asked("stop") if is_load else json.loads(program.take())
        self.kernels = answer.get("ran", 0)
        if answer.get("lost") or answer["wrong"]:
            self.wrong.append(str(answer))
        program.program.stdin.close()
        if program.program.wait():
            self.wrong.append(f"a program ended with {program.program.returncode}")
        limit.cancel()


def disturb(daemon, rng):
    """One of the things that administrators do."""
    clients = [client for client in daemon.clients() if client["pid"] not in daemon.ending]
    pid = rng.choice(clients)["pid"] if clients else 0
    what = rng.randrange(6)
    if what == 0:
        daemon.tell("ctl", "policy", rng.choice(POLICIES))
    elif what == 1 and pid:
        daemon.tell("ctl", "hold", pid)
        time.sleep(rng.random() * 0.3)
        daemon.tell("ctl", "release", pid)
    elif what == 2 and pid:
        daemon.tell("ctl", "set", pid, "--priority", rng.randint(-255, 250))
    elif what == 3:
        daemon.program.send_signal(signal.SIGHUP)
    elif what == 4:
        daemon.tell("record", "--seconds", 1, "--out", f"{daemon.folder}/record.xsr")


def arrive(given, daemon, end, programs):
    """Starts the next program as soon as there are fewer than there may be at once."""
    running = []
    while time.time() < end:
        running = [program for program in running if program.is_alive()]
        while len(running) < given.at_once:
            running.append(Program(given, daemon, len(programs)))
            programs.append(running[-1])
            running[-1].start()
        time.sleep(0.2 / given.dense)
    for program in running:
        program.join()


def live(given, daemon):
    """Has programs come and go; answers them, and what was seen of the daemon."""
    end, rng = time.time() + 60 * given.minutes, random.Random(given.seed)
    programs, samples, looked = [], [], 0
    arrivals = threading.Thread(target=arrive, args=(given, daemon, end, programs))
    arrivals.start()
    while time.time() < end:
        disturb(daemon, rng)
        if time.time() - looked >= 1:
            looked = time.time()
            samples.append(daemon.look())
            daemon.scrape()
        time.sleep(rng.random() * 0.2)
    arrivals.join()
    return programs, samples


def judge(given, daemon, before, programs, samples):
    time.sleep(2)
    after, wrong = daemon.look(), list(daemon.went_back)
    wrong += [what for program in programs for what in program.wrong]
    rss = [sample["rss_kib"] for sample in samples]
    quarter, most = max(rss[:1 + len(rss) // 4]), max(rss)
    if most > quarter + GROWTH_KIB:
        wrong.append(f"memory grew from {quarter} to {most} KiB")
    for what in ("files", "threads"):
        if after[what] > before[what]:
            wrong.append(f"{what}: {before[what]} before, {after[what]} after")
    if left := daemon.clients():
        wrong.append(f"left behind: {left}")
    daemon.program.terminate()
    if daemon.program.wait():
        wrong.append(f"the daemon ended with {daemon.program.returncode}")
    return {"minutes": given.minutes, "seed": given.seed, "dense": given.dense,
            "programs": len(programs),
            "stands_for_minutes": round(len(programs) / NOMINAL_PER_MINUTE, 1),
            "kernels": sum(program.kernels for program in programs), "before": before,
            "after": after, "rss_first_quarter_kib": quarter, "rss_most_kib": most, "wrong": wrong}


def main(given):
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(given, folder)
        daemon.scrape()
        before = daemon.look()
        result = judge(given, daemon, before, *live(given, daemon))
    print(json.dumps(result, indent=1))
    if given.out:
        pathlib.Path(given.out).write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    waves.arguments(parser)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=6, help="programs at a time")
    parser.add_argument("--dense", type=float, default=1, metavar="N",
                        help="programs stay for an N-th of the time, and others come sooner")
    parser.add_argument("--port", type=int, default=9464, help="for the daemon's metrics, on loopback")
    parser.add_argument("--python", default="", help="programs of this folder that end by themselves")
    parser.add_argument("--out")
    sys.exit(main(parser.parse_args()))
