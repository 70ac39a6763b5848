"""The lists of changes: what a commit lists, how the lists hang together, and when they go."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
import xxhash

from aidre.engine.collection import garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import HistoryMissing, StorageFailed
from aidre.engine.index.ids import Lookup
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import changelog, durable
from aidre.engine.storage.manifest import ChangesEntry, read_manifest
from aidre.engine.types import Change, ChangeCursor
from tests.support.stores import NAME, ROWS, SPACE, TIME, delete, names, put, record, write

DAY = 24 * 3600


def lists(path: Path) -> list[int]:
    return sorted(int(one.stem) for one in (path / NAME / "changes").iterdir())


def newest(path: Path) -> ChangesEntry:
    return Store(path).open(NAME).manifest.changes


def everything_since(path: Path, place: ChangeCursor | None, limit: int = 1_000) -> tuple[list[Change], ChangeCursor]:
    snapshot, found = Store(path).open(NAME), []
    while True:
        page = snapshot.changes(place, limit)
        place = page.cursor
        found += page.changes
        if not page.more:
            return found, place


def since(path: Path, place: ChangeCursor) -> list[tuple[str, str]]:
    return [(change.op, change.id) for change in everything_since(path, place)[0]]


def here(path: Path) -> ChangeCursor:
    return everything_since(path, None)[1]


# -- what is listed --------------------------------------------------------------------------------------------


def test_a_chunk_that_was_written_again_as_it_was_is_not_listed(tmp_path: Path) -> None:
    places = []
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for text in ("two", "three", "three"):
            put(writer, [record("a", ["one ", text])], ROWS[:2])
            writer.commit()
            places.append(here(tmp_path))
    assert since(tmp_path, places[0]) == [("change", "a#chunk_2")]
    assert places[1] == places[2]
    assert Store(tmp_path).current(NAME) == 3


@pytest.mark.parametrize("member", [{"title": "T"}, {"url": "https://example.com/"}, {"metadata": {"n": 1}}])
def test_other_metadata_of_the_same_text_is_a_change(member: dict[str, object], tmp_path: Path) -> None:
    write(tmp_path, [record("a", ["one"], updated_at=TIME)])
    place = here(tmp_path)
    write(tmp_path, [record("a", ["one"], updated_at=TIME, **member)])
    [change], _ = everything_since(tmp_path, place)
    assert (change.op, change.id, change.content_hash) == ("change", "a#chunk_1", newest_hash(tmp_path, "a#chunk_1"))


def newest_hash(path: Path, chunk_id: str) -> bytes:
    chunk = Store(path).open(NAME).get(chunk_id)
    assert chunk is not None
    return chunk.digest


def test_a_chunk_comes_with_a_change_only_as_it_was_listed(tmp_path: Path) -> None:
    write(tmp_path, ["z"])
    place = here(tmp_path)
    write(tmp_path, [record("a", ["one"], url="https://example.com/a"), record("b", ["one"]), record("c", ["one"])])
    write(tmp_path, [record("b", ["two"])])
    delete(tmp_path, ["c"])
    found, _ = everything_since(tmp_path, place)
    told = [(change.op, change.id[0], change.chunk.url if change.chunk else None) for change in found]
    assert told == [
        ("add", "a", "https://example.com/a"),
        ("add", "b", None),
        ("add", "c", None),
        ("change", "b", None),
        ("delete", "c", None),
    ]
    assert [change.chunk is not None for change in found] == [True, False, False, True, False]


# -- how the lists hang together -------------------------------------------------------------------------------


def test_a_generation_without_a_list_names_the_newest_one(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    write(tmp_path, ["b"])
    before = newest(tmp_path)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
        writer.set_source_root("docs", "/docs")
        writer.commit()
    assert Store(tmp_path).current(NAME) == 4
    assert newest(tmp_path) == before
    assert before.generation == 2
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


@pytest.mark.parametrize("few", [changelog._MAX_PROBED_GENERATIONS, 0])
def test_gaps_between_the_lists_are_passed_over(few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changelog, "_MAX_PROBED_GENERATIONS", few)
    write(tmp_path, ["a"])
    place = here(tmp_path)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for name in "bc":
            for number in range(3):
                writer.set_source_root("docs", f"/{name}{number}")
                writer.commit()
            put(writer, [name], ROWS[:1])
            writer.commit()
    assert lists(tmp_path) == [1, 5, 9]
    assert since(tmp_path, place) == [("add", "b#chunk_1"), ("add", "c#chunk_1")]


def test_a_list_that_no_generation_names_is_removed_by_the_next_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    place = here(tmp_path)

    def refuse(path: Path, content: bytes) -> None:
        raise StorageFailed("no space left")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[:1])
        monkeypatch.setattr(durable, "replace_file", refuse)
        monkeypatch.setattr(garbage, "discard", lambda *_: None)  # a writer that is killed removes nothing
        with pytest.raises(StorageFailed):
            writer.commit()
        monkeypatch.undo()
    assert lists(tmp_path) == [1, 2]
    assert since(tmp_path, place) == []
    with Store(tmp_path).writer(NAME, spaces=[SPACE]):
        assert lists(tmp_path) == [1]


def test_what_readers_saw_of_a_commit_that_failed_is_superseded_though_nothing_is_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    before = here(tmp_path)
    real = durable.replace_file

    def named_but_not_synced(path: Path, content: bytes) -> None:
        real(path, content)
        if path.name == "CURRENT":
            raise StorageFailed("cannot write CURRENT: Input/output error")

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[:1])
        monkeypatch.setattr(durable, "replace_file", named_but_not_synced)
        with pytest.raises(StorageFailed):
            writer.commit()
        monkeypatch.undo()
        seen = here(tmp_path)
        assert Store(tmp_path).open(NAME).chunks == 2
        writer.delete(["b"])
        assert writer.commit() is not None
        assert writer.commit() is None
        assert Store(tmp_path).open(NAME).chunks == 1
        put(writer, ["c"], ROWS[:1])
        writer.commit()
    assert since(tmp_path, before) == [("add", "c#chunk_1")]
    with pytest.raises(HistoryMissing):
        since(tmp_path, seen)


def test_a_page_ends_after_so_many_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ["a"])
    place = here(tmp_path)
    for name in "bcdef":
        write(tmp_path, [name])
    monkeypatch.setattr("aidre.engine.collection.change_feed.MAX_CHANGELOGS_A_PAGE", 2)
    snapshot, sizes = Store(tmp_path).open(NAME), []
    more = True
    while more:
        page = snapshot.changes(place, 1_000)
        sizes.append(len(page.changes))
        place, more = page.cursor, page.more
    assert sizes == [2, 2, 1]


# -- all chunks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 7, 60, 61, 1_000])
def test_every_live_chunk_is_listed_once(limit: int, tmp_path: Path) -> None:
    write(tmp_path, names(40))
    write(tmp_path, names(30, 30))
    delete(tmp_path, names(10, 5))
    found, place = everything_since(tmp_path, None, limit)
    assert sorted(change.id for change in found) == [
        f"{name}#chunk_1" for name in names(60) if name not in names(10, 5)
    ]
    assert all(change.op == "add" and change.chunk is not None for change in found)
    assert everything_since(tmp_path, place) == ([], place)


def test_ids_whose_hashes_are_equal_stay_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may choose ids so."""
    write(tmp_path, names(20))
    real = Lookup.hashes_after

    def colliding(self: Lookup, after: int | None, count: int, allowed: object) -> object:
        hashes, rows = real(self, None, 1_000, allowed)  # type: ignore[arg-type]
        alike = hashes // 2**62
        kept = alike > (-1 if after is None else after)
        return alike[kept][:count], rows[kept][:count]

    monkeypatch.setattr(Lookup, "hashes_after", colliding)
    found, _ = everything_since(tmp_path, None, 3)
    assert sorted(change.id for change in found) == [f"{name}#chunk_1" for name in names(20)]


