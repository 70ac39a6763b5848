"""Quotes and minus in searches of many texts, `aidre/library/collection.py`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import aidre


def told(hits: Sequence[aidre.Hit]) -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 5)) for hit in hits]


@pytest.mark.needs("lexical", "words")
def test_search_many_reads_operators_as_single_searches_do(docs: aidre.Collection) -> None:
    docs.add(["dog bites man", "man bites dog", "a cat bites a dog"])
    texts = ['"man bites dog"', "bites", "dog -cat", '"cat bites man"']
    for mode in ("lexical", "dense", None):
        many = docs.search_many(texts, mode=mode)
        single = [docs.search(text, mode=mode) for text in texts]
        assert [told(hits) for hits in many] == [told(hits) for hits in single]
        assert [hits.understood for hits in many if isinstance(hits, aidre.Hits)] == [one.understood for one in single]
        assert [hit.text for hit in many[0]] == ["man bites dog"]
        assert "a cat bites a dog" not in [hit.text for hit in many[2]]
        as_typed = docs.search_many(texts, mode=mode, operators=False)
        assert [told(hits) for hits in as_typed] == [
            told(docs.search(one, mode=mode, operators=False)) for one in texts
        ]
