"""Checks the plugin with a real Ray: two nodes on loopback that are this machine, and a daemon.

    check.py FOLDER

FOLDER has bin/xsched and bin/xschedd, lib/xsched with the interposers and emulated/libcuda.so.1.
The first node is of a user who is not root, whose limits are a tenant's; the second is root's,
whose workers have grants. `check.sh` ends what is left over.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RuntimeEnvSetupError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from xsched_ray import scheduling

FOLDER = Path(sys.argv[1])
#: Address of the first node with its port, and of the second.
HEAD, SECOND = "127.0.0.2", "127.0.0.3"
PORT = 6399
USER = "nobody"
LIMIT_S = 60.0
#: Time in which a worker must go on that one has held which is dead: the lease of 0.1 s, two calls,
#: and some for a busy machine.
LEASE_S = 3.0
URGENT = 2000
TENANTS = """
[[tenant]]
name = "ray"
user = "{user}"
priority_max = {most}

[[tenant]]
name = "default"
priority = -200
priority_max = -200
"""


class Failure(Exception):
    """A promise that is not kept."""


def must(holds: object, what: str) -> None:
    if not holds:
        raise Failure(what)


def until(what: str, condition: Callable[[], object], limit_s: float = LIMIT_S) -> float:
    """Waits for a condition, and returns the time that it took in seconds."""
    start = time.monotonic()
    while not condition():
        must(time.monotonic() - start < limit_s, what)
        time.sleep(0.05)
    return time.monotonic() - start


# The daemon.


def xsched(*words: str) -> str:
    command = [str(FOLDER / "bin/xsched"), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def status() -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(xsched("ps", "--json"))
    return answer


def process(pid: int) -> dict[str, Any]:
    """Returns what the daemon knows of a process."""
    found = [process for process in status()["processes"] if process["pid"] == pid]
    return found[0] if found else {}


def has(pid: int, **values: object) -> bool:
    known = process(pid)
    return bool(known) and all(known.get(key) == value for key, value in values.items())


def grants() -> list[str]:
    return sorted(grant["name"] for grant in status()["grants"])


def configure(most: int) -> None:
    text = TENANTS.format(user=USER, most=most)
    (FOLDER / "run/xschedd.toml").write_text(text)


def answers() -> bool:
    command = [str(FOLDER / "bin/xsched"), "ps"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def start_daemon() -> subprocess.Popen[bytes]:
    words = [str(FOLDER / "bin/xschedd"), "--socket", os.environ["XSCHED_SOCKET"], "--config"]
    with open(FOLDER / "log/xschedd", "ab") as log:
        daemon = subprocess.Popen(
            [*words, str(FOLDER / "run/xschedd.toml")], stdout=log, stderr=log
        )
    until("xschedd does not answer", answers)
    return daemon


# The nodes.


def environment(**more: str) -> dict[str, str]:
    quick = {
        # A node is dead if five attempts fail. Those at a raylet that has gone fail at once, and a
        # busy one has time to answer.
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "10000",
        "RAY_health_check_failure_threshold": "5",
    }
    plugin = {"RAY_RUNTIME_ENV_PLUGINS": '[{"class": "xsched_ray.Plugin"}]'}
    path = f"{FOLDER}/bin:{os.environ['PATH']}"
    library = {"LD_LIBRARY_PATH": str(FOLDER / "emulated"), "PATH": path}
    return {**os.environ, **quick, **plugin, **library, **more}


def start_node(
    name: str, user: str | None, words: list[str], **more: str
) -> subprocess.Popen[bytes]:
    home = FOLDER / name
    home.mkdir(exist_ok=True)
    if user:
        os.chown(home, pwd.getpwnam(user).pw_uid, -1)
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *words]
    command += ["--num-cpus=4", "--num-gpus=1", "--object-store-memory=80000000"]
    command += ["--disable-usage-stats", f"--temp-dir={home}"]
    with open(FOLDER / "log" / name, "ab") as log:
        return subprocess.Popen(
            command,
            env=environment(HOME=str(home), **more),
            user=user,
            group="nogroup" if user else None,
            extra_groups=[] if user else None,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def start_head() -> subprocess.Popen[bytes]:
    """Starts the first node. Workers without settings of their own have the class that its
    administrator chose."""
    answer = json.loads(xsched("env", "--class", "normal", "--for", "json"))
    default = {**answer["variables"], "LD_PRELOAD": ":".join(answer["preload"])}
    words = ["--head", f"--node-ip-address={HEAD}", f"--port={PORT}", "--include-dashboard=false"]
    return start_node("one", USER, words, RAY_LD_PRELOAD_ON_WORKERS="1", **default)


def start_second() -> subprocess.Popen[bytes]:
    words = [f"--address={HEAD}:{PORT}", f"--node-ip-address={SECOND}"]
    return start_node("two", None, words)


def is_open(head: subprocess.Popen[bytes]) -> bool:
    must(head.poll() is None, "the first node ends")
    with contextlib.suppress(OSError), socket.create_connection((HEAD, PORT), 1):
        return True
    return False


def is_connected() -> bool:
    with contextlib.suppress(ConnectionError):
        ray.init(address=f"{HEAD}:{PORT}", log_to_driver=False, _temp_dir=str(FOLDER / "one"))
        return True
    return False


def nodes() -> dict[str, str]:
    """Returns the numbers of nodes that are up, by their addresses."""
    untyped: Any = ray
    return {node["NodeManagerAddress"]: node["NodeID"] for node in untyped.nodes() if node["Alive"]}


def on(address: str, soft: bool = False) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(nodes()[address], soft=soft)


def raylet_of(name: str) -> int:
    """Returns the process of a node's raylet."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            mark = f"--raylet_socket_name={FOLDER / name}/".encode()
            if any(word.startswith(mark) for word in words):
                return int(folder.name)
    raise Failure(f"node {name} has no raylet")


