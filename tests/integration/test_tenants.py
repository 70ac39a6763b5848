"""What belongs to one caller is nothing to another: ids, cursors, tokens, promises, offers and receipts of others are
answered as what never was, status, fields and body."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.callers import (
    ABSENT,
    BEARERS,
    JSON,
    ROUTES,
    SESSION,
    ask,
    get,
    headers_of,
    like_nothing,
    number_of,
    platform,
    search,
    shelves,
    submitted,
    tool,
)
from tests.support.clients import Client

OWNER, READER, MINER = (headers_of(BEARERS[name]) for name in ("owner", "reader", "miner"))
NOBODY: dict[str, str] = {}
STRANGERS = {"nobody": NOBODY, "guest": headers_of(BEARERS["guest"]), "miner": MINER}
"""Who may not see spinel."""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with shelves(tmp_path_factory.mktemp("store")) as shared:
        yield shared


def alike(one: httpx.Response, other: httpx.Response) -> None:
    assert like_nothing(one, "spinel") == like_nothing(other, ABSENT)


@pytest.mark.parametrize("who", STRANGERS)
def test_a_chunk_of_others_is_none(who: str, client: Client) -> None:
    for path in ("/chunks/NAME_0%23chunk_1", "/chunks/NAME_0%23chunk_1?collection=NAME"):
        assert get(path)(client, "spinel", OWNER).status_code == 200
        alike(get(path)(client, "spinel", STRANGERS[who]), get(path)(client, ABSENT, STRANGERS[who]))
    etag = get("/chunks/NAME_0%23chunk_1")(client, "spinel", OWNER).headers["etag"]
    conditional = {**STRANGERS[who], "if-none-match": etag}
    alike(
        get("/chunks/NAME_0%23chunk_1")(client, "spinel", conditional),
        get("/chunks/NAME_0%23chunk_1")(client, ABSENT, conditional),
    )


def cursor_of(client: Client, headers: dict[str, str]) -> str:
    page = search({"query": "alpha", "collection": "NAME", "top_k": 1})(client, "spinel", headers).json()
    return str(page["meta"]["next_cursor"])


def spoilt(token: str) -> str:
    """A token of the same form that nobody was given."""
    content = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    content[len(content) // 2] ^= 0xFF
    return base64.urlsafe_b64encode(content).decode().rstrip("=" if not token.endswith("=") else "")


def test_a_cursor_of_others_is_none(client: Client) -> None:
    theirs, own = cursor_of(client, OWNER), cursor_of(client, READER)

    def paged(headers: dict[str, str], name: str, cursor: str) -> httpx.Response:
        body = {"query": "alpha", "collection": "NAME", "top_k": 1, "cursor": cursor}
        return search(body)(client, name, headers)

    assert paged(OWNER, "spinel", theirs).status_code == paged(READER, "spinel", own).status_code == 200
    refused = paged(READER, "spinel", theirs)
    assert refused.status_code == 400
    assert like_nothing(refused, "spinel") == like_nothing(paged(READER, "spinel", spoilt(own)), "spinel")
    for headers in STRANGERS.values():
        alike(paged(headers, "spinel", theirs), paged(headers, ABSENT, theirs))
    assert like_nothing(paged(NOBODY, "zircon", theirs), "zircon") == like_nothing(
        paged(NOBODY, "zircon", spoilt(theirs)), "zircon"
    )


@pytest.mark.parametrize("who", STRANGERS)
def test_a_token_of_a_feed_of_others_is_none(who: str, client: Client) -> None:
    theirs = get("/collections/NAME/changes")(client, "spinel", OWNER).json()["next"]
    again = get(f"/collections/NAME/changes?since={theirs}")
    assert again(client, "spinel", OWNER).status_code == 200
    alike(again(client, "spinel", STRANGERS[who]), again(client, ABSENT, STRANGERS[who]))
    elsewhere = again(client, "zircon", STRANGERS[who])
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (410, "gone")
    assert "spinel" not in elsewhere.text


def promised(client: Client, headers: dict[str, str]) -> str:
    body = {"query": {"text": "alpha"}, "prefer": {"respond-async": True}}
    return str(ask("/ask", body)(client, "", headers).json()["promise"]["token"])


def awaited(client: Client, token: str, action: str, headers: dict[str, str], *, over_mcp: bool) -> httpx.Response:
    body = {"promise_token": token, "action": action}
    return (tool("await", body) if over_mcp else ask("/await", body))(client, "", headers)


@pytest.mark.parametrize("action", ["checkin", "cancel"])
@pytest.mark.parametrize("who", ["reader", "nobody"])
def test_a_promise_to_others_is_none(who: str, action: str, client: Client) -> None:
    headers = READER if who == "reader" else NOBODY
    theirs = promised(client, OWNER)
    unknown = theirs[::-1]
    for over_mcp in (False, True):
        answers = [awaited(client, token, action, headers, over_mcp=over_mcp) for token in (theirs, unknown)]
        assert like_nothing(answers[0], theirs) == like_nothing(answers[1], unknown)
        assert "UNKNOWN_PROMISE" in answers[0].text
    kept = ask("/await", {"promise_token": theirs, "action": "checkin"})(client, "", OWNER)
    assert "UNKNOWN_PROMISE" not in kept.text
    assert "CANCELLED" not in kept.text, "nobody else ends it"


def bind(client: Client, offer: str, session: str, headers: dict[str, str], email: str = "a@example.com") -> Any:
    body = {
        "offer_id": offer,
        "session_id": session,
        "bind_data": {"email": email},
        "agent": {"id": "agent-2", "consent_scope": ["bind"]},
    }
    return client.request("POST", "/intakes/bind", json=body, headers={"content-type": JSON, **headers})


@pytest.mark.parametrize("is_bound", [False, True])
def test_an_offer_to_others_is_none(is_bound: bool, client: Client) -> None:
    offer = submitted(client, "barite", OWNER).json()["offer"]["id"]
    if is_bound:
        assert bind(client, offer, SESSION, OWNER).status_code == 200
    other = str(uuid.uuid4())
    for headers in (READER, NOBODY):
        theirs = bind(client, offer, other, headers)
        none = bind(client, str(uuid.uuid4()), other, headers)
        assert (theirs.status_code, theirs.json()["error"]["code"]) == (404, "OFFER_NOT_FOUND")
        assert like_nothing(theirs, offer) == like_nothing(none, offer)
        different = bind(client, offer, other, headers, email="b@example.com")
        assert like_nothing(different, offer) == like_nothing(none, offer), "nor is it said that it is bound"
    assert bind(client, offer, SESSION, OWNER).status_code == 200


def test_a_request_of_another_key_is_none(client: Client) -> None:
    platforms = [platform(client, {}, key) for key in ("platform", "rival")]
    ours, theirs = platforms
    answer = ours.retrieve(ours.request("alpha", domain=f"of.n{number_of('galena')}"))
    assert answer["status"] == "ok"
    told = []
    for request in (answer["request_id"], "req_" + "0" * 16):
        status, body = theirs.report(ours.citation(answer, request_id=request, platform={"id": "rival"}))
        assert (status, body["request_id"]) == (404, request)
        told.append({name: value for name, value in body.items() if name not in {"timestamp", "request_id"}})
    assert told[0] == told[1]
    assert told[0]["error"]["code"] == "unknown_request"
    assert ours.report(ours.citation(answer))[0] == 202


def test_a_partner_is_given_what_its_domains_open_and_nothing_beside(client: Client) -> None:
    ours = platform(client, {})
    for name in ("galena", "gypsum"):
        answer = ours.retrieve(ours.request("alpha", domain=f"of.n{number_of(name)}"))
        assert {chunk["id"].partition("_")[0] for chunk in answer["content"]["chunks"]} == {name}
    unknown = ours.retrieve(ours.request("alpha", domain="of.everything"))
    assert unknown["denial"]["reason"] == "out_of_scope"
    assert "spinel" not in json.dumps(unknown)


@pytest.mark.parametrize("route_name", ["search", "collection", "changes", "chunk", "ask", "mcp fetch"])
def test_a_key_that_lists_what_is_not_there_is_told_nothing_else(route_name: str, client: Client) -> None:
    """Nobody can find out by a guess which names are in use: to the byte, also in the fields."""
    route = ROUTES[route_name]
    for headers in STRANGERS.values():
        alike(route.call(client, "spinel", headers), route.call(client, ABSENT, headers))
