"""`python -m xsched`: `run` is `xsched run`, for those who have the package and not the command."""

from __future__ import annotations

import signal
import sys

from . import _native
from ._library import interposer_folders

if __name__ == "__main__":
    # The interpreter ignores it, and a program that it becomes would go on to.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.exit(_native.main(sys.argv[1:], interposer_folders()))
