"""`aidre watch`, `api/cli/watch.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from aidre.api.cli import watch as module
from aidre.api.cli.ingest import Ingestion
from aidre.api.cli.watch import FileChanges, News, follow, watch
from aidre.engine import open_source
from aidre.engine.errors import ConfigurationError
from aidre.ingest.pipeline import Committed, DocumentProblem, Event, Notice, RunProgress, Summary
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.loaded import python

NOTHING = Summary(
    documents=2, chunks=0, embedded=0, updated=0, unchanged=2, deleted=0, failed=0, skipped=0, seconds=0.1
)  # fmt: skip


QUICK = {"TICK_SECONDS": 0.1, "RETRY_SECONDS": 0.2}
"""Instead of a second and of five. That changes are one run until it is quiet stays as it is: the machine is busy."""
PROGRAM = (
    f"import aidre.api.cli.watch as watch; vars(watch).update({QUICK}); from aidre.api.cli.main import main; main()"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in QUICK.items():
        monkeypatch.setattr(module, name, seconds)


# -- what has changed ------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    (made / "a.md").write_text("# A\n\nalpha\n")
    return made


@contextmanager
def started(changes: FileChanges) -> Iterator[FileChanges]:
    changes.start()
    try:
        yield changes
    finally:
        changes.stop()


@pytest.mark.slow
def test_a_change_below_a_folder_is_told_and_nothing_is_told_without_one(folder: Path, tmp_path: Path) -> None:
    with started(follow([str(folder)], tmp_path / "store")) as changes:
        assert not changes.wait(0.1)
        (folder / "sub").mkdir()
        (folder / "sub" / "b.md").write_text("beta")
        assert changes.wait(WAIT_SECONDS)
        while changes.wait(0.1):  # a slow machine tells of the folder and of its file one after the other
            pass
        (folder / "a.md").unlink()
        assert changes.wait(WAIT_SECONDS)


@pytest.mark.slow
def test_hidden_files_other_kinds_and_the_store_itself_are_no_change(folder: Path) -> None:
    store = folder / "store"
    store.mkdir()
    (folder / ".git").mkdir()
    with started(follow([str(folder)], store)) as changes:
        for name in (".a.md.swp", ".git/index.md", "x.tmp", "~$a.docx", "store/x.md"):
            (folder / name).write_text("x")
        assert not changes.wait(1.0)
        (folder / "c.md").write_text("gamma")
        assert changes.wait(WAIT_SECONDS)


def test_a_file_alone_is_followed_through_its_replacement(folder: Path, tmp_path: Path) -> None:
    with started(follow([str(folder / "a.md")], tmp_path / "store")) as changes:
        (folder / "other.md").write_text("x")
        assert not changes.wait(0.5)
        (folder / "new").write_text("# A\n\nanother text\n")
        (folder / "new").replace(folder / "a.md")
        assert changes.wait(WAIT_SECONDS)
        (folder / "a.md").unlink()
        assert changes.wait(WAIT_SECONDS)


@pytest.mark.slow
def test_a_folder_that_comes_back_is_followed_again(folder: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    with started(follow([str(folder)], tmp_path / "store")) as changes:
        folder.rename(away)
        assert changes.wait(WAIT_SECONDS)
        while changes.wait(1.0):
            pass
        folder.mkdir()
        assert changes.wait(WAIT_SECONDS)
        (folder / "b.md").write_text("beta")
        assert changes.wait(WAIT_SECONDS)


def test_what_the_system_refuses_is_one_error(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Iterator[set[Any]]:
        raise OSError("OS file watch limit reached. about [...]")
        yield

    monkeypatch.setattr("watchfiles.watch", refuse)
    with pytest.raises(ConfigurationError, match=r"fs\.inotify\.max_user_watches"):
        follow([str(folder)], tmp_path / "store").start()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("https://example.com/feed.xml", "watch follows files and folders: run `aidre ingest https://example.com"),
        ("no/such/folder", "cannot be read"),
    ],
)
def test_a_source_that_cannot_be_followed_is_refused(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        follow([source], tmp_path)


# -- what is said ----------------------------------------------------------------------------------------------------


def said(events: list[Event], *, is_first: bool = False, former: frozenset[str] = frozenset()) -> list[type[Any]]:
    told: list[Event] = []
    news = News(told.append, former, is_first)
    for event in events:
        news(event)
    return [type(event) for event in told]


PROBLEM = DocumentProblem("notes/a.pdf", "it is damaged")


def test_the_first_run_says_everything() -> None:
    events: list[Event] = [RunProgress(0, 0), PROBLEM, NOTHING]
    assert said(events, is_first=True) == [RunProgress, DocumentProblem, Summary]


def test_a_run_that_changed_nothing_says_nothing_new() -> None:
    assert said([RunProgress(0, 0), NOTHING]) == []
    former = News(lambda event: None)
    former(PROBLEM)
    former(Notice("3 files of other kinds skipped"))
    assert said([Notice("3 files of other kinds skipped"), PROBLEM, NOTHING], former=frozenset(former.now)) == []


@pytest.mark.parametrize("changed", [{"updated": 1}, {"deleted": 1}, {"refused": "more than half"}])
def test_a_run_that_changed_something_says_so(changed: dict[str, Any]) -> None:
    assert said([Committed(2, 1, 1), replace(NOTHING, **changed)]) == [Committed, Summary]


def test_a_new_problem_is_said_with_its_counts() -> None:
    assert said([PROBLEM, replace(NOTHING, failed=1)]) == [DocumentProblem, Summary]


# -- the loop --------------------------------------------------------------------------------------------------------


@dataclass
class Waits:
    """In place of `FileChanges`: nothing ever changes, and waiting moves the clock."""

    now: datetime
    waited: list[float | None] = field(default_factory=list)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self, seconds: float | None = None) -> bool:
        self.waited.append(seconds)
        if seconds is None:
            raise KeyboardInterrupt
        self.now += timedelta(seconds=seconds)
        return False


@dataclass
class Runs:
    """In place of an `Ingestion`: each run has the next of some summaries."""

    sources: list[str]
    summaries: list[Summary]
    times: list[datetime]
    waits: Waits

    def run(self, report: Callable[[Event], None]) -> Summary:
        self.times.append(self.waits.now)
        return self.summaries.pop(0)


def test_a_document_that_is_due_later_is_read_again_when_its_time_has_come(folder: Path) -> None:
    start = datetime(2026, 6, 1, 12, tzinfo=UTC)
    waits = Waits(start)
    summaries = [replace(NOTHING, next_change="2026-06-01T12:02:30Z"), NOTHING]
    runs = Runs([str(folder)], summaries, [], waits)
    with pytest.raises(KeyboardInterrupt):
        watch(
            cast("Ingestion", runs),
            lambda: nullcontext(lambda _: None),
            lambda _: None,
            changes=cast("FileChanges", waits),
            clock=lambda: waits.now,
        )
    assert runs.times == [start, start + timedelta(seconds=150)]
    assert waits.waited == [60.0, 60.0, 30.0, None]


# -- the command -----------------------------------------------------------------------------------------------------


@dataclass
class Watching:
    process: subprocess.Popen[str]
    out: Path
    err: Path

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def done(self, **counts: int) -> bool:
        """Whether some run ended with these counts."""
        runs = [event for event in self.events() if event["event"] == "done"]
        return any(all(run[name] == count for name, count in counts.items()) for run in runs)

    def messages(self) -> str:
        return self.err.read_text()


@contextmanager
def watching(tmp_path: Path, store: Path, *arguments: str) -> Iterator[Watching]:
    command = [*python(), "-c", PROGRAM, "watch", *arguments, "--store", str(store), "--collection", "n"]
    out, err = tmp_path / "out", tmp_path / "err"
    with (
        out.open("w") as to_out,
        err.open("w") as to_err,
        subprocess.Popen([*command, "--json"], stdout=to_out, stderr=to_err, text=True) as process,
    ):
        try:
            yield Watching(process, out, err)
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.slow
def test_watch_follows_a_folder_until_it_is_terminated(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with watching(tmp_path, store, str(folder), "--mirror") as run:
        until(lambda: run.done(documents=1, updated=1), "the first run")
        until(lambda: "watching" in run.messages())
        for number in range(20):
            (folder / f"b{number}.md").write_text(f"# B\n\nbeta {number}\n")
        until(lambda: run.done(documents=21, updated=20), "a burst is one run")
        (folder / "bad.pdf").write_bytes(b"no pdf")
        until(lambda: "bad.pdf" in run.messages(), "a bad file is named")
        (folder / "a.md").unlink()
        until(lambda: run.done(deleted=1), "a deleted file is a deleted document")

        with open_source(store).writer("n", spaces=None):  # nobody holds the lock between two runs
            (folder / "c.md").write_text("# C\n\ngamma\n")
            until(lambda: "another process" in run.messages() or "waiting for" in run.messages())
        until(lambda: run.done(updated=1, deleted=0, documents=21), "what changed meanwhile is written")

        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(WAIT_SECONDS) == 143
        assert "Traceback" not in run.messages()
    generations = [event["generation"] for event in run.events() if event["event"] == "commit"]
    assert generations == sorted(set(generations))
    assert open_source(store).open("n").status()["documents"] == 21


@pytest.mark.process
@pytest.mark.slow
def test_an_empty_folder_is_waited_for_and_drafts_and_shared_ids_are_followed(tmp_path: Path) -> None:
    store, folder = tmp_path / "store", tmp_path / "notes"
    folder.mkdir()
    with watching(tmp_path, store, str(folder), "--mirror") as run:
        until(lambda: "watching" in run.messages())
        assert "notes: has no document" in run.messages()
        (folder / "a").mkdir()
        (folder / "a" / "intro.md").write_text("---\nid: intro\n---\nalpha\n")
        (folder / "c.md").write_text("gamma\n")
        until(lambda: run.done(documents=2, updated=2), "the first files are read")
        (folder / "b").mkdir()
        (folder / "b" / "intro.md").write_text("---\nid: intro\n---\nbeta\n")
        until(lambda: run.done(documents=3, updated=2, deleted=1), "both files are called by their paths")
        assert "intro is the id of 2 files (a/intro.md, b/intro.md)" in run.messages()
        (folder / "c.md").write_text("---\ndraft: true\n---\ngamma\n")
        until(lambda: run.done(documents=2, left_out=1, deleted=1), "a draft is removed")
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(WAIT_SECONDS) == 143
    assert open_source(store).open("n").status()["documents"] == 2


@pytest.mark.process
@pytest.mark.slow
def test_a_missing_folder_deletes_nothing_and_a_taken_lock_ends_nothing(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with watching(tmp_path, store, str(folder), "--mirror", "--wait", "0") as run:
        until(lambda: "watching" in run.messages())
        away = tmp_path / "away"
        folder.rename(away)
        until(lambda: "not there" in run.messages(), "a missing folder is named")
        assert open_source(store).open("n").status()["documents"] == 1
        with open_source(store).writer("n", spaces=None):
            (away / "b.md").write_text("# B\n\nbeta\n")
            away.rename(folder)
            until(lambda: f"process {os.getpid()}" in run.messages(), "the holder of the lock is named")
        until(lambda: run.done(updated=1, unchanged=1), "it is written when the lock is free")
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(WAIT_SECONDS) == 130


@pytest.mark.process
def test_what_cannot_be_watched_is_a_usage_error(tmp_path: Path) -> None:
    for source in ("https://example.com/", str(tmp_path / "nothing")):
        with watching(tmp_path, tmp_path / "store", source) as run:
            assert run.process.wait(WAIT_SECONDS) == 2
            assert len(run.messages().splitlines()) == 1
