"""The cgroups of workers of root, in a folder that stands for a hierarchy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xsched_ray import _enter
from xsched_ray._enter import GrantError, enter, folder_of, names_of, remove_empty

OPTIONS = ["--class", "batch"]


@pytest.fixture
def outer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "outer"
    folder.mkdir()
    monkeypatch.setattr(_enter, "own_folder", lambda: str(folder))
    return folder


def command(folder: Path, line: str) -> str:
    file = folder / "xsched"
    file.write_text(f'#!/bin/sh\necho "$@" >>{folder}/asked\n{line}\n')
    file.chmod(0o755)
    return str(file)


def test_a_cgroup_of_version_2_comes_before_one_of_version_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_enter, "_UNIFIED", (str(tmp_path / "two"),))
    monkeypatch.setattr(_enter, "_FREEZER", str(tmp_path / "one"))
    text = "6:freezer:/job\n5:devices:/\n0::/\n"
    assert folder_of(text) is None
    for folder in ("one/job", "two"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "cgroup.procs").touch()
    assert folder_of(text) == str(tmp_path / "two")
    assert folder_of("6:freezer:/job\n") == str(tmp_path / "one/job")
    assert folder_of("0::/gone\n") is None
    assert folder_of("no line of cgroups") is None


def test_a_gang_has_one_cgroup_and_others_one_each() -> None:
    assert names_of(OPTIONS, 7, None) == ("xsched-ray-7", "ray worker 7")
    assert names_of(OPTIONS, 7, "02000000")[1] == "ray job 02000000 worker 7"
    gang = [*OPTIONS, "--gang", "a/b"]
    assert names_of(gang, 7, None) == names_of(gang, 8, "02000000")
    group, name = names_of(gang, 7, None)
    assert "/" not in group and name == "ray batch a/b"
    urgent = ["--class", "interactive", "--gang", "a/b"]
    assert names_of(urgent, 7, None)[0] != group
    assert len(names_of([*OPTIONS, "--gang", "g" * 64], 7, None)[1]) == 64


def test_a_worker_is_in_a_cgroup_that_has_a_grant(outer: Path, tmp_path: Path) -> None:
    enter(command(tmp_path, "exit 0"), OPTIONS)
    group, name = names_of(OPTIONS, os.getpid(), os.environ.get("RAY_JOB_ID"))
    folder = outer / group
    assert (folder / "cgroup.procs").read_text() == str(os.getpid())
    asked = (tmp_path / "asked").read_text()
    assert asked == f"ctl grant --cgroup {folder} --name {name} --class batch\n"


def test_a_refused_grant_is_said_once(outer: Path, tmp_path: Path) -> None:
    with pytest.raises(GrantError, match="ended with code 1"):
        enter(command(tmp_path, "exit 1"), OPTIONS)
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_a_cgroup_that_another_worker_removes_is_made_again(outer: Path, tmp_path: Path) -> None:
    once = f"[ -e {tmp_path}/once ] || {{ : >{tmp_path}/once; rmdir {outer}/*; exit 1; }}"
    enter(command(tmp_path, once), OPTIONS)
    assert len((tmp_path / "asked").read_text().splitlines()) == 2
    with pytest.raises(GrantError, match="again and again"):
        enter(command(tmp_path, f"rm -r {outer}/*; exit 1"), OPTIONS)


def test_only_empty_cgroups_of_workers_are_removed(tmp_path: Path) -> None:
    (tmp_path / "xsched-ray-1").mkdir()
    (tmp_path / "xsched-ray-2/used").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    remove_empty(str(tmp_path))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "xsched-ray-2"]


def test_a_worker_without_a_grant_starts_and_says_so(tmp_path: Path) -> None:
    program = [command(tmp_path, "exit 1"), *OPTIONS, "--", "echo", "it runs"]
    words = [sys.executable, "-I", "-S", _enter.__file__, *program]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ended.stdout == "it runs\n"
    assert "the worker has no grant" in ended.stderr
