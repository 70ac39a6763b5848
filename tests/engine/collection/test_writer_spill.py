"""A commit whose rows do not fit in memory: they are spilled to segments, and it ends as if they had not been."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from aidre.engine.collection import writer as writer_module
from aidre.engine.collection.store import Store
from aidre.engine.collection.writer import Writer
from aidre.engine.errors import InvalidInput, StorageFailed
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import Record
from aidre.engine.storage import durable, read_manifest
from aidre.engine.storage.manifest import manifest_numbers
from tests.support.stores import NAME, SPACE, TIME, delete, normal, put, record, space_of, write

KEYED = space_of("cosine", model="test")


@pytest.fixture(autouse=True)
def spilled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each upsert becomes a segment of its own."""
    monkeypatch.setattr(writer_module, "SPILL_BYTES", 1)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as opened:
        yield opened


def add(writer: Writer, *versions: tuple[str, str]) -> None:
    """... and spill them, as the next upsert does before it takes rows."""
    records = [record(document_id, [text]) for document_id, text in versions]
    put(writer, records, normal(len(records), SPACE.dimensions, len(versions[0][1])))
    put(writer, [], normal(0, SPACE.dimensions))


def texts(path: Path) -> dict[str, str]:
    return {chunk.document_id: chunk.text for chunk in Store(path).open(NAME).scan()}


def left_over(path: Path) -> set[str]:
    """Folders of segments that no generation names."""
    manifests = path / NAME / "manifests"
    named = {
        entry.id
        for number in manifest_numbers(path / NAME)
        for entry in read_manifest(manifests, number, NAME).segments
    }
    return {found.name for found in (path / NAME / "segments").iterdir()} - named


def assert_sound(path: Path) -> None:
    assert not [problem for report in verify(Store(path)) for problem in report.problems]


def test_many_spilled_segments_are_one_generation(writer: Writer, tmp_path: Path) -> None:
    for number in range(3):
        add(writer, (f"d{number}", "text"), (f"e{number}", "text"))
    assert writer.pending_bytes == 0 and not writer.is_full
    assert NAME not in Store(tmp_path).collections()
    result = writer.commit()
    assert result is not None and (result.generation, result.documents, result.chunks) == (1, 6, 6)
    assert writer.commit() is None
    assert texts(tmp_path) == {f"{kind}{number}": "text" for kind in "de" for number in range(3)}
    assert not left_over(tmp_path)
    assert_sound(tmp_path)


def test_a_later_version_replaces_a_spilled_one_and_a_stored_one(writer: Writer, tmp_path: Path) -> None:
    add(writer, ("a", "stored"), ("b", "stored"), ("c", "stored"))
    writer.commit()
    add(writer, ("a", "second"), ("x", "second"))
    add(writer, ("x", "third"), ("b", "third"))
    add(writer, ("b", "fourth"), ("b", "fifth"))
    writer.commit()
    assert texts(tmp_path) == {"a": "second", "b": "fifth", "c": "stored", "x": "third"}
    changes = Store(tmp_path).open(NAME).changes(None, 100).changes
    assert len(changes) == 4
    assert_sound(tmp_path)


def test_the_changelog_of_a_spilled_commit_tells_each_document_once(writer: Writer, tmp_path: Path) -> None:
    add(writer, ("a", "old"), ("b", "old"))
    writer.commit()
    cursor = Store(tmp_path).open(NAME).changes(None, 100).cursor
    add(writer, ("a", "new"), ("c", "new"))
    add(writer, ("c", "newer"), ("d", "gone"))
    writer.delete(["b", "d"])
    writer.commit()
    page = Store(tmp_path).open(NAME).changes(cursor, 100)
    assert sorted((one.op, one.id[0]) for one in page.changes) == [("add", "c"), ("change", "a"), ("delete", "b")]


def test_a_spilled_document_is_deleted_and_counted_once(writer: Writer, tmp_path: Path) -> None:
    add(writer, ("a", "stored"))
    writer.commit()
    add(writer, ("a", "new"), ("b", "new"))
    assert writer.delete(["a", "a", "b", "none"]) == 2
    assert writer.delete(["a", "b"]) == 0
    writer.commit()
    assert texts(tmp_path) == {}
    assert not left_over(tmp_path)


def test_a_writer_tells_spilled_values(writer: Writer) -> None:
    add(writer, ("a", "stored"))
    writer.commit()
    stored = record("a", ["stored"]).fingerprint
    assert writer.fingerprints(["a", "b"]) == [stored, None]
    add(writer, ("a", "new"), ("b", "new"))
    assert writer.fingerprints(["a", "b"]) == [record("a", ["new"]).fingerprint, record("b", ["new"]).fingerprint]
    writer.delete(["a"])
    assert writer.fingerprints(["a", "b"]) == [None, record("b", ["new"]).fingerprint]
    assert writer.updated_at(["b"]) == [TIME]


