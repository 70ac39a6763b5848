"""Publishing to a bucket and replicas of one, by the configuration: for `aidre publish` and `aidre serve`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aidre.engine.errors import AidreError, ConfigurationError, PublishConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from aidre.api.cli.liveness import PublishRecord
    from aidre.api.config import Settings
    from aidre.engine.maintenance import BucketAddress, Promoted, Replica, StorePublisher
    from aidre.engine.ports import Source

_LOOK_SECONDS = 0.25
"""Between two looks for a new generation of the store."""
_RETRY_SECONDS = 10.0


def address_of(url: str, settings: Settings) -> BucketAddress:
    from aidre.engine.maintenance import BucketAddress

    return BucketAddress(url, settings.store.endpoint, settings.store.region)


def publisher_for(store: Source, settings: Settings, url: str | None = None) -> StorePublisher:
    """The publisher to a bucket, by default that of the configuration; it signs where a key is configured.
    ConfigurationError."""
    from aidre.api.protocols.provenance import publication_signer
    from aidre.engine.maintenance import Bucket, StorePublisher

    url = url or settings.store.publish
    if url is None:
        raise ConfigurationError("publish: say where, by --to s3://bucket/prefix or store.publish in the configuration")
    return StorePublisher(store, Bucket(address_of(url, settings), make=True), publication_signer(settings))


def follow(
    publisher: StorePublisher,
    store: Source,
    collection: str | None = None,
    spacing: float = 1.0,
    stopped: threading.Event | None = None,
    *,
    record: PublishRecord | None = None,
) -> None:
    """Publish each new generation, at most one in `spacing` seconds, until stopped. A bucket that fails is tried again.

    Another publisher that was faster is reported each time that there is something new to publish. With a record this
    is a publisher that stays: replicas are given signs of life.
    """
    from aidre.api.cli import console
    from aidre.api.cli.liveness import HEARTBEAT_SECONDS, PublishRecord

    record, beats = record or PublishRecord(store.path, newest_of(publisher, store, collection)), record is not None
    publisher.sent = record.progressed
    beaten: float | None = None
    stopped = stopped or threading.Event()
    marks: dict[str, Hashable] = {}
    aliases, problem, wait = None, "", _LOOK_SECONDS
    while not stopped.wait(wait):
        former, problem, wait = problem, "", _LOOK_SECONDS
        names = _names(store, collection)
        record.refused &= frozenset(names)
        if marks.keys() - set(names):
            problem = _publish_drops(publisher)
            marks = {name: mark for name, mark in marks.items() if problem or name in names}
        newest = {name: mark for name in names if (mark := store.mark(name)) is not None}
        due = [name for name, mark in newest.items() if mark != marks.get(name)]
        try:
            meant = store.aliases()
            if due or meant != aliases:
                done = publisher.publish_each(due)
                aliases, wait = meant, max(wait, spacing)
                published = {publication.collection: publication.generation for publication in done.published}
                _note_pass(record, due, published, done.failures)
                marks |= {name: newest[name] for name in due if name not in done.failures}
                for name, error in done.failures.items():
                    if isinstance(error, PublishConflict):
                        marks[name] = newest[name]
                        record.failed()
                        console.print_message(str(error))
                    else:
                        problem, wait = str(error), _RETRY_SECONDS
        except PublishConflict as error:
            marks |= newest
            record.failed()
            console.print_message(str(error))
        except (AidreError, OSError) as error:
            problem, wait = str(error), _RETRY_SECONDS
        if beats and not problem and (beaten is None or time.monotonic() - beaten >= HEARTBEAT_SECONDS):
            beaten = time.monotonic()
            problem = _beat(publisher, store.path, record)
        if problem:
            record.failed()
        if problem and problem != former:
            console.print_message(f"not published: {problem}")


def _note_pass(
    record: PublishRecord, names: Sequence[str], published: Mapping[str, int], failures: Mapping[str, AidreError]
) -> None:
    conflicts = {name for name, failure in failures.items() if isinstance(failure, PublishConflict)}
    record.refused = record.refused - set(names) | conflicts
    if published or not failures:
        record.succeeded(published)


def newest_of(publisher: StorePublisher, store: Source, collection: str | None) -> Callable[[], dict[str, int]]:
    """The newest generations of the collections that are followed, published or not."""
    return lambda: publisher.generations(_names(store, collection))


@contextmanager
def counted(record: PublishRecord) -> Iterator[None]:
    """What fails within this context counts as an attempt that failed."""
    try:
        yield
    except (AidreError, OSError):
        record.failed()
        raise


def _beat(publisher: StorePublisher, store: Path, record: PublishRecord) -> str:
    """Give a sign of life; returns why it could not be done."""
    from aidre.engine.maintenance import beat

    try:
        beat(publisher.bucket, store, record.generations())
        record.succeeded({})
    except (AidreError, OSError) as error:
        return str(error)
    return ""


def _publish_drops(publisher: StorePublisher) -> str:
    """Returns why it could not be done."""
    try:
        publisher.publish_drops()
    except (AidreError, OSError) as error:
        return str(error)
    return ""


def _names(store: Source, collection: str | None) -> list[str]:
    """The collections that exist, or the named one of them."""
    try:
        names = store.collections()
    except (AidreError, OSError):
        return []
    return [name for name in names if collection in (None, name)]


@contextmanager
def publishing(
    store: Source, settings: Settings, collection: str | None = None, *, stays: bool = False
) -> Iterator[None]:
    """Within this context new generations are published in a thread, where the configuration says so; when it ends
    without an error, the newest ones are published. What cannot be published is reported: it is stored, and the next
    ingest or `aidre publish` sends it. What `stays` gives replicas signs of life."""
    from aidre.api.cli import console
    from aidre.api.cli.liveness import PublishRecord

    if settings.store.publish is None:
        yield
        return
    publisher, stopped = publisher_for(store, settings), threading.Event()
    arguments = publisher, store, collection, settings.store.poll, stopped
    record = PublishRecord(store.path, newest_of(publisher, store, collection), stays=stays, only=collection)
    named = {"record": record if stays else None}
    thread = threading.Thread(target=follow, args=arguments, kwargs=named, name="publish", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(_RETRY_SECONDS)
    try:
        with counted(record):
            names = _names(store, collection)
            done = publisher.publish_each(names)
            published = {publication.collection: publication.generation for publication in done.published}
            _note_pass(record, names, published, done.failures)
            for failure in done.failures.values():
                raise failure
    except (AidreError, OSError) as error:
        console.print_message(f"what was committed is stored, but not published: {error}; `aidre publish` sends it")


@contextmanager
def replicating(url: str, cache: Path, settings: Settings) -> Iterator[Replica]:
    """A replica that is pulled once before, and in a thread within this context.

    Where that fails, the generations that the cache has are served. ConfigurationError, and without any generation
    BucketFailed, PublicationRefused, StorageFailed, StoreDamaged, FormatTooNew.
    """
    from aidre.api.cli import console
    from aidre.api.cli.liveness import ReplicaWatch
    from aidre.engine.maintenance import Bucket

    replica, stopped = replica_for(url, cache, settings), threading.Event()
    watch = ReplicaWatch(replica, Bucket(address_of(url, settings)))
    replica.prepare()
    try:
        watch.pulled(replica.pull())
    except AidreError as error:
        if not replica.source.collections():
            raise
        watch.pulled(None)
        console.print_message(f"{error}; the generations in the cache are served meanwhile")
    arguments = stopped, settings.store.poll, watch.pulled
    thread = threading.Thread(target=replica.follow, args=arguments, name="replica", daemon=True)
    thread.start()
    try:
        yield replica
    finally:
        stopped.set()


def promote(folder: Path, url: str | None, settings: Settings) -> Promoted:
    """Make the replica in a folder the home node of its bucket; of that at `url`, where the folder is empty. Where it
    is the home node already nothing is done; PublishConflict where another has taken over since. ConfigurationError,
    and what `promote` of the engine raises."""
    from aidre.api.protocols.provenance import publication_signer, publisher_keys
    from aidre.engine.maintenance import Bucket, Promoted, Tenure, home_of, promote as take_over, replicated_url

    terms, replicated = home_of(folder), replicated_url(folder)
    if terms and url in (None, *terms):
        address, term = max(terms.items(), key=lambda entry: (entry[0] == url, entry[1]))
        Tenure(folder, Bucket(address_of(address, settings))).check_entered("any")
        return Promoted(address, term, {})
    if url is None and replicated is None:
        raise ConfigurationError(f"{folder} is not a replica: name its cache, or a bucket with --from")
    bucket = Bucket(address_of(url or str(replicated), settings))
    return take_over(bucket, folder, signer=publication_signer(settings), keys=publisher_keys(settings))


def replica_for(url: str, cache: Path, settings: Settings) -> Replica:
    """ConfigurationError."""
    from aidre.api.protocols.provenance import publisher_keys
    from aidre.engine.maintenance import Bucket, Replica

    bucket, stored = Bucket(address_of(url, settings)), settings.store
    return Replica(
        bucket,
        cache,
        max_bytes=stored.cache_bytes,
        keys=publisher_keys(settings),
        widened=stored.widened,
        keep_seconds=float(stored.keep) if stored.lazy else None,
        max_files=stored.keep_files,
    )


def seconds_since_pull(cache: Path) -> float:
    """How long ago the bucket of a replica was last read without a problem."""
    from aidre.api.operations import fleet_status
    from aidre.engine.maintenance import pulled_at

    state = fleet_status.read_state(cache, fleet_status.PULLS, fleet_status.PullStatus)
    if state is not None:
        return fleet_status.age(state, state.pulled)
    return max(0.0, time.time() - (pulled_at(cache) or 0.0))
