"""Publishing: puts the newest generation of each collection into a bucket, from which replicas pull it.

Only the bucket's CURRENT is ever replaced, and only by comparison, so a publisher that is killed leaves a bucket that
reads as before, and of two that race one wins. Objects that no generation of the last day names are removed once an
hour; after a purge (a history that does not continue the published one) everything older at once.

With a key, CURRENT is signed (`statement`), and signed again where it was not, or by another key.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from aidre.engine.collection import continues_history, diverges, local_store
from aidre.engine.errors import FormatTooNew, InvalidInput, PublishConflict, StoreDamaged
from aidre.engine.maintenance.backup import open_generation
from aidre.engine.maintenance.bucket import Bucket
from aidre.engine.maintenance.fleet.catalog import Entries, Pass, PublishResult, each_of, enter
from aidre.engine.maintenance.fleet.packs import FEWEST, MAX_BYTES, encode_pack, is_pack_of, open_pack, pack_key
from aidre.engine.maintenance.fleet.retention import COLLECT_SECONDS, KEEP, Superseded, generations, needed
from aidre.engine.maintenance.fleet.signing import Signing
from aidre.engine.maintenance.fleet.sound import changelogs, check_whole, content_of, contents_of, damaged_keys
from aidre.engine.maintenance.promotion import Tenure
from aidre.engine.maintenance.publication import (
    Publication,
    Term,
    changes_prefix,
    checksum,
    current_key,
    damaged,
    manifest_key,
    named_files,
    read_catalog,
    read_publication,
    swap_publication,
)
from aidre.engine.maintenance.statement import Accepted, StatementSigner, is_list_of, list_key, read_claims
from aidre.engine.ports import Source
from aidre.engine.storage import (
    CHANGES,
    DELETES,
    MANIFESTS,
    FileEntry,
    Manifest,
    decode_manifest,
    locked_folder,
    read_manifest,
)

_UPLOADS = 4
"""Files that are sent at a time."""


@dataclass(frozen=True, slots=True)
class _Newest:
    """What was sent of a collection, None for one that had been dropped before, and its newest publication."""

    published: PublishResult | None
    publication: Publication


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


class StorePublisher:
    """Publishes the collections of one store into one bucket; signed, where there is a signer."""

    def __init__(self, store: Source, bucket: Bucket, signer: StatementSigner | None = None) -> None:
        self._store = local_store(store)
        self.bucket = self._bucket = bucket
        self._signing = Signing(bucket, signer)
        self._is_signer = signer is not None
        self._tenure = Tenure(self._store.path, bucket)
        self._manifests: dict[str, dict[int, Manifest]] = {}
        self._changelogs: dict[str, tuple[str, frozenset[str]]] = {}
        self._superseded: defaultdict[str, Superseded] = defaultdict(Superseded)
        self._in_packs: set[tuple[str, int]] = set()
        self._names: frozenset[str] = frozenset()
        self._folders: frozenset[str] | None = None
        self._announced: frozenset[str] = frozenset()
        self._packs = False
        self.sent: Callable[[], None] = lambda: None
        """Called after each object that the bucket has taken, in any thread."""
        self._asking = threading.Lock()

    def publish(self, collections: Sequence[str], *, force: bool = False, repair: bool = False) -> list[PublishResult]:
        """Make the newest generation of each collection the bucket's, and then the aliases of the store.

        `force` replaces what another store published under the name, or a newer generation of this one. `repair`
        compares every object that the generation names with its checksum, and sends the damaged ones again. Where one
        collection fails the others are published nevertheless, and its error is raised.
        PublishConflict, BucketFailed, StoreDamaged, FormatTooNew, CollectionMissing, StorageFailed.
        """
        if not collections:
            raise InvalidInput("there is nothing to publish: the store has no collection")
        done = self.publish_each(collections, force=force, repair=repair)
        for failure in done.failures.values():
            raise failure
        return list(done.published)

    def publish_each(self, collections: Sequence[str], *, force: bool = False, repair: bool = False) -> Pass:
        """The same in one pass with one entry in the catalog, whatever fails. BucketFailed, where that fails, and
        StoreDamaged of the catalog or the aliases."""
        return self._in_one_pass(
            collections, lambda name: self._publish(name, force=force, repair=repair), force=force, repair=repair
        )

    def generations(self, names: Sequence[str]) -> dict[str, int]:
        """Of the store, published or not."""
        return {name: self._store.current(name) for name in names}

    def publish_drops(self) -> list[PublishResult]:
        """Make the bucket's collections that the store has dropped dropped there, too: their objects are removed."""
        catalog, _ = read_catalog(self._bucket)
        done = self._in_one_pass([name for name in catalog.collections if self._store.is_dropped(name)], self._drop)
        for failure in done.failures.values():
            raise failure
        return list(done.published)

    def _in_one_pass(
        self,
        names: Sequence[str],
        do: Callable[[str], _Newest | None],
        *,
        force: bool = False,
        repair: bool = False,
    ) -> Pass:
        self._names, self._announced, self._folders, self._packs = frozenset(names), frozenset(), None, False
        newest, failures = each_of(names, do)
        if newest or not failures:
            entered = {name: result.publication for name, result in newest.items()}
            self._enter(entered, (), force=force, repair=repair)
        published = [newest[name].published for name in names if name in newest]
        return Pass(tuple(result for result in published if result is not None), failures)

    def _drop(self, name: str) -> _Newest | None:
        folder = self._store.path / name
        with locked_folder(folder / MANIFESTS):
            manifest = read_manifest(folder / MANIFESTS, self._store.current_of(name), name)
            found = read_publication(self._bucket, name)
            outgoing = self._generation(name, manifest)
            if found is not None and found[0].manifest == checksum(outgoing.content):
                if found[0].collected == 0:
                    self._collect(outgoing, found[0])
                return _Newest(None, found[0])
            is_usurped = found is not None and self._tenure.is_usurped(name, found[0])
            is_due = found is not None and found[0].generation < manifest.generation
            if found is None or not (is_usurped or (is_due and found[0].lineage == manifest.lineage)):
                return None
            self._tenure.check(name, found[0].term)
            self._check_signs(outgoing, found[0])
            accepted = self._signing.accepted(name, found[0], is_in_pack=self._is_in_pack(name, found[0]))
            known = {} if accepted is None else accepted.files
            outgoing.digests.update(file for file in known.items() if file[0].startswith(changes_prefix(name)))
            sent = self._put_manifest(outgoing, replaces=is_usurped)
            wanted = self._succeeding(outgoing, found[0], None, is_first=False)
            wanted, listed = self._signing.signed(manifest, wanted, outgoing.digests, accepted)
            self._put_lists(listed)
            self._tenure.check_entered(name)  # CURRENT may be of our term still
            self._swap(outgoing, wanted, found[1])
            self._collect(outgoing, wanted)
        is_signed = self._is_signer
        return _Newest(PublishResult(name, manifest.generation, 0, 0, len(sent), sum(sent), is_signed), wanted)

    def _publish(self, name: str, *, force: bool, repair: bool) -> _Newest:
        folder = self._store.path / name
        self._store.current(name)
        with locked_folder(folder / MANIFESTS), ExitStack() as opened:  # one publisher of this machine at a time
            manifest, files = open_generation(self._store, name, opened)
            outgoing = self._generation(name, manifest)
            former, etag = self._read_former(outgoing, repair=repair)
            self._tenure.check(name, 0 if former is None else former.term, force=force)
            force = force or self._tenure.is_usurped(name, former)
            outgoing = replace(outgoing, etag=etag)
            before = self._former_manifest(name, former)
            if former is not None and not force:
                self._check_succeeds(outgoing, former, before)
            is_same = former is not None and former.manifest == checksum(outgoing.content)
            accepted = self._signing.accepted(name, former, is_in_pack=self._is_in_pack(name, former))
            is_signed = self._signing.is_current(accepted)
            if former is not None and is_same and is_signed and not repair:
                if former.collected == 0:
                    self._collect(outgoing, former)
                return _Newest(_published(manifest, [], is_signed=former.statement is not None), former)
            if former is not None and not (is_same or force):
                self._check_signs(outgoing, former)
            is_first = former is None and self._is_new(name)
            paths = {path.relative_to(self._store.path).as_posix(): file.fileno() for path, _, file in files}
            if is_first and not (force or repair) and self._is_packed(manifest):
                sent, newest = self._put_pack(outgoing, paths)
                self._announce(name, force=False, repair=False)
                self._swap(outgoing, newest, etag, packed=True)
                return _Newest(_published(manifest, sent, is_signed=self._is_signer), newest)
            sent = self._put_all(outgoing, former, before, accepted, paths, force=force, repair=repair)
            if former is not None and is_same and not (self._is_signer or self._is_in_pack(name, former)):
                return _Newest(_published(manifest, sent, is_signed=False), former)
            newest = self._succeeding(outgoing, former, before, is_first=is_first)
            newest, listed = self._signing.signed(manifest, newest, outgoing.digests, accepted)
            self._put_lists(listed)
            if former is None:
                self._announce(name, force=force, repair=repair)
            self._swap(outgoing, newest, etag)
            if newest.collected == 0 or (former is not None and newest.collected != former.collected):
                self._collect(outgoing, newest)
            else:
                self._bucket.delete(self._superseded[name].due(time.time()))
        return _Newest(_published(manifest, sent, is_signed=self._is_signer), newest)

    def _is_new(self, name: str) -> bool:
        """Whether the bucket has no object of a collection; it is asked once for each pass."""
        with self._asking:
            if self._folders is None:
                self._folders = self._bucket.folders()
                self._packs = len(self._names - self._folders) >= FEWEST
        return name not in self._folders

    def _announce(self, name: str, *, force: bool, repair: bool) -> None:
        """Enter new collections in the catalog before their first CURRENT, all of a pass that packs at once."""
        with self._asking:
            if name not in self._announced:
                names = self._names - (self._folders or frozenset()) if self._packs else frozenset({name})
                self._enter({}, names, force=force, repair=repair)
                self._announced |= names

    def _enter(self, entered: Mapping[str, Publication], names: Collection[str], *, force: bool, repair: bool) -> None:
        entries = Entries(entered, names, self._store.aliases(), self._store.collections())
        named = min([*entered, *names], default="any")

        def check(number: int) -> Term | None:
            return self._tenure.check(named, number, force=force)

        enter(self._bucket, entries, self._signing.signer, check, repair=repair)

    def _is_packed(self, manifest: Manifest) -> bool:
        """Whether the first publication of a collection goes in a pack: a small one, of many."""
        sizes = (entry.size for _, entry in named_files(manifest.name, manifest))
        changes = manifest.changes.file
        return self._packs and sum(sizes) + (0 if changes is None else changes.size) <= MAX_BYTES

    def _generation(self, name: str, manifest: Manifest) -> _Generation:
        folder = self._store.path / name
        content = content_of(folder, manifest)
        digests = {manifest_key(name, manifest.generation): hashlib.sha256(content).hexdigest()}
        return _Generation(name, folder, manifest, content, digests)

    # -- signatures --------------------------------------------------------------------------------------------

    def _check_signs(self, outgoing: _Generation, former: Publication) -> None:
        """PublishConflict where replicas would refuse what follows."""
        if not self._is_signer and former.statement is not None:
            what = "its publications are signed, and here is no provenance.key (set it, in the file of --config)"
            raise self._conflict(outgoing, former, what)

    def _put_lists(self, lists: Mapping[str, bytes]) -> None:
        for key, content in lists.items():
            if not self._bucket.put_new(key, content):
                self._bucket.put(key, content)  # the same files, signed before

    # -- what the bucket has -----------------------------------------------------------------------------------

    def _read_former(self, outgoing: _Generation, *, repair: bool) -> tuple[Publication | None, str | None]:
        """The publication that ours replaces, and its ETag; to be repaired, it may be damaged."""
        try:
            found = read_publication(self._bucket, outgoing.name)
        except StoreDamaged:
            content = self._bucket.get(current_key(outgoing.name))
            if not repair or content is None:
                raise
            return None, content[1]
        return (None, None) if found is None else found

    def _check_succeeds(self, outgoing: _Generation, former: Publication, before: Manifest | None) -> None:
        """PublishConflict where ours must not replace what is published."""
        generation = outgoing.manifest.generation
        if former.lineage != outgoing.manifest.lineage:
            if before is not None and before.dropped and former.generation < generation:
                return
            raise self._conflict(outgoing, former, "it is another one of this name, of another store or dropped since")
        if former.generation > generation:
            raise self._conflict(outgoing, former, f"it has generation {former.generation}, this store {generation}")
        if former.generation == generation and former.manifest != checksum(outgoing.content):
            raise self._conflict(outgoing, former, f"another writer published a different generation {generation}")
        if before is not None and diverges(outgoing.folder, outgoing.manifest.changes, before.changes):
            what = f"generation {former.generation} is not in the history of this store (a copy, or restored?)"
            raise self._conflict(outgoing, former, what)

    def _conflict(self, outgoing: _Generation, former: Publication, what: str) -> PublishConflict:
        text = (
            f"{self._bucket.url} does not continue with collection {outgoing.name!r}: {what}; publish with --force to "
        )
        return self._refusal(outgoing, f"{text}replace it", former.generation)

    def _refusal(self, outgoing: _Generation, text: str, generation: int | None) -> PublishConflict:
        return PublishConflict(text, collection=outgoing.name, url=self._bucket.url, generation=generation)

    def _former_manifest(self, name: str, former: Publication | None) -> Manifest | None:
        """None also where it cannot be read: every file is then put where it is absent."""
        return None if former is None else self._manifest_or_none(name, former.generation)

    def _read_manifest(self, name: str, generation: int) -> Manifest | None:
        known = self._manifests.setdefault(name, {})
        if generation not in known:
            found = self._bucket.get(manifest_key(name, generation))
            if found is None:
                pack = open_pack(self._bucket, name, generation)
                found = None if pack is None else pack.get(manifest_key(name, generation))
                self._in_packs.add((name, generation))
            if found is None:
                return None
            known[generation] = decode_manifest(found[0], generation, name)
        return known[generation]

    # -- put ---------------------------------------------------------------------------------------------------

    def _put_all(
        self,
        outgoing: _Generation,
        former: Publication | None,
        before: Manifest | None,
        accepted: Accepted | None,
        descriptors: Mapping[str, int],
        *,
        force: bool,
        repair: bool,
    ) -> list[int]:
        """Put the generation, its manifest last; returns the sizes of what was sent."""
        is_in_pack = self._is_in_pack(outgoing.name, before)
        replaces = repair or force
        published = {} if replaces or before is None or is_in_pack else dict(named_files(outgoing.name, before))
        known = {} if not published or accepted is None else accepted.files
        outgoing.digests.update(self._signing.sum_up(outgoing.manifest, published, known, descriptors))
        if repair:
            for key in damaged_keys(self._bucket, outgoing.folder, outgoing.manifest, self._signing, outgoing.digests):
                self._bucket.delete([key])
        if former is not None and former.lineage != outgoing.manifest.lineage:
            self._bucket.delete([found.key for found in self._bucket.list(changes_prefix(outgoing.name))])
            self._changelogs.pop(outgoing.name, None)
        sent = self._put_files(outgoing, published, descriptors, replaces=replaces)
        since = 0 if before is None else before.generation
        stored = self._stored_changelogs(outgoing.name, former)
        sent += self._put_changelogs(outgoing, known, stored, since=since, replaces=replaces)
        return sent + self._put_manifest(outgoing, replaces=replaces)

    def _is_in_pack(self, name: str, published: Publication | Manifest | None) -> bool:
        return published is not None and (name, published.generation) in self._in_packs

    def _stored_changelogs(self, name: str, former: Publication | None) -> frozenset[str]:
        """The changelogs in the bucket: listed, unless the newest publication is that of this process."""
        token, stored = self._changelogs.get(name, ("", frozenset[str]()))
        if former is not None and former.token == token:
            return stored
        if former is None and self._folders is not None and name not in self._folders:
            return frozenset()
        return frozenset(found.key for found in self._bucket.list(changes_prefix(name)))

    def _put_pack(self, outgoing: _Generation, descriptors: Mapping[str, int]) -> tuple[list[int], Publication]:
        """Put a first generation and what belongs to it as one object; the sizes of its parts."""
        contents = contents_of(outgoing.folder, outgoing.manifest, outgoing.content, descriptors)
        outgoing.digests.update({key: hashlib.sha256(content).hexdigest() for key, content in contents.items()})
        wanted = self._succeeding(outgoing, None, None, is_first=True)
        publication, lists = self._signing.signed(outgoing.manifest, wanted, outgoing.digests, None)
        key, pack = pack_key(outgoing.name, outgoing.manifest.generation), encode_pack({**contents, **lists})
        if not self._bucket.put_new(key, pack) and not self._has(key, pack):
            raise self._differs(outgoing, key)
        self.sent()
        self._in_packs.add((outgoing.name, outgoing.manifest.generation))
        return [len(content) for content in contents.values()], publication

    def _put_files(
        self,
        outgoing: _Generation,
        published: Mapping[str, FileEntry],
        descriptors: Mapping[str, int],
        *,
        replaces: bool,
    ) -> list[int]:
        """Put the files that the former manifest did not name; returns the sizes of those that were sent."""
        new = [
            (key, entry) for key, entry in named_files(outgoing.name, outgoing.manifest) if published.get(key) != entry
        ]

        def put(file: tuple[str, FileEntry]) -> int:
            key, entry = file
            # By the open descriptor: garbage collection may remove the name meanwhile.
            path = Path(f"/proc/self/fd/{descriptors[key]}")
            check_whole(path, key, entry)
            if self._bucket.put_new(key, path):
                self.sent()
                return entry.size
            if self._is_stored(key, entry):
                return 0
            if not replaces and f"/{DELETES}/" in key:
                if self._supersedes(outgoing, key, path):
                    return entry.size
                raise self._differs(outgoing, key)
            if not replaces:
                raise damaged(self._bucket, key, f"has not the {entry.size} bytes of the stored file")
            self._bucket.put(key, path)
            self.sent()
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

    def _put_changelogs(
        self, outgoing: _Generation, known: Mapping[str, str], stored: Collection[str], *, since: int, replaces: bool
    ) -> list[int]:
        """Put the changelogs and packs that the bucket lacks; replicas take what the listing shows.

        Those after generation `since` that are there already may be of a copy of the store, and are compared.
        """
        prefix = changes_prefix(outgoing.name)
        sent = []
        for path, last in changelogs(outgoing.folder, outgoing.manifest.generation):
            key = f"{prefix}/{path.name}"
            with suppress(FileNotFoundError):  # packed meanwhile
                is_old = key in stored and last <= since and not replaces
                if is_old and (not self._is_signer or key in known):
                    outgoing.digests[key] = known.get(key, "")
                    continue
                content = path.read_bytes()
                outgoing.digests[key] = hashlib.sha256(content).hexdigest()
                if key in stored and self._has(key, content):
                    continue
                if not self._bucket.put_new(key, content) and not self._has(key, content):
                    if replaces:
                        self._bucket.put(key, content)
                    elif not self._supersedes(outgoing, key, content):
                        raise self._differs(outgoing, key)
                sent.append(len(content))
        return sent

    def _has(self, key: str, content: bytes) -> bool:
        found = self._bucket.get(key)
        return found is not None and found[0] == content

    def _put_manifest(self, outgoing: _Generation, *, replaces: bool) -> list[int]:
        key = manifest_key(outgoing.name, outgoing.manifest.generation)
        if self._bucket.put_new(key, outgoing.content):
            return [len(outgoing.content)]
        if not replaces and self._has(key, outgoing.content):
            return []
        if replaces:
            self._bucket.put(
                key, outgoing.content
            )  # also where it is the same: it is younger then than what it replaces
        elif not self._supersedes(outgoing, key, outgoing.content):
            raise self._differs(outgoing, key)
        return [len(outgoing.content)]

    def _supersedes(self, outgoing: _Generation, key: str, content: bytes | Path) -> bool:
        """Replace what a fenced publisher has left under a key. Where CURRENT is still the one that was read, whoever
        put it has read an older one, and is not going to replace it: no CURRENT names that object."""
        found = self._bucket.get(key) if self._tenure.number else None
        if found is None or self._bucket.get(current_key(outgoing.name), unless=outgoing.etag) is not None:
            return False
        return self._bucket.swap(key, content if isinstance(content, bytes) else content.read_bytes(), found[1])

    def _differs(self, outgoing: _Generation, key: str) -> PublishConflict:
        text = f"{self._bucket.url} has another {key} than this store, put there by another publisher: publish with "
        return self._refusal(outgoing, f"{text}--force to replace it", outgoing.manifest.generation)

    def _succeeding(
        self, outgoing: _Generation, former: Publication | None, before: Manifest | None, *, is_first: bool
    ) -> Publication:
        """The publication after `former`. Where history does not continue everything older is purged, and that counts
        as not collected until the next publication, in case this process is killed."""
        wanted = replace(outgoing.publication, term=self._tenure.number)
        if is_first:
            return wanted
        is_purge = (
            former is None  # and not the first: a damaged one, or the remains of a killed publisher
            or before is None
            or former.lineage != wanted.lineage
            or former.generation > wanted.generation
            or not continues_history(outgoing.folder, outgoing.manifest.changes, before.changes)
        )
        if is_purge or former is None:
            return replace(wanted, purged=wanted.generation, collected=0)
        is_due = wanted.collected >= former.collected + COLLECT_SECONDS
        return replace(wanted, purged=former.purged, collected=wanted.collected if is_due else former.collected)

    def _swap(self, outgoing: _Generation, wanted: Publication, etag: str | None, *, packed: bool = False) -> None:
        """Replace CURRENT. PublishConflict where another publisher was faster."""
        now = swap_publication(self._bucket, outgoing.name, wanted, etag, packed=packed)
        if now != wanted:
            self._tenure.check(outgoing.name, 0 if now is None else now.term)
            raise self._lost(outgoing, now)
        self._remember(outgoing, wanted)

    def _remember(self, outgoing: _Generation, wanted: Publication) -> None:
        """What is in the bucket, as long as CURRENT is this one."""
        name, number = outgoing.name, outgoing.manifest.generation
        self._manifests[name] = {number: outgoing.manifest}
        changelogs = frozenset(key for key in outgoing.digests if key.startswith(f"{changes_prefix(name)}/"))
        claims = None if wanted.statement is None else read_claims(wanted.statement)
        lists = [] if claims is None else [list_key(claims)]
        self._changelogs[name] = wanted.token, frozenset() if (name, number) in self._in_packs else changelogs
        files = (key for key, _ in named_files(name, outgoing.manifest))
        self._superseded[name].note({*files, *changelogs, *lists, manifest_key(name, number)}, time.time())

    def _lost(self, outgoing: _Generation, winner: Publication | None) -> PublishConflict:
        now = None if winner is None else winner.generation
        text = f"another publisher of collection {outgoing.name!r} was faster: {self._bucket.url} now has generation "
        cure = "publish again, after finding out who else publishes"
        return self._refusal(outgoing, f"{text}{'none' if now is None else now}; {cure}", now)

    # -- remove and repair -------------------------------------------------------------------------------------

    def _collect(self, outgoing: _Generation, publication: Publication) -> None:
        """Remove the objects that neither the newest generation nor one superseded within KEEP names, as far as they
        are older than that, or were there before the purge."""
        name, found = outgoing.name, list(self._bucket.list(outgoing.name))
        stored_manifests = generations(found)
        now, purged = datetime.now(UTC), publication.purged
        limit = now - KEEP
        newest = read_publication(self._bucket, name)
        if newest is None or newest[0] != publication:
            return  # another home node has taken over: what it puts from now on is not in the list
        manifests = {outgoing.manifest.generation: outgoing.manifest}
        for number in needed(stored_manifests, now):
            if purged <= number < publication.generation:
                manifest = self._manifest_or_none(name, number)
                manifests |= {} if manifest is None else {number: manifest}
        named = {key for manifest in manifests.values() for key, _ in named_files(name, manifest)}
        named |= {current_key(name), *(manifest_key(name, number) for number in manifests)}
        named |= self._live_changelogs(outgoing)
        numbers = frozenset(manifests)
        named |= {stored.key for stored in found if is_list_of(stored.key, numbers) or is_pack_of(stored.key, numbers)}
        barrier = max(limit, stored_manifests[purged].modified) if purged in stored_manifests else limit
        self._bucket.delete([stored.key for stored in found if stored.key not in named and stored.modified <= barrier])

    def _manifest_or_none(self, name: str, generation: int) -> Manifest | None:
        try:
            return self._read_manifest(name, generation)
        except (StoreDamaged, FormatTooNew):
            return None

    def _live_changelogs(self, outgoing: _Generation) -> set[str]:
        """The changelogs that the store has, which keeps those of a month."""
        prefix = changes_prefix(outgoing.name)
        return {f"{prefix}/{path.name}" for path in (outgoing.folder / CHANGES).glob("*.arrow")}


def _published(manifest: Manifest, sent: Sequence[int], *, is_signed: bool) -> PublishResult:
    counts = manifest.generation, manifest.documents, manifest.chunks, len(sent), sum(sent)
    return PublishResult(manifest.name, *counts, is_signed)
