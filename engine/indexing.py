"""Gives the segments of a new generation the indexes they should have, and calibrates their spaces when due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from aidre.engine.arrow import FileEntry
from aidre.engine.calibration import Target, calibrate, complete, scannable
from aidre.engine.index import index_batch
from aidre.engine.manifest import Calibration, Manifest, SegmentEntry, SpaceState
from aidre.engine.model import EmbeddingSpace
from aidre.engine.parts import Part
from aidre.engine.schema import SEGMENTS, index_among, index_file, vectors_file
from aidre.engine.segment_writer import add_file

GROWTH = 2
"""A space is calibrated again when its live rows have grown by this factor, or as many were written over."""


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
    if not targets:  # what was measured on rows that are all gone says nothing about the next ones
        return manifest.with_space(replace(state, calibration=None))
    calibration = state.calibration
    if calibration is None or _due(calibration, targets, growth):
        calibration = calibrate(space, targets, goal)
        manifest = manifest.with_space(replace(state, calibration=calibration))
    elif calibration.kind == "scan":
        complete(space, targets, calibration.code_size)
    return _written(folder, manifest, space, targets, {part.segment.id: part for part in parts})


def _target(part: Part, space: EmbeddingSpace) -> Target:
    segment = part.segment
    scan = segment.scans.get(space.id)
    return Target(segment.id, segment.columns[space.id], part.live, scan, None, segment.trained_rows.get(space.id, 0))


def _due(calibration: Calibration, targets: Sequence[Target], growth: int) -> bool:
    rows = sum(target.live.count for target in targets)
    first_large = calibration.kind == "exact" and calibration.queries == 0 and bool(scannable(targets))
    # As many rows written as were measured: grown by so much, or turned over, which calls for the same.
    turned_over = calibration.written >= (growth - 1) * max(1, calibration.rows)
    return rows >= growth * max(1, calibration.rows) or turned_over or first_large


def counted(spaces: Sequence[SpaceState], rows: int) -> tuple[SpaceState, ...]:
    """The spaces of a manifest after a commit of `rows` rows."""
    return tuple(
        replace(state, calibration=replace(state.calibration, written=state.calibration.written + rows))
        if state.calibration
        else state
        for state in spaces
    )


def _written(
    folder: Path, manifest: Manifest, space: EmbeddingSpace, targets: Sequence[Target], parts: Mapping[str, Part]
) -> Manifest:
    """The manifest with the newly built indexes on disk and in the entries of their segments."""
    files: dict[str, dict[str, FileEntry]] = {}
    for target in targets:
        if target.built is not None:
            entry = parts[target.segment_id].segment.entry
            if target.scan is not None:
                target.scan.number(0)  # in a file rows have their own numbers
            batch = index_batch(target.built, entry.files[vectors_file(space.id)].checksum, target.trained_rows)
            name = _free_name(folder, entry, space.id, manifest.generation)
            files[entry.id] = {name: add_file(folder, entry.id, name, batch)}
    if not files:
        return manifest

    def with_index(entry: SegmentEntry) -> SegmentEntry:
        if entry.id not in files:
            return entry
        before = index_among(entry.files, space.id)
        kept = {name: file for name, file in entry.files.items() if name != before}
        return replace(entry, files=kept | files[entry.id])

    return replace(manifest, segments=tuple(with_index(entry) for entry in manifest.segments))


def _free_name(folder: Path, entry: SegmentEntry, space_id: str, generation: int) -> str:
    """A name for a new index: the one that is there may belong to a generation, which readers open and backups copy."""
    first = index_file(space_id)
    is_free = first not in entry.files and not (folder / SEGMENTS / entry.id / first).exists()
    return first if is_free else index_file(space_id, generation)
