"""Generations that are kept, and going back to one: what answers then, what the change feed tells, what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import orjson
import pytest
import xxhash

from aidre.engine.collection import garbage
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import (
    CollectionMissing,
    GenerationMissing,
    HistoryMissing,
    InvalidInput,
    StoreDamaged,
    StoreLocked,
)
from aidre.engine.maintenance.history import keep_generations, list_generations, roll_back
from aidre.engine.maintenance.verify import verify
from aidre.engine.types import ChangeCursor
from tests.support.stores import NAME, SPACE, everything, fill, names, normal, put, record, write


def followed(snapshot: Snapshot, place: ChangeCursor | None, state: dict[str, bytes]) -> ChangeCursor:
    """Follow the feed to its end, applying what it says to `state` (chunk id -> content hash)."""
    while True:
        page = snapshot.changes(place, 100)
        for change in page.changes:
            if change.op == "delete":
                state.pop(change.id, None)
            else:
                state[change.id] = change.content_hash
        place = page.cursor
        if not page.more:
            return place


def chunks(snapshot: Snapshot) -> dict[str, bytes]:
    state: dict[str, bytes] = {}
    followed(snapshot, None, state)
    return state


def test_kept_generations_are_listed_newest_first(store: Store) -> None:
    assert [(old.generation, old.documents, old.current) for old in list_generations(store, NAME)] == [
        (3, 3, True),
        (2, 4, False),
        (1, 3, False),
    ]
    (store.path / NAME / "manifests" / "000002.json").chmod(0o644)
    (store.path / NAME / "manifests" / "000002.json").write_bytes(b"{}")
    assert [old.generation for old in list_generations(store, NAME)] == [3, 1]
    with pytest.raises(CollectionMissing):
        list_generations(store, "none")


@pytest.mark.parametrize("generation", [1, 2])
def test_a_roll_back_answers_as_the_old_generation_did(store: Store, generation: int) -> None:
    old = store.open(NAME, generation=generation)
    assert roll_back(store, NAME, generation) == 4
    new = store.open(NAME)
    assert new.generation == 4
    assert everything(new) == everything(old)
    assert chunks(new) == chunks(old)
    assert (new.documents, new.chunks, new.lineage) == (old.documents, old.chunks, old.lineage)
    assert all(report.ok and not report.problems for report in verify(store))


@pytest.mark.parametrize("generation", [1, 2])
def test_a_client_of_the_change_feed_follows_a_roll_back(store: Store, generation: int) -> None:
    state: dict[str, bytes] = {}
    place = followed(store.open(NAME), None, state)
    roll_back(store, NAME, generation)
    new = store.open(NAME)
    page = new.changes(place, 100)
    told = {(change.op, change.id) for change in page.changes}
    if generation == 2:
        assert told == {("add", "a#chunk_1")}
    else:
        assert told == {("add", "a#chunk_1"), ("change", "b#chunk_1"), ("delete", "d#chunk_1")}
    followed(new, place, state)
    assert state == chunks(store.open(NAME, generation=generation))


def test_a_merge_in_between_is_no_change(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(tmp_path, SPACE, normal(50, SPACE.dimensions), names(50), commits=5, bulk=False)
    before = store.current(NAME)
    with store.writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
    place = followed(store.open(NAME), None, {})
    roll_back(store, NAME, before)
    assert store.open(NAME).changes(place, 100).changes == []
    assert everything(store.open(NAME)) == sorted(names(50))


def test_writing_goes_on_from_what_was_gone_back_to(store: Store) -> None:
    roll_back(store, NAME, 1)
    write(store.path, ["e"])
    assert everything(store.open(NAME)) == ["a", "b", "c", "e"]
    roll_back(store, NAME, 3)
    assert everything(store.open(NAME)) == ["b", "c", "d"]


def test_a_collection_that_was_made_private_stays_private(tmp_path: Path) -> None:
    write(tmp_path, ["a"], visibility="public")
    write(tmp_path, ["b"], visibility="private")
    store = Store(tmp_path)
    roll_back(store, NAME, 1)
    assert store.open(NAME).collection.visibility == "private"
    assert everything(store.open(NAME)) == ["a"]


def overwrite(file: Path, content: bytes) -> None:
    file.chmod(0o644)
    file.write_bytes(content)


@pytest.mark.parametrize("damaged", ["CURRENT", "manifests/000003.json", "segments", "ahead", "gone"])
def test_a_roll_back_leads_past_a_newest_generation_that_is_damaged(store: Store, damaged: str) -> None:
    place = followed(store.open(NAME), None, {})
    old = everything(store.open(NAME, generation=1))
    folder = store.path / NAME
    if damaged == "segments":
        first = {entry.id for entry in store.open(NAME, generation=1).manifest.segments}
        for segment in (folder / "segments").iterdir():
            if segment.name not in first:
                overwrite(segment / "chunks.arrow", b"")
    elif damaged == "ahead":
        (folder / "CURRENT").write_bytes(b"000099\n")
    elif damaged == "gone":
        (folder / "manifests" / "000003.json").unlink()
    else:
        overwrite(folder / damaged, b"")
    with pytest.raises(StoreDamaged):
        store.open(NAME)
    assert 1 in [each.generation for each in list_generations(store, NAME)]
    number = roll_back(store, NAME, 1)
    new = store.open(NAME)
    assert number == new.generation > 3
    assert everything(new) == old
    assert [each for report in verify(store) for each in report.problems] == []
    with pytest.raises(HistoryMissing):
        new.changes(place, 100)
    write(store.path, ["e"])
    assert everything(store.open(NAME)) == [*old, "e"]


def test_what_was_made_private_stays_private_past_damage(tmp_path: Path) -> None:
    for name, visibility in (("a", "public"), ("b", "private"), ("c", None)):
        write(tmp_path, [name], visibility=visibility)
    overwrite(tmp_path / NAME / "manifests" / "000003.json", b"{}")
    roll_back(Store(tmp_path), NAME, 1)
    assert Store(tmp_path).open(NAME).collection.visibility == "private"


def test_past_damage_a_generation_that_is_damaged_itself_is_refused(store: Store) -> None:
    for chunks_of in (store.path / NAME / "segments").glob("*/chunks.arrow"):
        overwrite(chunks_of, b"")
    with pytest.raises(StoreDamaged):
        roll_back(store, NAME, 1)
    with pytest.raises(GenerationMissing, match="kept are: 2, 1"):
        roll_back(store, NAME, 3)
    assert store.current(NAME) == 3


def test_what_cannot_be_gone_back_to_is_refused_and_nothing_changes(store: Store) -> None:
    with pytest.raises(GenerationMissing, match="no generation 9 to go back to; kept are: 2, 1"):
        roll_back(store, NAME, 9)
    with pytest.raises(InvalidInput, match="newest one already"):
        roll_back(store, NAME, 3)
    with pytest.raises(CollectionMissing):
        roll_back(store, "none", 1)
    with store.writer(NAME, spaces=None), pytest.raises(StoreLocked):
        roll_back(store, NAME, 1)
    [first] = store.open(NAME, generation=1).manifest.segments
    vectors = next((store.path / NAME / "segments" / first.id).glob("*.vectors.arrow"))
    vectors.unlink()
    with pytest.raises(StoreDamaged):
        roll_back(store, NAME, 1)
    assert store.current(NAME) == 3


@pytest.mark.slow
def test_many_chunks_are_told_apart_by_id_and_content(tmp_path: Path) -> None:
    """Compared with the difference that Python's dictionaries give, over segments with deleted rows."""
    store, rng = Store(tmp_path), np.random.default_rng(3)
    for turn in range(6):
        with store.writer(NAME, spaces=[SPACE]) as writer:
            chosen = rng.choice(names(40), 12, replace=False).tolist()
            put(writer, [record(name, [f"{name} in turn {turn % 3}"]) for name in chosen], normal(12, SPACE.dimensions))
            writer.delete(rng.choice(names(40), 4, replace=False).tolist())
            writer.commit()
    state: dict[str, bytes] = {}
    place = followed(store.open(NAME), None, state)
    for generation in [old.generation for old in list_generations(store, NAME) if not old.current]:
        wanted = chunks(store.open(NAME, generation=generation))
        roll_back(store, NAME, generation)
        page = store.open(NAME).changes(place, 10_000)
        assert {change.id for change in page.changes} == {
            name for name in wanted.keys() | state.keys() if wanted.get(name) != state.get(name)
        }
        place = followed(store.open(NAME), place, state)
        assert state == wanted


