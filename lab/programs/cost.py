"""What being scheduled costs a program, and what the scheduler wins, for one build or several.

    python cost.py --build after=target/release [--build before=DIR] [--parts alone,idle,beside]
                   [--works jax,encoder,resnet,eager,cupy,decoder,control] [--rounds 20] [--out FILE]

DIR holds `xsched`, `xschedd`, `libpreempt.so` and `libshimcuda.so`. The programs know nothing of
the scheduler and launch into default streams. Each way of running a program is a process of its
own; the ways take turns with blocks of 0.4 s, in another order each round.

alone   plain, and by `xsched run` without a daemon. Main threads keep to the same two processors.
idle    plain, and below `xschedd` beside four idle processes of class `interactive`: a training as
        `batch`, everything else as `interactive`.
beside  a program of class `interactive` beside an endless one of class `batch`, plain and below
        `xschedd`. Nothing keeps to a processor.

Prints of `alone` and `idle` the time over plain, with the 95 % interval of the mean of the rounds;
of `beside` P50 and P99 over those of the plain program alone, the neighbour's rate over its plain
rate alone, and the processor time of the daemon.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import common

HERE = pathlib.Path(__file__).resolve()
TRAININGS = ("jax", "encoder", "resnet")
BLOCK_S, BESIDE_S = 0.4, 6
#: Student's t at 97.5 % for so many degrees of freedom and more.
STUDENT = ((60, 2.0), (30, 2.04), (19, 2.09), (9, 2.26), (4, 2.78), (1, 12.7))


# What the programs do. Each answers with a step, what waits for the device, the pause in seconds
# from a step's begin to the next (None: without pause and without waiting for each step).


def spin():
    return lambda: time.sleep(.001), lambda: None, .005


def loop():
    return lambda: time.sleep(.001), lambda: None, None


def jax():
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.PRNGKey(1), 12)
    state = {"w": [jax.random.normal(key, (512, 512)) * .04 for key in keys]}
    batch = jax.random.normal(keys[0], (256, 512))

    def loss(weights):
        out = batch
        for weight in weights:
            out = jnp.tanh(out @ weight)
        return jnp.mean((out - batch) ** 2)

    @jax.jit
    def update(weights):
        return [w - 1e-3 * g for w, g in zip(weights, jax.grad(loss)(weights))]

    def step():
        state["w"] = update(state["w"])
    return step, lambda: state["w"][0].block_until_ready(), None


def training(model, example, optimizer):
    import torch

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            value = model(example).float().square().mean()
        value.backward()
        optimizer.step()
    return step, torch.cuda.synchronize, None


def encoder():
    import torch

    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8).cuda().train()
    example = torch.randn(32, 128, 512, device="cuda")
    return training(model, example, torch.optim.AdamW(model.parameters(), lr=1e-5))


def resnet():
    import torch
    import torchvision

    model = torchvision.models.resnet50().cuda().train().to(memory_format=torch.channels_last)
    example = torch.randn(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    return training(model, example, torch.optim.SGD(model.parameters(), lr=1e-4, momentum=.9))


def bert(is_graph):
    import torch
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig()).half().cuda().eval()
    tokens = torch.randint(0, 30000, (1, 384), device="cuda")

    @torch.inference_mode()
    def request():
        model(tokens)
    return (graph_of(request) if is_graph else request), torch.cuda.synchronize, .02


def graph_of(request):
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            request()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        request()
    return graph.replay


def cupy():
    import cupy

    values = cupy.zeros(1024, dtype=cupy.float32)
    add = cupy.ElementwiseKernel("float32 x", "float32 y", "y = x + 1", "add_one")

    def step():
        for _ in range(200):
            add(values, values)
    return step, cupy.cuda.get_current_stream().synchronize, None


def decoder():
    import torch
    from torch.nn import functional

    def weight(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * .02

    size, layers = 2048, []
    for _ in range(24):
        layers.append((weight(size, 3 * size), weight(size, size), weight(size, 4 * size),
                       weight(4 * size, size), weight(1, 16, 1024, 128), weight(1, 16, 1024, 128)))
    embedding, head = weight(32000, size), weight(size, 32000)
    token = torch.zeros(1, dtype=torch.long, device="cuda")

    @torch.inference_mode()
    def forward():
        out = embedding[token]
        for qkv, project, up, down, keys, values in layers:
            query = (functional.rms_norm(out, (size,)) @ qkv)[:, :size].view(1, 16, 1, 128)
            seen = functional.scaled_dot_product_attention(query, keys, values)
            out = out + seen.reshape(1, size) @ project
            out = out + functional.silu(functional.rms_norm(out, (size,)) @ up) @ down
        token.copy_((out @ head).argmax(-1))

    replay = graph_of(forward)

    def step():
        replay()
        token.item()
    return step, lambda: None, 0


def control():
    import torch

    state = torch.zeros(64, 64, device="cuda")

    def step():
        torch.add(state, 1, out=state)
        torch.mul(state, .5, out=state)
        torch.sin(state, out=state)
    return step, torch.cuda.synchronize, .005


def gemm():
    import torch

    left = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(left)
    return lambda: torch.mm(left, left, out=out), torch.cuda.synchronize, None


def copies():
    import torch

    source = torch.zeros(1 << 31, device="cuda", dtype=torch.uint8)
    out = torch.empty_like(source)
    return lambda: out.copy_(source), torch.cuda.synchronize, None


def idle():
    import torch

    torch.zeros(1, device="cuda").add_(1)
    return lambda: None, torch.cuda.synchronize, .1


WORKS = {"spin": spin, "loop": loop, "jax": jax, "encoder": encoder, "resnet": resnet, "cupy": cupy,
         "eager": lambda: bert(False), "graph": lambda: bert(True), "decoder": decoder,
         "control": control, "gemm": gemm, "copies": copies, "idle": idle}


class Marks:
    """Moments at which steps ended on the device, of which at most four are on their way."""

    def __init__(self, name):
        self.pending, self.ends, self.torch = [], [], None
        if name in ("encoder", "resnet", "gemm", "copies"):
            import torch
            self.torch = torch

    def step_launched(self):
        if self.torch is None:
            self.ends.append(time.monotonic())
            return
        event = self.torch.cuda.Event()
        event.record()
        self.pending.append(event)
        if len(self.pending) > 4:
            self.pending.pop(0).synchronize()
            self.ends.append(time.monotonic())


def work(name):
    step, wait, every = WORKS[name]()
    for _ in range(10):
        step()
        wait()
    print("ready", flush=True)
    for line in sys.stdin:
        marks, taken, processor = Marks(name), [], time.process_time()
        begin = time.monotonic()
        end = begin + float(line)
        while (at := time.monotonic()) < end:
            step()
            if every is None:
                marks.step_launched()
                taken.append(0)
                continue
            wait()
            taken.append((time.monotonic() - at) * 1e3)
            if every:
                time.sleep(max(0, at + every - time.monotonic()))
        wait()
        seconds = time.monotonic() - begin
        print(json.dumps({
            "steps": len(taken), "seconds": seconds, "ends": marks.ends,
            "requests_ms": taken if every is not None else [],
            "processor_s": time.process_time() - processor,
        }), flush=True)


class Worker:
    """A process that runs blocks of a work."""

    def __init__(self, name, way=(), **variables):
        command = [*way, sys.executable, str(HERE), "--worker", name]
        variables = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **variables}
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=variables)

    def wait_until_ready(self):
        if (said := self.program.stdout.readline()) != "ready\n":
            raise SystemExit(f"{self.program.args} did not begin: {said!r}")

    def keep_to(self, processors):
        for thread in pathlib.Path(f"/proc/{self.program.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), processors)

    def begin(self, seconds):
        self.program.stdin.write(f"{seconds}\n")
        self.program.stdin.flush()

    def end_of_block(self):
        return json.loads(self.program.stdout.readline() or '{"steps": 0}')

    def block(self, seconds):
        self.begin(seconds)
        return self.end_of_block()

    def end(self):
        self.program.kill()
        self.program.wait()


class Build:
    """A folder with a build, and a daemon of it."""

    def __init__(self, name, folder, place):
        self.name, self.folder = name, pathlib.Path(folder).resolve()
        self.socket, self.daemon = f"{place}/{name}.socket", None
        self.log = open(f"{place}/{name}.log", "w")

    def start(self):
        self.daemon = subprocess.Popen(
            [self.folder / "xschedd", "--user", "--socket", self.socket], stderr=self.log)
        time.sleep(.5)

    def run(self, *options):
        return [str(self.folder / "xsched"), "run", *options, "--"]

    def worker(self, name, class_):
        return Worker(name, self.run("--class", class_), XSCHED_SOCKET=self.socket)

    def processor_s(self):
        return common.processor_s(self.daemon.pid)

    def status(self):
        said = subprocess.run([self.folder / "xsched", "ps", "--json"], capture_output=True,
                              text=True, env={**os.environ, "XSCHED_SOCKET": self.socket})
        return json.loads(said.stdout or "{}")

    def end(self):
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait()


def rank(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else math.nan


def time_of(block):
    """Seconds a step; of requests the median."""
    if block["requests_ms"]:
        return rank(block["requests_ms"], .5) / 1e3
    return block["seconds"] / max(1, block["steps"])


def interval(ratios):
    """The mean of ratios by their logarithms, with its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, t = statistics.mean(logs), next(t for n, t in STUDENT if len(logs) - 1 >= n)
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return [round(math.exp(value), 4) for value in (mean, mean - half, mean + half)]


