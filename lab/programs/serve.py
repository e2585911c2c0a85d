"""Requests to a vLLM server beside other work: plain, and under the node's scheduler.

    python serve.py --make-model DIR
    python serve.py --model DIR --xsched target/release/xsched --xschedd target/release/xschedd
                    [--ways plain,xsched,mps,mps+xsched] [--beside resnet,gemm,server]
                    [--loads 25,50,80] [--requests 300] [--out FILE]

The server is `vllm serve` with its defaults, which knows nothing of the scheduler; where XSched
schedules it is started by `xsched run --class interactive`. Requests arrive by a Poisson process at
parts of its capacity, which is what it answers in a second with 64 requests at all times, alone
and plain. Lengths are log-normal, with the medians and means of the conversations in the Azure LLM
inference trace of 2023: 1,020 and 1,155 tokens of a prompt, 129 and 211 of an answer.

Beside it, with `--class batch`, runs a training of ResNet-50 or a GEMM of 8192³ without pause
(`cost.py`), or a second server with 64 requests of 512 + 64 tokens at all times. The programs of
all ways are loaded at once and take turns: where it is not their turn, they are idle.

A row has the time to the first token and the gaps between tokens, P50 and P99 in ms and over those
of the first way's server alone at that load, before and after the other cells, with 95 % intervals
(a bootstrap of requests), what the other keeps of its plain rate alone, processor time, and
preemptions a request. How much the two runs alone differ is how much the host does. Four prompts
are answered one after the other in each cell: their tokens have to be the same in all.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import math
import os
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import beside
import common
import cost

#: Median and mean of the trace's conversations, and the bounds that the model's context sets.
PROMPT, ANSWER = (1020, 1155, 3000), (129, 211, 1000)
VOCABULARY, IN_FLIGHT, RESAMPLES = 128256, 64, 400
#: Time for which rates alone are measured, in seconds.
RATE_S = 6
SHAPE = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64}


def make_model(folder):
    """Writes a Llama of 1.2 billion random weights with a tokenizer of as many words as tokens."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "tie_word_embeddings": True, "max_position_embeddings": 4096, "rope_theta": 500000.0,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
        "vocab_size": VOCABULARY, **SHAPE}))
    words = models.WordLevel({f"t{n}": n for n in range(VOCABULARY)}, unk_token="t0")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "t1", "eos_token": "t2",
        "unk_token": "t0", "model_max_length": 4096}))
    draw = torch.Generator("cuda").manual_seed(1)

    def weight(rows, columns, scale):
        # With this scale of the layers a token depends on those before it.
        drawn = torch.randn(rows, columns, device="cuda", generator=draw) * scale
        return drawn.bfloat16().cpu()

    size, inner, head = SHAPE["hidden_size"], SHAPE["intermediate_size"], SHAPE["head_dim"]
    keys, ones = SHAPE["num_key_value_heads"] * head, torch.ones(size).bfloat16()
    weights = {"model.embed_tokens.weight": weight(VOCABULARY, size, .02),
               "model.norm.weight": ones.clone()}
    parts = {"self_attn.q_proj": (size, size), "self_attn.k_proj": (keys, size),
             "self_attn.v_proj": (keys, size), "self_attn.o_proj": (size, size),
             "mlp.gate_proj": (inner, size), "mlp.up_proj": (inner, size),
             "mlp.down_proj": (size, inner)}
    for n in range(SHAPE["num_hidden_layers"]):
        layer = f"model.layers.{n}."
        for name, (rows, columns) in parts.items():
            weights[f"{layer}{name}.weight"] = weight(rows, columns, columns ** -.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{layer}{name}.weight"] = ones.clone()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def length(draw, median, mean, longest):
    """A log-normal length with this median and mean, from 4 to the longest."""
    sigma = math.sqrt(2 * math.log(mean / median))
    return max(4, min(longest, round(draw.lognormvariate(math.log(median), sigma))))


def prompt(draw, tokens):
    return [draw.randrange(3, VOCABULARY) for _ in range(tokens)]


class Server:
    """A `vllm serve` with what is started before it."""

    def __init__(self, name, port, before, given, folder, variables):
        self.port, self.session, self.begun = port, None, time.monotonic()
        self.log = pathlib.Path(folder) / f"{name}.log"
        # Servers that begin at once do not compile into the same folder.
        variables = {"VLLM_CACHE_ROOT": f"{folder}/{name}-cache", **variables}
        self.program = subprocess.Popen(
            [*before, *shlex.split(given.vllm), "serve", given.model,
             "--served-model-name", "model", "--port", str(port), *shlex.split(given.more)],
            stdout=self.log.open("w"), stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **variables})

    async def wait_until_ready(self, session, patience_s):
        self.session = session
        while time.monotonic() < self.begun + patience_s:
            if self.program.poll() is not None:
                break
            with contextlib.suppress(OSError):
                async with session.get(f"http://127.0.0.1:{self.port}/health") as answer:
                    if answer.status == 200:
                        return round(time.monotonic() - self.begun, 1)
            await asyncio.sleep(.25)
        raise SystemExit(f"a server did not begin:\n{self.log.read_text()[-3000:]}")

    async def answer(self, tokens, count, is_streamed=True):
        """The tokens of an answer, and when they came if they are sent one by one."""
        asked = {"model": "model", "prompt": tokens, "max_tokens": count, "temperature": 0,
                 "ignore_eos": True, "stream": is_streamed, "return_token_ids": True}
        moments, got = [], []
        async with self.session.post(
                f"http://127.0.0.1:{self.port}/v1/completions", json=asked) as answer:
            answer.raise_for_status()
            if not is_streamed:
                got = (await answer.json())["choices"][0]["token_ids"]
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    new = json.loads(line[6:])["choices"][0].get("token_ids") or []
                    if new:
                        got += new
                        moments.append(time.monotonic())
        if len(got) != count:
            raise RuntimeError(f"{len(got)} tokens of {count} came")
        return got, moments

    def processor_s(self):
        """Processor time of all processes of its session, in seconds."""
        spent = 0
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.getsid(int(process.name)) == self.program.pid:
                    spent += common.processor_s(process.name)
        return spent

    def end(self):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            self.program.send_signal(signal.SIGINT)
            self.program.wait(10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.program.pid, signal.SIGKILL)
        self.program.wait()