# Work on the emulated GPU, by a process that knows nothing of XSched.


class Gpu:
    """Memory of a GPU, and its driver, as PyTorch finds it."""

    def __init__(self) -> None:
        import ctypes

        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.memory, self.long = ctypes.c_ulong(), ctypes.c_ulong
        context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), self.long(4096))
        self.last = ctypes.c_uint()
        self.at_last = ctypes.byref(self.last)

    def call(self, function: str, *arguments: Any) -> None:
        code = getattr(self.cuda, function)(*arguments)
        if code:
            raise RuntimeError(f"{function} ended with {code}")

    def fill(self, count: int) -> int:
        """Fills the memory with 1 to `count`, and returns what is in it then."""
        import time

        for number in range(1, count + 1):
            self.call("cuMemsetD32Async", self.memory, number, self.long(1024), None)
            if number % 10 == 0 or number == count:
                self.call("cuCtxSynchronize")
                time.sleep(0.0015)
        end = self.long(self.memory.value + 4092)
        self.call("cuMemcpyDtoH_v2", self.at_last, end, self.long(4))
        return self.last.value


def fill(count: int) -> tuple[int, float]:
    start = time.monotonic()
    return Gpu().fill(count), time.monotonic() - start


@ray.remote(num_cpus=0, num_gpus=0.5, max_retries=-1)
def task(count: int, place: str) -> tuple[int, float]:
    """Says in a file which process it is, and works."""
    Path(place).write_text(str(os.getpid()))
    return fill(count)


@ray.remote(num_cpus=0, num_gpus=0.5, max_retries=0)
def raises(count: int) -> dict[str, Any]:
    """A task that wants more than it may have."""
    ask = ["xsched", "ctl", "set", str(os.getpid()), "--priority", "200"]
    os.environ["XSCHED_AUTO_XQUEUE_PRIORITY"] = "200"
    right = fill(count)[0]
    own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    said = subprocess.run(ask, env=own, capture_output=True, text=True, check=False)
    listed = subprocess.run(["xsched", "ps", "--json"], env=own, capture_output=True, text=True)
    processes = json.loads(listed.stdout)["processes"]
    (of_this,) = [process for process in processes if process["pid"] == os.getpid()]
    return {"right": right, "said": said.stderr, "code": said.returncode, **of_this}


