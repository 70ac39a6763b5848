"""The manifest of a generation: its segments, spaces and files, with the checksums to verify them.

One JSON file a generation, written once, with a checksum of its own. Knows no Arrow column.
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
import xxhash

from aidre.engine.errors import FormatTooNew, StoreDamaged
from aidre.engine.model import Collection, Distance, EmbeddingSpace, Precision, Visibility
from aidre.engine.storage.arrow import FileEntry
from aidre.engine.storage.durable import read_errors
from aidre.engine.storage.format import FORMAT, manifest_name, precision_of, space_files

# -- JSON with a checksum ----------------------------------------------------------------------------------------

_BODY_KEY = b'"body":'


def seal(body: bytes) -> bytes:
    """A JSON text that holds the body, which is JSON too, and its checksum (xxh3-128)."""
    return b'{"checksum":"%s","body":%s}\n' % (xxhash.xxh3_128_hexdigest(body).encode(), body)


def unseal(content: bytes) -> bytes:
    """The body of a sealed text; ValueError where the text was altered."""
    body = content[content.index(_BODY_KEY) + len(_BODY_KEY) : -2]
    if seal(body) != content:
        raise ValueError("the checksum does not match")
    return body


# -- the parts of a manifest -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Depth:
    """A calibrated search depth for `results` hits (k): how many candidates to re-rank, and the recall promised.

    `mean` is the mean recall of the hardest kind of queries, less what their sample leaves uncertain, `p5` the fifth
    percentile (`engine/search/depth_choice`). `probes` is nprobe, the inverted lists scanned at most; 0 means all.
    Lists are skipped where their centroid is farther from the query than the nearest centroid by more than `gap`; 0
    means no bound.
    """

    results: int
    candidates: int
    mean: float
    p5: float
    probes: int = 0
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class LearnedDepth:
    """How much deeper than generated queries those of a kind need a search for `results` hits.

    `candidates`, `probes` and `gap` are factors on what generated queries need, at least 1, and `recall` is what was
    promised. A calibration without queries of the kind keeps them.
    """

    kind: str
    results: int
    candidates: float
    probes: float
    gap: float
    recall: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """How deep to search a space of `rows` live rows to reach `target` recall, measured with `queries` queries.

    `kind` is "scan" where a depth reached the target, else "exact", for which `reason` says why. `code_size` is the
    number of 4-bit codes a vector (m). `written` counts the rows committed since.
    """

    kind: str
    target: float
    rows: int
    queries: int = 0
    code_size: int = 0
    depths: tuple[Depth, ...] = ()
    reason: str | None = None
    written: int = 0
    learned: tuple[LearnedDepth, ...] = ()


@dataclass(frozen=True, slots=True)
class SpaceState:
    """A space of the collection with its calibration. `state` is "live" or, during a backfill, "building"."""

    space: EmbeddingSpace
    state: str = "live"
    runtime: str | None = None
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A live segment: counts, files by name, and the file with its tombstones (None: no document is deleted)."""

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
    """The newest changelog: the generation that wrote it, and its file.

    Each changelog holds the entry of the previous one, so they form a chain that can be verified. Without a file the
    history begins at this generation: earlier changes are not listed. `mark` (16 hex digits) tells the changelog from
    another that was written under the same generation number.
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


NO_MARK = "0" * 16
MIN_KEPT_GENERATIONS, MAX_KEPT_GENERATIONS = 2, 10_000
"""Two at least, so that a reader can finish with the generation before the newest."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation. `parent` is the generation it was made from (0 for the first); `keep` is how many of the newest
    generations garbage collection keeps; `lineage` is the same in all generations of one collection."""

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
    changes: ChangesEntry = field(default_factory=lambda: ChangesEntry(0, NO_MARK))
    source_roots: Mapping[str, str] = field(default_factory=dict)
    source_states: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keep: int = MIN_KEPT_GENERATIONS

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

    def without_unfinished_spaces(self, entry: SegmentEntry) -> SegmentEntry:
        """A segment without the files of spaces that are still being filled, as searches see it."""
        unfinished = [state.space.id for state in self.spaces if state.state != "live"]
        hidden = {name for space_id in unfinished for name in space_files(entry.files, space_id)}
        if not hidden:
            return entry
        return replace(entry, files={name: file for name, file in entry.files.items() if name not in hidden})

    def with_space(self, state: SpaceState) -> Manifest:
        """The same manifest with the state of one space replaced."""
        return replace(self, spaces=tuple(state if old.space.id == state.space.id else old for old in self.spaces))


def with_precision(space: EmbeddingSpace) -> EmbeddingSpace:
    """The space with its precision decided, as a manifest declares it."""
    return replace(space, precision=precision_of(space))


def now() -> str:
    """The current time as RFC 3339 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_manifest(name: str, spaces: Sequence[SpaceState]) -> Manifest:
    """Generation 0 of a new collection, from which its first commit is made. Never written; draws the lineage."""
    moment = now()
    return Manifest(0, 0, secrets.token_hex(16), moment, name, "", "public", moment, tuple(spaces))


# -- write -------------------------------------------------------------------------------------------------------


def encode_manifest(manifest: Manifest) -> bytes:
    """The content of its file."""
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


