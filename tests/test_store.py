"""A collection over its generations: commit, reopen, replace, delete, lock, sweep, and what readers keep."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from building import NAME, TIME, ask, fill, names, normal, put, record, space_of

from aidre.engine import durable, sweep
from aidre.engine.errors import (
    CollectionMissing,
    GenerationMissing,
    InvalidInput,
    Missing,
    SpaceConflict,
    StorageFailed,
    StoreDamaged,
    StoreLocked,
)
from aidre.engine.filters import parse_filter
from aidre.engine.model import EmbeddingSpace, Record
from aidre.engine.snapshot import Snapshot
from aidre.engine.store import Store
from aidre.engine.verify import verify

SPACE = space_of("cosine", 8)
ROWS = normal(200, 8)


def write(path: Path, records: Sequence[Record | str], first: int = 0, **settings: Any) -> int:
    """One commit of one-chunk documents; answers the generation."""
    with Store(path).writer(NAME, spaces=[SPACE], **settings) as writer:
        put(writer, records, ROWS[first : first + len(records)])
        result = writer.commit()
    assert result is not None
    return result.generation


def delete(path: Path, ids: Sequence[str]) -> int:
    with Store(path).writer(NAME, spaces=[SPACE]) as writer:
        deleted = writer.delete(ids)
        writer.commit()
    return deleted


def everything(snapshot: Snapshot) -> list[str]:
    return sorted(ask(snapshot, ROWS[0], 10_000))


# -- commits -----------------------------------------------------------------------------------------------


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    assert not store.path.exists()
    with pytest.raises(Missing, match="aidre ingest"):
        store.collections()
    with pytest.raises(CollectionMissing):
        store.open(NAME)
    assert not store.path.exists()


def test_a_commit_says_what_is_live_and_a_reopened_store_has_it(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE], description="Some", visibility="private") as writer:
        assert writer.snapshot is None
        assert writer.commit() is None
        put(writer, [record("a", ["one ", "two"]), record("b")], ROWS[:3])
        assert writer.pending_documents == 2
        assert writer.pending_bytes > 0
        result = writer.commit()
        assert result is not None
        assert (result.generation, result.documents, result.chunks) == (1, 2, 3)
        assert writer.pending_documents == writer.pending_bytes == 0
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


def test_every_generation_of_a_run_can_be_opened(tmp_path: Path) -> None:
    generations = [write(tmp_path, [one], number) for number, one in enumerate(names(10))]
    assert generations[-1] > 10  # merges are generations too
    for number, generation in enumerate(generations, 1):
        assert everything(Store(tmp_path).open(NAME, generation=generation)) == names(number)
    with pytest.raises(GenerationMissing) as caught:
        Store(tmp_path).open(NAME, generation=99)
    assert caught.value.details == {"collection": NAME, "generation": 99}


def test_the_lineage_tells_a_collection_from_one_that_took_its_name(tmp_path: Path) -> None:
    write(tmp_path / "a", ["a"])
    write(tmp_path / "b", ["a"])
    lineage = Store(tmp_path / "a").open(NAME).lineage
    assert Store(tmp_path / "b").open(NAME).lineage != lineage
    write(tmp_path / "a", ["b"])
    assert Store(tmp_path / "a").open(NAME).lineage == lineage


def test_fields_are_those_that_a_document_carries(tmp_path: Path) -> None:
    write(tmp_path, [record("a", metadata={"x": 1, "y": {"z": 2}}), record("b", metadata={"w": []})])
    assert {"x", "y.z"} <= Store(tmp_path).open(NAME).fields()


# -- replacing and deleting --------------------------------------------------------------------------------


def test_a_replaced_document_answers_with_its_new_chunks_alone(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [record("a", ["one ", "two ", "three"]), record("b")], ROWS[:4])
        writer.commit()
        put(writer, [record("a", ["four"])], ROWS[4:5])
        result = writer.commit()
    assert result is not None
    assert (result.documents, result.chunks) == (2, 2)
    snapshot = Store(tmp_path).open(NAME)
    assert everything(snapshot) == ["a", "b"]
    chunk = snapshot.get("a#chunk_1")
    assert chunk is not None
    assert chunk.text == "four"
    assert snapshot.get("a#chunk_2") is None


@pytest.mark.parametrize("separate", [True, False])
def test_of_two_documents_with_one_id_in_a_commit_the_later_wins_and_can_be_reached(
    separate: bool, tmp_path: Path
) -> None:
    both = [record("a", ["old"]), record("a", ["new"])]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        for part in [both[:1], both[1:]] if separate else [both]:
            put(writer, part, ROWS[: len(part)])
        result = writer.commit()
        assert result is not None
        assert (result.documents, result.chunks) == (1, 1)
        assert writer.fingerprints(["a"]) == [both[1].fingerprint]
    snapshot = Store(tmp_path).open(NAME)
    chunk = snapshot.get("a#chunk_1")
    assert chunk is not None
    assert chunk.text == "new"
    assert everything(snapshot) == ["a"]
    write(tmp_path, [record("a", ["newest"])])
    assert everything(Store(tmp_path).open(NAME)) == ["a"]
    assert delete(tmp_path, ["a"]) == 1
    assert Store(tmp_path).open(NAME).documents == 0


def test_a_document_that_was_deleted_and_brought_again_in_one_commit_is_there_once(tmp_path: Path) -> None:
    write(tmp_path, ["a", "b"])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        assert writer.delete(["a"]) == 1
        assert writer.delete(["a"]) == 0
        put(writer, [record("a", ["again"]), "c"], ROWS[:2])
        assert writer.delete(["c", "b", "z"]) == 2
        put(writer, [record("a", ["once more"])], ROWS[3:4])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert everything(snapshot) == ["a"]
    chunk = snapshot.get("a#chunk_1")
    assert chunk is not None
    assert chunk.text == "once more"


def test_a_deleted_document_is_gone_from_every_answer(tmp_path: Path) -> None:
    write(tmp_path, [record(one, metadata={"n": 1}) for one in names(10)])
    assert delete(tmp_path, [*names(10)[::2], "unknown"]) == 5
    snapshot = Store(tmp_path).open(NAME)
    assert everything(snapshot) == names(10)[1::2]
    assert (snapshot.documents, snapshot.count(), snapshot.count(parse_filter({"n": 1}))) == (5, 5, 5)
    assert snapshot.get("d000000#chunk_1") is None
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        assert writer.fingerprints(["d000000", "d000001"]) == [None, record("d000001", metadata={"n": 1}).fingerprint]
        assert writer.updated_at(["d000000", "d000001"]) == [None, TIME]


def test_random_runs_end_as_a_dictionary_would(tmp_path: Path) -> None:
    """Upserts, deletes, commits, merges and reopened writers in random order, against a plain dictionary."""
    rng = np.random.default_rng(1)
    model: dict[str, str] = {}
    for run in range(12):
        with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
            for step in range(int(rng.integers(1, 6))):
                for _ in range(int(rng.integers(1, 4))):
                    chosen = [f"d{number}" for number in rng.integers(0, 40, int(rng.integers(1, 12))).tolist()]
                    if rng.random() < 0.3:
                        assert writer.delete(sorted(set(chosen))) == len(set(chosen) & model.keys())
                        for one in chosen:
                            model.pop(one, None)
                    else:
                        texts = {one: f"{one} of {run}.{step}.{rng.random()}" for one in chosen}
                        put(writer, [record(one, [texts[one]]) for one in chosen], ROWS[: len(chosen)])
                        model.update(texts)
                writer.commit()
            writer.finish() if rng.random() < 0.7 else writer.compact()
        snapshot = Store(tmp_path).open(NAME)
        assert everything(snapshot) == sorted(model)
        assert snapshot.documents == snapshot.chunks == len(model)
        texts = {one: chunk.text for one in model if (chunk := snapshot.get(f"{one}#chunk_1"))}
        assert texts == model


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


# -- one writer --------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from aidre.engine.model import EmbeddingSpace
from aidre.engine.store import Store
with Store(Path(sys.argv[1])).writer("docs", spaces=[EmbeddingSpace("test:cosine:8", 8, "cosine")]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_and_told_the_process_that_writes(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreLocked, match=str(holder.pid)) as caught:
            write(tmp_path, ["b"])
        assert caught.value.details["pid"] == holder.pid
        assert everything(Store(tmp_path).open(NAME)) == ["a"]
        holder.kill()
    assert write(tmp_path, ["b"]) == 2


def test_a_second_writer_of_the_same_process_is_refused_too(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]):
        with pytest.raises(StoreLocked, match=str(os.getpid())):
            Store(tmp_path).writer(NAME, spaces=[SPACE])
        with Store(tmp_path).writer("other", spaces=[SPACE]):
            pass
    with Store(tmp_path).writer(NAME, spaces=[SPACE]):
        pass


def test_a_writer_that_cannot_begin_frees_the_lock(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    with pytest.raises(SpaceConflict):
        Store(tmp_path).writer(NAME, spaces=[])
    assert write(tmp_path, ["b"]) == 2


def test_a_writer_begins_at_the_newest_generation(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(tmp_path, ["a"])
    stale = store.open(NAME)
    write(tmp_path, [record("a", ["new"]), "b"])
    with store.writer(NAME, spaces=[SPACE]) as writer:
        assert writer.fingerprints(["a", "b"]) == [record("a", ["new"]).fingerprint, record("b").fingerprint]
        assert writer.snapshot is not None
        assert writer.snapshot.generation == stale.generation + 1


def test_what_an_interrupted_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    folder = tmp_path / NAME
    (folder / "segments" / ".0123.tmp").mkdir()
    (folder / "segments" / ".0123.tmp" / "chunks.arrow").write_bytes(b"half")
    (folder / "manifests" / ".000002.json.77.tmp").write_bytes(b"half")
    (folder / ".CURRENT.77.tmp").write_bytes(b"0")
    write(tmp_path, ["b"])
    assert not list(folder.rglob("*.tmp"))
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]


def test_a_commit_does_not_write_into_files_that_an_interrupted_one_left(tmp_path: Path) -> None:
    """They are read-only: writing in place would fail for everyone but root."""
    write(tmp_path, ["a", "b"])
    left = [tmp_path / NAME / folder / "000002.arrow" for folder in ("changes", "deletes")]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left by a writer that was killed")
        path.chmod(0o444)
    with left[0].open("rb") as changes, left[1].open("rb") as deletes:
        with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
            writer.delete(["a"])
            writer.commit()
        assert changes.read() == deletes.read() == b"left by a writer that was killed"
    assert everything(Store(tmp_path).open(NAME)) == ["b"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


def test_a_disk_that_refuses_leaves_the_old_generation_and_the_next_try_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, ["a"])
    real = os.fsync
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["b"], ROWS[:1])
        for failing in range(1, 30):
            calls = iter(range(1, 1000))

            def refuse(descriptor: int, calls: Any = calls, failing: int = failing) -> None:
                if next(calls) == failing:
                    raise OSError(28, "No space left on device")
                real(descriptor)

            monkeypatch.setattr(os, "fsync", refuse)
            try:
                writer.commit()
            except StorageFailed as error:
                assert "No space left" in str(error)
                assert everything(Store(tmp_path).open(NAME)) in (["a"], ["a", "b"])
            else:
                break
        monkeypatch.setattr(os, "fsync", real)
    assert failing > 8
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b"]
    assert all(report.ok for report in verify(Store(tmp_path)))


# -- changes -----------------------------------------------------------------------------------------------


def changes(path: Path, generation: int) -> set[tuple[str, str]]:
    with pa.memory_map(str(path / NAME / "changes" / f"{generation:06d}.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    return set(zip(table["op"].to_pylist(), table["chunk_id"].to_pylist(), strict=True))


def test_each_commit_lists_what_it_did_and_a_merge_lists_nothing(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, [record("a", ["one ", "two"]), "b", "c"], ROWS[:4])
        writer.commit()
        put(writer, [record("a", ["three"]), "d"], ROWS[:2])
        writer.delete(["b"])
        writer.commit()
        writer.compact()
        writer.delete(["c"])
        writer.commit()
    assert changes(tmp_path, 1) == {("add", f"{one}#chunk_1") for one in "abc"} | {("add", "a#chunk_2")}
    assert changes(tmp_path, 2) == {
        ("change", "a#chunk_1"),
        ("delete", "a#chunk_2"),
        ("add", "d#chunk_1"),
        ("delete", "b#chunk_1"),
    }
    assert not (tmp_path / NAME / "changes" / "000003.arrow").exists()
    assert changes(tmp_path, 4) == {("delete", "c#chunk_1")}


# -- readers -----------------------------------------------------------------------------------------------


def test_a_reload_uses_the_segments_again_that_are_open(tmp_path: Path) -> None:
    write(tmp_path, names(10))
    write(tmp_path, names(10, 10))
    old = Store(tmp_path).open(NAME)
    delete(tmp_path, ["d000000"])
    write(tmp_path, ["new"])
    new = Store(tmp_path).open(NAME, previous=old)
    assert len(new.parts) == 3
    assert [part.segment for part in new.parts[:2]] == [part.segment for part in old.parts]
    assert new.parts[1] is old.parts[1]
    assert "d000000" in everything(old)
    assert "d000000" not in everything(new)
    assert everything(new) == everything(Store(tmp_path).open(NAME))


def test_an_open_snapshot_answers_after_later_commits_merges_and_sweeps(tmp_path: Path) -> None:
    fill(tmp_path, SPACE, ROWS, commits=5)
    old = Store(tmp_path).open(NAME)
    wanted = [ask(old, query, 50) for query in ROWS[:10]]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(names(200)[:150])
        writer.commit()
        writer.compact()
        put(writer, ["z"], ROWS[:1])
        writer.commit()
        assert writer.snapshot is not None
        sweep.sweep(tmp_path / NAME, writer.snapshot.manifest, keep_seconds=-60)
    assert len(list((tmp_path / NAME / "segments").iterdir())) == 2
    assert [ask(old, query, 50) for query in ROWS[:10]] == wanted
    chunk = old.get("d000007#chunk_1")
    assert chunk is not None
    assert (chunk.text, chunk.json_id) == ("text of d000007", b'"d000007#chunk_1"')


def test_a_sweep_keeps_two_generations_and_removes_what_only_older_ones_name(tmp_path: Path) -> None:
    folder = tmp_path / NAME
    for number in range(6):
        write(tmp_path, [record("a", [f"text {number}"]), f"b{number}"])
    newest = Store(tmp_path).open(NAME).manifest
    last = newest.generation
    sweep.sweep(folder, newest)
    assert len(list((folder / "manifests").iterdir())) == last
    sweep.sweep(folder, newest, keep_seconds=-60)
    kept = sorted(path.name for path in (folder / "manifests").iterdir())
    assert kept == [f"{last - 1:06d}.json", f"{last:06d}.json"]
    for generation in (last - 1, last):
        assert everything(Store(tmp_path).open(NAME, generation=generation))[0] == "a"
    with pytest.raises(GenerationMissing):
        Store(tmp_path).open(NAME, generation=last - 2)
    assert [report.problems for report in verify(Store(tmp_path))] == [()]
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
        writer.delete(["b0"])
        writer.commit()
        assert writer.snapshot is not None
        sweep.sweep(folder, writer.snapshot.manifest, keep_seconds=-60)
    segments = [path.name for path in (folder / "segments").iterdir()]
    assert segments == [part.segment.id for part in Store(tmp_path).open(NAME).parts]
    assert everything(Store(tmp_path).open(NAME)) == ["a", "b1", "b2", "b3", "b4", "b5"]


def test_readers_see_whole_commits_only_while_a_writer_writes_merges_and_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = partial(sweep.sweep, keep_seconds=0)
    monkeypatch.setattr(sweep, "sweep", hasty)
    write(tmp_path, [record(one, ["0"]) for one in names(20)])
    done: list[int] = []

    def read(_: int) -> set[int]:
        snapshot, seen = None, set()
        while not done:
            snapshot = Store(tmp_path).open(NAME, previous=snapshot)
            texts = {chunk.text for one in names(20) if (chunk := snapshot.get(f"{one}#chunk_1"))}
            assert len(texts) == 1, texts
            assert len(everything(snapshot)) == 20
            seen.add(snapshot.generation)
        return seen

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, number) for number in range(3)]
        try:
            for number in range(1, 20):
                with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
                    put(writer, [record(one, [str(number)]) for one in names(20)], ROWS[:20])
                    writer.commit()
                    writer.finish()
        finally:
            done.append(1)
        assert all(len(reader.result()) > 1 for reader in readers)


# -- dates, sources, keys ----------------------------------------------------------------------------------


def test_declared_dates_stay_declared_when_a_writer_does_not_repeat_them(tmp_path: Path) -> None:
    day = {"day": "2026-04-01T12:00:00+02:00"}
    write(tmp_path, [record("a", metadata=day)], dates=["day"])
    write(tmp_path, [record("b", metadata=day)])
    only = parse_filter({"day": {"gte": "2026-04-01T10:00:00Z", "lt": "2026-04-01T10:00:01Z"}}, ["day"])
    assert Store(tmp_path).open(NAME).count(only) == 2


def test_source_roots_are_kept_and_documents_of_a_source_are_listed(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.set_source_root("left", "/left")
        put(writer, [record("a", source="left", origin="a.md"), record("b", source="right", origin="b.md")], ROWS[:2])
        writer.commit()
        put(writer, [record("c", source="left", origin="c.md")], ROWS[2:3])
        writer.delete(["a"])
        writer.commit()
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        assert writer.source_roots() == {"left": "/left"}
        assert list(writer.documents_of("left")) == [("c", "c.md")]
        writer.set_source_root("left", "/left")
        assert writer.commit() is None


def test_vectors_are_used_again_by_their_key_across_pending_segments_and_merges(tmp_path: Path) -> None:
    space = replace(SPACE, model="m")
    keys = [bytes([number]) * 16 for number in range(1, 9)]
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        put(writer, names(4), ROWS[:4] * 3, {space.id: keys[:4]})
        writer.commit()
        put(writer, names(2, 4), ROWS[4:6], {space.id: keys[4:6]})
        found, encoded = writer.reuse(space.id, keys)
        assert found.tolist() == [True] * 6 + [False] * 2
        writer.commit()
        writer.compact()
        again, reused = writer.reuse(space.id, [*keys, bytes(16)])
        assert again.tolist() == [True] * 6 + [False] * 3
        assert (reused.codes[:6] == encoded.codes[:6]).all()
        wanted = writer.encode(space.id, np.concatenate([ROWS[:4] * 3, ROWS[4:6]]))
        assert (encoded.codes[:6] == wanted.codes).all()
        assert (encoded.norms[:6] == wanted.norms).all()


# -- what is asked of damaged names ------------------------------------------------------------------------


def test_a_current_file_that_names_nothing_is_damage(tmp_path: Path) -> None:
    write(tmp_path, ["a"])
    current = tmp_path / NAME / "CURRENT"
    for content in (b"", b"abc", b"-1"):
        durable.replace_file(current, content)
        with pytest.raises(StoreDamaged, match="CURRENT"):
            Store(tmp_path).open(NAME)
