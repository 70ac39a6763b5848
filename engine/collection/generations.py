"""The generations of a collection as its writer makes them, and which segments are merged after a commit.

A generation becomes durable in this order: the files it names are on disk already, then its manifest is written, then
CURRENT, each synced before the next. A failure between manifest and CURRENT leaves it unacknowledged: readers may have
seen its number, so the number is not used again and another generation has to follow.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aidre.engine.collection import garbage
from aidre.engine.collection.indexing import GROWTH_FACTOR, AskedQueries, index_generation
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.index.vectors import serialize_codebook
from aidre.engine.ports import EmbedQueries
from aidre.engine.segment import (
    LiveRows,
    Recompute,
    SegmentView,
    live_rows,
    open_segments,
    split_live_rows,
    write_merged,
)
from aidre.engine.storage import (
    BACKFILLS,
    MANIFESTS,
    SEGMENTS,
    FileEntry,
    Manifest,
    SegmentEntry,
    changelog,
    deletes,
    durable,
    encode_manifest,
    index_file,
    manifest_name,
    max_segment_rows,
    now,
    upkeep,
    write_current,
)

FAN_IN = 4
MAX_SEGMENTS = 24
LARGE_SEGMENT_ROWS = 3 << 15
"""Rows from which a segment is large. A bulk load holds up to twice as many in memory: pending, and being committed."""

_MIN_TIER_ROWS = 64
"""Smaller segments are all in the lowest tier."""
_MAX_DELETED_SHARE = 0.5
"""A segment with a larger share of deleted rows is rewritten."""


@dataclass(frozen=True, slots=True)
class SegmentSize:
    """Live rows, and all rows with the deleted ones."""

    live: int
    rows: int


def tier(live: int) -> int:
    return int(math.log(max(live, _MIN_TIER_ROWS), FAN_IN))


def segments_to_merge(sizes: Sequence[SegmentSize], max_rows: int) -> list[int]:
    """The ords of segments to merge into one of at most `max_rows` rows now; [] where no merge is due.

    In this order: a full tier, more than MAX_SEGMENTS segments, and a segment that is mostly deleted, alone.

    Tiered by size, as in Lucene and tantivy: a segment of n live rows is in tier log4(n), and four segments of a tier
    are merged into one of the next tier. So every row is rewritten about log4(rows) times and few segments remain.
    Large segments are in no tier: a search spends so long in each that their number matters little.
    """
    tiers: dict[int, list[int]] = {}
    for segment_ord, size in enumerate(sizes):
        if size.live < LARGE_SEGMENT_ROWS:
            tiers.setdefault(tier(size.live), []).append(segment_ord)
    for _, ords in sorted(tiers.items()):
        if len(ords) >= FAN_IN and (chosen := _fitting_prefix(ords, sizes, max_rows)):
            return chosen
    if len(sizes) > MAX_SEGMENTS:
        smallest = sorted(range(len(sizes)), key=lambda segment_ord: sizes[segment_ord].live)
        if chosen := _fitting_prefix(smallest[: len(sizes) - MAX_SEGMENTS + 1], sizes, max_rows):
            return chosen
    sparse = [i for i, size in enumerate(sizes) if size.live < size.rows * (1 - _MAX_DELETED_SHARE)]
    return sparse[:1]


def _fitting_prefix(ords: Sequence[int], sizes: Sequence[SegmentSize], max_rows: int) -> list[int]:
    """The longest prefix whose live rows fit one segment, sorted; [] where not even two segments do."""
    chosen, rows = [], 0
    for segment_ord in ords:
        if rows + sizes[segment_ord].live > max_rows:
            break
        chosen.append(segment_ord)
        rows += sizes[segment_ord].live
    return sorted(chosen) if len(chosen) > 1 else []


def group_by_rows(live_rows: Sequence[int], max_rows: int) -> list[list[int]]:
    """All segments in consecutive groups of at most `max_rows` live rows; a larger segment is a group of its own."""
    groups: list[list[int]] = []
    rows = max_rows + 1
    for segment_ord, live in enumerate(live_rows):
        if rows + live > max_rows:
            groups.append([])
            rows = 0
        groups[-1].append(segment_ord)
        rows += live
    return groups


RECALL_TARGET = 0.99
_MAX_SEGMENTS_PER_SMALL = 4
"""At the end of a bulk load small segments are merged if they are more than one in this many segments."""


class Generations:
    """The newest generation, and the ways to the next one. Requires the writer's lock.

    `manifest` and `snapshot` are the newest generation; `snapshot` is None before the first. `is_bulk_load` is true
    during the first load of a collection, which merges little and is indexed when it ends. `models` embed queries for
    the calibration of their spaces. `manifest` is never written where there is no snapshot (`first_manifest`).
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        snapshot: Snapshot | None,
        models: Mapping[str, EmbedQueries] | None = None,
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self.snapshot = snapshot
        self.is_bulk_load = snapshot is None
        self._models = models or {}
        self._last_number = self._began_at = manifest.generation
        self._retention = changelog.Retention(folder)
        self._codebooks: dict[str, tuple[str, int]] = {}
        self._detached_indexes: dict[str, Mapping[str, FileEntry]] = {}
        if len(manifest.collection.spaces) == len(manifest.spaces):  # no backfill is unfinished: these are remains
            durable.remove_folder(folder / BACKFILLS)

    @property
    def segments(self) -> Sequence[SegmentView]:
        return self.snapshot.segments if self.snapshot else []

    @property
    def next_generation(self) -> int:
        """The number of the next generation."""
        return self._last_number + 1

    @property
    def is_unacknowledged(self) -> bool:
        """Whether a manifest was written that did not become the newest generation: another one has to follow it."""
        return self._last_number != self.manifest.generation

    @property
    def max_segment_rows(self) -> int:
        """The most rows of a segment, so that the vectors of every space fit, unfinished spaces included."""
        return max_segment_rows(max((state.space.dimensions for state in self.manifest.spaces), default=1))

    # -- publish -----------------------------------------------------------------------------------------------

    def publish(
        self,
        manifest: Manifest,
        *,
        recalibrate: bool = False,
        queries: Mapping[str, NDArray[np.float32]] | None = None,
    ) -> None:
        """Index, calibrate where due, and make the generation durable; on return every reader finds it. StorageFailed.

        The number and the parent of the manifest are set here. `queries` are the vectors of users' queries by space.
        """
        generation = self.next_generation
        manifest = replace(manifest, generation=generation, parent=self.manifest.generation, created_at=now())
        shared = () if self.snapshot is None else self.snapshot.segments
        segments, indexed = open_segments(self.folder, manifest, shared), manifest
        # A bulk load is indexed at its first commit, which may be its only one, and then when it ends.
        if not self.is_bulk_load or manifest.parent == self._began_at:
            growth = 0 if recalibrate else GROWTH_FACTOR
            asked_queries = AskedQueries(self._models, queries or {})
            indexed = index_generation(
                self.folder, manifest, segments, target_recall=RECALL_TARGET, growth=growth, asked_queries=asked_queries
            )
        if indexed is not manifest:
            segments = open_segments(self.folder, indexed, segments)
        snapshot = Snapshot(self.folder, indexed, segments=segments)
        durable.make_folder(self.folder / MANIFESTS)
        durable.replace_file(self.folder / MANIFESTS / manifest_name(generation), encode_manifest(indexed))
        self._last_number = generation  # readers may know it from here on, also if the next step fails
        write_current(self.folder, generation)
        self.manifest, self.snapshot = indexed, snapshot
        self.collect_garbage()

    @contextmanager
    def discarding(self) -> Iterator[None]:
        """What fails within this context leaves no files of an unpublished generation: a full disk needs their room."""
        try:
            yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> bool:
        """Remove the files of a commit or merge that failed, as far as possible; whether none is left."""
        return garbage.discard(self.folder, self._with_detached_indexes(self.manifest))

    def calibrate(self, queries: Mapping[str, NDArray[np.float32]]) -> None:
        """Publish a generation that changes nothing but the calibration of the spaces that queries are given for."""
        self.publish(self.manifest, queries=queries)

    def collect_garbage(self) -> None:
        """Remove the files that only generations need that are not kept any more; see `garbage`."""
        with upkeep(self.folder, "older generations were not removed"):
            garbage.collect(self.folder, self._with_detached_indexes(self.manifest))
            self._retention.remove_old(self.manifest.changes)
            self._retention.pack()

    # -- the first bulk load -----------------------------------------------------------------------------------

    def codebooks(self) -> Mapping[str, tuple[str, int]]:
        """By space, the codebook that a bulk load trained on its first segment, and its training rows.

        All other segments of the load share it. Empty after the load.
        """
        if self.is_bulk_load and self.segments and not self._codebooks:
            first = self.segments[0].segment
            self._codebooks = {
                space_id: (serialize_codebook(scan), first.trained_rows[space_id])
                for space_id, scan in first.scans.items()
            }
        return self._codebooks if self.is_bulk_load else {}

    def detach_indexes(self, entry: SegmentEntry) -> SegmentEntry:
        """The segment without its indexes; `end_bulk_load` attaches them again and calibrates."""
        indexes = {index_file(state.space.id) for state in self.manifest.spaces}
        detached = {name: file for name, file in entry.files.items() if name in indexes}
        if not detached:
            return entry
        self._detached_indexes[entry.id] = detached
        return replace(entry, files={name: file for name, file in entry.files.items() if name not in detached})

    def end_bulk_load(self) -> None:
        """Merge the small segments of a bulk load, and calibrate all of it.

        Does nothing if no load is running, or if it made a single generation, which is indexed already.
        """
        was_bulk_load, self.is_bulk_load = self.is_bulk_load, False
        if not was_bulk_load or self.manifest.generation < self._began_at + 2:
            return
        entries = self.manifest.segments
        sizes = [entry.live_chunks for entry in entries]
        small = [segment_ord for segment_ord, live in enumerate(sizes) if live < LARGE_SEGMENT_ROWS]
        grouped = group_by_rows([sizes[segment_ord] for segment_ord in small], self.max_segment_rows)
        groups = [[small[index] for index in group] for group in grouped]
        self.manifest, self._detached_indexes = self._with_detached_indexes(self.manifest), {}
        useful = [group for group in groups if len(group) > 1 or entries[group[0]].deletes]
        is_worthwhile = _MAX_SEGMENTS_PER_SMALL * len(small) > len(entries)
        self.merge(useful if is_worthwhile else [], recalibrate=True)

    def _with_detached_indexes(self, manifest: Manifest) -> Manifest:
        """The manifest with the detached indexes attached, as far as a purge has not removed their files."""

        def attach(entry: SegmentEntry) -> SegmentEntry:
            detached = self._detached_indexes.get(entry.id, {})
            folder = self.folder / SEGMENTS / entry.id
            exist = all((folder / name).exists() for name in detached)
            return replace(entry, files={**entry.files, **detached}) if exist else entry

        return replace(manifest, segments=tuple(map(attach, manifest.segments)))

    # -- merge -------------------------------------------------------------------------------------------------

    @property
    def may_merge(self) -> bool:
        """Whether merges may run now: a bulk load postpones them until it has too many segments."""
        return not self.is_bulk_load or len(self.manifest.segments) > MAX_SEGMENTS

    def merge_due(self) -> None:
        """Merge segments as long as the merge policy asks for it; each merge is a generation of its own."""
        while True:
            sizes = [SegmentSize(entry.live_chunks, entry.chunks) for entry in self.manifest.segments]
            if not self.may_merge:
                return
            group = segments_to_merge(sizes, self.max_segment_rows)
            if not group:
                return
            self.merge([group])

    def merge_all(self, recompute: Mapping[str, Recompute] | None = None) -> None:
        """Rewrite all live rows into as few segments as possible, and calibrate; `recompute` as for `merge`.

        Without rows it is a generation too: by it the last one that had any is no longer among the newest two.
        """
        if self.snapshot is not None:
            live_rows = [entry.live_chunks for entry in self.manifest.segments]
            self.merge(group_by_rows(live_rows, self.max_segment_rows), recalibrate=True, recompute=recompute)

    def merge(
        self,
        groups: Sequence[Sequence[int]],
        *,
        recalibrate: bool = False,
        recompute: Mapping[str, Recompute] | None = None,
        restart_history: bool = False,
    ) -> None:
        """Replace each group of segments (by ord) by one, and publish. The chunks of the collection do not change.

        `recompute` gives the vectors of some spaces, by id, which otherwise are copied. `restart_history` drops all
        earlier changelogs. The new segments lack the spaces that are being filled.
        """
        live = [
            [live_rows(self.segments[segment_ord].segment, self.segments[segment_ord].deleted) for segment_ord in group]
            for group in groups
        ]
        replaced = {segment_ord for group in groups for segment_ord in group}
        self._replace(replaced, live, recalibrate=recalibrate, recompute=recompute, restart_history=restart_history)

    def split(self, max_rows: int) -> None:
        """Rewrite each segment of more than `max_rows` rows into several."""
        pieces = {
            segment_ord: split_live_rows(live_rows(view.segment, view.deleted), max_rows)
            for segment_ord, view in enumerate(self.segments)
            if view.segment.entry.chunks > max_rows
        }
        if pieces:
            self._replace(pieces, [[piece] for of_segment in pieces.values() for piece in of_segment])

    def _replace(
        self,
        replaced: Container[int],
        groups: Sequence[Sequence[LiveRows]],
        *,
        recalibrate: bool = False,
        recompute: Mapping[str, Recompute] | None = None,
        restart_history: bool = False,
    ) -> None:
        """Publish a generation with one new segment for each group of rows, without the replaced segments."""
        spaces = self.manifest.collection.spaces
        with self.discarding():
            merged = [
                write_merged(self.folder, [rows for rows in group if len(rows.chunk_rows)], spaces, recompute)
                for group in groups
            ]
            unreplaced = [
                entry for segment_ord, entry in enumerate(self.manifest.segments) if segment_ord not in replaced
            ]
            manifest = deletes.prune_deletes(replace(self.manifest, segments=(*unreplaced, *merged)))
            if restart_history:
                manifest = changelog.restart_history(manifest, self.next_generation)
            self.publish(manifest, recalibrate=recalibrate)

    # -- purge -------------------------------------------------------------------------------------------------

    def purge(self) -> None:
        """Erase deleted documents: rewrite the segments that hold any, and remove older generations and changelogs.

        Changelogs are removed because the text of a short chunk could be guessed from its hash. StorageFailed names a
        file that could not be removed.
        """
        with_deletes = [[segment_ord] for segment_ord, entry in enumerate(self.manifest.segments) if entry.deletes]
        if with_deletes or self.manifest.changes.file is not None:
            self.merge(with_deletes, restart_history=True)
        garbage.purge(self.folder, self.manifest)
        with durable.write_errors(self.folder):
            # Without the syncs a power cut could bring back files that were reported as removed.
            for path in (self.folder.parent, self.folder, *self.folder.glob("*/"), *self.folder.glob(f"{SEGMENTS}/*/")):
                if path.is_dir():
                    durable.sync_folder(path)
