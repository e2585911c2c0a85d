"""Requests in one process beside endless work in another: plain, and under the node's scheduler.

    python beside.py --xsched target/release/xsched --xschedd target/release/xschedd
                     [--seconds 12] [--modes graph,eager] [--beside train,gemm,infer]
                     [--ways plain,xsched,mps,mps+xsched] [--every-ms 20] [--in-flight 1]
                     [--out FILE]

A request is a BERT-base of 384 tokens every 20 ms, eager or as a CUDA graph; with `--every-ms 0` the
next begins when one has ended, and with `--in-flight 2` the GPU has work of it at all times. Beside it runs the
training of BERT-large, a GEMM of 8192³ again and again, or inference in batches of 64, eager or as
a CUDA graph (`graph`). Both are started by `xsched run`, the one with `--class interactive`, the
other with `--class batch`, and know nothing of it. Their main threads keep to a processor each.
Prints the P50 and P99 of requests alone, and beside in each of the ways, over the P50 and the P99
alone, and the background's rate over its rate alone. With `mps` both are clients of an MPS server
of their own. `xsched` may have keys of the policy, as in the daemon's file:
`xsched:fill_pauses=false`, `xsched:floor=0`.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import common

HERE = pathlib.Path(__file__).resolve()


def urgent(mode, seconds, every_ms, in_flight):
    torch = common.torch_of()
    model, tokens = common.bert(torch)
    with torch.inference_mode():
        request = common.request_of(torch, model, tokens, mode)
        for _ in range(20):
            request()
            torch.cuda.synchronize()
        print("ready", flush=True)
        sys.stdin.readline()
        taken, pending, end = [], [], time.perf_counter_ns() + int(seconds * 1e9)
        while (begin := time.perf_counter_ns()) < end:
            request()
            pending.append((begin, torch.cuda.Event()))
            pending[-1][1].record()
            if len(pending) < in_flight:
                continue
            begin, event = pending.pop(0)
            event.synchronize()
            now = time.perf_counter_ns()
            taken.append((now - begin) / 1e6)
            if every_ms:
                time.sleep(max(0, begin + every_ms * 1e6 - now) / 1e9)
    print(json.dumps(taken), flush=True)


def background(kind):
    torch = common.torch_of()
    if kind == "gemm":
        torch.backends.cuda.matmul.allow_tf32 = True
        a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(a)

        def step():
            torch.mm(a, a, out=out)
    elif kind in ("infer", "graph"):
        model, _ = common.bert(torch)
        model, tokens = model.bfloat16(), torch.randint(0, 30000, (64, 384), device="cuda")

        @torch.inference_mode()
        def step():
            model(tokens)

        if kind == "graph":
            with torch.inference_mode():
                step = common.graph_of(torch, step)[0].replay
    else:
        model, _ = common.bert(torch, "large")
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        tokens = torch.randint(0, 30000, (8, 384), device="cuda")

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(tokens).last_hidden_state.float().square().mean()
            loss.backward()
            optimizer.step()
    done, ends = 0, []
    counter = os.open(os.environ["BESIDE_COUNT"], os.O_WRONLY)
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    # Steps that have run are counted, four at most are on their way.
    while True:
        step()
        event = torch.cuda.Event()
        event.record()
        ends.append(event)
        if len(ends) > 4:
            ends.pop(0).synchronize()
            done += 1
            os.pwrite(counter, f"{done:12}".encode(), 0)


class Role:
    """A process with a role, once it says that it is ready."""

    def __init__(self, way, role, *arguments, script=HERE, **variables):
        command = [*way, sys.executable, str(script), "--role", role, *map(str, arguments)]
        self.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **variables}, cwd=HERE.parent)
        said = self.program.stdout.readline()
        if said != "ready\n":
            raise SystemExit(f"{role} did not begin: {said!r}")
        common.keep_to_processor(self.program, 0 if role == "urgent" else 1)

    def end(self):
        self.program.kill()
        self.program.wait()


def rank(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def count(path):
    return int(path.read_text().strip() or 0)


def requests(way, mode, given, **variables):
    """A function that makes requests for that long and answers how long each took, in ms."""
    role = Role(way, "urgent", mode, given.seconds, given.every_ms,
                given.in_flight, **variables)

    def measure():
        output, _ = role.program.communicate("go\n")
        return json.loads(output.splitlines()[-1])
    return measure


def rate(path, seconds):
    before, begin = count(path), time.perf_counter()
    time.sleep(seconds)
    return (count(path) - before) / (time.perf_counter() - begin)


class Node:
    """What a way of sharing the GPU needs besides the programs: `mps`, `xsched`, both or none."""

    def __init__(self, way, given, folder):
        way, *keys = way.split(":")
        self.parts, self.daemon = way.split("+"), None
        self.mps = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": f"{folder}/mps",
                    "CUDA_MPS_LOG_DIRECTORY": f"{folder}/mps"}
        self.urgent, self.batch, self.variables = [], [], {}
        if "mps" in self.parts:
            pathlib.Path(f"{folder}/mps").mkdir(exist_ok=True)
            subprocess.run(["nvidia-cuda-mps-control", "-d"], env=self.mps, check=True)
            self.variables["CUDA_MPS_PIPE_DIRECTORY"] = f"{folder}/mps"
        if "xsched" in self.parts:
            socket = self.variables["XSCHED_SOCKET"] = f"{folder}/socket"
            config = pathlib.Path(folder) / "xschedd.toml"
            config.write_text("\n".join(["[policy]", *keys, ""]))
            self.daemon = subprocess.Popen([given.xschedd, "--user", "--socket", socket,
                                            "--config", config])
            time.sleep(0.5)
            run = [given.xsched, "run", "--class"]
            self.urgent, self.batch = [*run, "interactive", "--"], [*run, "batch", "--"]

    def end(self):
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait()
        if "mps" in self.parts:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit -t 5\n", text=True, env=self.mps)


class Watch(threading.Thread):
    """Looks four times a second, until it is ended, what `xsched ps` says of urgent processes."""

    def __init__(self, given, node):
        super().__init__(daemon=True)
        self.command, self.over = [given.xsched, "ps", "--json"], threading.Event()
        self.variables, self.bound = {**os.environ, **node.variables}, []

    def run(self):
        while not self.over.wait(.25):
            said = subprocess.run(self.command, capture_output=True, text=True, env=self.variables)
            clients = json.loads(said.stdout or "{}").get("processes", [])
            self.bound += [client["host_bound"] for client in clients if client["priority"] > 0]

    def end(self):
        """The part of the time for which it was bound by its host."""
        self.over.set()
        self.join()
        return sum(self.bound) / max(1, len(self.bound))


def row_of(given, node, mode, before, counter, rate_alone):
    """Requests beside what runs already."""
    measure = requests(node.urgent, mode, given, **node.variables)
    watch = Watch(given, node) if node.daemon and given.show else None
    if watch:
        watch.start()
    first, begin = count(counter), time.perf_counter()
    samples = measure()
    kept = (count(counter) - first) / (time.perf_counter() - begin) / rate_alone
    row = {"samples": len(samples), "p50_ms": rank(samples, .5), "p99_ms": rank(samples, .99),
           "longest_ms": max(samples),
           "p50_over_alone": rank(samples, .5) / rank(before, .5),
           "p99_over_alone": rank(samples, .99) / rank(before, .99), "background_kept": kept}
    if watch:
        row["host_bound"] = watch.end()
    return {key: round(value, 3) for key, value in row.items()}


def main(given):
    rows, rates = [], {}
    with tempfile.TemporaryDirectory() as folder:
        counter = pathlib.Path(folder) / "count"
        alone = {mode: requests([], mode, given)() for mode in given.modes.split(",")}
        for name, samples in alone.items():
            print(f"alone {name}: {rank(samples, .5):.2f} {rank(samples, .99):.2f}", flush=True)
        for way in given.ways.split(","):
            node = Node(way, given, folder)
            for kind in given.beside.split(","):
                counter.write_text("0")
                other = Role(node.batch, "background", kind, BESIDE_COUNT=str(counter),
                             **node.variables)
                if kind not in rates:
                    time.sleep(3)
                    rates[kind] = rate(counter, 5)
                for mode, before in alone.items():
                    row = {"beside": kind, "mode": mode, "way": way,
                           **row_of(given, node, mode, before, counter, rates[kind])}
                    rows.append(row)
                    print(row, flush=True)
                other.end()
            node.end()
    if given.out:
        document = {"alone_ms": alone, "background_per_s": rates, "rows": rows}
        pathlib.Path(given.out).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        if sys.argv[2] == "urgent":
            urgent(sys.argv[3], *map(float, sys.argv[4:7]))
        else:
            background(sys.argv[3])
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xsched", required=True)
    parser.add_argument("--xschedd", required=True)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--every-ms", type=float, default=20)
    parser.add_argument("--in-flight", type=int, default=1, help="requests that are launched before one is waited for")
    parser.add_argument("--modes", default="graph,eager")
    parser.add_argument("--beside", default="train,gemm,infer")
    parser.add_argument("--ways", default="plain,xsched", help="plain, xsched, mps, mps+xsched")
    parser.add_argument("--show", action="store_true", help="for what part of the time the urgent program was bound by its host")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    arguments.xsched, arguments.xschedd = map(os.path.abspath, (arguments.xsched, arguments.xschedd))
    main(arguments)
