"""One damaged collection does not stop the others: in every protocol they answer as before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.callers import BEARERS, ROUTES, configuration, headers_of, shelves
from tests.support.clients import Client, serving

DAMAGED = ("garnet", "quartz", "galena")
OWNER = headers_of(BEARERS["owner"])
NAMED = [name for name, route in ROUTES.items() if route.protocol not in {"published", "metrics"}]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine collections, of which three cannot be opened: one for each of the protocols."""
    path: Path = tmp_path_factory.mktemp("store")
    with shelves(path):
        pass
    for number, name in enumerate(DAMAGED):
        if number == 0:
            (path / name / "CURRENT").write_text("999999\n")
        else:
            [file] = (path / name / "segments").glob("*/chunks.arrow")
            file.unlink()
    return path


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[Client]:
    with serving(store, configuration()) as shared:
        yield shared


@pytest.mark.parametrize("route_name", NAMED)
def test_the_others_are_served_by_every_route(route_name: str, client: Client) -> None:
    route = ROUTES[route_name]
    name = {"aidre": "spinel", "nlweb": "zircon", "intent": "gypsum", "intake": "barite"}[route.protocol]
    response = route.call(client, name, OWNER)
    assert route.shows(response, name), response.text


@pytest.mark.parametrize("route_name", NAMED)
def test_a_damaged_one_fails_no_worse_than_one_that_is_away(route_name: str, client: Client) -> None:
    route = ROUTES[route_name]
    name = {"aidre": "garnet", "nlweb": "quartz", "intent": "galena", "intake": "garnet"}[route.protocol]
    response = route.call(client, name, OWNER)
    assert response.status_code in {200, 400, 404, 422, 503}
    assert not response.text.count(f"{name}_0#chunk")
    if response.status_code == 503:
        assert int(response.headers["retry-after"]) > 0


def test_an_operator_is_told_and_the_server_stays_on_the_net(client: Client) -> None:
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "degraded", "damaged": 3})
    metrics = client.request("GET", "/metrics", headers=OWNER).text
    assert "\naidre_collections_damaged 3\n" in metrics
    assert 'aidre_collection_chunks{collection="spinel"} 2' in metrics


@pytest.mark.slow
def test_without_anything_that_can_be_served_it_is_not_ready(tmp_path: Path) -> None:
    with shelves(tmp_path):
        pass
    for current in tmp_path.glob("*/CURRENT"):
        current.write_text("999999\n")
    with serving(tmp_path, configuration()) as alone:
        assert alone.get("/readyz").status_code == 503
        assert alone.get("/healthz").status_code == 200
