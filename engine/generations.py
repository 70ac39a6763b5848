"""The generations of one collection as its writer makes them: publish the next, merge segments into fewer.

The order of the steps makes a generation durable: whatever it names lies on the disk already, then its manifest,
then CURRENT, each synced before the next.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from aidre.engine import changes, deletes, durable, sweep
from aidre.engine.arrow import FileEntry
from aidre.engine.errors import StorageFailed
from aidre.engine.index import codebook_text
from aidre.engine.indexing import GROWTH, index_generation
from aidre.engine.manifest import Manifest, SegmentEntry, now, to_bytes
from aidre.engine.merging import LARGE, MOST_SEGMENTS, Size, groups, to_merge
from aidre.engine.parts import Part
from aidre.engine.schema import CURRENT, FILLING, MANIFESTS, SEGMENTS, index_file, manifest_name, segment_rows
from aidre.engine.segment_writer import Recompute, Survivors, pieces_of, survivors, write_merged
from aidre.engine.snapshot import Snapshot

RECALL_TARGET = 0.99
_MANY = 4
"""One small segment among so many is not worth a merge."""


class Generations:
    """The newest generation, `manifest` and `snapshot` (None before the first), and the ways to the next one.

    `bulk` is true during the first load of a collection, which merges little and indexes at its end. Make it under
    the writer's lock only.
    """

    def __init__(self, folder: Path, manifest: Manifest, snapshot: Snapshot | None) -> None:
        self.folder = folder
        self.manifest = manifest
        self.snapshot = snapshot
        self.bulk = snapshot is None
        self._named = manifest.generation
        self._retention = changes.Retention(folder)
        self._codebooks: dict[str, tuple[str, int]] = {}
        self._aside: dict[str, Mapping[str, FileEntry]] = {}
        if len(manifest.collection.spaces) == len(manifest.spaces):  # nothing is being filled: what is there was left
            durable.remove_folder(folder / FILLING)

    @property
    def next(self) -> int:
        """The number of the next generation."""
        return self._named + 1

    @property
    def unacknowledged(self) -> bool:
        """Whether readers may have seen a generation that failed afterwards: another one has to follow it."""
        return self._named != self.manifest.generation

    @property
    def parts(self) -> Sequence[Part]:
        return self.snapshot.parts if self.snapshot else []

    @property
    def most_rows(self) -> int:
        """The most rows of a segment, in the spaces that are being filled too."""
        return min((segment_rows(state.space.dimensions) for state in self.manifest.spaces), default=segment_rows(1))

    def publish(self, manifest: Manifest, *, anew: bool = False) -> None:
        """Index, calibrate and make durable; afterwards this generation is the newest for every reader."""
        generation = self.next
        manifest = replace(manifest, generation=generation, parent=self.manifest.generation, created_at=now())
        snapshot, indexed = Snapshot(self.folder, manifest, self.snapshot), manifest
        # A bulk load indexes its first commit, for it may be the only one, and the rest at once when it ends.
        if not self.bulk or manifest.parent == 0:
            growth = 0 if anew else GROWTH
            indexed = index_generation(self.folder, manifest, snapshot.parts, RECALL_TARGET, growth)
        if indexed is not manifest:
            snapshot = Snapshot(self.folder, indexed, snapshot)
        durable.make_folder(self.folder / MANIFESTS)
        durable.replace_file(self.folder / MANIFESTS / manifest_name(generation), to_bytes(indexed))
        # From here on readers may know the number, even if this fails: another try takes the next one.
        self._named = generation
        durable.replace_file(self.folder / CURRENT, f"{generation:06d}\n".encode())
        self.manifest, self.snapshot = indexed, snapshot
        with suppress(OSError, StorageFailed):  # the commit stands; what cannot go is tried again
            sweep.sweep(self.folder, self._with_aside(indexed))
            self._retention.remove_old(indexed.changes)

    # -- a first bulk load -----------------------------------------------------------------------------------

    def codebooks(self) -> Mapping[str, tuple[str, int]]:
        """By space, what the first segment of a bulk load learned and of how many rows; all others share it."""
        if self.bulk and self.parts and not self._codebooks:
            first = self.parts[0].segment
            self._codebooks = {
                space_id: (codebook_text(scan), first.trained_rows[space_id]) for space_id, scan in first.scans.items()
            }
        return self._codebooks if self.bulk else {}

    def set_aside(self, entry: SegmentEntry) -> SegmentEntry:
        """The segment without its index codes, which are named when the load ends and is calibrated."""
        indexes = {index_file(state.space.id) for state in self.manifest.spaces}
        aside = {name: file for name, file in entry.files.items() if name in indexes}
        if not aside:
            return entry
        self._aside[entry.id] = aside
        return replace(entry, files={name: file for name, file in entry.files.items() if name not in aside})

    def end_bulk(self) -> None:
        """Merge the small segments of a first bulk load, and calibrate all of it; nothing where that is done."""
        bulk, self.bulk = self.bulk, False
        if not bulk or self.manifest.generation < 2:
            return
        entries = self.manifest.segments
        sizes = [entry.live_chunks for entry in entries]
        small = [place for place, live in enumerate(sizes) if live < LARGE]
        chosen = [[small[at] for at in group] for group in groups([sizes[at] for at in small], self.most_rows)]
        self.manifest, self._aside = self._with_aside(self.manifest), {}
        worth = [group for group in chosen if len(group) > 1 or entries[group[0]].deletes]
        self.merge(worth if _MANY * len(small) > len(entries) else [], calibrate_anew=True)

    def _with_aside(self, manifest: Manifest) -> Manifest:
        """The manifest with the index codes that were set aside, unless a purge has taken them since."""

        def whole(entry: SegmentEntry) -> SegmentEntry:
            aside = self._aside.get(entry.id, {})
            place = self.folder / SEGMENTS / entry.id
            is_there = all((place / name).exists() for name in aside)
            return replace(entry, files={**entry.files, **aside}) if is_there else entry

        return replace(manifest, segments=tuple(map(whole, manifest.segments)))

    @property
    def is_merge_due(self) -> bool:
        return not self.bulk or len(self.manifest.segments) > MOST_SEGMENTS

    def merge_due(self) -> None:
        """Merge segments where their sizes ask for it; each merge is a generation of its own."""
        while True:
            sizes = [Size(entry.live_chunks, entry.chunks) for entry in self.manifest.segments]
            if not self.is_merge_due:
                return
            chosen = to_merge(sizes, self.most_rows)
            if not chosen:
                return
            self.merge([chosen])

    def split(self, most_rows: int) -> None:
        """Rewrite the segments that hold more rows than a space of more dimensions allows."""
        pieces = {
            place: pieces_of(survivors(part.segment, part.deleted), most_rows)
            for place, part in enumerate(self.parts)
            if part.segment.entry.chunks > most_rows
        }
        if pieces:
            self._replace(pieces, [[piece] for each in pieces.values() for piece in each])

    def merge_all(self, anew: Mapping[str, Recompute] | None = None) -> None:
        """Rewrite all live rows into as few segments as they fit, with freshly trained indexes."""
        lives = [entry.live_chunks for entry in self.manifest.segments]
        if lives:
            self.merge(groups(lives, self.most_rows), calibrate_anew=True, anew=anew)

    def merge(
        self,
        chosen: Sequence[Sequence[int]],
        *,
        calibrate_anew: bool = False,
        anew: Mapping[str, Recompute] | None = None,
        forget: bool = False,
    ) -> None:
        """Replace each chosen group of segments by one, the rest kept; a generation without changes.

        `forget` begins the history of changes anew. The new segments lack the spaces that are being filled.
        """
        groups_of_parts = [
            [survivors(self.parts[place].segment, self.parts[place].deleted) for place in group] for group in chosen
        ]
        doomed = {place for group in chosen for place in group}
        self._replace(doomed, groups_of_parts, calibrate_anew=calibrate_anew, anew=anew, forget=forget)

    def _replace(
        self,
        doomed: Container[int],
        written: Sequence[Sequence[Survivors]],
        *,
        calibrate_anew: bool = False,
        anew: Mapping[str, Recompute] | None = None,
        forget: bool = False,
    ) -> None:
        """A generation with one new segment for each group of survivors, in place of the doomed segments."""
        spaces = self.manifest.collection.spaces
        merged = [
            write_merged(self.folder, [part for part in group if len(part.chunks)], spaces, anew) for group in written
        ]
        kept = [entry for place, entry in enumerate(self.manifest.segments) if place not in doomed]
        manifest = deletes.referenced(replace(self.manifest, segments=(*kept, *merged)))
        if forget:
            manifest = changes.without_history(manifest, self.next)
        self.publish(manifest, anew=calibrate_anew)

    def purge(self) -> None:
        """Rewrite the segments that hold deleted documents, keep no older generation and no list of changes, where
        the hashes of short texts could be guessed."""
        doomed = [[place] for place, entry in enumerate(self.manifest.segments) if entry.deletes]
        if doomed or self.manifest.changes.file is not None:
            self.merge(doomed, forget=True)
        sweep.purge(self.folder, self.manifest)
        with durable.storage_errors(self.folder):
            # Else a power cut brings back what is said to be gone.
            for path in (self.folder.parent, self.folder, *self.folder.glob("*/"), *self.folder.glob(f"{SEGMENTS}/*/")):
                if path.is_dir():
                    durable.sync_folder(path)
