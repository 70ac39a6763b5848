"""A page of any site, on a browser beside the server: without a declared `base_url` it gets no text on any route."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from tests.integration.requests import ASKED, PROTOCOLS, asked
from tests.support.clients import BASE, Client, a_document, fill, serving

TEXT = "canary of the store"
PUBLIC = '[server]\nbase_url = "https://ai.example.com"\ncors_origins = ["https://app.example.com"]\n'
EVIL = {"origin": "https://evil.example"}
VALUES = {"name": "docs", "id": "find", "chunk_id": "one%23chunk_1", "suffix": "/mcp"}
"""Of the parameters in the paths of routes."""
PROBES = {"/healthz", "/readyz", "/metrics"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    fill(path, "docs", [a_document("one", f"alpha {TEXT}")])
    return path


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[Client]:
    with serving(store, PROTOCOLS, is_local=True) as local:
        yield local


def routes_of(client: Client) -> list[tuple[str, str]]:
    """Method and path of every route, with the values of a chunk that exists."""
    found = []
    for route in client.app.routes:
        assert isinstance(route, Route)
        path = re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: VALUES.get(match[1], match[0]), route.path)
        assert "{" not in path, f"the test knows no value for {route.path}"
        found += [(method, path) for method in sorted(route.methods or ())]
    return found


def bodies() -> dict[str, Any]:
    return dict(ASKED.values())


@pytest.mark.parametrize("configuration", [PROTOCOLS, PUBLIC + PROTOCOLS], ids=["local", "public"])
def test_a_foreign_page_gets_no_text_on_any_route(configuration: str, store: Path) -> None:
    with serving(store, configuration, is_local=True) as client:
        routes = routes_of(client)
        assert len(routes) > 25
        for method, path in routes:
            body = bodies().get(path) if method == "POST" else None
            response = client.request(method, path, json=body, headers={**EVIL, "host": "localhost"})
            assert "access-control-allow-origin" not in response.headers, path
            assert TEXT not in response.text, path
            assert response.status_code == 403, path


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "10.0.0.1"])
def test_a_host_that_leads_here_by_rebinding_gets_no_text_on_any_route(host: str, client: Client) -> None:
    for method, path in routes_of(client):
        for headers in ({"host": host}, {"host": host, "origin": f"http://{host}"}):
            body = bodies().get(path) if method == "POST" else None
            response = client.request(method, path, json=body, headers=headers)
            assert TEXT not in response.text, path
            if path not in PROBES:
                assert response.status_code == 421, path


@pytest.mark.parametrize("name", ASKED)
def test_the_refusal_has_the_envelope_of_its_protocol(name: str, client: Client) -> None:
    path, body = ASKED[name]
    for headers, key in (({"host": "evil.example"}, "server.hosts"), (EVIL, "server.cors_origins")):
        response = asked(client, path, body, **headers)
        assert response.headers["content-type"].startswith("application/")
        assert response.headers["x-request-id"]
        assert key in response.text, response.text
        assert "evil" not in response.text


@pytest.mark.parametrize("name", ASKED)
def test_every_answer_is_taken_for_what_it_says_and_embedded_nowhere(name: str, client: Client) -> None:
    path, body = ASKED[name]
    for headers in ({}, {"host": "evil.example"}, EVIL):
        answered = asked(client, path, body, **headers).headers
        assert answered["x-content-type-options"] == "nosniff"
        assert answered["referrer-policy"] == "no-referrer"
        assert answered["cross-origin-resource-policy"] == "same-origin"


def test_a_preflight_of_a_foreign_page_is_refused(client: Client) -> None:
    asking = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    assert client.request("OPTIONS", "/search", headers={**EVIL, **asking}).status_code == 403
    response = client.request("OPTIONS", "/search", headers={"origin": "http://localhost:3000", **asking})
    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert response.headers["access-control-allow-headers"] == "content-type"


def test_the_search_page_asks_its_own_server(client: Client) -> None:
    for path, body in ASKED.values():
        if path not in {"/nowhere", "/aip/retrieve", "/intakes/find"}:
            response = asked(client, path, body, origin=BASE, host=BASE.removeprefix("http://"))
            assert response.status_code == 200, path
            assert response.headers["access-control-allow-origin"] == BASE


def test_what_was_refused_is_counted(client: Client) -> None:
    asked(client, "/search", {"query": "alpha"}, host="evil.example")
    assert 'aidre_refusals_total{code="misdirected_request"}' in client.get("/metrics").text
