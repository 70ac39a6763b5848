"""Limits on how much of a document one key may receive, and the documents that can never be served for them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import urlsplit

from aidre.api.config import IntentSettings
from aidre.api.protocols.intent.intent_messages import URI
from aidre.engine.ports import Reader

TOKEN_COUNT_METHOD = (
    "of the collection's embedding model; without one the number of words and marks, or a quarter of the bytes"
)
"""The published description of how tokens are counted."""
WORD = re.compile(r"\w+|[^\w\s]")
BYTES_PER_TOKEN = 4
ROUNDING_TOLERANCE = 1e-9
"""0.29 * 100 is 28.99... in floats: without the tolerance it would be rounded down to 28."""


def document_chunk_limit(intent: IntentSettings, document_chunks: int) -> int:
    """The number of a document's chunks that one key may ever receive.

    It is less than `document_chunks` unless the publisher returns full articles, and 0 for a document of one chunk.
    """
    if intent.full_article:
        return document_chunks
    return min(math.floor(document_chunks * intent.max_document_fraction + ROUNDING_TOLERANCE), document_chunks - 1)


def estimate_tokens(text: str) -> int:
    """Estimate tokens without a tokenizer: the words and marks, or a quarter of the bytes, whichever is more."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return max(len(WORD.findall(text)), -(-size // BYTES_PER_TOKEN))


@lru_cache(maxsize=4_096)
def is_citable(url: str | None) -> bool:
    """Whether a citation can link to it: an absolute http or https URL."""
    if url is None or not URI.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


def explain_unservable(intent: IntentSettings, collection: str, reader: Reader) -> Iterator[str]:
    """Warnings about documents of a collection that can never be served; none if no editorial domain opens it."""
    if all(domain.collection != collection for domain in intent.editorial_domains.values()):
        return
    if not intent.full_article:
        counts = reader.chunk_counts()
        small = sum(number for chunks, number in counts.items() if document_chunk_limit(intent, chunks) == 0)
        if small:
            yield (
                f"{small:,} of {reader.documents:,} documents have too few chunks to be served by Agentic Intent: "
                f"at most {intent.max_document_fraction:g} of a document leaves (intent.max_document_fraction), and "
                "never all"
            )
    if intent.citations:
        without = reader.status()["documents_without_url"]
        if without:
            yield f"{without:,} documents have no url and are not served by Agentic Intent, which cites (--url-base)"
