"""Finding and loading the C libraries, each once and when it is first needed."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Dict, List

#: Where the wheel has them.
BUNDLED = Path(__file__).resolve().parent / "lib"
#: Where `cargo xtask install` has them: the package is in `lib/python` then.
BESIDE = Path(__file__).resolve().parents[2]
#: Names a folder to take them from instead.
VARIABLE = "XSCHED_LIB_DIR"

_loaded: Dict[str, ctypes.CDLL] = {}
_lock = threading.RLock()


class LibraryNotFoundError(OSError):
    """A library of XSched cannot be loaded. The message says where it was looked for, and why not."""


def load(name: str) -> ctypes.CDLL:
    """The library `lib<name>.so`.

    One that the process has loaded already is taken first, since all must share one scheduler; then
    that in the folder that XSCHED_LIB_DIR names, if it is set, and none else; then the one of the
    wheel, or of the install that the package is part of; then what the system's loader finds.

    Raises LibraryNotFoundError.
    """
    with _lock:
        library = _loaded.get(name)
        if library is None:
            if name != "preempt":
                # The others need it, and must get this one.
                load("preempt")
            library = _loaded[name] = _open(f"lib{name}.so")
        return library


def _open(file: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(file, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        pass
    failures: List[str] = []
    for place in _places(file):
        try:
            return ctypes.CDLL(place, mode=os.RTLD_NOW)
        except OSError as error:
            failures.append(str(error))
    raise LibraryNotFoundError(
        f"cannot load {file}; install the wheel, or name its folder in {VARIABLE} or "
        f"LD_LIBRARY_PATH ({'; '.join(failures)})"
    )


def _places(file: str) -> List[str]:
    folder = os.environ.get(VARIABLE)
    if folder:
        return [str(Path(folder) / file)]
    return [str(BUNDLED / file), str(BESIDE / file), file]


def interposer_folders() -> List[str]:
    """Where the libraries may be that are preloaded into programs: in the folder that XSCHED_LIB_DIR
    names or the one below it, and none else; or in the wheel, or in the install."""
    folder = os.environ.get(VARIABLE)
    if folder:
        return [folder, str(Path(folder) / "xsched")]
    return [str(BUNDLED), str(BESIDE / "xsched")]
