"""Processes that make the derived files of a segment while its writer goes on. They publish nothing.

A process that ends costs nothing but time: what it was asked for is made here.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import orjson

from aidre.engine import durable
from aidre.engine.arrow import FileEntry
from aidre.engine.deriving import Task, as_line, derive
from aidre.engine.errors import StorageFailed

PROGRAM = ("-m", "aidre.engine.deriving")
MOST = 2
"""More hardly gain: the lexicon takes about as long as all the rest."""


class Derivation(Protocol):
    """Takes tasks, and gives the files of all of them."""

    def submit(self, task: Task) -> None: ...

    def results(self, written: Sequence[Path] = ()) -> dict[str, FileEntry]:
        """While others work, files that are `written` may be brought to the disk."""
        ...


class Here:
    """Makes each file at once, in this process."""

    def __init__(self) -> None:
        self._files: dict[str, FileEntry] = {}

    def submit(self, task: Task) -> None:
        name, entry = derive(task)
        self._files[name] = entry

    def results(self, written: Sequence[Path] = ()) -> dict[str, FileEntry]:
        files, self._files = self._files, {}
        return files


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """A few processes, each with one task at a time; used by one thread, ended by any."""

    def __init__(self, count: int) -> None:
        self._workers: list[_Worker] = []
        with suppress(OSError):  # what no process can be started for is made here
            for _ in range(count):
                self._workers.append(_Worker())
        self._waiting: deque[Task] = deque()
        self._files: dict[str, FileEntry] = {}
        self._is_closed = False

    def submit(self, task: Task) -> None:
        """Give the task to a process that has none, else let it wait for one."""
        self._waiting.append(task)
        self._hand_out()

    def results(self, written: Sequence[Path] = ()) -> dict[str, FileEntry]:
        """The files of all tasks; StorageFailed after `close`."""
        for path in written:
            with durable.storage_errors(path):
                durable.sync_file(path)
        while busy := [worker for worker in self._workers if worker.task is not None]:
            readable, _, _ = select.select([worker.answers for worker in busy], [], [])
            for worker in busy:
                if worker.answers in readable:
                    self._take(worker)
            self._hand_out()
        while self._waiting:  # no process is left
            self._make(self._waiting.popleft())
        files, self._files = self._files, {}
        return files

    def close(self) -> None:
        """End the processes, whatever they are doing. Then `let_go`, once no thread waits for `results`."""
        self._is_closed = True
        for worker in self._workers:
            worker.end()

    def let_go(self) -> None:
        for worker in self._workers:
            worker.let_go()

    def _hand_out(self) -> None:
        for worker in self._workers:
            if self._waiting and worker.task is None and worker.begin(self._waiting[0]):
                self._waiting.popleft()

    def _take(self, worker: _Worker) -> None:
        task, answer = worker.finish()
        if answer is None:
            self._make(task)
        else:
            name, entry = answer
            self._files[name] = entry

    def _make(self, task: Task) -> None:
        if self._is_closed:
            raise StorageFailed("the commit was given up")
        name, entry = derive(task)
        self._files[name] = entry


class _Worker:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", *PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt is for the writer, which then ends this process
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tasks, self.answers = self._process.stdin, self._process.stdout
        self.task: Task | None = None

    def begin(self, task: Task) -> bool:
        """Whether the process could be told."""
        try:
            self._tasks.write(as_line(task))
            self._tasks.flush()
        except (OSError, ValueError):  # it has ended, or was ended
            return False
        self.task = task
        return True

    def finish(self) -> tuple[Task, tuple[str, FileEntry] | None]:
        """The task and what came of it, None where nothing did; waits for the answer."""
        task, self.task = self.task, None
        assert task is not None
        try:
            answer = orjson.loads(self.answers.readline())
            return task, (answer["name"], FileEntry.from_json(answer["entry"]))
        except (OSError, ValueError, KeyError):
            return task, None

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def let_go(self) -> None:
        """Close what led to the process; only where nobody waits for it any more."""
        for stream in (self._tasks, self.answers):
            with suppress(OSError):  # what was not told before it ended
                stream.close()
