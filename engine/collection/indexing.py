"""Indexes for the segments of a new generation, the calibration of its spaces, and the queries that this measures.

A calibration tells how deep a search goes, and how much vectors count in the languages that a model does not know.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import probes, reads_language
from aidre.engine.errors import InvalidVector, ModelUnavailable
from aidre.engine.index.vectors import encode_query, index_to_batch, is_unit
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import EmbedQueries
from aidre.engine.search import (
    MIN_CHUNKS,
    CalibrationTarget,
    Kind,
    QuerySample,
    asked_sample,
    bm25,
    build_missing_indexes,
    calibrate,
    measured_weight,
    scannable_targets,
)
from aidre.engine.segment import SegmentView, StoredChunk, add_file
from aidre.engine.storage import (
    SEGMENTS,
    Calibration,
    FileEntry,
    LanguageWeight,
    Manifest,
    SegmentEntry,
    SpaceState,
    find_index_file,
    index_file,
    vectors_file,
)

log = logging.getLogger(__name__)

SAMPLED_TEXTS: Final = 160
"""Titles and sentences: the mean recall over this many queries is known to about .003."""

_TITLE_EVERY: Final = 4
"""Every n-th text is the title of its document, if it has one."""

_MIN_CHARACTERS, _MAX_CHARACTERS = 15, 200
"""Length of a sentence that may stand for a question."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_SEED: Final = 20_260_103


@dataclass(frozen=True, slots=True)
class AskedQueries:
    """What a calibration measures beside generated queries, by space: texts that its model embeds, where that is at
    hand, and encoded queries of users, of shape (n, dimensions).

    The texts are titles and sentences of the stored documents, as questions about them would be, and texts about many
    other subjects. Embedding them takes as long as embedding some fifty chunks; a space is calibrated from some
    thousands on.
    """

    models: Mapping[str, EmbedQueries] = field(default_factory=dict)
    vectors: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    def samples(self, space: EmbeddingSpace, segments: Sequence[SegmentView]) -> list[QuerySample]:
        samples = []
        if space.id in self.models:
            others = [text for probe in probes() for text in probe]
            kinds: tuple[tuple[Kind, list[str]], ...] = (("texts", sample_texts(segments)), ("others", others))
            try:
                for kind, texts in kinds:
                    queries = _encode(space, self.models[space.id](texts))
                    if len(queries):
                        samples.append(asked_sample(kind, queries))
            except ModelUnavailable as error:  # of an endpoint, for the moment: what was embedded is worth its commit
                log.warning("calibrated without texts: %s", error)
        if space.id in self.vectors:
            samples.append(asked_sample("given", self.vectors[space.id]))
        return samples

    def weight(
        self, space: EmbeddingSpace, segments: Sequence[SegmentView], statistics: bm25.Statistics, tag: str
    ) -> float | None:
        """The weight of the cosine for questions in a language; None where it cannot be measured now."""
        if space.id not in self.models:
            return None
        try:
            return measured_weight(space, segments, statistics, tag, self.models[space.id])
        except ModelUnavailable as error:
            log.warning("not measured how well space %s reads %s: %s", space.id, tag, error)
            return None


def sample_texts(segments: Sequence[SegmentView], count: int = SAMPLED_TEXTS) -> list[str]:
    """Titles and sentences of up to `count` live chunks; always the same for the same segments."""
    rng = np.random.default_rng(_SEED)
    ends = np.cumsum([view.live.count for view in segments])
    rows = int(ends[-1])
    texts = []
    for number, pick in enumerate(np.sort(rng.choice(rows, min(count, rows), replace=False)).tolist()):
        segment_ord = int(np.searchsorted(ends, pick, side="right"))
        view = segments[segment_ord]
        chunk = StoredChunk(view.segment, int(view.live.rows()[pick - (ends[segment_ord] - view.live.count)]))
        texts.append((number % _TITLE_EVERY == 0 and chunk.title) or _sentence_of(chunk.text, rng))
    return texts


def _sentence_of(text: str, rng: np.random.Generator) -> str:
    """A random sentence of usual length; without one, the beginning of the text."""
    pieces = [piece.strip() for piece in _SENTENCE_END.split(text)]
    sentences = [piece for piece in pieces if _MIN_CHARACTERS <= len(piece) <= _MAX_CHARACTERS]
    return sentences[rng.integers(len(sentences))] if sentences else text[:_MAX_CHARACTERS]


