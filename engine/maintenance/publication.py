"""What a bucket holds: the objects of a published store, and the three small ones that change.

    PREFIX/collections.json              the names of all collections, the newest publication of each, the aliases
    PREFIX/publisher.json                the last sign of life of a publisher that follows its store
    PREFIX/<collection>/CURRENT          the newest publication: generation, checksum of its manifest, what was purged
    PREFIX/<collection>/manifests/...    as in the store (engine/storage), byte for byte, as are:
    PREFIX/<collection>/segments/..., deletes/..., changes/...
    PREFIX/<collection>/signed/...       of signed publications: the SHA-256 of each file (`statement`)
    PREFIX/<collection>/packs/...        all objects of a first, small publication in one (`fleet/packs`)

All objects but the first three are written once. A publication puts the files that the former manifest did not name,
then the manifest, then CURRENT, by comparison with the ETag that it read before: of two publishers exactly one wins.
The catalog says where to look and no more: a replica takes nothing that CURRENT does not name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec
import xxhash

from aidre.engine.errors import BucketFailed, FormatTooNew, StoreDamaged
from aidre.engine.maintenance.bucket import Bucket, Objects
from aidre.engine.storage import (
    CHANGES,
    CURRENT,
    DELETES,
    MANIFESTS,
    SEGMENTS,
    FileEntry,
    Manifest,
    manifest_name,
    seal,
    unseal,
)

FORMAT = 1
_PACKED_FORMAT = 2
"""Of the CURRENT of a packed publication, which releases before packs refuse by name."""
CATALOG = "collections.json"
HEARTBEAT = "publisher.json"
MAX_COUNT = 1 << 53
Count = Annotated[int, msgspec.Meta(ge=0, lt=MAX_COUNT)]
Checksum = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Publication:
    """The newest publication of a collection.

    `manifest` is the xxh3-128 of the manifest's bytes. The generations before `purged` are erased: replicas must not
    keep them either. `collected` is the Unix time of the last garbage collection. `token` tells two publications apart.
    `statement` is the signature (`maintenance/statement.py`), `term` the term of the home node (`promotion`).
    """

    generation: Count
    lineage: str
    manifest: Checksum
    token: str
    purged: Count = 0
    collected: Count = 0
    statement: str | None = None
    term: Count = 0


@dataclass(frozen=True, slots=True)
class Term:
    """Which home node may publish: how many have taken over, when this one did (RFC 3339), and its host. `token` tells
    two claims apart."""

    number: Count
    since: str
    by: str
    token: str


@dataclass(frozen=True, slots=True)
class Listed:
    """What the catalog says of a publication: with another token than before there is something to pull. CURRENT is of
    the same term or a later one."""

    generation: Count
    token: str
    term: Count = 0


@dataclass(frozen=True, slots=True)
class ListedAlias:
    """An alias of the published store; `former` as in `model.Alias`."""

    collection: str
    former: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class BucketCatalog:
    """The collections of a bucket, sorted; releases up to 0.2.0 write and read nothing else.

    `publications` are the newest ones, as far as publishers entered them. `statement` signs all members, see
    `fleet/catalog.py`. Without a term none has taken over, or release 0.2.0 has rewritten it.
    """

    collections: tuple[str, ...] = ()
    publications: Mapping[str, Listed] = field(default_factory=dict)
    aliases: Mapping[str, ListedAlias] = field(default_factory=dict)
    statement: str | None = None
    term: Term | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """That a publisher is at work: its term, the Unix time, and the newest generation of each collection that it
    follows, published or not."""

    term: Count
    at: Count
    generations: Mapping[str, Count]


def checksum(content: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(content)


def current_key(collection: str) -> str:
    return f"{collection}/{CURRENT}"


def manifest_key(collection: str, generation: int) -> str:
    return f"{collection}/{MANIFESTS}/{manifest_name(generation)}"


def named_files(collection: str, manifest: Manifest) -> Iterator[tuple[str, FileEntry]]:
    """The keys of the files that a manifest names, which are their paths in a store, too; without changelogs."""
    for segment in manifest.segments:
        for name, entry in segment.files.items():
            yield f"{collection}/{SEGMENTS}/{segment.id}/{name}", entry
    for name, entry in manifest.deletes.items():
        yield f"{collection}/{DELETES}/{name}", entry


def changes_prefix(collection: str) -> str:
    return f"{collection}/{CHANGES}"


def read_catalog(bucket: Bucket) -> tuple[BucketCatalog, str | None]:
    """The catalog and its ETag; an empty one and None where nothing was published."""
    found = bucket.get(CATALOG)
    return (
        (BucketCatalog(), None)
        if found is None
        else (decode_record(found[0], BucketCatalog, bucket, CATALOG), found[1])
    )


def read_publication(bucket: Bucket, collection: str) -> tuple[Publication, str] | None:
    """The newest publication of a collection and its ETag."""
    key = current_key(collection)
    found = bucket.get(key)
    return None if found is None else (decode_record(found[0], Publication, bucket, key), found[1])


def read_heartbeat(bucket: Bucket, unless: str | None = None) -> tuple[Heartbeat, str] | None:
    """The last sign of life of a publisher and its ETag; None where there is none, or it has the ETag `unless`."""
    found = bucket.get(HEARTBEAT, unless=unless)
    return None if found is None else (decode_record(found[0], Heartbeat, bucket, HEARTBEAT), found[1])


def encode_record(record: Publication | BucketCatalog | Heartbeat, *, packed: bool = False) -> bytes:
    members = {name: value for name, value in msgspec.to_builtins(record).items() if value is not None}
    fenced = fence(members) if isinstance(record, Publication) else members
    return seal(msgspec.json.encode({"format": _PACKED_FORMAT if packed else FORMAT, **fenced}))


def is_packed(content: bytes) -> bool:
    """Whether a CURRENT that was decoded is that of a packed publication."""
    return int(msgspec.json.decode(unseal(content))["format"]) == _PACKED_FORMAT


def fence(members: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a publication, or of what was signed of it, as they are written. After a takeover the lineage ends
    in the term: release 0.2.0 knows no term, and refuses to replace a publication of another lineage, unless that is
    dropped: see `Tenure.is_usurped`."""
    if not members["term"]:
        return {name: value for name, value in members.items() if name != "term"}
    return {**members, "lineage": f"{members['lineage']}.{members['term']}"}


