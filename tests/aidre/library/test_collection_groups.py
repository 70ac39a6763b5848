"""Hits by document, as programs ask for them."""

from __future__ import annotations

from typing import Any

import pytest

import aidre


def passages(number: int) -> str:
    """A text of `number` chunks."""
    return "\n\n".join(f"The heron of part {part} waits. " + f"word{part} " * 150 for part in range(number))


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_hits_by_document_are_the_best_chunks_with_passages_beside_them(docs: aidre.Collection, mode: Any) -> None:
    docs.add([{"id": f"d{number}", "text": passages(1 + number % 4)} for number in range(12)])
    found = docs.search("the heron waits", mode=mode, k=5, group="document")
    assert len({hit.document_id for hit in found}) == len(found) == len(found.passages) == 5
    for hit, beside in zip(found, found.passages, strict=True):
        assert {one.document_id for one in beside} <= {hit.document_id}
        assert all(hit.score >= one.score for one in beside)
        assert hit.id not in {one.id for one in beside}
    assert any(found.passages)
    rest = docs.search("the heron waits", mode=mode, k=20, offset=5, group="document")
    assert sorted(hit.document_id for hit in [*found, *rest]) == sorted(f"d{number}" for number in range(12))
    assert found.relevance is not None
    chunks = docs.search("the heron waits", mode=mode, k=5)
    assert list(chunks.passages) == []


def test_passages_below_the_least_score_are_left_out(docs: aidre.Collection) -> None:
    docs.add([{"id": "a", "text": "heron " * 20 + "\n\n" + passages(5)}, {"id": "b", "text": "heron of the pond"}])
    everything = docs.search("heron", mode="lexical", group="document")
    least = min(hit.score for hit in everything)
    kept = docs.search("heron", mode="lexical", group="document", min_score=least)
    assert all(one.score >= least for beside in kept.passages for one in beside)
    assert sum(map(len, kept.passages)) < sum(map(len, everything.passages))


@pytest.mark.parametrize("group", ["page", None, 1, ["document"]])
def test_another_group_is_refused_by_name(docs: aidre.Collection, group: Any) -> None:
    with pytest.raises(aidre.InvalidInput, match=r"group .* is unknown: use chunk or document"):
        docs.search("heron", group=group)
