"""A collection over its generations: commit, reopen, spaces and names, and what stays recorded."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
import xxhash

from aidre.engine.collection.store import Store
from aidre.engine.errors import CollectionMissing, GenerationMissing, InvalidInput, Missing, SpaceConflict, StoreDamaged
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import EmbeddingSpace, Query
from aidre.engine.storage import durable
from aidre.engine.storage.arrow import write_file
from tests.support.stores import NAME, ROWS, SPACE, everything, fill, names, normal, put, record, space_of, write

# -- commits -----------------------------------------------------------------------------------------------


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert not store.path.exists()
    with pytest.raises(Missing, match="aidre ingest"):
        store.collections()
    with pytest.raises(CollectionMissing):
        store.open(NAME)
    assert not store.path.exists()


def test_a_store_stays_where_it_is_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(Path("store"))
    with store.writer(NAME, spaces=[SPACE]) as writer:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        put(writer, ["a"], ROWS[:1])
        writer.finish()
    assert everything(store.open(NAME)) == ["a"]
    assert store.path == tmp_path / "store"
    assert list(Path().iterdir()) == []


def test_a_commit_says_what_is_live_and_a_reopened_store_has_it(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE], description="Some", visibility="private") as writer:
        assert writer.snapshot is None
        assert writer.commit() is None
        put(writer, [record("a", ["one ", "two"]), record("b")], ROWS[:3])
        assert writer.pending_bytes > 0
        result = writer.commit()
        assert result is not None
        assert (result.generation, result.documents, result.chunks) == (1, 2, 3)
        assert writer.pending_bytes == 0
        assert writer.commit() is None
    store = Store(tmp_path)
    snapshot = store.open(NAME)
    assert store.collections() == [NAME]
    assert store.current(NAME) == snapshot.generation == 1
    assert (snapshot.documents, snapshot.chunks, snapshot.count()) == (2, 3, 3)
    assert (snapshot.collection.description, snapshot.collection.visibility) == ("Some", "private")
    assert [space.id for space in snapshot.collection.spaces] == [SPACE.id]
    assert snapshot.warnings == ()
    second = snapshot.get("a#chunk_2")
    assert second is not None
    assert (second.text, second.span, second.document_id) == ("two", (4, 7), "a")
    assert snapshot.get("a#chunk_3") is snapshot.get("c#chunk_1") is snapshot.get("a") is None


def test_a_description_stays_until_another_one_is_given(tmp_path: Path) -> None:
    write(tmp_path, ["a"], description="first", visibility="private")
    write(tmp_path, ["b"])
    collection = Store(tmp_path).open(NAME).collection
    assert (collection.description, collection.visibility) == ("first", "private")
    write(tmp_path, ["c"], description="second", visibility="public")
    collection = Store(tmp_path).open(NAME).collection
    assert (collection.description, collection.visibility) == ("second", "public")


def test_what_was_not_committed_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[:1])
        writer.delete(["a"])
    assert everything(Store(tmp_path).open(NAME)) == ["a"]


@pytest.mark.slow
def test_every_generation_of_a_run_can_be_opened(tmp_path: Path) -> None:
    generations = [write(tmp_path, [one], number) for number, one in enumerate(names(10))]
    assert generations[-1] > 10  # merges are generations too
    for number, generation in enumerate(generations, 1):
        assert everything(Store(tmp_path).open(NAME, generation=generation)) == names(number)
    with pytest.raises(GenerationMissing) as caught:
        Store(tmp_path).open(NAME, generation=99)
    assert caught.value.details == {"collection": NAME, "generation": 99}


# -- spaces and names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "member"),
    [
        ({"dimensions": 9}, "dimensions"),
        ({"distance": "dot"}, "distance"),
        ({"normalized": True}, "normalized"),
        ({"revision": "2"}, "revision"),
        ({"precision": "float16"}, "precision"),
        ({"id": "other"}, "id"),
    ],
)
def test_a_configuration_that_contradicts_a_space_is_refused_by_name(
    change: dict[str, Any], member: str, tmp_path: Path
) -> None:
    write(tmp_path, ["a"])
    named = change.get("id", SPACE.id)
    with pytest.raises(SpaceConflict, match=re.escape(named)) as caught:
        Store(tmp_path).writer(NAME, spaces=[replace(SPACE, **change)])
    assert caught.value.details["member"] == member
    assert "\n" not in str(caught.value)
    assert write(tmp_path, ["b"]) == 2


@pytest.mark.parametrize("name", ["", ".hidden", "A", "a/b", "..", "a b", "é", "a" * 65, "-a", "a\n"])
def test_a_collection_has_a_plain_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="collection name"):
        Store(tmp_path).writer(name, spaces=[SPACE])
    assert list(tmp_path.iterdir()) == []


def test_the_id_of_a_space_may_be_any_text(tmp_path: Path) -> None:
    ids = ["a/b:c", "../up", ".dot", "ä ö", "x" * 300, "x" * 299 + "y", "100%"]
    spaces = [EmbeddingSpace(one, 4, "dot") for one in ids]
    with Store(tmp_path).writer(NAME, spaces=spaces) as writer:
        put(writer, ["a"], {one: np.full((1, 4), place, np.float32) for place, one in enumerate(ids)})
        writer.commit()
    chunk = Store(tmp_path).open(NAME).get("a#chunk_1")
    assert chunk is not None
    assert {one: vector[0] for one, vector in chunk.vectors().items()} == {one: place for place, one in enumerate(ids)}


# -- dates, sources, keys ----------------------------------------------------------------------------------


# -- what is asked of damaged names ------------------------------------------------------------------------


def test_a_current_file_that_names_nothing_is_damage(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    current = tmp_path / NAME / "CURRENT"
    for content in (b"", b"abc", b"-1", b"9" * 5000):
        durable.replace_file(current, content)
        with pytest.raises(StoreDamaged, match="CURRENT"):
            Store(tmp_path).open(NAME)


def test_a_current_file_that_is_gone_is_found_and_the_next_writer_loses_nothing(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    write(tmp_path, ["b"])
    (tmp_path / NAME / "CURRENT").unlink()
    [report] = verify(Store(tmp_path))
    assert (report.collection, report.ok, report.generation) == (NAME, False, 2)
    assert [problem.file for problem in report.problems] == [f"{NAME}/CURRENT"]
    assert write(tmp_path, ["c"]) == 3
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b", "c"]
    assert verify(Store(tmp_path))[0].ok


def test_a_current_file_that_is_gone_never_hides_a_damaged_manifest(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    (tmp_path / NAME / "CURRENT").unlink()
    durable.replace_file(tmp_path / NAME / "manifests" / "000001.json", b"half")
    with pytest.raises(StoreDamaged, match="000001"):
        Store(tmp_path).writer(NAME, spaces=[SPACE])
    assert not (tmp_path / NAME / "CURRENT").exists()


# -- older formats -------------------------------------------------------------------------------------------


def as_format_1(collection: Path) -> None:
    """Make the newest generation one of format 1: without lexicons, and without the state of documents."""
    path = max((collection / "manifests").iterdir())
    body = orjson.loads(path.read_bytes())["body"]
    body["format"] = 1
    for segment in body["segments"]:
        folder = collection / "segments" / segment["id"]
        (folder / "lexicon.arrow").unlink()
        del segment["files"]["lexicon.arrow"]
        with pa.ipc.open_file(folder / "documents.arrow") as file:
            batches = [batch.drop_columns(["state"]) for batch in map(file.get_batch, range(file.num_record_batches))]
            written = write_file(folder / "older.arrow", batches, batches[0].schema)
        (folder / "older.arrow").rename(folder / "documents.arrow")
        segment["files"]["documents.arrow"] = asdict(written)
    content = orjson.dumps(body)
    path.chmod(0o644)
    path.write_bytes(b'{"checksum":"%s","body":%s}\n' % (xxhash.xxh3_128_hexdigest(content).encode(), content))


@pytest.mark.parametrize("action", ["nothing", "commit", "compact", "purge"])
def test_a_store_of_the_first_format_is_read_and_written(action: str, tmp_path: Path) -> None:
    space = space_of(dimensions=4)
    fill(tmp_path, space, normal(30, 4), commits=3)
    as_format_1(tmp_path / NAME)
    if action != "nothing":
        with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
            put(writer, ["new"], normal(1, 4, 1))
            writer.delete(names(1))
            writer.commit()
            if action == "compact":
                writer.compact()
            elif action == "purge":
                writer.purge()
    snapshot = Store(tmp_path).open(NAME)
    assert snapshot.documents == 30
    found = snapshot.search(Query(None, None, 50, text="text", mode="lexical"))
    changed = {"new", *names(1)} if action != "nothing" else set()
    assert {hit.chunk.document_id for hit in found} == {*names(30)} ^ changed
    assert any("older release" in warning for warning in snapshot.warnings) == (action != "compact")
    assert all(report.ok for report in verify(Store(tmp_path)))
