"""Signed publications: what a publisher states of one, and what a replica with its keys takes for it.

The statement is a compact JWS (RFC 7515) in the member `statement` of CURRENT, which older releases pass over. Its
payload: the members of the publication, the collection, its visibility, the time, and the SHA-256 of a list of files,

    PREFIX/<collection>/signed/000123-<half of that SHA-256>.json      {"statement": ..., "files": {key: SHA-256}}

The list has the manifest, the files that it names, and the changelogs: their xxh3 shows damage, but whoever may write
to the bucket can make another file with the same one. The statement is repeated there, for who reads an older
generation.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from aidre.engine.errors import PublicationRefused
from aidre.engine.maintenance.bucket import Objects
from aidre.engine.maintenance.publication import Checksum, Count, Publication, current_key, fence, unfence
from aidre.engine.model import Visibility

SIGNED = "signed"
"""The folder of the lists."""
STATEMENT = "STATEMENT"
"""In a folder of a replica's cache: the statement of the newest publication that it has accepted."""
_NAME_DIGITS = 32
"""Hex digits of the SHA-256 of a list in the name of its file: enough to distinguish lists."""
MALFORMED = (ValueError, TypeError, RecursionError)
"""What reading of text by a stranger raises."""
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Opener(Protocol):
    """Public keys."""

    def open(self, statement: str) -> bytes:
        """The payload of a statement. KeyError with the id of its key, where that is not one of these; ValueError where
        it is not a statement, or its signature does not hold."""


class StatementSigner(Opener, Protocol):
    """The key of a publisher, and the public halves of former ones."""

    def sign(self, payload: bytes) -> str:
        """The statement. The same payload and key give the same one (RFC 8032)."""


@dataclass(frozen=True, slots=True)
class StatementClaims:
    """The payload of a statement. `iat` is the Unix time of the publication, which is later in each than in the former
    one; `files` the SHA-256 of its list; the others are those of the publication."""

    collection: str
    generation: Count
    lineage: str
    manifest: Checksum
    token: str
    purged: Count
    collected: Count
    visibility: Visibility
    iat: Count
    files: Sha256
    term: Count = 0


@dataclass(frozen=True, slots=True)
class _List:
    statement: str
    files: Mapping[str, Sha256]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A publication whose statement holds: the claims, the statement, and the SHA-256 of each file by its key."""

    claims: StatementClaims
    statement: str
    files: Mapping[str, str]


# -- made ------------------------------------------------------------------------------------------------------------


def claims_of(
    collection: str, publication: Publication, visibility: Visibility, iat: int, files: Mapping[str, str]
) -> StatementClaims:
    facts = {name: value for name, value in msgspec.to_builtins(publication).items() if name != "statement"}
    digest = hashlib.sha256(canonical(files)).hexdigest()
    return StatementClaims(collection=collection, visibility=visibility, iat=iat, files=digest, **facts)


def encode_claims(claims: StatementClaims) -> bytes:
    return canonical(fence(msgspec.to_builtins(claims)))


def encode_list(statement: str, files: Mapping[str, str]) -> bytes:
    return canonical({"statement": statement, "files": files})


def canonical(value: object) -> bytes:
    """What is signed: equal values are equal bytes."""
    return msgspec.json.encode(value, order="deterministic")


def list_key(claims: StatementClaims) -> str:
    return f"{claims.collection}/{SIGNED}/{claims.generation:06d}-{claims.files[:_NAME_DIGITS]}.json"


def is_list_of(key: str, generations: frozenset[int]) -> bool:
    """Whether an object is the list of one of these generations."""
    number = key.partition(f"/{SIGNED}/")[2].partition("-")[0]
    return number.isdecimal() and int(number) in generations


def sha256_of(path: Path) -> str:
    """OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- read ------------------------------------------------------------------------------------------------------------


def read_claims(statement: str) -> StatementClaims | None:
    """What a statement says, whoever has signed it; None where it is none."""
    try:
        return _claims(payload_of(statement))
    except (IndexError, *MALFORMED):
        return None


def _claims(content: bytes) -> StatementClaims:
    return msgspec.convert(unfence(msgspec.json.decode(content)), StatementClaims)


def payload_of(statement: str) -> bytes:
    """IndexError, ValueError."""
    payload = statement.split(".")[1]
    return base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))


def accepted_at(folder: Path) -> int | None:
    """The time of the signed publication that a collection of a replica is of; None where it was not verified."""
    claims = seen(folder)
    return None if claims is None else claims.iat


def seen(folder: Path) -> StatementClaims | None:
    """The newest publication that a replica has accepted, in a collection's folder of its cache."""
    with suppress(FileNotFoundError):
        return read_claims((folder / STATEMENT).read_text(encoding="utf-8", errors="replace"))
    return None


