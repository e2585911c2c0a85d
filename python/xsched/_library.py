"""Finding and loading the C libraries, each once and when it is first needed."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from pathlib import Path
from typing import Dict, List, Optional

from ._native import __version__

#: Where the wheel has them.
BUNDLED = Path(__file__).resolve().parent / "lib"
#: Where `cargo xtask install` has them: the package is in `lib/python` then.
BESIDE = Path(__file__).resolve().parents[2]
#: Names a folder to take them from instead.
VARIABLE = "XSCHED_LIB_DIR"
#: Why the loader refuses a platform's library beside a libpreempt.so of another version.
_UNDEFINED = re.compile(r"undefined symbol: xsched_private_|version `XSCHED_\w+' not found")

_loaded: Dict[str, ctypes.CDLL] = {}
_lock = threading.RLock()


class LibraryNotFoundError(OSError):
    """A library of XSched cannot be loaded. The message says where it was looked for, and why not."""


class LibraryVersionError(OSError):
    """A library of XSched is not of the version of this package. The message says which file, both
    versions, what does not fit, and what to do."""

    #: The file that was loaded.
    file: str
    #: The version of that file; None if it does not say.
    version: Optional[str]

    def __init__(self, file: str, version: Optional[str], why: str) -> None:
        found = f"of version {version}" if version else "of an unknown version"
        unset = f"unset {VARIABLE}, or " if os.environ.get(VARIABLE) else ""
        super().__init__(
            f"{file} is {found}, and this package of {__version__}: {why}; {unset}name the folder of "
            f"libraries of {__version__} in {VARIABLE}, or reinstall the package"
        )
        self.file = file
        self.version = version


def load(name: str) -> ctypes.CDLL:
    """The library `lib<name>.so`.

    One that the process has loaded already is taken first, since all must share one scheduler; then
    that in the folder that XSCHED_LIB_DIR names, if it is set, and none else; then the one of the
    wheel, or of the install that the package is part of; then what the system's loader finds.

    Raises LibraryNotFoundError and LibraryVersionError.
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
            preempt = _loaded.get("preempt")
            if preempt is not None and _UNDEFINED.search(str(error)):
                beside = f"{path_of(preempt)} of version {version_of(preempt)}"
                raise LibraryVersionError(place, None, f"beside {beside}, {error}") from None
            failures.append(str(error))
    raise LibraryNotFoundError(
        f"cannot load {file}; install the wheel, or name its folder in {VARIABLE} or "
        f"LD_LIBRARY_PATH ({'; '.join(failures)})"
    )


def version_of(library: ctypes.CDLL) -> Optional[str]:
    """The version of a library; None if it does not say, as libpreempt.so of 0.1 and all others."""
    # The loader would find libpreempt.so's function in the libraries that need it.
    is_it = os.path.basename(library._name) == "libpreempt.so"
    ask = getattr(library, "xsched_private_version", None) if is_it else None
    if ask is None:
        return None
    ask.argtypes = []
    ask.restype = ctypes.c_char_p
    text = ask()
    return text.decode("ascii", "replace") if isinstance(text, bytes) else None


def path_of(library: ctypes.CDLL) -> str:
    """The file of a library that is loaded, or else its name."""
    file = os.path.basename(library._name)
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            places = (line.rstrip("\n").partition("/") for line in maps)
            paths = ["/" + path for _, slash, path in places if slash]
    except OSError:
        paths = []
    return next((path for path in paths if os.path.basename(path) == file), library._name)


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
