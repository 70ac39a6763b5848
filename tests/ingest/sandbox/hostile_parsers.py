"""A child's program for tests of the sandbox: parsers that do what parsers must not."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aidre.engine.errors import InvalidDocument
from aidre.ingest.sandbox.child import main

Options = Mapping[str, Any]
HELD: list[bytearray] = []


def echo(content: bytes, options: Options) -> Any:
    return {"text": content.decode(), "options": options, "pid": os.getpid()}


def refuse(content: bytes, options: Options) -> Any:
    raise InvalidDocument("is\nnot \udcff what it says")


def stumble(content: bytes, options: Options) -> Any:
    members: dict[str, Any] = {}
    return members["member"]


def spin(content: bytes, options: Options) -> Any:
    while True:
        pass


def sleep(content: bytes, options: Options) -> Any:
    time.sleep(600)


def crash(content: bytes, options: Options) -> Any:
    ctypes.string_at(0)


def abort(content: bytes, options: Options) -> Any:
    os.abort()


def leave(content: bytes, options: Options) -> Any:
    os._exit(7)


def eat(content: bytes, options: Options) -> Any:
    return len(bytearray(4 << 30))


def hold(content: bytes, options: Options) -> Any:
    HELD.append(bytearray(b"x" * (100 << 20)))
    return os.getpid()


def recur(content: bytes, options: Options) -> Any:
    return recur(content, options)


def flood(content: bytes, options: Options) -> Any:
    return "x" * (2 << 20)


def surrogate(content: bytes, options: Options) -> Any:
    return "\udcff"


def scribble(content: bytes, options: Options) -> Any:
    """Bytes that are not an answer, into every pipe there is."""
    for number in range(3, 10):
        try:
            os.write(number, b"D" + b"\xff" * 2000)
        except OSError:
            continue
    return "done"


def talk(content: bytes, options: Options) -> Any:
    sys.stdout.write("to the output")
    sys.stderr.write("to the errors")
    os.write(1, b"raw")
    os.write(2, b"raw")
    return sys.stdin.read()


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def surroundings(content: bytes, options: Options) -> Any:
    names = ("RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC")
    return {
        "environment": dict(os.environ),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in names},
        "processor": resource.getrlimit(resource.RLIMIT_CPU)[0],
        "bytecode": not sys.dont_write_bytecode,
        "session": os.getsid(0) == os.getpid(),
        "files": sum(_is_open(number) for number in range(100)),
    }


def write(content: bytes, options: Options) -> Any:
    with Path(options["path"]).open("wb", buffering=0) as file:
        return file.write(b"text")


def open_many(content: bytes, options: Options) -> Any:
    return len([os.dup(0) for _ in range(50)])


def count(content: bytes, options: Options) -> Iterator[bytes]:
    """Numbers, and in the middle whatever else is asked for."""
    for number in range(options["parts"]):
        if number == options.get("at"):
            yield KINDS_BY_NAME[options["then"]](content, options)
        yield b"%d %d" % (number, os.getpid()) + b" " * options.get("padding", 0)


def part(content: bytes, options: Options) -> bytes:
    return bytes(options["size"])


KINDS = (
    count, part, echo, refuse, stumble, spin, sleep, crash, abort, leave, eat, hold, recur, flood, surrogate,
    scribble, talk, surroundings, write, open_many,
)  # fmt: skip

KINDS_BY_NAME: dict[str, Any] = {kind.__name__: kind for kind in KINDS}

if __name__ == "__main__":
    main({name: f"__main__:{name}" for name in KINDS_BY_NAME})
