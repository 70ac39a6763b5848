"""The manifest of a generation: what is live, where it lies, and how it can be checked. Knows no Arrow column.

One JSON file a generation, with its own checksum, written once.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import orjson

from aidre.engine.arrow import FileEntry
from aidre.engine.durable import reading_errors
from aidre.engine.errors import FormatTooNew, StoreDamaged
from aidre.engine.model import Collection, Distance, EmbeddingSpace, Precision, Visibility
from aidre.engine.schema import FORMAT, manifest_name, precision_of, space_files
from aidre.engine.sealed import seal, unseal


@dataclass(frozen=True, slots=True)
class Depth:
    """Calibrated for one number of results: how many candidates to re-rank, and the recall that gave.

    `mean` and `p5` are the mean and the fifth percentile of recall over the sampled queries at `candidates`, where the
    lists of `probes` centroids at most are gone over, all of them where it is 0, and of those no more than `gap` less
    close to the query than the nearest, 0: however much.
    """

    results: int
    candidates: int
    mean: float
    p5: float
    probes: int = 0
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the scan of a space needs to reach `target` recall, measured on `queries` live rows out of `rows`.

    `kind` is "scan" where a depth reached the target, else "exact". `code_size` is the number of 4-bit
    codes a vector (m); `reason` says why the kind is exact. `written` counts the rows committed since.
    """

    kind: str
    target: float
    rows: int
    queries: int = 0
    code_size: int = 0
    depths: tuple[Depth, ...] = ()
    reason: str | None = None
    written: int = 0


@dataclass(frozen=True, slots=True)
class SpaceState:
    """A space of the collection: its declaration, whether it answers ("live") and its calibration."""

    space: EmbeddingSpace
    state: str = "live"
    runtime: str | None = None
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A live segment: counts, files, and the file that lists its deleted documents (None: none deleted)."""

    id: str
    documents: int
    chunks: int
    files: Mapping[str, FileEntry]
    deletes: str | None = None
    deleted_documents: int = 0
    deleted_chunks: int = 0

    @property
    def live_chunks(self) -> int:
        return self.chunks - self.deleted_chunks


@dataclass(frozen=True, slots=True)
class ChangesEntry:
    """The newest list of changes: the generation that wrote it, and its file. Merges write none.

    Each list holds the entry of the one before it, so they form a chain that can be checked. Without a file the
    history begins at this generation: what was before it is not listed. `mark` (16 hex digits) tells the list from
    another that was written under the same number.
    """

    generation: int
    mark: str
    file: FileEntry | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "generation": self.generation,
            "mark": self.mark,
            "file": self.file.to_json() if self.file is not None else None,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> ChangesEntry:
        file = FileEntry.from_json(value["file"]) if value["file"] else None
        return ChangesEntry(int(value["generation"]), str(value["mark"]), file)


UNMARKED = "0" * 16
FEWEST_KEPT, MOST_KEPT = 2, 10_000
"""Of the generations: a reader can finish with the one before the newest."""
_NAME = re.compile(r"[^/\0.][^/\0]{0,254}")
_UNCOUNTED = 1 << 53
"""No number in a manifest comes near it; sums of such can be written as JSON."""

_KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "str | None": (str, NoneType),
    "Visibility": (str,),
}
"""What the members of a manifest may be, by their annotations."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation. `parent` is the generation it was made from, 0 for the first; so many of the newest are kept as
    `keep` says."""

    generation: int
    parent: int
    lineage: str
    created_at: str
    name: str
    description: str
    visibility: Visibility
    updated_at: str
    spaces: tuple[SpaceState, ...]
    segments: tuple[SegmentEntry, ...] = ()
    dates: tuple[str, ...] = ()
    deletes: Mapping[str, FileEntry] = field(default_factory=dict)
    changes: ChangesEntry = field(default_factory=lambda: ChangesEntry(0, UNMARKED))
    source_roots: Mapping[str, str] = field(default_factory=dict)
    source_states: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keep: int = FEWEST_KEPT

    @property
    def documents(self) -> int:
        return sum(entry.documents - entry.deleted_documents for entry in self.segments)

    @property
    def chunks(self) -> int:
        return sum(entry.live_chunks for entry in self.segments)

    @property
    def collection(self) -> Collection:
        spaces = tuple(state.space for state in self.spaces if state.state == "live")
        return Collection(self.name, self.description, self.visibility, self.updated_at, spaces)

    def searched(self, entry: SegmentEntry) -> SegmentEntry:
        """A segment without the files of spaces that do not answer yet."""
        unfinished = [state.space.id for state in self.spaces if state.state != "live"]
        left_out = {name for space_id in unfinished for name in space_files(entry.files, space_id)}
        if not left_out:
            return entry
        return replace(entry, files={name: file for name, file in entry.files.items() if name not in left_out})

    def with_space(self, state: SpaceState) -> Manifest:
        """The same manifest with the state of one space replaced."""
        return replace(self, spaces=tuple(state if s.space.id == state.space.id else s for s in self.spaces))


def settled(space: EmbeddingSpace) -> EmbeddingSpace:
    """The space with what it leaves to the engine decided: so it stands in a manifest."""
    return replace(space, precision=precision_of(space))


def now() -> str:
    """The present as RFC 3339 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_manifest(name: str, spaces: Sequence[SpaceState]) -> Manifest:
    """What the first commit of a new collection begins with: generation 0 and a lineage of its own."""
    moment = now()
    return Manifest(0, 0, secrets.token_hex(16), moment, name, "", "public", moment, tuple(spaces))


