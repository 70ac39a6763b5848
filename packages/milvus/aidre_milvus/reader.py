"""Searches in a collection in Milvus: a `Reader` (engine/ports.py).

It searches the rows that were visible when it was opened. What was deleted since may be gone. Scores are computed here
from the stored vectors, so they are those of local segments. Reads are Bounded: the writer has seen to it that what a
commit record makes visible is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import Unsupported
from aidre.engine.index.fields import Compare, Filter, ValueRange, filter_digest
from aidre.engine.model import Query
from aidre.engine.search import FacetPart, count_facet
from aidre.engine.segment import BoundedCache
from aidre.engine.types import CollectionStatus, Facet, PlainChunk
from aidre_milvus.catalog import Commit, MilvusCatalog
from aidre_milvus.expressions import Expressions, literal
from aidre_milvus.search import MilvusSearch
from aidre_milvus.server import MilvusDatabase, blocks
from aidre_milvus.stored import BLOCK_ROWS, MilvusRows
from aidre_milvus.tables import CHUNK, DOCUMENT, FORMAT, RowExtent, name_of
from aidre_milvus.words import code_of, having_any, newest_counts
from aidre_rows import WITH_WORDS, DocumentRow, QueryWords, RowsReader, StoredSpace, collection_status, index_fields

_MOST_KNOWN: Final = 256
"""Filters of which a reader remembers the expression and how many rows pass."""
_WITH_WORDS: Final = replace(WITH_WORDS, facets=False)


class MilvusReader(RowsReader):
    """A `Reader` of a collection in Milvus."""

    engine = "milvus"

    def __init__(self, server: MilvusDatabase, commit: Commit) -> None:
        super().__init__(commit.state)
        self.server, self.commit, self.rows = server, commit, MilvusRows(server, commit)
        self.tables = self.rows.tables
        if commit.state.format >= FORMAT:
            self.can = _WITH_WORDS
        self._known = BoundedCache[tuple[bytes, str], tuple[str, int]](_MOST_KNOWN)

    # -- search ------------------------------------------------------------------------------------------------

    @contextmanager
    def _searching(
        self, query: Query, stored: StoredSpace | None, vector: NDArray[np.float32] | None, words: QueryWords | None
    ) -> Iterator[MilvusSearch]:
        if query.offset:
            newest = MilvusCatalog(self.server).newest(self.collection.name)
            if newest is None or (newest.state.lineage, newest.state.generation) != (self.lineage, self.generation):
                raise self._generation_missing()
        stored = stored or next(iter(self._state.spaces), None)
        table = self.tables.words if stored is None else self.tables.space(stored.table)
        where, passing = self._passing(self._resolved(query.filter), table)
        yield MilvusSearch(self.rows, where, passing, self.chunks, words, stored, vector)

    def _frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        found = newest_counts(self.server, self.tables.terms, self.commit, map(code_of, terms))
        counts = {term: found[code]["chunks"] for term in terms if (code := code_of(term)) in found}
        return {term: number for term, number in counts.items() if number}

    def _languages_of(self, chunk_ids: Sequence[str]) -> Mapping[str, str]:
        if not self.can.highlight:
            self._refuse("highlight")
        names = {name_of(chunk_id): chunk_id for chunk_id in chunk_ids}
        named = {row["row"]: names[row["digest"]] for row in self.rows.named(CHUNK, list(names))}
        rows = self.rows.by_number(self.tables.words, list(named), ["row", "language"])
        return {named[row["row"]]: row["language"] for row in rows}

    def _refuse(self, capability: str) -> NoReturn:
        if getattr(self.can, capability) or not getattr(_WITH_WORDS, capability):
            super()._refuse(capability)
        raise Unsupported(
            f"collection {self.collection.name!r} has no words in Milvus, so it lacks the capability {capability}: "
            "write it anew on Milvus 2.5 or later",
            capability=capability,
        )

    # -- filters -----------------------------------------------------------------------------------------------

    def _passing(self, filter_: Filter | None, table: str) -> tuple[str, int]:
        """The visible rows of a table whose documents pass a filter of `_resolved`, as an expression, and how many they
        are. Of the rows of documents and chunks, those of documents."""
        of_documents = table == self.tables.rows
        where = self.rows.documents_visible if of_documents else self.commit.visible
        if filter_ is None:
            return where, self.documents if of_documents else self.chunks
        key = filter_digest(filter_), table
        known = self._known.get(key)
        if known is None:
            sure, possible = Expressions(self.commit.has_wide).of(filter_)
            if sure != possible:
                sure = f"{sure} or document in {literal(self._verified(filter_, sure, possible))}"
            made = f"{where} and ({sure})"
            known = self._known.add(key, (made, self.server.count(table, made)))
        return known

    def _verified(self, filter_: Filter, sure: str, possible: str) -> list[int]:
        """The documents that pass among those that may."""
        unsure = f"{self.rows.documents_visible} and ({possible}) and not ({sure})"
        verified: list[int] = []
        for numbers, documents in self._documents(unsure):
            mask = index_fields(documents, self.dates).mask(filter_)
            verified += [number for number, passes in zip(numbers, mask.tolist(), strict=True) if passes]
        return verified

    def _find_field(self, name: str) -> bool:
        return self._passing(Compare(name, "exists", True), self.tables.rows)[1] > 0

    def count(self, filter: Filter | None = None) -> int:
        if filter is None or not self._state.spaces:
            return self.chunks
        return self._passing(self._resolved(filter), self.tables.space(self._state.spaces[0].table))[1]

    def count_documents(self, filter: Filter | None = None) -> int:
        return self._passing(self._resolved(filter), self.tables.rows)[1]

    def _facet(
        self,
        field: str,
        filter: Filter | None,
        words: QueryWords | None,
        limit: int | None,
        ranges: Sequence[ValueRange],
    ) -> Facet:
        """Milvus groups nothing: the documents are read."""
        found = self._documents(self._passing(filter, self.tables.rows)[0], words)
        parts = (FacetPart(index_fields(documents, self.dates), None, len(documents)) for _, documents in found)
        return count_facet(parts, field, limit, ranges)

    def _documents(self, where: str, words: QueryWords | None = None) -> Iterator[tuple[list[int], list[DocumentRow]]]:
        """The documents of an expression without their chunks, in blocks, with their numbers; with `words` those that
        have one of them in a chunk."""
        numbers = [extent.document for extent in self.rows.extents(where)]
        if words is not None:
            having = f"{self.commit.visible} and {having_any(words.terms)}"
            rows = self.rows.spans(self.tables.words, having, ["document"]) if words.terms else ()
            numbers = sorted({row["document"] for row in rows}.intersection(numbers))
        for block in blocks(numbers, BLOCK_ROWS):
            found = list(self.rows.whole(block))
            if found:
                yield [row["row"] for row, _ in found], [cast(DocumentRow, value) for _, value in found]

    # -- chunks and documents ----------------------------------------------------------------------------------

    def scan(self, filter: Filter | None = None, *, start: int = 0) -> Iterator[PlainChunk]:
        """Of the documents at the time of the call; those that are deleted meanwhile may be left out."""
        extents = self.rows.extents(self._passing(self._resolved(filter), self.tables.rows)[0])
        return islice((chunk for _, chunk in self.rows.numbered(extents)), start, None)

    def get(self, chunk_id: str) -> PlainChunk | None:
        found = self.rows.named(CHUNK, [name_of(chunk_id)])
        return next(iter(self.rows.chunks({row["row"]: row["document"] for row in found}, {}).values()), None)

    def document(self, document_id: str) -> list[PlainChunk]:
        found = self.rows.named(DOCUMENT, [name_of(document_id)])
        return [chunk for _, chunk in self.rows.numbered(RowExtent(row["document"], row["extent"]) for row in found)]

    def chunk_counts(self) -> Mapping[int, int]:
        rows = self.rows.spans(self.tables.rows, self.rows.documents_visible, ["chunks"])
        return Counter(row["chunks"] for row in rows)

    def status(self) -> CollectionStatus:
        spaces = [(stored.space, stored.table) for stored in self._state.spaces]
        return collection_status(self._state, self.tables.sizes(spaces, self.chunks), 0)
