"""The child's program: reads documents from a socket, parses them by kind, and answers with JSON over a pipe.

It raises its walls, knows no source and no store, and imports a parser at its first use. A file that a parser opens
comes as a descriptor. The parent starts it and trusts none of its answers.
"""

from __future__ import annotations

import gc
import importlib
import math
import os
import resource
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, TypeAlias

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.ingest.sandbox.walls import raise_walls, standing

Parse: TypeAlias = Callable[[bytes, Mapping[str, Any]], Any]
"""Turns the bytes of a document into JSON, or for a stream into an iterator of parts (bytes). The option "descriptor"
is that of the open file, if one was sent. Raises InvalidDocument with a message for the publisher."""

KINDS: dict[str, str] = {
    "pdf": "aidre.ingest.formats.pdf:parse",
    "pdf pages": "aidre.ingest.formats.scans.rasters:render_pages",
    "image": "aidre.ingest.formats.scans.rasters:decode_images",
    "scan": "aidre.ingest.formats.pdf:join_scan",
    "docx": "aidre.ingest.formats.office.docx:parse",
    "html": "aidre.ingest.formats.html_parser:parse",
    "feed": "aidre.ingest.formats.feed:parse",
    "json feed": "aidre.ingest.formats.feed:parse_json_feed",
    "sitemap": "aidre.ingest.formats.sitemap:parse",
    "markdown": "aidre.ingest.formats.markdown:parse",
    "markup tables": "aidre.ingest.formats.pages.markup_tables:parse",
    "rst": "aidre.ingest.formats.markup.rst:parse",
    "asciidoc": "aidre.ingest.formats.markup.asciidoc:parse",
    "org": "aidre.ingest.formats.markup.org:parse",
    "code": "aidre.ingest.formats.markup.code:parse",
    "pptx": "aidre.ingest.formats.office.pptx:parse",
    "odf": "aidre.ingest.formats.office.odf:parse",
    "epub": "aidre.ingest.formats.office.epub:parse",
    "eml": "aidre.ingest.formats.office.eml:parse",
    "rtf": "aidre.ingest.formats.office.rtf:parse",
    "zip": "aidre.ingest.formats.office.zip_child:read_members",
    "parquet": "aidre.ingest.formats.tables.parquet_child:read_batches",
    "xlsx": "aidre.ingest.formats.tables.xlsx_child:read_rows",
    "parquet schema": "aidre.ingest.formats.tables.parquet_child:read_schema",
    "walls": "aidre.ingest.sandbox.walls:describe",
}
"""The parser of each kind of document, as "module:function"; imported at its first use."""

REQUEST = struct.Struct(">II")
"""Lengths of the request (JSON: kind, options, seconds, memory, answer, stream, walls) and of the document, which
follow. The descriptor of a file may come with it."""

ANSWER = struct.Struct(">cII")
"""Kind of the answer, resident memory of the child in MiB, and the length of the content, which follows."""

READY, PART, DONE, INVALID, FAULT, LACKING = b"R", b"P", b"D", b"I", b"F", b"L"
"""Kinds: parsing begins; part of a stream; done (JSON, or nothing after a stream); invalid document (reason); fault
(reason; the child must not be used again); the same for lack of memory."""

MAX_REASON_CHARS = 1000
_OPEN_FILES = 16
_GRACE_SECONDS = 5
"""Seconds of processor time beyond the limit: a living parent ends the child earlier, by the clock."""


_status = -1
"""Descriptor of this process's status in /proc, opened by `main` before the walls are up; -1 without /proc."""


def main(kinds: Mapping[str, str] = KINDS) -> None:
    """Answer requests until the socket is closed."""
    global _status  # noqa: PLW0603 - a descriptor of the process
    sender = socket.socket(fileno=os.dup(0))
    answers = os.fdopen(os.dup(1), "wb")
    # Output of libraries must not mix with the frames.
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
    sys.dont_write_bytecode = True
    with suppress(OSError):
        _status = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    raise_walls()
    threading.Thread(target=_exit_with_parent, args=(sender.fileno(),), daemon=True).start()
    requests = sender.makefile("rb")
    parsers: dict[str, Parse] = {}
    while len((received := _receive_head(sender))[0]) == REQUEST.size:
        head, descriptors = received
        header, size = REQUEST.unpack(head)
        request = orjson.loads(requests.read(header)) | {"size": size}
        request["options"].update(zip(("descriptor",), descriptors, strict=False))
        kind, content = _parse(requests, answers, request, kinds, parsers)
        for descriptor in descriptors:
            os.close(descriptor)
        gc.collect()  # free reference cycles of libraries before the next document needs the memory
        _send(answers, kind, content)


