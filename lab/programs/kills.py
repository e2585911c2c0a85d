"""Kills the daemon and programs at random moments, and looks at what goes on.

    python kills.py --xsched target/release/xsched --xschedd target/release/xschedd --waves ./waves
                    [--ptx lab/kernels/next.ptx] [--kills 100] [--seed 1] [--out FILE]

One program has tasks of 2 ms, another endless kernels of 500 µs that are held for them, under a
daemon: see `waves.cpp`. At random moments the daemon, one of the programs, two or all three of them
are killed. The others must go on, no kernel may be lost, repeated or run out of order, and nobody
may be held past the lease of 100 ms. Then the daemon is stopped for five seconds, started anew ten
times under load, and run where no disk has room. Ends with 1 if anything went wrong.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import waves

LEASE_MS = 100
# What a hold may last beyond its lease: the tasks that it is for, and kernels on their way.
TASKS, SLACK_MS = 40, 150


class Node:
    def __init__(self, given, folder):
        self.given, self.variables = given, {"XSCHED_SOCKET": f"{folder}/socket"}
        self.daemon = self.urgent = self.endless = None
        self.wrong, self.longest_ms = [], 0
        self.fill()

    def start_daemon(self):
        command = [self.given.xschedd, "--user", "--socket", self.variables["XSCHED_SOCKET"]]
        self.daemon = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def program(self, name):
        way = [self.given.xsched, "run", "--class", name, "--"]
        return waves.Waves(self.given, way, **self.variables)

    def fill(self):
        """Starts what does not run."""
        if self.daemon is None:
            self.start_daemon()
            time.sleep(0.1)
        if self.urgent is None:
            self.urgent = self.program("interactive")
        if self.endless is None:
            self.endless = self.program("batch")
            self.endless.ask("load 500")

    def kill(self, victims):
        for name in victims:
            program = getattr(self, name)
            (program if name == "daemon" else program.program).kill()
        for name in victims:
            program = getattr(self, name)
            (program if name == "daemon" else program.program).wait()
            setattr(self, name, None)

    def judge(self, what, most_ms):
        """Looks at those that run."""
        if self.urgent:
            answer = json.loads(self.urgent.take())
            if answer["wrong"]:
                self.wrong.append((what, answer))
        if self.endless:
            answer = self.endless.asked("stop")
            self.longest_ms = max(self.longest_ms, answer["longest_ms"])
            if answer["lost"] or answer["wrong"] or answer["longest_ms"] > most_ms:
                self.wrong.append((what, answer))
            self.endless.ask("load 500")

    def beside(self, tasks=TASKS):
        self.urgent.tell(f"task {tasks} 2000")

    def is_held(self):
        """Whether the endless program is held for tasks, by how seldom it gets on."""
        def rate(tasks):
            if tasks:
                self.urgent.tell("task 400 1")
            found = self.endless.rate(0.5)
            if tasks:
                self.urgent.take()
            return found
        slow, fast = rate(True), rate(False)
        # These tasks have no pauses, so the hold lasted as long as they all did.
        self.endless.ask("stop")
        self.endless.ask("load 500")
        return slow < 0.5 * fast

    def end(self):
        for program in (self.urgent, self.endless):
            program.end()
        self.daemon.terminate()
        self.daemon.wait()


def kills(given, node, rng):
    names = ["daemon", "urgent", "endless"]
    for number in range(given.kills):
        victims = rng.sample(names, rng.choices([1, 2, 3], [6, 3, 1])[0])
        node.beside()
        time.sleep(rng.random() * 0.15)
        node.kill(victims)
        # Tasks take 3 ms on average, all of them at most that long.
        node.judge((number, victims), LEASE_MS + SLACK_MS)
        node.fill()
    if not node.is_held():
        node.wrong.append("nobody is held after the kills")


def stop_daemon(node, seconds):
    node.beside()
    time.sleep(0.05)
    node.daemon.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    node.daemon.send_signal(signal.SIGCONT)
    node.judge("SIGSTOP", LEASE_MS + SLACK_MS)
    time.sleep(1.5)
    if not node.is_held():
        node.wrong.append("nobody is held after SIGSTOP")


def upgrades(node, count):
    for number in range(count):
        node.beside(100)
        time.sleep(0.05)
        node.daemon.terminate()
        node.daemon.wait()
        node.start_daemon()
        node.judge(("upgrade", number), LEASE_MS + SLACK_MS)
    time.sleep(1.5)
    if not node.is_held():
        node.wrong.append("nobody is held after upgrades")


def full_disk(given):
    """A daemon and programs whose folder gets full."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
            return "not tried: no right to mount"
        os.environ["TMPDIR"] = folder
        node = Node(given, folder)
        try:
            with open(f"{folder}/full", "wb") as file:
                while file.write(bytes(4096)):
                    file.flush()
        except OSError:
            pass
        for number in range(5):
            node.beside()
            node.judge(("full disk", number), LEASE_MS + SLACK_MS)
            node.kill(["endless"])
            node.fill()
        held = node.is_held()
        node.end()
        del os.environ["TMPDIR"]
        subprocess.run(["umount", folder])
        return node.wrong or ([] if held else "nobody is held")


def main(given):
    rng, result = random.Random(given.seed), {"kills": given.kills, "seed": given.seed}
    with tempfile.TemporaryDirectory() as folder:
        node = Node(given, folder)
        for name, step in {"kill": lambda: kills(given, node, rng),
                           "stop 5 s": lambda: stop_daemon(node, 5),
                           "upgrade 10 times": lambda: upgrades(node, 10)}.items():
            node.wrong, node.longest_ms = [], 0
            step()
            result[name] = {"wrong": node.wrong, "longest_ms": node.longest_ms}
            print(name, result[name], flush=True)
        node.end()
    result["full disk"] = full_disk(given)
    print("full disk", result["full disk"], flush=True)
    if given.out:
        with open(given.out, "w") as file:
            json.dump(result, file, indent=1)
    steps = [found["wrong"] for found in result.values() if isinstance(found, dict)]
    return 1 if any(steps) or result["full disk"] not in ([], "not tried: no right to mount") else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    waves.arguments(parser)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    sys.exit(main(parser.parse_args()))
