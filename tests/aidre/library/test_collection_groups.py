"""Hits by document, as programs ask for them."""

from __future__ import annotations

from typing import Any

import pytest

import aidre


def passages(number: int, of: str = "") -> str:
    """A text of `number` chunks."""
    return "\n\n".join(f"The heron of part {part} waits. " + f"word{of}{part} " * 150 for part in range(number))


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_hits_by_document_are_the_best_chunks_with_passages_beside_them(docs: aidre.Collection, mode: Any) -> None:
    docs.add([{"id": f"d{number}", "text": passages(1 + number % 4, f"of{number}x")} for number in range(12)])
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


def near_copies(count: int, words: int = 120) -> list[dict[str, str]]:
    """Documents of the same words, each with another name in the middle and another date at the end."""
    page = [f"heron{number}" if number % 7 else "heron" for number in range(words)]
    return [
        {"id": f"copy{n}", "text": " ".join([*page[:60], f"name{n}", *page[60:], f"2024-03-{n + 1:02}"])}
        for n in range(count)
    ]


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
def test_near_copies_count_as_one_document(docs: aidre.Collection, mode: Any) -> None:
    others = [{"id": f"other{n}", "text": f"a heron of pond {n} eats fish number {n * n}"} for n in range(12)]
    docs.add([*near_copies(12), *others])
    found = docs.search("heron", mode=mode, group="document")
    copied = [hit.document_id for hit in found if hit.document_id.startswith("copy")]
    assert (len(found), len(copied)) == (10, 1)
    [copies] = [one for one in found.copies if one.count]
    assert copies.count == len(copies.ids) == 11
    assert {one.partition("#")[0] for one in copies.ids} | set(copied) == {f"copy{n}" for n in range(12)}
    rest = docs.search("heron", mode=mode, group="document", k=20, offset=10)
    assert sorted(hit.document_id for hit in rest if hit.document_id.startswith("copy")) == []
    assert len(rest) == 3
    shown = docs.search("heron", mode=mode, group="document", k=30, collapse=False)
    assert len(shown) == 24
    assert not any(one.count for one in shown.copies)
    assert len(docs.search("heron", mode=mode, k=30)) == 24


def test_documents_that_share_a_frame_of_words_are_no_copies(docs: aidre.Collection) -> None:
    """As of products, which differ in name, size and price."""
    frame = "The {0} lamp in {1} has a shade of {2} and a cable of {3} metres, costs {4} euros and ships from {5}."
    docs.add([{"id": f"p{n}", "text": frame.format(*(f"w{n}x{place}" for place in range(6)))} for n in range(20)])
    assert len(docs.search("lamp", group="document", k=20)) == 20
