"""What of a document may be served, `api/protocols/intent/limits.py`: fractions, addresses, tokens."""

from __future__ import annotations

import pytest

from aidre.api.config.intent import IntentSettings
from aidre.api.protocols.intent.limits import document_chunk_limit, estimate_tokens, is_citable


@pytest.mark.parametrize(
    ("fraction", "chunks", "most"),
    [(0.5, 1, 0), (0.5, 2, 1), (0.5, 3, 1), (0.5, 10, 5), (0.29, 100, 29), (0.3, 10, 3), (1.0, 1, 0), (1.0, 7, 6)],
)
def test_a_fraction_is_rounded_down_and_never_all(fraction: float, chunks: int, most: int) -> None:
    assert document_chunk_limit(IntentSettings(max_document_fraction=fraction), chunks) == most
    assert document_chunk_limit(IntentSettings(max_document_fraction=fraction, full_article=True), chunks) == chunks


@pytest.mark.parametrize(
    ("url", "citable"),
    [
        ("https://example.com/a", True),
        ("http://example.com", True),
        (None, False),
        ("", False),
        ("/a", False),
        ("ftp://example.com/a", False),
        ("https:///a", False),
        ("https://[::1", False),
        ("urn:a:b", False),
        ("https://example.com/a b", False),
        ("https://example.com/ş", True),
    ],
)
def test_a_citation_needs_an_absolute_address(url: str | None, citable: bool) -> None:
    assert is_citable(url) is citable


def test_tokens_are_estimated_where_no_model_counts_them() -> None:
    assert estimate_tokens("three little words") == 5
    assert estimate_tokens("a, b, c.") == 6
    assert estimate_tokens("単一サインオン") == 6
    assert estimate_tokens("") == 0