# -- how many are kept -----------------------------------------------------------------------------------------------


def aged(path: Path) -> None:
    """As if all that is there had been written an hour ago."""
    for file in (path / NAME).rglob("*"):
        if not file.is_symlink():
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 3_600))


def numbers(store: Store) -> list[int]:
    return [old.generation for old in list_generations(store, NAME)]


def commit(store: Store, number: int) -> None:
    with store.writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [record("a", [f"text {number}"])], normal(1, SPACE.dimensions))
        writer.commit()


def left_in_an_hour(store: Store) -> list[int]:
    """What a writer would keep that came in an hour, counted from the newest."""
    aged(store.path)
    garbage.collect(store.path / NAME, store.open(NAME).manifest)
    return [number - store.current(NAME) for number in numbers(store)]


@pytest.mark.slow
def test_as_many_generations_are_kept_as_the_collection_says(store: Store) -> None:
    assert left_in_an_hour(store) == [0, -1]
    keep_generations(store, NAME, 4)
    said = store.current(NAME)
    assert keep_generations(store, NAME, 4) == said, "it is said once"
    for number in range(4):
        commit(store, number)
    assert left_in_an_hour(store) == [0, -1, -2, -3]
    roll_back(store, NAME, store.current(NAME) - 3)
    with store.writer(NAME, spaces=None) as writer:
        writer.compact()
    assert left_in_an_hour(store) == [0, -1, -2, -3], "a roll-back and a merge keep as many"
    assert store.open(NAME).manifest.keep == 4
    assert verify(store)[0].ok


