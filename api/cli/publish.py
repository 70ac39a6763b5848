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
    from collections.abc import Hashable

    from aidre.api.config import Settings
    from aidre.engine.maintenance import BucketAddress, Publisher, Replica
    from aidre.engine.ports import Source

_LOOK_SECONDS = 0.25
"""Between two looks for a new generation of the store."""
_RETRY_SECONDS = 10.0


def address_of(url: str, settings: Settings) -> BucketAddress:
    from aidre.engine.maintenance import BucketAddress

    return BucketAddress(url, settings.store.endpoint, settings.store.region)


def publisher_for(store: Source, settings: Settings, url: str | None = None) -> Publisher:
    """The publisher to a bucket, by default that of the configuration; it signs where a key is configured.
    ConfigurationError."""
    from aidre.api.protocols.provenance import publication_signer
    from aidre.engine.maintenance import Bucket, Publisher

    url = url or settings.store.publish
    if url is None:
        raise ConfigurationError("publish: say where, by --to s3://bucket/prefix or store.publish in the configuration")
    return Publisher(store, Bucket(address_of(url, settings), make=True), publication_signer(settings))


def follow(
    publisher: Publisher,
    store: Source,
    collection: str | None = None,
    spacing: float = 1.0,
    stopped: threading.Event | None = None,
) -> None:
    """Publish each new generation, at most one in `spacing` seconds, until stopped. A bucket that fails is tried again.

    Another publisher that was faster is reported each time that there is something new to publish.
    """
    from aidre.api.cli import console

    stopped = stopped or threading.Event()
    marks: dict[str, Hashable] = {}
    aliases, problem, wait = None, "", _LOOK_SECONDS
    while not stopped.wait(wait):
        former, problem, wait = problem, "", _LOOK_SECONDS
        names = _names(store, collection)
        if marks.keys() - set(names):
            problem = _publish_drops(publisher)
            marks = {name: mark for name, mark in marks.items() if problem or name in names}
        newest = {name: mark for name in names if (mark := store.mark(name)) is not None}
        due = [name for name, mark in newest.items() if mark != marks.get(name)]
        try:
            now_meant = store.aliases()
            if due or now_meant != aliases:
                done = publisher.publish_each(due)
                aliases = now_meant
                marks |= {name: newest[name] for name in due if name not in done.failures}
                for name, error in done.failures.items():
                    if isinstance(error, PublishConflict):
                        marks[name] = newest[name]
                        console.print_message(str(error))
                    else:
                        problem, wait = str(error), _RETRY_SECONDS
                wait = max(wait, spacing)
        except (AidreError, OSError) as error:
            problem, wait = str(error), _RETRY_SECONDS
        if problem and problem != former:
            console.print_message(f"not published: {problem}")


def _publish_drops(publisher: Publisher) -> str:
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
def publishing(store: Source, settings: Settings, collection: str | None = None) -> Iterator[None]:
    """Within this context new generations are published in a thread, where the configuration says so; when it ends
    without an error, the newest ones are published. What cannot be published is reported: it is stored, and the next
    ingest or `aidre publish` sends it."""
    from aidre.api.cli import console

    if settings.store.publish is None:
        yield
        return
    publisher, stopped = publisher_for(store, settings), threading.Event()
    arguments = publisher, store, collection, settings.store.poll, stopped
    thread = threading.Thread(target=follow, args=arguments, name="publish", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(_RETRY_SECONDS)
    try:
        for failure in publisher.publish_each(_names(store, collection)).failures.values():
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

    replica, stopped = replica_for(url, cache, settings), threading.Event()
    replica.prepare()
    try:
        replica.pull()
    except AidreError as error:
        if not replica.source.collections():
            raise
        console.print_message(f"{error}; the generations in the cache are served meanwhile")
    thread = threading.Thread(target=replica.follow, args=(stopped, settings.store.poll), name="replica", daemon=True)
    thread.start()
    try:
        yield replica
    finally:
        stopped.set()


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
    from aidre.engine.maintenance import pulled_at

    return max(0.0, time.time() - (pulled_at(cache) or 0.0))
