"""Packs of changelogs: few files however many commits, the same feed, and nothing is lost between the two places."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import HistoryMissing
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import changelog
from aidre.engine.types import ChangeCursor
from tests.support.damage import alter, flipped
from tests.support.stores import NAME, ROWS, SPACE, put, write

PACKED, MERGED = 4, 3


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "PACKED", PACKED)
    monkeypatch.setattr(changelog, "PACKS_MERGED", MERGED)


def commits(path: Path, count: int, first: int = 0) -> list[ChangeCursor]:
    """Add a document with each commit; where a client stands that has read as far as each."""
    store, places = Store(path), list[ChangeCursor]()
    with store.writer(NAME, spaces=[SPACE]) as writer:
        for number in range(first, first + count):
            put(writer, [f"d{number}"], ROWS[:1])
            writer.commit()
            places.append(store.open(NAME).changes(places[-1] if places else None, 1_000).cursor)
    return places


def told(path: Path, place: ChangeCursor) -> list[str]:
    snapshot, found = Store(path).open(NAME), list[str]()
    while True:
        page = snapshot.changes(place, 7)
        found += [change.id.removesuffix("#chunk_1") for change in page.changes]
        place = page.cursor
        if not page.more:
            return found


def files(path: Path) -> list[str]:
    return sorted(one.name for one in (path / NAME / "changes").iterdir())


def packs(path: Path) -> list[Path]:
    return sorted(one for one in (path / NAME / "changes").iterdir() if "-" in one.name)


def test_old_changelogs_are_packed_and_packs_are_merged(tmp_path: Path) -> None:
    commits(tmp_path, 2 * PACKED)
    assert files(tmp_path) == ["000001-000004.arrow", *(f"{number:06d}.arrow" for number in range(5, 9))]
    commits(tmp_path, 3 * MERGED * PACKED, 100)
    first, last = files(tmp_path)[0].removesuffix(".arrow").split("-")
    assert int(first) == 1
    assert int(last) > 2 * PACKED


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    commits(tmp_path, 60)
    assert len(files(tmp_path)) <= 2 * PACKED + MERGED * 4


def test_the_feed_is_the_same_from_every_place(tmp_path: Path) -> None:
    places = commits(tmp_path, 30)
    assert packs(tmp_path)
    for number, place in enumerate(places):
        assert told(tmp_path, place) == [f"d{later}" for later in range(number + 1, 30)]


def test_generations_are_found_by_a_list_where_there_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = commits(tmp_path, 30)
    monkeypatch.setattr(changelog, "_MAX_PROBED_GENERATIONS", 5)
    assert told(tmp_path, places[0]) == [f"d{later}" for later in range(1, 30)]


def test_a_process_that_ends_while_it_packs_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = commits(tmp_path, 2 * PACKED - 1)
    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.parent.name == "changes" and path.stem == "000001":
            raise OSError("killed")
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        places += commits(tmp_path, 1, 100)
    assert len(files(tmp_path)) == 1 + 2 * PACKED, "the pack, and what it was made of"
    assert told(tmp_path, places[0]) == [*(f"d{later}" for later in range(1, 2 * PACKED - 1)), "d100"]
    commits(tmp_path, 2 * PACKED, 200)
    assert told(tmp_path, places[-1]) == [f"d{later}" for later in range(200, 200 + 2 * PACKED)]
    assert told(tmp_path, places[0])[:2] == ["d1", "d2"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_a_large_changelog_stays_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = commits(tmp_path, 2)
    size = (tmp_path / NAME / "changes" / "000002.arrow").stat().st_size
    monkeypatch.setattr(changelog, "MAX_PACKED_BYTES", size)
    names = [f"many{number}" for number in range(6)]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, names, ROWS[:6])
        writer.commit()
    commits(tmp_path, 2 * PACKED, 100)
    assert "000003.arrow" in files(tmp_path)
    assert sorted(told(tmp_path, places[0])) == sorted(["d1", *names, *(f"d{number}" for number in range(100, 108))])


def test_a_pack_goes_when_its_newest_changelog_is_old(tmp_path: Path) -> None:
    places = commits(tmp_path, 3 * PACKED)
    for pack in packs(tmp_path)[:1]:
        os.utime(pack, (0, time.time() - changelog.KEEP_SECONDS - 60))
    commits(tmp_path, 1, 100)
    assert "000001-000004.arrow" not in files(tmp_path)
    with pytest.raises(HistoryMissing):
        told(tmp_path, places[0])
    assert told(tmp_path, places[PACKED]) == [*(f"d{later}" for later in range(PACKED + 1, 3 * PACKED)), "d100"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_a_pack_is_as_old_as_its_newest_changelog(tmp_path: Path) -> None:
    commits(tmp_path, 2 * PACKED - 1)
    moment = time.time() - 1_000
    for one in (tmp_path / NAME / "changes").iterdir():
        os.utime(one, (0, moment))
    commits(tmp_path, 1, 100)
    assert packs(tmp_path)[0].stat().st_mtime == pytest.approx(moment, abs=1)


def test_a_purge_removes_packs(tmp_path: Path) -> None:
    places = commits(tmp_path, 3 * PACKED)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.purge()
    assert files(tmp_path) == []
    with pytest.raises(HistoryMissing):
        told(tmp_path, places[0])


def test_a_backup_has_the_packs(tmp_path: Path) -> None:
    places = commits(tmp_path / "store", 3 * PACKED)
    back_up(Store(tmp_path / "store"), [NAME], tmp_path / "b.tar")
    restore_archive(Store(tmp_path / "restored"), tmp_path / "b.tar")
    write(tmp_path / "restored", ["later"])
    assert told(tmp_path / "restored", places[0]) == [*(f"d{later}" for later in range(1, 3 * PACKED)), "later"]


@pytest.mark.parametrize("place", [0, 40, 300, 900])
def test_a_damaged_pack_is_never_told(tmp_path: Path, place: int) -> None:
    places = commits(tmp_path, 3 * PACKED)
    pack = packs(tmp_path)[0]
    alter(pack, flipped(place))
    with suppress(HistoryMissing):
        assert told(tmp_path, places[0]) == [f"d{later}" for later in range(1, 3 * PACKED)]
    assert told(tmp_path, places[2 * PACKED]) == [f"d{later}" for later in range(2 * PACKED + 1, 3 * PACKED)]
    assert all(report.ok for report in verify(Store(tmp_path)))
