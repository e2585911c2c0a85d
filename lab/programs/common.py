"""What the programs share: requests with their times, and a digest of what came out.

The programs know nothing of the scheduler. Each prints one line of JSON.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import sys
import time

TURNS = [int(end) for end in os.environ.get("XSCHED_LAB_TURNS", "").split(",") if end]
#: A turn is over after so many requests, or so long.
TOGETHER, TURN_NS = 10, 100_000_000

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def digest(values):
    """The SHA-256 of arrays (anything that numpy takes), in hexadecimal."""
    import numpy

    state = hashlib.sha256()
    for value in values:
        state.update(numpy.ascontiguousarray(value).tobytes())
    return state.hexdigest()[:16]


def turn():
    """Waits until it is this program's turn, if `run.py` has another take turns with it."""
    if TURNS:
        os.write(TURNS[1], b"w")
        os.read(TURNS[0], 1)


def keep_to_processor(program, place=0):
    """Has the threads of a program that launch keep to processors: equal places have the same ones.

    These are the main thread and the one in which PyTorch computes gradients. How fast a processor
    is depends on what else is on its core. With fewer than four of them nothing is done, as a
    program's other threads need some too.
    """
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 4:
        return
    at = len(processors) // 2 + 2 * place
    with contextlib.suppress(OSError):
        os.sched_setaffinity(program.pid, {processors[at % len(processors)]})
    for thread in pathlib.Path(f"/proc/{program.pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if thread.joinpath("comm").read_text().startswith("pt_autograd"):
                os.sched_setaffinity(int(thread.name), {processors[(at + 1) % len(processors)]})


def processor_s(pid):
    """Processor time that a process has taken, in seconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def times(request, count, warm=5):
    """Milliseconds of each of `count` calls, after `warm` that are not counted."""
    for _ in range(warm):
        request()
    measured, left, until = [], 0, 0
    for _ in range(count):
        if not left or time.perf_counter_ns() > until:
            turn()
            left, until = TOGETHER, time.perf_counter_ns() + TURN_NS
        left -= 1
        begin = time.perf_counter_ns()
        request()
        measured.append((time.perf_counter_ns() - begin) / 1e6)
    return measured


def report(output, measured=(), **more):
    """Prints what the program is compared by: its output's digest, its times, and what else."""
    ranked = sorted(measured)
    line = {"digest": output, "samples": len(ranked), **more}
    if ranked:
        line["p50_ms"] = round(ranked[len(ranked) // 2], 4)
        line["mean_ms"] = round(sum(ranked) / len(ranked), 4)
        line["max_ms"] = round(ranked[-1], 4)
    print(json.dumps(line))
    sys.stdout.flush()


def torch_of(seed=1):
    """PyTorch with a seed, and algorithms that give the same bits each time."""
    import torch

    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    return torch


def bert(torch, size="base"):
    """A BERT with random weights in evaluation mode, and a request of 384 tokens for it."""
    from transformers import BertConfig, BertModel

    sizes = {
        "base": {},
        "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
                  "intermediate_size": 4096},
    }
    model = BertModel(BertConfig(**sizes[size])).cuda().eval()
    tokens = torch.randint(0, 30000, (1, 384), device="cuda")
    return model, tokens


def graph_of(torch, work):
    """A CUDA graph of what `work` launches, and what it returned, which each replay writes anew."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = work()
    return graph, output


def request_of(torch, model, tokens, mode):
    """A function that launches a request: the replay of a CUDA graph of it, or kernel by kernel."""
    def request():
        model(tokens)
    return graph_of(torch, request)[0].replay if mode == "graph" else request
