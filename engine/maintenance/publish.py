"""Publishing: puts the newest generation of each collection into a bucket, from which replicas pull it.

Only the bucket's CURRENT is ever replaced, and only by comparison, so a publisher that is killed leaves a bucket that
reads as before, and of two that race one wins. Objects that no generation of the last day names are removed once an
hour; after a purge (a history that does not continue the published one) everything older at once.

With a key, CURRENT is signed (`statement`), and signed anew where it was not, or by another key.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aidre.engine.collection import continues_history, diverges, local_store
from aidre.engine.errors import (
    FormatTooNew,
    InvalidInput,
    PublicationRefused,
    PublishConflict,
    StoreDamaged,
)
from aidre.engine.maintenance.backup import open_generation
from aidre.engine.maintenance.bucket import Bucket, StoredObject
from aidre.engine.maintenance.promotion import Tenure
from aidre.engine.maintenance.publication import (
    CATALOG,
    Catalog,
    Publication,
    changes_prefix,
    checksum,
    current_key,
    damaged,
    encode_record,
    manifest_key,
    named_files,
    read_catalog,
    read_publication,
    swap_publication,
)
from aidre.engine.maintenance.statement import (
    Accepted,
    Signer,
    accept,
    claims_of,
    encode_claims,
    encode_list,
    is_list_of,
    list_key,
    next_time,
    sha256_of,
)
from aidre.engine.ports import Source
from aidre.engine.storage import (
    CHANGES,
    CURRENT,
    DELETES,
    MANIFESTS,
    FileEntry,
    FileProblem,
    Manifest,
    check_file,
    decode_manifest,
    encode_manifest,
    is_collection_name,
    locked_folder,
    manifest_name,
    read_manifest,
)

KEEP = timedelta(hours=24)
"""How long an object stays that no newer generation names: a replica may still be pulling it."""
RECENT = timedelta(minutes=15)
"""How long cursors may ask for any generation, and a little longer."""
SLOT = 600.0
"""Seconds."""
COLLECT_SECONDS = 3_600
"""Between two garbage collections of a bucket, which list it."""
_UPLOADS = 4
"""Files that are sent at a time."""
_CATALOG_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Published:
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
class _Generation:
    """A generation that is open on this machine. `digests` are the SHA-256 of what is to be signed, by the keys; `etag`
    is that of CURRENT, which is to be replaced."""

    name: str
    folder: Path
    manifest: Manifest
    content: bytes
    digests: MutableMapping[str, str]
    etag: str | None = None

    @property
    def publication(self) -> Publication:
        facts = self.manifest.generation, self.manifest.lineage, checksum(self.content)
        return Publication(*facts, token=secrets.token_hex(8), collected=int(time.time()))


class Publisher:
    """Publishes the collections of one store into one bucket; signed, where there is a signer."""

    def __init__(self, store: Source, bucket: Bucket, signer: Signer | None = None) -> None:
        self._store = local_store(store)
        self.bucket = self._bucket = bucket
        self._signer = signer
        self._tenure = Tenure(self._store.path, bucket)
        self._manifests: dict[tuple[str, int], Manifest] = {}

    def publish(self, collections: Sequence[str], *, force: bool = False, repair: bool = False) -> list[Published]:
        """Make the newest generation of each collection the bucket's.

        `force` replaces what another store published under the name, or a newer generation of this one. `repair`
        compares every object that the generation names with its checksum, and sends the damaged ones again.
        PublishConflict, BucketFailed, StoreDamaged, FormatTooNew, CollectionMissing, StorageFailed.
        """
        if not collections:
            raise InvalidInput("there is nothing to publish: the store has no collection")
        return [self._publish(name, force=force, repair=repair) for name in collections]

    def generations(self) -> dict[str, int]:
        """Of the store, published or not."""
        return {name: self._store.current(name) for name in self._store.collections()}

    def publish_drops(self) -> list[Published]:
        """Make the bucket's collections that the store has dropped dropped there, too: their objects are removed."""
        catalog, _ = read_catalog(self._bucket)
        return [drop for name in catalog.collections if (drop := self._publish_drop(name)) is not None]

    def _publish_drop(self, name: str) -> Published | None:
        folder = self._store.path / name
        if not self._store.is_dropped(name):
            return None
        with locked_folder(folder / MANIFESTS):
            manifest = read_manifest(folder / MANIFESTS, self._store.current_of(name), name)
            found = read_publication(self._bucket, name)
            ours = self._generation(name, manifest)
            if found is not None and found[0].manifest == checksum(ours.content) and found[0].collected == 0:
                self._collect(ours, found[0])
            is_due = found is not None and found[0].generation < manifest.generation
            if found is None or not is_due or found[0].lineage != manifest.lineage:
                return None
            self._tenure.check(name, found[0].term)
            self._check_signs(ours, found[0])
            accepted = self._accepted(name, found[0])
            known = {} if accepted is None else accepted.files
            ours.digests.update(file for file in known.items() if file[0].startswith(changes_prefix(name)))
            sent = self._put_manifest(ours, replaces=False)
            wanted = self._signed(ours, self._succeeding(ours, found[0], None, is_first=False), accepted)
            self._swap(ours, wanted, found[1])
            self._collect(ours, wanted)
        return Published(name, manifest.generation, 0, 0, len(sent), sum(sent), self._signer is not None)

    def _publish(self, name: str, *, force: bool, repair: bool) -> Published:
        folder = self._store.path / name
        self._store.current(name)
        with locked_folder(folder / MANIFESTS), ExitStack() as opened:  # one publisher of this machine at a time
            manifest, files = open_generation(self._store, name, opened)
            ours = self._generation(name, manifest)
            former, etag = self._read_former(ours, repair=repair)
            self._tenure.check(name, 0 if former is None else former.term, force=force)
            ours = replace(ours, etag=etag)
            before = self._former_manifest(name, former)
            if former is not None and not force:
                self._check_succeeds(ours, former, before)
            is_same = former is not None and former.manifest == checksum(ours.content)
            accepted = self._accepted(name, former)
            is_signed = self._signer is None or (accepted is not None and _is_by(self._signer, accepted))
            if former is not None and is_same and is_signed and not repair:
                if former.collected == 0:
                    self._collect(ours, former)
                return _published(manifest, [], is_signed=former.statement is not None)
            if former is not None and not (is_same or force):
                self._check_signs(ours, former)
            is_first = former is None and next(self._bucket.list(name), None) is None
            paths = {path.relative_to(self._store.path).as_posix(): file.fileno() for path, _, file in files}
            sent = self._put_all(ours, former, before, accepted, paths, force=force, repair=repair)
            self._enter(name, force=force, repair=repair)
            if not is_same or self._signer is not None:
                wanted = self._signed(ours, self._succeeding(ours, former, before, is_first=is_first), accepted)
                self._swap(ours, wanted, etag)
                if wanted.collected == 0 or (former is not None and wanted.collected != former.collected):
                    self._collect(ours, wanted)
        return _published(manifest, sent, is_signed=self._signer is not None)

    def _generation(self, name: str, manifest: Manifest) -> _Generation:
        folder = self._store.path / name
        content = _content_of(folder, manifest)
        digests = {manifest_key(name, manifest.generation): hashlib.sha256(content).hexdigest()}
        return _Generation(name, folder, manifest, content, digests)

    # -- signatures --------------------------------------------------------------------------------------------

    def _accepted(self, name: str, former: Publication | None) -> Accepted | None:
        """What the bucket has, where one of our keys has signed it."""
        if self._signer is None or former is None or former.statement is None:
            return None
        try:
            return accept(self._bucket, name, former, self._signer)
        except PublicationRefused:
            return None

    def _check_signs(self, ours: _Generation, former: Publication) -> None:
        """PublishConflict where replicas would refuse what follows."""
        if self._signer is None and former.statement is not None:
            what = "its publications are signed, and here is no provenance.key (set it, in the file of --config)"
            raise self._conflict(ours, former, what)

    def _is_signed(self, ours: _Generation, key: str, path: Path) -> bool:
        """Whether a file is what is to be signed; its xxh3 can be that of another one."""
        return self._signer is None or sha256_of(path) == ours.digests[key]

    def _signed(self, ours: _Generation, wanted: Publication, former: Accepted | None) -> Publication:
        """The publication with its statement, whose list is put."""
        if self._signer is None:
            return wanted
        time = next_time(None if former is None else former.claims)
        claims = claims_of(ours.name, wanted, ours.manifest.visibility, time, ours.digests)
        statement = self._signer.sign(encode_claims(claims))
        content = encode_list(statement, ours.digests)
        if not self._bucket.put_new(list_key(claims), content):
            self._bucket.put(list_key(claims), content)  # the same files, signed before
        return replace(wanted, statement=statement)

    # -- what the bucket has -----------------------------------------------------------------------------------

    def _read_former(self, ours: _Generation, *, repair: bool) -> tuple[Publication | None, str | None]:
        """The publication that ours replaces, and its ETag; to be repaired, it may be damaged."""
        try:
            found = read_publication(self._bucket, ours.name)
        except StoreDamaged:
            content = self._bucket.get(current_key(ours.name))
            if not repair or content is None:
                raise
            return None, content[1]
        return (None, None) if found is None else found

    def _check_succeeds(self, ours: _Generation, former: Publication, before: Manifest | None) -> None:
        """PublishConflict where ours must not replace what is published."""
        generation = ours.manifest.generation
        if former.lineage != ours.manifest.lineage:
            if before is not None and before.dropped and former.generation < generation:
                return
            raise self._conflict(ours, former, "it is another one of this name, of another store or dropped since")
        if former.generation > generation:
            raise self._conflict(ours, former, f"it has generation {former.generation}, this store {generation}")
        if former.generation == generation and former.manifest != checksum(ours.content):
            raise self._conflict(ours, former, f"another writer published a different generation {generation}")
        if before is not None and diverges(ours.folder, ours.manifest.changes, before.changes):
            what = f"generation {former.generation} is not in the history of this store (a copy, or restored?)"
            raise self._conflict(ours, former, what)

    def _conflict(self, ours: _Generation, former: Publication, what: str) -> PublishConflict:
        text = f"{self._bucket.url} does not continue with collection {ours.name!r}: {what}; publish with --force to "
        return self._refusal(ours, f"{text}replace it", former.generation)

    def _refusal(self, ours: _Generation, text: str, generation: int | None) -> PublishConflict:
        return PublishConflict(text, collection=ours.name, url=self._bucket.url, generation=generation)

    def _former_manifest(self, name: str, former: Publication | None) -> Manifest | None:
        """None also where it cannot be read: every file is then put where it is absent."""
        try:
            return None if former is None else self._read_manifest(name, former.generation)
        except (StoreDamaged, FormatTooNew):
            return None

    def _read_manifest(self, name: str, generation: int) -> Manifest | None:
        key = name, generation
        if key not in self._manifests:
            found = self._bucket.get(manifest_key(name, generation))
            if found is None:
                return None
            self._manifests[key] = decode_manifest(found[0], generation, name)
        return self._manifests[key]

    # -- put ---------------------------------------------------------------------------------------------------

    def _put_all(
        self,
        ours: _Generation,
        former: Publication | None,
        before: Manifest | None,
        accepted: Accepted | None,
        descriptors: Mapping[str, int],
        *,
        force: bool,
        repair: bool,
    ) -> list[int]:
        """Put the generation, its manifest last; returns the sizes of what was sent."""
        published = {} if repair or force or before is None else dict(named_files(ours.name, before))
        known = {} if not published or accepted is None else accepted.files
        self._sum_up(ours, published, known, descriptors)
        if repair:
            self._remove_damaged(ours)
        if former is not None and former.lineage != ours.manifest.lineage:
            self._bucket.delete([found.key for found in self._bucket.list(changes_prefix(ours.name))])
        sent = self._put_files(ours, published, descriptors, replaces=force or repair)
        since = 0 if before is None else before.generation
        sent += self._put_changelogs(ours, known, since=since, replaces=force or repair)
        return sent + self._put_manifest(ours, replaces=force or repair)

    def _sum_up(
        self,
        ours: _Generation,
        published: Mapping[str, FileEntry],
        known: Mapping[str, str],
        descriptors: Mapping[str, int],
    ) -> None:
        """Fill in the digests of the files; those that were signed before are not read again."""
        if self._signer is None:
            return
        for key, entry in named_files(ours.name, ours.manifest):
            is_known = key in known and published.get(key) == entry
            ours.digests[key] = known[key] if is_known else sha256_of(Path(f"/proc/self/fd/{descriptors[key]}"))

    def _put_files(
        self, ours: _Generation, published: Mapping[str, FileEntry], descriptors: Mapping[str, int], *, replaces: bool
    ) -> list[int]:
        """Put the files that the former manifest did not name; returns the sizes of those that were sent."""
        new = [(key, entry) for key, entry in named_files(ours.name, ours.manifest) if published.get(key) != entry]

        def put(file: tuple[str, FileEntry]) -> int:
            key, entry = file
            # By the open descriptor: garbage collection may remove the name meanwhile.
            path = Path(f"/proc/self/fd/{descriptors[key]}")
            _check_whole(path, key, entry)
            if self._bucket.put_new(key, path):
                return entry.size
            if self._is_stored(key, entry):
                return 0
            if not replaces and f"/{DELETES}/" in key:
                if self._supersedes(ours, key, path):
                    return entry.size
                raise self._differs(ours, key)
            if not replaces:
                raise damaged(self._bucket, key, f"has not the {entry.size} bytes of the stored file")
            self._bucket.put(key, path)
            return entry.size

        with ThreadPoolExecutor(_UPLOADS, thread_name_prefix="publish") as threads:
            return [size for size in threads.map(put, new) if size]

    def _is_stored(self, key: str, entry: FileEntry) -> bool:
        """Whether an object is what an entry describes. Segments are named at random, so that the size is enough;
        tombstones by their generation, which a copy of the store uses, too."""
        if f"/{DELETES}/" not in key:
            return self._bucket.size(key) == entry.size
        found = self._bucket.get(key)
        return found is not None and checksum(found[0]) == entry.checksum

    def _put_changelogs(self, ours: _Generation, known: Mapping[str, str], *, since: int, replaces: bool) -> list[int]:
        """Put the changelogs and packs that the bucket lacks; replicas take what the listing shows.

        Those after generation `since` that are there already may be of a copy of the store, and are compared.
        """
        prefix = changes_prefix(ours.name)
        stored = {found.key for found in self._bucket.list(prefix)}
        sent = []
        for path in sorted((ours.folder / CHANGES).glob("*.arrow")):
            key = f"{prefix}/{path.name}"
            numbers = path.stem.split("-")
            if not all(map(str.isdecimal, numbers)) or int(numbers[0]) > ours.manifest.generation:
                continue
            with suppress(FileNotFoundError):  # packed meanwhile
                is_old = key in stored and int(numbers[-1]) <= since and not replaces
                if is_old and (self._signer is None or key in known):
                    ours.digests[key] = known.get(key, "")
                    continue
                content = path.read_bytes()
                ours.digests[key] = hashlib.sha256(content).hexdigest()
                if key in stored and self._has(key, content):
                    continue
                if not self._bucket.put_new(key, content) and not self._has(key, content):
                    if replaces:
                        self._bucket.put(key, content)
                    elif not self._supersedes(ours, key, content):
                        raise self._differs(ours, key)
                sent.append(len(content))
        return sent

    def _has(self, key: str, content: bytes) -> bool:
        found = self._bucket.get(key)
        return found is not None and found[0] == content

    def _put_manifest(self, ours: _Generation, *, replaces: bool) -> list[int]:
        key = manifest_key(ours.name, ours.manifest.generation)
        if self._bucket.put_new(key, ours.content):
            return [len(ours.content)]
        if not replaces and self._has(key, ours.content):
            return []
        if replaces:
            self._bucket.put(key, ours.content)  # also where it is the same: it is younger then than what it replaces
        elif not self._supersedes(ours, key, ours.content):
            raise self._differs(ours, key)
        return [len(ours.content)]

    def _supersedes(self, ours: _Generation, key: str, content: bytes | Path) -> bool:
        """Replace what a fenced publisher has left under a key. Where CURRENT is still the one that was read, whoever
        put it has read an older one, and is not going to replace it: no CURRENT names that object."""
        found = self._bucket.get(key) if self._tenure.number else None
        if found is None or self._bucket.get(current_key(ours.name), unless=ours.etag) is not None:
            return False
        return self._bucket.swap(key, content if isinstance(content, bytes) else content.read_bytes(), found[1])

    def _differs(self, ours: _Generation, key: str) -> PublishConflict:
        text = f"{self._bucket.url} has another {key} than this store, put there by another publisher: publish with "
        return self._refusal(ours, f"{text}--force to replace it", ours.manifest.generation)

    def _enter(self, name: str, *, force: bool, repair: bool) -> None:
        """Enter the collection in the catalog, where another term is found, too, before a first CURRENT is made."""
        for _ in range(_CATALOG_ATTEMPTS):
            try:
                catalog, etag = read_catalog(self._bucket)
                entered = catalog.collections
            except StoreDamaged:
                content = self._bucket.get(CATALOG)
                if not repair or content is None:
                    raise
                catalog, etag, entered = self._listed_catalog(), content[1], ()
            term = self._tenure.check(name, 0 if catalog.term is None else catalog.term.number, force=force)
            if name in entered and catalog.term == term:
                return
            wanted = replace(catalog, collections=tuple(sorted({*catalog.collections, name})), term=term)
            self._bucket.swap(CATALOG, encode_record(wanted), etag)
        raise damaged(self._bucket, CATALOG, "changes faster than it can be written")

    def _listed_catalog(self) -> Catalog:
        """The collections that a listing of the bucket shows, which takes its time."""
        ending = f"/{CURRENT}"
        names = {one.key.removesuffix(ending) for one in self._bucket.list("") if one.key.endswith(ending)}
        return Catalog(tuple(sorted(filter(is_collection_name, names))))

    def _succeeding(
        self, ours: _Generation, former: Publication | None, before: Manifest | None, *, is_first: bool
    ) -> Publication:
        """The publication after `former`. Where history does not continue everything older is purged, and that counts
        as not collected until the next publication, in case this process is killed."""
        wanted = replace(ours.publication, term=self._tenure.number)
        if is_first:
            return wanted
        is_purge = (
            former is None  # and not the first: a damaged one, or the remains of a killed publisher
            or before is None
            or former.lineage != wanted.lineage
            or former.generation > wanted.generation
            or not continues_history(ours.folder, ours.manifest.changes, before.changes)
        )
        if is_purge or former is None:
            return replace(wanted, purged=wanted.generation, collected=0)
        is_due = wanted.collected >= former.collected + COLLECT_SECONDS
        return replace(wanted, purged=former.purged, collected=wanted.collected if is_due else former.collected)

    def _swap(self, ours: _Generation, wanted: Publication, etag: str | None) -> None:
        """Replace CURRENT. PublishConflict where another publisher was faster."""
        now = swap_publication(self._bucket, ours.name, wanted, etag)
        if now != wanted:
            self._tenure.check(ours.name, 0 if now is None else now.term)
            raise self._lost(ours, now)
        self._manifests = {key: kept for key, kept in self._manifests.items() if key[0] != ours.name}
        self._manifests[ours.name, ours.manifest.generation] = ours.manifest

    def _lost(self, ours: _Generation, winner: Publication | None) -> PublishConflict:
        now = None if winner is None else winner.generation
        text = f"another publisher of collection {ours.name!r} was faster: {self._bucket.url} now has generation "
        cure = "publish again, after finding out who else publishes"
        return self._refusal(ours, f"{text}{'none' if now is None else now}; {cure}", now)

    # -- remove and repair -------------------------------------------------------------------------------------

    def _collect(self, ours: _Generation, publication: Publication) -> None:
        """Remove the objects that neither the newest generation nor one superseded within KEEP names, as far as they
        are older than that, or were there before the purge."""
        name, found = ours.name, list(self._bucket.list(ours.name))
        manifests = _generations(found)
        now, purged = datetime.now(UTC), publication.purged
        limit = now - KEEP
        newest = read_publication(self._bucket, name)
        if newest is None or newest[0] != publication:
            return  # another home node has taken over: what it puts from now on is not in the list
        kept = {ours.manifest.generation: ours.manifest}
        for number in _needed(manifests, now):
            if purged <= number < publication.generation:
                manifest = self._manifest_or_none(name, number)
                kept |= {} if manifest is None else {number: manifest}
        named = {key for manifest in kept.values() for key, _ in named_files(name, manifest)}
        named |= {current_key(name), *(manifest_key(name, number) for number in kept)}
        named |= self._live_changelogs(ours)
        named |= {one.key for one in found if is_list_of(one.key, frozenset(kept))}
        barrier = max(limit, manifests[purged].modified) if purged in manifests else limit
        self._bucket.delete([one.key for one in found if one.key not in named and one.modified <= barrier])

    def _manifest_or_none(self, name: str, generation: int) -> Manifest | None:
        try:
            return self._read_manifest(name, generation)
        except (StoreDamaged, FormatTooNew):
            return None

    def _live_changelogs(self, ours: _Generation) -> set[str]:
        """The changelogs that the store has, which keeps those of a month."""
        prefix = changes_prefix(ours.name)
        return {f"{prefix}/{path.name}" for path in (ours.folder / CHANGES).glob("*.arrow")}

    def _remove_damaged(self, ours: _Generation) -> None:
        """Remove the objects of the generation that differ from their checksum, so that they are sent again."""
        temporary = ours.folder / f".repair.{os.getpid()}.tmp"
        try:
            for key, entry in named_files(ours.name, ours.manifest):
                with temporary.open("wb") as file:
                    exists = self._bucket.download(key, file)
                if exists and not (_is_whole(temporary, entry) and self._is_signed(ours, key, temporary)):
                    self._bucket.delete([key])
        finally:
            temporary.unlink(missing_ok=True)


