"""Who may see what: hundreds of random (caller, collection, route) triples against a table that is computed apart.

What a caller may not see must look, to the byte, like what is not there: the answer about a hidden collection is
compared with the answer about one that never was.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.integration.callers import (
    ABSENT,
    BEARERS,
    ROUTES,
    SHELVES,
    gets_vectors,
    headers_of,
    like_nothing,
    search,
    sees,
    shelves,
    turned_away,
)
from tests.support.clients import Client

TRIPLES = 400
SEED = 20_261_122


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with shelves(tmp_path_factory.mktemp("store")) as shared:
        yield shared


@pytest.mark.slow
def test_random_triples_come_out_as_the_table_says(client: Client) -> None:
    chosen = random.Random(SEED)
    seen: Counter[str] = Counter()
    wrong = []
    for _ in range(TRIPLES):
        who, name, route_name = (chosen.choice(sorted(table)) for table in (BEARERS, SHELVES, ROUTES))
        bearer, route = BEARERS[who], ROUTES[route_name]
        response = route.call(client, name, headers_of(bearer))
        away = turned_away(bearer, route)
        if away is not None:
            right = response.status_code == away and "www-authenticate" in response.headers
            right = right and name not in response.text
        elif sees(bearer, name, route.protocol):
            right = route.shows(response, name)
        elif route.names:
            absent = route.call(client, ABSENT, headers_of(bearer))
            right = like_nothing(response, name) == like_nothing(absent, ABSENT)
        else:
            right = not route.shows(response, name)
        seen[f"{away or sees(bearer, name, route.protocol)}"] += 1
        if not right:
            wrong.append((who, name, route_name, response.status_code, response.text[:200]))
    assert not wrong, "\n".join(map(str, wrong[:10]))
    assert min(seen[kind] for kind in ("401", "403", "True", "False")) >= 20, seen


@pytest.mark.parametrize("name", SHELVES)
@pytest.mark.parametrize("who", BEARERS)
def test_vectors_leave_where_key_and_collection_both_let_them(who: str, name: str, client: Client) -> None:
    bearer = BEARERS[who]
    body = {"query": "alpha", "collection": "NAME", "return": {"vectors": True}}
    response = search(body)(client, name, headers_of(bearer))
    if turned_away(bearer) is not None:
        assert response.status_code == turned_away(bearer)
    elif not sees(bearer, name, "aidre"):
        absent = search(body)(client, ABSENT, headers_of(bearer))
        assert like_nothing(response, name) == like_nothing(absent, ABSENT)
    elif gets_vectors(bearer, name):
        assert all(f"space of {name}" in result["vectors"] for result in response.json()["results"])
    else:
        assert (response.status_code, response.json()["error"]) == (422, "unsupported_return_field")


@pytest.mark.parametrize("who", [name for name, bearer in BEARERS.items() if turned_away(bearer) is None])
def test_discovery_tells_a_caller_what_that_caller_may_do(who: str, client: Client) -> None:
    bearer = BEARERS[who]
    response = client.request("GET", "/.well-known/ai-discovery", headers=headers_of(bearer))
    body = response.json()
    assert body["auth"] == {"type": "bearer", "required": False}
    vectors = any(gets_vectors(bearer, name) and sees(bearer, name, "aidre") for name in SHELVES)
    assert body["capabilities"]["return_vectors"] is vectors
    assert "Authorization" in ", ".join(response.headers.get_list("vary"))
    assert response.headers["cache-control"].startswith("private") is (bearer.sends is not None)


@pytest.mark.parametrize("route_name", ROUTES)
def test_every_route_says_what_the_table_says_to_every_caller(route_name: str, client: Client) -> None:
    """Of each kind of collection one, so that no route depends on the random choice."""
    route = ROUTES[route_name]
    for who in ("nobody", "reader", "owner", "dumb", "thief"):
        for name in ("zircon", "spinel", "galena", "barite"):
            bearer = BEARERS[who]
            response = route.call(client, name, headers_of(bearer))
            away = turned_away(bearer, route)
            if away is not None:
                assert response.status_code == away, (who, name)
            else:
                assert route.shows(response, name) is sees(bearer, name, route.protocol), (who, name, response.text)


def test_health_knows_no_callers(client: Client) -> None:
    for path in ("/healthz", "/readyz"):
        for bearer in BEARERS.values():
            response = client.request("GET", path, headers=headers_of(bearer))
            assert response.status_code == 200
            assert not any(name in response.text for name in SHELVES)
