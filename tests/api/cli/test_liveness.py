"""Signs of life of publishers and replicas, `api/cli/liveness.py`, and the port of health of a publisher."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from aidre.api.cli import publish as publishing
from aidre.api.cli.liveness import PublishRecord, ReplicaWatch, health_port, parse_address
from aidre.api.cli.publish import seconds_since_pull
from aidre.api.config import Settings
from aidre.api.operations import fleet_status, monitoring
from aidre.engine.collection.store import Store
from aidre.engine.errors import BucketFailed, ConfigurationError, PublishConflict
from aidre.engine.maintenance import StorePublisher, beat, promote, read_heartbeat
from tests.support.buckets import FolderPlace, folder_place
from tests.support.clocks import WAIT_SECONDS
from tests.support.promotions import commit
from tests.support.stores import NAME, write

__all__ = ["folder_place"]


@pytest.fixture
def store(tmp_path: Path, folder_place: FolderPlace) -> Path:
    """A home node that has published."""
    write(tmp_path / "store", ["a"])
    folder_place.publish(tmp_path / "store")
    return tmp_path / "store"


def test_a_replica_learns_of_a_commit_that_is_not_published_and_of_a_silent_publisher(
    store: Path, folder_place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, now = folder_place.replica(tmp_path / "cache"), fleet_status.moment()
    watch = ReplicaWatch(replica, folder_place.bucket)
    monkeypatch.setattr(fleet_status, "moment", lambda: now)
    write(store, ["b"], 1)
    beat(folder_place.bucket, store, {NAME: Store(store).current(NAME)})
    watch.pulled(replica.pull())
    now += 70
    watch.pulled(replica.pull())
    state = fleet_status.read_state(replica.cache, fleet_status.PULLS, fleet_status.PullStatus)
    assert state is not None
    assert (state.committed, state.behind) == ({NAME: 2}, now - 70)
    assert state.heard is not None
    assert 70 <= now - state.heard < 75
    folder_place.publish(store)
    watch.pulled(replica.pull())
    state = fleet_status.read_state(replica.cache, fleet_status.PULLS, fleet_status.PullStatus)
    assert state is not None
    assert state.behind is None


def test_a_clock_that_is_set_back_makes_no_replica_current(
    store: Path, folder_place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, now = folder_place.replica(tmp_path / "cache"), fleet_status.moment()
    ReplicaWatch(replica, folder_place.bucket).pulled([])
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(fleet_status, "moment", lambda: now + 90)
    assert seconds_since_pull(replica.cache) >= 89
    monkeypatch.setattr(fleet_status, "boot", lambda: "another")
    assert seconds_since_pull(replica.cache) == now + 90


def test_a_fenced_home_node_gives_no_sign_of_life(store: Path, folder_place: FolderPlace, tmp_path: Path) -> None:
    promote(folder_place.bucket, folder_place.replica(tmp_path / "cache").cache)
    beat(folder_place.bucket, tmp_path / "cache", {NAME: 1})
    with pytest.raises(PublishConflict, match="belongs to term 1"):
        beat(folder_place.bucket, store, {NAME: 9})
    found = read_heartbeat(folder_place.bucket)
    assert found is not None
    assert (found[0].term, found[0].generations) == (1, {NAME: 1})


def test_a_publisher_of_one_collection_tells_nothing_of_the_others(
    store: Path, folder_place: FolderPlace, tmp_path: Path
) -> None:
    commit(store, "other", "x")
    publisher = folder_place.publisher(store)
    record = PublishRecord(store, publishing.newest_of(publisher, Store(store), NAME), stays=True, only=NAME)
    follow_once(publisher, store, record, NAME)
    found = read_heartbeat(folder_place.bucket)
    assert found is not None
    assert found[0].generations == {NAME: 1}
    lines = "\n".join(monitoring.fleet_lines(store, {NAME: 1, "other": 1}, None))
    assert 'aidre_publish_lag_generations{collection="docs"} 0' in lines
    assert "other" not in lines


def follow_once(publisher: StorePublisher, store: Path, record: PublishRecord, collection: str | None = None) -> None:
    """Until its first pass and sign of life are over."""
    stopped = threading.Event()
    passes = iter((False, True))
    stopped.wait = lambda timeout=None: next(passes)  # type: ignore[method-assign]
    publishing.follow(publisher, Store(store), collection, 0.1, stopped, record=record)


def test_a_fenced_publisher_is_not_healthy(store: Path, folder_place: FolderPlace, tmp_path: Path) -> None:
    """Its last heartbeat is its own still; the catalog is of the next term."""
    beat(folder_place.bucket, store, {NAME: 1})
    promote(folder_place.bucket, folder_place.replica(tmp_path / "cache").cache)
    before = read_heartbeat(folder_place.bucket)
    record = PublishRecord(store, lambda: {NAME: 1}, stays=True)
    follow_once(folder_place.publisher(store), store, record)
    assert record.state.succeeded is None
    assert record.state.failures
    assert read_heartbeat(folder_place.bucket) == before


def test_a_publisher_of_which_a_publication_is_refused_is_not_healthy(store: Path, folder_place: FolderPlace) -> None:
    """By another store of the same name, and none of a later term."""
    other = store.parent / "stranger"
    write(other, ["x"])
    record = PublishRecord(other, lambda: {NAME: 1}, stays=True)
    follow_once(folder_place.publisher(other), other, record)
    assert record.state.succeeded is None


def test_promote_of_a_former_home_node_is_refused(store: Path, folder_place: FolderPlace, tmp_path: Path) -> None:
    first, second = (folder_place.replica(tmp_path / name).cache for name in ("first", "second"))
    promote(folder_place.bucket, first)
    settings = Settings()
    assert publishing.promote(first, None, settings).term == 1
    promote(folder_place.bucket, second)
    with pytest.raises(PublishConflict, match="belongs to term 2"):
        publishing.promote(first, None, settings)


def test_a_moment_of_a_former_start_of_the_machine_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_status, "moment", lambda: 500_000.0)
    monkeypatch.setattr(fleet_status, "boot", lambda: "one")
    PublishRecord(tmp_path, dict, stays=True).succeeded({})
    monkeypatch.setattr(fleet_status, "moment", lambda: 400_000.0)
    monkeypatch.setattr(fleet_status, "boot", lambda: "two")
    PublishRecord(tmp_path, dict).succeeded({NAME: 2})
    state = fleet_status.read_state(tmp_path, fleet_status.PUBLISHES, fleet_status.Publishing)
    assert state is not None
    assert state.succeeded is not None
    assert fleet_status.age(state, state.succeeded) == 400_000.0


def test_a_replica_that_cannot_pull_one_collection_hears_the_publisher(
    store: Path, folder_place: FolderPlace, tmp_path: Path
) -> None:
    replica = folder_place.replica(tmp_path / "cache")
    write(store, ["b"], 3)
    folder_place.publish(store)
    folder_place.remove(f"{NAME}/manifests/000002.json")
    beat(folder_place.bucket, store, {NAME: 2})
    watch, heard, passes = ReplicaWatch(replica, folder_place.bucket), [], iter((False, True))

    def pulled(changed: Sequence[str] | None) -> None:
        heard.append(changed)
        watch.pulled(changed)

    stopped = threading.Event()
    stopped.wait = lambda timeout=None: next(passes)  # type: ignore[method-assign]
    replica.follow(stopped, 0.1, pulled)
    state = fleet_status.read_state(replica.cache, fleet_status.PULLS, fleet_status.PullStatus)
    assert heard == [None]
    assert state is not None
    assert state.heard is not None
    assert state.behind is not None


def test_an_upload_that_goes_on_is_a_success(store: Path, folder_place: FolderPlace) -> None:
    write(store, ["b"], 3)
    record = PublishRecord(store, lambda: {NAME: 2}, stays=True)
    publisher = folder_place.publisher(store)
    publisher.sent = record.progressed
    publisher._put_manifest = _broken  # type: ignore[method-assign]
    with pytest.raises(BucketFailed), publishing.counted(record):
        publisher.publish([NAME])
    assert record.state.succeeded is not None
    assert record.state.failures == 1


def _broken(*arguments: object, **named: object) -> list[int]:
    raise BucketFailed("broken", url="", reason="unreachable")


def test_the_port_of_health_listens_on_loopback_of_the_sixth_version(tmp_path: Path) -> None:
    with health_port(parse_address("[::1]:0"), PublishRecord(tmp_path, dict)) as port:
        assert httpx.get(f"http://[::1]:{port}/healthz", trust_env=False, timeout=WAIT_SECONDS).status_code == 503


def test_the_port_of_health_tells_success_silence_and_lag(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = PublishRecord(store, lambda: {NAME: 3}, stays=True)
    with health_port(("127.0.0.1", 0), record) as port:

        def get(path: str) -> httpx.Response:
            return httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False, timeout=WAIT_SECONDS)

        assert get("/healthz").status_code == 503
        record.succeeded({NAME: 1})
        record.failed()
        assert get("/healthz").status_code == 200
        text = get("/metrics").text
        assert 'aidre_publish_lag_generations{collection="docs"} 2' in text
        assert "aidre_publish_failures_total 1" in text
        now = fleet_status.moment()
        monkeypatch.setattr(fleet_status, "moment", lambda: now + 200)
        assert get("/healthz").json() == {"status": "late"}
        assert get("/").status_code == 404


@pytest.mark.parametrize(
    ("text", "address"), [("9321", ("127.0.0.1", 9321)), ("0.0.0.0:9", ("0.0.0.0", 9)), ("[::1]:9", ("::1", 9))]
)
def test_an_address_is_on_loopback_unless_a_host_is_named(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    for wrong in ("", "x", "host:", "host:70000"):
        with pytest.raises(ConfigurationError, match="--health"):
            parse_address(wrong)