def unfence(members: Any) -> Any:
    """The reverse of `fence`, for what may be anything."""
    if not isinstance(members, dict) or not members.get("term") or not isinstance(members.get("lineage"), str):
        return members
    return {**members, "lineage": members["lineage"].removesuffix(f".{members['term']}")}


def swap_publication(
    bucket: Bucket, collection: str, wanted: Publication, etag: str | None, *, packed: bool = False
) -> Publication | None:
    """Replace the publication that has the ETag, None: where there is none; returns what is published then, `wanted`
    where that was done. BucketFailed where that is not known."""
    failure: BucketFailed | None = None
    try:
        if bucket.swap(current_key(collection), encode_record(wanted, packed=packed), etag):
            return wanted
    except BucketFailed as error:
        failure = error
    now = read_publication(bucket, collection)  # it was, and the answer did not come, or is that to a repeated request
    if failure is not None and (now is None or now[0] != wanted):
        raise failure
    return None if now is None else now[0]


def decode_record(content: bytes, kind: type[_T], bucket: Bucket, key: str) -> _T:
    """StoreDamaged, FormatTooNew."""
    try:
        value = msgspec.json.decode(unseal(content))
        newest = _PACKED_FORMAT if kind is Publication else FORMAT
        if value["format"] > newest:
            raise FormatTooNew(
                f"{bucket.url} was published in format {value['format']}, this release reads up to {newest}: "
                "upgrade aidre",
                format=value["format"],
            )
        return msgspec.convert(unfence(value) if kind is Publication else value, kind)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(bucket, key, "is not a record of aidre") from error


def damaged(bucket: Objects, key: str, problem: str) -> StoreDamaged:
    return StoreDamaged(
        f"{bucket.url}/{key} {problem}: publish the store again with --repair",
        collection=key.partition("/")[0],
        file=key,
        problem=problem,
    )