def test_rows_that_are_committed_when_they_are_many_are_not_spilled(writer: Writer, tmp_path: Path) -> None:
    put(writer, [record("a")], normal(1, SPACE.dimensions))
    staged = mock.patch.object(writer, "stage", side_effect=AssertionError("spilled"))
    with staged:
        assert writer.commit() is not None
    assert list(texts(tmp_path)) == ["a"]


def test_vectors_of_spilled_rows_are_found_by_their_keys(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[KEYED]) as writer:
        vectors = writer.encode(KEYED.id, normal(2, KEYED.dimensions))
        keys = [b"a" * 16, b"b" * 16]
        writer.upsert([record("a"), record("b")], {KEYED.id: vectors}, {KEYED.id: keys})
        found, reused = writer.reuse(KEYED.id, [b"b" * 16, b"c" * 16])
        assert found.tolist() == [True, False]
        assert (reused.codes[0] == vectors.codes[1]).all()


def test_a_writer_that_fails_leaves_no_file(tmp_path: Path) -> None:
    write(tmp_path, [record("a")])
    with pytest.raises(ZeroDivisionError), Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        add(writer, ("b", "spilled"))
        raise ZeroDivisionError
    assert list(texts(tmp_path)) == ["a"]
    assert not left_over(tmp_path)


def test_a_writer_that_ends_without_a_commit_leaves_no_file(tmp_path: Path) -> None:
    write(tmp_path, [record("a")])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        add(writer, ("b", "spilled"))
    assert list(texts(tmp_path)) == ["a"]
    assert not left_over(tmp_path)


def test_a_commit_of_spilled_rows_that_failed_can_be_repeated(writer: Writer, tmp_path: Path) -> None:
    add(writer, ("a", "stored"))
    writer.commit()
    add(writer, ("a", "new"))
    with mock.patch.object(durable, "replace_file", side_effect=StorageFailed("no room")), pytest.raises(StorageFailed):
        writer.commit()
    add(writer, ("b", "new"))
    assert writer.commit() is not None
    assert texts(tmp_path) == {"a": "new", "b": "new"}
    assert not left_over(tmp_path)
    assert_sound(tmp_path)


def test_a_commit_that_failed_leaves_no_spilled_segment_when_the_writer_ends(tmp_path: Path) -> None:
    write(tmp_path, [record("a")])
    with pytest.raises(StorageFailed), Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        add(writer, ("b", "new"))
        with mock.patch.object(durable, "replace_file", side_effect=StorageFailed("no room")):
            writer.commit()
    assert not left_over(tmp_path)
    assert delete(tmp_path, ["a"]) == 1


def test_rows_that_cannot_be_spilled_stay_pending(writer: Writer, tmp_path: Path) -> None:
    broken = mock.patch.object(durable, "publish_folder", side_effect=StorageFailed("no room"))
    with broken, pytest.raises(StorageFailed):
        add(writer, ("a", "text"))
    assert writer.commit() is not None
    assert texts(tmp_path) == {"a": "text"}


@pytest.mark.parametrize("moved", [False, True])
def test_the_next_writer_removes_what_a_killed_one_spilled(moved: bool, tmp_path: Path) -> None:
    write(tmp_path, [record("a")])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        add(writer, ("b", "spilled"))
        assert writer._spill is not None
        if moved:
            writer._spill.staged().move_to(tmp_path / NAME)
        spill = writer._spill
        writer._spill = None  # as if the process had ended here
        writer._staging.clear()
    assert left_over(tmp_path) and spill.staging.exists()
    delete(tmp_path, ["none"])
    assert not left_over(tmp_path)
    assert list(texts(tmp_path)) == ["a"]


def test_segments_are_not_adopted_beside_spilled_rows(writer: Writer) -> None:
    staging = writer.stage()
    add(writer, ("a", "text"))
    assert writer._spill is not None
    with pytest.raises(InvalidInput, match="pending"):
        writer.adopt(staging, writer._spill.staged().entries)


def test_random_writes_end_as_without_a_spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(11)
    steps = [
        (chance.choice(["put", "put", "put", "delete", "commit"]), chance.sample(range(12), 4), f"version {number}")
        for number in range(60)
    ]
    for limit in (1, 1 << 30):
        monkeypatch.setattr(writer_module, "SPILL_BYTES", limit)
        with Store(tmp_path / str(limit)).writer(NAME, spaces=[SPACE]) as writer:
            counts = [_step(writer, kind, [f"d{one}" for one in ids], text) for kind, ids, text in steps]
            writer.finish()
        (tmp_path / f"{limit}.txt").write_text(repr(counts))
    assert texts(tmp_path / "1") == texts(tmp_path / str(1 << 30))
    assert (tmp_path / "1.txt").read_text() == (tmp_path / f"{1 << 30}.txt").read_text()
    assert_sound(tmp_path / "1")


def _step(writer: Writer, kind: str, ids: list[str], text: str) -> object:
    """What the writer answered."""
    if kind == "put":
        records: list[Record] = [record(document_id, [text]) for document_id in ids]
        put(writer, records, normal(len(records), SPACE.dimensions))
        return writer.fingerprints(ids)
    return writer.delete(ids) if kind == "delete" else writer.commit()
