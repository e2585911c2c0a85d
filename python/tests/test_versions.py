"""C libraries of another version than the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import xsched
from xsched import _library

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

VERSION = 'const char *xsched_private_version(void) { return "9.8.7"; }\n'


def library(folder: Path, name: str, code: str) -> Path:
    source, file = folder / f"{name}.c", folder / f"lib{name}.so"
    source.write_text(code)
    soname = f"-Wl,-soname,{file.name}"
    shared = ["cc", "-shared", "-fPIC", soname, "-o", str(file), str(source)]
    subprocess.run(shared, check=True)
    return file


def said(folder: Path) -> str:
    """What a program that uses the libraries of a folder gets to read."""
    program = """
import xsched
for _ in range(2):
    try:
        xsched.Queue.on_host()
    except xsched.LibraryVersionError as error:
        last = error
print(last.file, last.version, last, sep="\\n")
"""
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "XSCHED_LIB_DIR": str(folder)},
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_a_library_of_another_version_is_named_with_both_versions(tmp_path: Path) -> None:
    file = library(tmp_path, "preempt", VERSION)
    path, version, message = said(tmp_path).splitlines()
    assert (path, version) == (str(file), "9.8.7")
    own = xsched.__version__
    assert f"{file} is of version 9.8.7, and this package of {own}: it lacks " in message
    assert "unset XSCHED_LIB_DIR" in message and "reinstall the package" in message


def test_a_library_that_does_not_say_its_version_is_of_an_unknown_one(tmp_path: Path) -> None:
    file = library(tmp_path, "preempt", "int nothing;\n")
    path, version, message = said(tmp_path).splitlines()
    assert (path, version) == (str(file), "None")
    assert f"{file} is of an unknown version, and this package of {xsched.__version__}" in message


def test_a_platform_s_library_that_needs_another_version_is_said(tmp_path: Path) -> None:
    shutil.copy(_library.path_of(_library.load("preempt")), tmp_path)
    needs = "int xsched_private_gone(void); int f(void) { return xsched_private_gone(); }\n"
    file = library(tmp_path, "halhost", needs)
    path, version, message = said(tmp_path).splitlines()
    assert (path, version) == (str(file), "None")
    assert f"libpreempt.so of version {xsched.__version__}, " in message
    assert "undefined symbol: xsched_private_gone" in message


def test_the_libraries_of_this_build_are_of_this_version() -> None:
    preempt = _library.load("preempt")
    assert _library.version_of(preempt) == xsched.__version__
    assert Path(_library.path_of(preempt)).name == "libpreempt.so"
