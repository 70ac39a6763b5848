"""Splits documents into chunks ahead of their use: while one batch is embedded, the next is read and chunked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from time import monotonic
from typing import TypeAlias

from aidre.engine.model import Chunk, Document
from aidre.ingest.prefetch import prefetch
from aidre.ingest.records import Item

Chunks: TypeAlias = tuple[Chunk, ...]

_QUEUED_SLABS = 16
_SLAB_DOCUMENTS = 32
_SLAB_CHARACTERS = 1 << 15
_SLAB_SECONDS = 1.0
"""Queue depth and slab limits: a slab is about 1/8 of an embedding batch, or a second's work."""


class Prechunker:
    """Not `in_advance`, documents are split when their chunks are requested: few documents of a later run need it."""

    def __init__(self, split: Callable[[Document], Chunks], *, in_advance: bool) -> None:
        self._split, self._in_advance = split, in_advance
        self._ready: dict[int, tuple[Document, Chunks]] = {}
        """By `id()` of a document; the document is held so that its id is not used again."""

    def stream(self, items: Iterable[Item]) -> Iterator[Item]:
        """The same items in order; in advance, another thread reads them and splits their documents."""
        if not self._in_advance:
            yield from items
            return
        with closing(prefetch(self._slabs(items), _QUEUED_SLABS)) as slabs:
            for slab in slabs:
                for item, chunks in slab:
                    if chunks is not None and isinstance(item, tuple):
                        self._ready[id(item[1])] = item[1], chunks
                    yield item

    def chunks(self, document: Document) -> Chunks:
        """The chunks of a document, which are not kept for a second call."""
        ready = self._ready.pop(id(document), None)
        return self._split(document) if ready is None else ready[1]

    def clear(self) -> None:
        """Free chunks that nothing requested: those of unchanged documents."""
        self._ready.clear()

    def _slabs(self, items: Iterable[Item]) -> Iterator[list[tuple[Item, Chunks | None]]]:
        slab: list[tuple[Item, Chunks | None]] = []
        characters, started = 0, monotonic()
        for item in items:
            document = item[1] if isinstance(item, tuple) else None
            has_text = document is not None and not document.vectors and not document.text.isspace()
            slab.append((item, self._split(document) if document is not None and has_text else None))
            characters += len(document.text) if document is not None else 0
            if len(slab) >= _SLAB_DOCUMENTS or characters >= _SLAB_CHARACTERS or monotonic() - started >= _SLAB_SECONDS:
                yield slab
                slab, characters, started = [], 0, monotonic()
        yield slab
