"""Becomes a program behind walls, with limits: `python -m aidre.ingest.sandbox.program JSON`.

The walls of this child let it execute a program, which those of a parser do not (`walls`); the program inherits them.
It starts no thread, so that one process is the child, its walls and the program.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import orjson

from aidre.ingest.sandbox.child import confine, limit_processor
from aidre.ingest.sandbox.walls import Program, raise_walls

LACKS_WALLS = 77
"""Exit status where walls are required and do not stand."""

_END_WITH_PARENT = 1


def main() -> None:
    request = orjson.loads(sys.argv[1])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    program = Program(request["file"], request["data"])
    walls = raise_walls(program)
    if request["walls"] and not walls.are_whole:
        os._exit(LACKS_WALLS)
    confine(request["memory"])
    limit_processor(request["seconds"])
    os.execve(program.file, request["arguments"], request["environment"])


if __name__ == "__main__":
    main()
