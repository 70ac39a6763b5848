"""Texts that are withheld, counted or private appear on no surface of any protocol: an object of every type that is
read, with a word of its own in every member, and a look for these words wherever a caller without a key can look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from tests.integration.canaries import (
    CANARY,
    COMMON,
    MAPPING,
    MOST,
    TELLS_TEXT,
    Stored,
    agents,
    fill_with_canaries,
    stored_canaries,
    surfaces,
)
from tests.support.clients import AGENTS, Client, serving

pytestmark = pytest.mark.slow

SERVER = f"""
[limits]
top_k_max = {MOST}
rate = "none"
LIMITS
[nlweb]
min_score = 0
timeout = "60s"
budget = "25s"
[[nlweb.actions]]
name = "read"
description = "Read {{name}}"
protocol = "HTTP"
method = "GET"
endpoint = "https://example.org/read?of={{description}}&id={{@id}}"
[collections.docs]
COLLECTION
[collections.mapped]
mapping = {{ title = "name", text = {json.dumps(MAPPING["text"])} }}
COLLECTION
"""


def configuration(name: str, collection: str = "", limits: str = "", *, agents: bool = True) -> str:
    opened = AGENTS.replace('collection = "docs"', f'collection = "{name}"') if agents else ""
    return SERVER.replace("COLLECTION", collection).replace("LIMITS", limits) + opened


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_with_canaries(tmp_path_factory.mktemp("canaries"))


@pytest.fixture(scope="module", params=["docs", "mapped"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def held(store: Path, name: str) -> Stored:
    return stored_canaries(store, name)


def looked_at(held: Stored) -> list[str]:
    """Documents that are asked for one by one: every eighth object, and all pages and rows that are something else."""
    return [id for at, id in enumerate(held.documents) if at % 8 == 0 or not id.startswith("https://example.org/")]


def canaries(client: Client, name: str, held: Stored) -> dict[str, set[str]]:
    """By surface, the canaries that it shows."""
    found: dict[str, set[str]] = {}
    for surface, text in surfaces(client, name, looked_at(held)):
        found.setdefault(surface, set()).update(CANARY.findall(text))
    return found


SILENT = {"/mcp/": "the other spelling of /mcp", "/intakes/bind": "takes data", "/aip/events": "takes data"}
"""Routes that are not looked at."""


def test_an_open_collection_shows_the_words_of_its_texts_on_every_surface_that_has_texts(
    store: Path, name: str, held: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this the other tests would prove nothing. A new route has to be a surface, too."""
    asked: set[str] = set()
    send = Client.request

    def noted(self: Client, method: str, path: str, **options: Any) -> httpx.Response:
        asked.add(path.partition("?")[0])
        return send(self, method, path, **options)

    monkeypatch.setattr(Client, "request", noted)
    with serving(store, configuration(name)) as client:
        found = canaries(client, name, held)
        routes = [route for route in client.app.routes if isinstance(route, Route) and route.path not in SILENT]
    assert [route.path for route in routes if not any(map(route.path_regex.match, asked))] == []
    assert {surface for surface, words in found.items() if words & held.texts} >= TELLS_TEXT
    assert set().union(*found.values()) >= held.texts
    assert len(held.texts) > (5_000 if name == "docs" else 5)


def test_no_surface_shows_a_word_of_a_text_that_is_withheld(store: Path, name: str, held: Stored) -> None:
    with serving(store, configuration(name, "return_text = false")) as client:
        found = canaries(client, name, held)
    assert {surface: sorted(words & held.texts)[:3] for surface, words in found.items() if words & held.texts} == {}
    assert all(found[surface] for surface in ("search", "browsed", "ask")) or name == "mapped", "titles are shown"


def test_no_surface_shows_anything_once_the_budget_of_chunks_is_spent(store: Path, name: str, held: Stored) -> None:
    with serving(store, configuration(name, limits="chunks_per_day = 1")) as client:
        assert client.search({"query": COMMON, "collection": name}).status_code in {200, 429}
        dict(agents(client))  # the partner has a budget of its own
        found = canaries(client, name, held)
    assert {surface: sorted(words)[:3] for surface, words in found.items() if words} == {}


def test_no_surface_shows_anything_of_a_private_collection(store: Path, name: str, held: Stored) -> None:
    with serving(store, configuration(name, 'visibility = "private"', agents=False)) as client:
        found = canaries(client, name, held)
    assert {surface: sorted(words)[:3] for surface, words in found.items() if words} == {}
