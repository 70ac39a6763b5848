"""Publishing: what is sent, in which order, to whom it is refused, and that a failure at any request loses nothing."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import (
    AidreError,
    BucketFailed,
    CollectionMissing,
    FormatTooNew,
    InvalidInput,
    PublishConflict,
    StoreDamaged,
)
from aidre.engine.maintenance.fleet.retention import COLLECT_SECONDS
from aidre.engine.maintenance.publication import CATALOG, encode_record, read_catalog, read_publication
from aidre.engine.maintenance.publisher import StorePublisher
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage.arrow import open_bytes
from aidre.engine.storage.changelog import read_changelog
from aidre.engine.storage.manifest import seal
from tests.support.buckets import S3, FolderPlace, Once, Place, S3Place, failing_from, proxy_of
from tests.support.clocks import WAIT_SECONDS
from tests.support.fault_proxy import RESET_AFTER, RESET_BEFORE, Asked, Fault
from tests.support.stores import NAME, ROWS, SPACE, copied, delete, everything, put, write

CURRENT = f"{NAME}/CURRENT"


def served(place: Place, tmp_path: Path) -> list[str]:
    """What a replica that knows nothing yet serves; all its files are whole."""
    cache = tmp_path / "fresh"
    shutil.rmtree(cache, ignore_errors=True)
    place.replica(cache)
    assert all(not report.problems and not report.older for report in verify(Store(cache)))
    return everything(Store(cache).open(NAME))


def purged(store: Path, *ids: str) -> int:
    """Deletes and erases documents; the generation."""
    with Store(store).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(ids)
        writer.commit()
        writer.purge()
    return Store(store).current(NAME)


def list_changes(store: Path) -> list[tuple[str, str]]:
    """What the newest changelog says."""
    snapshot = Store(store).open(NAME)
    changes = snapshot.manifest.changes
    content = read_changelog(store / NAME, changes.generation)
    assert content is not None
    table = open_bytes(content).batches[0]
    return list(zip(table.column("op").to_pylist(), table.column("chunk_id").to_pylist(), strict=True))


def holders(place: Place, text: str) -> list[str]:
    """The objects in which a text is; for a folder also the files that no listing shows."""
    return sorted(key for key, content in place.everything().items() if text.encode() in content)


# -- what is sent ------------------------------------------------------------------------------------------------


def test_the_first_publication_sends_what_the_manifest_names(place: Place, path: Path, tmp_path: Path) -> None:
    published = place.publish(path)
    contents = place.contents()
    assert {CATALOG, CURRENT, f"{NAME}/manifests/000001.json"} < contents.keys()
    assert read_catalog(place.bucket)[0].collections == (NAME,)
    for key, content in contents.items():
        if key not in (CATALOG, CURRENT):
            assert (path / key).read_bytes() == content
    sizes = [len(content) for key, content in contents.items() if key not in (CATALOG, CURRENT)]
    assert (published.files, published.bytes) == (len(sizes), sum(sizes))
    assert (published.generation, published.documents, published.chunks) == (1, 3, 3)
    assert served(place, tmp_path) == ["a", "b", "c"]


def test_the_second_sends_only_what_is_new(place: Place, path: Path, tmp_path: Path) -> None:
    place.publish(path)
    before = place.contents()
    write(path, ["d"], 3)
    published = place.publish(path)
    after = place.contents()
    new = {key: content for key, content in after.items() if key not in before}
    assert (published.files, published.bytes) == (len(new), sum(map(len, new.values())))
    assert {key for key in before if after.get(key) != before[key]} == {CURRENT, CATALOG}
    assert served(place, tmp_path) == ["a", "b", "c", "d"]


def test_little_more_than_the_new_files_goes_over_the_wire(s3: S3, s3_place: S3Place, path: Path) -> None:
    with proxy_of(s3) as proxy:
        publisher = s3_place.through(proxy).publisher(path)
        for number in range(4):
            with Store(path).writer(NAME, spaces=[SPACE]) as writer:
                put(writer, [f"{number}-{one}" for one in range(200)], ROWS)
                writer.commit()
            proxy.asked.clear()
            [published] = publisher.publish([NAME])
            sent = sum(len(asked.head) + len(asked.body) for asked in proxy.asked)
            assert published.bytes <= sent <= 1.2 * published.bytes


def test_what_is_there_is_not_sent_again(s3: S3, s3_place: S3Place, path: Path) -> None:
    s3_place.publish(path)
    with proxy_of(s3) as proxy:
        published = s3_place.through(proxy).publish(path)
    assert (published.files, published.bytes) == (0, 0)
    assert {asked.method for asked in proxy.asked} == {"GET"}


def test_files_come_first_then_the_manifest_then_current_and_the_catalog(s3: S3, s3_place: S3Place, path: Path) -> None:
    for is_first in (True, False):
        with proxy_of(s3) as proxy:
            s3_place.through(proxy).publish(path)
        puts = [asked.target.partition("?")[0] for asked in proxy.asked if asked.method == "PUT"]
        kinds = [f"{target}/".split("/")[5] for target in puts]
        manifest = kinds.index("manifests")
        assert set(kinds[:manifest]) <= {"segments", "deletes", "changes"}
        assert kinds[manifest + 1 :] == (["", "CURRENT", ""] if is_first else ["CURRENT", ""])
        assert len(puts) == len(set(puts)) + is_first
        delete(path, ["a"])


def test_several_collections_are_published_and_others_stay(place: Place, path: Path, tmp_path: Path) -> None:
    place.publish(path)
    other = tmp_path / "other"
    for name in ("more", "words"):
        with Store(other).writer(name, spaces=[SPACE]) as writer:
            put(writer, ["x"], ROWS[:1])
            writer.commit()
    assert [one.collection for one in place.publisher(other).publish(["more", "words"])] == ["more", "words"]
    assert read_catalog(place.bucket)[0].collections == ("docs", "more", "words")


def test_nothing_to_publish_is_an_error(place: Place, path: Path) -> None:
    with pytest.raises(InvalidInput, match="nothing to publish"):
        place.publisher(path).publish([])
    with pytest.raises(CollectionMissing):
        place.publisher(path).publish(["none"])
    assert place.contents() == {}


def test_a_damaged_file_is_not_published_as_a_whole_one(place: Place, path: Path) -> None:
    file = next(path.glob(f"{NAME}/segments/*/chunks.arrow"))
    file.chmod(0o640)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(StoreDamaged):
        place.publish(path)
    assert CURRENT not in place.contents()


# -- whom it is refused ------------------------------------------------------------------------------------------


def test_another_store_is_refused_unless_forced(place: Place, path: Path, tmp_path: Path) -> None:
    place.publish(path)
    other = tmp_path / "other"
    write(other, ["x", "y"])
    write(other, ["z"], 2)
    before = place.contents()
    with pytest.raises(PublishConflict, match=r"another one of this name, .* --force"):
        place.publish(other)
    assert place.contents() == before
    place.publish(other, force=True)
    assert served(place, tmp_path) == ["x", "y", "z"]
    write(other, ["w"], 3)
    place.publish(other)
    assert served(place, tmp_path) == ["w", "x", "y", "z"]


def test_what_another_store_published_is_gone_after_force(
    folder_place: FolderPlace, path: Path, tmp_path: Path
) -> None:
    for number in range(5):
        write(path, [f"more-{number}"], number)
        folder_place.publish(path)
    other = tmp_path / "other"
    write(other, ["x"])
    folder_place.publish(other, force=True)
    assert holders(folder_place, "text of more") == holders(folder_place, "text of a") == []
    for number in range(5):
        write(other, [f"y{number}"], 1 + number)
        folder_place.publish(other)
    assert len(served(folder_place, tmp_path)) == 6


def test_an_older_generation_is_refused_unless_forced(place: Place, path: Path, tmp_path: Path) -> None:
    place.publish(path)
    older = copied(path, tmp_path / "older")
    for number in range(3):
        write(path, [f"d{number}"], 3 + number)
        place.publish(path)
    with pytest.raises(PublishConflict, match="it has generation 4, this store 1"):
        place.publish(older)
    place.publish(older, force=True)
    assert served(place, tmp_path) == ["a", "b", "c"]
    assert holders(place, "text of d1") == []
    for number in range(4):
        write(older, [f"e{number}"], 3 + number)
        place.publish(older)
        assert len(served(place, tmp_path)) == 4 + number


def test_another_state_of_the_same_generation_is_refused_unless_forced(
    folder_place: FolderPlace, path: Path, tmp_path: Path
) -> None:
    folder_place.publish(path)
    other = copied(path, tmp_path / "other")
    write(path, ["d"], 3)
    write(other, ["e"], 4)
    folder_place.publish(path)
    with pytest.raises(PublishConflict, match="different generation 2"):
        folder_place.publish(other)
    assert served(folder_place, tmp_path) == ["a", "b", "c", "d"]
    folder_place.publish(other, force=True)
    assert served(folder_place, tmp_path) == ["a", "b", "c", "e"]
    assert holders(folder_place, "text of d") == []


@pytest.mark.parametrize("steps", ["writes", "deletes"])
def test_a_copy_that_went_its_own_way_is_refused_unless_forced(
    folder_place: FolderPlace, path: Path, tmp_path: Path, steps: str
) -> None:
    """Whichever is ahead: its changelogs and tombstones have the names of others that are published."""
    folder_place.publish(path)
    other = copied(path, tmp_path / "other")
    if steps == "writes":
        write(path, ["d"], 3)
        write(other, ["e"], 4)
    else:
        delete(path, ["a"])
        delete(other, ["b"])
    folder_place.publish(path)
    write(other, ["f"], 5)
    with pytest.raises(PublishConflict, match="--force"):
        folder_place.publish(other)
    kept = everything(Store(path).open(NAME))
    assert served(folder_place, tmp_path) == kept
    folder_place.publish(other, force=True)
    assert served(folder_place, tmp_path) == everything(Store(other).open(NAME))


def test_a_manifest_that_somebody_else_put_is_refused_unless_forced(place: Place, path: Path, tmp_path: Path) -> None:
    place.publish(path)
    write(path, ["d"], 3)
    place.put(f"{NAME}/manifests/000002.json", b"theirs")
    with pytest.raises(PublishConflict, match=r"another docs/manifests/000002\.json"):
        place.publish(path)
    assert served(place, tmp_path) == ["a", "b", "c"]
    place.publish(path, force=True)
    assert served(place, tmp_path) == ["a", "b", "c", "d"]


# -- two at once -------------------------------------------------------------------------------------------------


class Meeting:
    """Lets two publishers come to the same point before either goes on."""

    def __init__(self, bucket: object, barrier: threading.Barrier) -> None:
        self._bucket, self._barrier = bucket, barrier

    def __getattr__(self, name: str) -> object:
        return getattr(self._bucket, name)

    def swap(self, key: str, content: bytes, etag: str | None) -> bool:
        if key == CURRENT:
            with suppress(threading.BrokenBarrierError):  # the other was refused before it came so far
                self._barrier.wait(WAIT_SECONDS)
        swapped: bool = self._bucket.swap(key, content, etag)  # type: ignore[attr-defined]
        return swapped


@pytest.mark.parametrize(("ahead", "first"), [(0, True), (0, False), (1, True), (2, False)])
def test_of_two_who_publish_at_once_one_wins_and_the_other_is_told(
    place: Place, path: Path, tmp_path: Path, first: bool, ahead: int
) -> None:
    """Copies of one store on two machines, one of them `ahead` by some commits; 0: both publish the same."""
    if not first:
        place.publish(path)
    write(path, ["d"], 3)
    other = copied(path, tmp_path / "other")
    if ahead:
        write(path, ["e"], 4)
        for number in range(ahead):
            write(other, [f"f{number}"], 5 + number)
    stores = (path, other)
    barrier = threading.Barrier(2)

    def attempt(store: Path) -> PublishConflict | None:
        publisher = StorePublisher(Store(store), Meeting(place.bucket, barrier))  # type: ignore[arg-type]
        try:
            publisher.publish([NAME])
        except PublishConflict as conflict:
            return conflict
        finally:
            barrier.abort()
        return None

    with ThreadPoolExecutor(2) as threads:
        errors = list(threads.map(attempt, stores))
    [winner] = [store for store, error in zip(stores, errors, strict=True) if error is None]
    assert served(place, tmp_path) == everything(Store(winner).open(NAME))
    found = read_publication(place.bucket, NAME)
    assert found is not None
    assert found[0].generation == Store(winner).current(NAME)
    assert list_changes(tmp_path / "fresh") == list_changes(winner)


def test_an_answer_that_was_lost_is_read_back(s3: S3, s3_place: S3Place, path: Path, tmp_path: Path) -> None:
    """Of the first CURRENT, of a later one, and of each other object: the request is repeated and finds its own."""
    for ending in ("CURRENT", "manifests/000002.json", "CURRENT", "chunks.arrow", CATALOG):
        plan = Once("PUT", ending, RESET_AFTER)
        if ending == CATALOG:
            s3_place.remove(CATALOG)
        with proxy_of(s3, plan) as proxy:
            published = s3_place.through(proxy).publish(path)
        assert len(plan.met) == 1, ending
        assert published.generation == Store(path).current(NAME)
        assert served(s3_place, tmp_path) == everything(Store(path).open(NAME))
        write(path, [f"d{published.generation}"], published.generation)


def test_a_lost_answer_is_no_success_where_another_was_faster(s3: S3, s3_place: S3Place, path: Path) -> None:
    s3_place.publish(path)
    write(path, ["d"], 3)

    def overtaken(asked: Asked) -> Fault | None:
        if asked.method == "PUT" and asked.target.partition("?")[0].endswith("CURRENT") and not done:
            done.append(1)
            s3_place.put(CURRENT, encode_record(read_publication(s3_place.bucket, NAME)[0]) + b" ")  # type: ignore[index]
            return RESET_BEFORE
        return None

    done: list[int] = []
    with proxy_of(s3, overtaken) as proxy, pytest.raises((PublishConflict, StoreDamaged)):
        s3_place.through(proxy).publish(path)


def test_two_collections_that_enter_the_catalog_at_once_are_both_in_it(s3: S3, s3_place: S3Place, path: Path) -> None:
    """Another one enters between reading and writing, also where there is no catalog yet."""
    from aidre.engine.maintenance.publication import BucketCatalog

    entered = list[str]()

    def race(asked: Asked) -> Fault | None:
        if asked.method == "PUT" and asked.target.partition("?")[0].endswith(CATALOG) and len(entered) < 3:
            entered.append(f"other{len(entered)}")
            s3_place.put(CATALOG, encode_record(BucketCatalog(tuple(entered))))
        return None

    with proxy_of(s3, race) as proxy:
        s3_place.through(proxy).publish(path)
    assert read_catalog(s3_place.bucket)[0].collections == ("docs", "other0", "other1", "other2")


# -- garbage -----------------------------------------------------------------------------------------------------


def test_objects_are_kept_for_a_day_after_they_were_superseded(place: Place, path: Path, tmp_path: Path) -> None:
    publisher = place.publisher(path)
    publisher.publish([NAME])
    delete(path, ["a", "b", "c"])
    write(path, ["d"], 3)
    publisher.publish([NAME])
    first = f"{NAME}/manifests/000001.json"
    segment = next(iter(key for key in place.contents() if key.endswith("chunks.arrow")))
    for hours, there in ((23.0, True), (2.0, False)):
        place.age(hours)
        write(path, [f"e{hours}"], 4)
        _collected_long_ago(place)
        place.publish(path)
        assert (first in place.contents()) is there
    assert holders(place, "text of a") == []
    assert segment not in place.contents() or "text of a" not in served(place, tmp_path)
    assert served(place, tmp_path) == ["d", "e2.0", "e23.0"]


def _collected_long_ago(place: Place) -> None:
    """As if the last garbage collection were an hour old."""
    from dataclasses import replace

    found = read_publication(place.bucket, NAME)
    assert found is not None
    place.put(CURRENT, encode_record(replace(found[0], collected=found[0].collected - COLLECT_SECONDS)))


def test_a_generation_superseded_lately_is_kept_however_old_it_is(place: Place, path: Path) -> None:
    place.publish(path)
    delete(path, ["a", "b", "c"])
    write(path, ["d"], 3)
    place.age(100)
    _collected_long_ago(place)
    place.publish(path)
    assert f"{NAME}/manifests/000001.json" in place.contents()
    assert holders(place, "text of a")


def test_a_bucket_is_listed_once_an_hour_and_not_at_each_publication(s3: S3, s3_place: S3Place, path: Path) -> None:
    s3_place.publish(path)
    write(path, ["d"], 3)
    with proxy_of(s3) as proxy:
        s3_place.through(proxy).publish(path)
    listed = [asked.target for asked in proxy.asked if "list-type" in asked.target]
    assert all("changes" in target for target in listed)


def test_what_a_killed_publisher_left_goes_after_a_day(place: Place, path: Path) -> None:
    place.publish(path)
    for key in ("segments/0123456789abcdef/chunks.arrow", "deletes/000009.arrow", "manifests/000009.json"):
        place.put(f"{NAME}/{key}", b"orphan")
    write(path, ["d"], 3)
    _collected_long_ago(place)
    place.publish(path)
    assert len(holders(place, "orphan")) == 3, "another publisher may be at work"
    place.age(25, *holders(place, "orphan"))
    write(path, ["e"], 4)
    _collected_long_ago(place)
    place.publish(path)
    assert holders(place, "orphan") == []


# -- purge -------------------------------------------------------------------------------------------------------


def test_nothing_of_a_purged_document_stays(place: Place, path: Path, tmp_path: Path) -> None:
    place.publish(path)
    write(path, ["d"], 3)
    place.publish(path)
    assert holders(place, "text of a")
    purged(path, "a")
    place.publish(path)
    assert holders(place, "text of a") == holders(place, "a#chunk_1") == []
    assert served(place, tmp_path) == ["b", "c", "d"]


def test_nothing_of_it_stays_where_the_first_publication_was_killed(
    s3: S3, s3_place: S3Place, path: Path, tmp_path: Path
) -> None:
    for ending in ("manifests/000001.json", "CURRENT"):
        place = s3.place()
        store = copied(path, tmp_path / ending.replace("/", "-"))
        with (
            proxy_of(s3, Once("PUT", ending, RESET_BEFORE, times=99)) as proxy,
            pytest.raises(BucketFailed),
        ):
            place.through(proxy).publish(store)
        assert holders(place, "text of a")
        purged(store, "a")
        place.publish(store)
        assert holders(place, "text of a") == []


def test_a_purge_that_was_interrupted_is_completed_by_the_next_publication(
    s3: S3, s3_place: S3Place, path: Path, tmp_path: Path
) -> None:
    """Whether there is something new to publish or not."""
    for more in (False, True):
        place = s3.place()
        store = copied(path, tmp_path / f"store-{more}")
        place.publish(store)
        purged(store, "a")
        with (
            proxy_of(s3, lambda asked: RESET_BEFORE if asked.method == "POST" else None) as proxy,
            pytest.raises(BucketFailed),
        ):
            place.through(proxy).publish(store)
        assert holders(place, "text of a")
        assert served(place, tmp_path) == ["b", "c"], "the purged generation is the newest one already"
        if more:
            write(store, ["d"], 3)
        place.publish(store)
        assert holders(place, "text of a") == []


def test_a_purge_takes_what_killed_publishers_left_of_any_age(folder_place: FolderPlace, path: Path) -> None:
    folder_place.publish(path)
    for key in ("segments/0123456789abcdef/chunks.arrow", "deletes/000001.arrow", "changes/000001-000002.arrow"):
        folder_place.put(f"{NAME}/{key}", b"text of a")
    purged(path, "a")
    folder_place.publish(path)
    assert holders(folder_place, "text of a") == []


# -- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["cut", "altered", "missing"])
@pytest.mark.parametrize("what", ["chunks.arrow", "000002.json", "deletes/000002.arrow", "changes/000002.arrow"])
def test_damaged_objects_are_sent_again_by_repair(
    folder_place: FolderPlace, path: Path, tmp_path: Path, damage: str, what: str
) -> None:
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["d"], ROWS[3:4])
        writer.delete(["a"])
        writer.commit()
    folder_place.publish(path)
    key = folder_place.key_of(what)
    whole = folder_place.contents()[key]
    if damage == "missing":
        folder_place.remove(key)
    else:
        folder_place.put(key, whole[:-7] if damage == "cut" else bytes([*whole[:-1], whole[-1] ^ 1]))
    if "changes" not in what:
        with pytest.raises(StoreDamaged, match="--repair"):
            folder_place.replica(tmp_path / "before")
    published = folder_place.publish(path, repair=True)
    assert published.bytes >= len(whole)
    assert folder_place.contents()[key] == whole
    assert served(folder_place, tmp_path) == ["b", "c", "d"]


@pytest.mark.parametrize("key", [CATALOG, CURRENT])
@pytest.mark.parametrize("content", [b"", seal(b"[1]"), seal(b"[" * 100_000)], ids=["empty", "list", "deep"])
def test_a_damaged_record_is_told_and_repaired(
    folder_place: FolderPlace, path: Path, tmp_path: Path, key: str, content: bytes
) -> None:
    folder_place.publish(path)
    other = tmp_path / "other"
    with Store(other).writer("more", spaces=[SPACE]) as writer:
        put(writer, ["x"], ROWS[:1])
        writer.commit()
    folder_place.publisher(other).publish(["more"])
    folder_place.put(key, content)
    write(path, ["d"], 3)
    with pytest.raises(StoreDamaged, match=f"{key}.* --repair"):
        folder_place.publish(path)
    with pytest.raises(StoreDamaged, match="--repair"):
        folder_place.replica(tmp_path / "cache")
    folder_place.publish(path, repair=True)
    assert served(folder_place, tmp_path) == ["a", "b", "c", "d"]
    assert read_catalog(folder_place.bucket)[0].collections == (NAME, "more")


@pytest.mark.parametrize("key", [CATALOG, CURRENT])
def test_a_bucket_of_a_newer_format_is_left_alone(place: Place, path: Path, tmp_path: Path, key: str) -> None:
    place.publish(path)
    place.put(key, seal(b'{"format":3,"what":"ever"}'))
    write(path, ["d"], 3)
    for repair, force in ((False, False), (True, False), (False, True)):
        with pytest.raises(FormatTooNew, match="upgrade aidre"):
            place.publish(path, repair=repair, force=force)
    assert place.contents()[key] == seal(b'{"format":3,"what":"ever"}')
    with pytest.raises(FormatTooNew, match="upgrade aidre"):
        place.replica(tmp_path / "cache")


def test_an_object_of_another_size_is_told(folder_place: FolderPlace, path: Path) -> None:
    """A killed publisher cannot leave one, but somebody else can."""
    write(path, ["d"], 3)
    name = next(path.glob(f"{NAME}/segments/*/chunks.arrow")).relative_to(path).as_posix()
    folder_place.put(name, b"short")
    with pytest.raises(StoreDamaged, match="--repair"):
        folder_place.publish(path)
    assert CURRENT not in folder_place.contents()
    folder_place.publish(path, repair=True)


# -- a failure at any request ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fault", [RESET_BEFORE, RESET_AFTER])
def test_a_publisher_that_fails_at_any_request_leaves_the_old_or_the_new_generation(
    s3: S3, s3_place: S3Place, path: Path, tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aidre.engine.maintenance import bucket

    monkeypatch.setattr(bucket, "_RETRY", {"max_retries": 0})
    s3_place.publish(path)
    old, number = everything(Store(path).open(NAME)), 0 if fault is RESET_AFTER else 1
    while True:
        write(path, [f"d{number}"], 3 + number)
        new = everything(Store(path).open(NAME))
        with proxy_of(s3, failing_from(number, fault)) as proxy:
            try:
                s3_place.through(proxy).publish(path)
            except AidreError:
                assert served(s3_place, tmp_path) in (old, new), number
            else:
                break
        s3_place.publish(path)
        assert served(s3_place, tmp_path) == new
        old, number = new, number + 4
    assert number > 10, "there was a request to fail at"