def _receive_head(sender: socket.socket) -> tuple[bytes, list[int]]:
    """The lengths of the next request, and the descriptor that came with them; less than them at the end."""
    head, descriptors, _, _ = socket.recv_fds(sender, REQUEST.size, 1)
    while head and len(head) < REQUEST.size and (more := sender.recv(REQUEST.size - len(head))):
        head += more
    return head, descriptors


def _exit_with_parent(requests: int) -> None:
    """Exit when the parent has ended, even while a parser runs."""
    hangup = select.poll()
    hangup.register(requests, 0)
    hangup.poll()
    os._exit(0)


def _parse(
    requests: BinaryIO,
    answers: BinaryIO,
    request: Mapping[str, Any],
    kinds: Mapping[str, str],
    parsers: dict[str, Parse],
) -> tuple[bytes, bytes]:
    """Parse the next document; returns the kind and the content of the answer."""
    kind, memory, max_bytes = request["kind"], request["memory"], request["answer"]
    try:
        content = requests.read(request["size"])
        if request["walls"] and not standing().are_whole:
            raise InvalidDocument(f"is not read: the sandbox must have walls, and lacks {standing().missing} here")
        if kind not in parsers:
            parsers[kind] = _load(kinds[kind])
        confine(memory)
        _send(answers, READY)
        limit_processor(request["seconds"])
        answer = parsers[kind](content, request["options"])
        if request["stream"]:
            result = _send_parts(answers, answer, request["seconds"], max_bytes)
        else:
            result = orjson.dumps(answer)
    except InvalidDocument as error:
        return INVALID, _encode_reason(error.message)
    except MemoryError:
        return LACKING, b"needs more than %d MiB of memory to read" % (memory >> 20)
    except RecursionError:
        return FAULT, b"is nested too deep to read"
    except Exception as error:  # libraries raise any exception on broken files
        return INVALID, _encode_reason(f"cannot be read: {type(error).__name__}: {error}")
    if len(result) > max_bytes:
        return INVALID, b"gives more than %d MiB of text: split it" % (max_bytes >> 20)
    return DONE, result


def _send_parts(answers: BinaryIO, parts: Iterator[Any], seconds: float, max_bytes: int) -> bytes:
    """Send the parts, each with the time limit of a document; returns the content of the final answer, which is
    empty."""
    for part in parts:
        if len(part) > max_bytes:
            raise InvalidDocument(f"cannot be read: a part of it has more than {max_bytes >> 20} MiB")
        _send(answers, PART, part)
        limit_processor(seconds)
    return b""


def _load(name: str) -> Parse:
    module, function = name.split(":")
    parse: Parse = getattr(importlib.import_module(module), function)
    gc.freeze()  # imported modules stay and need no collection after each document
    return parse


def confine(memory: int) -> None:
    """Lower the resource limits for good, after the import of the first parser, which may need more."""
    limits = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: _OPEN_FILES,
        resource.RLIMIT_NPROC: 0,
    }
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        limited = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):  # some systems define a limit but do not support it
            resource.setrlimit(limit, (limited, limited))


def limit_processor(seconds: float) -> None:
    """Limit the processor time; a living parent ends the child earlier by the clock."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime + seconds) + _GRACE_SECONDS
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _send(answers: BinaryIO, kind: bytes, content: bytes = b"") -> None:
    answers.write(ANSWER.pack(kind, _resident_mib(), len(content)))
    answers.write(content)
    answers.flush()


def _resident_mib() -> int:
    """Resident memory in MiB, 0 if unknown. (The peak would include that of the parent before exec.)"""
    if _status < 0:
        return 0
    return int(os.pread(_status, 200, 0).split()[1]) * resource.getpagesize() >> 20


def _encode_reason(reason: str) -> bytes:
    return " ".join(reason.split())[:MAX_REASON_CHARS].encode("utf-8", "replace")


if __name__ == "__main__":
    main()
