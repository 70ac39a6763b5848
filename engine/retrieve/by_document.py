"""One search whose hits are documents: the best chunk of each, and beside it the next best ones and near-copies.

More chunks are fetched until there are enough documents, or the chunks end. Where every document is one chunk and none
is a copy, the first search for chunks has them.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index import near_copies, signatures_of
from aidre.engine.model import Query
from aidre.engine.ports import Reader
from aidre.engine.storage import SIGNATURE_BYTES
from aidre.engine.types import Copies, Hit, RetrievedChunk

Counted: TypeAlias = Literal["chunk", "document", "distinct"]
"""What the hits of a search are: chunks, documents, or documents without near-copies of better ones."""

MAX_PASSAGES: Final = 4
"""Chunks of a document that are shown beside its best one."""
MAX_COPIES: Final = 20
"""Near-copies of a document that are named; all are counted."""
CHUNKS_PER_DOCUMENT: Final = 2
"""Chunks that the first search fetches for each requested document."""
LEAST_DEPTH: Final = 20
"""Chunks that it fetches at least, so that the passages of one document are found, too."""
DEPTH_FACTOR: Final = 4
"""Growth of the number of chunks when a search gave too few documents."""
MAX_DEPTH: Final = 10_000
"""Chunks that are fetched at most, unless CHUNKS_PER_DOCUMENT needs more: one document may have all of them."""
_COMPARED: Final = 64
"""Documents that are compared with all in one step."""
_NO_SIGNATURE: Final = bytes(SIGNATURE_BYTES)


class Documents(NamedTuple):
    """The best chunk of each document, best first; the next best ones of each, and the best ones of the documents that
    are near-copies of it; whether more documents follow."""

    hits: list[Hit]
    passages: list[tuple[Hit, ...]]
    copies: list[tuple[Hit, ...]]
    more: bool


def has_passages(reader: Reader) -> bool:
    """Whether some document has more than one chunk."""
    return reader.chunks != reader.documents


def search_documents(reader: Reader, query: Query, *, collapse: bool) -> Generator[Query, Sequence[Hit], Documents]:
    """The `top_k` best documents after the `offset` best ones. Yields searches for chunks, and is sent their hits.

    With `collapse` a document whose best chunk is a near-copy of that of a better one is a copy of that one.
    """
    end = query.offset + query.top_k
    # Every chunk that passes is a match, unless it has to have a word: then a document more says whether one follows.
    wanted = end + (query.mode == "lexical")
    depth = max(CHUNKS_PER_DOCUMENT * end, LEAST_DEPTH) if has_passages(reader) else wanted
    deepest = max(MAX_DEPTH, depth)
    while True:
        hits = yield replace(query, top_k=depth, offset=0)
        found = _by_document(hits)
        documents = len(found)
        copies: list[tuple[Hit, ...]] = _collapse(found) if collapse else [()] * documents
        is_end = len(hits) < depth or (len(found) <= end and documents >= reader.count_documents(query.filter))
        if is_end or len(found) >= wanted or depth >= deepest:
            chosen = slice(query.offset, end)
            passages = [tuple(group[1 : 1 + MAX_PASSAGES]) for group in found[chosen]]
            more = len(found) > end or not is_end
            return Documents([group[0] for group in found[chosen]], passages, copies[chosen], more)
        depth = min(depth * DEPTH_FACTOR, deepest)


def documents(reader: Reader, query: Query, *, collapse: bool) -> Documents:
    """As `search_documents`, in the caller's thread."""
    steps = search_documents(reader, query, collapse=collapse)
    chunk_query = next(steps)
    while True:
        try:
            chunk_query = steps.send(reader.search(chunk_query))
        except StopIteration as end:
            found: Documents = end.value
            return found


def told_copies(hits: Sequence[Hit]) -> Copies:
    return Copies(len(hits), [hit.chunk.id for hit in hits[:MAX_COPIES]])


def _by_document(hits: Iterable[Hit]) -> list[list[Hit]]:
    """Groups hits by document, in the order of each document's best hit."""
    groups: dict[Hashable, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.chunk.document_key, []).append(hit)
    return list(groups.values())


def _collapse(groups: list[list[Hit]]) -> list[tuple[Hit, ...]]:
    """Removes the documents that are copies of better ones, and returns the copies of each that stays."""
    marks = _signatures([group[0].chunk for group in groups])
    copies: dict[int, list[int]] = {}
    dropped = set[int]()
    for first in range(0, len(groups), _COMPARED):
        alike = near_copies(marks[first : first + _COMPARED], marks)
        if np.count_nonzero(alike) == len(alike):  # each is like itself alone
            continue
        for best, likes in enumerate(alike, first):
            if best not in dropped and marks[best].any():  # short texts have no signature
                copies[best] = [
                    place for place in np.flatnonzero(likes).tolist() if place > best and place not in dropped
                ]
                dropped.update(copies[best])
    if not dropped:
        return [()] * len(groups)
    places = [place for place in range(len(groups)) if place not in dropped]
    found = [tuple(groups[place][0] for place in copies.get(best, ())) for best in places]
    groups[:] = [groups[place] for place in places]
    return found


def _signatures(chunks: Sequence[RetrievedChunk]) -> NDArray[np.uint8]:
    """The stored signatures, and computed ones for texts without; shape (n, SIGNATURE_BYTES)."""
    stored = [chunk.signature for chunk in chunks]
    missing = [place for place, signature in enumerate(stored) if signature is None]
    marks = np.frombuffer(b"".join(signature or _NO_SIGNATURE for signature in stored), np.uint8)
    marks = marks.reshape(len(chunks), SIGNATURE_BYTES)
    if missing:
        marks = marks.copy()
        marks[missing] = signatures_of([chunks[place].text for place in missing])
    return marks
