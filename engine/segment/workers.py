"""Executors that build the derived files of a segment: in this process, or in child processes beside the writer.

Workers publish nothing. When a worker process ends or fails, its task is done in this process: that costs time only,
and the error appears where its reason can be seen.
"""

from __future__ import annotations

import select
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
import orjson

from aidre.engine.checkout import child_environment
from aidre.engine.errors import StorageFailed
from aidre.engine.segment.build import Task, build_files, to_line
from aidre.engine.storage import FileEntry, durable

PROGRAM = ("-m", "aidre.engine.segment.build")
"""Arguments of the interpreter that make it a worker: the module `build`, run as a program."""

MAX_WORKERS = 2
"""More processes gain little: the lexicon takes about as long as all other files together."""


class BuildExecutor(Protocol):
    """Takes tasks and returns the entries of the files that they wrote."""

    def submit(self, task: Task) -> None: ...

    def results(self, written: Sequence[Path] = ()) -> dict[str, FileEntry]:
        """Wait for all tasks; the entries of their files by name.

        Files in `written` are complete already: an executor may sync them while it waits.
        """
        ...


class InProcessBuilder:
    """Builds each file in this process, when it is submitted."""

    def __init__(self) -> None:
        self._files: dict[str, FileEntry] = {}

    def submit(self, task: Task) -> None:
        self._files |= build_files(task)

    def results(self, written: Sequence[Path] = ()) -> dict[str, FileEntry]:
        files, self._files = self._files, {}
        return files


class Workers:
    """A pool of processes with one task each at a time. Use it from one thread; any thread may close it."""

    def __init__(self, count: int) -> None:
        self._workers: list[_BuilderProcess] = []
        with suppress(OSError):  # without processes every task is done in this one
            for _ in range(count):
                self._workers.append(_BuilderProcess())
        self._waiting: deque[Task] = deque()
        self._files: dict[str, FileEntry] = {}
        self._is_closed = False

    def submit(self, task: Task) -> None:
        """Give the task to an idle process, or queue it."""
        self._waiting.append(task)
        self._dispatch()

    def results(self, written: Sequence[Path] = ()) -> dict[str, FileEntry]:
        """Wait for all tasks; the entries of their files by name. Raises StorageFailed after `close`."""
        for path in written:
            with durable.write_errors(path):
                durable.sync_file(path)
        while busy := [worker for worker in self._workers if worker.task is not None]:
            poll = select.poll()  # `select` takes no descriptors beyond 1,023
            for worker in busy:
                poll.register(worker.replies, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll()}
            for worker in busy:
                if worker.replies.fileno() in ready:
                    self._collect(worker)
            self._dispatch()
        while self._waiting:  # no process is alive
            self._build(self._waiting.popleft())
        files, self._files = self._files, {}
        return files

    def close(self) -> None:
        """Kill the processes, busy or not. Call `close_pipes` afterwards, when no thread waits in `results`."""
        self._is_closed = True
        for worker in self._workers:
            worker.kill()

    def close_pipes(self) -> None:
        for worker in self._workers:
            worker.close_pipes()

    def _dispatch(self) -> None:
        for worker in self._workers:
            if self._waiting and worker.task is None and worker.send(self._waiting[0]):
                self._waiting.popleft()

    def _collect(self, worker: _BuilderProcess) -> None:
        task, built = worker.receive()
        if built is None:
            self._build(task)
        else:
            self._files |= built

    def _build(self, task: Task) -> None:
        """Do a task in this process."""
        if self._is_closed:
            raise StorageFailed("the commit was cancelled")
        self._files |= build_files(task)


class _BuilderProcess:
    """One child process; `task` is the one that it works on, None while it is idle."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", *PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt reaches the writer alone, which then kills this process
            env=child_environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tasks, self.replies = self._process.stdin, self._process.stdout
        self.task: Task | None = None

    def send(self, task: Task) -> bool:
        """Start a task; False if the process has ended."""
        try:
            self._tasks.write(to_line(task))
            self._tasks.flush()
        except (OSError, ValueError):  # it crashed, or `kill` ended it
            return False
        self.task = task
        return True

    def receive(self) -> tuple[Task, dict[str, FileEntry] | None]:
        """Wait for the reply: the task with the entries of its files by name, or with None if it failed."""
        task, self.task = self.task, None
        assert task is not None
        try:
            reply = orjson.loads(self.replies.readline())
            return task, msgspec.convert(reply["files"], dict[str, FileEntry])
        except (OSError, ValueError, KeyError):
            return task, None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close_pipes(self) -> None:
        for stream in (self._tasks, self.replies):
            with suppress(OSError):  # closing flushes a task that the process did not live to read
                stream.close()
