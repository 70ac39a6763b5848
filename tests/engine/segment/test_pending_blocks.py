"""Vectors that pile up: joined they are what came, in order, whether they were made side by side or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from aidre.engine.model import EncodedVectors
from aidre.engine.segment import pending
from aidre.engine.segment.pending import VectorBlocks

HALF = np.dtype(np.float16)


def block(blocks: VectorBlocks, rows: int, first: int, *, in_room: bool) -> EncodedVectors:
    codes = blocks.reserve(rows, 2, HALF) if in_room else np.empty((rows, 2), HALF)
    codes[:] = np.arange(first, first + rows)[:, None]
    return EncodedVectors(codes, np.arange(first, first + rows, dtype=np.float32))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), min_size=1, max_size=12), st.booleans())
def test_joined_vectors_are_those_that_were_added(steps: list[tuple[int, bool, bool]], keep: bool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pending, "_MIN_ARENA_ROWS", 2)
        patched.setattr(pending, "_ARENA_ROWS", 16)
        blocks, total = VectorBlocks(), 0
        for rows, in_room, is_used in steps:
            made = block(blocks, rows, total, in_room=in_room)
            if is_used:  # else it was encoded, and never put in
                blocks.add(made)
                total += rows
        if not total:
            return
        for joined in (blocks.join(keep=keep), blocks.join(keep=keep)):
            assert joined.norms.tolist() == joined.codes[:, 0].tolist() == list(range(total))
        more = block(blocks, 3, total, in_room=True)
        blocks.add(more)
        assert blocks.join(keep=keep).codes[:, 1].tolist() == list(range(total + 3))
        assert blocks[total][1] == total
        with pytest.raises(IndexError):
            blocks[total + 3]


def test_blocks_that_were_made_side_by_side_are_joined_without_a_copy() -> None:
    blocks = VectorBlocks()
    parts = [block(blocks, 2_000, first, in_room=True) for first in (0, 2_000)]
    for part in parts:
        blocks.add(part)
    joined = blocks.join(keep=False)
    assert np.shares_memory(joined.codes, parts[0].codes) and np.shares_memory(joined.codes, parts[1].codes)
    assert len(joined.codes) == len(joined.norms) == 4_000
