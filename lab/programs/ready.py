"""What it costs a training in the default stream that it can be held: plain and beside others.

    python ready.py --xsched target/release/xsched --xschedd target/release/xschedd
                    [--seconds 5] [--priority 10] [--spacings 300,1000] [--out FILE]

A step is one of ResNet-50 with 128 images, in half precision and kernel by kernel, two at most on
their way. It runs plainly, under `xsched run` without a daemon, with a daemon alone, and then
beside a process of priority -10: one that has nothing to do, one that trains without end and is
held for this one, and the same one stopped by SIGSTOP; with `--spacings` also with gates so many
microseconds apart. `--priority -10` has the daemon hold neither for the other one, which then
shares the GPU. Prints the medians of steps in ms, and of the host's time for launching one.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import beside

HERE = pathlib.Path(__file__).resolve()
OTHERS = -10


def steps():
    import torch
    import torchvision

    torch.backends.cudnn.deterministic = True
    model = torchvision.models.resnet50(weights=None).cuda().train()
    images = torch.randn(128, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (128,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    for _ in range(8):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line)
        ends, taken, host, begin = [], [], [], time.perf_counter()
        last = begin
        while seconds == 0 or time.perf_counter() - begin < seconds:
            before = time.perf_counter()
            step()
            host.append(time.perf_counter() - before)
            event = torch.cuda.Event()
            event.record()
            ends.append(event)
            if len(ends) > 2:
                ends.pop(0).synchronize()
                now = time.perf_counter()
                taken.append(now - last)
                last = now
        torch.cuda.synchronize()
        median = {"step_ms": statistics.median(taken), "host_ms": statistics.median(host)}
        print(json.dumps({"steps": len(taken)} | {k: round(1e3 * v, 2) for k, v in median.items()}),
              flush=True)


def training(way=(), **variables):
    """A process that trains for as many seconds as it is told, or without end for 0."""
    return beside.Role(way, "training", script=HERE, **variables)


def begin(role, seconds):
    role.program.stdin.write(f"{seconds}\n")
    role.program.stdin.flush()


def main(given):
    rows = []

    def measure(name, role):
        begin(role, given.seconds)
        rows.append({"where": name, **json.loads(role.program.stdout.readline())})
        print(rows[-1], flush=True)

    def lone(name, way=(), **variables):
        role = training(way, **variables)
        measure(name, role)
        role.end()

    def run(priority):
        return [given.xsched, "run", "--priority", str(priority), "--"]

    lone("plain")
    with tempfile.TemporaryDirectory() as folder:
        node = {"XSCHED_SOCKET": f"{folder}/socket"}
        lone("no daemon", run(given.priority), **node)
        daemon = subprocess.Popen([given.xschedd, "--user", "--socket", node["XSCHED_SOCKET"]])
        time.sleep(0.5)
        lone("alone", run(given.priority), **node)
        other, role = training(run(OTHERS), **node), training(run(given.priority), **node)
        measure("beside an idle one", role)
        begin(other, 0)
        time.sleep(1)
        measure("beside one", role)
        other.program.send_signal(signal.SIGSTOP)
        measure("beside one that is stopped", role)
        other.program.send_signal(signal.SIGCONT)
        role.end()
        for us in filter(None, given.spacings.split(",")):
            variables = {**node, "XSCHED_GATE_SPACING_US": us}
            lone(f"beside one, spacing {us}", run(given.priority), **variables)
        other.end()
        daemon.terminate()
        daemon.wait()
    if given.out:
        pathlib.Path(given.out).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--role", "training"]:
        steps()
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xsched", required=True, type=os.path.abspath)
    parser.add_argument("--xschedd", required=True, type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--priority", type=int, default=10)
    parser.add_argument("--spacings", default="", help="of gates, in µs, separated by commas")
    parser.add_argument("--out")
    main(parser.parse_args())