def accept(bucket: Objects, collection: str, publication: Publication, keys: Opener) -> Accepted:
    """Check the statement of the newest publication, and read its list. PublicationRefused, BucketFailed."""
    if publication.statement is None:
        raise refused(bucket, collection, "unsigned", f"is not signed, {_CURE_UNSIGNED}")
    claims = _open(bucket, collection, publication.statement, keys)
    stated = claims_of(collection, publication, claims.visibility, claims.iat, {})
    different = [
        name for name in StatementClaims.__slots__ if name != "files" and getattr(stated, name) != getattr(claims, name)
    ]
    if different:
        shown = ", ".join(different)
        raise refused(bucket, collection, "forged", f"differs from what was signed: {shown}; {_CURE_FORGED}")
    files = _read_list(bucket, list_key(claims), claims)
    if files is None:
        raise refused(bucket, collection, "forged", f"has no list of files that was signed; {_CURE_FORGED}")
    return Accepted(claims, publication.statement, files)


def accept_older(bucket: Objects, newest: StatementClaims, generation: int, keys: Opener) -> Accepted | None:
    """The same of an older generation of the same history; None where the bucket has no statement of it that holds.
    BucketFailed."""
    collection = newest.collection
    for found in bucket.list(f"{collection}/{SIGNED}"):
        content = bucket.get(found.key) if is_list_of(found.key, frozenset({generation})) else None
        try:
            listed = None if content is None else msgspec.json.decode(content[0], type=_List)
            if listed is None:
                continue
            claims = _open(bucket, collection, listed.statement, keys)
        except (*MALFORMED, PublicationRefused):
            continue
        is_same = (claims.collection, claims.generation, claims.lineage) == (collection, generation, newest.lineage)
        if is_same and hashlib.sha256(canonical(listed.files)).hexdigest() == claims.files:
            return Accepted(claims, listed.statement, listed.files)
    return None


def _open(bucket: Objects, collection: str, statement: str, keys: Opener) -> StatementClaims:
    try:
        return _claims(keys.open(statement))
    except KeyError as error:
        what = f"is signed by the key {str(error.args[0])[:64]!r}, which is not in store.publisher_keys"
        cure = "add its public half, or find out who else publishes"
        raise refused(bucket, collection, "unknown_key", f"{what}: {cure}") from error
    except MALFORMED as error:
        raise refused(bucket, collection, "forged", f"has a signature that does not hold; {_CURE_FORGED}") from error


def _read_list(bucket: Objects, key: str, claims: StatementClaims) -> Mapping[str, str] | None:
    found = bucket.get(key)
    try:
        listed = None if found is None else msgspec.json.decode(found[0], type=_List)
    except MALFORMED:
        return None
    holds = listed is not None and hashlib.sha256(canonical(listed.files)).hexdigest() == claims.files
    return listed.files if listed is not None and holds else None


_CURE_UNSIGNED = "and store.publisher_keys is set: set provenance.key where it is published, and publish again"
_CURE_FORGED = "find out who else writes to the bucket, and publish again with --repair"


def refused(bucket: Objects, collection: str, reason: str, what: str) -> PublicationRefused:
    return PublicationRefused(
        f"refused ({reason}): {bucket.url}/{current_key(collection)} {what}",
        collection=collection,
        url=bucket.url,
        reason=reason,
    )


# -- compared with what was seen ------------------------------------------------------------------------------------


def check_succeeds(
    bucket: Objects, claims: StatementClaims, former: StatementClaims | None, widened: frozenset[str]
) -> None:
    """PublicationRefused where a publication is older than `former`, the newest that was accepted, or makes public what
    was private in that."""
    name = claims.collection
    if former is None:
        return
    if claims.iat < former.iat or (claims.iat == former.iat and claims != former):
        times = f"is of {_in_words(claims.iat)}, generation {claims.generation}, and was followed by that of"
        what = f"{times} {_in_words(former.iat)}, generation {former.generation}, which this replica has seen"
        raise refused(bucket, name, "older", f"{what}: find out who put it there, and publish again")
    if former.visibility == "private" and claims.visibility == "public" and name not in widened:
        cure = f"if that is meant, enter {name!r} in store.widened of the replica, else publish it as private again"
        raise refused(bucket, name, "widened", f"makes a collection public that was private: {cure}")


def next_time(former: StatementClaims | None) -> int:
    """The time of a publication, later than that of the former one also where the clock was set back."""
    return max(int(time.time()), 0 if former is None else former.iat + 1)


def _in_words(moment: int) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(moment)
