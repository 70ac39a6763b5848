"""How documents are put in order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aidre.engine.retrieve.grouping import MAX_BOOST, DocumentHit, _boosted
from aidre.engine.retrieve.question import Policy

STATE: Any = SimpleNamespace(policy=Policy())


def document(*texts: str, score: float = 0.5) -> DocumentHit:
    """One whose chunks have these texts, the best one first."""
    hits: Any = tuple(SimpleNamespace(chunk=SimpleNamespace(title=None, text=text)) for text in texts)
    return DocumentHit(0, hits, score)


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        (("a Vegan soup for parties", "with eggs"), 1.0),
        (("a vegan soup", "for a party"), 0.5),
        (("with eggs", "a vegan soup for a party"), 0.0),
    ],
)
def test_a_document_gains_by_the_keywords_in_its_best_chunk_alone(texts: tuple[str, ...], share: float) -> None:
    assert _boosted(document(*texts), STATE, ("vegan", "part")).score == round(0.5 + MAX_BOOST * share, 4)


def test_no_document_gains_more_than_everything() -> None:
    assert _boosted(document("vegan", score=0.99), STATE, ("vegan",)).score == 1.0
