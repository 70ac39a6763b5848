"""Lazy replicas: the facts known without pulling, the pull at the first question, the release of idle collections."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.errors import CollectionMissing, PublicationRefused
from aidre.engine.maintenance.fleet import lazy as lazy_module
from aidre.engine.maintenance.fleet.lazy import USED, LazyStore
from aidre.engine.maintenance.replica import Replica
from aidre.engine.maintenance.scrub import Scrub
from aidre.engine.ports import Unpulled
from aidre.engine.storage.lock import WriterLock
from tests.engine.maintenance.fleet.tenants import methods, tenants, write_tenants
from tests.support.buckets import S3, FolderPlace, S3Place, proxy_of
from tests.support.signers import PublisherKey
from tests.support.stores import everything

HOUR = 3_600.0


@pytest.fixture
def published(folder_place: FolderPlace, many: Path) -> FolderPlace:
    folder_place.publisher(many).publish(tenants(20))
    return folder_place


def lazy(place: FolderPlace | S3Place, cache: Path, **settings: object) -> Replica:
    return place.replica(cache, **{"keep_seconds": HOUR, **settings})


def pulled(replica: Replica) -> list[str]:
    """The collections whose files are in the cache."""
    return sorted({path.parts[len(replica.cache.parts)] for path in replica.cache.rglob("chunks.arrow")})


def age(replica: Replica, name: str, seconds: float) -> None:
    """A collection was used so long ago."""
    path = replica.cache / USED / name
    moment = path.stat().st_mtime - seconds
    os.utime(path, (moment, moment))


# -- what is known -----------------------------------------------------------------------------------------------


def test_every_collection_is_listed_and_none_is_pulled(published: FolderPlace, tmp_path: Path) -> None:
    replica = lazy(published, tmp_path / "cache")
    source = replica.source
    assert source.collections() == tenants(20)
    assert pulled(replica) == []
    reader = source.open("tenant0003")
    assert isinstance(reader, Unpulled)
    assert (reader.documents, reader.chunks, reader.generation) == (1, 1, 1)
    assert [space.dimensions for space in reader.collection.spaces] == [8]


def test_an_idle_lazy_replica_asks_twice_also_when_it_starts_again(
    s3: S3, s3_place: S3Place, many: Path, tmp_path: Path
) -> None:
    s3_place.publisher(many).publish(tenants(20))
    lazy(s3_place, tmp_path / "cache")
    with proxy_of(s3) as proxy:
        replica = lazy(s3_place.through(proxy), tmp_path / "cache")  # type: ignore[arg-type]
        assert methods(proxy.asked).total() <= 2
        proxy.asked.clear()
        assert replica.pull() == []
        assert methods(proxy.asked).total() <= 2


def test_what_is_known_follows_the_bucket(
    published: FolderPlace, many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy_module, "LEARN_SECONDS", 0.0)
    replica = lazy(published, tmp_path / "cache")
    write_tenants(many, ["tenant0003", "new"], ["b", "c"])
    Store(many).drop("tenant0004")
    published.publisher(many).publish_drops()
    published.publisher(many).publish(["tenant0003", "new"])
    replica.pull()
    assert replica.source.open("tenant0003").documents == 3
    assert set(tenants(20)) - set(replica.source.collections()) == {"tenant0004"}
    assert "new" in replica.source.collections()
    assert pulled(replica) == []


def test_the_scrub_reads_what_is_on_the_disk(published: FolderPlace, tmp_path: Path) -> None:
    replica = lazy(published, tmp_path / "cache")
    replica.pull_collection("tenant0003")
    scrubbed = list(Scrub(replica.source, 0.01, threading.Event()).one_pass())
    assert {one.collection for one in scrubbed} == {"tenant0003"}
    assert [one.problem for one in scrubbed if one.problem] == []
    assert [replica.source.current(name) for name in tenants(5)] == [1] * 5


# -- pulled ------------------------------------------------------------------------------------------------------


def test_a_question_pulls_one_collection(published: FolderPlace, many: Path, tmp_path: Path) -> None:
    replica = lazy(published, tmp_path / "cache")
    reader = replica.source.open("tenant0003")
    assert isinstance(reader, Unpulled)
    reader.pull()
    assert everything(replica.source.open("tenant0003")) == ["a"]
    assert pulled(replica) == ["tenant0003"]
    write_tenants(many, ["tenant0003"], ["b"])
    published.publisher(many).publish(["tenant0003"])
    assert replica.pull() == ["tenant0003"]
    assert everything(replica.source.open("tenant0003")) == ["a", "b"]
    with pytest.raises(CollectionMissing):
        replica.pull_collection("none")


def test_a_collection_is_pulled_at_its_newest_state_though_an_older_one_is_known(
    published: FolderPlace, many: Path, tmp_path: Path
) -> None:
    replica = lazy(published, tmp_path / "cache")
    write_tenants(many, ["tenant0003"], ["b"])
    published.publisher(many).publish(["tenant0003"])
    replica.pull_collection("tenant0003")
    assert everything(replica.source.open("tenant0003")) == ["a", "b"]


def test_processes_that_ask_at_once_pull_once(s3: S3, s3_place: S3Place, many: Path, tmp_path: Path) -> None:
    write_tenants(many, ["big"], [f"d{number}" for number in range(4)])
    s3_place.publisher(many).publish(["big"])
    lazy(s3_place, tmp_path / "cache")
    with proxy_of(s3) as proxy:
        place = s3_place.through(proxy)
        asking = [place.unpulled(tmp_path / "cache", keep_seconds=HOUR) for _ in range(4)]
        barrier = threading.Barrier(4)

        def ask(replica: Replica) -> list[str]:
            barrier.wait(10)
            replica.pull_collection("big")
            return everything(replica.source.open("big"))

        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(ask, asking))
    assert found == [["d0", "d1", "d2", "d3"]] * 4
    assert sum("chunks.arrow" in asked.target for asked in proxy.asked) == 1


def test_what_nobody_signed_is_neither_listed_nor_pulled(many: Path, folder_place: FolderPlace, tmp_path: Path) -> None:
    key = PublisherKey.made(tmp_path)
    folder_place.publisher(many, key.signer).publish(tenants(3))
    replica = lazy(folder_place, tmp_path / "cache", keys=key.trusted)
    write_tenants(many, ["tenant0001"], ["b"])
    folder_place.publisher(many).publish_each(["tenant0001"], force=True)
    write_tenants(many, ["other"])
    folder_place.publisher(many).publish(["other"])
    with pytest.raises(PublicationRefused):
        replica.pull()
    assert replica.source.collections() == tenants(3)
    with pytest.raises(PublicationRefused):
        replica.pull_collection("tenant0001")
    replica.pull_collection("tenant0002")
    assert pulled(replica) == ["tenant0002"]


# -- let go ------------------------------------------------------------------------------------------------------


def test_what_nobody_asks_for_is_let_go_and_comes_back(published: FolderPlace, tmp_path: Path) -> None:
    replica = lazy(published, tmp_path / "cache")
    for name in tenants(3):
        replica.pull_collection(name)
    opened = replica.source.open("tenant0001")
    age(replica, "tenant0001", 4_000)
    assert replica.pull() == []
    assert pulled(replica) == ["tenant0000", "tenant0002"]
    assert everything(opened) == ["a"], "whoever has it open keeps it"
    assert isinstance(replica.source.open("tenant0001"), Unpulled)
    replica.pull_collection("tenant0001")
    assert everything(replica.source.open("tenant0001")) == ["a"]
    assert replica.pull() == []


def test_the_least_recently_used_make_room(published: FolderPlace, tmp_path: Path) -> None:
    replica = lazy(published, tmp_path / "cache")
    replica.pull_collection("tenant0000")
    size = sum(path.stat().st_size for path in (replica.cache / "tenant0000").rglob("*") if path.is_file())
    known = sum(path.stat().st_size for path in replica.cache.glob(".*") if path.is_file())
    replica = lazy(published, tmp_path / "cache", max_bytes=known + 4 * size)
    source = replica.source
    assert isinstance(source, LazyStore)
    for number, name in enumerate(tenants(12)):
        replica.pull_collection(name)
        age(replica, name, 1_000 - number)
        assert everything(source.open(name)) == ["a"]
    assert set(pulled(replica)) <= set(tenants(12)[-4:])
    assert "tenant0011" in pulled(replica)
    assert source.collections() == tenants(20)


def test_open_files_are_bounded(published: FolderPlace, tmp_path: Path) -> None:
    replica = lazy(published, tmp_path / "cache", max_files=40)
    for number, name in enumerate(tenants(10)):
        replica.pull_collection(name)
        age(replica, name, 1_000 - number)
    replica.pull()
    assert 1 <= len(pulled(replica)) <= 4


def test_a_collection_that_is_being_pulled_is_not_let_go(published: FolderPlace, tmp_path: Path) -> None:
    replica = lazy(published, tmp_path / "cache")
    replica.pull_collection("tenant0003")
    age(replica, "tenant0003", 4_000)
    with WriterLock(replica.cache / "tenant0003", "tenant0003"):
        replica.pull()
        assert pulled(replica) == ["tenant0003"]
    replica.pull()
    assert pulled(replica) == []


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes of a collection that was let go leave at the next look."""
    monkeypatch.setattr(lazy_module, "LEAVING_SECONDS", 0.0)
