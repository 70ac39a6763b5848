"""What follows a commit decides nothing: it is logged, and the next commit tries again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.collection import commit, garbage
from aidre.engine.collection.generations import Generations
from aidre.engine.collection.store import Store
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import changelog, durable
from tests.support.stores import NAME, ROWS, SPACE, everything, names, put, write

LATER = "what is stored stays, and the next commit tries again"


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def defect(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a defect")


def three_commits(store: Path) -> None:
    """One more, and a merge is due."""
    for name in names(3):
        write(store, [name])


def finish(store: Path, *ids: str) -> int:
    """A run as every caller makes it; how many segments it leaves."""
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, list(ids), ROWS[: len(ids)])
        writer.finish()
        assert writer.snapshot is not None
        return len(writer.snapshot.segments)


@pytest.mark.parametrize(
    ("where", "name", "fault", "said"),
    [
        (os, "posix_fallocate", full, "segments were not merged: cannot write rows: No space left on device"),
        (Generations, "merge_due", defect, "segments were not merged: ZeroDivisionError: a defect"),
        (garbage, "collect", full, "older generations were not removed"),
        (changelog.Retention, "remove_old", full, "older generations were not removed"),
        (changelog.Retention, "pack", defect, "older generations were not removed: ZeroDivisionError"),
    ],
)
def test_an_error_after_the_commit_is_a_warning_and_the_next_commit_catches_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: Any,
    name: str,
    fault: Callable[..., Any],
    said: str,
) -> None:
    three_commits(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(where, name, fault)
        finish(tmp_path, "new")
    assert everything(Store(tmp_path).open(NAME)) == [*names(3), "new"]
    [warning] = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert said in warning and LATER in warning and "\n" not in warning
    assert not list((tmp_path / NAME).rglob("*.tmp"))
    assert finish(tmp_path, "other") <= 2
    assert everything(Store(tmp_path).open(NAME)) == [*names(3), "new", "other"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


@pytest.mark.parametrize("fault", [full, defect])
def test_a_first_load_whose_end_fails_is_stored_and_merged_later(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    in_background: None,
    fault: Callable[..., Any],
) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer, monkeypatch.context() as patched:
        for start in range(0, 60, 20):
            put(writer, names(20, start), ROWS[start : start + 20])
            writer.begin_commit()
            writer.wait_for_commit()
        patched.setattr("aidre.engine.collection.generations.write_merged", fault)
        writer.finish()
    assert everything(Store(tmp_path).open(NAME)) == names(60)
    assert "the first load was not merged and calibrated" in caplog.text
    assert finish(tmp_path, "new") == 1
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_a_merge_before_an_upsert_that_fails_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three_commits(tmp_path)
    write(tmp_path, ["d"])
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        write(tmp_path, ["e"])
    assert everything(Store(tmp_path).open(NAME)) == ["d", *names(3), "e"]


def test_an_interrupt_of_a_merge_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Generations, "merge_due", interrupt)
    with pytest.raises(KeyboardInterrupt):
        finish(tmp_path, "a")


# -- a commit that fails -----------------------------------------------------------------------------------------


def files(store: Path) -> set[str]:
    return {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()}


@pytest.mark.parametrize("step", ["chunks.arrow", "deletes/", "changes/", "manifests/", "CURRENT"])
@pytest.mark.parametrize("first", [True, False])
def test_a_commit_that_fails_at_any_step_leaves_no_file_and_is_not_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, first: bool
) -> None:
    if not first:
        write(tmp_path, ["a", "b"])
    before = files(tmp_path)
    sync = durable.sync_file
    replace_file = durable.replace_file

    def refuse_sync(path: Path) -> None:
        if step in path.as_posix():
            full()
        sync(path)

    def refuse_replace(path: Path, content: bytes) -> None:
        if step in path.as_posix():
            with durable.write_errors(path):
                full()
        replace_file(path, content)

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer, monkeypatch.context() as patched:
        put(writer, ["b", "b" if step == "deletes/" else "c"], ROWS[:2])
        patched.setattr(durable, "sync_file", refuse_sync)
        patched.setattr(durable, "replace_file", refuse_replace)
        with pytest.raises(StorageFailed, match="No space left") as caught:
            writer.commit()
        assert caught.value.details["reason"] == "full"
        assert files(tmp_path) - before <= {f"{NAME}/LOCK"}
    store = Store(tmp_path)
    with store.writer(NAME, spaces=[SPACE]):
        pass
    assert store.collections() == ([] if first else [NAME])
    assert first or everything(store.open(NAME)) == ["a", "b"]


def test_a_commit_whose_last_sync_fails_says_that_readers_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    real = durable.sync_folder

    def refuse(path: Path) -> None:
        if path == tmp_path / NAME:
            raise OSError(errno.EIO, "Input/output error")
        real(path)

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[:1])
        with monkeypatch.context() as patched:
            patched.setattr(durable, "sync_folder", refuse)
            with pytest.raises(StorageFailed, match="generation 2 can be read already, but a power cut") as caught:
                writer.commit()
        assert caught.value.details["unconfirmed"] == 2
        assert everything(Store(tmp_path).open(NAME)) == ["a", "b"], "it is as the error says"
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_an_adoption_that_fails_leaves_no_segment_when_the_writer_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    segments = tmp_path / NAME / "segments"
    before = set(segments.iterdir())

    def moved(*_: Any) -> None:
        (segments / "moved").mkdir()
        raise StorageFailed("cannot write CURRENT: No space left on device")

    monkeypatch.setattr(commit.Committer, "adopt", moved)
    with pytest.raises(StorageFailed), Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer._committer.adopt(None, None, None)  # type: ignore[arg-type]
    assert set(segments.iterdir()) == before