def turns(part, name, workers, rounds):
    """Blocks of all ways in turn, and each way's time over that of `plain`."""
    for worker in workers.values():
        worker.wait_until_ready()
        if part == "alone":
            worker.keep_to(sorted(os.sched_getaffinity(0))[-2:])
    times, ways = {way: [] for way in workers}, list(workers)
    for turn in range(rounds + 1):
        for way in ways[turn % len(ways):] + ways[:turn % len(ways)]:
            taken = time_of(workers[way].block(BLOCK_S))
            if turn:  # The first warms up.
                times[way].append(taken)
    rows = []
    for way in ways[1:]:
        ratios = [mine / plain for mine, plain in zip(times[way], times["plain"])]
        rows.append({"part": part, "work": name, "way": way, "over_plain": interval(ratios),
                     "plain_ms": round(statistics.median(times["plain"]) * 1e3, 4)})
        print(json.dumps(rows[-1]), flush=True)
    for worker in workers.values():
        worker.end()
    return rows


def alone(name, builds, rounds):
    workers = {"plain": Worker(name)}
    for build in builds:
        workers[build.name] = Worker(name, build.run(), XSCHED_SOCKET="/nowhere/socket")
    return turns("alone", name, workers, rounds)


def beside_idle(name, builds, rounds):
    workers = {"plain": Worker(name)}
    for build in builds:
        workers[build.name] = build.worker(name, "batch" if name in TRAININGS else "interactive")
    return turns("idle", name, workers, rounds)


