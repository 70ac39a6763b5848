"""Gives the segments of a new generation the indexes they should have, and calibrates their spaces when due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from aidre.engine.arrow import FileEntry
from aidre.engine.calibration import Target, calibrate, large, sample_rows
from aidre.engine.index import TRAIN_ROWS, Scan, blocks_of, fill, index_batch, train
from aidre.engine.manifest import Calibration, Manifest, SegmentEntry, SpaceState
from aidre.engine.model import EmbeddingSpace
from aidre.engine.schema import index_file, vectors_file
from aidre.engine.search import Part
from aidre.engine.segment_writer import add_file

GROWTH = 2
"""A space is calibrated again when its live rows have grown by this factor."""


def index_generation(folder: Path, manifest: Manifest, parts: Sequence[Part], goal: float, growth: int) -> Manifest:
    """The manifest with indexes added to its segments, its spaces calibrated if their rows grew by `growth`."""
    for state in manifest.spaces:
        if state.state == "live":
            manifest = _index_space(folder, manifest, parts, state, goal=goal, growth=growth)
    return manifest


def _index_space(
    folder: Path, manifest: Manifest, parts: Sequence[Part], state: SpaceState, *, goal: float, growth: int
) -> Manifest:
    space = state.space
    targets = [_target(part, space) for part in parts if part.live.count]
    if not targets:
        return manifest
    calibration = state.calibration
    if calibration is None or _due(calibration, targets, growth):
        calibration = calibrate(space, targets, goal)
        manifest = manifest.with_space(replace(state, calibration=calibration))
    elif calibration.kind == "scan":
        _complete(space, targets, calibration.code_size)
    return _written(folder, manifest, space, targets, {part.segment.id: part for part in parts})


def _target(part: Part, space: EmbeddingSpace) -> Target:
    segment = part.segment
    scan = segment.scans.get(space.id)
    return Target(segment.id, segment.columns[space.id], part.live, scan, None, segment.trained_rows.get(space.id, 0))


def _due(calibration: Calibration, targets: Sequence[Target], growth: int) -> bool:
    rows = sum(target.live.count for target in targets)
    first_large = calibration.kind == "exact" and calibration.queries == 0 and any(map(large, targets))
    return rows >= growth * max(1, calibration.rows) or first_large


def _complete(space: EmbeddingSpace, targets: Sequence[Target], code_size: int) -> None:
    """Build the scans that large segments lack, with a codebook of the generation while it knows enough rows."""
    lacking = [target for target in targets if large(target) and not _has(target, code_size)]
    if not lacking:
        return
    rows = sum(target.live.count for target in targets)
    taught = max((target for target in targets if _has(target, code_size)), key=_trained, default=None)
    if taught is not None and taught.scan is not None and 2 * taught.trained_rows >= min(rows, TRAIN_ROWS):
        codebook, trained = taught.scan.codebook(), taught.trained_rows
    else:
        sample = sample_rows(targets, TRAIN_ROWS)
        codebook, trained = train(space, sample, code_size), len(sample)
    for target in lacking:
        target.built = fill(codebook, blocks_of(target.column.codes))
        target.scan = Scan(space, target.built, None)
        target.trained_rows = trained


def _has(target: Target, code_size: int) -> bool:
    return target.scan is not None and target.scan.code_size == code_size


def _trained(target: Target) -> int:
    return target.trained_rows


def _written(
    folder: Path, manifest: Manifest, space: EmbeddingSpace, targets: Sequence[Target], parts: Mapping[str, Part]
) -> Manifest:
    """The manifest with the newly built indexes on disk and in the entries of their segments."""
    files: dict[str, FileEntry] = {}
    for target in targets:
        if target.built is not None:
            vectors = parts[target.segment_id].segment.entry.files[vectors_file(space.id)]
            batch = index_batch(target.built, vectors.checksum, target.trained_rows)
            files[target.segment_id] = add_file(folder, target.segment_id, index_file(space.id), batch)
    if not files:
        return manifest

    def with_index(entry: SegmentEntry) -> SegmentEntry:
        if entry.id not in files:
            return entry
        return replace(entry, files={**entry.files, index_file(space.id): files[entry.id]})

    return replace(manifest, segments=tuple(with_index(entry) for entry in manifest.segments))
