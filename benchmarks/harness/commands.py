"""The real commands in processes of their own: `aidre ingest`, watched, `aidre serve` and the echo server."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.load import free_port


def aidre(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "aidre.api.cli.main", *map(str, arguments)]


@dataclass(frozen=True, slots=True)
class Load:
    """One run of `aidre ingest --json`.

    `peak` is the peak anonymous resident memory of all its processes together, in KiB; an event is stamped with the
    seconds since the start.
    """

    seconds: float
    peak: int
    events: list[tuple[float, dict[str, Any]]]


def ingest(arguments: Sequence[object]) -> tuple[float, int]:
    """Runs `aidre ingest`; returns its seconds and its peak anonymous resident memory in KiB."""
    load = watched(arguments)
    return load.seconds, load.peak


def watched(arguments: Sequence[object]) -> Load:
    started = time.perf_counter()
    process = subprocess.Popen(aidre("ingest", *arguments), stdout=subprocess.PIPE)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, sum(status(pid, "RssAnon") for pid in (process.pid, *descendants(process.pid))))
            time.sleep(0.1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stdout is not None
    events = [(time.perf_counter() - started, json.loads(line)) for line in process.stdout if line.startswith(b"{")]
    process.stdout.close()
    code = process.wait()
    seconds = time.perf_counter() - started
    watcher.join()
    if code:
        raise SystemExit(f"ingest ended with {code}")
    return Load(seconds, peak, events)


def descendants(pid: int) -> Iterator[int]:
    """The child processes of a process, and theirs."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return
    for child in (int(each) for one in lists for each in one.split()):
        yield child
        yield from descendants(child)


def status(pid: int, name: str) -> int:
    """A value of /proc/PID/status in KiB; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), 0)


@contextmanager
def server(arguments: Sequence[object], workers: int, log: Path | None = None) -> Iterator[tuple[int, int]]:
    """Runs `aidre serve`, with its log in a file; yields its process id and port."""
    port = free_port()
    command = aidre("serve", *arguments, "--port", port, "--workers", workers)
    with (log or Path(os.devnull)).open("ab") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def first_answer(arguments: Sequence[object], body: bytes) -> float:
    """Seconds from the start of a server to its first answer."""
    started = time.perf_counter()
    with server(arguments, 1) as (_, port):
        until_answered(port, body)
        return time.perf_counter() - started


def until_answered(port: int, body: bytes) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("POST", "/search", body, {"Content-Type": "application/aidre+json"})
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.005)
        finally:
            connection.close()
    raise SystemExit("the server did not answer within a minute")


def memory(arguments: Sequence[object], body: bytes, workers: int) -> int:
    """Proportional set size in KiB of all worker processes, after 50 searches per worker."""
    with server(arguments, workers) as (pid, port):
        for _ in range(50 * workers):
            until_answered(port, body)
        serving = children(pid) if workers > 1 else [pid]
        return sum(pss(process) for process in serving)


def children(pid: int) -> list[int]:
    """The worker processes of a server: its children that map files of the store."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                mapped = ".vectors.arrow" in (entry / "maps").read_text()
            except (OSError, IndexError):
                continue
            if parent == pid and mapped:
                found.append(int(entry.name))
    return found


def pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


@contextmanager
def echoing(size: int) -> Iterator[tuple[int, int]]:
    """Runs the echo server; yields its process id and port."""
    port = free_port()
    process = subprocess.Popen([sys.executable, Path(__file__).with_name("echo.py"), str(size), str(port)])
    try:
        until_answered(port, json.dumps({"query": "any", "mode": "lexical"}).encode())
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()
