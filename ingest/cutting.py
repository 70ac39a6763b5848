"""Cuts documents into chunks before they are asked for: while some are embedded, the next are read and cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from time import monotonic
from typing import TypeAlias

from aidre.engine.model import Chunk, Document
from aidre.ingest.ahead import ahead
from aidre.ingest.found import Found

Chunks: TypeAlias = tuple[Chunk, ...]

_SLABS = 16
_DOCUMENTS = 32
_CHARACTERS = 1 << 15
_SECONDS = 1.0
"""What is handed over at once, of which so many wait: an eighth of what is embedded at once, or a second's work."""


class Cutter:
    """Where not `in_advance`, documents are cut when they are asked for: of a later run few are."""

    def __init__(self, cut: Callable[[Document], Chunks], *, in_advance: bool) -> None:
        self._cut, self._in_advance = cut, in_advance
        self._known: dict[int, tuple[Document, Chunks]] = {}

    def stream(self, found: Iterable[Found]) -> Iterator[Found]:
        """The same in order; what needs cutting is cut in another thread."""
        if not self._in_advance:
            yield from found
            return
        with closing(ahead(self._slabs(found), _SLABS)) as slabs:
            for slab in slabs:
                for each, chunks in slab:
                    if chunks is not None and isinstance(each, tuple):
                        self._known[id(each[1])] = each[1], chunks
                    yield each

    def chunks(self, document: Document) -> Chunks:
        """The chunks of a document, which are forgotten here."""
        known = self._known.pop(id(document), None)
        return self._cut(document) if known is None else known[1]

    def forget(self) -> None:
        """Let go of documents that were cut for nothing."""
        self._known.clear()

    def _slabs(self, found: Iterable[Found]) -> Iterator[list[tuple[Found, Chunks | None]]]:
        slab: list[tuple[Found, Chunks | None]] = []
        characters, began = 0, monotonic()
        for each in found:
            document = each[1] if isinstance(each, tuple) else None
            is_text = document is not None and not document.vectors and not document.text.isspace()
            slab.append((each, self._cut(document) if document is not None and is_text else None))
            characters += len(document.text) if document is not None else 0
            if len(slab) >= _DOCUMENTS or characters >= _CHARACTERS or monotonic() - began >= _SECONDS:
                yield slab
                slab, characters, began = [], 0, monotonic()
        yield slab
