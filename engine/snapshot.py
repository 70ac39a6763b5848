"""One generation opened by memory map: everything read goes through it. Immutable, shared by threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine import lexical
from aidre.engine.deletes import read_deletes
from aidre.engine.errors import InvalidInput, SpaceMissing
from aidre.engine.feed import ChangesPage, Place, read_changes
from aidre.engine.filters import RESERVED, Filter, fields_of, with_dates
from aidre.engine.fuse import Hybrid, can_fuse
from aidre.engine.manifest import Manifest, SegmentEntry, SpaceState
from aidre.engine.model import Json, Query
from aidre.engine.parts import Part, Parts, Ranked
from aidre.engine.reach import Reach, reach_for
from aidre.engine.schema import SEGMENTS, vectors_file
from aidre.engine.search import search, search_all
from aidre.engine.segment import Segment, StoredChunk
from aidre.engine.vectors import encode_query
from aidre.engine.words import Words

_FEW_ROWS = 100_000
_REMEMBERED = 1_000
"""Numbers of results up to this one are not reckoned twice."""
_OPENED_AT_ONCE = 4
"""Segments that are opened at the same time, where they are of many rows."""


class Hit(NamedTuple):
    """What is found: a chunk and its score, larger is better."""

    chunk: StoredChunk
    score: float


class Snapshot:
    """A generation of a collection. `warnings` name derived files that were rebuilt in memory or bypassed."""

    def __init__(self, folder: Path, manifest: Manifest, previous: Snapshot | None = None) -> None:
        self._folder = folder
        self.manifest = manifest
        self.collection = manifest.collection
        self.generation = manifest.generation
        self.lineage = manifest.lineage
        self.documents = manifest.documents
        self.chunks = manifest.chunks
        self.parts = _open_parts(folder, manifest, previous)
        self.warnings = tuple(warning for part in self.parts for warning in part.segment.warnings)
        self._statistics = lexical.Statistics(self.parts)
        self._known_fields: dict[str, bool] = {}
        self._object_fields: dict[str, bool] = {}
        self._reaches: dict[tuple[str, int], Reach | None] = {}
        self._spaces = {state.space.id: state for state in manifest.spaces if state.state == "live"}

    def space(self, space_id: str) -> SpaceState:
        """A live space with its calibration; SpaceMissing."""
        try:
            return self._spaces[space_id]
        except KeyError:
            raise SpaceMissing(
                f"collection {self.collection.name!r} has no embedding space {space_id!r}",
                embedding_space=space_id,
            ) from None

    def search(self, query: Query) -> list[Hit]:
        """Hits ordered by (-score, chunk id).

        SpaceMissing, DimensionMismatch, InvalidVector, InvalidFilter; InvalidInput for a query that wants no hits or
        lacks what its mode goes by, or for a hybrid one in a space of vectors of any length.
        """
        wanted, only = _wanted(query), self._dated(query.filter)
        if query.mode == "dense":
            ranked = self._dense(query, wanted, only)
        elif query.text is None:
            raise InvalidInput(f"a {query.mode} search needs text")
        elif query.mode == "lexical":
            ranked = lexical.search(self.parts, self._statistics, query.text, wanted=wanted, only=only)
        else:
            ranked = self._hybrid(query, query.text, wanted, only)
        return self._hits(ranked, query.offset)

    def search_all(self, queries: Sequence[Query]) -> list[list[Hit]]:
        """The hits of each; dense queries that differ in their vector alone share the way over the codes.

        The errors of `search`, whichever query they come from.
        """
        first = queries[0]
        if len(queries) == 1 or first.mode != "dense" or not all(_alike(query, first) for query in queries[1:]):
            return [self.search(query) for query in queries]
        vectors = np.concatenate([self._asked(query.space, query.vector)[1] for query in queries])
        state, wanted = self.space(first.space or ""), _wanted(first)
        reach, only = self._reach(state, wanted), self._dated(first.filter)
        found = search_all(self.parts, state.space.id, vectors, wanted=wanted, reach=reach, only=only)
        return [self._hits(ranked, first.offset) for ranked in found]

    def _hits(self, ranked: Ranked, offset: int) -> list[Hit]:
        segments = [self.parts[place].segment for place in ranked.parts[offset:].tolist()]
        chunks = map(StoredChunk, segments, ranked.rows[offset:].tolist())
        return list(map(Hit, chunks, ranked.scores[offset:].tolist()))

    def _dense(self, query: Query, wanted: int, only: Filter | None) -> Ranked:
        state, vector = self._asked(query.space, query.vector)
        reach = self._reach(state, wanted)
        return search(self.parts, state.space.id, vector, wanted=wanted, reach=reach, only=only)

    def _hybrid(self, query: Query, text: str, wanted: int, only: Filter | None) -> Ranked:
        state, vector = self._asked(query.space, query.vector)
        if not can_fuse(state.space):
            raise InvalidInput(
                f"embedding space {state.space.id!r} cannot be searched hybrid: its scores have no common scale; "
                "use mode dense or lexical"
            )
        hybrid = Hybrid(self.parts, self._statistics, text, query.fusion, only)
        second = query.rescore
        ranked = hybrid.search(
            state.space,
            vector,
            wanted=wanted if second is None else max(wanted, second.depth),
            reach_for=lambda results: self._reach(state, results),
        )
        if second is not None:
            other, closer = self._asked(second.space, second.vector)
            ranked = hybrid.rescored(ranked, other.space, closer, second.depth)
        return Ranked(ranked.parts[:wanted], ranked.rows[:wanted], ranked.scores[:wanted])

    def _reach(self, state: SpaceState, wanted: int) -> Reach | None:
        if wanted > _REMEMBERED:
            return reach_for(state.calibration, wanted)
        key = state.space.id, wanted
        if key not in self._reaches:
            self._reaches[key] = reach_for(state.calibration, wanted)
        return self._reaches[key]

    def _asked(
        self, space_id: str | None, vector: NDArray[np.float32] | Sequence[float] | None
    ) -> tuple[SpaceState, NDArray[np.float32]]:
        if space_id is None or vector is None:
            raise InvalidInput("a dense or hybrid search needs a space and a vector")
        state = self.space(space_id)
        return state, encode_query(state.space, vector)

    def count(self, wanted: Filter | None = None) -> int:
        """Live chunks that pass the filter. InvalidFilter."""
        if wanted is None:
            return self.chunks
        only = self._dated(wanted)
        return sum(part.allowed(only).count for part in self.parts)

    def _dated(self, wanted: Filter | None) -> Filter | None:
        """The filter with the fields that this collection declares as dates compared as instants."""
        return None if wanted is None else with_dates(wanted, self.manifest.dates)

    def get(self, chunk_id: str) -> StoredChunk | None:
        for part in reversed(self.parts):
            row = part.segment.find_chunk(chunk_id)
            if row is not None:
                chunk = StoredChunk(part.segment, row)
                if part.is_live(chunk.document_row):
                    return chunk
        return None

    def document(self, document_id: str) -> list[StoredChunk]:
        """The chunks of a document in their order; empty where it is not live."""
        part, document_row = self.find_documents([document_id])[0].tolist()
        if part < 0:
            return []
        segment = self.parts[part].segment
        return [StoredChunk(segment, row) for row in segment.chunk_rows(document_row)]

    def chunk_counts(self) -> NDArray[np.int32]:
        """How many chunks each live document has, in no order."""
        counts = [np.zeros(0, np.int32)]
        for part in self.parts:
            stored = part.segment.chunk_counts
            of_part = np.ones(part.segment.entry.documents, np.int32) if stored is None else stored
            counts.append(of_part if part.deleted is None else of_part[~part.deleted])
        return np.concatenate(counts)

    def changes(self, place: Place | None, limit: int) -> ChangesPage:
        """What a client at `place` has to be told next; all chunks first where that is None. HistoryMissing."""
        return read_changes(self._folder, self.manifest, self.parts, place, limit)

    def fields(self) -> frozenset[str]:
        """Names of the fields, reserved ones aside, that any document carries, deleted ones too."""
        return frozenset().union(*(part.segment.fields.names for part in self.parts))

    def words(self, name: str) -> list[Words]:
        """The different strings of a field, segment by segment, those of deleted documents too."""
        return [part.segment.fields.words(name) for part in self.parts]

    def unknown_fields(self, wanted: Filter) -> tuple[str, ...]:
        """The fields a filter names that no live document has, in order: as fields that are missing they match nothing.

        A name stands as `filters.field_name` gives it.
        """
        return tuple(sorted(name for name in fields_of(wanted) if name not in RESERVED and not self._has_field(name)))

    def _has_field(self, name: str) -> bool:
        known = self._known_fields.get(name)
        if known is None:
            parts = [part for part in self.parts if name in part.segment.fields]
            if not parts:
                return False
            known = any(part.deleted is None for part in parts) or any(part.has_field(name) for part in parts)
            self._known_fields[name] = known
        return known

    def may_be_of_objects(self, name: str) -> bool:
        """Whether a live document that has a schema.org object has the field, be it of its metadata: to a filter both
        are one."""
        known = self._object_fields.get(name)
        if known is None:
            parts = [part for part in self.parts if name in part.segment.fields]
            if not parts:
                return False
            known = self._object_fields[name] = any(part.has_field(name, beside_object=True) for part in parts)
        return known

    def find_documents(self, document_ids: Sequence[str]) -> NDArray[np.int64]:
        """Where each document lives, shape (n, 2): (part, document row), (-1, -1) where it is not live."""
        found = np.full((len(document_ids), 2), -1, dtype=np.int64)
        values = [document_id.encode("utf-8", "surrogatepass") for document_id in document_ids]
        for place, part in enumerate(self.parts):
            rows = part.segment.find_documents(values)
            hits = np.flatnonzero(rows >= 0)
            if part.deleted is not None:
                hits = hits[~part.deleted[rows[hits]]]
            found[hits, 0] = place
            found[hits, 1] = rows[hits]
        return found

    def status(self) -> dict[str, Json]:
        """What an operator wants to know of the collection, as JSON."""
        manifest = self.manifest
        return {
            "collection": self.collection.name,
            "description": self.collection.description,
            "visibility": self.collection.visibility,
            "generation": self.generation,
            "created_at": manifest.created_at,
            "updated_at": self.collection.updated_at,
            "documents": self.documents,
            "documents_without_url": sum(part.without_url for part in self.parts),
            "chunks": self.chunks,
            "deleted_chunks": sum(entry.deleted_chunks for entry in manifest.segments),
            "segments": len(manifest.segments),
            "bytes": sum(file.size for entry in manifest.segments for file in entry.files.values()),
            "spaces": [_space_status(state, manifest) for state in manifest.spaces],
            "languages": self._statistics.chunks_by_language,
            "warnings": list(self.warnings),
        }


def _wanted(query: Query) -> int:
    """How many of the best rows a query goes over."""
    if query.top_k < 1 or query.offset < 0:
        raise InvalidInput(
            f"top_k is {query.top_k} and offset is {query.offset}: ask for at least one hit, after none or more"
        )
    return query.offset + query.top_k


def _alike(query: Query, other: Query) -> bool:
    """Whether two queries differ in their vector alone."""
    return (query.space, query.top_k, query.offset, query.mode) == (
        other.space,
        other.top_k,
        other.offset,
        other.mode,
    ) and query.filter == other.filter


def _space_status(state: SpaceState, manifest: Manifest) -> dict[str, Json]:
    calibration = asdict(state.calibration) if state.calibration else None
    name = vectors_file(state.space.id)
    return {
        **asdict(state.space),
        "state": state.state,
        "chunks": sum(entry.live_chunks for entry in manifest.segments if name in entry.files),
        "runtime": state.runtime,
        "calibration": calibration,
    }


def _open_parts(folder: Path, manifest: Manifest, previous: Snapshot | None) -> Parts:
    """The parts of a generation; segments and parts that `previous` has open are used again."""
    open_already = {part.segment.id: part for part in previous.parts} if previous else {}
    spaces = [state.space for state in manifest.spaces if state.state == "live"]
    deleted = read_deletes(folder, manifest)

    def part_of(entry: SegmentEntry) -> Part:
        old = open_already.get(entry.id)
        if old is None or old.segment.entry.files != entry.files:
            segment = Segment(folder / SEGMENTS / entry.id, entry, spaces, manifest)
        elif _same_deletes(old.deleted, deleted.get(entry.id)):
            return old
        else:
            segment = old.segment
        return Part(segment, deleted.get(entry.id))

    entries = list(map(manifest.searched, manifest.segments))
    if sum(entry.chunks for entry in entries if entry.id not in open_already) < _FEW_ROWS:
        return Parts(list(map(part_of, entries)))
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:  # checksums and the disk leave the interpreter to others
        return Parts(list(pool.map(part_of, entries)))


def _same_deletes(old: NDArray[np.bool_] | None, new: NDArray[np.bool_] | None) -> bool:
    if old is None or new is None:
        return old is new
    return bool(np.array_equal(old, new))