@ray.remote(num_cpus=0, num_gpus=0.5, max_restarts=-1, max_task_retries=-1)
class Actor:
    def __init__(self) -> None:
        self.gpu = Gpu()

    def pid(self) -> int:
        return os.getpid()

    def fill(self, count: int) -> int:
        return self.gpu.fill(count)


# As Ray's types do not have it.
REMOTE: Any = Actor


class Stream:
    """Calls of an actor one after the other, none of which may be lost or wrong."""

    def __init__(self, actor: Any) -> None:
        self.actor, self.done, self.wrong, self.is_over = actor, 0, "", False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.is_over:
            count = 20 + self.done % 7
            try:
                if ray.get(self.actor.fill.remote(count), timeout=LIMIT_S * 2) != count:
                    self.wrong = f"call {self.done} is wrong"
            except Exception as error:
                self.wrong = f"call {self.done} is lost: {type(error).__name__}: {error}"
            if self.wrong:
                return
            self.done += 1

    def goes_on(self, what: str, limit_s: float = LIMIT_S) -> float:
        """Waits for two more results, of which one may have been on its way."""
        done = self.done
        took_s = until(what, lambda: self.wrong or self.done > done + 1, limit_s)
        must(not self.wrong, f"{what}: {self.wrong}")
        return took_s

    def end(self) -> None:
        self.is_over = True
        self.thread.join(LIMIT_S)
        must(not self.wrong, self.wrong)


# What is checked.


def work(name: str) -> Path:
    return FOLDER / "jobs" / name


def started(name: str) -> int:
    """Waits for a task to say which process it is."""
    place = work(name)
    until(f"the task {name} does not start", lambda: place.exists() and place.read_text())
    return int(place.read_text())


def submit(label: str, address: str, count: int, soft: bool = False, **settings: Any) -> Any:
    work(label).unlink(missing_ok=True)
    options = task.options(
        scheduling_strategy=on(address, soft), runtime_env=scheduling(**settings)
    )
    return options.remote(count, str(work(label)))


def actor_on(address: str, soft: bool = False, **settings: Any) -> Any:
    strategy = on(address, soft)
    return REMOTE.options(scheduling_strategy=strategy, runtime_env=scheduling(**settings)).remote()


def urgent_beside_batch() -> Stream:
    print("== an urgent task beside a batch actor, each with half of a GPU", flush=True)
    right, alone_s = ray.get(submit("alone", HEAD, URGENT, name="interactive"), timeout=LIMIT_S)
    must(right == URGENT, "the task alone is wrong")
    batch = Stream(actor_on(HEAD, name="batch", share=30))
    batch.goes_on("the batch actor does not work")
    pid = ray.get(batch.actor.pid.remote(), timeout=LIMIT_S)
    must(has(pid, priority=-100, share=30, tenant="ray"), f"the batch actor is {process(pid)}")
    before = process(pid)["holds"]
    urgent = submit("urgent", HEAD, URGENT, name="interactive")
    until(
        "the urgent task is not known", lambda: has(started("urgent"), priority=100, tenant="ray")
    )
    # A process says late on which GPU it is.
    device = process(pid)["device"]
    until("they are not on one GPU", lambda: has(started("urgent"), device=device))
    right, beside_s = ray.get(urgent, timeout=LIMIT_S)
    must(right == URGENT, "the urgent task is wrong")
    held = process(pid)
    must(held["holds"] > before, "the batch actor was not held")
    batch.goes_on("the batch actor does not go on")
    print(f"the urgent task took {beside_s:.2f} s, alone {alone_s:.2f} s")
    print(f"the batch actor was held {held['holds']} times for {held['held_ms']} ms")
    return batch