class Batch:
    """A second server that answers 64 requests at all times while it is its turn."""

    def __init__(self, server):
        self.server, self.tasks, self.ends, self.draw = server, [], [], random.Random(5)

    async def client(self):
        while True:
            await self.server.answer(prompt(self.draw, 512), 64, is_streamed=False)
            self.ends.append(time.monotonic())

    async def begin(self, _seconds):
        self.ends = []
        self.tasks = [asyncio.create_task(self.client()) for _ in range(IN_FLIGHT)]
        await asyncio.sleep(2)

    async def end_of_turn(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.sleep(.5)
        return self.ends

    def end(self):
        self.server.end()


class Endless:
    """A program of `cost.py` that works without pause while it is its turn."""

    def __init__(self, name, before, variables):
        self.worker = cost.Worker(name, before, **variables)

    async def begin(self, seconds):
        self.worker.begin(seconds + 2)
        await asyncio.sleep(1)

    async def end_of_turn(self):
        return (await asyncio.to_thread(self.worker.end_of_block))["ends"]

    def end(self):
        self.worker.end()


class Way:
    """A server and what is to run beside it, in one way of sharing the GPU.

    Ways that differ in keys of the daemon's policy alone are one: the daemon reads its file again.
    """

    def __init__(self, name, port, given, folder):
        self.name, self.given, self.port, self.keys = name, given, port, ""
        self.folder = f"{folder}/{name}"
        os.mkdir(self.folder)
        self.node = beside.Node(name, given, self.folder)
        self.server = Server("server", port, self.node.urgent, given, self.folder,
                             self.node.variables)
        self.others = {}

    def set_keys(self, keys):
        """Has the daemon go by these keys of its policy, as `fill_pauses=false`."""
        if keys != self.keys:
            text = "\n".join(["[policy]", *keys.split(":"), ""])
            pathlib.Path(self.folder, "xschedd.toml").write_text(text)
            subprocess.run([self.given.xsched, "ctl", "reload"], check=True,
                           env={**os.environ, **self.node.variables})
            self.keys = keys

    def start_others(self):
        node = self.node
        for name in self.given.beside.split(","):
            if name == "server":
                server = Server("batch", self.port + 1, node.batch, self.given, self.folder,
                                node.variables)
                self.others[name] = Batch(server)
            else:
                self.others[name] = Endless(name, node.batch, node.variables)

    async def wait_for_others(self, session):
        for other in self.others.values():
            if isinstance(other, Batch):
                await other.server.wait_until_ready(session, self.given.patience)
                await asyncio.gather(*(other.server.answer(prompt(other.draw, 512), 64)
                                       for _ in range(IN_FLIGHT)))
            else:
                await asyncio.to_thread(other.worker.wait_until_ready)

    def status(self):
        """Processor seconds of daemon and server, preemptions, and launches that went past."""
        counted = {"server_s": self.server.processor_s(), "daemon_s": 0, "preemptions": 0,
                   "scheduled": 0, "past": 0}
        if self.node.daemon:
            counted["daemon_s"] = common.processor_s(self.node.daemon.pid)
            said = subprocess.run([self.given.xsched, "ps", "--json"], capture_output=True,
                                  text=True, env={**os.environ, **self.node.variables})
            for process in json.loads(said.stdout)["processes"]:
                if process["priority"] > 0:
                    counted["scheduled"] += process["retired"]
                    counted["past"] += process["past"]
                else:
                    counted["preemptions"] += process["holds"]
        return counted

    def end(self):
        self.server.end()
        for other in self.others.values():
            other.end()
        self.node.end()


async def capacity(server):
    """Requests a second that the server answers with 64 at all times."""
    draw, ends = random.Random(3), []

    async def client():
        while True:
            await server.answer(prompt(draw, length(draw, *PROMPT)), length(draw, *ANSWER))
            ends.append(time.monotonic())
    tasks = [asyncio.create_task(client()) for _ in range(IN_FLIGHT)]
    await asyncio.sleep(RATE_S / 2 + RATE_S)
    end = time.monotonic()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(.5)
    return sum(at > end - RATE_S for at in ends) / RATE_S


async def greedy(server):
    """A digest of four answers, one after the other."""
    draw, got = random.Random(9), []
    for _ in range(4):
        got.append((await server.answer(prompt(draw, 256), 48))[0])
    return hashlib.sha256(json.dumps(got).encode()).hexdigest()[:12]


async def requests(server, per_s, count):
    """Of each request when it arrived and when its tokens came; arrivals wait for no answer."""
    draw, begin, at, tasks = random.Random(7), time.monotonic() + .1, 0, []

    async def request(arrival, tokens, answer):
        await asyncio.sleep(max(0, arrival - time.monotonic()))
        return arrival, (await server.answer(tokens, answer))[1]
    for _ in range(count):
        at += draw.expovariate(per_s)
        tokens, answer = prompt(draw, length(draw, *PROMPT)), length(draw, *ANSWER)
        tasks.append(asyncio.create_task(request(begin + at, tokens, answer)))
    return await asyncio.gather(*tasks)


async def cell(way, keys, name, load, per_s, rates, given):
    """A row of figures, and the requests' times."""
    seconds, other = given.requests / per_s, way.others.get(name)
    way.set_keys(keys)
    if other:
        await other.begin(seconds + 1.5)
    before, begin = way.status(), time.monotonic()
    done = await requests(way.server, per_s, given.requests)
    end, after = time.monotonic(), way.status()
    digest = await greedy(way.server)
    used = {key: after[key] - before[key] for key in after}
    row = {"way": f"{way.name}:{keys}".rstrip(":"), "beside": name, "load": load,
           "requests": len(done),
           "tokens_per_s": round(sum(len(times) for _, times in done) / (end - begin), 1),
           "greedy": digest, "server_percent": round(100 * used["server_s"] / (end - begin), 1)}
    if way.node.daemon:
        row |= {"daemon_percent": round(100 * used["daemon_s"] / (end - begin), 1),
                "preemptions_per_request": round(used["preemptions"] / len(done), 2),
                "scheduled": used["scheduled"], "past": used["past"]}
    if other:
        ends = await other.end_of_turn()
        until = min(end, begin + seconds)
        rate = sum(begin <= at < until for at in ends) / (until - begin)
        row["kept"] = round(rate / rates[name], 3)
    return row, [([1e3 * (times[0] - at)], [1e3 * (b - a) for a, b in zip(times, times[1:])])
                 for at, times in done]


def figures(taken, alone, seed=1):
    """P50 and P99 in ms and over those alone, with 95 % intervals."""
    import numpy

    draw, out = numpy.random.default_rng(seed), {}
    for part, name in enumerate(("first", "gap")):
        mine, base = ([numpy.array(times[part]) for times in of] for of in (taken, alone))
        for percent in (50, 99):
            def of(values):
                return float(numpy.percentile(numpy.concatenate(values), percent))

            def again(values):
                return of([values[n] for n in draw.integers(0, len(values), len(values))])
            ratios = [again(mine) / again(base) for _ in range(RESAMPLES)]
            low, high = numpy.percentile(ratios, [2.5, 97.5])
            out[f"{name}_p{percent}_ms"] = round(of(mine), 3)
            out[f"{name}_p{percent}_over_alone"] = [
                round(value, 3) for value in (of(mine) / of(base), low, high)]
    return out


async def rate_alone(other):
    await other.begin(RATE_S + 1)
    begin = time.monotonic()
    await asyncio.sleep(RATE_S)
    end = time.monotonic()
    ended = sum(begin <= at < end for at in await other.end_of_turn())
    if not ended:
        raise SystemExit("a program that is to run beside the server does not work without pause")
    return ended / RATE_S


async def started(given, folder, session, kinds):
    """The ways by their names, once all of their programs can begin, and the seconds it took."""
    names, ways, took = dict.fromkeys(way.partition(":")[0] for way in given.ways), {}, {}
    try:
        for place, name in enumerate(names):
            ways[name] = Way(name, given.port + 2 * place, given, folder)
            if kinds:
                ways[name].start_others()
        for name, way in ways.items():
            took[name] = await way.server.wait_until_ready(session, given.patience)
            await way.wait_for_others(session)
            await asyncio.gather(*(greedy(way.server) for _ in range(8)))
    except BaseException:
        for way in ways.values():
            way.end()
        raise
    return ways, took


async def measure(given, folder, session):
    kinds = [kind for kind in given.beside.split(",") if kind]
    ways, took = await started(given, folder, session, kinds)
    try:
        print(json.dumps({"seconds_to_start": took}), flush=True)
        first = next(iter(ways.values()))
        most = await capacity(first.server)
        rates = {kind: await rate_alone(first.others[kind]) for kind in kinds}
        print(json.dumps({"capacity_per_s": most, "rates_alone_per_s": rates}), flush=True)
        rows = [row async for row in cells(given, ways, kinds, most, rates)]
        return {"seconds_to_start": took, "capacity_per_s": most, "rates_alone_per_s": rates,
                "rows": rows}
    finally:
        for way in ways.values():
            way.end()


async def cells(given, ways, kinds, most, rates):
    """The rows of each load: alone, beside each of the others, and alone again."""
    longest, first = 0, next(iter(ways))
    for load in map(float, given.loads.split(",")):
        found = []
        for turn, kind in enumerate([None, *kinds, None]):
            order, alone = turn % len(given.ways) if kind else 0, set()
            for name in given.ways[order:] + given.ways[:order]:
                name, _, keys = name.partition(":")
                if kind is None and name in alone:
                    continue
                alone.add(name)
                begun = time.monotonic()
                if begun + longest > given.until:
                    print(f"no time for {name} beside {kind} at {load:g} %", flush=True)
                    continue
                found.append(await cell(ways[name], keys, kind, load, most * load / 100, rates,
                                        given))
                print(json.dumps(found[-1][0]), flush=True)
                longest = max(longest, time.monotonic() - begun)
        is_base = [row["way"].partition(":")[0] == first and not row["beside"] for row, _ in found]
        base = [request for (_, taken), is_one in zip(found, is_base) if is_one
                for request in taken]
        for row, taken in found:
            row |= figures(taken, base)
            print(json.dumps(row), flush=True)
            yield row


async def measured(given):
    """What `measure` finds, with a folder and connections that end with it."""
    import aiohttp

    # The server closes what has been idle for five seconds.
    limits = aiohttp.TCPConnector(limit=0, keepalive_timeout=2)
    patience = aiohttp.ClientTimeout(total=None)
    with tempfile.TemporaryDirectory() as folder:
        async with aiohttp.ClientSession(connector=limits, timeout=patience) as session:
            return await measure(given, folder, session)


def main(given):
    document = asyncio.run(measured(given))
    if given.out:
        pathlib.Path(given.out).write_text(json.dumps(document, indent=1) + "\n")
    if len({row["greedy"] for row in document["rows"]}) > 1:
        raise SystemExit("the same prompts had different answers")


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--make-model", metavar="DIR")
    parser.add_argument("--model")
    parser.add_argument("--vllm", default="vllm")
    parser.add_argument("--more", default="--gpu-memory-utilization 0.1 --kv-cache-memory-bytes 8G",
                        help="further arguments of each server")
    parser.add_argument("--xsched", default="xsched")
    parser.add_argument("--xschedd", default="xschedd")
    parser.add_argument("--ways", default="plain,xsched")
    parser.add_argument("--beside", default="resnet,gemm,server")
    parser.add_argument("--loads", default="25,50,80", help="percent of the capacity")
    parser.add_argument("--requests", type=int, default=300, help="of each cell")
    parser.add_argument("--port", type=int, default=8200)
    parser.add_argument("--patience", type=float, default=300, help="for a start, in seconds")
    parser.add_argument("--limit", type=float, default=math.inf,
                        help="seconds after which no cell begins that may end later")
    parser.add_argument("--out")
    given = parser.parse_args(arguments)
    given.ways = given.ways.split(",")
    given.until = time.monotonic() + given.limit
    for name in ("xsched", "xschedd"):
        if os.sep in getattr(given, name):
            setattr(given, name, os.path.abspath(getattr(given, name)))
    return given


if __name__ == "__main__":
    options = parsed(sys.argv[1:])
    if options.make_model:
        make_model(options.make_model)
    elif options.model:
        main(options)
    else:
        raise SystemExit("name a model by --model, or make one by --make-model")