def beside(names, neighbours, builds, seconds):
    """Each program beside each neighbour, in each way."""
    ways = {"plain": (
        {name: Worker(name) for name in names}, {name: Worker(name) for name in neighbours})}
    for build in builds:
        ways[build.name] = ({name: build.worker(name, "interactive") for name in names},
                            {name: build.worker(name, "batch") for name in neighbours})
    for workers in ways.values():
        for worker in [*workers[0].values(), *workers[1].values()]:
            worker.wait_until_ready()
    urgent, others = ways["plain"]
    requests = {name: urgent[name].block(seconds / 2)["requests_ms"] for name in names}
    rates = {name: (block := others[name].block(3))["steps"] / block["seconds"]
             for name in neighbours}
    rows = []
    for neighbour in neighbours:
        for name in names:
            for way, (urgent, others) in ways.items():
                build = next((build for build in builds if build.name == way), None)
                rows.append(cell(urgent[name], others[neighbour], build, seconds, {
                    "part": "beside", "work": name, "beside": neighbour, "way": way,
                    "alone_ms": requests[name], "rate_alone": rates[neighbour]}))
                print(json.dumps(rows[-1]), flush=True)
    rows += [{"part": "status", "way": build.name, "status": build.status()} for build in builds]
    for urgent, others in ways.values():
        for worker in [*urgent.values(), *others.values()]:
            worker.end()
    return rows


def cell(urgent, other, build, seconds, row):
    other.begin(seconds + 1)
    time.sleep(.5)
    spent, begin = build.processor_s() if build else 0, time.monotonic()
    block = urgent.block(seconds)
    end = time.monotonic()
    if build:
        row["daemon_percent"] = round((build.processor_s() - spent) / (end - begin) * 100, 1)
    ends = [at for at in other.end_of_block()["ends"] if begin <= at < end]
    before, taken = row.pop("alone_ms"), block["requests_ms"]
    kept = len(ends) / (end - begin) / row.pop("rate_alone")
    return {**row, "samples": len(taken), "p50_ms": round(rank(taken, .5), 4),
            "p50_over_alone": round(rank(taken, .5) / rank(before, .5), 3),
            "p99_over_alone": round(rank(taken, .99) / rank(before, .99), 3),
            "neighbour_kept": round(kept, 3)}


def main(given):
    rows, parts, works = [], given.parts.split(","), given.works.split(",")
    with tempfile.TemporaryDirectory() as place:
        builds = [Build(*text.split("=", 1), place) for text in given.build]
        if "alone" in parts:
            for name in works:
                rows += alone(name, builds, given.rounds)
        if "idle" in parts or "beside" in parts:
            for build in builds:
                build.start()
        if "idle" in parts:
            idles = [build.worker(given.idle, "interactive") for build in builds for _ in range(4)]
            for worker in idles:
                worker.wait_until_ready()
            for name in works:
                rows += beside_idle(name, builds, given.rounds)
            for worker in idles:
                worker.end()
        if "beside" in parts:
            rows += beside(given.requests.split(","), given.neighbours.split(","), builds,
                           given.seconds)
        for build in builds:
            build.end()
    if given.out:
        pathlib.Path(given.out).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        sys.exit(work(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="append", required=True, metavar="NAME=DIR")
    parser.add_argument("--parts", default="alone,idle,beside")
    parser.add_argument("--works", default="jax,encoder,resnet,eager,cupy,decoder,control")
    parser.add_argument("--requests", default="graph,decoder,control")
    parser.add_argument("--neighbours", default="resnet,gemm,copies")
    parser.add_argument("--idle", default="idle")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=BESIDE_S)
    parser.add_argument("--out")
    main(parser.parse_args())
