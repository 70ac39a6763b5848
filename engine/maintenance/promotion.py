"""Terms: which home node may publish to a bucket, and how a replica takes it over from one that is lost.

A term is a number that each takeover raises. The catalog names it with its holder, CURRENT of each collection has it,
and a home node remembers its own in HOME. A promotion

    claims the next term, by comparing and swapping the catalog: a publisher of an older one enters no collection then;
    takes over each CURRENT, by comparison, once the replica has what it names: a publication that is under way loses;
    makes the replica a home node, by removing REPLICA.

Killed in between, it leaves a replica, whose promotion can be repeated under a further term. What the former home node
published before its CURRENT was taken over is part of the history; later it is refused, by its term.
"""

from __future__ import annotations

import resource
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from aidre.engine.errors import PublishConflict, StorageFailed
from aidre.engine.maintenance.bucket import Bucket, Objects
from aidre.engine.maintenance.fleet.packs import Packed, open_pack
from aidre.engine.maintenance.publication import (
    CATALOG,
    HEARTBEAT,
    Heartbeat,
    Publication,
    Term,
    checksum,
    encode_record,
    manifest_key,
    read_catalog,
    read_heartbeat,
    read_publication,
    swap_publication,
)
from aidre.engine.maintenance.replica import Replica, replicated_url
from aidre.engine.maintenance.statement import (
    STATEMENT,
    Accepted,
    Opener,
    StatementSigner,
    accept,
    claims_of,
    encode_claims,
    encode_list,
    list_key,
    next_time,
)
from aidre.engine.storage import HOME, REPLICA, durable, encode_manifest, first_manifest, now, write_errors

_ATTEMPTS = 100
"""Of a swap that others are faster at."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """The bucket that was taken over, the term, and the generation that each collection has there."""

    url: str
    term: int
    generations: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Terms:
    terms: Mapping[str, Term]


class Tenure:
    """The term of a store in a bucket, 0 where it has never taken it over."""

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self._path, self._bucket = folder / HOME, bucket
        self._url = bucket.url.rstrip("/")

    @property
    def term(self) -> Term | None:
        return read_terms(self._path).get(self._url)

    @property
    def number(self) -> int:
        term = self.term
        return 0 if term is None else term.number

    def check(self, collection: str, number: int, *, force: bool = False) -> Term | None:
        """The own term. PublishConflict where the bucket is of a later one, which `force` takes it over from."""
        own = self.term
        if number <= (0 if own is None else own.number):
            return own
        if force:
            return self.claim(at_least=number)
        named, _ = read_catalog(self._bucket)
        holder = "" if named.term is None else f" since {named.term.since}, taken over by {named.term.by}"
        replica = f"`aidre serve --store {self._bucket.url} --cache NEW_FOLDER`"
        raise PublishConflict(
            f"{self._bucket.url} belongs to term {number}{holder}; this store is of term {self.number}, and publishes "
            f"collection {collection!r} there no more: make this host a replica, by {replica}, or replace what is "
            "published by what this store has, by `aidre publish --force`",
            collection=collection,
            url=self._bucket.url,
            generation=None,
            term=number,
        )

    def check_entered(self, collection: str) -> Term | None:
        """The same for the term of the catalog, which is raised before that of each CURRENT."""
        entered = read_catalog(self._bucket)[0].term
        return self.check(collection, 0 if entered is None else entered.number)

    def is_usurped(self, collection: str, found: Publication | None) -> bool:
        """Whether a publication has an older term than this store has published by: release 0.2.0 has put it in the
        place of a dropped collection."""
        number = self.number
        if found is None or found.term >= number:
            return False
        listed = read_catalog(self._bucket)[0].publications.get(collection)
        return listed is not None and found.term < listed.term <= number

    def claim(self, *, at_least: int = 0) -> Term:
        """Make the next term this store's, which remembers it. BucketFailed, StorageFailed, PublishConflict."""
        for _ in range(_ATTEMPTS):
            catalog, etag = read_catalog(self._bucket)
            found = [read_publication(self._bucket, name) for name in catalog.collections]
            published = [entry[0].term for entry in found if entry is not None]
            entered = 0 if catalog.term is None else catalog.term.number
            highest = max([at_least, self.number, entered, *published])
            term = Term(highest + 1, now(), socket.gethostname(), secrets.token_hex(8))
            if self._bucket.swap(CATALOG, encode_record(replace(catalog, term=term)), etag) or self.holds(term):
                self._remember(term)  # not before: another store may have got the number
                return term
        raise self.contended(CATALOG)

    def confirm(self, term: Term) -> None:
        """PublishConflict where another store has claimed a term since. Where release 0.2.0 has rewritten the catalog,
        the term is entered again."""
        for _ in range(_ATTEMPTS):
            catalog, etag = read_catalog(self._bucket)
            if catalog.term is not None:
                if catalog.term != term:
                    raise self.overtaken(catalog.term.number, term)
                return
            self._bucket.swap(CATALOG, encode_record(replace(catalog, term=term)), etag)
        raise self.contended(CATALOG)

    def holds(self, term: Term) -> bool:
        return read_catalog(self._bucket)[0].term == term

    def overtaken(self, number: int, term: Term) -> PublishConflict:
        text = f"another store has taken {self._bucket.url} over, by term {number}, while this one did by term "
        cure = "decide which is to be the home node, and promote that"
        return PublishConflict(f"{text}{term.number}: {cure}", url=self._bucket.url)

    def contended(self, what: str) -> PublishConflict:
        text = f"{self._bucket.url}/{what} changes faster than it can be taken over: stop the former home node"
        return PublishConflict(text, url=self._bucket.url)

    def _remember(self, term: Term) -> None:
        terms = {**read_terms(self._path), self._url: term}
        durable.replace_file(self._path, msgspec.json.encode(_Terms(terms)))


