"""Faults at the n-th system call, whoever makes it: strace is attached to a child before it begins."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.nursery import PATIENCE, Child

WRITING = ("write", "pwrite64", "writev", "pwritev", "ftruncate", "truncate", "fallocate", "copy_file_range")
NAMING = ("mkdir", "mkdirat", "rmdir", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat")
SYNCING = ("fsync", "fdatasync", "sync_file_range", "msync")
MODES = ("chmod", "fchmod", "fchmodat")
CHANGING = (*WRITING, *NAMING, *SYNCING, *MODES, "openat")
READING = ("read", "pread64", "readv", "getdents64", "mmap")
_LINE = re.compile(r"(?:(?P<thread>\d+) +)?(?P<call>\w+)\((?P<rest>.*)")
_OPENS_TO_CHANGE = re.compile(r"O_CREAT|O_TRUNC|O_WRONLY|O_RDWR")


@dataclass(frozen=True, slots=True)
class Met:
    """A system call of a thread that touched the folder: its name, and its number among the thread's calls of it."""

    call: str
    number: int
    changes: bool


def why_not() -> str | None:
    """Why this machine cannot trace, None where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed (apt-get install strace): of this proof only the form in Python runs"
    done = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"strace is not allowed to trace here: {done.stderr.strip()}"


@contextmanager
def traced(child: Child, *options: str) -> Iterator[None]:
    """strace attached to a waiting child, until that ends."""
    command = ["strace", "-f", "-qq", "-p", str(child.pid), *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as tracer:
        try:
            _wait_for(tracer, child.pid)
            yield
            child.process.join()
            tracer.wait(PATIENCE)
        finally:
            child.process.kill()
            tracer.terminate()


def _wait_for(tracer: subprocess.Popen[bytes], pid: int) -> None:
    while f"TracerPid:\t{tracer.pid}\n" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii"):
        if tracer.poll() is not None:
            said = tracer.stderr.read().decode() if tracer.stderr else ""
            raise AssertionError(f"strace ended: {said}")


def listing(calls: Sequence[str], output: Path) -> list[str]:
    """Options that list these calls, with the paths of descriptors."""
    return ["-y", "-o", str(output), "-e", f"trace={','.join(f'?{call}' for call in calls)}", "-s", "0"]


def injecting(call: str, number: int, what: str) -> list[str]:
    """Options that put a fault (`signal=KILL`, `error=EIO`) in place of the n-th such call of a thread."""
    return ["-o", "/dev/null", "-e", f"trace=?{call}", "-e", f"inject=?{call}:{what}:when={number}"]


def read(output: Path, folder: Path) -> list[Met]:
    """The calls of a listing that touch a folder. Numbers are counted over all calls of a thread, as strace does."""
    found: list[Met] = []
    numbers: Counter[tuple[str, str]] = Counter()
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
        match = _LINE.match(line)
        if match is None:  # the end of a call that was listed as unfinished, or of a thread
            continue
        thread, call, rest = match["thread"] or "", match["call"], match["rest"]
        numbers[thread, call] += 1
        if str(folder) in rest:
            changes = call in CHANGING and (call != "openat" or _OPENS_TO_CHANGE.search(rest) is not None)
            found.append(Met(call, numbers[thread, call], changes))
    return found
