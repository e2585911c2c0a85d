"""The plugin, which runs in Ray's runtime environment agent of a node."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ray._private.runtime_env.plugin import RuntimeEnvPlugin

from xsched_ray import _enter
from xsched_ray._settings import Settings

if TYPE_CHECKING:
    import logging

    from ray._private.runtime_env.context import RuntimeEnvContext

#: Names the command `xsched` if it is not on Ray's `PATH`.
COMMAND = "XSCHED_RAY_COMMAND"
#: Version of the variables of `xsched env` that this understands.
_CONTRACT = 1
#: Time for `xsched env`, which asks nobody.
_LIMIT_S = 20
#: Time between two looks for cgroups of workers that have ended, whose grants end with them. A
#: grant that stays so long harms nobody: it is for no process.
_LOOK_S = 2.0


class NodeError(RuntimeError):
    """A node that cannot start a scheduled worker, with what to do there."""


class Plugin(RuntimeEnvPlugin):
    """Gives workers the class and share that their `runtime_env` names."""

    name = "xsched"
    # After all others, which choose the interpreter.
    priority = 90

    def __init__(self) -> None:
        """Begins to look after cgroups of workers, if root runs the agent."""
        if os.geteuid() == 0:
            threading.Thread(target=_look_after, name="xsched-ray", daemon=True).start()

    @staticmethod
    def validate(runtime_env_dict: dict[str, Any]) -> None:
        """Refuses wrong settings, before anything is set up.

        Raises:
            SettingsError: If one is wrong.
        """
        Settings.parse(runtime_env_dict.get(Plugin.name))

    def modify_context(
        self,
        uris: list[str],
        runtime_env: Any,
        context: RuntimeEnvContext,
        logger: logging.Logger | None = None,
    ) -> None:
        """Gives the worker the environment of a scheduled program and, if root starts it, a grant.

        Raises:
            SettingsError: If one is wrong.
            NodeError: If this node cannot start such a worker.
        """
        settings = Settings.parse(runtime_env.get(self.name))
        xsched = _command()
        variables, preload = _environment(xsched, settings)
        # Ray clears the variable for workers, so what is in the agent's is not for them.
        first = context.env_vars.get("LD_PRELOAD")
        context.env_vars.update(variables)
        context.env_vars["LD_PRELOAD"] = ":".join([first, *preload] if first else preload)
        if os.geteuid() == 0:
            words = [sys.executable, "-I", "-S", _enter.__file__, xsched, *_of_grant(settings)]
            context.py_executable = f"{shlex.join(words)} -- {context.py_executable}"


def _look_after() -> None:
    while True:
        folder = _enter.own_folder()
        if folder is not None:
            _enter.remove_empty(folder)
        time.sleep(_LOOK_S)


def _of_grant(settings: Settings) -> list[str]:
    """Returns options of `xsched ctl grant`, which has no streams."""
    return [word for word in settings.words() if word != "--streams"]


def _command() -> str:
    found = shutil.which(os.environ.get(COMMAND) or "xsched")
    if found is None:
        raise NodeError(
            f"there is no command xsched on this node; install XSched there, or start Ray with"
            f" {COMMAND}=PATH"
        )
    return found


def _environment(xsched: str, settings: Settings) -> tuple[dict[str, str], list[str]]:
    """Returns the variables of a scheduled program, and the files that it preloads."""
    words = [xsched, "env", "--for", "json", *settings.words()]
    try:
        # Without what Ray itself preloads.
        ended = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
        answer = json.loads(ended.stdout)
        version = answer["version"]
        variables, preload = dict(answer["variables"]), list(answer["preload"])
    except subprocess.CalledProcessError as error:
        raise NodeError(f"`{shlex.join(words)}` failed: {error.stderr.strip()}") from error
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        raise NodeError(f"`{shlex.join(words)}` cannot be used: {error}") from error
    if version != _CONTRACT:
        raise NodeError(
            f"{xsched} has version {version} of the variables, and this package knows {_CONTRACT};"
            " install one that fits"
        )
    return variables, preload
