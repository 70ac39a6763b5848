"""Publishing: puts the newest generation of each collection into a bucket, from which replicas pull it.

Only the bucket's CURRENT is ever replaced, and only by comparison, so a publisher that is killed leaves a bucket that
reads as before, and of two that race one wins. Objects that no generation of the last day names are removed once an
hour; after a purge (a history that does not continue the published one) everything older at once.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aidre.engine.backend import Source
from aidre.engine.collection import continues_history, local_store
from aidre.engine.errors import FormatTooNew, InvalidInput, PublishConflict, StoreDamaged
from aidre.engine.maintenance.backup import open_generation
from aidre.engine.maintenance.bucket import Bucket, StoredObject
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
)
from aidre.engine.storage import (
    CHANGES,
    MANIFESTS,
    FileEntry,
    FileProblem,
    Manifest,
    check_file,
    decode_manifest,
    encode_manifest,
    locked_folder,
    manifest_name,
    read_manifest,
)

KEEP = timedelta(hours=24)
"""How long an object stays that no newer generation names: a replica may still be pulling it."""
COLLECT_SECONDS = 3_600
"""Between two garbage collections of a bucket, which list it."""
_UPLOADS = 4
"""Files that are sent at a time."""
_CATALOG_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication sent. `files` is 0 where the generation was in the bucket already."""

    collection: str
    generation: int
    documents: int
    chunks: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Generation:
    """A generation that is open on this machine."""

    name: str
    folder: Path
    manifest: Manifest
    content: bytes

    @property
    def publication(self) -> Publication:
        facts = self.manifest.generation, self.manifest.lineage, checksum(self.content)
        return Publication(*facts, token=secrets.token_hex(8), collected=int(time.time()))


