"""A bucket: the objects below a prefix in an object store, or in a folder, through obstore.

S3, Azure and Google are alike here. Credentials come from the environment, as the tools of each expect them. A folder
(`file:///path`) is for tests and for file systems that somebody else replicates: it cannot compare and swap, so that
publishers on one machine take a lock instead.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import orjson

from aidre.engine.errors import BucketFailed, ConfigurationError, StorageFailed, StoreDamaged
from aidre.engine.storage import locked_folder

if TYPE_CHECKING:
    from aidre.engine.collection import LooseSegment, SegmentPlace
    from aidre.engine.ports import Reader, Source

T = TypeVar("T")

_TIMEOUT = timedelta(seconds=60)
"""For one request; a slower connection needs smaller objects."""
_CONNECT_TIMEOUT = timedelta(seconds=5)
_RETRY = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
_ATTEMPTS = 3
_ATTEMPT_SECONDS = 0.1
"""Attempts of a put that must not replace an object, and the seconds before the second one."""
_SINGLE_PUT_BYTES = 1 << 26
"""Larger files go in parts, which are put together in one step but cannot be refused where the object exists."""
_PART_BYTES = 1 << 23
_READ_BYTES = 1 << 20
_TRANSFERS = 4
"""Files of a loose segment that are sent or fetched at a time."""
_MAX_GET_BYTES = 1 << 28
"""Largest object that is read as a whole; manifests and records are far smaller."""
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)
_DENIED = re.compile(
    r"\b40[13] |AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|169\.254\.169\.254|metadata\.google"
)
"""The last two are where credentials are looked for when the environment has none."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Of the environment, as the tools of AWS read them, the first one first."""


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """Where a bucket is. `url` is such as s3://bucket/prefix, az://container/prefix, gs://bucket/prefix or file:///path;
    `endpoint` is a server that speaks S3 elsewhere than at AWS; None: that of the environment (AWS_ENDPOINT_URL)."""

    url: str
    endpoint: str | None = None
    region: str | None = None

    @property
    def server(self) -> str | None:
        """The endpoint, or that of the environment for a bucket of S3."""
        if self.endpoint is not None or not self.url.startswith(("s3:", "s3a:")):
            return self.endpoint
        return next((value for name in _ENDPOINTS if (value := os.environ.get(name))), None)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing describes it: key below the prefix, size in bytes, time of the upload."""

    key: str
    size: int
    modified: datetime


class Objects(Protocol):
    """What a replica reads of a bucket."""

    url: str

    def get(self, key: str, *, unless: str | None = None) -> tuple[bytes, str] | None: ...
    def download(self, key: str, target: IO[bytes]) -> bool: ...
    def list(self, prefix: str) -> Iterator[StoredObject]: ...


class Bucket:
    """Blocking, for use from several threads. Every method raises BucketFailed."""

    def __init__(self, address: BucketAddress, *, make: bool = False) -> None:
        """`make` creates the folder of a file:// address. ConfigurationError."""
        self.url = address.url
        self._at = f" at {urlsplit(address.server).netloc.rpartition('@')[2]}" if address.server else ""
        self._store = _open(address, make=make)
        self._folder = Path(unquote(urlsplit(address.url).path)) if address.url.startswith("file:") else None

    def get(self, key: str, *, unless: str | None = None) -> tuple[bytes, str] | None:
        """The content of an object and its ETag; None where there is none, or where its ETag is still `unless`.

        StoreDamaged where there is none any more, but was with the ETag `unless`, and where it is not a record: that is
        not a fault of the bucket as a whole.
        """
        import obstore
        from obstore.exceptions import NotModifiedError

        options: Any = None if unless is None else {"if_none_match": unless}
        with self._errors():
            try:
                result = obstore.get(self._store, key, options=options)
                if result.meta["size"] > _MAX_GET_BYTES:
                    raise self._damaged(key, f"has {result.meta['size']:,} bytes at {key}, too many for a record")
                return bytes(result.bytes()), str(result.meta["e_tag"])
            except NotModifiedError:
                return None
            except FileNotFoundError as error:
                self._check_exists(error)
                if unless is not None:
                    raise self._damaged(key, f"has lost {key}: publish the store again") from error
                return None

    def download(self, key: str, target: IO[bytes]) -> bool:
        """Append the content of an object to a file, block by block; False where there is none. OSError of the
        file."""
        import obstore

        with self._errors():
            try:
                stream = obstore.get(self._store, key).stream(min_chunk_size=_READ_BYTES)
            except FileNotFoundError as error:
                self._check_exists(error)
                return False
        for block in self._blocks(stream):
            target.write(block)
        return True

    def put_new(self, key: str, content: bytes | Path) -> bool:
        """Store an object under a key that has none yet; False where it has one, which stays as it is: it may be that
        of an attempt whose answer did not come."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._put_new(key, content)
            except BucketFailed as error:  # obstore repeats none of these requests
                if error.details["reason"] != "unreachable" or attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_ATTEMPT_SECONDS * 2**attempt)
        raise AssertionError

    def _put_new(self, key: str, content: bytes | Path) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError

        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        with self._errors():
            try:
                if size <= _SINGLE_PUT_BYTES:
                    obstore.put(self._store, key, content, mode="create", use_multipart=False)
                elif self.size(key) is not None:
                    return False
                else:
                    obstore.put(self._store, key, content, chunk_size=_PART_BYTES)
            except AlreadyExistsError:
                return False
        return True

    def put(self, key: str, content: bytes | Path) -> None:
        """Store an object, in place of another one."""
        import obstore

        with self._errors():
            obstore.put(self._store, key, content, chunk_size=_PART_BYTES)

    def swap(self, key: str, content: bytes, etag: str | None) -> bool:
        """Store an object where the one with the ETag still is, None: where there is none. False where it is not.

        False may also be the answer to a repeated request whose first attempt succeeded, unseen: compare the content.
        """
        import obstore
        from obstore.exceptions import PreconditionError

        if etag is None:
            return self.put_new(key, content)
        if self._folder is not None:
            return self._swap_locked(self._folder, key, content, etag)
        with self._errors():
            try:
                obstore.put(self._store, key, content, mode={"e_tag": etag}, use_multipart=False)
            except PreconditionError:
                return False
            except FileNotFoundError as error:
                self._check_exists(error)
                return False
        return True

    def size(self, key: str) -> int | None:
        """The size of an object in bytes, None where there is none."""
        import obstore

        with self._errors():
            try:
                return int(obstore.head(self._store, key)["size"])
            except FileNotFoundError as error:
                self._check_exists(error)
                return None

    def list(self, prefix: str, *, beginning: str = "") -> Iterator[StoredObject]:
        """The objects whose keys begin with a folder; of them those whose keys begin with some characters."""
        import obstore

        with self._errors():
            for found in obstore.list(self._store, prefix, offset=beginning or None):
                for meta in found:
                    if not meta["path"].startswith(beginning):
                        if self._folder is None:  # object stores list in the order of keys
                            return
                        continue
                    yield StoredObject(meta["path"], int(meta["size"]), meta["last_modified"])

    def folders(self) -> frozenset[str]:
        """The first parts of all keys that have several; one request for a thousand of them."""
        import obstore

        with self._errors():
            found = obstore.list_with_delimiter(self._store)
        return frozenset(prefix.rstrip("/").rpartition("/")[2] for prefix in found["common_prefixes"])

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; those that do not exist count as deleted."""
        import obstore

        with self._errors():
            for first in range(0, len(keys), 1_000):
                try:
                    obstore.delete(self._store, list(keys[first : first + 1_000]))
                except FileNotFoundError as error:
                    self._check_exists(error)

    def _blocks(self, stream: Iterable[Any]) -> Iterator[Any]:
        """The blocks of an object, with the errors of the bucket and not those of whoever takes them."""
        with self._errors():
            yield from stream

    def _swap_locked(self, folder: Path, key: str, content: bytes, etag: str) -> bool:
        with locked_folder(folder):
            current = self.get(key)
            if current is None or current[1] != etag:
                return False
            self.put(key, content)
            return True

    def _check_exists(self, error: FileNotFoundError) -> None:
        """Raise BucketFailed where the bucket itself is missing."""
        if _NO_BUCKET.search(str(error)):
            raise self._failed("missing", "does not exist: make it, or correct the address") from error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except FileNotFoundError as error:
            self._check_exists(error)
            raise self._failed("missing", "is missing an object that was listed") from error
        except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
            raise self._denied() from error
        except (BaseError, OSError, ValueError) as error:
            text = str(error)
            if _NO_BUCKET.search(text):
                raise self._failed("missing", "does not exist: make it, or correct the address") from error
            if _DENIED.search(text):
                raise self._denied() from error
            reason = re.sub(r"https?://\S+", "", text.splitlines()[0])[:120].strip()
            raise self._failed("unreachable", f"does not answer as it should: {reason}") from error

    def _denied(self) -> BucketFailed:
        return self._failed(
            "denied",
            "denies access: set the credentials of this bucket in the environment, such as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY",
        )

    def _failed(self, reason: str, what: str) -> BucketFailed:
        return BucketFailed(f"the bucket {self.url}{self._at} {what}", url=self.url, reason=reason)

    def _damaged(self, key: str, what: str) -> StoreDamaged:
        return StoreDamaged(f"the bucket {self.url} {what}", collection=key.partition("/")[0], file=key, problem=what)


