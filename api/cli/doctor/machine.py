"""Checks of the machine: clock, memory, open files, disk, port, sandbox, OCR."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from aidre.api.cli.doctor.findings import Finding, Subject
from aidre.engine.errors import AidreError

_SKEW_SECONDS: Final = 5.0
"""A commit cannot be newer than now, but for clocks of several machines that wrote."""
_OLDEST: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""A clock before this release was made is wrong."""
_FEW_FILES: Final = 4_096
_LITTLE_FREE: Final = 256 << 20
_ANSWER_SECONDS: Final = 2.0


def clock(subject: Subject) -> Iterator[Finding]:
    """The time against that of the newest commit. Signatures name times, and expire."""
    now = datetime.now(UTC)
    shown = now.strftime("%Y-%m-%d %H:%M:%S UTC")
    cure = "let NTP set the clock (`timedatectl set-ntp true`): signatures with wrong times are refused"
    if now < _OLDEST:
        yield Finding("warning", "clock", f"says {shown}, before this release was made", cure)
        return
    times = [datetime.fromisoformat(reader.status()["created_at"]) for reader in subject.opened.values()]
    newest = max(times, default=None)
    if newest is not None and (newest - now).total_seconds() > _SKEW_SECONDS:
        ahead = (newest - now).total_seconds()
        yield Finding("warning", "clock", f"says {shown}, {ahead:.0f} s before the newest commit of the store", cure)
    else:
        yield Finding("ok", "clock", f"{shown}{', after the newest commit' if newest else ''}")


def memory(subject: Subject) -> Iterator[Finding]:
    """What is free against what a server maps."""
    from aidre.api.cli import console

    limit, mapped = _memory_limit(), 0
    if subject.settings.store.backend == "local":
        mapped = sum(reader.status()["bytes"] for reader in subject.opened.values())
    shown = f"{console.format_bytes(limit)} may be used, the store maps {console.format_bytes(mapped)}"
    if mapped > limit:
        text = f"{shown}: searches will wait for the disk"
        yield Finding("warning", "memory", text, "give more memory, or keep fewer collections here")
    else:
        yield Finding("ok", "memory", shown)


def _memory_limit() -> int:
    """Physical memory, or the limit of the container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            return min(total, int(Path(file).read_text(encoding="ascii")))
    return total


def open_files(subject: Subject) -> Iterator[Finding]:
    """A server raises the soft limit to the hard one; each connection is a file, and each file of a collection."""
    from aidre.api.server import count_open_files

    open_count = 0
    with suppress(AidreError):  # which the check of the store tells
        open_count = count_open_files() if subject.opened else 0
    least = _FEW_FILES + open_count
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = f"; a process with all collections open has {open_count:,}" if open_count else ""
    if hard != resource.RLIM_INFINITY and hard < least:
        cure = f"raise it: LimitNOFILE=65536 in the systemd unit, or `ulimit -Hn 65536`, at least {least:,}"
        yield Finding("warning", "open files", f"at most {hard:,}{shown}, so few connections are taken", cure)
    else:
        yield Finding(
            "ok", "open files", f"{'no limit' if hard == resource.RLIM_INFINITY else f'up to {hard:,}'}{shown}"
        )


def disk(subject: Subject) -> Iterator[Finding]:
    """Free room against the size of the store: a compaction writes a collection once more."""
    from aidre.api.cli import console, select

    if subject.store is None or not subject.store.is_dir():
        return
    free, size = shutil.disk_usage(subject.store).free, select.disk_bytes(subject.store)
    largest = max((select.disk_bytes(path) for path in subject.store.iterdir() if path.is_dir()), default=0)
    shown = f"{console.format_bytes(free)} free, the store has {console.format_bytes(size)}"
    if free < _LITTLE_FREE + largest:
        text = f"{shown}: not enough to compact its largest collection"
        yield Finding("warning", "disk", text, "free some room: a compaction writes a collection once more")
    else:
        yield Finding("ok", "disk", shown)


def port(subject: Subject) -> Iterator[Finding]:
    """Whether a server could listen."""
    host, number = subject.host, subject.port
    shown = f"{number} on {host}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, number, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1)
    except (OSError, OverflowError) as error:
        yield _unusable(error, host, number, shown)
    else:
        yield Finding("ok", "port", f"{shown} is free")


def _unusable(error: OSError | OverflowError, host: str, number: int, shown: str) -> Finding:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        if _is_served_by_aidre(host, number):
            return Finding("note", "port", f"{shown}: a server of aidre answers there already")
        return Finding("refuses", "port", f"{shown} is in use by another program", "stop it, or choose another --port")
    if isinstance(error, PermissionError):
        cure = "use a port from 1024 on, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the systemd unit"
        return Finding("refuses", "port", f"{shown} is for privileged processes", cure)
    problem = f"{shown} is not an address to listen on: {error}"
    return Finding("refuses", "port", problem, "give another --host or --port")


def _is_served_by_aidre(host: str, number: int) -> bool:
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = HTTPConnection(target, number, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz", headers={"Host": "127.0.0.1"})
        answer = connection.getresponse()
        return answer.status == 200 and b'"status"' in answer.read(1_000)
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def sandbox(subject: Subject) -> Iterator[Finding]:
    """The walls around parsers, as a child of the sandbox has raised them."""
    from aidre.ingest.sandbox import Sandbox, available

    with Sandbox() as child:
        version, is_filtered = child.parse("walls", b"")
    if version and is_filtered:
        yield Finding("ok", "sandbox", f"parsers run behind Landlock (version {version}) and seccomp")
        return
    lacking = available().missing or "walls"
    cure = 'run where the kernel has both (Linux from 5.13 on), and set sources.sandbox to "required"'
    text = f"no {lacking} here: a file that takes its parser over reads what the user of aidre may read"
    yield Finding("warning", "sandbox", text, cure)


def ocr(subject: Subject) -> Iterator[Finding]:
    """The program that reads scanned pages, which most do not need."""
    from aidre.ingest.sandbox import find_tesseract, recogniser

    found, sources = find_tesseract(), subject.settings.sources
    if sources.ocr:
        try:
            recogniser(sources.ocr_languages)
        except AidreError as error:
            reason, _, cure = error.message.rpartition(": ")
            yield Finding("refuses", "ocr", reason, cure)
            return
    if found is None:
        yield Finding("ok", "ocr", "tesseract is not installed: scanned pages and images are not read")
    else:
        yield Finding("ok", "ocr", f"tesseract reads {', '.join(sorted(found.languages)) or 'no language'} with --ocr")