class Publisher:
    """Publishes the collections of one store into one bucket."""

    def __init__(self, store: Source, bucket: Bucket) -> None:
        self._store = local_store(store)
        self._bucket = bucket
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

    def publish_drops(self) -> list[Published]:
        """Make the bucket's collections that the store has dropped dropped there, too: their objects are removed."""
        catalog, _ = read_catalog(self._bucket)
        return [drop for name in catalog.collections if (drop := self._publish_drop(name)) is not None]

    def _publish_drop(self, name: str) -> Published | None:
        folder = self._store.path / name
        if not self._store.is_dropped(name):
            return None
        with locked_folder(folder / MANIFESTS):
            manifest = read_manifest(folder / MANIFESTS, self._store.current(name), name)
            found = read_publication(self._bucket, name)
            is_due = found is not None and found[0].generation < manifest.generation
            if found is None or not is_due or found[0].lineage != manifest.lineage:
                return None
            ours = _Generation(name, folder, manifest, _content_of(folder, manifest))
            sent = self._put_manifest(ours, replaces=False)
            self._swap(ours, *found, before=None)
        return Published(name, manifest.generation, 0, 0, len(sent), sum(sent))

    def _publish(self, name: str, *, force: bool, repair: bool) -> Published:
        folder = self._store.path / name
        self._store.current(name)
        with locked_folder(folder / MANIFESTS), ExitStack() as opened:  # one publisher of this machine at a time
            manifest, files = open_generation(self._store, name, opened)
            ours = _Generation(name, folder, manifest, _content_of(folder, manifest))
            former, etag = self._read_former(ours, force=force, repair=repair)
            is_current = former is not None and former.manifest == ours.publication.manifest
            before = self._former_manifest(name, former)
            paths = {path.relative_to(self._store.path).as_posix(): file.fileno() for path, _, file in files}
            if repair:
                self._remove_damaged(ours)
            if former is not None and is_current and not repair:
                if former.collected == 0:
                    self._collect(ours, former)
                return Published(name, manifest.generation, manifest.documents, manifest.chunks, 0, 0)
            if former is not None and former.lineage != manifest.lineage:
                self._bucket.delete([found.key for found in self._bucket.list(changes_prefix(name))])
            sent = self._put_files(ours, {} if repair or before is None else dict(named_files(name, before)), paths)
            sent += self._put_changelogs(ours)
            sent += self._put_manifest(ours, replaces=force or repair)
            self._enter(name)
            if not is_current:
                self._swap(ours, former, etag, before)
        return Published(name, manifest.generation, manifest.documents, manifest.chunks, len(sent), sum(sent))

    # -- what the bucket has -----------------------------------------------------------------------------------

    def _read_former(self, ours: _Generation, *, force: bool, repair: bool) -> tuple[Publication | None, str | None]:
        """The publication that ours replaces, and its ETag. PublishConflict where it must not."""
        try:
            found = read_publication(self._bucket, ours.name)
        except StoreDamaged:
            content = self._bucket.get(current_key(ours.name))
            if not repair or content is None:
                raise
            return None, content[1]
        if found is None:
            return None, None
        former, etag = found
        if not force:
            self._check_succeeds(ours, former)
        return former, etag

    def _check_succeeds(self, ours: _Generation, former: Publication) -> None:
        generation = ours.manifest.generation
        if former.lineage != ours.manifest.lineage:
            before = self._former_manifest(ours.name, former)
            if before is not None and before.dropped and former.generation < generation:
                return
            raise self._conflict(ours, former, "it is another one of this name, of another store or dropped since")
        if former.generation > generation:
            raise self._conflict(ours, former, f"it has generation {former.generation}, this store {generation}")
        if former.generation == generation and former.manifest != checksum(ours.content):
            raise self._conflict(ours, former, f"another writer published a different generation {generation}")

    def _conflict(self, ours: _Generation, former: Publication, what: str) -> PublishConflict:
        return PublishConflict(
            f"{self._bucket.url} does not continue with collection {ours.name!r}: {what}; publish with --force to "
            "replace it",
            collection=ours.name,
            url=self._bucket.url,
            generation=former.generation,
        )

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

    def _put_files(
        self, ours: _Generation, published: Mapping[str, FileEntry], descriptors: Mapping[str, int]
    ) -> list[int]:
        """Put the files that the former manifest did not name; returns the sizes of those that were sent."""
        new = [(key, entry) for key, entry in named_files(ours.name, ours.manifest) if published.get(key) != entry]

        def put(file: tuple[str, FileEntry]) -> int:
            key, entry = file
            # By the open descriptor: garbage collection may remove the name meanwhile.
            if self._bucket.put_new(key, Path(f"/proc/self/fd/{descriptors[key]}")):
                return entry.size
            if self._bucket.size(key) != entry.size:
                raise damaged(self._bucket, key, f"has not the {entry.size} bytes of the stored file")
            return 0

        with ThreadPoolExecutor(_UPLOADS, thread_name_prefix="publish") as threads:
            return [size for size in threads.map(put, new) if size]

    def _put_changelogs(self, ours: _Generation) -> list[int]:
        """Put the changelogs and packs that the bucket lacks; replicas take what the listing shows."""
        prefix = changes_prefix(ours.name)
        stored = {found.key for found in self._bucket.list(prefix)}
        sent = []
        for path in sorted((ours.folder / CHANGES).glob("*.arrow")):
            key = f"{prefix}/{path.name}"
            number = path.stem.partition("-")[0]
            if key in stored or not number.isdecimal() or int(number) > ours.manifest.generation:
                continue
            try:
                content = path.read_bytes()
            except FileNotFoundError:  # packed meanwhile
                continue
            if self._bucket.put_new(key, content):
                sent.append(len(content))
        return sent

    def _put_manifest(self, ours: _Generation, *, replaces: bool) -> list[int]:
        key = manifest_key(ours.name, ours.manifest.generation)
        if self._bucket.put_new(key, ours.content):
            return [len(ours.content)]
        found = self._bucket.get(key)
        if found is not None and found[0] == ours.content:
            return []
        if not replaces:
            raise PublishConflict(
                f"{self._bucket.url} has another manifest of generation {ours.manifest.generation} of collection "
                f"{ours.name!r}, which another publisher put there: publish with --force to replace it",
                collection=ours.name,
                url=self._bucket.url,
                generation=ours.manifest.generation,
            )
        self._bucket.put(key, ours.content)
        return [len(ours.content)]

    def _enter(self, name: str) -> None:
        """Enter the collection in the catalog."""
        for _ in range(_CATALOG_ATTEMPTS):
            catalog, etag = read_catalog(self._bucket)
            if name in catalog.collections:
                return
            wanted = Catalog(tuple(sorted({*catalog.collections, name})))
            self._bucket.swap(CATALOG, encode_record(wanted), etag)
        raise damaged(self._bucket, CATALOG, "changes faster than it can be written")

    def _swap(self, ours: _Generation, former: Publication | None, etag: str | None, before: Manifest | None) -> None:
        """Replace CURRENT, and collect garbage where it is due. PublishConflict where another publisher was faster."""
        wanted, key = ours.publication, current_key(ours.name)
        if former is not None:
            is_purge = (
                before is None
                or former.lineage != wanted.lineage
                or former.generation > wanted.generation
                or not continues_history(ours.folder, ours.manifest.changes, before.changes)
            )
            is_due = is_purge or time.time() >= former.collected + COLLECT_SECONDS
            collected = wanted.collected if is_due else former.collected
            purged = wanted.generation if is_purge else former.purged
            # A purge counts as not collected until the next publication, in case this process is killed.
            wanted = replace(wanted, purged=purged, collected=0 if is_purge else collected)
        else:
            is_due = False
        if not self._bucket.swap(key, encode_record(wanted), etag):
            # The answer to a repeated request, whose first attempt may have succeeded unseen.
            now = read_publication(self._bucket, ours.name)
            if now is None or now[0] != wanted:
                raise self._lost(ours, None if now is None else now[0])
        self._manifests = {key: kept for key, kept in self._manifests.items() if key[0] != ours.name}
        self._manifests[ours.name, ours.manifest.generation] = ours.manifest
        if is_due:
            self._collect(ours, wanted)

    def _lost(self, ours: _Generation, winner: Publication | None) -> PublishConflict:
        return PublishConflict(
            f"another publisher of collection {ours.name!r} was faster: {self._bucket.url} now has generation "
            f"{'none' if winner is None else winner.generation}; publish again, after finding out who else publishes",
            collection=ours.name,
            url=self._bucket.url,
            generation=None if winner is None else winner.generation,
        )

    # -- remove and repair -------------------------------------------------------------------------------------

    def _collect(self, ours: _Generation, publication: Publication) -> None:
        """Remove the objects that neither the newest generation nor one superseded within KEEP names, as far as they
        are older than that, or were there before the purge."""
        name, found = ours.name, list(self._bucket.list(ours.name))
        manifests = _generations(found)
        limit, purged = datetime.now(UTC) - KEEP, publication.purged
        kept = {ours.manifest.generation: ours.manifest}
        numbers = sorted(manifests)
        for number, following in zip(numbers, [*numbers[1:], None], strict=True):
            is_superseded = following is not None and manifests[following].modified < limit
            if purged <= number < publication.generation and not is_superseded:
                manifest = self._manifest_or_none(name, number)
                kept |= {} if manifest is None else {number: manifest}
        named = {key for manifest in kept.values() for key, _ in named_files(name, manifest)}
        named |= {current_key(name), *(manifest_key(name, number) for number in kept)}
        named |= self._live_changelogs(ours)
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
                if exists and not _is_whole(temporary, entry):
                    self._bucket.delete([key])
        finally:
            temporary.unlink(missing_ok=True)


def _content_of(folder: Path, manifest: Manifest) -> bytes:
    try:
        return (folder / MANIFESTS / manifest_name(manifest.generation)).read_bytes()
    except FileNotFoundError:  # garbage collection removed it meanwhile
        return encode_manifest(manifest)


def _is_whole(path: Path, entry: FileEntry) -> bool:
    try:
        check_file(path, entry, whole=True)
    except FileProblem:
        return False
    return True


def _generations(found: Iterable[StoredObject]) -> dict[int, StoredObject]:
    """The manifests among some objects, by generation."""
    named = ((one, one.key.split("/")) for one in found)
    return {
        int(parts[-1].removesuffix(".json")): one
        for one, parts in named
        if len(parts) == 3 and parts[1] == MANIFESTS and parts[2].removesuffix(".json").isdecimal()
    }
