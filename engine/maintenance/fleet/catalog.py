"""The catalog of a bucket: which collections there are, which publication of each is the newest, and the aliases.

A replica that polls asks for this object alone. Publishers write it after the CURRENT of each collection, by comparison
with its ETag, and before the first CURRENT of a new one: there the term of another home node stops them. One that is
killed in between leaves a catalog that is behind: its next pass mends it, and replicas look at one CURRENT more at
every poll, in turn.

With a key, the member `statement` is a JWS over the SHA-256 of the other members, the kind and the time. Collections
and publications are hints, which CURRENT has to confirm; aliases are taken from a signed catalog only.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from aidre.engine.errors import AidreError, BucketFailed, PublicationRefused, StoreDamaged
from aidre.engine.maintenance.bucket import Bucket
from aidre.engine.maintenance.publication import (
    CATALOG,
    BucketCatalog,
    Count,
    Listed,
    ListedAlias,
    Publication,
    Term,
    damaged,
    encode_record,
    read_catalog,
)
from aidre.engine.maintenance.statement import (
    MALFORMED,
    Opener,
    Sha256,
    StatementSigner,
    canonical,
    payload_of,
    refused,
)
from aidre.engine.model import Alias
from aidre.engine.storage import CURRENT, Aliases, durable, is_collection_name

_ATTEMPTS = 20
STATEMENT_FILE = ".catalog.statement"
"""In the cache of a replica: that of the newest catalog whose aliases were taken."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CatalogClaims:
    """The payload of a catalog's statement. `iat` is its Unix time, later in each than in the former one."""

    kind: Literal["catalog"]
    sha256: Sha256
    iat: Count


@dataclass(frozen=True, slots=True)
class Entries:
    """What a publisher enters: the publications that it made or found to be the newest, names of collections that get
    their first one soon, and the aliases of its store. An alias of the catalog that means another store's collection
    stays."""

    publications: Mapping[str, Publication]
    names: Collection[str]
    aliases: Mapping[str, Alias]
    own: Collection[str]


# -- written ---------------------------------------------------------------------------------------------------------


def enter(
    bucket: Bucket,
    entries: Entries,
    signer: StatementSigner | None,
    check: Callable[[int], Term | None],
    *,
    repair: bool = False,
) -> None:
    """Enter publications and aliases in the catalog, which is not written where it has them. `check` gives the term of
    this store, or raises PublishConflict where the number of the catalog's is later. BucketFailed, StoreDamaged."""
    for _ in range(_ATTEMPTS):
        try:
            catalog, etag = read_catalog(bucket)
            is_whole = True
        except StoreDamaged:
            content = bucket.get(CATALOG)
            if not repair or content is None:
                raise
            catalog, etag, is_whole = _listed_catalog(bucket), content[1], False
        former = None if signer is None else _accepted_by(catalog, signer)
        wanted = _with_entries(catalog, entries, trusts_aliases=signer is None or former is not None)
        wanted = replace(wanted, term=check(0 if catalog.term is None else catalog.term.number))
        signed = signer is None or (former is not None and _is_by(signer, catalog, former))
        if is_whole and signed and replace(wanted, statement=catalog.statement) == catalog:
            return
        if signer is not None:
            wanted = replace(wanted, statement=_statement(wanted, signer, 0 if former is None else former.iat))
        if bucket.swap(CATALOG, encode_record(wanted), etag):  # False may mean yes: the next round reads what is there
            return
    raise damaged(bucket, CATALOG, "changes faster than it can be written")


def _with_entries(catalog: BucketCatalog, entries: Entries, *, trusts_aliases: bool) -> BucketCatalog:
    listed = {name: Listed(new.generation, new.token, new.term) for name, new in entries.publications.items()}
    names = tuple(sorted({*catalog.collections, *listed, *entries.names}))
    others = {name: alias for name, alias in catalog.aliases.items() if alias.collection not in entries.own}
    foreign = others if trusts_aliases else {}
    own = {
        name: ListedAlias(alias.collection, alias.former)
        for name, alias in entries.aliases.items()
        if alias.collection in names
    }
    publications = {name: publication for name, publication in catalog.publications.items() if name in names}
    publications, aliases = _sorted(publications | listed), _sorted(foreign | own)
    return replace(catalog, collections=names, publications=publications, aliases=aliases, statement=None)