def _check_address(url: str) -> None:
    """ConfigurationError where an address names no bucket, or holds a credential, which is not repeated."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigurationError(f"{url!r} is not a bucket: give an address such as s3://bucket/prefix") from error
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"{parts.scheme}://... holds a credential: leave it out, and set it in the environment, such as "
            "AWS_ACCESS_KEY_ID"
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
        raise ConfigurationError(f"{url} is not a folder: give an address such as file:///path")


def _open(address: BucketAddress, *, make: bool) -> Any:
    _check_address(address.url)
    try:
        from obstore.store import from_url
    except ImportError as error:
        raise ConfigurationError("object storage needs another package: pip install 'aidre[s3]'") from error
    options: dict[str, Any] = {}
    if address.url.startswith("file:"):
        options["mkdir"] = make
    else:
        named = {"endpoint": address.server, "region": address.region}
        options |= {name: value for name, value in named.items() if value is not None}
        options["client_options"] = {
            "allow_http": (address.server or "").startswith("http://"),
            "timeout": _TIMEOUT,
            "connect_timeout": _CONNECT_TIMEOUT,
        }
        options["retry_config"] = _RETRY
    try:
        return from_url(address.url, **options)
    except Exception as error:  # every kind of address has errors of its own
        shown = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigurationError(
            f"{address.url} is not a bucket: give an address such as s3://bucket/prefix ({shown})"
        ) from error


# -- loose segments ------------------------------------------------------------------------------------------------


def adopt(
    store: Source,
    collection: str,
    address: str | Path,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    dates: Sequence[str] = (),
    wait: float = 0.0,
    previous: Reader | None = None,
) -> list[str]:
    """`adopt_segments` of a place by its address; the names of the segments that were new. Unsupported for a store of
    another engine."""
    from aidre.engine.collection import adopt_segments, local_store

    own = local_store(store, "add the rows themselves")
    place = place_of(address, endpoint=endpoint, region=region)
    return adopt_segments(own, collection, place, dates=dates, wait=wait, previous=previous)


def place_of(address: str | Path, *, endpoint: str | None = None, region: str | None = None) -> SegmentPlace:
    """The folder, or the bucket at an address such as s3://bucket/prefix. ConfigurationError."""
    from aidre.engine.collection import FolderPlace  # the writer, which replicas do without

    text = os.fspath(address)
    if "://" in text:
        return _BucketPlace(Bucket(BucketAddress(text, endpoint, region), make=True))
    return FolderPlace(Path(text))


