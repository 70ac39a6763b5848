"""Worker processes that build the derived files of a segment: they end, fail and are closed, and no file is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import AidreError, StorageFailed
from aidre.engine.segment import build
from aidre.engine.segment.build import Task, build_files
from aidre.engine.segment.workers import Workers
from aidre.engine.storage.arrow import FileEntry
from tests.support.clocks import until
from tests.support.stores import NAME, ROWS, SPACE, names, put

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The folder of a segment that is being written: its truth alone."""
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names(40), ROWS[:40])
        writer.commit()
        assert writer.snapshot is not None
        folder = tmp_path / NAME / "segments" / writer.snapshot.segments[0].segment.id
        for name in ("ids.arrow", "fields.arrow", "lexicon.arrow"):
            (folder / name).unlink()
        yield folder


def tasks(place: Path) -> list[Task]:
    return [Task(str(place), what) for what in build.ROW_FILES]


def in_this_process(place: Path) -> dict[str, FileEntry]:
    return {name: entry for task in tasks(place) for name, entry in build_files(task).items()}


def test_a_worker_that_ends_costs_no_file(place: Path) -> None:
    wanted = in_this_process(place)
    some = Workers(2)
    try:
        for task in tasks(place):
            some.submit(task)
        for worker in some._workers:
            worker._process.kill()
        assert some.results() == wanted
        for task in tasks(place):
            some.submit(task)
        assert some.results() == wanted
    finally:
        some.close()
        some.close_pipes()


def test_a_process_with_many_open_files_waits_for_its_workers_too(place: Path) -> None:
    """`select` knows descriptors up to 1,023 alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_200:
        pytest.skip("this process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_200), hard))
    wanted, some, held = in_this_process(place), None, [os.open(os.devnull, os.O_RDONLY) for _ in range(1_030)]
    try:
        some = Workers(1)
        for task in tasks(place):
            some.submit(task)
        assert some.results() == wanted
    finally:
        for descriptor in held:
            os.close(descriptor)
        if some is not None:
            some.close()
            some.close_pipes()


def test_a_worker_that_fails_says_so_where_the_reason_can_be_seen(place: Path) -> None:
    (place / "documents.arrow").unlink()
    some = Workers(1)
    try:
        for task in tasks(place):
            some.submit(task)
        with pytest.raises((OSError, AidreError)):
            some.results()
    finally:
        some.close()
        some.close_pipes()


def test_workers_that_were_closed_make_nothing_more(place: Path) -> None:
    some = Workers(1)
    some.submit(tasks(place)[0])
    some.close()
    with pytest.raises(StorageFailed):
        some.results()
    some.close_pipes()


def test_a_worker_ends_with_the_process_that_started_it() -> None:
    script = (
        "import os, sys\nfrom aidre.engine.segment.workers import Workers\nsome = Workers(2)\n"
        "print(*(worker._process.pid for worker in some._workers), flush=True)\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        process.kill()
        process.wait()
        until(lambda: not any(map(is_running, pids)))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"
