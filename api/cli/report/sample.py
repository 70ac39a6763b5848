"""The sample that a report judges a collection by, drawn in one pass and the same for the same store.

Lengths are compared over all chunks of local segments, without reading their text. Of an engine on another machine only
the first chunks in its own order are read, because reading all of them would copy the collection over the network.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from aidre.engine.ports import Reader
from aidre.engine.types import RetrievedChunk

MAX_TEXTS: Final = 5_000
"""Chunks whose text is read."""
MAX_DOCUMENTS: Final = 1_000
MAX_SCANNED: Final = 4_000_000
"""Chunks that are scanned for the longest and the shortest, some seconds of work; of more every n-th one."""
_EXTREMES: Final = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """`scanned` of the collection's `total` chunks were compared by length; the text of `chunks` is looked at.

    `documents` has the first scanned chunk of each sampled document. `is_head` says that the first chunks were taken,
    instead of chunks from everywhere.
    """

    total: int
    scanned: int
    chunks: tuple[RetrievedChunk, ...]
    documents: tuple[RetrievedChunk, ...]
    longest: tuple[RetrievedChunk, ...]
    shortest: tuple[RetrievedChunk, ...]
    is_head: bool


class _Reservoir:
    """A uniform sample of a stream of unknown length (Vitter's algorithm R)."""

    def __init__(self, size: int) -> None:
        self.kept: list[tuple[int, RetrievedChunk]] = []
        self._size, self._seen, self._random = size, 0, random.Random(0)

    def add(self, chunk: RetrievedChunk) -> None:
        number, self._seen = self._seen, self._seen + 1
        if number < self._size:
            self.kept.append((number, chunk))
            return
        place = int(self._random.random() * self._seen)  # `randrange` would cost half of the scan
        if place < self._size:
            self.kept[place] = (number, chunk)

    def in_order(self) -> tuple[RetrievedChunk, ...]:
        return tuple(chunk for _, chunk in sorted(self.kept, key=lambda entry: entry[0]))


def draw(reader: Reader) -> Sample:
    """At most MAX_TEXTS chunks and MAX_DOCUMENTS documents."""
    texts, documents = _Reservoir(MAX_TEXTS), _Reservoir(MAX_DOCUMENTS)
    longest: list[tuple[int, int, RetrievedChunk]] = []
    shortest: list[tuple[int, int, RetrievedChunk]] = []
    last_document: object = None
    scanned = 0
    for scanned, chunk in enumerate(_scanned(reader), 1):
        start, end = chunk.span
        _keep(longest, end - start, scanned, chunk)
        _keep(shortest, start - end, scanned, chunk)
        texts.add(chunk)
        document = chunk.document_key
        if document != last_document:
            documents.add(chunk)
            last_document = document
    return Sample(
        reader.chunks,
        scanned,
        texts.in_order(),
        documents.in_order(),
        tuple(chunk for _, _, chunk in sorted(longest, key=lambda entry: (-entry[0], entry[1]))),
        tuple(chunk for _, _, chunk in sorted(shortest, key=lambda entry: (-entry[0], entry[1]))),
        is_head=reader.waits and scanned < reader.chunks,
    )


def _scanned(reader: Reader) -> Iterator[RetrievedChunk]:
    if reader.waits:
        return islice(reader.scan(), MAX_TEXTS)
    return islice(reader.scan(), 0, None, max(1, -(-reader.chunks // MAX_SCANNED)))


def _keep(heap: list[tuple[int, int, RetrievedChunk]], value: int, number: int, chunk: RetrievedChunk) -> None:
    """Keep the largest values; of equal ones the first."""
    if len(heap) < _EXTREMES:
        heapq.heappush(heap, (value, -number, chunk))
    elif value > heap[0][0]:
        heapq.heapreplace(heap, (value, -number, chunk))