def rights() -> None:
    print("== workers that want more than they may have", flush=True)
    for wrong, said in [
        ({"class": "lots"}, "xsched has class 'lots'; say interactive, normal or batch"),
        ({"class": "batch", "shares": 1}, "xsched has no key 'shares'"),
    ]:
        try:
            ray.get(
                task.options(runtime_env={"xsched": wrong}).remote(1, "/dev/null"), timeout=LIMIT_S
            )
            raise Failure(f"{wrong} is taken")
        except RuntimeEnvSetupError as error:
            must(said in str(error), f"{wrong} is refused without a reason: {error}")
    # Root's node: a grant for each worker.
    batch = scheduling("batch", share=20)
    own = ray.get(raises.options(scheduling_strategy=on(SECOND), runtime_env=batch).remote(100))
    must(own["right"] == 100 and own["uid"] == 0, f"not root's, or wrong: {own}")
    must(
        own["priority"] == -100 and own["share"] == 20, f"a worker of root raised its class: {own}"
    )
    must(own["tenant"] == f"ray job {job()} worker {own['pid']}", f"it has no grant: {own}")
    must(own["code"] != 0 and "is above -100" in own["said"], f"not refused: {own}")
    # The other node: what its tenant allows.
    of_head = raises.options(scheduling_strategy=on(HEAD), runtime_env=scheduling("batch"))
    own = ray.get(of_head.remote(100))
    must(own["priority"] == 100 and own["code"] != 0, f"a worker is past its tenant's limit: {own}")
    configure(-100)
    xsched("ctl", "reload")
    own = ray.get(of_head.remote(100))
    must(
        own["priority"] == -100 and own["code"] != 0, f"a worker is past its tenant's limit: {own}"
    )
    right, _ = ray.get(submit("low", HEAD, 100, name="interactive"), timeout=LIMIT_S)
    must(right == 100, "a task with less than it asked for is wrong")
    configure(100)
    xsched("ctl", "reload")
    print("a grant and a tenant's limit both hold a worker that asks for 200 at -100")


def job() -> str:
    number: str = ray.get_runtime_context().get_job_id()
    return number


def placement_groups() -> None:
    print("== a placement group is a gang", flush=True)
    group = placement_group([{"GPU": 0.5}] * 2, strategy="STRICT_PACK")
    ray.get(group.ready(), timeout=LIMIT_S)
    name = f"ray-{group.id.hex()}"
    options = REMOTE.options(
        num_gpus=0.5,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group),
        runtime_env=scheduling("normal", gang=group),
    )
    actors = [options.remote() for _ in range(2)]
    must(ray.get([actor.fill.remote(30) for actor in actors], timeout=LIMIT_S) == [30, 30], "wrong")
    pids = sorted(ray.get([actor.pid.remote() for actor in actors]))
    found = sorted(known["pid"] for known in status()["processes"] if known["gang"] == name)
    must(found == pids, f"gang {name} is {found}, not {pids}")
    uid = process(pids[0])["uid"]
    for actor in actors:
        ray.kill(actor)
    remove_placement_group(group)
    print(f"a gang of two workers of user {uid}")


def worker_killed(batch: Stream) -> None:
    print("== a worker, the daemon and a raylet are killed in turn", flush=True)
    urgent = submit("killed", HEAD, URGENT, name="interactive")
    pid = ray.get(batch.actor.pid.remote(), timeout=LIMIT_S)
    first = started("killed")
    holds = process(pid)["holds"]
    until("the urgent task holds nobody", lambda: process(pid)["holds"] > holds)
    os.kill(first, signal.SIGKILL)
    took_s = batch.goes_on("the batch actor is held by a worker that is dead", LEASE_S)
    must(ray.get(urgent, timeout=LIMIT_S)[0] == URGENT, "the task of a killed worker is wrong")
    must(started("killed") != first, "the task has the same process")
    os.kill(pid, signal.SIGKILL)
    batch.goes_on("the batch actor does not come back")
    again = ray.get(batch.actor.pid.remote(), timeout=LIMIT_S)
    must(again != pid and has(again, priority=-100, share=30), "it comes back without its class")
    print(f"the batch actor went on {took_s:.2f} s after the urgent worker was killed")


