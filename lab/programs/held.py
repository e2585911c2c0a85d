"""How long requests of one process take while the daemon holds another one, by what that one does.

    python held.py --xsched target/release/xsched --xschedd target/release/xschedd [--holds 10] [--out FILE]

A process that is held has work on the device which waits at gates. Whether the driver gives it time
slices all the same, in which nothing runs, shows in how long the other one's requests take: twice as
long if so. Each shape of the held process is held so often, at random moments, and the longest median
of a hold is printed over that without it; then that of several held processes. Ends with 1 if a shape
other than `graph with branches` is above 1.15, or if a held process ended or went on.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

AT_MOST = 1.15
SHAPES = ("one stream", "two streams", "convolution", "graph", "graph of convolutions",
          "graph with branches")
#: What is known to keep its time slices.
KNOWN = ("graph with branches",)
#: So many processes are held together, each with one stream.
TOGETHER = (2, 5)


def step_of(torch, shape):
    """A step of a process of this shape: some milliseconds of the device, in a stream."""
    one, two, three = torch.randn(3, 2048, 2048, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]

    def alone():
        for _ in range(10):
            torch.mm(one, one, out=two)

    def spread():
        here = torch.cuda.current_stream()
        for _ in range(5):
            streams[0].wait_stream(here)
            with torch.cuda.stream(streams[0]):
                torch.mm(one, one, out=two)
            torch.mm(one, one, out=three)
            here.wait_stream(streams[0])

    if "convolution" in shape:
        # With these sizes cuDNN uses streams of its own.
        layer = torch.nn.Conv2d(128, 128, 3, padding=1, bias=False).cuda().eval()
        image = torch.randn(32, 128, 28, 28, device="cuda")

        def layers():
            for _ in range(20):
                image.copy_(layer(image))
                # As much beside it as in a block of ResNet.
                for _ in range(5):
                    image.mul_(1)
        alone = layers
    work = spread if shape in ("two streams", "graph with branches") else alone
    if not shape.startswith("graph"):
        return work
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=streams[1]):
        work()
    return graph.replay


def background(torch, shape):
    """Makes steps, two at a time, and says so."""
    with torch.inference_mode(), torch.cuda.stream(torch.cuda.Stream()):
        step = step_of(torch, shape)
        ends = [torch.cuda.Event(blocking=True) for _ in range(2)]
        for number in range(1 << 30):
            end = ends[number % 2]
            end.synchronize()
            step()
            end.record()
            print(number, flush=True)


class Foreground:
    """Requests of some milliseconds."""

    def __init__(self, torch):
        self.one, self.two = torch.randn(2, 2048, 2048, device="cuda")
        self.torch, self.end = torch, torch.cuda.Event(blocking=True)

    def request_ms(self):
        begin = time.perf_counter()
        for _ in range(20):
            self.torch.mm(self.one, self.one, out=self.two)
        self.end.record()
        self.end.synchronize()
        return (time.perf_counter() - begin) * 1e3

    def median_ms(self, seconds):
        until, taken = time.monotonic() + seconds, []
        while time.monotonic() < until or len(taken) < 5:
            taken.append(self.request_ms())
        return statistics.median(taken)


class Held:
    """A process of this shape, and the steps that it has made."""

    def __init__(self, given, shape, variables):
        command = [given.xsched, "run", "--class", "batch", "--", sys.executable, __file__, "--shape", shape]
        self.given, self.variables, self.steps = given, variables, []
        self.program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables)
        lines = iter(self.program.stdout.readline, "")
        threading.Thread(target=lambda: self.steps.extend(lines), daemon=True).start()

    def begins(self):
        """Whether it makes steps, and has not ended."""
        while len(self.steps) < 20 and self.program.poll() is None:
            time.sleep(0.05)
        return self.program.poll() is None

    def tell(self, what):
        command = [self.given.xsched, "ctl", what, str(self.program.pid)]
        subprocess.run(command, env=self.variables, check=True, capture_output=True)

    def end(self):
        self.program.kill()
        self.program.wait()


def held(given, shape, count, foreground, variables):
    """The longest median of holds of so many processes, and steps that were seen within holds; or None."""
    programs = [Held(given, shape, variables) for _ in range(count)]
    medians, went_on = [], 0
    if all([program.begins() for program in programs]):
        for _ in range(given.holds):
            time.sleep(random.uniform(0.05, 0.1))
            for program in programs:
                program.tell("hold")
            time.sleep(0.05)
            before = sum(len(program.steps) for program in programs)
            medians.append(foreground.median_ms(0.2))
            went_on += sum(len(program.steps) for program in programs) - before
            for program in programs:
                program.tell("release")
    for program in programs:
        program.end()
    return (max(medians), went_on) if medians else None


def measured(given):
    """Measures each shape beside this process, which the daemon knows as well."""
    import torch

    torch.backends.cudnn.allow_tf32 = False
    random.seed(1)
    foreground = Foreground(torch)
    foreground.median_ms(0.5)
    alone_ms, found = foreground.median_ms(0.5), {}
    several = [(f"{count} of one stream", SHAPES[0], count) for count in TOGETHER]
    for name, shape, count in [*((shape, shape, 1) for shape in SHAPES), *several]:
        seen = held(given, shape, count, foreground, dict(os.environ))
        longest_ms, went_on = seen or (0, 0)
        found[name] = {"over_alone": round(longest_ms / alone_ms, 3), "steps_while_held": went_on,
                       "ended": not seen}
        print(f"{name:20} {found[name]}", flush=True)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump({"alone_ms": round(alone_ms, 3), "holds": given.holds, "shapes": found}, file, indent=1)
    wrong = [shape for shape, one in found.items()
             if one["steps_while_held"] or one["ended"]
             or one["over_alone"] > AT_MOST and shape in SHAPES and shape not in KNOWN]
    print("wrong:" if wrong else "all well", ", ".join(wrong))
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--xsched", default="xsched")
    parser.add_argument("--xschedd", default="xschedd")
    parser.add_argument("--holds", type=int, default=10)
    parser.add_argument("--out")
    parser.add_argument("--shape", choices=SHAPES, help=argparse.SUPPRESS)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.shape:
        import torch

        torch.backends.cudnn.allow_tf32 = False
        background(torch, given.shape)
    if given.inside:
        return measured(given)
    with tempfile.TemporaryDirectory() as folder:
        variables = {**os.environ, "XSCHED_SOCKET": f"{folder}/socket"}
        daemon = subprocess.Popen([given.xschedd, "--user", "--socket", variables["XSCHED_SOCKET"]],
                                  stderr=subprocess.DEVNULL)
        time.sleep(0.3)
        command = [given.xsched, "run", "--class", "interactive", "--", sys.executable, *sys.argv]
        code = subprocess.run([*command, "--inside"], env=variables).returncode
        daemon.terminate()
        daemon.wait()
    return code


if __name__ == "__main__":
    sys.exit(main())
