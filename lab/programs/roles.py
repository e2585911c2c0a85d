"""One process with several roles: models and jobs as threads, each with a stream and a load.

    python roles.py SPEC

SPEC is a file of JSON that says which roles there are; the README beside this has the works and
their options. The process says on standard output that it is ready, and is told phases on standard
input, in which the roles make requests at once. It ends when its input ends.
"""

import sys

from lab_process import protocol, spec


def make(reached):
    """The process that the file asks for."""
    if len(sys.argv) != 2:
        raise protocol.BadInput("usage: python roles.py SPEC")
    read = spec.read(sys.argv[1])
    from lab_process.process import Process

    return Process(read, reached=reached if read.steps else protocol.straight)


if __name__ == "__main__":
    sys.exit(protocol.serve(make))
