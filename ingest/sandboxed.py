"""The program of the sandbox's child: reads documents from a pipe, parses them by kind, answers with JSON.

Knows no file and no store, and imports nothing heavy until a kind asks for it. The parent (sandbox.py) starts it,
and trusts nothing that comes from here.
"""

from __future__ import annotations

import gc
import importlib
import math
import os
import resource
import select
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, TypeAlias

import orjson

from aidre.engine.errors import InvalidDocument

Parse: TypeAlias = Callable[[bytes, Mapping[str, Any]], Any]
"""Makes JSON of the bytes of one document, or an iterator of parts (bytes) where the request is for a stream; raises
InvalidDocument in words for the publisher."""

KINDS: dict[str, str] = {
    "pdf": "aidre.ingest.pdf:parse",
    "docx": "aidre.ingest.docx:parse",
    "html": "aidre.ingest.page:parse",
    "feed": "aidre.ingest.feeds:parse",
    "sitemap": "aidre.ingest.sitemaps:parse",
    "markdown": "aidre.ingest.markdown:parse",
    "parquet": "aidre.ingest.batches:batches",
    "parquet schema": "aidre.ingest.batches:schema",
}
"""The parser of each kind of document, as "module:function"; a child imports those that it is asked for."""

REQUEST = struct.Struct(">II")
"""Bytes of the request (JSON: kind, options, seconds, memory, answer, stream) and of the document; both follow."""

ANSWER = struct.Struct(">cII")
"""What it is, the MiB that the child holds, and the bytes that follow."""

READY, PART, DONE, INVALID, FAULT, LACKING = b"R", b"P", b"D", b"I", b"F", b"L"
"""About to parse; a part of a stream follows; JSON follows, or nothing after a stream; the reason follows; the reason
follows and the child must not be used again; the same, and what it lacked is memory."""

LONGEST_REASON = 1000
_OPEN_FILES = 16
_GRACE = 5


def main(kinds: Mapping[str, str] = KINDS) -> None:
    """Answer requests until the pipe is closed."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    # Whatever a library reads or prints must not get between the frames.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)
    threading.Thread(target=_end_with, args=(requests.fileno(),), daemon=True).start()
    parsers: dict[str, Parse] = {}
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        header, size = REQUEST.unpack(head)
        request = orjson.loads(requests.read(header))
        what, found = _parsed(requests, answers, request | {"size": size}, kinds, parsers)
        gc.collect()  # libraries leave cycles behind; better now than while the next document needs the room
        _send(answers, what, found)


def _end_with(requests: int) -> None:
    """End this process when the parent is gone, however busy a parser is."""
    gone = select.poll()
    gone.register(requests, 0)
    gone.poll()
    os._exit(0)


def _parsed(
    requests: BinaryIO,
    answers: BinaryIO,
    request: Mapping[str, Any],
    kinds: Mapping[str, str],
    parsers: dict[str, Parse],
) -> tuple[bytes, bytes]:
    """What has become of the next document, and the bytes that say it."""
    kind, memory, most = request["kind"], request["memory"], request["answer"]
    try:
        content = requests.read(request["size"])
        if kind not in parsers:
            parsers[kind] = _loaded(kinds[kind])
        _confine(memory)
        _send(answers, READY)
        _limit_processor(request["seconds"])
        answer = parsers[kind](content, request["options"])
        found = _streamed(answers, answer, request["seconds"], most) if request["stream"] else orjson.dumps(answer)
    except InvalidDocument as error:
        return INVALID, _words(error.message)
    except MemoryError:
        return LACKING, b"needs more than %d MiB of memory to read" % (memory >> 20)
    except RecursionError:
        return FAULT, b"is nested too deep to read"
    except Exception as error:  # on broken files a library raises whatever it meets
        return INVALID, _words(f"cannot be read: {type(error).__name__}: {error}")
    if len(found) > most:
        return INVALID, b"gives more than %d MiB of text: split it" % (most >> 20)
    return DONE, found


def _streamed(answers: BinaryIO, parts: Iterator[Any], seconds: float, most: int) -> bytes:
    """Send the parts, each of which has the time of a document; what is left to be sent after them."""
    for part in parts:
        if len(part) > most:
            raise InvalidDocument(f"cannot be read: a part of it has more than {most >> 20} MiB")
        _send(answers, PART, part)
        _limit_processor(seconds)
    return b""


def _loaded(place: str) -> Parse:
    module, function = place.split(":")
    parse: Parse = getattr(importlib.import_module(module), function)
    gc.freeze()  # what was imported stays, and need not be looked through after every document
    return parse


def _confine(memory: int) -> None:
    """Give up, for good, what no parser needs. Imports come before: they need more."""
    sys.dont_write_bytecode = True
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_NPROC: 0,
    }
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        lower = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):  # a system that has the limit but does not keep it
            resource.setrlimit(limit, (lower, lower))


def _limit_processor(seconds: float) -> None:
    """A parent that still lives ends this process earlier, by the clock."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(used.ru_utime + used.ru_stime + seconds) + _GRACE
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _send(answers: BinaryIO, what: bytes, content: bytes = b"") -> None:
    answers.write(ANSWER.pack(what, _held(), len(content)))
    answers.write(content)
    answers.flush()


def _held() -> int:
    """MiB of memory that this process holds; 0 where the system does not say. (Its peak counts the parent's, too.)"""
    try:
        with open("/proc/self/statm", "rb") as status:  # noqa: PTH123
            return int(status.read().split()[1]) * resource.getpagesize() >> 20
    except OSError:
        return 0


def _words(reason: str) -> bytes:
    return " ".join(reason.split())[:LONGEST_REASON].encode("utf-8", "replace")


if __name__ == "__main__":
    main()