def _encode(space: EmbeddingSpace, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors as queries, without those that the space refuses: a text without words may have no direction."""
    queries = []
    for vector in vectors:
        try:
            queries.append(encode_query(space, vector))
        except InvalidVector:
            continue
    return np.concatenate(queries) if queries else np.empty((0, space.dimensions), np.float32)


GROWTH_FACTOR = 2
"""A space is calibrated again when its live rows grew by this factor, or as many rows were written meanwhile; the
weight of a language when its chunks grew so."""


def index_generation(
    folder: Path,
    manifest: Manifest,
    segments: Sequence[SegmentView],
    *,
    target_recall: float,
    growth: int,
    asked_queries: AskedQueries,
) -> Manifest:
    """Build and write missing indexes, and return the manifest that names them.

    A space is calibrated for `target_recall` where its rows grew by the factor `growth` (0: in any case), or where
    queries of users are given.
    """
    for state in manifest.spaces:
        if state.state == "live":
            own_growth = 0 if state.space.id in asked_queries.vectors else growth
            manifest = _index_space(
                folder,
                manifest,
                segments,
                state,
                target_recall=target_recall,
                growth=own_growth,
                asked_queries=asked_queries,
            )
            manifest = _weigh_languages(manifest, segments, state.space, own_growth, asked_queries)
    return manifest


def count_written(spaces: Sequence[SpaceState], rows: int) -> tuple[SpaceState, ...]:
    """The spaces of a manifest after a commit of `rows` rows."""
    return tuple(
        replace(state, calibration=replace(state.calibration, written=state.calibration.written + rows))
        if state.calibration
        else state
        for state in spaces
    )


def _index_space(
    folder: Path,
    manifest: Manifest,
    segments: Sequence[SegmentView],
    state: SpaceState,
    *,
    target_recall: float,
    growth: int,
    asked_queries: AskedQueries,
) -> Manifest:
    space = state.space
    targets = [_target_of(view, space) for view in segments if view.live.count]
    if not targets:  # a calibration measured on deleted rows says nothing about later ones
        return manifest.with_space(replace(state, calibration=None))
    calibration = state.calibration
    if calibration is None or _is_calibration_due(calibration, targets, growth):
        samples = asked_queries.samples(space, segments) if scannable_targets(targets) else []
        calibration = calibrate(space, targets, target_recall, queries=samples, previous=calibration)
        manifest = manifest.with_space(replace(state, calibration=calibration))
    elif calibration.kind == "scan":
        build_missing_indexes(space, targets, calibration.code_size)
    return _write_indexes(folder, manifest, space, targets, {view.segment.id: view for view in segments})


def _weigh_languages(
    manifest: Manifest, segments: Sequence[SegmentView], space: EmbeddingSpace, growth: int, asked_queries: AskedQueries
) -> Manifest:
    """The manifest with the weights of the languages that the model of the space does not know."""
    state = next(state for state in manifest.spaces if state.space.id == space.id)
    statistics = bm25.Statistics(segments)
    known = {weight.language: weight for weight in state.weights}
    weights = []
    for tag, chunks in statistics.chunks_by_language.items():
        if chunks < MIN_CHUNKS or not is_unit(space) or reads_language(space, tag):
            continue
        weight = known.get(tag)
        if weight is None or chunks >= growth * weight.chunks:
            a = asked_queries.weight(space, segments, statistics, tag)
            weight = weight if a is None else LanguageWeight(tag, chunks, a)
        if weight is not None:
            weights.append(weight)
    return manifest if tuple(weights) == state.weights else manifest.with_space(replace(state, weights=tuple(weights)))


def _target_of(view: SegmentView, space: EmbeddingSpace) -> CalibrationTarget:
    segment = view.segment
    scan = segment.scans.get(space.id)
    return CalibrationTarget(
        segment.id, segment.columns[space.id], view.live, scan, None, segment.trained_rows.get(space.id, 0)
    )


def _is_calibration_due(calibration: Calibration, targets: Sequence[CalibrationTarget], growth: int) -> bool:
    rows = sum(target.live.count for target in targets)
    is_first_scannable = calibration.kind == "exact" and calibration.queries == 0 and bool(scannable_targets(targets))
    # Rows that were replaced make a calibration as outdated as rows that were added.
    is_replaced = calibration.written >= (growth - 1) * max(1, calibration.rows)
    return rows >= growth * max(1, calibration.rows) or is_replaced or is_first_scannable


def _write_indexes(
    folder: Path,
    manifest: Manifest,
    space: EmbeddingSpace,
    targets: Sequence[CalibrationTarget],
    segments: Mapping[str, SegmentView],
) -> Manifest:
    """Write the indexes that were built for the targets, and return the manifest whose segments name them."""
    files: dict[str, dict[str, FileEntry]] = {}
    for target in targets:
        if target.built is not None:
            entry = segments[target.segment_id].segment.entry
            if target.index is not None:
                target.index.assign_slot(0)  # in a file the rows of each segment begin at 0
            batch = index_to_batch(target.built, entry.files[vectors_file(space.id)].checksum, target.trained_rows)
            name = _unused_index_name(folder, entry, space.id, manifest.generation)
            files[entry.id] = {name: add_file(folder, entry.id, name, batch)}
    if not files:
        return manifest

    def with_index(entry: SegmentEntry) -> SegmentEntry:
        if entry.id not in files:
            return entry
        replaced = find_index_file(entry.files, space.id)
        other_files = {name: file for name, file in entry.files.items() if name != replaced}
        return replace(entry, files=other_files | files[entry.id])

    return replace(manifest, segments=tuple(with_index(entry) for entry in manifest.segments))


def _unused_index_name(folder: Path, entry: SegmentEntry, space_id: str, generation: int) -> str:
    """A file name for a new index. An existing file is not replaced: an older generation, open by readers or being
    backed up, may name it."""
    first = index_file(space_id)
    is_unused = first not in entry.files and not (folder / SEGMENTS / entry.id / first).exists()
    return first if is_unused else index_file(space_id, generation)