def test_an_empty_collection_lists_nothing_and_then_what_comes(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    delete(tmp_path, ["a"])
    found, place = everything_since(tmp_path, None)
    assert found == []
    write(tmp_path, ["b"])
    assert since(tmp_path, place) == [("add", "b#chunk_1")]


# -- when they go ----------------------------------------------------------------------------------------------


def age(path: Path, seconds: float) -> None:
    for one in (path / NAME / "changes").iterdir():
        os.utime(one, (0, time.time() - seconds))


@pytest.mark.slow
def test_lists_are_kept_for_longer_than_is_promised(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    place = here(tmp_path)
    write(tmp_path, ["b"])
    write(tmp_path, ["c"])
    age(tmp_path, changelog.PROMISED_SECONDS)
    write(tmp_path, ["d"])
    assert lists(tmp_path) == [1, 2, 3, 4]
    later = here(tmp_path)
    age(tmp_path, changelog.PROMISED_SECONDS + 2 * DAY)
    write(tmp_path, ["e"])
    assert lists(tmp_path) == [newest(tmp_path).generation]
    with pytest.raises(HistoryMissing):
        since(tmp_path, place)
    assert since(tmp_path, later) == [("add", "e#chunk_1")]


@pytest.mark.slow
def test_a_writer_looks_over_the_kept_lists_once_and_removes_those_that_grow_old_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    write(tmp_path, ["b"])
    looked: list[object] = []
    real = os.scandir

    def scandir(place: str) -> Any:
        looked.append(place)
        return real(place)

    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for number in range(6):
            put(writer, [f"c{number}"], ROWS[:1])
            if number == 1:
                monkeypatch.setattr(os, "scandir", scandir)
            if number == 4:
                age(tmp_path, changelog.PROMISED_SECONDS + 2 * DAY)
            writer.commit()
        monkeypatch.undo()
    assert tmp_path / NAME / "manifests" in looked and tmp_path / NAME / "changes" not in looked
    assert len(lists(tmp_path)) == 2 and lists(tmp_path)[-1] == newest(tmp_path).generation


def test_the_newest_list_stays_however_old_it_is(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    write(tmp_path, ["b"])
    age(tmp_path, changelog.PROMISED_SECONDS + 2 * DAY)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
    assert lists(tmp_path) == [2]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_a_purge_ends_the_history(tmp_path: Path) -> None:
    write(tmp_path, ["a", "b"])
    place = here(tmp_path)
    delete(tmp_path, ["a"])
    told = here(tmp_path)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.purge()
    assert lists(tmp_path) == []
    for one in (place, told):
        with pytest.raises(HistoryMissing):
            since(tmp_path, one)
    place = here(tmp_path)
    write(tmp_path, ["c"])
    assert since(tmp_path, place) == [("add", "c#chunk_1")]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_a_purge_while_all_chunks_are_listed_ends_the_listing(tmp_path: Path) -> None:
    write(tmp_path, names(9))
    page = Store(tmp_path).open(NAME).changes(None, 4)
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.purge()
    with pytest.raises(HistoryMissing):
        Store(tmp_path).open(NAME).changes(page.cursor, 4)


@pytest.mark.parametrize("damage", ["cut", "gone", "header", "body", "other"])
def test_a_damaged_list_is_never_told(damage: str, tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    places = [here(tmp_path)]
    for name in "bcd":
        write(tmp_path, [name])
        places.append(here(tmp_path))
    path = tmp_path / NAME / "changes" / "000003.arrow"
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "header":
        content[content.index(b'"mark"') + 9] ^= 1
    elif damage == "body":
        content[content.index(b"c#chunk_1")] ^= 1
    elif damage == "other":
        content = bytearray((path.parent / "000002.arrow").read_bytes())
    if damage != "gone":
        path.write_bytes(content[:-9] if damage == "cut" else content)
    for place in places[:2]:
        with pytest.raises(HistoryMissing):
            since(tmp_path, place)
    assert since(tmp_path, places[2]) == [("add", "d#chunk_1")]
    assert since(tmp_path, places[3]) == []


@pytest.mark.slow
def test_every_bit_of_a_list_is_checked(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    place = here(tmp_path)
    write(tmp_path, ["b"])
    write(tmp_path, ["c"])
    snapshot, wanted = Store(tmp_path).open(NAME), since(tmp_path, place)
    for name in ("000002.arrow", "000003.arrow"):
        path = tmp_path / NAME / "changes" / name
        whole = path.read_bytes()
        path.unlink()
        for offset in range(0, len(whole), 5):
            path.write_bytes(whole[:offset] + bytes([whole[offset] ^ 1 << offset % 8]) + whole[offset + 1 :])
            with pytest.raises(HistoryMissing):
                snapshot.changes(place, 10)
        path.write_bytes(whole)
    assert since(tmp_path, place) == wanted


def test_a_history_that_was_set_back_and_went_on_differently_is_another(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    place = here(tmp_path)
    write(tmp_path, ["b"])
    told = here(tmp_path)
    (tmp_path / NAME / "CURRENT").write_text("000001\n")
    with pytest.raises(HistoryMissing):
        since(tmp_path, told)
    write(tmp_path, ["c"])
    with pytest.raises(HistoryMissing):
        since(tmp_path, told)
    assert since(tmp_path, place) == [("add", "c#chunk_1")]


@pytest.mark.parametrize("listed", [True, False])
def test_the_history_of_format_1_begins_with_its_newest_generation(listed: bool, tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    path = tmp_path / NAME / "manifests" / "000001.json"
    body = orjson.loads(path.read_bytes())["body"]
    body["format"], body["changes"] = 1, body["changes"]["file"] if listed else None
    durable.replace_file(path, sealed(body))
    assert read_manifest(path.parent, 1, NAME).changes.generation == 1
    place = here(tmp_path)
    write(tmp_path, ["b"])
    assert since(tmp_path, place) == [("add", "b#chunk_1")]


def sealed(body: object) -> bytes:
    content = orjson.dumps(body)
    return b'{"checksum":"%s","body":%s}\n' % (xxhash.xxh3_128_hexdigest(content).encode(), content)
