"""The change feed of a server: every change once, and a local mirror that follows it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aidre
import aidre_client
from aidre.library.collection import Collection
from aidre_client.messages import Change
from tests.support.clients import AIDRE, a_document, delete, fill
from tests.support.fault_proxy import Asked, Failing, Fault, answering, faulty, foreign
from tests.support.remote import FAULTS, blocks_of_the_page, connected
from tests.support.servers import Served


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill(tmp_path / "store", "docs", [a_document(f"d{n}", f"alpha {n}") for n in range(25)])
    return tmp_path / "store"


def refresh(server: Served) -> None:
    server.app.state.retrieval.snapshots.refresh()


def key(change: Change) -> tuple[str, str]:
    return change.op, change.id


def recipe() -> Callable[..., str | None]:
    """The function `mirror` of docs/client.md."""
    [block] = [block for block in blocks_of_the_page() if "def mirror(" in block]
    names: dict[str, Any] = {"aidre": aidre}
    exec(block.partition("\nwith ")[0], names)
    made: Callable[..., str | None] = names["mirror"]
    return made


mirror = recipe()


def held(collection: Collection) -> dict[str, str]:
    return {document.id: document.text for document in collection.scan()}


def test_each_change_comes_once_and_the_token_goes_on(store: Path) -> None:
    with faulty(store) as (proxy, server), connected(proxy.url) as client:
        docs = client.collection("docs")
        feed = docs.changes(limit=10)
        first = list(feed)
        assert sorted(map(key, first)) == sorted(("add", f"d{n}#chunk_1") for n in range(25))
        assert feed.token is not None
        assert list(docs.changes(since=feed.token)) == []
        fill(store, "docs", [a_document("d3", "alpha changed"), a_document("new", "alpha")])
        delete(store, "docs", ["d7"])
        refresh(server)
        later = docs.changes(since=feed.token)
        assert sorted(map(key, later)) == [("add", "new#chunk_1"), ("change", "d3#chunk_1"), ("delete", "d7#chunk_1")]
        assert list(docs.changes(since=later.token)) == []


def test_the_token_never_runs_ahead_of_what_was_handed_over(store: Path) -> None:
    with faulty(store) as (proxy, _), connected(proxy.url) as client:
        docs = client.collection("docs")
        feed, seen = docs.changes(limit=10), []
        for change in feed:
            seen.append(change.id)
            rest = [other.id for other in docs.changes(since=feed.token)]
            assert set(seen) | set(rest) == {f"d{n}#chunk_1" for n in range(25)}
            if len(seen) in {10, 20, 25}:
                assert set(seen).isdisjoint(rest)


def test_no_change_is_lost_or_doubled_under_refusals_and_resets(store: Path) -> None:
    with faulty(store) as (proxy, server), connected(proxy.url) as client:
        docs = client.collection("docs")
        calm = list(docs.changes(limit=10))
        proxy.plan = Failing(FAULTS, "/collections/")
        feed = docs.changes(limit=10)
        assert list(feed) == calm
        token = feed.token
        for number in range(3):
            fill(store, "docs", [a_document(f"more{number}", "alpha")])
        refresh(server)
        expected = [("add", f"more{number}#chunk_1") for number in range(3)]
        assert [key(change) for change in docs.changes(since=token, limit=1)] == expected


def test_a_mirror_of_ten_lines_follows_new_generations_while_it_reads(store: Path, tmp_path: Path) -> None:
    with (
        faulty(store) as (proxy, server),
        connected(proxy.url) as client,
        aidre.open(tmp_path / "mirror") as database,
    ):
        theirs, ours = client.collection("docs"), database.collection("copy")
        generations = iter(range(6))

        def plan(asked: Asked) -> Fault | None:
            """A commit before every page, and a fault now and then."""
            if "/changes" not in asked.target:
                return None
            number = next(generations, None)
            if number is not None:
                fill(store, "docs", [a_document(f"d{number}", f"alpha again {number}"), a_document(f"n{number}", "x")])
                delete(store, "docs", [f"d{20 + number % 5}"])
                refresh(server)
            return FAULTS[asked.number % len(FAULTS)] if asked.number % 2 else None

        proxy.plan = plan
        token = mirror(theirs, ours, None)
        token = mirror(theirs, ours, token)
        proxy.plan = lambda asked: None
        mirror(theirs, ours, token)
        with aidre.open(store) as truth:
            expected = {f"{one.id}#chunk_1": one.text for one in truth.collection("docs").scan()}
        assert held(ours) == expected


@pytest.mark.parametrize("seed", range(6))
def test_hits_and_mirrors_are_right_under_random_faults_and_commits(seed: int, store: Path, tmp_path: Path) -> None:
    """Every second request fails in some way, and every third one finds a new generation."""
    chance = random.Random(seed)
    with (
        faulty(store, "[limits]\ntop_k_max = 7\n") as (proxy, server),
        connected(proxy.url, attempts=40, patience=10_000.0) as client,
        aidre.open(tmp_path / "mirror") as database,
    ):
        theirs, ours = client.collection("docs"), database.collection("copy")
        _ = client.discovery

        def plan(asked: Asked) -> Fault | None:
            if chance.random() < 0.2 and ("/changes" in asked.target or b'"cursor"' in asked.body):
                number = chance.randrange(40)
                fill(store, "docs", [a_document(f"d{number}", f"alpha {chance.random()}")])
                delete(store, "docs", [f"d{chance.randrange(40)}"])
                refresh(server)
            faults = [*FAULTS, Fault(cut=chance.randrange(2_000))]
            return chance.choice(faults) if chance.random() < 0.5 else None

        proxy.plan = plan
        token = None
        for _ in range(3):
            token = mirror(theirs, ours, token)
            ids = [hit.id for page in theirs.pages("alpha") for hit in page]
            assert len(ids) == len(set(ids))
        proxy.plan = lambda asked: None
        mirror(theirs, ours, token)
        with aidre.open(store) as truth:
            expected = {f"{one.id}#chunk_1": one.text for one in truth.collection("docs").scan()}
        assert held(ours) == expected
        assert {hit.id for page in theirs.pages("alpha") for hit in page} == expected.keys()


def test_a_mirror_begins_again_where_the_history_is_gone(store: Path, tmp_path: Path) -> None:
    with (
        faulty(store) as (proxy, server),
        connected(proxy.url) as client,
        aidre.open(tmp_path / "mirror") as database,
    ):
        theirs, ours = client.collection("docs"), database.collection("copy")
        token = mirror(theirs, ours, None)
        with aidre.open(store) as truth:
            truth.drop("docs")
        fill(store, "docs", [a_document("other", "alpha")])
        refresh(server)
        with pytest.raises(aidre_client.HistoryMissing) as caught:
            mirror(theirs, ours, token)
        assert caught.value.details["status"] == 410
        mirror(theirs, ours, None)
        assert held(ours) == {"other#chunk_1": "alpha"}


@pytest.mark.parametrize(
    "misuse",
    [
        lambda client: client.collection().changes(),
        lambda client: client.collection("docs").changes(since=""),
        lambda client: client.collection("docs").changes(since=7),
        lambda client: client.collection("docs").changes(limit=0),
        lambda client: list(client.collection("docs").changes(since="AAAA")),
    ],
)
def test_a_misuse_of_the_feed_is_invalid_input(misuse: Callable[[aidre_client.Client], object], store: Path) -> None:
    with faulty(store) as (proxy, _), connected(proxy.url) as client, pytest.raises(aidre_client.InvalidInput):
        misuse(client)


def test_a_feed_of_an_unknown_collection_or_server_says_so(store: Path) -> None:
    with faulty(store) as (proxy, _), connected(proxy.url) as client, pytest.raises(aidre_client.CollectionMissing):
        list(client.collection("nope").changes())
    with (
        foreign(lambda asked: answering(200, b'{"version":"1"}')) as other,
        connected(other.url) as client,
        pytest.raises(aidre_client.Unsupported) as caught,
    ):
        list(client.collection("docs").changes())
    assert caught.value.details["capability"] == "changes"


def test_a_feed_that_does_not_go_on_is_a_failed_request() -> None:
    discovery = {"version": "1", "endpoints": {"changes": "/c/{name}"}, "capabilities": {"delta_sync": True}}

    def plan(asked: Asked) -> Fault:
        body = discovery if asked.target.startswith("/.well-known") else {"changes": [], "next": "t", "more": True}
        return answering(200, json.dumps(body).encode(), AIDRE)

    with foreign(plan) as proxy, connected(proxy.url) as client:
        with pytest.raises(aidre_client.RequestFailed):
            list(client.collection("a/b").changes())
        assert [asked.target for asked in proxy.asked[1:]] == ["/c/a%2Fb", "/c/a%2Fb?since=t"]