def _space_json(state: SpaceState) -> dict[str, Any]:
    calibration = asdict(state.calibration) if state.calibration else None
    return {
        **asdict(state.space),
        "state": state.state,
        "runtime": state.runtime,
        "learned": calibration.pop("learned") if calibration else [],  # a release that lacks it refuses others below
        "calibration": calibration,
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


# -- read --------------------------------------------------------------------------------------------------------


def read_manifest(folder: Path, generation: int, collection: str) -> Manifest:
    """Read and verify one manifest. FileNotFoundError, StoreDamaged, StorageFailed, FormatTooNew."""
    name = manifest_name(generation)
    with read_errors(folder / name):
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
        raise _damaged(collection, name, f"says that it is generation {manifest.generation}")
    return manifest


def _damaged(collection: str, name: str, problem: str) -> StoreDamaged:
    file = f"{collection}/manifests/{name}"
    return StoreDamaged(f"{file} {problem}", collection=collection, file=file, problem=problem)


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
        spaces=tuple(_space_from_json(item) for item in value["spaces"]),
        segments=tuple(_segment_from_json(item) for item in value["segments"]),
        dates=tuple(value["dates"]),
        deletes={name: FileEntry.from_json(entry) for name, entry in value["deletes"].items()},
        changes=_changes_from_json(value),
        source_roots=dict(value["source_roots"]),
        source_states=dict(value.get("source_states", {})),  # absent in format 1
        keep=max(MIN_KEPT_GENERATIONS, value.get("keep", MIN_KEPT_GENERATIONS)),  # absent in older releases
    )
    _check_types(manifest)
    _check_names(manifest)
    return manifest


def _changes_from_json(value: Mapping[str, Any]) -> ChangesEntry:
    """Format 1 named no previous changelog, and none at all after a merge: the history begins with this generation."""
    changes = value["changes"]
    if changes is not None and "generation" in changes:
        return ChangesEntry.from_json(changes)
    if changes is None:
        return ChangesEntry(value["generation"], NO_MARK)
    file = FileEntry.from_json(changes)
    return ChangesEntry(value["generation"], file.checksum[:16], file)


def _space_from_json(value: Mapping[str, Any]) -> SpaceState:
    members = ("id", "dimensions", "distance", "normalized", "provider", "model", "revision", "precision")
    calibration = value["calibration"]
    if calibration:
        depths = tuple(Depth(**depth) for depth in calibration["depths"])
        learned = tuple(LearnedDepth(**known) for known in value.get("learned", ()))  # absent in older releases
        calibration = Calibration(**{**calibration, "depths": depths, "learned": learned})
    space = EmbeddingSpace(**{name: value[name] for name in members})
    return SpaceState(space, value["state"], value["runtime"], calibration)


def _segment_from_json(value: Mapping[str, Any]) -> SegmentEntry:
    return SegmentEntry(
        id=value["id"],
        documents=value["documents"],
        chunks=value["chunks"],
        files={name: FileEntry.from_json(entry) for name, entry in value["files"].items()},
        deletes=value["deletes"],
        deleted_documents=value["deleted_documents"],
        deleted_chunks=value["deleted_chunks"],
    )


_FILE_NAME = re.compile(r"[^/\0.][^/\0]{0,254}")
_MAX_COUNT = 1 << 53
"""Numbers in a manifest are far below it; their sums fit the 64-bit integers that orjson writes."""

_MEMBER_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "str | None": (str, NoneType),
    "Visibility": (str,),
}
"""The JSON types of a member, by its annotation. Members of other annotations are checked where they are made."""


def _check_types(value: Any) -> None:
    """Raise ValueError where a member of a dataclass, or of one inside it, has another type than declared."""
    for member in fields(value):
        content = getattr(value, member.name)
        types = _MEMBER_TYPES.get(str(member.type))
        if types is not None and type(content) not in types:
            raise ValueError(f"{member.name} has another type than declared")
        if type(content) is int and not 0 <= content < _MAX_COUNT:
            raise ValueError(f"{member.name} is out of range")
        items = content.values() if isinstance(content, Mapping) else content if type(content) is tuple else (content,)
        for item in items:
            if is_dataclass(item):
                _check_types(item)


def _check_names(manifest: Manifest) -> None:
    """Raise ValueError where a name leads out of its folder: a checksum proves that a manifest is whole, not whose."""
    names = [name for entry in manifest.segments for name in (entry.id, *entry.files, entry.deletes or "none")]
    strings = [*manifest.dates, *manifest.source_roots, *manifest.source_roots.values(), *manifest.source_states]
    if not all(type(state) is dict for state in manifest.source_states.values()) or set(map(type, strings)) - {str}:
        raise ValueError("a source has another type than declared")
    if not all(_FILE_NAME.fullmatch(name) for name in (*names, *manifest.deletes)):
        raise ValueError("a file name leads out of its folder")
    for state in manifest.spaces:
        space = state.space
        if space.distance not in get_args(Distance) or space.precision not in (*get_args(Precision), None):
            raise ValueError("a space has an unknown distance or precision")
        if space.dimensions < 1:
            raise ValueError("a space has no dimensions")