class _BucketPlace:
    """Loose segments in a bucket, or below a prefix of one: a `SegmentPlace`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket, self.url = bucket, bucket.url

    def names(self, prefix: str = "") -> list[str]:
        from aidre.engine.collection import is_name

        keys = (found.key for found in self._bucket.list("", beginning=prefix))
        names = (key.removesuffix(".json") for key in keys if key.endswith(".json"))
        return sorted(name for name in names if is_name(name))

    def read(self, name: str) -> bytes | None:
        found = self._bucket.get(f"{name}.json")
        return None if found is None else found[0]

    def put(self, segment: LooseSegment, folder: Path) -> None:
        from aidre.engine.collection import find_whole

        keys = {f"{segment.folder}/{name}": folder / name for name in segment.entry.files}
        self._each(lambda key: self._bucket.put(key, keys[key]), keys)
        content, key = orjson.dumps(segment), f"{segment.name}.json"
        if self._bucket.put_new(key, content):
            return
        if self.read(segment.name) == content:  # of the first request the answer alone was lost
            return
        if find_whole(self, segment.name) is None:
            self._bucket.put(key, content)
        else:
            self._bucket.delete(list(keys))

    def replace(self, segment: LooseSegment) -> None:
        self._bucket.put(f"{segment.name}.json", orjson.dumps(segment))

    def has_files(self, segment: LooseSegment) -> bool:
        sizes = {f"{segment.folder}/{name}": file.size for name, file in segment.entry.files.items()}
        return all(self._each(lambda key: self._bucket.size(key) == sizes[key], sizes))

    def fetch(self, segment: LooseSegment, target: Path) -> None:
        def fetch_one(name: str) -> None:
            key, size = f"{segment.folder}/{name}", segment.entry.files[name].size
            with (target / name).open("xb") as file:
                if self._bucket.size(key) != size or not self._bucket.download(key, file):
                    what = f"{key} is not an object of {size} bytes in {self.url}"
                    raise StorageFailed(f"{what}: write {segment.name} again", file=key)

        self._each(fetch_one, segment.entry.files)

    @staticmethod
    def _each(act: Callable[[str], T], names: Iterable[str]) -> list[T]:
        """What is done for each name, some at a time: a request waits for the bucket most of its time. The first error
        is raised."""
        with ThreadPoolExecutor(_TRANSFERS, thread_name_prefix="segments") as threads:
            return list(threads.map(act, names))