def beat(bucket: Bucket, folder: Path, generations: Mapping[str, int]) -> None:
    """Put a sign of life into the bucket. PublishConflict where it belongs to a later term; BucketFailed."""
    tenure, found = Tenure(folder, bucket), read_heartbeat(bucket)
    tenure.check_entered("any")
    tenure.check("any", 0 if found is None else found[0].term)
    heartbeat = Heartbeat(tenure.number, int(time.time()), generations)
    bucket.swap(HEARTBEAT, encode_record(heartbeat), None if found is None else found[1])


def read_terms(path: Path) -> Mapping[str, Term]:
    """The terms of a store, by the addresses of buckets."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Terms).terms
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        cure = "restore it from a backup, or remove it and publish with --force"
        raise StorageFailed(f"{path} does not say the terms of this store: {cure}", file=path.name) from error


def home_of(folder: Path) -> Mapping[str, int]:
    """The terms of the buckets that a store is, or was, the home node of, by address; none for a replica."""
    is_replica = replicated_url(folder) is not None
    return {} if is_replica else {url: term.number for url, term in read_terms(folder / HOME).items()}


def promote(
    bucket: Bucket, cache: Path, *, signer: StatementSigner | None = None, keys: Opener | None = None
) -> Promoted:
    """Make the replica of a bucket its home node, with the newest publication of every collection.

    PublishConflict where another one is faster; what a pull raises. The replica stays one then.
    """
    replica = Replica(bucket, cache, keys=keys)
    replica.prepare()
    replica.pull()
    takeover = _Takeover(replica, bucket, Tenure(replica.cache, bucket), signer, keys)
    for name in read_catalog(bucket)[0].collections:
        takeover.check(name)  # what fails after the claim has fenced the home node
    term = takeover.tenure.claim()
    taken = {name: takeover.take(name, term) for name in read_catalog(bucket)[0].collections}
    for _ in range(_ATTEMPTS):
        replica.pull()  # of collections that were begun, and end with the takeover
        if takeover.finish(taken, term):
            return Promoted(
                bucket.url, term.number, {name: publication.generation for name, publication in taken.items()}
            )
    raise takeover.tenure.contended(CATALOG)


@dataclass(frozen=True, slots=True)
class _Takeover:
    """What a promotion takes each collection over with."""

    replica: Replica
    bucket: Bucket
    tenure: Tenure
    signer: StatementSigner | None
    keys: Opener | None

    def check(self, name: str) -> None:
        """PublishConflict and PublicationRefused where a collection cannot be taken over by what is here."""
        found = read_publication(self.bucket, name)
        if found is not None:
            self._accepted(name, found[0], self._pack(name, found[0]) or self.bucket)

    def finish(self, taken: Mapping[str, Publication], term: Term) -> bool:
        """Make the folder a home node, unless a replica that still runs has set a collection back meanwhile. None of
        them is between its look at REPLICA and its last write then: it would hold a lock."""
        cache = self.replica.cache
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # one file a lock
        with ExitStack() as locks:
            for name in sorted(taken):
                locks.enter_context(self.replica.lock(name))
            self.tenure.confirm(term)
            if not all(self.replica.has(name, publication) for name, publication in taken.items()):
                return False
            with write_errors(cache / REPLICA):
                for name in taken:
                    (cache / name / STATEMENT).unlink(missing_ok=True)
                (cache / REPLICA).unlink()
                durable.sync_folder(cache)
        return True

    def take(self, name: str, term: Term) -> Publication:
        """Put the term into CURRENT of a collection, once the replica has that generation."""
        for _ in range(_ATTEMPTS):
            found = read_publication(self.bucket, name)
            if found is not None and found[0].term > term.number:
                raise self.tenure.overtaken(found[0].term, term)
            if found is not None and not self.replica.has(name, found[0]):
                self.replica.pull_newest(name)
                continue
            former, etag = found or (None, None)
            pack = None if former is None else self._pack(name, former)
            if former is None:
                wanted = self._begun(name, term)
            else:
                wanted = self._succeeding(name, former, pack or self.bucket, term)
            if swap_publication(self.bucket, name, wanted, etag, packed=pack is not None) == wanted:
                return wanted
        raise self.tenure.contended(name)

    def _pack(self, name: str, former: Publication) -> Packed | None:
        """The pack that has the objects of a publication, where they are not there one by one."""
        is_plain = self.bucket.size(manifest_key(name, former.generation)) is not None
        return None if is_plain else open_pack(self.bucket, name, former.generation)

    def _succeeding(self, name: str, former: Publication, objects: Objects, term: Term) -> Publication:
        """The same publication under the term, signed where it was."""
        wanted = replace(former, term=term.number, token=secrets.token_hex(8), statement=None)
        accepted = self._accepted(name, former, objects)
        if accepted is None or self.signer is None:
            return wanted
        claims = claims_of(name, wanted, accepted.claims.visibility, next_time(accepted.claims), accepted.files)
        statement = self.signer.sign(encode_claims(claims))
        self.bucket.put(list_key(claims), encode_list(statement, accepted.files))
        return replace(wanted, statement=statement)

    def _accepted(self, name: str, former: Publication, objects: Objects) -> Accepted | None:
        """What was signed of a publication that is to be signed again, None where it is not signed."""
        if former.statement is None:
            return None
        if self.signer is None:
            raise PublishConflict(
                f"the publications at {self.bucket.url} are signed, and here is no provenance.key: set it, in the file "
                "of --config, and give its public half to the replicas",
                collection=name,
                url=self.bucket.url,
                generation=former.generation,
            )
        return accept(objects, name, former, self.keys or self.signer)

    def _begun(self, name: str, term: Term) -> Publication:
        """A collection that was entered in the catalog, and has no CURRENT: its first publication was killed, or is
        under way. A dropped collection in its place makes that lose."""
        manifest, number, content = replace(first_manifest(name, ()), dropped=True), 0, b""
        while not content or not self.bucket.put_new(manifest_key(name, number), content):
            number += 1
            content = encode_manifest(replace(manifest, generation=number))
        facts = number, manifest.lineage, checksum(content), secrets.token_hex(8)
        return Publication(*facts, purged=number, term=term.number)