def daemon_killed(batch: Stream, daemon: subprocess.Popen[bytes]) -> None:
    pid = ray.get(batch.actor.pid.remote(), timeout=LIMIT_S)
    urgent = submit("orphan", HEAD, URGENT, name="interactive")
    until("the urgent task is not known", lambda: has(started("orphan"), priority=100))
    daemon.kill()
    daemon.wait()
    took_s = batch.goes_on("the batch actor is held by a daemon that is dead", LEASE_S)
    late = submit("late", HEAD, 100, name="batch")
    must(ray.get(urgent, timeout=LIMIT_S)[0] == URGENT, "a task without its daemon is wrong")
    must(ray.get(late, timeout=LIMIT_S)[0] == 100, "a task that begins without a daemon is wrong")
    start_daemon()
    until("the actor is not known to the next daemon", lambda: has(pid, priority=-100, share=30))
    batch.goes_on("the batch actor does not go on under the next daemon")
    print(f"the batch actor went on {took_s:.2f} s after the daemon was killed")


def raylet_killed(batch: Stream, second: subprocess.Popen[bytes]) -> None:
    moved = Stream(actor_on(SECOND, soft=True, name="normal"))
    moved.goes_on("the actor on root's node does not work")
    pid = ray.get(moved.actor.pid.remote(), timeout=LIMIT_S)
    must(process(pid)["tenant"].startswith("ray job"), f"the actor is {process(pid)}")
    start = time.monotonic()
    os.kill(raylet_of("two"), signal.SIGKILL)
    batch.goes_on("an actor on another node does not go on", LEASE_S)
    until("its worker stays", lambda: not process(pid))
    moved.goes_on("the actor does not come back on another node", LIMIT_S)
    took_s = time.monotonic() - start
    again = ray.get(moved.actor.pid.remote(), timeout=LIMIT_S)
    must(has(again, priority=0, tenant="ray"), f"it comes back as {process(again)}")
    second.wait(LIMIT_S)
    start_second()
    until("the node is not up again", lambda: SECOND in nodes())
    until("the grants of a node that ended stay", lambda: not grants())
    moved.end()
    ray.kill(moved.actor)
    print(f"the actor went on elsewhere {took_s:.1f} s after its raylet was killed")


def serve_replica() -> None:
    try:
        import ray.serve
    except ImportError:
        print("left out: a replica of Serve, whose packages are not installed")
        return
    print("== a replica of Serve", flush=True)
    serve: Any = ray.serve

    @serve.deployment(
        ray_actor_options={"num_cpus": 0, "num_gpus": 0.5, "runtime_env": scheduling("interactive")}
    )
    class Replica:
        def __call__(self, count: int) -> tuple[int, int]:
            return Gpu().fill(count), os.getpid()

    serve.start(proxy_location="Disabled")
    replica: Any = Replica
    handle = serve.run(replica.bind())
    right, pid = handle.remote(50).result(timeout_s=LIMIT_S)
    must(right == 50 and process(pid)["priority"] == 100, f"the replica is {process(pid)}")
    serve.shutdown()


def main() -> None:
    configure(100)
    daemon = start_daemon()
    head = start_head()
    until("the first node does not listen", lambda: is_open(head))
    second = start_second()
    until("the driver cannot connect", is_connected)
    took_s = until("the nodes are not up", lambda: {HEAD, SECOND} <= nodes().keys())
    print(f"two nodes, the second after {took_s:.1f} s")
    said = xsched("doctor", "--for", "ray")
    must(said.startswith("Ray: set up"), f"the doctor: {said}")
    batch = urgent_beside_batch()
    rights()
    placement_groups()
    worker_killed(batch)
    daemon_killed(batch, daemon)
    raylet_killed(batch, second)
    batch.end()
    ray.kill(batch.actor)
    serve_replica()
    print("== nothing stays")
    ray.shutdown()
    until("processes stay", lambda: not status()["processes"])
    print("ray: an urgent task beside a batch actor, rights, a gang, three kills, Serve, ends")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
