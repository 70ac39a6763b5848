"""How much of a document may leave, and which documents can therefore never be served."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import urlsplit

from aidre.api.intent.messages import URI
from aidre.api.intent.settings import Intent
from aidre.engine.snapshot import Snapshot

TOKENS = "of the collection's embedding model; without one the number of words and marks, or a quarter of the bytes"
"""How tokens are counted, as it is published."""
WORD = re.compile(r"\w+|[^\w\s]")
BYTES_PER_TOKEN = 4
ROUNDING = 1e-9


def most_chunks(intent: Intent, chunks: int) -> int:
    """How many chunks of a document that has so many one key gets in one session: never all, unless articles are."""
    if intent.full_article:
        return chunks
    return min(math.floor(chunks * intent.max_document_fraction + ROUNDING), chunks - 1)


def estimated_tokens(text: str) -> int:
    """Where no tokenizer is known; whichever of both is more."""
    size = len(text.encode("utf-8", "surrogatepass"))
    return max(len(WORD.findall(text)), -(-size // BYTES_PER_TOKEN))


@lru_cache(maxsize=4_096)
def is_citable(url: str | None) -> bool:
    """Whether a citation can name it: an absolute http(s) address."""
    if url is None or not URI.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


def warnings_of(intent: Intent, collection: str, snapshot: Snapshot) -> Iterator[str]:
    """What of a collection can never be served, if an editorial domain opens it."""
    if all(domain.collection != collection for domain in intent.editorial_domains.values()):
        return
    if not intent.full_article:
        counts = snapshot.chunk_counts()
        small = sum(most_chunks(intent, count) == 0 for count in counts.tolist())
        if small:
            yield (
                f"{small:,} of {len(counts):,} documents have too few chunks to be served by Agentic Intent: at most "
                f"{intent.max_document_fraction:g} of a document leaves (intent.max_document_fraction), and never all"
            )
    if intent.citations:
        without = snapshot.status()["documents_without_url"]
        if without:
            yield f"{without:,} documents have no url and are not served by Agentic Intent, which cites (--url-base)"
