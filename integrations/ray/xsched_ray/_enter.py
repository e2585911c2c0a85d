"""Starts a worker in a cgroup to which root grants a class, and becomes it.

    python -I -S _enter.py XSCHED --class CLASS [--share P] [--gang NAME] -- PROGRAM...

Members of a gang share a cgroup and a grant, because a gang does not reach over grants. A worker
that can have no grant starts all the same, and standard error says why. As a program it needs no
other module of the package, because it runs before each worker of root.
"""

from __future__ import annotations

import hashlib
import os
import sys

#: Begin of the names of cgroups.
PREFIX = "xsched-ray-"
#: Attempts to enter a cgroup: another worker's removes it if it looks while that is empty.
_ATTEMPTS = 20
#: Folders of version 2, alone or beside version 1, and of a hierarchy of version 1.
_UNIFIED = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
_FREEZER = "/sys/fs/cgroup/freezer"
#: Characters of a grant's name at most.
_NAME_MAX = 64


class GrantError(Exception):
    """The reason why a worker has no grant."""


def folder_of(cgroups: str) -> str | None:
    """Returns the folder of a process's cgroup, by what `/proc/PID/cgroup` says."""
    lines = [line.split(":", 2) for line in cgroups.splitlines()]
    paths = {parts[1]: parts[2] for parts in lines if len(parts) == 3}
    places = [(mount, "") for mount in _UNIFIED] + [(_FREEZER, "freezer")]
    for mount, controllers in places:
        folder = mount + paths.get(controllers, "").rstrip("/")
        if controllers in paths and os.path.exists(f"{folder}/cgroup.procs"):
            return folder
    return None


def own_folder() -> str | None:
    """Returns the folder of this process's cgroup."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        return folder_of(file.read())


def remove_empty(folder: str) -> None:
    """Removes cgroups of workers that have ended. The kernel keeps those with processes."""
    for name in os.listdir(folder):
        if name.startswith(PREFIX):
            try:
                os.rmdir(os.path.join(folder, name))
            except OSError:
                pass


def names_of(options: list[str], pid: int, job: str | None) -> tuple[str, str]:
    """Returns the name of the cgroup, and that of its grant."""
    if "--gang" in options:
        gang = options[options.index("--gang") + 1]
        group = f"{options[options.index('--class') + 1]} {gang}"
        return PREFIX + hashlib.sha256(group.encode()).hexdigest()[:32], f"ray {group}"[:_NAME_MAX]
    of_job = f" job {job}" if job else ""
    return f"{PREFIX}{pid}", f"ray{of_job} worker {pid}"


def enter(xsched: str, options: list[str]) -> None:
    """Enters a cgroup with a grant.

    Raises:
        GrantError: If that cannot be.
    """
    outer = own_folder()
    if outer is None:
        raise GrantError("no cgroup of this process can be seen")
    group, name = names_of(options, os.getpid(), os.environ.get("RAY_JOB_ID"))
    folder = os.path.join(outer, group)
    for _ in range(_ATTEMPTS):
        try:
            remove_empty(outer)
            os.makedirs(folder, exist_ok=True)
            code = _grant([xsched, "ctl", "grant", "--cgroup", folder, "--name", name, *options])
            if code and os.path.exists(folder):
                raise GrantError(f"`xsched ctl grant` ended with code {code}")
            with open(f"{folder}/cgroup.procs", "w", encoding="utf-8") as file:
                file.write(str(os.getpid()))
            return
        except FileNotFoundError:
            continue
        except OSError as error:
            raise GrantError(f"{folder}: {error.strerror}") from error
    raise GrantError(f"{folder} is removed again and again")


def _grant(words: list[str]) -> int:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    child = os.posix_spawn(words[0], words, environment)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(words: list[str]) -> None:
    """Enters the cgroup, and becomes the program."""
    end = words.index("--")
    try:
        enter(words[0], words[1:end])
    except GrantError as error:
        print(f"xsched: the worker has no grant: {error}", file=sys.stderr, flush=True)
    os.execvp(words[end + 1], words[end + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
