"""The manifest of a generation: its segments, spaces and files, with the checksums to verify them.

One JSON file a generation, written once, with a checksum of its own. Knows no Arrow column.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import msgspec
import orjson
import xxhash

from aidre.engine.errors import FormatTooNew, StorageFailed, StoreDamaged
from aidre.engine.model import Collection, EmbeddingSpace, Visibility
from aidre.engine.storage import durable
from aidre.engine.storage.arrow import MAX_COUNT, Count, FileEntry
from aidre.engine.storage.format import CURRENT, FORMAT, MANIFESTS, manifest_name, precision_of, space_files

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
    Lists are skipped where their centroid is farther from the query than the nearest four are in the mean, by more than
    `gap`; 0 means no bound. `scanned` is the mean number of codes that its queries scanned; 0 means all.
    """

    results: Count
    candidates: Count
    mean: float
    p5: float
    probes: Count = 0
    gap: float = 0.0
    scanned: Count = 0


@dataclass(frozen=True, slots=True)
class LearnedDepth:
    """How much deeper than generated queries those of a kind need a search for `results` hits.

    `candidates`, `probes` and `gap` are factors on what generated queries need, at least 1, and `recall` is what was
    promised. A calibration without queries of the kind keeps them.
    """

    kind: str
    results: Count
    candidates: float
    probes: float
    gap: float
    recall: float


@dataclass(frozen=True, slots=True)
class TargetDepths:
    """How deep to search for a recall of `target`."""

    target: float
    depths: tuple[Depth, ...] = ()
    learned: tuple[LearnedDepth, ...] = ()


_RECALL_TOLERANCE = 1e-6
"""A recall that was rounded to float32 is the same one."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How deep to search a space of `rows` live rows to reach `target` recall, measured with `queries` queries.

    `kind` is "scan" where a depth reached the target, else "exact", for which `reason` says why. `code_size` is the
    number of 4-bit codes a vector (m). `written` counts the rows committed since. `others` are the depths for other
    targets with these codes; older releases wrote none.
    """

    kind: str
    target: float
    rows: Count
    queries: Count = 0
    code_size: Count = 0
    depths: tuple[Depth, ...] = ()
    reason: str | None = None
    written: Count = 0
    learned: tuple[LearnedDepth, ...] = ()
    others: tuple[TargetDepths, ...] = ()

    @property
    def targets(self) -> list[TargetDepths]:
        """The depths of all targets, ascending."""
        own = TargetDepths(self.target, self.depths, self.learned)
        return sorted((own, *self.others), key=lambda depths: depths.target)

    def depths_for(self, recall: float | None) -> tuple[Depth, ...]:
        """The depths for the lowest target that is not below `recall`, None: for `target`; none if every row has to be
        compared."""
        if self.kind != "scan":
            return ()
        if recall is None:
            return self.depths
        fitting = (depths.depths for depths in self.targets if depths.target >= recall - _RECALL_TOLERANCE)
        return next(fitting, ())

    def learned_for(self, target: float) -> tuple[LearnedDepth, ...]:
        """What was learned for a target, or for `target` where nothing was measured for that one."""
        return next((depths.learned for depths in self.others if depths.target == target), self.learned)


@dataclass(frozen=True, slots=True)
class LanguageWeight:
    """The weight of the cosine in hybrid search for questions in a language that the model of the space does not know,
    measured when the collection had `chunks` chunks in it."""

    language: str
    chunks: Count
    a: float


