"""Which hits are items of an offer, `api/protocols/intake/offers.py`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aidre.api.protocols.intake.offers import offer_items


def test_a_row_of_vectors_alone_is_no_item() -> None:
    chunks = [SimpleNamespace(id=text or "empty", title="Title", url=None, text=text) for text in ("", "a text")]
    answer: Any = SimpleNamespace(hits=[SimpleNamespace(chunk=chunk) for chunk in chunks], relevances=[0.9, 0.8])
    for returns_text in (True, False):
        assert [item.id for item in offer_items(answer, 0.5, returns_text=returns_text)] == ["a text"]
