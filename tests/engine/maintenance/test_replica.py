"""Replicas: what they pull, what they forget, and what they never change."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from aidre.engine.collection.change_feed import read_changes
from aidre.engine.collection.store import Store
from aidre.engine.errors import (
    AidreError,
    BucketFailed,
    GenerationMissing,
    HistoryMissing,
    StorageFailed,
    StoreDamaged,
    Unsupported,
)
from aidre.engine.maintenance import replica as module
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.history import keep_generations, roll_back
from aidre.engine.maintenance.publication import (
    CATALOG,
    BucketCatalog,
    encode_record,
)
from aidre.engine.maintenance.replica import pull_problem, pulled_at
from aidre.engine.maintenance.restore import restore_archive
from aidre.engine.storage.format import REPLICA
from aidre.engine.storage.lock import WriterLock
from aidre.engine.types import ChangeCursor
from tests.support.buckets import S3, FolderPlace, Once, Place, S3Place, proxy_of
from tests.support.clocks import WAIT_SECONDS
from tests.support.fault_proxy import Fault
from tests.support.replicas import commit, found, holders, purge
from tests.support.stores import NAME, ROWS, SPACE, everything, put, write

CURRENT = f"{NAME}/CURRENT"


# -- what is pulled ----------------------------------------------------------------------------------------------


def test_a_replica_has_what_was_published(place: Place, path: Path, cache: Path) -> None:
    place.publish(path)
    replica = place.unpulled(cache)
    assert replica.pull() == [NAME]
    assert found(cache) == ["a", "b", "c"]
    assert replica.source.collections() == [NAME]
    assert replica.pull() == []
    generation = commit(path, place, "d")
    assert found(cache) == ["a", "b", "c"]
    assert replica.pull() == [NAME]
    assert found(cache) == ["a", "b", "c", "d"]
    assert replica.source.current(NAME) == generation


def test_a_pull_gets_only_what_the_folder_lacks(s3: S3, s3_place: S3Place, path: Path, cache: Path) -> None:
    s3_place.publish(path)
    s3_place.replica(cache)
    commit(path, s3_place, "d")
    with proxy_of(s3) as proxy:
        replica = s3_place.through(proxy).unpulled(cache)
        replica.pull()
        pulled = [asked.target for asked in proxy.asked if "/segments/" in asked.target]
        assert len(pulled) == len(set(pulled)) > 0
        [new] = {target.split("/")[-2] for target in pulled}
        assert new in {entry.id for entry in Store(cache).open(NAME).manifest.segments}
        proxy.asked.clear()
        replica.pull()
    assert [asked.method for asked in proxy.asked] == ["GET", "GET"], "a poll is two conditional requests"
    assert all(b"if-none-match" in asked.head.lower() for asked in proxy.asked)


def test_readers_never_see_half_a_generation(place: Place, path: Path, cache: Path) -> None:
    """A reader that opens as often as it can while generation after generation is pulled."""
    place.publish(path)
    replica = place.replica(cache)
    documents = [*"abc", *(f"d{number}" for number in range(8))]
    states = [documents[:count] for count in range(3, 12)]
    stopped, problems, opened = threading.Event(), list[str](), set[int]()

    def read() -> None:
        while not stopped.is_set():
            snapshot = Store(cache).open(NAME)
            opened.add(snapshot.generation)
            if everything(snapshot) not in states:
                problems.append(f"{snapshot.generation}: {everything(snapshot)}")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(8):
            commit(path, place, f"d{number}", first=3 + number)
            replica.pull()
    finally:
        stopped.set()
        reader.join(WAIT_SECONDS)
    assert problems == []
    assert len(opened) > 1


def test_several_collections_are_pulled_and_one_that_goes_is_removed(place: Place, path: Path, cache: Path) -> None:
    with Store(path).writer("more", spaces=[SPACE]) as writer:
        put(writer, ["x"], ROWS[:1])
        writer.commit()
    place.publisher(path).publish([NAME, "more"])
    replica = place.replica(cache)
    assert replica.source.collections() == [NAME, "more"]
    place.put(CATALOG, encode_record(BucketCatalog((NAME,))))
    replica.pull()
    assert replica.source.collections() == [NAME]
    assert holders(cache, "text of x") == []
    place.put(CATALOG, encode_record(BucketCatalog((NAME, "more"))))
    replica.pull()
    assert replica.source.collections() == [NAME, "more"], "it came back with the CURRENT that was there before"


def test_an_empty_bucket_is_told(place: Place, cache: Path) -> None:
    place.put("other", b"x")
    with pytest.raises(BucketFailed, match=r"nothing is published at .* `aidre publish`"):
        place.replica(cache)


def test_what_is_lost_from_the_bucket_is_told_and_the_old_is_served(place: Place, path: Path, cache: Path) -> None:
    """Emptied by mistake: the replica must not take that for nothing new."""
    place.publish(path)
    replica = place.replica(cache)
    before = pulled_at(cache)
    place.remove(*place.contents())
    with pytest.raises(StoreDamaged, match="has lost"):
        replica.pull()
    assert pulled_at(cache) == before
    assert found(cache) == ["a", "b", "c"]


def test_a_current_that_is_lost_stops_no_other_collection_and_is_named(place: Place, path: Path, cache: Path) -> None:
    def put_more(*ids: str) -> None:
        with Store(path).writer("more", spaces=[SPACE]) as writer:
            put(writer, ids, ROWS[: len(ids)])
            writer.commit()

    put_more("x", "y")
    place.publisher(path).publish([NAME, "more"])
    replica = place.replica(cache)
    kept = place.contents()[CURRENT]
    place.remove(CURRENT)
    put_more("x", "y", "z")
    place.publisher(path).publish(["more"])
    for _ in range(2):  # it goes on being told
        with pytest.raises(StoreDamaged, match=f"has lost {CURRENT}"):
            replica.pull()
    assert everything(Store(cache).open(NAME)) == ["a", "b", "c"]
    assert everything(Store(cache).open("more")) == ["x", "y", "z"]
    assert [CURRENT in (pull_problem(cache, name) or "") for name in (NAME, "more")] == [True, False]
    place.put(CURRENT, kept)
    replica.pull()
    assert pull_problem(cache, NAME) is None


# -- the folder --------------------------------------------------------------------------------------------------


def test_a_folder_that_is_something_else_is_refused(place: Place, s3: S3, path: Path, cache: Path) -> None:
    place.publish(path)
    for folder in (path, path.parent):
        with pytest.raises(StorageFailed, match="is not empty: name a new folder"):
            place.unpulled(folder)
        assert not (folder / REPLICA).exists()
    place.replica(cache)
    place.replica(cache)
    other = s3.place() if place.address.url.startswith("s3") else place
    if other is not place:
        with pytest.raises(StorageFailed, match=r"is the cache of s3://.*: name another folder"):
            other.unpulled(cache)
    with pytest.raises(StorageFailed):
        place.unpulled(next(path.rglob("chunks.arrow")))
    assert found(path) == ["a", "b", "c"]


def test_no_writer_changes_a_replica(folder_place: FolderPlace, path: Path, cache: Path, tmp_path: Path) -> None:
    folder_place.publish(path)
    commit(path, folder_place, "d")
    replica = folder_place.replica(cache)
    replica.fetch(NAME, 1)
    back_up(Store(path), [NAME], tmp_path / "backup.tar")
    with Store(path).writer("new", spaces=[SPACE]) as writer:
        put(writer, ["n"], ROWS[:1])
        writer.commit()
    back_up(Store(path), ["new"], tmp_path / "new.tar")
    before = {file: file.read_bytes() for file in cache.rglob("*") if file.is_file()}
    source = replica.source
    for attempt in (
        lambda: source.writer(NAME, spaces=None),
        lambda: source.writer("new", spaces=[SPACE]),
        lambda: source.drop(NAME),
        lambda: roll_back(source, NAME, 1),
        lambda: keep_generations(source, NAME, 5),
        lambda: restore_archive(source, tmp_path / "backup.tar", replace_stored=True, beside=".log"),
        lambda: restore_archive(source, tmp_path / "new.tar", replace_stored=False, beside=".log"),
    ):
        with pytest.raises(Unsupported, match="cache of a replica, which takes no writes"):
            attempt()
    after = {file: file.read_bytes() for file in cache.rglob("*") if file.is_file()}
    assert after == before


def test_a_damaged_generation_of_a_replica_is_not_rolled_back(
    folder_place: FolderPlace, path: Path, cache: Path
) -> None:
    """That way past damage does not go through the usual writer."""
    folder_place.publish(path)
    replica = folder_place.replica(cache)
    commit(path, folder_place, "d")
    replica.pull()
    manifest = cache / NAME / "manifests" / "000002.json"
    manifest.chmod(0o640)
    manifest.write_bytes(b"altered")
    with pytest.raises(Unsupported, match="takes no writes"):
        roll_back(replica.source, NAME, 1)


# -- what it forgets ---------------------------------------------------------------------------------------------


def test_nothing_of_a_purged_document_stays_in_a_cache(place: Place, path: Path, cache: Path) -> None:
    """Also of generations that were fetched or pinned, and where the replica has skipped generations."""
    place.publish(path)
    replica = place.replica(cache)
    for number in range(3):
        commit(path, place, f"d{number}", first=3 + number)
        replica.pull()
    replica.source.pin(NAME, 2)
    skipping = place.replica(cache.parent / "skipping")
    commit(path, place, "e", first=9)
    assert holders(cache, "text of a")
    purge(path, "a")
    place.publish(path)
    commit(path, place, "f", first=10)
    for one in (replica, skipping):
        one.pull()
        assert holders(one.cache, "text of a") == holders(one.cache, "a#chunk_1") == []
        assert found(one.cache) == ["b", "c", "d0", "d1", "d2", "e", "f"]
        assert not one.fetch(NAME, 2)


def test_another_history_replaces_the_whole_cache(
    folder_place: FolderPlace, path: Path, cache: Path, tmp_path: Path
) -> None:
    for number in range(3):
        commit(path, folder_place, f"d{number}", first=3 + number)
    folder_place.replica(cache)
    write(tmp_path / "other", ["x"])
    folder_place.publish(tmp_path / "other", force=True)
    folder_place.replica(cache)
    assert found(cache) == ["x"]
    assert holders(cache, "text of a") == holders(cache, "text of d1") == []


def test_older_generations_go_as_in_a_store(folder_place: FolderPlace, path: Path, cache: Path) -> None:
    folder_place.publish(path)
    replica = folder_place.replica(cache)
    for number in range(4):
        commit(path, folder_place, f"d{number}", first=3 + number)
        replica.pull()
    long_ago = time.time() - 3_600
    for file in (cache / NAME / "manifests").iterdir():
        os.utime(file, (long_ago, long_ago))
    commit(path, folder_place, "e", first=9)
    replica.pull()
    assert len(list((cache / NAME / "manifests").iterdir())) < 6
    assert len(found(cache)) == 8


# -- the bound of the cache --------------------------------------------------------------------------------------


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_a_cache_keeps_its_bound(folder_place: FolderPlace, path: Path, cache: Path) -> None:
    folder_place.publish(path)
    unbounded = folder_place.replica(cache.parent / "unbounded")
    for number in range(6):
        with Store(path).writer(NAME, spaces=[SPACE]) as writer:
            put(writer, [f"{number}-{one}" for one in range(200)], ROWS)
            writer.delete([f"{number - 1}-{one}" for one in range(200)])
            writer.commit()
        folder_place.publish(path)
        unbounded.pull()
        if number == 0:
            bound = 3 * size_of(unbounded.cache)
            replica = folder_place.replica(cache, max_bytes=bound)
        replica.pull()
        assert size_of(cache) <= bound
        assert len(found(cache)) == 203
    assert size_of(unbounded.cache) > bound, "else the bound did nothing"


def test_the_generation_before_makes_room_for_the_next(folder_place: FolderPlace, path: Path, cache: Path) -> None:
    def replace_all(number: int) -> None:
        with Store(path).writer(NAME, spaces=[SPACE]) as writer:
            put(writer, [f"{number}-{one}" for one in range(200)], ROWS)
            writer.delete([f"{number - 1}-{one}" for one in range(200)])
            writer.commit()
        folder_place.publish(path)

    replace_all(0)
    one = size_of(folder_place.replica(cache.parent / "measure").cache)
    replica = folder_place.replica(cache, max_bytes=int(2.7 * one))
    for number in range(1, 5):
        replace_all(number)
        replica.pull()
        assert len(found(cache)) == 203


def test_a_generation_beyond_the_bound_is_not_opened(folder_place: FolderPlace, path: Path, cache: Path) -> None:
    folder_place.publish(path)
    replica = folder_place.replica(cache, max_bytes=40_000)
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [f"big-{one}" for one in range(200)], ROWS)
        writer.commit()
    folder_place.publish(path)
    with pytest.raises(StorageFailed, match=r"needs a cache of [\d,]+ bytes, .* allows 40,000: raise it"):
        replica.pull()
    assert found(cache) == ["a", "b", "c"]
    assert size_of(cache) <= 40_000


# -- older generations and changes -------------------------------------------------------------------------------


def test_a_generation_that_a_replica_never_saw_is_fetched(place: Place, path: Path, cache: Path) -> None:
    place.publish(path)
    for number in range(3):
        commit(path, place, f"d{number}", first=3 + number)
    replica = place.replica(cache)
    assert everything(replica.source.open(NAME, generation=2)) == ["a", "b", "c", "d0"]
    assert replica.source.current(NAME) == 4
    with pytest.raises(GenerationMissing):
        replica.source.open(NAME, generation=5)
    with pytest.raises(GenerationMissing):
        replica.source.open(NAME, generation=10**17)
    assert not replica.fetch("../escaped", 1)
    replica.pull()
    assert len(found(cache)) == 6


def changes_of(store: Path, cursor: ChangeCursor | None) -> tuple[list[tuple[str, str]], ChangeCursor]:
    """All changes after a cursor."""
    rows: list[tuple[str, str]] = []
    while True:
        snapshot = Store(store).open(NAME)
        page = read_changes(store / NAME, snapshot.manifest, snapshot.segments, cursor, 100)
        rows += [(change.op, change.id) for change in page.changes]
        cursor = page.cursor
        if not page.more:
            return rows, cursor


@pytest.mark.parametrize("commits", [3, pytest.param(140, marks=pytest.mark.slow)])
def test_the_change_feed_goes_on_across_generations_that_were_skipped(
    folder_place: Place, path: Path, cache: Path, commits: int
) -> None:
    """Over single changelogs and over packs; a cursor of the store is good on a replica, and back."""
    folder_place.publish(path)
    replica = folder_place.replica(cache)
    listed, cursor = changes_of(cache, None)
    assert sorted(listed) == [("add", "a#chunk_1"), ("add", "b#chunk_1"), ("add", "c#chunk_1")]
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        for number in range(commits):
            put(writer, [f"d{number}"], ROWS[number : number + 1])
            writer.commit()
            writer.finish()
    assert (len(list((path / NAME / "changes").glob("*-*"))) > 0) == (commits > 100)
    folder_place.publish(path)
    replica.pull()
    expected = [("add", f"d{number}#chunk_1") for number in range(commits)]
    assert changes_of(cache, cursor) == changes_of(path, cursor)
    assert changes_of(cache, cursor)[0] == expected
    fresh = folder_place.replica(cache.parent / "fresh")
    assert changes_of(fresh.cache, cursor)[0] == expected


def test_a_feed_that_a_purge_ended_ends_on_replicas_too(folder_place: FolderPlace, path: Path, cache: Path) -> None:
    folder_place.publish(path)
    replica = folder_place.replica(cache)
    _, cursor = changes_of(cache, None)
    commit(path, folder_place, "d")
    purge(path, "a")
    folder_place.publish(path)
    replica.pull()
    for store in (path, cache):
        with pytest.raises(HistoryMissing):
            changes_of(store, cursor)


def test_a_pull_waits_for_another_of_the_same_folder(
    folder_place: FolderPlace, path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_place.publish(path)
    replica = folder_place.replica(cache)
    commit(path, folder_place, "d")
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.0)
    with WriterLock(cache / NAME, NAME), pytest.raises(AidreError, match="is being written by process"):
        replica.pull()
    replica.pull()
    assert found(cache) == ["a", "b", "c", "d"]


def test_a_cache_that_was_emptied_is_filled_again(folder_place: FolderPlace, path: Path, cache: Path) -> None:
    folder_place.publish(path)
    folder_place.replica(cache)
    shutil.rmtree(cache / NAME)
    folder_place.replica(cache)
    assert found(cache) == ["a", "b", "c"]


def test_one_lost_answer_is_asked_for_again(s3: S3, s3_place: S3Place, path: Path, cache: Path) -> None:
    s3_place.publish(path)
    plan = Once("GET", "chunks.arrow", Fault(cut=900))
    with proxy_of(s3, plan) as proxy:
        replica = s3_place.through(proxy).unpulled(cache)
        try:
            replica.pull()
        except BucketFailed:
            replica.pull()
    assert plan.met
    assert found(cache) == ["a", "b", "c"]
