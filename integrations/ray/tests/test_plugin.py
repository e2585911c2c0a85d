"""The plugin, with a command that stands for `xsched`."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from ray._private.runtime_env.context import RuntimeEnvContext

from xsched_ray import Plugin, SettingsError
from xsched_ray._plugin import COMMAND, NodeError

ANSWER = {"version": 1, "variables": {"XSCHED_SCHEDULER": "GLB"}, "preload": ["/x.so", "/y.so"]}


class Command:
    """A stand-in for `xsched`, whose answer can be chosen."""

    def __init__(self, folder: Path) -> None:
        self.file, self.asked = folder / "xsched", folder / "asked"
        self.answers(ANSWER)

    def answers(self, answer: object) -> None:
        self.runs(f"echo {shlex.quote(json.dumps(answer))}")

    def runs(self, line: str) -> None:
        self.file.write_text(f'#!/bin/sh\necho "$@" >{self.asked}\n{line}\n')
        self.file.chmod(0o755)


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv(COMMAND, str(tmp_path / "xsched"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return Command(tmp_path)


def modified(value: dict[str, Any], **environment: str) -> RuntimeEnvContext:
    context = RuntimeEnvContext(env_vars=environment, py_executable="/python")
    Plugin().modify_context([], {"xsched": value}, context)
    return context


def test_a_worker_gets_the_environment_of_the_command(command: Command) -> None:
    context = modified({"class": "batch", "share": 30, "streams": True}, A="1")
    variables = {"A": "1", "XSCHED_SCHEDULER": "GLB", "LD_PRELOAD": "/x.so:/y.so"}
    assert context.env_vars == variables
    assert context.py_executable == "/python"
    asked = "env --for json --class batch --share 30 --streams\n"
    assert command.asked.read_text() == asked


def test_what_a_user_preloads_stays_in_front(command: Command) -> None:
    context = modified({"class": "batch"}, LD_PRELOAD="/own.so", XSCHED_SCHEDULER="LCL")
    assert context.env_vars["LD_PRELOAD"] == "/own.so:/x.so:/y.so"
    assert context.env_vars["XSCHED_SCHEDULER"] == "GLB"


def test_a_worker_of_root_enters_a_cgroup_with_a_grant(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(Plugin, "__init__", lambda self: None)
    context = modified({"class": "batch", "gang": "a b", "streams": True})
    words = shlex.split(context.py_executable)
    assert Path(words[3]).name == "_enter.py"
    options = [str(command.file), "--class", "batch", "--gang", "a b", "--", "/python"]
    assert words[4:] == options


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingsError):
        Plugin.validate({"xsched": {"class": "lots"}})
    Plugin.validate({"xsched": {"class": "batch"}})


def test_a_node_without_the_command_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND, "/none/xsched")
    with pytest.raises(NodeError, match=f"install XSched there, or start Ray with {COMMAND}"):
        modified({"class": "batch"})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo no interposer >&2; exit 2", "failed: no interposer"),
        ("echo no JSON", "cannot be used"),
        ("echo '[]'", "cannot be used"),
        ("""echo '{"version": 2, "variables": {}, "preload": []}'""", "version 2"),
    ],
)
def test_a_command_that_cannot_answer_is_an_error(command: Command, line: str, said: str) -> None:
    command.runs(line)
    with pytest.raises(NodeError, match=said):
        modified({"class": "batch"})
