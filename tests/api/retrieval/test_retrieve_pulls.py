"""A lazy replica behind the protocols: what is listed without pulling, and first questions at every door."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from aidre.engine.maintenance.bucket import BucketAddress
from aidre.engine.maintenance.replica import Replica
from tests.support.buckets import FolderPlace
from tests.support.clients import Client, a_document, fill, serving

NAMES = ["cats", "dogs", "tea"]


@dataclass
class Fleet:
    """A store of three collections, its bucket, and an application over a lazy cache of it."""

    store: Path
    place: FolderPlace
    replica: Replica
    client: Client

    def pulled(self) -> list[str]:
        return [name for name in NAMES if list((self.replica.cache / name).rglob("chunks.arrow"))]


def place_in(folder: Path) -> FolderPlace:
    return FolderPlace(BucketAddress((folder / "bucket").as_uri()))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store and its bucket."""
    folder = tmp_path_factory.mktemp("fleet")
    for name in NAMES:
        fill(folder / "store", name, [a_document(f"{name}{number}", f"{name} word{number}") for number in range(3)])
    place_in(folder).publisher(folder / "store").publish(NAMES)
    return folder


@pytest.fixture
def fleet(published: Path, tmp_path: Path) -> Iterator[Fleet]:
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)
    store, place = tmp_path / "store", place_in(tmp_path)
    replica = place.replica(tmp_path / "cache", keep_seconds=3_600.0)
    with serving(replica.cache, source=replica.source) as client:
        yield Fleet(store, place, replica, client)


def ids(fleet: Fleet, collection: str) -> list[str]:
    answer = fleet.client.search({"collection": collection, "query": collection, "mode": "lexical"})
    assert answer.status_code == 200, answer.text
    return sorted(hit["id"].partition("#")[0] for hit in answer.json()["results"])


def test_discovery_and_lists_pull_nothing(fleet: Fleet) -> None:
    listed = fleet.client.get("/collections").json()["collections"]
    assert {one["name"]: one["document_count"] for one in listed} == dict.fromkeys(NAMES, 3)
    assert fleet.client.get("/collections/tea").json()["chunk_count"] == 3
    for path in ("/.well-known/ai-discovery", "/llms.txt", "/sites", "/openapi.json", "/metrics", "/readyz"):
        assert fleet.client.get(path).status_code == 200, path
    assert fleet.pulled() == []


def test_a_first_question_pulls_its_collection_and_no_other(fleet: Fleet) -> None:
    assert ids(fleet, "tea") == ["tea0", "tea1", "tea2"]
    assert fleet.pulled() == ["tea"]


@pytest.mark.parametrize(
    "path",
    [
        "/collections/dogs/suggest?q=wo",
        "/collections/dogs/changes",
        "/collections/dogs/browse",
        "/collections/dogs/profile",
        "/chunks/dogs1%23chunk_1?collection=dogs",
    ],
)
def test_every_question_to_a_collection_pulls_it(fleet: Fleet, path: str) -> None:
    assert fleet.client.get(path).status_code == 200
    assert fleet.pulled() == ["dogs"]


def test_a_question_to_all_collections_pulls_them_unless_they_are_many(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aidre.api.retrieval.retrieve.MOST_PULLED", 2)
    refused = fleet.client.get("/chunks/dogs1%23chunk_1")
    assert (refused.status_code, fleet.pulled()) == (400, [])
    assert "name a collection" in refused.text
    site = fleet.client.request("POST", "/ask", json={"query": {"text": "tea", "site": "tea"}}).json()
    assert (len(site["results"]), fleet.pulled()) == (3, ["tea"])
    assert fleet.client.get("/chunks/dogs1%23chunk_1").status_code == 200
    assert fleet.pulled() == NAMES


def test_questions_that_come_at_once_pull_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    pull = fleet.replica.pull_collection

    def noted(name: str) -> None:
        asked.append(name)
        pull(name)

    monkeypatch.setattr(fleet.replica, "pull_collection", noted)
    http, runner = fleet.client._http, fleet.client._runner

    async def ask_all() -> list[int]:
        body = {"collection": "cats", "query": "cats", "mode": "lexical"}
        answers = await asyncio.gather(*(http.post("/search", json=body) for _ in range(6)))
        return [len(answer.json()["results"]) for answer in answers]

    assert runner.run(ask_all()) == [3] * 6
    assert asked == ["cats"]


def test_an_alias_of_an_unpulled_collection_is_answered(fleet: Fleet) -> None:
    Store(fleet.store).point_alias("drinks", "tea")
    fleet.place.publisher(fleet.store).publish(["tea"])
    fleet.replica.pull()
    fleet.client.app.state.retrieval.snapshots.refresh()
    answer = fleet.client.search({"collection": "drinks", "query": "tea", "mode": "lexical"})
    assert len(answer.json()["results"]) == 3
    assert fleet.pulled() == ["tea"]


def test_what_was_let_go_is_pulled_again_and_the_server_forgets_it(fleet: Fleet) -> None:
    snapshots = fleet.client.app.state.retrieval.snapshots
    ids(fleet, "tea")
    lazy = fleet.place.unpulled(fleet.replica.cache, keep_seconds=-1.0)
    lazy.pull()
    assert fleet.pulled() == []
    snapshots.refresh()
    assert not snapshots.collections["tea"].snapshot.segments
    assert ids(fleet, "tea") == ["tea0", "tea1", "tea2"]


def test_a_bucket_that_is_away_is_a_503_that_says_so(fleet: Fleet) -> None:
    fleet.place.path.rename(fleet.place.path.with_name("away"))
    answer = fleet.client.search({"collection": "tea", "query": "tea", "mode": "lexical"})
    assert answer.status_code == 503
    assert "cannot be fetched" in answer.text
    assert answer.headers["retry-after"]
    assert fleet.client.get("/collections").status_code == 200
    fleet.place.path.with_name("away").rename(fleet.place.path)
    assert ids(fleet, "tea") == ["tea0", "tea1", "tea2"]