@dataclass(frozen=True, slots=True)
class SpaceState:
    """A space of the collection with its calibration. `state` is "live" or, during a backfill, "building"."""

    space: EmbeddingSpace
    state: str = "live"
    runtime: str | None = None
    calibration: Calibration | None = None
    weights: tuple[LanguageWeight, ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A live segment: counts, files by name, and the file with its tombstones (None: no document is deleted)."""

    id: str
    documents: Count
    chunks: Count
    files: Mapping[str, FileEntry]
    deletes: str | None = None
    deleted_documents: Count = 0
    deleted_chunks: Count = 0

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

    generation: Count
    mark: str
    file: FileEntry | None = None


_COLLECTION_MEMBERS = ("name", "description", "visibility", "updated_at")
NO_MARK = "0" * 16
MIN_KEPT_GENERATIONS, MAX_KEPT_GENERATIONS = 2, 10_000
"""Two at least, so that a reader can finish with the generation before the newest."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One generation. `parent` is the generation it was made from (0 for the first); `keep` is how many of the newest
    generations garbage collection keeps; `lineage` is the same in all generations of one collection. `dropped` says
    that it is the last one: there is no such collection any more. An older release sees an empty collection."""

    generation: Count
    parent: Count
    lineage: str
    created_at: str
    name: str
    description: str
    visibility: Visibility
    updated_at: str
    spaces: tuple[SpaceState, ...]
    segments: tuple[SegmentEntry, ...]
    dates: tuple[str, ...]
    deletes: Mapping[str, FileEntry]
    changes: ChangesEntry
    source_roots: Mapping[str, str]
    source_states: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    keep: Count = MIN_KEPT_GENERATIONS
    dropped: bool = False

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


def first_manifest(name: str, spaces: Sequence[SpaceState], generation: int = 0) -> Manifest:
    """What the first commit of a new collection is made from. Never written; draws the lineage.

    `generation` is 0, or the last one of a dropped collection of that name, whose numbers are not used again.
    """
    moment, changes, lineage = now(), ChangesEntry(generation, NO_MARK), secrets.token_hex(16)
    return Manifest(generation, 0, lineage, moment, name, "", "public", moment, tuple(spaces), (), (), {}, changes, {})


# -- write -------------------------------------------------------------------------------------------------------


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as the bytes of its file."""
    value = msgspec.to_builtins(manifest)
    collection = {name: value.pop(name) for name in _COLLECTION_MEMBERS}
    counts = {"documents": manifest.documents, "chunks": manifest.chunks}
    spaces = [_flatten_space(state) for state in value.pop("spaces")]
    return seal(orjson.dumps({"format": FORMAT, "collection": collection, "counts": counts, **value, "spaces": spaces}))


def write_current(folder: Path, generation: int) -> None:
    """Make a generation of the collection in `folder` the newest one, durable on return. StorageFailed.

    Where the last sync failed, readers have it nevertheless: the error says so, and has `unconfirmed` in its details.
    """
    path, content = folder / CURRENT, f"{generation:06d}\n".encode()
    try:
        durable.replace_file(path, content)
    except StorageFailed as error:
        with suppress(OSError):
            if path.read_bytes() == content:
                raise StorageFailed(
                    f"{error.message}; generation {generation} can be read already, but a power cut may undo it: "
                    "repeat what made it",
                    **error.details,
                    unconfirmed=generation,
                ) from error
        raise


def _flatten_space(state: dict[str, Any]) -> dict[str, Any]:
    """Members that release 0.1.0 does not know are beside the calibration: it refuses them inside."""
    calibration = state["calibration"] or {"depths": []}
    learned, others = calibration.pop("learned", []), calibration.pop("others", [])
    scanned = [depth.pop("scanned") for depth in calibration["depths"]]
    return {**state.pop("space"), **state, "learned": learned, "others": others, "scanned": scanned}


# -- read --------------------------------------------------------------------------------------------------------


def read_manifest(folder: Path, generation: int, collection: str) -> Manifest:
    """Read and verify one manifest. FileNotFoundError, StoreDamaged, StorageFailed, FormatTooNew."""
    name = manifest_name(generation)
    with durable.read_errors(folder / name):
        content = (folder / name).read_bytes()
    return decode_manifest(content, generation, collection)


def decode_manifest(content: bytes, generation: int, collection: str) -> Manifest:
    """Verify the content of a manifest's file. StoreDamaged, FormatTooNew."""
    name = manifest_name(generation)
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


def manifest_numbers(folder: Path) -> list[int]:
    """The numbers of the stored manifests of a collection, ascending."""
    return sorted(int(path.stem) for path in (folder / MANIFESTS).glob("*.json") if path.stem.isdecimal())


def _damaged(collection: str, name: str, problem: str) -> StoreDamaged:
    file = f"{collection}/manifests/{name}"
    return StoreDamaged(f"{file} {problem}", collection=collection, file=file, problem=problem)


def _from_json(value: Mapping[str, Any]) -> Manifest:
    members = {
        **value,
        **value["collection"],
        "spaces": [_nest_space(space) for space in value["spaces"]],
        "changes": _nest_changes(value),
        "keep": max(MIN_KEPT_GENERATIONS, value.get("keep", MIN_KEPT_GENERATIONS)),  # absent in older releases
    }
    manifest = msgspec.convert(members, Manifest)
    _check_names(manifest)
    return manifest


def _nest_space(space: Mapping[str, Any]) -> dict[str, Any]:
    calibration = space["calibration"]
    if calibration:
        scanned = chain(space.get("scanned", ()), repeat(0))  # these members are absent in older releases
        depths = [{**depth, "scanned": codes} for depth, codes in zip(calibration["depths"], scanned, strict=False)]
        beside = {name: space.get(name, []) for name in ("learned", "others")}
        calibration = {**calibration, **beside, "depths": depths}
    return {**space, "space": space, "calibration": calibration}


def _nest_changes(value: Mapping[str, Any]) -> dict[str, Any]:
    """Format 1 named no previous changelog, and none at all after a merge: the history begins with this generation."""
    file = value["changes"]
    if file is not None and "generation" in file:
        return dict(file)
    return {"generation": value["generation"], "mark": file["checksum"][:16] if file else NO_MARK, "file": file}


_FILE_NAME = re.compile(r"[^/\0.][^/\0]{0,254}")


def has_own_names(entry: SegmentEntry) -> bool:
    """Whether no name of a segment leads out of its folder."""
    return all(_FILE_NAME.fullmatch(name) for name in (entry.id, *entry.files, entry.deletes or "none"))


def _check_names(manifest: Manifest) -> None:
    """Raise ValueError where a name leads out of its folder: a checksum proves that a manifest is whole, not whose."""
    if not all(map(has_own_names, manifest.segments)) or not all(map(_FILE_NAME.fullmatch, manifest.deletes)):
        raise ValueError("a file name leads out of its folder")
    if not all(0 < state.space.dimensions < MAX_COUNT for state in manifest.spaces):
        raise ValueError("a space has no dimensions, or too many")
