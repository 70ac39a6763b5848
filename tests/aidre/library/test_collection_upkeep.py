"""An error of a write means that nothing of it is stored; a write that is stored raises nothing."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aidre
from aidre.engine.storage import durable
from tests.aidre.library.conftest import letters

SPACE = aidre.EmbeddingSpace("mine", 3, "cosine")

pytestmark = pytest.mark.needs("generations")


@pytest.fixture
def filled(tmp_path: Path) -> aidre.Collection:
    """One more commit, and a merge is due."""
    docs = aidre.open(tmp_path / "store").collection("docs", space=SPACE, embed=letters)
    for name in ("a", "b", "c"):
        docs.add({"id": name, "text": f"text of {name}", "price": 1})
    return docs


@pytest.fixture
def no_room_to_merge(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Returns what gives the room back."""

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    return monkeypatch.undo


def newest_segments(docs: aidre.Collection) -> int:
    assert docs.reader is not None
    return int(docs.reader.status()["segments"])


def add(docs: aidre.Collection) -> None:
    assert docs.add({"id": "d", "text": "text of d"}) == ["d"]
    assert docs.get(["d"]) != [None]


def patch(docs: aidre.Collection) -> None:
    docs.add({"id": "d", "text": "text of d"})
    assert docs.patch({"a": {"price": 2}}) == 1
    assert docs["a"].metadata["price"] == 2


def delete(docs: aidre.Collection) -> None:
    docs.add({"id": "d", "text": "text of d"})
    assert docs.delete(["d"]) == 1
    assert docs.get(["d"]) == [None]


@pytest.mark.parametrize("write", [add, patch, delete])
def test_a_write_is_stored_though_a_merge_finds_the_disk_full(
    filled: aidre.Collection,
    no_room_to_merge: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
    write: Callable[[aidre.Collection], None],
) -> None:
    write(filled)
    assert "segments were not merged" in caplog.text
    no_room_to_merge()
    filled.add({"id": "last", "text": "text of the last one"})
    assert newest_segments(filled) <= 2
    assert set("abc") < {document.id for document in filled.scan()}


def test_files_are_ingested_though_a_merge_finds_the_disk_full(
    filled: aidre.Collection, no_room_to_merge: Callable[[], None], tmp_path: Path
) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\ngreen tea\n")
    summary = filled.ingest(tmp_path / "tea.md")
    assert (summary.updated, summary.exit_status) == (1, 0)


def test_a_drop_is_done_though_files_cannot_be_removed(
    filled: aidre.Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: Path) -> None:
        raise aidre.StorageFailed(f"cannot remove {path}: Input/output error")

    monkeypatch.setattr(durable, "remove", refuse)
    db = aidre.open(tmp_path / "store")
    db.drop("docs")
    assert db.collections() == []
    assert "the files of the dropped collection were not removed" in caplog.text


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes file systems in memory of so many KiB."""
    made = list[Path]()

    def make(kibibytes: int) -> Path:
        place = tmp_path / f"disk{len(made)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("needs root to mount a file system in memory")
        made.append(place)
        return place

    yield make
    for place in made:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
def test_an_error_on_a_full_disk_means_that_nothing_is_stored(small_disk: Callable[[int], Path]) -> None:
    errors = 0
    for size in range(700, 1_400, 130):
        docs = aidre.open(small_disk(size) / "store").collection("docs", space=SPACE, embed=letters)
        for number in range(60):
            rows = [{"id": f"{number}-{row}", "text": f"word {number} {row} " * 10} for row in range(60)]
            try:
                docs.add(rows)
            except aidre.StorageFailed as error:
                errors += 1
                assert error.details["reason"] == "full"
                assert docs.get([str(row["id"]) for row in rows]) == [None] * len(rows)
                assert not list(docs._source.path.rglob("*.tmp"))
                break
    assert errors == 6
