"""Buckets of tests: an S3 API in a thread of this process, a folder, and a proxy before the former that fails as asked.

The S3 API is moto's, which knows conditional puts, and checks no credentials.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.bucket import Bucket, BucketAddress
from aidre.engine.maintenance.fleet.catalog import PublishResult
from aidre.engine.maintenance.publisher import StorePublisher
from aidre.engine.maintenance.replica import Replica
from aidre.engine.maintenance.statement import StatementSigner
from tests.support.clocks import WAIT_SECONDS
from tests.support.fault_proxy import Asked, Fault, FaultyServer, Plan, answering, refusal
from tests.support.stores import NAME

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAOFTHETESTS",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-the-tests",
    "AWS_REGION": "us-east-1",
}
PREFIX = "of/tests"
_NUMBERS = count(1)
"""Of buckets: all servers of a process have the same."""


class S3:
    """An S3 API on a port of its own."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self.port: int = self._server.get_host_and_port()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_bucket(self) -> str:
        """A new bucket; its name."""
        name = f"tests-{os.getpid()}-{next(_NUMBERS)}"
        assert httpx.put(f"{self.url}/{name}", trust_env=False, timeout=WAIT_SECONDS).status_code == 200
        return name

    def place(self) -> S3Place:
        return S3Place(BucketAddress(f"s3://{self.make_bucket()}/{PREFIX}", self.url, "us-east-1"))

    def stop(self) -> None:
        self._server.stop()
        assert self._server._server is not None
        self._server._server.server_close()


@dataclass(frozen=True)
class Place:
    """A bucket, and what a test does to it behind the back of those who use it."""

    address: BucketAddress

    @property
    def bucket(self) -> Bucket:
        return Bucket(self.address, make=True)

    def contents(self) -> dict[str, bytes]:
        """Every object below the prefix."""
        bucket = self.bucket
        found = {one.key: bucket.get(one.key) for one in bucket.list("")}
        return {key: content[0] for key, content in found.items() if content is not None}

    def everything(self) -> dict[str, bytes]:
        """Every object, and what no listing shows."""
        return self.contents()

    def publisher(self, store: Path, signer: StatementSigner | None = None) -> StorePublisher:
        return StorePublisher(Store(store), self.bucket, signer)

    def publish(self, store: Path, signer: StatementSigner | None = None, **how: bool) -> PublishResult:
        """Publishes one collection, as a process of its own would."""
        [published] = self.publisher(store, signer).publish([NAME], **how)
        return published

    def replica(self, cache: Path, **settings: Any) -> Replica:
        """A replica of it, pulled once."""
        replica = self.unpulled(cache, **settings)
        replica.pull()
        return replica

    def unpulled(self, cache: Path, **settings: Any) -> Replica:
        replica = Replica(Bucket(self.address), cache, **settings)
        replica.prepare()
        return replica

    def key_of(self, ending: str) -> str:
        """The first key with that ending, in order."""
        return next(key for key in sorted(self.contents()) if key.endswith(ending))

    def put(self, key: str, content: bytes) -> None:
        self.bucket.put(key, content)

    def remove(self, *keys: str) -> None:
        self.bucket.delete(keys)

    def age(self, hours: float, *keys: str) -> None:
        """Objects, all of them where none is named, become older."""
        raise NotImplementedError


@dataclass(frozen=True)
class S3Place(Place):
    def _stored(self) -> Any:
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        return s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.address.url.split("/")[2]].keys

    def age(self, hours: float, *keys: str) -> None:
        for one in list(self._stored().values()):
            if not keys or one.name.removeprefix(f"{PREFIX}/") in keys:
                one.last_modified -= timedelta(hours=hours)

    def through(self, proxy: FaultyServer) -> Place:
        """The same bucket behind a proxy."""
        return S3Place(BucketAddress(self.address.url, proxy.url, self.address.region))


@dataclass(frozen=True)
class FolderPlace(Place):
    @property
    def path(self) -> Path:
        return Path(self.address.url.removeprefix("file://"))

    def everything(self) -> dict[str, bytes]:
        paths = [path for path in self.path.rglob("*") if path.is_file()]
        return {path.relative_to(self.path).as_posix(): path.read_bytes() for path in paths}

    def age(self, hours: float, *keys: str) -> None:
        for path in [path for path in self.path.rglob("*") if path.is_file()]:
            if not keys or path.relative_to(self.path).as_posix() in keys:
                moment = path.stat().st_mtime - hours * 3_600
                os.utime(path, (moment, moment))


@contextmanager
def proxy_of(s3: S3, plan: Plan | None = None) -> Iterator[FaultyServer]:
    """A proxy before the S3 API; `asked` are the requests that came."""
    proxy = FaultyServer()
    proxy.behind = s3.port
    if plan is not None:
        proxy.plan = plan
    with proxy.run():
        yield proxy


def failing_from(number: int, fault: Fault) -> Plan:
    """A plan: this request and all after it meet a fault."""
    return lambda asked: fault if asked.number >= number else None


@dataclass
class Once:
    """A plan: the first request of a method whose target has an ending meets a fault; or the first few."""

    method: str
    ending: str
    fault: Fault
    times: int = 1
    met: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Fault | None:
        if (
            len(self.met) == self.times
            or asked.method != self.method
            or not asked.target.partition("?")[0].endswith(self.ending)
        ):
            return None
        self.met.append(asked)
        return self.fault


def denied(status: int = 403, code: str = "AccessDenied") -> Fault:
    """What S3 says to who may not."""
    body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>Access Denied</Message></Error>'
    return answering(status, body.encode(), "application/xml")


BUSY = refusal(503)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    server = S3()
    yield server
    server.stop()


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3_place(s3: S3, credentials: None) -> S3Place:
    return s3.place()


@pytest.fixture
def folder_place(tmp_path: Path) -> FolderPlace:
    return FolderPlace(BucketAddress((tmp_path / "bucket").as_uri()))


@pytest.fixture(params=["s3", "folder"])
def place(request: pytest.FixtureRequest) -> Place:
    """A bucket of each kind."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found
