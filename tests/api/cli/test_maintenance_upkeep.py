"""What follows a commit of a command: a merge, publication, what stays on the disk. The exit status is the commit's."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from aidre.api.cli import ingest as ingestion, watch as watching
from aidre.api.cli.ingest import prepare
from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import BucketFailed, StorageFailed
from aidre.engine.maintenance import StorePublisher
from aidre.ingest.pipeline import Event, IngestOptions, Summary
from tests.support.shell import Shell


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def write_file(shell: Shell, name: str) -> None:
    (shell.source / f"{name}.md").write_text(f"# {name}\n\nsome words of {name}\n", encoding="utf-8")


def segments(shell: Shell) -> int:
    return len(Store(shell.store).open("docs").segments)


def three_more(shell: Shell) -> None:
    for name in ("one", "two"):
        write_file(shell, name)
        assert shell.ingest()[0] == 0
    write_file(shell, "three")


def test_an_ingest_whose_merge_fails_is_a_success_with_a_warning(
    ingested: Shell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    three_more(ingested)
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        status, events, _ = ingested.ingest()
    assert (status, events[-1]["updated"], events[-1]["failed"]) == (0, 1, 0)
    assert "segments were not merged: cannot write rows: No space left on device" in caplog.text
    assert segments(ingested) == 4
    write_file(ingested, "four")
    assert ingested.ingest()[0] == 0
    assert segments(ingested) <= 2


def test_an_ingest_is_a_success_though_the_generations_to_keep_cannot_be_recorded(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[int]()

    def refuse(*_: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise StorageFailed("cannot write 000002.json: No space left on device")

    monkeypatch.setattr(ingestion, "set_retention", refuse)
    status, _, err = shell.ingest()
    assert status == 0
    assert "the number of generations to keep was not set" in err


def test_a_bucket_that_fails_is_reported_and_gets_the_commit_later(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BucketFailed("the bucket does not answer", url="", reason="unreachable")

    with shell.config.open("a", encoding="utf-8") as config:
        config.write(f'[store]\npublish = "file://{shell.store.parent}/bucket"\n')
    with monkeypatch.context() as patched:
        patched.setattr(StorePublisher, "publish_each", refuse)
        status, events, err = shell.ingest()
    assert (status, events[-1]["updated"]) == (0, 3)
    assert "what was committed is stored, but not published: the bucket does not answer" in err
    [published] = shell.json("publish", "--config", str(shell.config))
    assert (published["generation"], published["files"] > 0) == (1, True)


def test_watch_goes_on_though_merges_fail(ingested: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    three_more(ingested)
    monkeypatch.setattr(os, "posix_fallocate", full)
    summaries, said, rounds = list[Summary](), list[str](), iter(["four", "five"])

    class Followed(watching.FileChanges):
        def start(self) -> None: ...

        def wait(self, seconds: float | None = None) -> bool:
            write_file(ingested, next(rounds))  # StopIteration ends the test
            return True

    @contextmanager
    def reporting() -> Iterator[Callable[[Event], None]]:
        yield lambda event: summaries.append(event) if isinstance(event, Summary) else None

    run = prepare(ingested.store, "docs", [str(ingested.source)], ingested.config, IngestOptions())
    with pytest.raises(StopIteration):
        watching.watch(run, reporting, said.append, changes=Followed([], [], ingested.store))
    assert [summary.updated for summary in summaries] == [1, 1, 1]
    assert not [line for line in said if "tried again" in line]


# -- what compact frees ------------------------------------------------------------------------------------------


def set_back(store: Path, seconds: float) -> None:
    moment = time.time() - seconds
    for path in store.rglob("*"):
        os.utime(path, (moment, moment))


def test_compact_says_what_readers_keep_until_when_and_frees_it_then(ingested: Shell) -> None:
    ids = [f"texts/{name}.md" for name in ("tea", "rain", "bread")]
    ingested.json("delete", *ids)
    [facts] = ingested.json("compact")
    until = datetime.fromisoformat(facts["kept"]["until"])
    assert facts["kept"]["bytes"] > 1_000
    assert time.time() < until.timestamp() <= time.time() + garbage.KEEP_SECONDS + 60
    status, out, _ = ingested.run("compact", "--store", ingested.store)
    assert status == 0
    assert "of older generations are kept for readers until " in out and "`aidre delete --purge` at once" in out
    set_back(ingested.store, garbage.KEEP_SECONDS + 60)
    [facts] = ingested.json("compact")
    assert facts["kept"] is None
    assert not list((ingested.store / "docs" / "segments").iterdir())


@pytest.mark.parametrize(
    "words", [["delete", "none"], ["ingest"], ["rollback", "1"], ["compact"], ["generations", "--keep", "3"]]
)
def test_every_command_that_writes_sweeps(ingested: Shell, words: list[str]) -> None:
    for number in range(2):
        (ingested.source / "tea.md").write_text(f"# Tea\n\nanother text {number}\n", encoding="utf-8")
        assert ingested.ingest()[0] == 0
    ingested.json("compact")
    unnamed = ingested.store / "docs" / "segments" / "unnamed"
    unnamed.mkdir()
    if words[0] != "rollback":  # which needs the generation that would go
        set_back(ingested.store, garbage.KEEP_SECONDS + 60)
    else:
        for path in (ingested.store / "docs" / "manifests").iterdir():
            moment = time.time() - garbage.KEEP_SECONDS - 60 + 10 * int(path.stem)
            os.utime(path, (moment, moment))
    if words[0] == "ingest":
        assert ingested.ingest()[1][-1]["updated"] == 0
    else:
        ingested.json(*words)
    assert not unnamed.exists()
