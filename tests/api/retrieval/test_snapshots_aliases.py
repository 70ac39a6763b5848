"""Aliases behind the protocols: listed in place of their collections, switched for all, with cursors that go on."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from aidre.engine.collection.store import Store
from tests.support.clients import Client, a_document, fill, serving

KEY = "0123456789abcdef"
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()
KEYS = f'keys = [{{ name = "partner", sha256 = "{DIGEST}", collections = ["docs"] }}]\n'


WRITER = f'keys = [{{ name = "writer", sha256 = "{DIGEST}", scopes = ["search", "write"] }}]\n'


@pytest.fixture
def store(tmp_path: Path) -> Store:
    for name in ("old", "new"):
        fill(tmp_path, name, [a_document(f"{name}{number}", f"tea {number}") for number in range(4)])
    opened = Store(tmp_path)
    opened.point_alias("docs", "old")
    return opened


def listed(client: Client) -> list[str]:
    return [one["name"] for one in client.get("/collections").json()["collections"]]


def found(client: Client, **members: object) -> tuple[list[str], str | None]:
    """The documents of one page, sorted, and its cursor."""
    response = client.search({"collection": "docs", "query": "tea", "mode": "lexical", **members})
    assert response.status_code == 200, response.text
    answer = response.json()
    return sorted(hit["id"].partition("#")[0] for hit in answer["results"]), answer["meta"].get("next_cursor")


def test_an_alias_is_listed_in_place_of_its_collection_which_still_answers(store: Store) -> None:
    with serving(store.path) as client:
        assert listed(client) == ["docs", "new"]
        assert found(client)[0] == found(client, collection="old")[0] == [f"old{number}" for number in range(4)]
        asked = client.request("POST", "/ask", json={"query": {"text": "tea", "site": "docs"}}).json()
        assert len(asked["results"]) == 4


def test_a_switch_is_seen_by_all_and_cursors_go_on_also_in_a_process_that_starts_later(store: Store) -> None:
    with serving(store.path) as client:
        first, cursor = found(client, top_k=2)
        store.point_alias("docs", "new")
        client.refresh()
        assert listed(client) == ["docs", "old"]
        assert found(client)[0] == [f"new{number}" for number in range(4)]
        rest, _ = found(client, top_k=2, cursor=cursor)
    assert sorted(first + rest) == [f"old{number}" for number in range(4)]
    with serving(store.path) as later:
        assert found(later, top_k=2, cursor=cursor)[0] == rest


def test_keys_and_settings_are_those_of_the_name_that_is_asked_for(store: Store) -> None:
    hidden = '[collections.old]\nvisibility = "private"\n'
    with serving(store.path, KEYS + hidden) as client:
        assert listed(client) == ["new"]
        own = client.get("/collections", headers={"authorization": f"Bearer {KEY}"}).json()
        assert [one["name"] for one in own["collections"]] == ["docs", "new"]
    with serving(store.path, f'{hidden}[collections.docs]\ndescription = "Tea"\n') as client:
        assert listed(client) == ["docs", "new"]
        refused = client.search({"collection": "old", "query": "tea"})
        assert refused.status_code == 404


def test_the_default_collection_stays_the_default_with_an_alias(store: Store) -> None:
    with serving(store.path, '[server]\ndefault_collection = "old"\n') as client:
        answer = client.search({"query": "tea", "mode": "lexical"}).json()
        assert {hit["id"].partition("#")[0] for hit in answer["results"]} == {f"old{number}" for number in range(4)}


def test_a_cursor_ends_where_other_settings_hold_for_what_the_alias_meant(store: Store) -> None:
    with serving(store.path, "[collections.old]\nreturn_text = false\n") as client:
        asked = {"collection": "docs", "query": "tea", "mode": "lexical", "top_k": 2}
        cursor = client.search(asked).json()["meta"]["next_cursor"]
        store.point_alias("docs", "new")
        client.refresh()
        for fields in ({}, {"return": {"text": True}}):
            ended = client.search({**asked, **fields, "cursor": cursor})
            assert (ended.status_code, "expired" in ended.text) == (409, True), ended.text


def test_documents_are_written_by_the_alias_and_by_the_name_of_its_collection(store: Store) -> None:
    hidden = WRITER + '[collections.old]\ndescription = "Tea"\n'
    with serving(store.path, hidden) as client:
        for name in ("docs", "old"):
            path = f"/collections/{name}/documents/{name}1"
            answer = client.request("DELETE", path, headers={"authorization": f"Bearer {KEY}"})
            assert answer.status_code != 404 or "no collection" not in answer.text, answer.text


def test_a_file_of_aliases_that_is_damaged_leaves_the_last_ones_in_service(store: Store) -> None:
    with serving(store.path) as client:
        file = store.path / ".aliases.json"
        file.unlink()
        file.write_text("{")
        client.refresh()
        assert listed(client) == ["docs", "new"]
        assert found(client)[0] == [f"old{number}" for number in range(4)]
