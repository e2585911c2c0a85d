"""Many programs that come and go under a daemon for minutes, and what becomes of the daemon.

    python soak.py --xsched target/release/xsched --xschedd target/release/xschedd --waves ./waves
                   [--ptx lab/kernels/next.ptx] [--minutes 8] [--seed 1] [--at-once 6] [--out FILE]
                   [--python bert_graph.py,bert_train.py]

Programs of `waves.cpp` and, with --python, programs of this folder come at random times with random
classes, shares and gangs; some are killed. Meanwhile the policy, priorities and holds are changed,
the configuration is read again, and records are made. The daemon's memory, descriptors and threads
are looked at each second, and its metrics. Ends with 1 if a program failed or lost a kernel, if a
counter went back, if memory grew after the first quarter, or if something was left behind.
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
import time
import urllib.request

import waves

HERE = pathlib.Path(__file__).resolve().parent
PORT = 9464
POLICIES = ["hpf", "up", "wfq", "cfs", "edf", "pup", "strict_up"]
# What memory may grow by after the first quarter, in KiB.
GROWTH_KIB = 2048


class Soak:
    def __init__(self, given, folder):
        self.given, self.folder, self.rng = given, folder, random.Random(given.seed)
        self.variables = {"XSCHED_SOCKET": f"{folder}/socket"}
        self.wrong, self.samples, self.counters, self.programs, self.came = [], [], {}, [], 0
        config = pathlib.Path(folder) / "xschedd.toml"
        config.write_text(f'[metrics]\nlisten = "127.0.0.1:{PORT}"\n')
        self.daemon = subprocess.Popen([given.xschedd, "--user", "--config", config, "--socket",
                                        self.variables["XSCHED_SOCKET"]])
        time.sleep(0.5)
        self.scrape()
        self.before = self.look()

    def tell(self, *arguments):
        command = [self.given.xsched, *map(str, arguments)]
        return subprocess.run(command, env={**os.environ, **self.variables}, capture_output=True,
                              text=True)

    def look(self):
        status = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text().splitlines()
        words = {line.split(":")[0]: line.split()[1] for line in status if len(line.split()) > 1}
        files = len(os.listdir(f"/proc/{self.daemon.pid}/fd"))
        return {"rss_kib": int(words["VmRSS"]), "files": files, "threads": int(words["Threads"])}

    def scrape(self):
        """Looks whether a counter went back."""
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as answer:
            text = answer.read().decode()
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if "_total{" not in name and "_bucket{" not in name and "_count{" not in name:
                continue
            if float(value) < self.counters.get(name, 0):
                self.wrong.append(f"{name} went back to {value}")
            self.counters[name] = float(value)

    def start(self):
        rng, self.came = self.rng, self.came + 1
        way = [self.given.xsched, "run", "--class", rng.choice(["interactive", "normal", "batch"])]
        if rng.random() < 0.3:
            way += ["--share", str(rng.randint(1, 100))]
        if rng.random() < 0.2:
            way += ["--gang", rng.choice("ab")]
        python = self.given.python.split(",") if self.given.python else []
        if python and rng.random() < 0.2:
            command = [*way, "--", sys.executable, str(HERE / rng.choice(python))]
            program = subprocess.Popen(command, env={**os.environ, **self.variables}, cwd=HERE,
                                       stdout=subprocess.DEVNULL)
            return self.programs.append((program, None, time.time() + 60))
        program = waves.Waves(self.given, [*way, "--"], **self.variables)
        is_load = rng.random() < 0.6
        if is_load:
            program.ask(f"load {rng.choice([50, 100, 500, 2000])}")
        else:
            program.tell(f"task {rng.randint(10, 2000)} {rng.randint(1, 5000)}")
        self.programs.append((program, is_load, time.time() + rng.uniform(1, 15)))

    def finish(self, program, is_load):
        """Ends a program in one of several ways, and looks at what it says."""
        if is_load is None:
            if program.poll() is None:
                program.kill()
            elif program.returncode:
                self.wrong.append(f"a program ended with {program.returncode}")
            return program.wait()
        if self.rng.random() < 0.2:
            return program.end()
        answer = program.asked("stop") if is_load else json.loads(program.take())
        if answer.get("lost") or answer["wrong"]:
            self.wrong.append(str(answer))
        program.program.stdin.close()
        if program.program.wait():
            self.wrong.append(f"a program ended with {program.program.returncode}")

    def disturb(self):
        """One of the things that administrators do."""
        known = json.loads(self.tell("ps", "--json").stdout)["clients"]
        pid = self.rng.choice(known)["pid"] if known else 0
        what = self.rng.randrange(6)
        if what == 0:
            self.tell("ctl", "policy", self.rng.choice(POLICIES))
        elif what == 1 and pid:
            self.tell("ctl", "hold", pid)
            time.sleep(self.rng.random() * 0.3)
            self.tell("ctl", "release", pid)
        elif what == 2 and pid:
            self.tell("ctl", "set", pid, "--priority", self.rng.randint(-255, 255))
        elif what == 3:
            self.daemon.send_signal(signal.SIGHUP)
        elif what == 4:
            self.tell("record", "--daemon", "--seconds", 1, "--out", f"{self.folder}/record.xsr")

    def run(self):
        end, looked = time.time() + 60 * self.given.minutes, 0
        while time.time() < end:
            if len(self.programs) < self.given.at_once:
                self.start()
            due = [one for one in self.programs if one[2] < time.time()]
            self.programs = [one for one in self.programs if one not in due]
            for program, is_load, _ in due:
                self.finish(program, is_load)
            self.disturb()
            if time.time() - looked >= 1:
                looked = time.time()
                self.samples.append(self.look())
                self.scrape()
        for program, is_load, _ in self.programs:
            self.finish(program, is_load)

    def judge(self):
        time.sleep(2)
        after = self.look()
        quarter = max(one["rss_kib"] for one in self.samples[:1 + len(self.samples) // 4])
        most = max(one["rss_kib"] for one in self.samples)
        if most > quarter + GROWTH_KIB:
            self.wrong.append(f"memory grew from {quarter} to {most} KiB")
        for what in ("files", "threads"):
            if after[what] > self.before[what]:
                self.wrong.append(f"{what}: {self.before[what]} before, {after[what]} after")
        left = json.loads(self.tell("ps", "--json").stdout)["clients"]
        if left:
            self.wrong.append(f"left behind: {left}")
        self.daemon.terminate()
        if self.daemon.wait():
            self.wrong.append(f"the daemon ended with {self.daemon.returncode}")
        return {"minutes": self.given.minutes, "seed": self.given.seed, "programs": self.came,
                "before": self.before, "after": after, "rss_first_quarter_kib": quarter,
                "rss_most_kib": most, "wrong": self.wrong}


def main(given):
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(given, folder)
        soak.run()
        result = soak.judge()
    print(json.dumps(result, indent=1))
    if given.out:
        pathlib.Path(given.out).write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    waves.arguments(parser)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--python", default="", help="programs of this folder that end by themselves")
    parser.add_argument("--out")
    sys.exit(main(parser.parse_args()))
