"""A Triton server with a model for each role, and clients that send requests over HTTP.

    [XSCHED_LAB_PREFIX="xsched run --"] python triton_server.py SPEC

It says and is told what `roles.py` is. Roles are BERTs in Triton's Python backend, whose instances
have processes of their own. The server is started under the command in XSCHED_LAB_PREFIX; what is
set for this program, as by `xsched run`, holds for the server as well.
"""

import sys

from lab_process import protocol, spec


def make(reached):
    """The process that the file asks for."""
    if len(sys.argv) != 2:
        raise protocol.BadInput("usage: python triton_server.py SPEC")
    read = spec.read(sys.argv[1])
    from lab_process.triton.process import Process

    return Process(read, reached=reached if read.steps else protocol.straight)


if __name__ == "__main__":
    sys.exit(protocol.serve(make))
