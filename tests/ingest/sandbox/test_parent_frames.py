"""Answers of the child, frame by frame: what is whole, what is incomplete, and what no child may send."""

from __future__ import annotations

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.sandbox.child import ANSWER, DONE, FAULT, INVALID, LACKING, MAX_REASON_CHARS, PART, READY
from aidre.ingest.sandbox.parent import SandboxLimits, _Child

LIMITS = SandboxLimits(answer=100_000, documents=3, held=7)
MOST_REASON = 4 * MAX_REASON_CHARS


@pytest.fixture
def child() -> _Child:
    """One that has no process."""
    child = object.__new__(_Child)
    child.documents = child.held = 0
    return child


def frame(kind: bytes, size: int, held: int = 5) -> bytearray:
    return bytearray(ANSWER.pack(kind, held, size) + b"x" * size)


@pytest.mark.parametrize(
    ("kind", "size"),
    [(DONE, 0), (DONE, 5), (DONE, 100_000), (INVALID, MOST_REASON), (FAULT, MOST_REASON), (LACKING, 0)],
)
def test_an_answer_is_taken_when_it_is_whole(child: _Child, kind: bytes, size: int) -> None:
    whole = frame(kind, size)
    for end in {0, 1, ANSWER.size - 1, ANSWER.size, len(whole) - 1} - {len(whole)}:
        assert child._complete(whole[:end], LIMITS) is None
        assert child.held == 0
    assert child._complete(whole, LIMITS) == (kind, b"x" * size)
    assert child.held == 5


@pytest.mark.parametrize(
    "received",
    [
        frame(DONE, 100_001),
        frame(DONE, 100_001)[: ANSWER.size],
        frame(INVALID, MOST_REASON + 1)[: ANSWER.size],
        frame(FAULT, MOST_REASON + 1),
        frame(DONE, 5) + b"x",
        frame(READY, 0),
        frame(PART, 5),
        frame(b"?", 0),
    ],
)
def test_an_answer_that_is_none_is_refused_at_once(child: _Child, received: bytearray) -> None:
    with pytest.raises(InvalidDocument, match="the parser gave an invalid answer"):
        child._complete(received, LIMITS)


@pytest.mark.parametrize(
    ("documents", "held", "is_worn"), [(0, 0, False), (2, 6, False), (3, 0, True), (0, 7, True), (4, 8, True)]
)
def test_a_child_is_worn_by_documents_or_by_the_memory_that_it_holds(
    child: _Child, documents: int, held: int, is_worn: bool
) -> None:
    child.documents, child.held = documents, held
    assert child.is_worn(LIMITS) is is_worn
