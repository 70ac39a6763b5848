"""One search whose hits are documents: the best chunk of each, and the next best ones beside it.

More chunks are fetched until there are enough documents, or the chunks end. Where every document is one chunk, a search
for chunks is one for documents already (`has_passages`).
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from aidre.engine.model import Query
from aidre.engine.ports import Reader
from aidre.engine.types import Hit

MAX_PASSAGES: Final = 4
"""Chunks of a document that are shown beside its best one."""
CHUNKS_PER_DOCUMENT: Final = 2
"""Chunks that the first search fetches for each requested document."""
LEAST_DEPTH: Final = 20
"""Chunks that it fetches at least, so that the passages of one document are found, too."""
DEPTH_FACTOR: Final = 4
"""Growth of the number of chunks when a search gave too few documents."""
MAX_DEPTH: Final = 10_000
"""Chunks that are fetched at most, unless CHUNKS_PER_DOCUMENT needs more: one document may have all of them."""


class Documents(NamedTuple):
    """The best chunk of each document, best first, and the next best ones of each; whether more documents follow."""

    hits: list[Hit]
    passages: list[tuple[Hit, ...]]
    more: bool


def has_passages(reader: Reader) -> bool:
    """Whether some document has more than one chunk."""
    return reader.chunks != reader.documents


def search_documents(reader: Reader, query: Query) -> Generator[Query, Sequence[Hit], Documents]:
    """The `top_k` best documents after the `offset` best ones. Yields searches for chunks, and is sent their hits."""
    end = query.offset + query.top_k
    # Every chunk that passes is a match, unless it has to have a word: then a document more says whether one follows.
    is_counted = query.mode != "lexical"
    depth = max(CHUNKS_PER_DOCUMENT * end, LEAST_DEPTH)
    deepest = max(MAX_DEPTH, depth)
    while True:
        hits = yield replace(query, top_k=depth, offset=0)
        found = _by_document(hits)
        is_end = len(hits) < depth or (len(found) <= end and len(found) >= reader.count_documents(query.filter))
        if is_end or len(found) >= end + (not is_counted) or depth >= deepest:
            chosen = found[query.offset : end]
            passages = [tuple(group[1 : 1 + MAX_PASSAGES]) for group in chosen]
            return Documents([group[0] for group in chosen], passages, len(found) > end or not is_end)
        depth = min(depth * DEPTH_FACTOR, deepest)


def documents(reader: Reader, query: Query) -> Documents:
    """As `search_documents`, in the caller's thread."""
    steps = search_documents(reader, query)
    asked = next(steps)
    while True:
        try:
            asked = steps.send(reader.search(asked))
        except StopIteration as end:
            found: Documents = end.value
            return found


def _by_document(hits: Iterable[Hit]) -> list[list[Hit]]:
    """Groups hits by document, in the order of each document's best hit."""
    groups: dict[Hashable, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.chunk.document_key, []).append(hit)
    return list(groups.values())
