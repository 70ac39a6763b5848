"""Searches in a collection in Milvus: a `Reader` (engine/ports.py).

It searches the rows that were visible when it was opened. What was deleted since may be gone. Scores are computed here
from the stored vectors, so they are those of local segments. Reads are Bounded: the writer has seen to it that what a
commit record makes visible is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import Unsupported
from aidre.engine.index.fields import Compare, Filter, Kind, ValueRange, filter_digest
from aidre.engine.index.vectors import decode, encode_query
from aidre.engine.model import Query
from aidre.engine.types import CollectionStatus, PlainChunk, RetrievedChunk
from aidre_milvus.catalog import Catalog, Commit
from aidre_milvus.expressions import Expressions, literal
from aidre_milvus.server import Row, Server
from aidre_milvus.tables import (
    CHUNK,
    DOCUMENT,
    FORMAT,
    WITH_BLOBS,
    Extent,
    Tables,
    name_of,
    unpacked_blob,
    unpacked_rows,
    vector_of,
)
from aidre_milvus.words import WordRows, code_of, having_any, newest_counts
from aidre_rows import (
    WITH_WORDS,
    ChunkRow,
    Counted,
    DocumentRow,
    Numbers,
    PendingVector,
    QueryWords,
    RowsReader,
    StoredSpace,
    collection_status,
    index_fields,
    plain_chunk,
)

_FEW_ROWS: Final = 50
"""A filter that lets no more pass is answered by comparing these."""
_EF: Final = 256
_MOST_EF: Final = 32_768
_MOST_FOUND: Final = 16_384
"""Hits of one search; a search for more compares all rows that pass."""
_SLACK: Final = 16
"""Hits that are asked for beyond the wanted ones: of equal scores those with the first ids are wanted."""
_MOST_KNOWN: Final = 256
"""Filters of which a reader remembers the expression and how many rows pass."""
_BLOCK_ROWS: Final = 1_000
_SPAN: Final = 100_000
"""Numbers of rows in which documents are looked for at once."""
_ROW_COLUMNS: Final = ("row", "document", "kind", "pieces", "blob")
_VECTOR_COLUMNS: Final = ("row", "document", "norm", "vector")
_WITH_BLOB: Final = (*_VECTOR_COLUMNS, "blob")
_WITH_WORDS: Final = replace(WITH_WORDS, facets=False)
_MOST_FLOAT: Final = float(np.finfo(np.float32).max) / 1e3


class MilvusReader(RowsReader):
    """A `Reader` of a collection in Milvus."""

    engine = "milvus"

    def __init__(self, server: Server, commit: Commit) -> None:
        super().__init__(commit.state)
        self.server, self.commit = server, commit
        self.tables = Tables(server, commit.state.name, commit.state.lineage)
        if commit.state.format >= FORMAT:
            self.can = _WITH_WORDS
        self._known: dict[tuple[bytes, str], tuple[str, int]] = {}

    # -- search ------------------------------------------------------------------------------------------------

    @contextmanager
    def _searching(self, query: Query, stored: StoredSpace | None, words: QueryWords | None) -> Iterator[MilvusSearch]:
        if query.offset:
            newest = Catalog(self.server).newest(self.collection.name)
            if newest is None or (newest.state.lineage, newest.state.generation) != (self.lineage, self.generation):
                raise self._generation_missing()
        vector = None if query.vector is None or stored is None else encode_query(stored.space, query.vector)
        stored = stored or next(iter(self._state.spaces), None)
        where, passing = self.commit.visible, self.chunks
        if query.filter is not None:
            table = self.tables.words if stored is None else self.tables.space(stored.table)
            where, passing = self._passing(self._resolved(query.filter), table)
        yield MilvusSearch(self, where, words, stored, vector, passing)

    def _frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        found = newest_counts(self.server, self.tables.terms, self.commit, map(code_of, terms))
        counts = {term: found[code]["chunks"] for term in terms if (code := code_of(term)) in found}
        return {term: number for term, number in counts.items() if number}

    def _languages_of(self, chunk_ids: Sequence[str]) -> Mapping[str, str]:
        if not self.can.highlight:
            self._refuse("highlight")
        names = {name_of(one): one for one in chunk_ids}
        where = f"kind == {CHUNK} and digest in {literal(names)} and {self.commit.visible}"
        named = {
            row["row"]: names[row["digest"]] for row in self.server.rows(self.tables.rows, where, ["row", "digest"])
        }
        rows = self.server.rows(self.tables.words, f"row in {literal(named)}", ["row", "language"])
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
        where = f"kind == {DOCUMENT} and {self.commit.visible}" if of_documents else self.commit.visible
        if filter_ is None:
            return where, self.documents if of_documents else self.chunks
        key = filter_digest(filter_), table
        known = self._known.get(key)
        if known is None:
            sure, possible = Expressions(self.commit.has_wide).of(filter_)
            if sure != possible:
                sure = f"{sure} or document in {literal(self._verified(filter_, sure, possible))}"
            made = f"{where} and ({sure})"
            known = made, self.server.count(table, made)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = known
        return known

    def _verified(self, filter_: Filter, sure: str, possible: str) -> list[int]:
        """The documents that pass among those that may."""
        unsure = f"kind == {DOCUMENT} and {self.commit.visible} and ({possible}) and not ({sure})"
        verified: list[int] = []
        for block in self._documents(unsure):
            mask = index_fields([document for _, document in block], self.dates).mask(filter_)
            verified += [number for (number, _), passes in zip(block, mask.tolist(), strict=True) if passes]
        return verified

    def _find_field(self, name: str) -> bool:
        return self._passing(Compare(name, "exists", True), self.tables.rows)[1] > 0

    def count(self, filter: Filter | None = None) -> int:
        if filter is None or not self._state.spaces:
            return self.chunks
        return self._passing(self._resolved(filter), self.tables.space(self._state.spaces[0].table))[1]

    def count_documents(self, filter: Filter | None = None) -> int:
        return self.documents if filter is None else self._passing(self._resolved(filter), self.tables.rows)[1]

    def _counts(
        self, field: str, filter: Filter | None, words: QueryWords | None, ranges: Sequence[ValueRange]
    ) -> Counted:
        """Milvus groups nothing: the documents are read."""
        counts: Counter[tuple[Kind, Any]] = Counter()
        documents, present, within, instants = 0, 0, np.zeros(len(ranges), np.int64), list[int]()
        for block in self._documents(self._passing(filter, self.tables.rows)[0], words):
            fields = index_fields([document for _, document in block], self.dates)
            documents += len(block)
            present += int(np.count_nonzero(fields.mask(Compare(field, "exists", True))))
            within += np.array([np.count_nonzero(fields.within(field, one)) for one in ranges], np.int64)
            instants += fields.bounds(field, "date", None) or ()
            for kind, values, numbers, dictionary in fields.counts(field, None):
                for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
                    shown = bool(value) if kind == "bool" else value
                    if kind == "string":
                        shown = dictionary[value].decode("utf-8", "surrogatepass")
                    counts[kind, shown] += number
        ends = (min(instants), max(instants)) if instants else (None, None)
        return Counted(counts, documents, documents - present, tuple(within.tolist()), ends)

    # -- chunks and documents ----------------------------------------------------------------------------------

    def scan(self, filter: Filter | None = None, *, start: int = 0) -> Iterator[PlainChunk]:
        """Of the documents at the time of the call; those that are deleted meanwhile may be left out."""
        extents = self.extents(self._passing(self._resolved(filter), self.tables.rows)[0])
        return islice((chunk for _, chunk in self.numbered(extents)), start, None)

    def get(self, chunk_id: str) -> PlainChunk | None:
        found = self._named(CHUNK, chunk_id)
        chunks = self.chunks_by_number({row["row"]: row["document"] for row in found}, {})
        return next(iter(chunks.values()), None)

    def document(self, document_id: str) -> list[PlainChunk]:
        found = self._named(DOCUMENT, document_id)
        return [chunk for _, chunk in self.numbered([Extent(row["document"], row["extent"]) for row in found])]

    def _named(self, kind: int, name: str) -> list[Row]:
        where = f"kind == {literal(kind)} and digest == {literal(name_of(name))} and {self.commit.visible}"
        return self.server.rows(self.tables.rows, where, ["row", "document", "extent"])

    def chunk_counts(self) -> Mapping[int, int]:
        where = self._passing(None, self.tables.rows)[0]
        return Counter(row["chunks"] for row in self.spans(self.tables.rows, where, ["chunks"]))

    def status(self) -> CollectionStatus:
        spaces = [(stored.space, stored.table) for stored in self._state.spaces]
        return collection_status(self._state, self.tables.sizes(spaces, self.chunks), 0)

    # -- for a writer ------------------------------------------------------------------------------------------

    def extents(self, where: str) -> list[Extent]:
        """The documents of an expression, in order."""
        found = self.spans(self.tables.rows, where, ["document", "extent"])
        return sorted(Extent(row["document"], row["extent"]) for row in found)

    def numbered(self, extents: Sequence[Extent]) -> Iterator[tuple[int, PlainChunk]]:
        """The chunks of documents with their numbers, in order."""
        for block in _extent_blocks(extents):
            rows = self._rows_of(block)
            documents = {row["row"]: row["document"] for row in rows if row["kind"] == CHUNK}
            yield from sorted(self.chunks_by_number(documents, {}, rows).items())

    def records(self, extents: Sequence[Extent]) -> Iterator[tuple[int, DocumentRow, list[tuple[int, ChunkRow]]]]:
        """Number, document and numbered chunks."""
        for block in _extent_blocks(extents):
            made: list[tuple[int, DocumentRow, list[tuple[int, ChunkRow]]]] = []
            for row, value in unpacked_rows(self._rows_of(block)):
                if isinstance(value, DocumentRow):
                    made.append((row["row"], value, []))
                else:
                    made[-1][2].append((row["row"], value))
            yield from made

    def vectors(self, stored: StoredSpace, numbers: Sequence[int]) -> dict[int, PendingVector]:
        """By the numbers of chunks."""
        table, columns = self.tables.space(stored.table), ["row", "norm", "key", "vector"]
        return {
            row["row"]: vector_of(stored.space, row)
            for block in _blocks(numbers)
            for row in self.server.rows(table, f"row in {literal(block)}", columns)
        }

    # -- inside ------------------------------------------------------------------------------------------------

    def spans(self, table: str, where: str, columns: list[str]) -> Iterator[Row]:
        """Rows of a table in parts: an answer of Milvus has a greatest size."""
        for first in range(1, self._state.next_row, _SPAN):
            span = f"row >= {literal(first)} and row < {literal(first + _SPAN)} and {where}"
            yield from self.server.rows(table, span, columns)

    def _documents(self, where: str, words: QueryWords | None = None) -> Iterator[list[tuple[int, DocumentRow]]]:
        """The documents of an expression without their chunks, in blocks, with their numbers; with `words` those that
        have one of them in a chunk."""
        numbers = [extent.document for extent in self.extents(where)]
        if words is not None:
            having = f"{self.commit.visible} and {having_any(words.terms)}"
            rows = self.spans(self.tables.words, having, ["document"]) if words.terms else ()
            numbers = sorted({row["document"] for row in rows}.intersection(numbers))
        for block in _blocks(numbers):
            found = [(row["row"], cast(DocumentRow, value)) for row, value in self.whole(block)]
            if found:
                yield found

    def _rows_of(self, extents: Iterable[Extent]) -> list[Row]:
        numbers = [number for one in extents for number in range(one.document, one.document + one.rows)]
        rows = self.server.rows(self.tables.rows, f"row in {literal(numbers)}", list(_ROW_COLUMNS))
        return sorted(rows, key=_number)

    def whole(self, numbers: Sequence[int]) -> Iterator[tuple[Row, DocumentRow | ChunkRow]]:
        """Documents and chunks by their numbers, with what goes on in the rows after them."""
        for block in _blocks(numbers):
            rows = self._rows_of(Extent(number, 1) for number in block)
            longer = [Extent(row["row"] + 1, row["pieces"] - 1) for row in rows if row["pieces"] > 1]
            for more in _extent_blocks(longer):
                rows += self._rows_of(more)
            yield from unpacked_rows(sorted(rows, key=_number))

    def chunks_by_number(
        self,
        documents: Mapping[int, int],
        vectors: Mapping[int, Mapping[int, Row]],
        rows: Sequence[Row] | None = None,
    ) -> dict[int, PlainChunk]:
        """Chunks by their numbers, of which the numbers of their documents are given. `vectors` are rows of spaces by
        table and number, `rows` those of the documents, where they are at hand."""
        found: dict[int, DocumentRow | ChunkRow] = {}
        for number, row in ((n, of[n]) for of in vectors.values() for n in documents if of[n].get("blob")):
            found[documents[number]], found[number] = unpacked_blob(row["blob"])
        names = sorted({*documents, *documents.values()} - found.keys())
        found |= {row["row"]: value for row, value in (unpacked_rows(rows) if rows else self.whole(names))}
        by_space = {}
        for stored in self._state.spaces:
            given = vectors.get(stored.table)
            if given is None:
                by_space[stored.space.id] = self.vectors(stored, list(documents))
            else:
                by_space[stored.space.id] = {number: vector_of(stored.space, given[number]) for number in documents}
        made = {}
        for number, document in documents.items():
            if number not in found or document not in found or any(number not in of for of in by_space.values()):
                continue
            decoded = {
                space: decode(of[number].codes[np.newaxis], np.array([of[number].norm], np.float32))[0]
                for space, of in by_space.items()
            }
            chunk, of_document = cast(ChunkRow, found[number]), cast(DocumentRow, found[document])
            made[number] = plain_chunk(document, of_document, chunk, decoded)
        return made


@dataclass(frozen=True, slots=True)
class MilvusSearch(WordRows):
    """A `Search` (aidre_rows.lacking) among the rows that an expression selects, of which there are `passing`. `stored`
    is None where the collection has no space."""

    reader: MilvusReader
    stored: StoredSpace | None
    vector: NDArray[np.float32] | None
    passing: int
    rows: dict[int, Row] = field(default_factory=dict, kw_only=True)
    """Those of the space that were found, by number."""

    @property
    def table(self) -> str:
        return self.reader.tables.space(self._stored.table)

    @property
    def columns(self) -> tuple[str, ...]:
        return _WITH_BLOB if self.reader.commit.state.format >= WITH_BLOBS else _VECTOR_COLUMNS

    def nearest(self, n: int) -> tuple[Numbers, NDArray[Any]]:
        found: list[Row] = []
        if 0 < self.passing <= _FEW_ROWS:
            found = self.reader.server.rows(self.table, self.where, self.columns)
        elif self.passing and n + _SLACK <= _MOST_FOUND and float(np.abs(self._vector).max()) < _MOST_FLOAT:
            found = self._through_graph(n + _SLACK)
        if len(found) < min(n, self.passing):
            found = list(self._compared())
        self.rows.update({int(row["row"]): row for row in found})
        numbers = np.array(sorted({int(row["row"]) for row in found}), np.int64)
        return numbers, self.codes_of(numbers)

    def codes_of(self, numbers: Numbers) -> NDArray[Any]:
        missing = [number for number in numbers.tolist() if number not in self.rows]
        for block in _blocks(missing):
            where = f"row in {literal(block)}"
            self.rows.update({int(row["row"]): row for row in self.reader.server.rows(self.table, where, self.columns)})
        space = self._stored.space
        codes = [vector_of(space, self.rows[number]).codes for number in numbers.tolist()]
        return np.stack(codes) if codes else np.empty((0, space.dimensions), np.float32)

    def chunks_of(self, numbers: Numbers) -> Mapping[int, RetrievedChunk]:
        """Without those whose document was deleted meanwhile: it may have gone between two requests."""
        if self.stored is None:
            words = zip(numbers.tolist(), self.words_of(numbers), strict=True)
            return self.reader.chunks_by_number({number: row["document"] for number, row in words if row}, {})
        self.codes_of(numbers)
        documents = {number: int(self.rows[number]["document"]) for number in numbers.tolist()}
        return self.reader.chunks_by_number(documents, {self.stored.table: self.rows})

    def _through_graph(self, n: int) -> list[Row]:
        """The nearest rows as the graph finds them: the fewer pass, the more it has to look at."""
        share = self.passing / max(self.reader.chunks, 1)
        [hits] = self.reader.server.call(
            "search",
            self.table,
            data=[self._vector[0].tolist()],
            anns_field="vector",
            limit=n,
            filter=self.where,
            search_params={"params": {"ef": int(min(max(_EF, 2 * n) / share, _MOST_EF))}},
            output_fields=list(self.columns),
            consistency_level="Bounded",
        )
        return [hit["entity"] for hit in hits]

    def _compared(self) -> Iterator[Row]:
        """All rows that pass, with their vectors."""
        numbers = sorted(row["row"] for row in self.reader.spans(self.table, self.where, ["row"]))
        for block in _blocks(numbers):
            yield from self.reader.server.rows(self.table, f"row in {literal(block)}", self.columns)

    @property
    def _vector(self) -> NDArray[np.float32]:
        assert self.vector is not None
        return self.vector

    @property
    def _stored(self) -> StoredSpace:
        assert self.stored is not None
        return self.stored


def _number(row: Row) -> int:
    return int(row["row"])


def _blocks(numbers: Sequence[int]) -> Iterator[list[int]]:
    return (list(numbers[first : first + _BLOCK_ROWS]) for first in range(0, len(numbers), _BLOCK_ROWS))


def _extent_blocks(extents: Iterable[Extent]) -> Iterator[list[Extent]]:
    """In order, so many that one request answers them; a document of more rows has a block of its own."""
    block: list[Extent] = []
    size = 0
    for extent in extents:
        if block and size + extent.rows > _BLOCK_ROWS:
            yield block
            block, size = [], 0
        block.append(extent)
        size += extent.rows
    if block:
        yield block
