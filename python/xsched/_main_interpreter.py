"""Refuses an import in a subinterpreter. `xsched` imports it before anything else.

A process has one C library, whose threads call back into one interpreter, and one table of functions
that they call. The end of a subinterpreter would end the callbacks of all.
"""

from __future__ import annotations

import importlib

#: The modules that know: of Python 3.13, and of those before.
_MODULES = ("_interpreters", "_xxsubinterpreters")


def _is_main() -> bool:
    for name in _MODULES:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return bool(module.get_current() == module.get_main())
    # A Python that has neither module makes no subinterpreters by itself.
    return True


if not _is_main():
    raise ImportError(
        "xsched cannot be imported in a subinterpreter, since a process has one scheduler and one set "
        "of callbacks; import it in the main interpreter (under mod_wsgi: "
        "WSGIApplicationGroup %{GLOBAL}), or use processes",
        name="xsched",
    )
