"""Signs of life of publishers and replicas, `api/cli/liveness.py`, and the port of health of a publisher."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from aidre.api.cli.liveness import PublishRecord, ReplicaWatch, health_port, parse_address
from aidre.api.cli.publish import seconds_since_pull
from aidre.api.operations import fleet
from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError, PublishConflict
from aidre.engine.maintenance import beat, promote, read_heartbeat
from tests.support.buckets import FolderPlace, folder_place
from tests.support.clocks import WAIT_SECONDS
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
    replica, now = folder_place.replica(tmp_path / "cache"), fleet.moment()
    watch = ReplicaWatch(replica, folder_place.bucket)
    monkeypatch.setattr(fleet, "moment", lambda: now)
    write(store, ["b"], 1)
    beat(folder_place.bucket, store, {NAME: Store(store).current(NAME)})
    watch.pulled(replica.pull())
    now += 70
    watch.pulled(replica.pull())
    state = fleet.read_state(replica.cache, fleet.PULLS, fleet.Pulling)
    assert state is not None
    assert (state.committed, state.behind) == ({NAME: 2}, now - 70)
    assert state.heard is not None
    assert 70 <= now - state.heard < 75
    folder_place.publish(store)
    watch.pulled(replica.pull())
    state = fleet.read_state(replica.cache, fleet.PULLS, fleet.Pulling)
    assert state is not None
    assert state.behind is None


def test_a_clock_that_is_set_back_makes_no_replica_current(
    store: Path, folder_place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, now = folder_place.replica(tmp_path / "cache"), fleet.moment()
    ReplicaWatch(replica, folder_place.bucket).pulled([])
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(fleet, "moment", lambda: now + 90)
    assert seconds_since_pull(replica.cache) >= 89
    monkeypatch.setattr(fleet, "boot", lambda: "another")
    assert seconds_since_pull(replica.cache) == now + 90


def test_a_fenced_home_node_gives_no_sign_of_life(store: Path, folder_place: FolderPlace, tmp_path: Path) -> None:
    promote(folder_place.bucket, folder_place.replica(tmp_path / "cache").cache)
    beat(folder_place.bucket, tmp_path / "cache", {NAME: 1})
    with pytest.raises(PublishConflict, match="belongs to term 1"):
        beat(folder_place.bucket, store, {NAME: 9})
    found = read_heartbeat(folder_place.bucket)
    assert found is not None
    assert (found[0].term, found[0].generations) == (1, {NAME: 1})


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
        now = fleet.moment()
        monkeypatch.setattr(fleet, "moment", lambda: now + 200)
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
