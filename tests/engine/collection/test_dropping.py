"""A dropped collection: its last generation, what is left of it, and what takes its name."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from aidre.engine.collection import dropping, garbage
from aidre.engine.collection.store import Store
from aidre.engine.errors import CollectionDropped, CollectionMissing, StorageFailed
from aidre.engine.maintenance import back_up, keep_generations, list_generations, restore_archive, roll_back
from aidre.engine.maintenance.verify import verify
from aidre.engine.storage import MANIFESTS, WriterLock, encode_manifest, first_manifest, manifest_name, read_manifest
from aidre.engine.storage.format import FORMAT
from aidre.engine.storage.manifest import seal, unseal
from tests.support.clients import a_document, fill
from tests.support.clocks import WAIT_SECONDS
from tests.support.stores import names, normal, put, space_of

SPACE = space_of("cosine", 4)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    for number in range(3):
        fill(tmp_path, "docs", [a_document(f"d{number}", f"alpha {number}")])
    return Store(tmp_path)


def files(store: Store, name: str = "docs") -> list[str]:
    folder = store.path / name
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_only_the_last_generation_stays_and_says_that_it_is_the_last(store: Store) -> None:
    before = store.open("docs")
    store.drop("docs")
    number = before.generation + 1
    assert files(store) == ["CURRENT", "LOCK", f"manifests/{number:06d}.json"]
    manifest = read_manifest(store.path / "docs" / MANIFESTS, number, "docs")
    assert (manifest.dropped, manifest.segments, manifest.lineage) == (True, (), before.lineage)
    assert (manifest.description, manifest.source_roots, manifest.source_states) == ("", {}, {})


def test_whoever_has_it_open_finishes(store: Store) -> None:
    reader = store.open("docs")
    store.drop("docs")
    assert reader.count() == 3
    assert [chunk.text for chunk in reader.scan()] == ["alpha 0", "alpha 1", "alpha 2"]


def test_it_is_missing_and_whoever_opens_it_is_told_why(store: Store) -> None:
    lineage = store.open("docs").lineage
    store.drop("docs")
    assert store.collections() == []
    assert store.collections_without_current() == {}
    for generation in (None, 1, 3):
        with pytest.raises(CollectionDropped, match="it was dropped") as caught:
            store.open("docs", generation=generation)
        assert (caught.value.code, caught.value.details["lineage"]) == ("collection_missing", lineage)
    for verb in (
        lambda: store.writer("docs", spaces=None),
        lambda: store.drop("docs"),
        lambda: list_generations(store, "docs"),
        lambda: keep_generations(store, "docs", 5),
        lambda: roll_back(store, "docs", 1),
        lambda: back_up(store, ["docs"], store.path.with_name("b.tar")),
    ):
        with pytest.raises(CollectionMissing):
            verb()
    assert verify(store) == []


def test_its_name_is_free_for_a_collection_of_another_lineage(store: Store) -> None:
    before = store.open("docs")
    store.drop("docs")
    fill(store.path, "docs", [a_document("z", "omega")])
    after = store.open("docs", previous=before)
    assert [chunk.text for chunk in after.scan()] == ["omega"]
    assert after.generation == before.generation + 2
    assert after.lineage != before.lineage
    assert [report.ok for report in verify(store)] == [True]
    fill(store.path, "docs", [a_document("y", "psi")])
    assert store.open("docs").documents == 2
    assert store.open("docs").changes(None, 10).changes[0].op == "add"


def test_a_first_load_after_a_drop_ends_like_that_of_a_new_collection(store: Store) -> None:
    store.drop("docs")
    made = []
    for name in ("docs", "new"):
        with store.writer(name, spaces=[SPACE]) as writer:
            began = writer.generations.next_generation
            for first in range(0, 60, 20):
                put(writer, names(20, first), normal(20, SPACE.dimensions, first))
                writer.commit()
            writer.finish()
            manifest = writer.generations.manifest
            made.append((manifest.generation - began, len(manifest.segments), manifest.spaces[0].calibration))
    assert made[0] == made[1]


def test_a_store_that_is_polled_reads_a_manifest_once_a_generation(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def counted(*arguments: object) -> object:
        nonlocal read
        read += 1
        return read_manifest(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("aidre.engine.collection.store.read_manifest", counted)
    for _ in range(5):
        assert store.collections() == ["docs"]
    Store(store.path).drop("docs")
    read = 0
    for _ in range(5):
        assert store.collections() == []
    assert read == 1
    fill(store.path, "docs", [a_document("z", "omega")])
    assert store.collections() == ["docs"]


@pytest.mark.parametrize("again", ["drop", "write"])
def test_a_drop_that_could_not_remove_its_files_is_finished_later(
    store: Store, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    def fails(*_: object) -> None:
        raise StorageFailed("cannot remove it")

    with monkeypatch.context() as patched:
        patched.setattr(garbage, "purge", fails)
        store.drop("docs")
    assert store.collections() == []
    assert any(name.startswith("segments/") for name in files(store))
    if again == "drop":
        with pytest.raises(CollectionDropped):
            store.drop("docs")
        assert len(files(store)) == 3
    else:
        fill(store.path, "docs", [a_document("z", "omega")])
        assert len(list((store.path / "docs" / "segments").iterdir())) == 1


def test_a_purge_leaves_no_trace_also_of_a_collection_that_was_dropped_before(store: Store) -> None:
    fill(store.path, "other", [a_document("z", "omega")])
    store.drop("docs")
    store.drop("docs", purge=True)
    store.drop("other", purge=True)
    assert list(store.path.iterdir()) == []
    with pytest.raises(CollectionMissing) as caught:
        store.open("docs")
    assert not isinstance(caught.value, CollectionDropped)


def test_what_is_left_of_a_drop_goes_when_nobody_can_come_back_any_more(store: Store) -> None:
    for name in ("old", "young", "last"):
        fill(store.path, name, [a_document("z", "omega")])
    store.drop("old")
    store.drop("young")
    long_ago = time.time() - dropping.KEEP_SECONDS - 60
    for name in ("old", "docs"):
        os.utime(store.path / name / "CURRENT", (long_ago, long_ago))
    store.drop("last")
    assert sorted(path.name for path in store.path.iterdir()) == ["docs", "last", "young"]


def test_a_damaged_collection_can_be_dropped(store: Store) -> None:
    number = store.current("docs")
    path = store.path / "docs" / MANIFESTS / manifest_name(number)
    path.chmod(0o600)
    path.write_bytes(b"{}")
    assert store.collections() == ["docs"]
    store.drop("docs")
    assert store.collections() == []
    assert not (store.path / "docs").exists()


def test_a_drop_whose_last_step_was_lost_has_not_happened(store: Store) -> None:
    current = (store.path / "docs" / "CURRENT").read_bytes()
    manifest = first_manifest("docs", [], generation=int(current))
    number = int(current) + 1
    content = encode_manifest(replace(manifest, generation=number, dropped=True))
    (store.path / "docs" / MANIFESTS / manifest_name(number)).write_bytes(content)
    assert store.collections() == ["docs"]
    fill(store.path, "docs", [a_document("z", "omega")])
    assert store.open("docs").documents == 4


def test_a_drop_that_lost_current_is_a_drop(store: Store) -> None:
    store.drop("docs")
    (store.path / "docs" / "CURRENT").unlink()
    assert (store.collections(), store.collections_without_current(), verify(store)) == ([], {}, [])
    fill(store.path, "docs", [a_document("z", "omega")])
    assert store.open("docs").documents == 1


def test_a_backup_is_restored_over_it_without_being_asked_to_replace(store: Store, tmp_path: Path) -> None:
    target = tmp_path.with_name(f"{tmp_path.name}.tar")
    back_up(store, ["docs"], target)
    store.drop("docs")
    number = store.current("docs")
    restore_archive(store, target)
    assert store.open("docs").documents == 3
    assert store.open("docs").generation > number


def test_manifests_of_earlier_releases_are_of_collections_that_are_there(store: Store) -> None:
    path = store.path / "docs" / MANIFESTS / manifest_name(store.current("docs"))
    body = orjson.loads(unseal(path.read_bytes()))
    assert body.pop("dropped") is False
    assert body["format"] == FORMAT == 2
    path.chmod(0o600)
    path.write_bytes(seal(orjson.dumps(body)))
    assert Store(store.path).collections() == ["docs"]
    assert store.open("docs").documents == 3


def test_a_writer_that_waited_for_the_drop_begins_a_new_collection(store: Store) -> None:
    lineage = store.open("docs").lineage
    generations: list[int] = []

    def write() -> None:
        with store.writer("docs", spaces=[SPACE], wait=60) as writer:
            put(writer, ["z"], normal(1, SPACE.dimensions, 0))
            writer.finish()
            generations.append(writer.generations.manifest.generation)

    with WriterLock(store.path / "docs", "docs"):
        thread = threading.Thread(target=write)
        thread.start()
        manifest = store._manifest_to_continue("docs")
        assert manifest is not None
        dropping.publish_last(store.path / "docs", manifest)
    thread.join(WAIT_SECONDS)
    assert generations == [store.current("docs")] == [5]
    assert store.open("docs").documents == 1
    assert store.open("docs").lineage != lineage
