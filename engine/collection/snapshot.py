"""A snapshot: one generation of a collection, opened by memory map, for searches and reads. Immutable, thread-safe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection.change_feed import read_changes
from aidre.engine.embedding import cosine_floor, reads_language
from aidre.engine.errors import InvalidInput, SpaceMissing, printable_name
from aidre.engine.index.fields import (
    Filter,
    ValueRange,
    filter_digest,
    meant_field,
    stored_name,
    unknown_fields,
    with_dates,
    with_members,
)
from aidre.engine.index.text import WordFinder
from aidre.engine.index.vectors import SearchDepth, encode_query, is_unit, search_depth
from aidre.engine.model import FUSED_RANKS, Highlight, HighlightLimits, Query
from aidre.engine.native import kernel_name
from aidre.engine.ports import Capabilities
from aidre.engine.search import (
    FEEDBACK_DEPTH,
    MIN_CHUNKS,
    UNMEASURED_WEIGHT,
    FacetCounter,
    Hits,
    HybridQuery,
    PreparedSearch,
    Speller,
    bm25,
    estimate_codes,
    estimate_dense,
    estimate_lexical,
    fused_by_rank,
    language_of,
    prepare_search,
    recall_costs,
    search_dense,
    search_dense_batch,
    search_lexical,
)
from aidre.engine.segment import SegmentReader, Segments, SegmentView, StoredChunk, TopK, open_segments
from aidre.engine.storage import (
    Manifest,
    SpaceState,
    StringDictionary,
    find_index_file,
    keys_file,
    vectors_file,
)
from aidre.engine.types import ChangeCursor, ChangesPage, CollectionStatus, Facet, Hit, ResultLayout, SpaceStatus

_MAX_CACHED_K, _MAX_CACHED_DEPTHS = 1_000, 10_000
"""Search depths are cached for k up to this one, as many of them: a client may ask for any recall."""
_MAX_KNOWN_FILTERS = 64
"""The segments cache the masks of no more filters."""
_new_hit: Callable[[tuple[StoredChunk, float]], Hit] = partial(tuple.__new__, Hit)
"""Makes a hit from a chunk and its score: the constructor of a named tuple is Python code, and takes three times as
long."""

_STRAY_SHARE = 0.01
"""Share of the chunks below which a language of few chunks does not count."""
_UNKNOWN_FILTER_SECONDS = 0.01
_CAPABILITIES = Capabilities(
    lexical=True,
    hybrid=True,
    rescore=True,
    feedback=True,
    exact_scores=True,
    complete_filters=True,
    generations=True,
    changes=True,
    vocabulary=True,
    facets=True,
    highlight=True,
    recall=True,
    words=True,
)


class Snapshot:
    """A `Reader` (engine/ports.py) of one generation.

    `warnings` name derived files that were rebuilt in memory or are not used, being damaged. `previous` is another
    snapshot of the collection, whose open segments are shared; or `segments` are those of this one, which are open.
    """

    waits = False

    def __init__(
        self, folder: Path, manifest: Manifest, previous: Snapshot | None = None, segments: Segments | None = None
    ) -> None:
        self._folder = folder
        self.manifest = manifest
        self.can = _CAPABILITIES
        self.collection = manifest.collection
        self.generation = manifest.generation
        self.lineage = manifest.lineage
        self.documents = manifest.documents
        self.chunks = manifest.chunks
        self.dates = manifest.dates
        shared: Sequence[SegmentView] = () if previous is None else previous.segments
        self.segments: Segments = open_segments(folder, manifest, shared) if segments is None else segments
        self.warnings = tuple(warning for view in self.segments for warning in view.segment.warnings)
        self._readers = [view.segment for view in self.segments]
        self._segment_ords = {view.segment: segment_ord for segment_ord, view in enumerate(self.segments)}
        self._statistics = bm25.Statistics(self.segments)
        self._facets = FacetCounter(self.segments, self._statistics, self.dates)
        self._speller = Speller(self.segments, self._statistics)
        self._live_fields: dict[tuple[str, bool], bool] = {}
        self._centroids: dict[str, NDArray[np.float32]] = {}
        self._depths: dict[tuple[str, int, float | None], SearchDepth | None] = {}
        self._prepared: dict[tuple[str | None, int, float | None], PreparedSearch | None] = {}
        self._seconds: dict[tuple[str, int, bool, float | None], float] = {}
        self._known_filters: set[bytes] = set()
        self._language_weights: dict[str, Mapping[str, float]] = {}
        self._spaces = {state.space.id: state for state in manifest.spaces if state.state == "live"}
        self._cosine_floors = {state.space.id: cosine_floor(state.space) for state in manifest.spaces}

    # -- search ------------------------------------------------------------------------------------------------

    def search(self, query: Query) -> list[Hit]:
        k, filter = _k_of(query), self._resolved(query.filter)
        if query.mode == "dense":
            found = self._find([query], k)
            if found is not None and found[0] is not None:
                return self._to_hits(*found[0], query.offset)
            ranked = self._search_dense(query, k, filter)
        elif query.text is None:
            raise InvalidInput(f"a {query.mode} search needs text")
        elif query.mode == "lexical":
            ranked = search_lexical(self.segments, self._statistics, query.text, k=k, filter=filter)
        else:
            ranked = self._search_hybrid(query, query.text, k, filter)
        if query.filter is not None:
            self._remember(query.filter)
        return self._hits(ranked, query.offset)

    def search_all(self, queries: Sequence[Query]) -> list[list[Hit]]:
        """Dense queries that differ in their vector alone share one scan of the codes."""
        first = queries[0]
        if (
            len(queries) == 1
            or first.mode != "dense"
            or not all(_can_share_scan(query, first) for query in queries[1:])
        ):
            return [self.search(query) for query in queries]
        found = self._find(queries, _k_of(first))
        if found is not None:
            return [
                self._hits(self._search_dense(query, _k_of(query), None), query.offset)
                if answer is None
                else self._to_hits(*answer, query.offset)
                for answer, query in zip(found, queries, strict=True)
            ]
        vectors = np.concatenate([self._encode(query.space, query.vector)[1] for query in queries])
        state, k = self.space(first.space or ""), _k_of(first)
        depth, filter = self._depth(state, k, first.recall), self._resolved(first.filter)
        ranked_all = search_dense_batch(self.segments, state.space.id, vectors, k=k, depth=depth, filter=filter)
        if first.filter is not None:
            self._remember(first.filter)
        return [self._hits(ranked, first.offset) for ranked in ranked_all]

    def estimated_seconds(self, query: Query) -> float:
        """A filter that is new to this snapshot counts as long: its mask is computed first, and what that takes depends
        on its values."""
        filter_key = None if query.filter is None else filter_digest(query.filter)
        if filter_key is not None and filter_key not in self._known_filters:
            return _UNKNOWN_FILTER_SECONDS
        seconds = 0.0
        if query.text is not None and query.mode != "dense":
            seconds += estimate_lexical(self.segments, query.text)
            seconds += estimate_codes(self.segments, self._statistics, query.text)
        if query.mode != "lexical" and query.space in self._spaces:
            k, is_filtered = query.offset + query.top_k, filter_key is not None
            if query.mode == "hybrid" and query.fusion.method == "rrf":
                k = max(FUSED_RANKS, k)
            seconds += self._dense_seconds(query.space, k, query.recall, is_filtered=is_filtered)
        return seconds

    def _dense_seconds(self, space_id: str, k: int, recall: float | None, *, is_filtered: bool) -> float:
        key = space_id, k, is_filtered, recall
        seconds = self._seconds.get(key)
        if seconds is None:
            depth = self._depth(self._spaces[space_id], k, recall)
            seconds = estimate_dense(self.segments, space_id, depth, is_filtered=is_filtered)
            if k <= _MAX_CACHED_K and len(self._seconds) < _MAX_CACHED_DEPTHS:
                self._seconds[key] = seconds
        return seconds

    def splice(self, hits: Sequence[Hit], scores: Sequence[bytes], layout: ResultLayout) -> bytes | None:
        fragments, ords = self.segments.fragments, self._segment_ords
        if fragments is None:
            return None
        chunks = [cast(StoredChunk, hit.chunk) for hit in hits]
        try:
            places = [(ords[chunk.segment], chunk.row) for chunk in chunks]
        except (AttributeError, KeyError):  # a chunk of another engine, or of another generation
            return None
        return fragments.splice(places, list(scores), layout[:7], layout.ids, layout.metadata)

    def count(self, filter: Filter | None = None) -> int:
        if filter is None:
            return self.chunks
        resolved = self._resolved(filter)
        return sum(view.row_mask(resolved).count for view in self.segments)

    def count_documents(self, filter: Filter | None = None) -> int:
        if filter is None:
            return self.documents
        resolved = self._resolved(filter)
        return sum(int(np.count_nonzero(view.document_mask(resolved))) for view in self.segments)

    def facet(
        self,
        field: str,
        filter: Filter | None = None,
        *,
        text: str | None = None,
        limit: int | None = None,
        ranges: Sequence[ValueRange] = (),
    ) -> Facet:
        field = meant_field(field, self.has_field, f"facets.{printable_name(field)}")
        return self._facets.count(field, self._resolved(filter), text=text, limit=limit, ranges=ranges)

    def highlight(self, text: str, hits: Sequence[Hit], limits: HighlightLimits) -> list[Highlight]:
        words = bm25.query_words(self.segments, self._statistics, text)
        finder = WordFinder([(word.terms, word.weight) for word in words])
        return [cast(StoredChunk, hit.chunk).highlight(finder, limits) for hit in hits]

    def scan(self, filter: Filter | None = None, *, start: int = 0) -> Iterator[StoredChunk]:
        """In the order of storage: oldest segment first."""
        resolved = self._resolved(filter)

        def found(left: int) -> Iterator[StoredChunk]:
            for view in self.segments:
                rows = view.row_mask(resolved).rows()
                for row in rows[left:].tolist():
                    yield StoredChunk(view.segment, row)
                left = max(0, left - len(rows))

        return found(start)

    def space(self, space_id: str) -> SpaceState:
        """A live space with its calibration. SpaceMissing."""
        try:
            return self._spaces[space_id]
        except KeyError:
            raise SpaceMissing(
                f"collection {self.collection.name!r} has no embedding space {space_id!r}",
                embedding_space=space_id,
            ) from None

    def question_language(self, text: str) -> str | None:
        return language_of(self.segments, self._statistics, text)

    @property
    def languages(self) -> Mapping[str, int]:
        return self._statistics.chunks_by_language

    def knows_question(self, space_id: str, text: str) -> bool:
        unknown = self._weights(self.space(space_id))
        return not unknown or self.question_language(text) not in unknown

    def cosines(self, space_id: str, vector: NDArray[np.float32], hits: Sequence[Hit]) -> NDArray[np.float64]:
        column_of: dict[SegmentReader, Any] = {}
        found = []
        for hit in hits:
            chunk = cast(StoredChunk, hit.chunk)
            column = column_of.get(chunk.segment)
            if column is None:
                column = column_of[chunk.segment] = chunk.segment.columns[space_id].codes
            found.append(column[chunk.row])
        rows = np.array(found, np.float32)
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
        return (rows @ vector / np.where(lengths > 0, lengths, 1)).astype(np.float64)

    # -- chunks and documents ----------------------------------------------------------------------------------

    def get(self, chunk_id: str) -> StoredChunk | None:
        for view in reversed(self.segments):
            row = view.segment.find_chunk(chunk_id)
            if row is not None:
                chunk = StoredChunk(view.segment, row)
                if view.is_live(chunk.document_row):
                    return chunk
        return None

    def document(self, document_id: str) -> list[StoredChunk]:
        segment_ord, document_row = self.find_documents([document_id])[0].tolist()
        if segment_ord < 0:
            return []
        segment = self.segments[segment_ord].segment
        return [StoredChunk(segment, row) for row in segment.chunk_rows(document_row)]

    def find_documents(self, document_ids: Sequence[str]) -> NDArray[np.int64]:
        """(segment_ord, document row) of each document, shape (n, 2); (-1, -1) where it is not live."""
        locations = np.full((len(document_ids), 2), -1, dtype=np.int64)
        keys = [document_id.encode("utf-8", "surrogatepass") for document_id in document_ids]
        for segment_ord, view in enumerate(self.segments):
            rows = view.segment.find_documents(keys)
            hits = np.flatnonzero(rows >= 0)
            if view.deleted is not None:
                hits = hits[~view.deleted[rows[hits]]]
            locations[hits, 0] = segment_ord
            locations[hits, 1] = rows[hits]
        return locations

    def chunk_counts(self) -> dict[int, int]:
        documents = Counter[int]()
        for view in self.segments:
            stored = view.segment.chunk_counts
            of_segment = np.ones(view.segment.entry.documents, np.int32) if stored is None else stored
            counts = of_segment if view.deleted is None else of_segment[~view.deleted]
            documents.update(dict(enumerate(np.bincount(counts).tolist())))
        return {chunks: number for chunks, number in documents.items() if number}

    def changes(self, cursor: ChangeCursor | None, limit: int) -> ChangesPage:
        return read_changes(self._folder, self.manifest, self.segments, cursor, limit)

    # -- fields ------------------------------------------------------------------------------------------------

    def fields(self) -> frozenset[str]:
        """The names of all fields, those of deleted documents included."""
        return frozenset().union(*(view.segment.fields.names for view in self.segments))

    def dictionaries(self, name: str) -> list[StringDictionary]:
        """The values of a field in each segment, those of deleted documents included."""
        return [view.segment.fields.dictionary(stored_name(name)) for view in self.segments]

    def unknown_fields(self, filter: Filter) -> tuple[str, ...]:
        return unknown_fields(filter, self.has_field)

    def is_object_field(self, name: str) -> bool:
        return self.has_field(stored_name(name), with_schema_object=True)

    def has_field(self, name: str, *, with_schema_object: bool = False) -> bool:
        key = name, with_schema_object
        cached = self._live_fields.get(key)
        if cached is None:
            views = [view for view in self.segments if name in view.segment.fields]
            if not views:
                return False
            cached = not with_schema_object and any(view.deleted is None for view in views)
            cached = cached or any(view.has_field(name, with_schema_object=with_schema_object) for view in views)
            self._live_fields[key] = cached
        return cached

    # -- words -------------------------------------------------------------------------------------------------

    def corrected(self, text: str) -> str | None:
        return self._speller.corrected(text)

    def completions(self, text: str, limit: int) -> list[str]:
        return self._speller.completions(text, limit)

    def word_shares(self, text: str, hits: Sequence[Hit]) -> tuple[int, list[float]]:
        chunks = [cast(StoredChunk, hit.chunk) for hit in hits]
        segment_ords = np.array([self._segment_ords[chunk.segment] for chunk in chunks], np.int64)
        rows = np.array([chunk.row for chunk in chunks], np.int64)
        count, shares = bm25.word_shares(self.segments, self._statistics, text, segment_ords, rows)
        return count, shares.tolist()

    # -- status ------------------------------------------------------------------------------------------------

    def centroid(self, space_id: str) -> NDArray[np.float32]:
        """The means of the segments, weighted by their live chunks; until a merge deleted rows count in them."""
        if space_id not in self._centroids:
            space = self.space(space_id).space
            total = np.zeros(space.dimensions, np.float64)
            for view in self.segments:
                total += view.live.count * view.segment.columns[space_id].mean
            self._centroids[space_id] = (total / max(1, self.chunks)).astype(np.float32)
        return self._centroids[space_id]

    def status(self) -> CollectionStatus:
        manifest = self.manifest
        return {
            "collection": self.collection.name,
            "description": self.collection.description,
            "visibility": self.collection.visibility,
            "generation": self.generation,
            "created_at": manifest.created_at,
            "updated_at": self.collection.updated_at,
            "documents": self.documents,
            "documents_without_url": sum(view.documents_without_url for view in self.segments),
            "chunks": self.chunks,
            "deleted_chunks": sum(entry.deleted_chunks for entry in manifest.segments),
            "segments": len(manifest.segments),
            "bytes": sum(file.size for entry in manifest.segments for file in entry.files.values()),
            "kernel": kernel_name(),
            "spaces": [self._space_status(state) for state in manifest.spaces],
            "languages": self._statistics.chunks_by_language,
            "warnings": list(self.warnings),
        }

    def _space_status(self, state: SpaceState) -> SpaceStatus:
        space, entries = state.space, self.manifest.segments
        measured = {weight.language: weight.chunks for weight in state.weights}
        vectors, keys = vectors_file(space.id), keys_file(space.id)
        indexes = {find_index_file(entry.files, space.id) for entry in entries}

        def size(names: Collection[str | None]) -> int:
            return sum(file.size for entry in entries for name, file in entry.files.items() if name in names)

        is_live, weights = space.id in self._spaces, self._weights(state)
        status = {
            **asdict(space),
            "state": state.state,
            "chunks": sum(entry.live_chunks for entry in entries if vectors in entry.files),
            "runtime": state.runtime,
            "calibration": asdict(state.calibration) if state.calibration else None,
            "costs": recall_costs(self.segments, space.id, state.calibration) if is_live else [],
            "weights": [{"language": tag, "a": a, "chunks": measured.get(tag)} for tag, a in weights.items()],
            "bytes": {"vectors": size({vectors}), "index": size(indexes), "keys": size({keys})},
        }
        return cast(SpaceStatus, status)

    # -- inside ------------------------------------------------------------------------------------------------

    def _find(self, queries: Sequence[Query], k: int) -> Sequence[Hits | None] | None:
        """The best k rows of dense queries that differ in their vector alone, by one call of the kernel; None for those
        that need more than that, or instead of all."""
        first = queries[0]
        if first.filter is not None:
            return None
        key = first.space, k, first.recall
        if key in self._prepared:
            prepared = self._prepared[key]
        else:
            state = self._spaces.get(first.space or "")
            prepared = None
            if state is not None:
                depth = self._depth(state, k, first.recall)
                prepared = prepare_search(self.segments, state.space.id, k=k, depth=depth)
            if k <= _MAX_CACHED_K and len(self._prepared) < _MAX_CACHED_DEPTHS:
                self._prepared[key] = prepared
        return None if prepared is None else prepared.find([query.vector for query in queries])

    def _search_dense(self, query: Query, k: int, filter: Filter | None) -> TopK:
        state, vector = self._encode(query.space, query.vector)
        depth = self._depth(state, k, query.recall)
        return search_dense(self.segments, state.space.id, vector, k=k, depth=depth, filter=filter)

    def _search_hybrid(self, query: Query, text: str, k: int, filter: Filter | None) -> TopK:
        state, vector = self._encode(query.space, query.vector)
        if not is_unit(state.space):
            raise InvalidInput(
                f"embedding space {state.space.id!r} cannot be searched hybrid: its scores have no common scale; "
                "use mode dense or lexical"
            )
        if query.fusion.method == "rrf":
            near = self._search_dense(query, max(FUSED_RANKS, k), filter)
            weights = self._weights(state)
            return fused_by_rank(
                self.segments, self._statistics, text, near, a=query.fusion.a, weights=weights, k=k, filter=filter
            )
        fused = HybridQuery(self.segments, self._statistics, text, query.fusion, filter)
        hybrid, rescore = fused.weighed(self._weights(state), self._cosine_floors[state.space.id]), query.rescore
        ranked = hybrid.search(
            state.space,
            vector,
            k=max(k, FEEDBACK_DEPTH if rescore is None else rescore.depth),
            depth_for=lambda candidates: self._depth(state, candidates, query.recall),
        )
        if rescore is None:
            ranked = hybrid.with_feedback(ranked, state.space, vector)
        else:
            second, second_vector = self._encode(rescore.space, rescore.vector)
            hybrid = fused.weighed(self._weights(second), self._cosine_floors[second.space.id])
            ranked = hybrid.rescored(ranked, second.space, second_vector, rescore.depth)
        return TopK(ranked.segment_ords[:k], ranked.rows[:k], ranked.scores[:k])

    def _weights(self, state: SpaceState) -> Mapping[str, float]:
        """By tag the weight of the cosine in those languages of the collection that the model of a space does not
        know; without languages of a few stray chunks, for which no question is looked at more closely."""
        weights = self._language_weights.get(state.space.id)
        if weights is None:
            measured = {weight.language: weight.a for weight in state.weights}
            weights = {
                tag: measured.get(tag, UNMEASURED_WEIGHT)
                for tag, chunks in self._statistics.chunks_by_language.items()
                if chunks >= min(MIN_CHUNKS, _STRAY_SHARE * self.chunks) and not reads_language(state.space, tag)
            }
            self._language_weights[state.space.id] = weights
        return weights

    def _encode(
        self, space_id: str | None, vector: NDArray[np.float32] | Sequence[float] | None
    ) -> tuple[SpaceState, NDArray[np.float32]]:
        if space_id is None or vector is None:
            raise InvalidInput("a dense or hybrid search needs a space and a vector")
        state = self.space(space_id)
        return state, encode_query(state.space, vector)

    def _depth(self, state: SpaceState, k: int, recall: float | None) -> SearchDepth | None:
        key = state.space.id, k, recall
        if key in self._depths:
            return self._depths[key]
        depth = search_depth(state.calibration, k, recall)
        if k <= _MAX_CACHED_K and len(self._depths) < _MAX_CACHED_DEPTHS:
            self._depths[key] = depth
        return depth

    def _remember(self, filter: Filter) -> None:
        """Notes that the mask of a filter has been computed."""
        if len(self._known_filters) >= _MAX_KNOWN_FILTERS:
            self._known_filters.clear()
        self._known_filters.add(filter_digest(filter))

    def _resolved(self, filter: Filter | None) -> Filter | None:
        """The filter over stored fields, those that the collection declares as dates compared as instants."""
        return None if filter is None else with_dates(with_members(filter, self.has_field), self.manifest.dates)

    def _hits(self, ranked: TopK, offset: int) -> list[Hit]:
        return self._to_hits(ranked.segment_ords.tolist(), ranked.rows.tolist(), ranked.scores.tolist(), offset)

    def _to_hits(self, segment_ords: list[int], rows: list[int], scores: list[float], offset: int) -> list[Hit]:
        """The hits of ranked rows after the first `offset`."""
        if offset:
            segment_ords, rows, scores = segment_ords[offset:], rows[offset:], scores[offset:]
        readers = self._readers
        segments = [readers[segment_ord] for segment_ord in segment_ords]
        return list(map(_new_hit, zip(map(StoredChunk, segments, rows), scores, strict=True)))


def _k_of(query: Query) -> int:
    """How many of the best rows a query needs."""
    if query.top_k < 1 or query.offset < 0:
        raise InvalidInput(
            f"top_k is {query.top_k} and offset is {query.offset}: ask for at least one hit, after none or more"
        )
    return query.offset + query.top_k


def _can_share_scan(query: Query, other: Query) -> bool:
    """Whether two queries differ in their vector alone."""
    return (query.space, query.top_k, query.offset, query.mode, query.recall) == (
        other.space,
        other.top_k,
        other.offset,
        other.mode,
        other.recall,
    ) and query.filter == other.filter