def _sorted(members: Mapping[str, _T]) -> dict[str, _T]:
    return dict(sorted(members.items()))


def _listed_catalog(bucket: Bucket) -> BucketCatalog:
    """The collections that a listing of the bucket shows, which takes its time."""
    ending = f"/{CURRENT}"
    names = {listed.key.removesuffix(ending) for listed in bucket.list("") if listed.key.endswith(ending)}
    return BucketCatalog(tuple(sorted(filter(is_collection_name, names))))


# -- signed ----------------------------------------------------------------------------------------------------------


def _statement(catalog: BucketCatalog, signer: StatementSigner, former: int) -> str:
    claims = CatalogClaims("catalog", _digest(catalog), max(int(time.time()), former + 1))
    return signer.sign(canonical(claims))


def _digest(catalog: BucketCatalog) -> str:
    """Without the term, which a takeover replaces, and replicas need not believe."""
    return hashlib.sha256(canonical(replace(catalog, statement=None, term=None))).hexdigest()


def _is_by(signer: StatementSigner, catalog: BucketCatalog, claims: CatalogClaims) -> bool:
    """Whether the newest key has signed it, and not a former one."""
    return signer.sign(canonical(claims)) == catalog.statement


def _accepted_by(catalog: BucketCatalog, keys: Opener) -> CatalogClaims | None:
    """What a catalog states; None where none of the keys has signed these members."""
    if catalog.statement is None:
        return None
    try:
        claims = msgspec.convert(msgspec.json.decode(keys.open(catalog.statement)), CatalogClaims)
    except (KeyError, *MALFORMED):
        return None
    return claims if claims.sha256 == _digest(catalog) else None


def accept_catalog(bucket: Bucket, catalog: BucketCatalog, keys: Opener, former: str | None) -> str:
    """The statement of a catalog whose aliases may be taken; `former` is the one of the newest that was.

    PublicationRefused.
    """
    claims, seen = _accepted_by(catalog, keys), None if former is None else _read_claims(former)
    if claims is None or catalog.statement is None:
        reason = "unsigned" if catalog.statement is None else "forged"
        raise _refused(bucket, reason, "is not signed by a key of store.publisher_keys, and its aliases are not taken")
    if seen is not None and (claims.iat < seen.iat or (claims.iat == seen.iat and claims != seen)):
        raise _refused(bucket, "older", "is older than one that this replica has seen, and its aliases are not taken")
    return catalog.statement


def _read_claims(statement: str) -> CatalogClaims | None:
    """What a statement says that was accepted before."""
    try:
        return msgspec.convert(msgspec.json.decode(payload_of(statement)), CatalogClaims)
    except (IndexError, *MALFORMED):
        return None


def _refused(bucket: Bucket, reason: str, what: str) -> PublicationRefused:
    return PublicationRefused(
        f"refused ({reason}): {bucket.url}/{CATALOG} {what}: run `aidre publish` of this release with provenance.key",
        collection=CATALOG,
        url=bucket.url,
        reason=reason,
    )


# -- read ------------------------------------------------------------------------------------------------------------


def take_aliases(
    cache: Path, bucket: Bucket, catalog: BucketCatalog, keys: Opener | None, is_there: Callable[[str], bool]
) -> None:
    """Make the aliases of a catalog those of a replica, in one step, each as soon as `is_there` what it means.
    PublicationRefused, StorageFailed."""
    own, path = Aliases(cache), cache / STATEMENT_FILE
    known = own.known()
    if keys is not None and (catalog.aliases or path.exists()):
        former = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
        statement = accept_catalog(bucket, catalog, keys, former)
        if statement != former:
            durable.replace_file(path, statement.encode())
    taken = dict[str, Alias]()
    for name, alias in catalog.aliases.items():
        if is_collection_name(alias.collection) and is_there(alias.collection):
            taken[name] = Alias(alias.collection, alias.former)
        elif name in known:
            taken[name] = known[name]
    own.replace(taken)


