"""How documents are put in order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aidre.api.protocols.nlweb.answer.documents import MAX_BOOST, DocumentHit, _boost


def document(*texts: str, score: float = 50.0) -> DocumentHit:
    """One whose chunks have these texts, the best one first."""
    collection: Any = SimpleNamespace(searched_text=lambda chunk: chunk.text)
    hits: Any = tuple(SimpleNamespace(chunk=SimpleNamespace(text=text)) for text in texts)
    return DocumentHit(collection, hits, score)


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        (("a Vegan soup for parties", "with eggs"), 1.0),
        (("a vegan soup", "for a party"), 0.5),
        (("with eggs", "a vegan soup for a party"), 0.0),
    ],
)
def test_a_document_gains_by_the_keywords_in_its_best_chunk_alone(texts: tuple[str, ...], share: float) -> None:
    assert _boost(document(*texts), ("vegan", "part")).score == 50.0 + MAX_BOOST * share


def test_no_document_gains_more_than_everything() -> None:
    assert _boost(document("vegan", score=99.0), ("vegan",)).score == 100.0
