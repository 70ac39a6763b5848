"""Indexes for the segments of a new generation, and the calibration of its spaces when it is due: how deep a search
goes, and how much vectors count in the languages that a model does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from aidre.engine.collection.asked_queries import AskedQueries
from aidre.engine.embedding import reads_language
from aidre.engine.index.vectors import index_to_batch, is_unit
from aidre.engine.model import EmbeddingSpace
from aidre.engine.search import (
    MIN_CHUNKS,
    CalibrationTarget,
    bm25,
    build_missing_indexes,
    calibrate,
    scannable_targets,
)
from aidre.engine.segment import SegmentView, add_file
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
    asked: AskedQueries,
) -> Manifest:
    """Build and write missing indexes, and return the manifest that names them.

    A space is calibrated for `target_recall` where its rows grew by the factor `growth` (0: in any case), or where
    queries of users are given.
    """
    for state in manifest.spaces:
        if state.state == "live":
            own_growth = 0 if state.space.id in asked.given else growth
            manifest = _index_space(
                folder, manifest, segments, state, target_recall=target_recall, growth=own_growth, asked=asked
            )
            manifest = _weigh_languages(manifest, segments, state.space, own_growth, asked)
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
    asked: AskedQueries,
) -> Manifest:
    space = state.space
    targets = [_target_of(view, space) for view in segments if view.live.count]
    if not targets:  # a calibration measured on deleted rows says nothing about later ones
        return manifest.with_space(replace(state, calibration=None))
    calibration = state.calibration
    if calibration is None or _is_calibration_due(calibration, targets, growth):
        samples = asked.samples(space, segments) if scannable_targets(targets) else []
        calibration = calibrate(space, targets, target_recall, asked=samples, previous=calibration)
        manifest = manifest.with_space(replace(state, calibration=calibration))
    elif calibration.kind == "scan":
        build_missing_indexes(space, targets, calibration.code_size)
    return _write_indexes(folder, manifest, space, targets, {view.segment.id: view for view in segments})


def _weigh_languages(
    manifest: Manifest, segments: Sequence[SegmentView], space: EmbeddingSpace, growth: int, asked: AskedQueries
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
            a = asked.weight(space, segments, statistics, tag)
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
        kept = {name: file for name, file in entry.files.items() if name != replaced}
        return replace(entry, files=kept | files[entry.id])

    return replace(manifest, segments=tuple(with_index(entry) for entry in manifest.segments))


def _unused_index_name(folder: Path, entry: SegmentEntry, space_id: str, generation: int) -> str:
    """A file name for a new index. An existing file is not replaced: an older generation, open by readers or being
    backed up, may name it."""
    first = index_file(space_id)
    is_unused = first not in entry.files and not (folder / SEGMENTS / entry.id / first).exists()
    return first if is_unused else index_file(space_id, generation)