class Due:
    """Which collections of a catalog a replica looks at: those with another publication than it pulled, those whose
    publication is not listed, and one of the others in turn."""

    def __init__(self) -> None:
        self._done: dict[str, Listed] = {}
        self._turn = 0

    def names(self, catalog: BucketCatalog, is_broken: Callable[[str], bool]) -> list[str]:
        """`is_broken` says whether the cache lacks something of a collection that was pulled."""
        due = [name for name in catalog.collections if self._is_due(name, catalog) or is_broken(name)]
        others = sorted(set(catalog.collections).difference(due))
        if others:
            self._turn += 1
            due.append(others[self._turn % len(others)])
        return due

    def _is_due(self, name: str, catalog: BucketCatalog) -> bool:
        listed = catalog.publications.get(name)
        return listed is None or listed != self._done.get(name)

    def done(self, name: str, catalog: BucketCatalog) -> None:
        """A collection is at the publication that the catalog lists, or at a later one."""
        listed = catalog.publications.get(name)
        if listed is not None:
            self._done[name] = listed


# -- terms ---------------------------------------------------------------------------------------------------------

TERMS = ".terms.json"
"""In the cache: the highest term of each collection, where that has one."""


class KnownTerms:
    """The highest term of each collection of a bucket that a replica has seen: a publication of an older one was put
    there by a publisher that is fenced.

    Only release 0.2.0 does so, which knows no terms, and only where it finds a dropped collection. A new replica learns
    the term from the catalog, as long as that release has not rewritten it.
    """

    def __init__(self, cache: Path, bucket: Bucket) -> None:
        self._path, self._bucket = cache / TERMS, bucket
        self._known: dict[str, int] | None = None
        self._noting = threading.Lock()

    def check(self, name: str, publication: Publication, catalog: BucketCatalog) -> None:
        """PublicationRefused where a publication is of an older term than one before it; StorageFailed."""
        listed = catalog.publications.get(name)
        with self._noting:
            known = self._read()
            highest = max(known.get(name, 0), 0 if listed is None else listed.term)
            if publication.term > known.get(name, 0):
                known[name] = publication.term
                durable.replace_file(self._path, msgspec.json.encode(known))
        if publication.term < highest:
            what = f"is of term {publication.term}, and there was one of term {highest}: a publisher of release 0.2.0 "
            cure = (
                "put it there, or the bucket was made anew; run `aidre publish` on the home node, or begin a new cache"
            )
            raise refused(self._bucket, name, "older_term", what + cure)

    def _read(self) -> dict[str, int]:
        if self._known is None:
            self._known = {}
            with suppress(OSError, ValueError):
                self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        return self._known


# -- one pass over many collections ----------------------------------------------------------------------------

AT_ONCE = 16
"""Collections at a time; one that fails stops no other."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """What a publication sent. `files` is 0 where the generation was in the bucket already; `signed`, whether its
    CURRENT is signed."""

    collection: str
    generation: int
    documents: int
    chunks: int
    files: int
    bytes: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass published, and why the other collections were not."""

    published: tuple[PublishResult, ...]
    failures: Mapping[str, AidreError]


def each_of(names: Sequence[str], do: Callable[[str], _T | None]) -> tuple[dict[str, _T], dict[str, AidreError]]:
    """What was done for each collection, without those for which there was nothing to do, and the failures. A bucket
    that has failed is not asked for the collections after it: they fail, too."""
    done, failures = dict[str, _T](), dict[str, AidreError]()

    def attempt(name: str) -> None:
        away = next((failure for failure in list(failures.values()) if isinstance(failure, BucketFailed)), None)
        try:
            if away is not None:
                raise away
            result = do(name)
            done.update({} if result is None else {name: result})
        except AidreError as failure:
            failures[name] = failure

    if len(names) == 1:
        attempt(names[0])
    else:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bucket") as threads:
            list(threads.map(attempt, names))
    return done, failures
