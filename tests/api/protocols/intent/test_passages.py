"""Which hits are passages that may be served, `api/protocols/intent/passages.py`."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from aidre.api.protocols.intent.passages import _servable_passages


def test_a_row_of_vectors_alone_is_no_passage() -> None:
    nothing: Any = None
    hit = SimpleNamespace(chunk=SimpleNamespace(passage=(("segment", 0), "a#chunk_1", "", 0, b"digest")))
    served: Any = SimpleNamespace(answer=SimpleNamespace(relevant=[hit]), collection=None)
    assert asyncio.run(_servable_passages(nothing, nothing, served)) == []
