"""The state of a collection that an engine stores beside its rows: declaration, spaces, sources and counts."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

import msgspec

from aidre.engine.errors import FormatTooNew
from aidre.engine.model import Collection, EmbeddingSpace, Visibility
from aidre.engine.storage import now
from aidre.engine.types import CollectionStatus, SpaceStatus

FORMAT: Final = 1
"""Of the state and of tables that never changed; an engine whose tables did has one of its own."""


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """A space, the number of the table that holds its vectors, and the runtime that computes them."""

    space: EmbeddingSpace
    table: int
    runtime: str | None = None


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """A field whose values have columns of their own: its number, and that by `digest` in hexadecimal; the kinds of
    values that have a column. `is_whole`: no document has other values of it, which would be in rows. `is_indexed`:
    rows of vectors are found by it; a release that does not know this member leaves it out of the states it writes."""

    number: int
    name: str
    kinds: str
    is_whole: bool = True
    is_indexed: bool = False


@dataclass(frozen=True, slots=True)
class CollectionState:
    """One state of a collection. `next_row` is greater than every number of a document or chunk that ever was, and
    `next_table` than that of every space; `token` differs after every commit. `terms` is the length of all chunks
    together, `languages` counts chunks by tag."""

    name: str
    lineage: str
    created_at: str
    updated_at: str
    spaces: tuple[StoredSpace, ...]
    token: str = ""
    generation: int = 0
    description: str = ""
    visibility: Visibility = "public"
    dates: tuple[str, ...] = ()
    source_roots: Mapping[str, str] = field(default_factory=dict)
    source_states: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    documents: int = 0
    documents_without_url: int = 0
    chunks: int = 0
    next_row: int = 1
    next_table: int = 1
    format: int = FORMAT
    terms: int = 0
    languages: Mapping[str, int] = field(default_factory=dict)
    columns: tuple[FieldColumns, ...] = ()

    @property
    def collection(self) -> Collection:
        spaces = tuple(stored.space for stored in self.spaces)
        return Collection(self.name, self.description, self.visibility, self.updated_at, spaces)

    def succeeded_by(self, **members: object) -> CollectionState:
        """The state of the next generation, which differs in these members."""
        token = secrets.token_hex(8)
        return replace(self, generation=self.generation + 1, updated_at=now(), token=token, **members)  # type: ignore[arg-type]

    def less(self, **counts: int) -> CollectionState:
        """The same state with smaller counts, which are named as its members."""
        return replace(self, **{name: getattr(self, name) - count for name, count in counts.items()})

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


class _Versioned(msgspec.Struct):
    format: int = FORMAT


def first_state(
    name: str, spaces: Sequence[EmbeddingSpace], runtimes: Mapping[str, str], newest: int
) -> CollectionState:
    """Generation 0 of a new collection, from which its first commit is made; draws the lineage."""
    moment = now()
    stored = tuple(StoredSpace(space, number, runtimes.get(space.id)) for number, space in enumerate(spaces, 1))
    return CollectionState(
        name, secrets.token_hex(8), moment, moment, stored, next_table=len(stored) + 1, format=newest
    )


def decode_state(name: str, encoded: bytes, newest: int = FORMAT) -> CollectionState:
    """The state of a collection; FormatTooNew, before anything else is looked at, for another than up to `newest`."""
    found = msgspec.json.decode(encoded, type=_Versioned).format
    if found > newest:
        raise FormatTooNew(
            f"collection {name!r} has format {found}, this release reads up to {newest}: use a newer release",
            collection=name,
        )
    return msgspec.json.decode(encoded, type=CollectionState)


def collection_status(state: CollectionState, sizes: Mapping[int, Mapping[str, int]], rest: int) -> CollectionStatus:
    """What operators see. `sizes` are the bytes of each space by its table, `rest` those of documents and chunks."""
    return {
        "collection": state.name,
        "description": state.description,
        "visibility": state.visibility,
        "generation": state.generation,
        "created_at": state.created_at,
        "updated_at": state.updated_at,
        "documents": state.documents,
        "documents_without_url": state.documents_without_url,
        "chunks": state.chunks,
        "deleted_chunks": 0,
        "segments": 0,
        "bytes": rest + sum(sum(of_space.values()) for of_space in sizes.values()),
        "kernel": None,
        "spaces": [_space_status(stored, state.chunks, sizes.get(stored.table, {})) for stored in state.spaces],
        "languages": languages_of(state),
        "warnings": [],
    }


def languages_of(state: CollectionState) -> dict[str, int]:
    """The number of chunks by language, most first."""
    return dict(sorted(state.languages.items(), key=lambda pair: (-pair[1], pair[0])))


def _space_status(stored: StoredSpace, chunks: int, sizes: Mapping[str, int]) -> SpaceStatus:
    has_index = bool(sizes.get("index"))
    return {
        **asdict(stored.space),  # type: ignore[typeddict-item]
        "state": "live",
        "chunks": chunks,
        "runtime": stored.runtime,
        "calibration": {"kind": "hnsw", "reason": None, "depths": []} if has_index else None,
        "bytes": sizes,
    }