def test_generations_of_the_last_ten_minutes_are_kept_however_few_are_asked_for(store: Store) -> None:
    assert keep_generations(store, NAME, 3) == 4
    assert keep_generations(store, NAME, 2) == 5
    assert numbers(store) == [5, 4, 3, 2, 1]


def test_going_back_does_not_bring_back_how_many_were_kept_then(store: Store) -> None:
    keep_generations(store, NAME, 9)
    roll_back(store, NAME, 2)
    assert store.open(NAME).manifest.keep == 9


@pytest.mark.parametrize("count", [-1, 0, 1, 10_001])
def test_a_number_that_no_reader_can_live_with_is_refused(count: int, store: Store) -> None:
    with pytest.raises(InvalidInput, match="from 2 to 10,000 generations can be kept"):
        keep_generations(store, NAME, count)
    assert numbers(store) == [3, 2, 1]


def test_a_purge_keeps_none_whatever_was_said(store: Store) -> None:
    keep_generations(store, NAME, 9)
    with store.writer(NAME, spaces=None) as writer:
        writer.delete(["b"])
        writer.commit()
        writer.purge()
    assert numbers(store) == [store.current(NAME)]


def test_a_manifest_of_an_older_release_keeps_two(store: Store) -> None:
    path = store.path / NAME / "manifests/000003.json"
    body = orjson.loads(path.read_bytes())["body"]
    del body["keep"]
    content = orjson.dumps(body)
    path.unlink()
    path.write_bytes(b'{"checksum":"%s","body":%s}\n' % (xxhash.xxh3_128_hexdigest(content).encode(), content))
    assert store.open(NAME).manifest.keep == 2