def to_bytes(manifest: Manifest) -> bytes:
    body = orjson.dumps(
        {
            "format": FORMAT,
            "generation": manifest.generation,
            "parent": manifest.parent,
            "lineage": manifest.lineage,
            "created_at": manifest.created_at,
            "collection": {
                "name": manifest.name,
                "description": manifest.description,
                "visibility": manifest.visibility,
                "updated_at": manifest.updated_at,
            },
            "counts": {"documents": manifest.documents, "chunks": manifest.chunks},
            "dates": list(manifest.dates),
            "source_roots": dict(manifest.source_roots),
            "source_states": {url: dict(state) for url, state in manifest.source_states.items()},
            "keep": manifest.keep,
            "spaces": [_space_json(state) for state in manifest.spaces],
            "segments": [_segment_json(entry) for entry in manifest.segments],
            "deletes": {name: entry.to_json() for name, entry in manifest.deletes.items()},
            "changes": manifest.changes.to_json(),
        }
    )
    return seal(body)


def read_manifest(folder: Path, generation: int, collection: str) -> Manifest:
    """Read and check one manifest. FileNotFoundError where it is gone; StoreDamaged, StorageFailed, FormatTooNew."""
    name = manifest_name(generation)
    with reading_errors(folder / name):
        content = (folder / name).read_bytes()
    try:
        value = orjson.loads(unseal(content))
    except ValueError as error:
        raise _damaged(collection, name, "does not have the checksum that was recorded") from error
    try:
        newer = value.get("format", 0) > FORMAT
        manifest = None if newer else _from_json(value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(collection, name, "lacks a member that every manifest has") from error
    if manifest is None:
        raise FormatTooNew(
            f"collection {collection!r} was written in format {value['format']}, this release reads up to {FORMAT}: "
            "upgrade aidre",
            collection=collection,
            format=value["format"],
        )
    if manifest.generation != generation:
        raise _damaged(collection, name, f"calls itself generation {manifest.generation}")
    return manifest


def _damaged(collection: str, name: str, problem: str) -> StoreDamaged:
    file = f"{collection}/manifests/{name}"
    return StoreDamaged(f"{file} {problem}", collection=collection, file=file, problem=problem)


def _space_json(state: SpaceState) -> dict[str, Any]:
    return {
        **asdict(state.space),
        "state": state.state,
        "runtime": state.runtime,
        "calibration": asdict(state.calibration) if state.calibration else None,
    }


def _segment_json(entry: SegmentEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "documents": entry.documents,
        "chunks": entry.chunks,
        "deletes": entry.deletes,
        "deleted_documents": entry.deleted_documents,
        "deleted_chunks": entry.deleted_chunks,
        "files": {name: file.to_json() for name, file in entry.files.items()},
    }


def _from_json(value: Mapping[str, Any]) -> Manifest:
    collection = value["collection"]
    manifest = Manifest(
        generation=value["generation"],
        parent=value["parent"],
        lineage=value["lineage"],
        created_at=value["created_at"],
        name=collection["name"],
        description=collection["description"],
        visibility=collection["visibility"],
        updated_at=collection["updated_at"],
        spaces=tuple(_space_from(item) for item in value["spaces"]),
        segments=tuple(_segment_from(item) for item in value["segments"]),
        dates=tuple(value["dates"]),
        deletes={name: FileEntry.from_json(entry) for name, entry in value["deletes"].items()},
        changes=_changes_from(value),
        source_roots=dict(value["source_roots"]),
        source_states=dict(value.get("source_states", {})),  # format 1 fetched nothing
        keep=max(FEWEST_KEPT, value.get("keep", FEWEST_KEPT)),  # older releases kept no more
    )
    _check_kinds(manifest)
    _check_names(manifest)
    return manifest


def _check_kinds(value: Any) -> None:
    """Raise ValueError where a member is of another kind than it is declared, here or in what lies inside."""
    for member in fields(value):
        found = getattr(value, member.name)
        kinds = _KINDS.get(str(member.type))
        if kinds is not None and type(found) not in kinds:
            raise ValueError(f"{member.name} is of another kind")
        if type(found) is int and not 0 <= found < _UNCOUNTED:
            raise ValueError(f"{member.name} counts nothing")
        parts = found.values() if isinstance(found, Mapping) else found if type(found) is tuple else (found,)
        for part in parts:
            if is_dataclass(part):
                _check_kinds(part)


def _check_names(manifest: Manifest) -> None:
    """Raise ValueError where a name leads out of its folder: the checksum says that a manifest is whole, not whose."""
    names = [name for entry in manifest.segments for name in (entry.id, *entry.files, entry.deletes or "none")]
    words = [*manifest.dates, *manifest.source_roots, *manifest.source_roots.values(), *manifest.source_states]
    if not all(type(state) is dict for state in manifest.source_states.values()) or set(map(type, words)) - {str}:
        raise ValueError("a source is of another kind")
    if not all(_NAME.fullmatch(name) for name in (*names, *manifest.deletes)):
        raise ValueError("a file has no name")
    for state in manifest.spaces:
        space = state.space
        if space.distance not in get_args(Distance) or space.precision not in (*get_args(Precision), None):
            raise ValueError("a space is of an unknown kind")
        if space.dimensions < 1:
            raise ValueError("a space has no dimensions")


def _changes_from(value: Mapping[str, Any]) -> ChangesEntry:
    """Format 1 named no list before its own, and none at all after a merge: the history begins with this one."""
    changes = value["changes"]
    if changes is not None and "generation" in changes:
        return ChangesEntry.from_json(changes)
    if changes is None:
        return ChangesEntry(value["generation"], UNMARKED)
    file = FileEntry.from_json(changes)
    return ChangesEntry(value["generation"], file.checksum[:16], file)


def _space_from(value: Mapping[str, Any]) -> SpaceState:
    members = ("id", "dimensions", "distance", "normalized", "provider", "model", "revision", "precision")
    calibration = value["calibration"]
    if calibration:
        depths = tuple(Depth(**depth) for depth in calibration["depths"])
        calibration = Calibration(**{**calibration, "depths": depths})
    space = EmbeddingSpace(**{name: value[name] for name in members})
    return SpaceState(space, value["state"], value["runtime"], calibration)


def _segment_from(value: Mapping[str, Any]) -> SegmentEntry:
    return SegmentEntry(
        id=value["id"],
        documents=value["documents"],
        chunks=value["chunks"],
        files={name: FileEntry.from_json(entry) for name, entry in value["files"].items()},
        deletes=value["deletes"],
        deleted_documents=value["deleted_documents"],
        deleted_chunks=value["deleted_chunks"],
    )
