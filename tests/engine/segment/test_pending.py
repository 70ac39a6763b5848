"""What is pending: rows that are taken back before a commit, and rows without their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection import backfill
from aidre.engine.collection.store import Store
from aidre.engine.errors import InvalidInput
from aidre.engine.maintenance.verify import verify
from aidre.engine.segment.stored_chunk import StoredChunk
from aidre.engine.storage.manifest import SpaceState, with_precision
from tests.support.stores import NAME, ROWS, SPACE, everything, names, normal, put, record, space_of


def test_what_is_put_and_deleted_again_leaves_no_rows_behind(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        writer.commit()
        put(writer, ["b", "c"], ROWS[1:3])
        assert writer.delete(["b", "c"]) == 2
        assert writer.pending_bytes == 0
        assert writer.commit() is None
        put(writer, names(1_000), normal(1_000, SPACE.dimensions))
        assert writer.delete(names(1_000)) == 1_000
        assert writer.begin_commit() is None
        assert writer.wait_for_commit() is None
        put(writer, ["d"], ROWS[3:4])
        writer.commit()
    snapshot = Store(tmp_path).open(NAME)
    assert (snapshot.generation, everything(snapshot)) == (2, ["a", "d"])
    assert [(entry.chunks, entry.deletes) for entry in snapshot.manifest.segments] == [(1, None), (1, None)]


@pytest.mark.parametrize("given", [{}, {SPACE.id: 1}, {SPACE.id: 3}, {"other": 2}])
def test_chunks_without_their_vectors_are_refused_and_what_was_pending_stays(
    given: dict[str, int], tmp_path: Path
) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        encoded = {space_id: writer.encode(SPACE.id, ROWS[:count]) for space_id, count in given.items()}
        with pytest.raises(InvalidInput, match=rf"'{SPACE.id}' got {given.get(SPACE.id, 0)} vectors: bring 2"):
            writer.upsert([record("b", ["one", "two"])], encoded, {})
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == ["a"]


class Ones:
    """A model for which all chunks are alike."""

    def keys(self, chunks: Sequence[StoredChunk]) -> Sequence[bytes]:
        return [chunk.id.rjust(16).encode() for chunk in chunks]

    def vectors(self, chunks: Sequence[StoredChunk]) -> NDArray[np.float32]:
        return np.ones((len(chunks), 4), np.float32)


def test_a_space_may_be_filled_where_all_that_was_pending_is_taken_back(tmp_path: Path) -> None:
    other = space_of("cosine", 4, model="m")
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        put(writer, ["a"], ROWS[:1])
        writer.commit()
        put(writer, ["b", "c"], ROWS[1:3])
        writer.delete(["b", "c"])
        backfill.fill_space(writer.generations, SpaceState(with_precision(other)), Ones(), lambda _: None)
        put(writer, ["d"], {SPACE.id: ROWS[3:4], other.id: normal(1, 4)})
        writer.commit()
    assert everything(Store(tmp_path).open(NAME)) == ["a", "d"]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]
