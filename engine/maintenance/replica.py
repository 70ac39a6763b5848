"""A replica: the newest publication of a bucket, pulled into a folder that is a store.

A pull gets what the manifest names and the folder lacks, each file under a temporary name until its size and checksum
are right, then the manifest, then CURRENT: readers of the folder never see half a generation, and an object that was
cut or altered is never opened. With keys, nothing is taken that they have not signed (`statement`). One process at a
time pulls a collection; it holds the writer's lock, and nobody else writes there.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import orjson

from aidre.engine.collection import Store, garbage
from aidre.engine.errors import (
    AidreError,
    BucketFailed,
    CollectionMissing,
    FormatTooNew,
    PublicationRefused,
    StorageFailed,
    StoreDamaged,
)
from aidre.engine.maintenance.bucket import Bucket, Objects
from aidre.engine.maintenance.fleet.catalog import Due, KnownTerms, each_of, take_aliases
from aidre.engine.maintenance.fleet.lazy import Facts, LazyCache, LazyStore, note_use
from aidre.engine.maintenance.fleet.packs import Packed, open_pack
from aidre.engine.maintenance.fleet.pulling import (
    check_signed,
    has_size,
    is_changelog,
    pull_changelog,
    pull_file,
    remove_unsigned,
    size_of,
)
from aidre.engine.maintenance.publication import (
    CATALOG,
    BucketCatalog,
    Publication,
    changes_prefix,
    checksum,
    current_key,
    damaged,
    decode_record,
    is_packed,
    manifest_key,
    named_files,
)
from aidre.engine.maintenance.statement import (
    STATEMENT,
    Accepted,
    Opener,
    StatementClaims,
    accept,
    accept_older,
    check_succeeds,
    refused,
    seen,
)
from aidre.engine.storage import (
    CHANGES,
    CURRENT,
    HOME,
    MANIFESTS,
    REPLICA,
    Manifest,
    WriterLock,
    decode_manifest,
    durable,
    is_collection_name,
    manifest_name,
    manifest_numbers,
    read_manifest,
)

logger = logging.getLogger("aidre")

LOCK_SECONDS = 60.0
"""How long a pull waits for that of another process of this cache."""
PROBLEMS = ".problems.json"
"""In the cache: the collections that the last pull could not bring to their newest publication, and why."""
_DOWNLOADS = 4
"""Files of a collection that are pulled at a time."""
_RETRY_SECONDS = 5.0
"""Seconds after a failed pull; meanwhile the former generation is served."""


class Replica:
    """Pulls one bucket into one folder. `max_bytes` bounds what the generations take there; 0: no bound.

    With `keys`, publications that these have not signed are refused, and those that are older than what was accepted,
    or make a private collection public that is not in `widened`. With `keep_seconds` it is lazy:
    collections are pulled by `pull_collection` alone, and removed when they were not used for so long, or `max_files`
    or `max_bytes` are exceeded.
    """

    def __init__(
        self,
        bucket: Bucket,
        cache: Path,
        *,
        max_bytes: int = 0,
        keys: Opener | None = None,
        widened: Collection[str] = (),
        keep_seconds: float | None = None,
        max_files: int = 0,
    ) -> None:
        self._bucket, self._max_bytes = bucket, max_bytes
        self._keys, self._widened = keys, frozenset(widened)
        self.cache = cache.absolute()
        self._etags: dict[str, str] = {}
        self._opened: dict[str, Manifest] = {}
        self._catalog = BucketCatalog()
        self._due, self._terms = Due(), KnownTerms(self.cache, bucket)
        self._packs: dict[str, Packed] = {}
        self._lazy = None
        if keep_seconds is not None:
            self._lazy = LazyCache(self.cache, keep_seconds, max_bytes, max_files)

    @property
    def source(self) -> Store:
        """What serves the cache."""
        return Store(self.cache, self.fetch) if self._lazy is None else LazyStore(self.cache, self)

    # -- the newest publication --------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folder and mark it as a replica, which no writer may change. StorageFailed where it is a store of
        its own, or the replica of another bucket."""
        durable.make_folder(self.cache)
        marked = replicated_url(self.cache)
        if marked is None and (self.cache / HOME).exists():
            raise self._promoted()
        if marked is None and any(not path.name.startswith(".") for path in self.cache.iterdir()):
            raise StorageFailed(f"{self.cache} is not empty: name a new folder for the cache", file=self.cache.name)
        if marked is not None and marked != self._bucket.url:
            raise StorageFailed(
                f"{self.cache} is the cache of {marked}: name another folder for {self._bucket.url}",
                file=self.cache.name,
            )
        if marked is None:
            durable.replace_file(self.cache / REPLICA, orjson.dumps({"replica_of": self._bucket.url}))

    def pull(self) -> list[str]:
        """Bring every collection to its newest publication; returns the names of those that changed.

        A collection that cannot be pulled keeps its generation, and the others are pulled; the problems are raised at
        the end as one: BucketFailed, PublicationRefused, StoreDamaged, FormatTooNew, StorageFailed.
        """
        self._read_catalog()
        changed, failures = self._pull_due()
        try:
            if self._lazy is not None:
                self._lazy.keep(self._catalog.collections)
            self._take_aliases()
        except AidreError as failure:
            failures.append(failure)
        unnamed = sorted(set(self._local_names()).difference(self._catalog.collections))
        self._check_marked()  # after they were listed: this is not the folder of a home node
        for name in unnamed:
            try:
                self._check_unseen(name, f"is no longer named by {CATALOG}, which nobody signs")
            except PublicationRefused as failure:
                failures.append(failure)
                continue
            self._forget(name)
            durable.remove(self.cache / name)
        if self._lazy is not None:
            self._lazy.let_go()
        self._note(failures)
        if failures:
            raise type(failures[0])("; ".join(map(str, failures)), **failures[0].details)
        os.utime(self.cache / REPLICA)  # the time of the last complete pull
        return changed

    def _pull_due(self) -> tuple[list[str], list[AidreError]]:
        """Pull the collections that may have changed; those that did, and why others could not be. BucketFailed."""
        due = self._due.names(self._catalog, self._is_broken)
        done, failures = each_of(due, self._pull_or_learn)
        for failure in failures.values():
            if isinstance(failure, BucketFailed):
                raise failure
        return sorted(name for name, has_changed in done.items() if has_changed), list(failures.values())

    def _pull_or_learn(self, name: str) -> bool:
        if self._lazy is None or self._is_there(name):
            has_changed = self.pull_newest(name)
        elif self._lazy.is_known(name, self._catalog):
            return False
        else:
            has_changed = self._learn(name)
        self._due.done(name, self._catalog)
        return has_changed

    def _is_broken(self, name: str) -> bool:
        """Whether a file was removed, or is shorter now."""
        opened = self._opened.get(name)
        if opened is None or self._is_complete(name, opened):
            return False
        self._forget(name)
        return True

    def _take_aliases(self) -> None:
        facts = {} if self._lazy is None else self._lazy.facts.read()
        is_there = self._is_there
        take_aliases(self.cache, self._bucket, self._catalog, self._keys, lambda name: name in facts or is_there(name))

    def pull_collection(self, name: str) -> None:
        """Bring a collection into the cache of a lazy replica, where it is not there already: of processes that ask at
        once one pulls, and the others wait. What `pull` raises; CollectionMissing."""
        if self._lazy is None or name not in self._lazy.facts.read():
            raise CollectionMissing(f"there is no collection {name!r} in this store", collection=name)
        note_use(self.cache, name)
        self._forget(name)
        self.pull_newest(name)
        if not self._is_there(name):
            raise damaged(self._bucket, current_key(name), "is missing")

    def _learn(self, name: str) -> bool:
        """Bring what is known of a collection that is not in the cache up to date."""
        assert self._lazy is not None
        found = self._bucket.get(current_key(name))
        if found is None:
            self._check_unseen(name, "is missing in the bucket")
            return False
        publication = decode_record(found[0], Publication, self._bucket, current_key(name))
        self._terms.check(name, publication, self._catalog)
        with self._unpacked(name, publication.generation, is_needed=is_packed(found[0])):
            accepted = None if self._keys is None else self._accept(name, publication, self._keys)
            manifest, _ = self._published_manifest(name, publication, None if accepted is None else accepted.files)
        self._lazy.learn(name, Facts.of(manifest, publication.token, None if accepted is None else accepted.statement))
        return True

    def _seen(self, name: str) -> StatementClaims | None:
        """The newest publication that was accepted."""
        known = None if self._lazy is None else self._lazy.claims(name)
        stored = seen(self.cache / name)
        return max(filter(None, (known, stored)), key=lambda claims: claims.iat, default=None)

    def _is_there(self, name: str) -> bool:
        return is_collection_name(name) and (self.cache / name / CURRENT).exists()

    def _note(self, failures: Sequence[AidreError]) -> None:
        """Keep for `pull_problem` what is wrong with which collection."""
        path = self.cache / PROBLEMS
        problems = {
            str(failure.details["collection"]): str(failure) for failure in failures if "collection" in failure.details
        }
        content = orjson.dumps(problems)
        if (path.read_bytes() if path.exists() else b"{}") != content:
            durable.replace_file(path, content)

    def follow(
        self,
        stopped: threading.Event,
        poll: float,
        pulled: Callable[[Sequence[str] | None], None] = lambda changed: None,
    ) -> None:
        """Pull every `poll` seconds until `stopped`; a problem is logged once and does not end it. `pulled` is called
        after each pull, with None where that was not complete."""
        problem, wait = None, poll
        while not stopped.wait(wait):
            try:
                changed = None
                try:
                    changed = self.pull()
                finally:
                    pulled(changed)
                problem, wait = None, poll
            except (AidreError, OSError) as error:
                if str(error) != problem:
                    logger.error("the replica is not up to date: %s", error)
                problem, wait = str(error), max(poll, _RETRY_SECONDS if isinstance(error, BucketFailed) else poll)

    def fetch(self, collection: str, generation: int) -> bool:
        """Bring an older generation, which a cursor of another replica names, beside the newest; False where it is
        gone. For readers: it waits for a running pull, and raises what `pull` raises."""
        if not is_collection_name(collection):
            return False
        folder = self.cache / collection
        with self.lock(collection):
            if (folder / MANIFESTS / manifest_name(generation)).exists():
                return True
            if not self._is_marked():
                return False
            is_packed = self._bucket.size(manifest_key(collection, generation)) is None
            with self._unpacked(collection, generation, is_needed=is_packed):
                older = self._find_older(collection, generation)
                if older is None:
                    return False
                manifest, content, files = older
                garbage.pin(folder, generation)
                self._pull_files(collection, manifest, files)
                durable.replace_file(folder / MANIFESTS / manifest_name(generation), content)
        return True

    def _find_older(self, collection: str, generation: int) -> tuple[Manifest, bytes, Mapping[str, str] | None] | None:
        """The manifest of an older generation, its bytes and what was signed of its files."""
        found = self._bucket.get(current_key(collection))
        if found is None:
            return None
        newest = decode_record(found[0], Publication, self._bucket, current_key(collection))
        if is_packed(found[0]) and generation != newest.generation:
            return None  # it is the first one
        files = None
        if self._keys is not None:
            claims = self._accept(collection, newest, self._keys).claims
            signed = accept_older(self._objects(collection), claims, generation, self._keys)
            if signed is None:
                return None
            files = signed.files
        is_kept = newest.purged <= generation <= newest.generation
        content = self._get_manifest(collection, generation, files) if is_kept else None
        manifest = None if content is None else decode_manifest(content, generation, collection)
        if content is None or manifest is None or manifest.lineage != newest.lineage:
            return None
        return manifest, content, files

    def has(self, name: str, publication: Publication) -> bool:
        """Whether the newest generation of the folder is that of a publication, and whole."""
        local = self._local_manifest(name)
        if local is None or (local.generation, local.lineage) != (publication.generation, publication.lineage):
            return False
        content = (self.cache / name / MANIFESTS / manifest_name(local.generation)).read_bytes()
        return checksum(content) == publication.manifest and self._is_complete(name, local)

    # -- one collection ----------------------------------------------------------------------------------------

    def _read_catalog(self) -> None:
        found = self._bucket.get(CATALOG, unless=self._etags.get(CATALOG))
        if found is not None:
            catalog = decode_record(found[0], BucketCatalog, self._bucket, CATALOG)
            wrong = [name for name in catalog.collections if not is_collection_name(name)]
            if wrong:
                raise damaged(self._bucket, CATALOG, "names a collection with an invalid name")
            self._catalog, self._etags[CATALOG] = catalog, found[1]
        elif CATALOG not in self._etags:
            raise BucketFailed(
                f"nothing is published at {self._bucket.url}: run `aidre publish` first, or correct the address",
                url=self._bucket.url,
                reason="missing",
            )

    @contextmanager
    def _unpacked(self, name: str, generation: int, *, is_needed: bool) -> Iterator[None]:
        """Within this context the objects of a pack are found as if they were there one by one."""
        pack = open_pack(self._bucket, name, generation) if is_needed else None
        if pack is None:
            yield
            return
        self._packs[name] = pack
        try:
            yield
        finally:
            self._packs.pop(name, None)

    def _objects(self, name: str) -> Objects:
        return self._packs.get(name, self._bucket)

    def _forget(self, name: str) -> None:
        """The next pull takes nothing of this collection for granted."""
        self._etags.pop(current_key(name), None)
        self._opened.pop(name, None)

    def pull_newest(self, name: str) -> bool:
        key = current_key(name)
        found = self._bucket.get(key, unless=self._etags.get(key))
        if found is None:
            if key not in self._etags:
                self._check_unseen(name, "is missing in the bucket")
            return False
        publication = decode_record(found[0], Publication, self._bucket, key)
        with self.lock(name), self._unpacked(name, publication.generation, is_needed=is_packed(found[0])):
            self._check_marked()
            self._terms.check(name, publication, self._catalog)
            changed = self._open_publication(name, publication, self._admit(name, publication))
        self._etags[key] = found[1]  # not before: a failed pull is repeated
        if self._lazy is not None:
            statement = None if self._keys is None else publication.statement
            self._lazy.learn(name, Facts.of(self._opened[name], publication.token, statement))
        return changed

    # -- signatures --------------------------------------------------------------------------------------------

    def _accept(self, name: str, publication: Publication, keys: Opener) -> Accepted:
        """PublicationRefused."""
        accepted = accept(self._objects(name), name, publication, keys)
        check_succeeds(self._bucket, accepted.claims, self._seen(name), self._widened)
        return accepted

    def _admit(self, name: str, publication: Publication) -> Mapping[str, str] | None:
        """The SHA-256 of the files of a publication, which is remembered before it is opened; None without keys, and
        then nothing is remembered: what is pulled without them is not verified. PublicationRefused."""
        path = self.cache / name / STATEMENT
        if self._keys is None:
            path.unlink(missing_ok=True)
            return None
        accepted = self._accept(name, publication, self._keys)
        former = seen(self.cache / name)
        if former is None:
            remove_unsigned(self.cache, name, accepted.files)
        if former != accepted.claims:
            durable.replace_file(path, accepted.statement.encode())
        return accepted.files

    def _check_unseen(self, name: str, what: str) -> None:
        """PublicationRefused where the bucket lacks a collection of which a signed publication was accepted."""
        if self._keys is not None and self._seen(name) is not None:
            what = f"{what}: its last generation goes on being served"
            raise refused(self._bucket, name, "withdrawn", what)

    # -- a publication -----------------------------------------------------------------------------------------

    def _open_publication(self, name: str, publication: Publication, files: Mapping[str, str] | None) -> bool:
        folder, generation = self.cache / name, publication.generation
        local = self._local_manifest(name)
        if local is not None and self.has(name, publication):
            if name not in self._opened:
                self._pull_changelogs(name, publication, files)
            self._clean(name, local, local, publication, files)
            return False
        manifest, found = self._published_manifest(name, publication, files)
        self._pull_files(name, manifest, files)
        self._pull_changelogs(name, publication, files)
        durable.replace_file(folder / MANIFESTS / manifest_name(generation), found)
        durable.replace_file(folder / CURRENT, f"{generation:06d}\n".encode())
        self._clean(name, manifest, local, publication, files)
        return True

    def _clean(
        self,
        name: str,
        manifest: Manifest,
        local: Manifest | None,
        publication: Publication,
        files: Mapping[str, str] | None,
    ) -> None:
        """Remove what no reader needs; after a purge, or another history, everything but the newest generation, and
        once for each process what a killed one left."""
        folder = self.cache / name
        numbers = manifest_numbers(folder)
        is_other = local is not None and (local.lineage != manifest.lineage or numbers[-1] > manifest.generation)
        if is_other or any(number < publication.purged for number in numbers):
            garbage.purge(folder, manifest)
            self._pull_changelogs(name, publication, files)  # a purge removes them all
        elif name not in self._opened:
            garbage.remove_unfinished(folder, manifest.changes)
            garbage.collect(folder, manifest, at_least=0)
        elif self._max_bytes and size_of(self.cache) > self._max_bytes:
            garbage.collect(folder, replace(manifest, keep=1), keep_seconds=0, at_least=1)
        else:
            garbage.collect(folder, manifest)
        self._opened[name] = manifest

    # -- files -------------------------------------------------------------------------------------------------

    def _get_manifest(self, name: str, generation: int, signed: Mapping[str, str] | None) -> bytes | None:
        key = manifest_key(name, generation)
        found = self._objects(name).get(key)
        if found is None:
            return None
        check_signed(self._objects(name), name, key, hashlib.sha256(found[0]).hexdigest(), signed)
        return found[0]

    def _published_manifest(
        self, name: str, publication: Publication, signed: Mapping[str, str] | None
    ) -> tuple[Manifest, bytes]:
        """StoreDamaged, PublicationRefused."""
        found = self._get_manifest(name, publication.generation, signed)
        if found is None or checksum(found) != publication.manifest:
            key = manifest_key(name, publication.generation)
            raise damaged(self._bucket, key, "is not the manifest that was published")
        return decode_manifest(found, publication.generation, name), found

    def _pull_files(self, name: str, manifest: Manifest, signed: Mapping[str, str] | None) -> None:
        files = [
            (key, entry) for key, entry in named_files(name, manifest) if not has_size(self.cache / key, entry.size)
        ]
        self._make_room(name, manifest, sum(entry.size for _, entry in files))
        for parent in sorted({self.cache / name / MANIFESTS, *((self.cache / key).parent for key, _ in files)}):
            durable.make_folder(parent)
        objects = self._objects(name)
        with ThreadPoolExecutor(_DOWNLOADS, thread_name_prefix="pull") as threads:
            for _ in threads.map(
                lambda file: pull_file(objects, self.cache / file[0], file[0], file[1], signed), files
            ):
                pass

    def _make_room(self, name: str, manifest: Manifest, missing: int) -> None:
        """StorageFailed where the generation does not fit beside the newest ones of the other collections."""
        if not self._max_bytes:
            return
        if self._lazy is not None:
            self._lazy.let_go(missing, spared=name)
        if size_of(self.cache) + missing > self._max_bytes:
            for other in self._local_names():
                local = self._local_manifest(other)
                if local is not None:
                    garbage.collect(self.cache / other, replace(local, keep=1), keep_seconds=0, at_least=1)
        size = size_of(self.cache) + missing
        if size > self._max_bytes:
            raise StorageFailed(
                f"generation {manifest.generation} of collection {name!r} needs a cache of {size:,} bytes, "
                f"store.cache_bytes allows {self._max_bytes:,}: raise it",
                file=name,
            )

    def _pull_changelogs(self, name: str, publication: Publication, signed: Mapping[str, str] | None) -> None:
        """Bring the folder of changelogs to what the bucket lists; the feed verifies each when it reads it."""
        folder, prefix = self.cache / name / CHANGES, changes_prefix(name)
        named = [found for found in self._objects(name).list(prefix) if signed is None or found.key in signed]
        listed = {found.key.rpartition("/")[2]: found for found in named}
        listed = {file: found for file, found in listed.items() if is_changelog(file, publication)}
        durable.make_folder(folder)
        for path in list(folder.glob("*.arrow")):
            if path.name not in listed:
                path.unlink(missing_ok=True)
        missing = [file for file, found in listed.items() if not has_size(folder / file, found.size)]

        def pull(file: str) -> None:
            pull_changelog(self._objects(name), folder / file, f"{prefix}/{file}", signed)

        with ThreadPoolExecutor(_DOWNLOADS, thread_name_prefix="pull") as threads:
            for _ in threads.map(pull, missing):
                pass

    # -- the folder --------------------------------------------------------------------------------------------

    def _check_marked(self) -> None:
        """StorageFailed where the replica has become a home node meanwhile, whose generations are its own. Whoever
        holds the lock of a collection asks: no writer is let in while the folder is marked."""
        if not self._is_marked():
            raise self._promoted()

    def _is_marked(self) -> bool:
        return (self.cache / REPLICA).exists()

    def _promoted(self) -> StorageFailed:
        what = "is not a replica any more, it was promoted: serve it as the store that it is"
        return StorageFailed(f"{self.cache} {what}, by `aidre serve --store {self.cache}`", file=self.cache.name)

    def lock(self, name: str) -> WriterLock:
        durable.make_folder(self.cache / name)
        return WriterLock(self.cache / name, name, LOCK_SECONDS)

    def _local_names(self) -> Sequence[str]:
        return [path.name for path in self.cache.iterdir() if path.is_dir() and not path.name.startswith(".")]

    def _local_manifest(self, name: str) -> Manifest | None:
        """The newest manifest of the folder; None where it is missing or damaged, and is to be pulled again."""
        with suppress(StoreDamaged, FormatTooNew, FileNotFoundError):
            folder = self.cache / name
            number = int((folder / CURRENT).read_bytes())
            return read_manifest(folder / MANIFESTS, number, name)
        return None

    def _is_complete(self, name: str, manifest: Manifest) -> bool:
        paths = ((self.cache / key, entry.size) for key, entry in named_files(name, manifest))
        return all(has_size(path, size) for path, size in paths)


def replicated_url(folder: Path) -> str | None:
    """The bucket that a folder is the replica of, None where it is none."""
    try:
        value = orjson.loads((folder / REPLICA).read_bytes())
        return str(value["replica_of"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def pull_problem(folder: Path, collection: str) -> str | None:
    """Why the last pull left a collection of a replica as it was, None where it did not."""
    try:
        return str(orjson.loads((folder / PROBLEMS).read_bytes())[collection])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def pulled_at(folder: Path) -> float | None:
    """The Unix time of the last complete pull into a folder, None where it is not a replica."""
    try:
        return (folder / REPLICA).stat().st_mtime
    except FileNotFoundError:
        return None
