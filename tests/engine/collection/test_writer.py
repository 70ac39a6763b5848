"""What a writer replaces, deletes and lists, alone: the lock, interrupted runs, a disk that refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import InvalidDocument, SpaceConflict, StoreLocked
from aidre.engine.index.fields.filters import parse_filter
from tests.support.stores import NAME, ROWS, SPACE, TIME, delete, everything, names, put, record, write

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


@pytest.mark.parametrize("rewrite", ["compact", "purge", "finish"])
def test_what_is_pending_is_committed_before_segments_are_rewritten(rewrite: str, tmp_path: Path) -> None:
    write(tmp_path, ["a", "b", "c"])
    delete(tmp_path, ["a"])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.delete(["b"])
        put(writer, ["d"], ROWS[:1])
        getattr(writer, rewrite)()
        assert writer.commit() is None
    assert everything(Store(tmp_path).open(NAME)) == ["c", "d"]


def test_a_document_without_chunks_is_refused_and_what_was_pending_stays(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        with pytest.raises(InvalidDocument, match="'empty' has no chunks"):
            put(writer, [record("a", ["x"]), record("empty")._replace(chunks=())], ROWS[:1])
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == ["a"]


def test_a_collection_whose_documents_are_all_deleted_goes_on(tmp_path: Path) -> None:
    write(tmp_path, ["a", "b"])
    delete(tmp_path, ["a", "b"])
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.compact()
        writer.purge()
        assert writer.snapshot is not None
        assert everything(writer.snapshot) == []
        put(writer, ["a"], ROWS[:1])
        writer.commit()
        writer.finish()
    assert everything(Store(tmp_path).open(NAME)) == ["a"]


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


@pytest.mark.slow
def test_random_runs_end_as_a_dictionary_would(tmp_path: Path) -> None:
    """Upserts, deletes, commits, merges and reopened writers in random order, against a plain dictionary."""
    rng = np.random.default_rng(1)
    model: dict[str, str] = {}
    ends: list[str] = []
    for run in range(8):
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
            ends.append("finish" if rng.random() < 0.7 else "compact")
            getattr(writer, ends[-1])()
        snapshot = Store(tmp_path).open(NAME)
        assert everything(snapshot) == sorted(model)
        assert snapshot.documents == snapshot.chunks == len(model)
        texts = {one: chunk.text for one in model if (chunk := snapshot.get(f"{one}#chunk_1"))}
        assert texts == model
    assert set(ends) == {"finish", "compact"}


# -- one writer --------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from aidre.engine.model import EmbeddingSpace
from aidre.engine.collection.store import Store
with Store(Path(sys.argv[1])).writer("docs", spaces=[EmbeddingSpace("test:cosine:8", 8, "cosine")]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
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


# -- changes -----------------------------------------------------------------------------------------------