def _is_by(signer: Signer, accepted: Accepted) -> bool:
    """Whether the newest key has signed it, and not a former one."""
    return signer.sign(encode_claims(accepted.claims)) == accepted.statement


def _published(manifest: Manifest, sent: Sequence[int], *, is_signed: bool) -> Published:
    counts = manifest.generation, manifest.documents, manifest.chunks, len(sent), sum(sent)
    return Published(manifest.name, *counts, is_signed)


def _content_of(folder: Path, manifest: Manifest) -> bytes:
    try:
        return (folder / MANIFESTS / manifest_name(manifest.generation)).read_bytes()
    except FileNotFoundError:  # garbage collection removed it meanwhile
        return encode_manifest(manifest)


def _check_whole(path: Path, key: str, entry: FileEntry) -> None:
    """StoreDamaged where a file of this store is not what its manifest says."""
    try:
        check_file(path, entry, whole=True)
    except FileProblem as problem:
        raise StoreDamaged(
            f"{key} {problem}: restore it from a backup, it is not published",
            collection=key.partition("/")[0],
            file=key,
            problem=str(problem),
        ) from problem


def _is_whole(path: Path, entry: FileEntry) -> bool:
    try:
        check_file(path, entry, whole=True)
    except FileProblem:
        return False
    return True


def _needed(manifests: Mapping[int, StoredObject], now: datetime) -> Iterator[int]:
    """The generations that were superseded within KEEP: all of the last RECENT, before that the newest one at the end
    of each SLOT, whose files are those of all that came between, so that few manifests are read."""
    numbers, recent, limit = sorted(manifests), now - RECENT, now - KEEP
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        until = None if following is None else manifests[following]
        is_recent = until is None or until.modified >= recent
        if is_recent or (until is not None and until.modified >= limit and _slot(until) != _slot(manifests[number])):
            yield number


def _slot(manifest: StoredObject) -> float:
    return manifest.modified.timestamp() // SLOT


def _generations(found: Iterable[StoredObject]) -> dict[int, StoredObject]:
    """The manifests among some objects, by generation."""
    named = ((one, one.key.split("/")) for one in found)
    return {
        int(parts[-1].removesuffix(".json")): one
        for one, parts in named
        if len(parts) == 3 and parts[1] == MANIFESTS and parts[2].removesuffix(".json").isdecimal()
    }
