"""AIDRE: a collection that was dropped is missing, but cursors (409) and tokens (410) given out before are told so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre.engine.collection.store import Store
from tests.support.clients import Client, a_document, fill, serving
from tests.support.discovery import ids, refused

pytestmark = pytest.mark.needs("changes")

ALL: dict[str, Any] = {"query": "alpha", "collection": "docs", "top_k": 5}
FEED = "/collections/docs/changes"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    fill(tmp_path / "store", "docs", [a_document(f"d{n}", f"alpha {n}") for n in range(20)])
    fill(tmp_path / "store", "other", [a_document("z", "omega")])
    return tmp_path / "store"


def given_out(client: Client) -> tuple[str, str]:
    """A cursor and a token."""
    return client.search(ALL).json()["meta"]["next_cursor"], client.get(FEED).json()["next"]


@pytest.mark.parametrize("restarted", [False, True])
def test_cursors_end_with_409_and_feeds_with_410(store: Path, restarted: bool) -> None:
    with serving(store) as client:
        cursor, token = given_out(client)
        Store(store).drop("docs")
        client.refresh()
        if not restarted:
            refused(client.search({**ALL, "cursor": cursor}), 409, "conflict")
            refused(client.get(f"{FEED}?since={token}"), 410, "gone")
    with serving(store) as client:
        refused(client.search({**ALL, "cursor": cursor}), 409, "conflict")
        assert refused(client.get(f"{FEED}?since={token}"), 410, "gone") == {"member": "since"}


def test_everything_else_is_404(store: Path) -> None:
    with serving(store) as client:
        cursor, token = given_out(client)
        Store(store).drop("docs")
        client.refresh()
        for response in (
            client.search(ALL),
            client.get(FEED),
            client.get("/collections/docs"),
            client.get("/chunks/d1%23chunk_1"),
            client.search({**ALL, "collection": "other2", "cursor": cursor}),
            client.get(f"/collections/other2/changes?since={token}"),
        ):
            refused(response, 404, "not_found")
        assert [one["name"] for one in client.get("/collections").json()["collections"]] == ["other"]
        refused(client.search({**ALL, "collection": "other", "cursor": cursor}), 400, "invalid_request")


def test_a_cursor_or_token_of_an_earlier_collection_is_not_taken_for_one_of_the_dropped(store: Path) -> None:
    with serving(store) as client:
        cursor, token = given_out(client)
        Store(store).drop("docs")
        fill(store, "docs", [a_document("new", "alpha")])
        Store(store).drop("docs")
        client.refresh()
        refused(client.search({**ALL, "cursor": cursor}), 404, "not_found")
        refused(client.get(f"{FEED}?since={token}"), 404, "not_found")
        for nonsense in ("A", "AAAA", "!", "é"):
            refused(client.search({**ALL, "cursor": nonsense}), 404, "not_found")


def test_a_collection_that_took_the_name_shows_nothing_of_the_dropped_one(store: Path) -> None:
    with serving(store) as client:
        cursor, token = given_out(client)
        Store(store).drop("docs")
        fill(store, "docs", [a_document(f"new_{n}", "alpha") for n in range(9)])
        client.refresh()
        refused(client.search({**ALL, "cursor": cursor}), 409, "conflict")
        refused(client.get(f"{FEED}?since={token}"), 410, "gone")
        assert all(one.startswith("new_") for one in ids(client.search(ALL)))


def test_a_cursor_of_a_search_that_named_no_collection_ends_too(store: Path) -> None:
    Store(store).drop("other")
    unnamed = {"query": "alpha", "top_k": 5}
    with serving(store) as client:
        cursor = client.search(unnamed).json()["meta"]["next_cursor"]
        Store(store).drop("docs")
        client.refresh()
        refused(client.search({**unnamed, "cursor": cursor}), 409, "conflict")
        refused(client.search(unnamed), 400, "invalid_request")


def test_who_may_not_see_the_collection_is_told_nothing(store: Path) -> None:
    with serving(store) as client:
        cursor, token = given_out(client)
        fill(store, "docs", [a_document("x", "alpha")], visibility="private")
        Store(store).drop("docs")
        client.refresh()
        refused(client.search({**ALL, "cursor": cursor}), 404, "not_found")
        refused(client.get(f"{FEED}?since={token}"), 404, "not_found")


def test_a_purged_collection_is_404_for_cursors_too(store: Path) -> None:
    with serving(store) as client:
        cursor, token = given_out(client)
        Store(store).drop("docs", purge=True)
        client.refresh()
        refused(client.search({**ALL, "cursor": cursor}), 404, "not_found")
        refused(client.get(f"{FEED}?since={token}"), 404, "not_found")
