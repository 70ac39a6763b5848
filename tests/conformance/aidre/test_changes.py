"""The change feed over HTTP. The draft names delta_sync and leaves it undefined: the discovery document says it."""

from __future__ import annotations

import base64
import hashlib
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aidre.api.http.http_errors import BadRequest
from aidre.api.protocols.aidre.changes import CHANGES_MAX, read_token, write_token
from aidre.engine.collection.store import Store
from aidre.engine.model import Document
from aidre.engine.types import ChangeCursor, ChangelogId
from tests.support.clients import AIDRE, TEXT, Client, a_document, delete, fill, serving
from tests.support.discovery import CONFIGURATION, DISCOVERY, JSON, refused

pytestmark = pytest.mark.needs("changes")

PATH = "/collections/docs/changes"


def a_few(names: str, text: str = "alpha") -> list[Document]:
    return [a_document(name, f"{text} {name}", url=f"https://example.com/{name}") for name in names]


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A store for one test: five documents, named by a letter each."""
    fill(tmp_path, "docs", a_few("abcde"))
    return tmp_path


@pytest.fixture
def own(letters: Path) -> Iterator[Client]:
    """A server over a store that the test changes."""
    with serving(letters) as client:
        yield client


def page(client: Client, since: str | None = None, limit: int | None = None, path: str = PATH) -> dict[str, Any]:
    members = {"since": since, "limit": limit}
    asked = "&".join(f"{name}={value}" for name, value in members.items() if value is not None)
    response = client.get(f"{path}?{asked}")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    assert set(body) == {"request_id", "collection", "changes", "next", "more"}
    return body


def follow(client: Client, held: dict[str, str], since: str | None, limits: Sequence[int] = (1_000,)) -> str:
    """Read until there is no more; the token to come back with."""
    more, turn = True, 0
    while more:
        limit = limits[turn % len(limits)]
        body = page(client, since, limit)
        assert len(body["changes"]) <= limit
        for change in body["changes"]:
            if change["op"] == "delete":
                held.pop(change["id"], None)
            else:
                held[change["id"]] = change["content_hash"]
        since, more, turn = body["next"], body["more"], turn + 1
    assert since is not None
    return since


def stored(store: Path) -> dict[str, str]:
    snapshot = Store(store).open("docs")
    ids = {one for part in snapshot.segments for one in part.segment.chunks.chunked("id").to_pylist()}
    return {one: chunk.content_hash for one in ids if (chunk := snapshot.get(one)) is not None}


def test_without_a_token_all_chunks_are_added(own: Client) -> None:
    body = page(own)
    assert body["collection"] == "docs"
    assert not body["more"]
    assert sorted(body["changes"], key=lambda change: str(change["id"])) == [
        {
            "op": "add",
            "id": f"{name}#chunk_1",
            "content_hash": "sha256:" + hashlib.sha256(f"alpha {name}".encode()).hexdigest(),
            "source": {"url": f"https://example.com/{name}"},
        }
        for name in "abcde"
    ]


def test_an_empty_token_is_none(own: Client) -> None:
    assert page(own, "") | {"request_id": ""} == page(own) | {"request_id": ""}


def test_with_a_token_come_what_was_added_changed_and_deleted_since(own: Client) -> None:
    since = page(own)["next"]
    assert page(own, since)["changes"] == []
    fill(own.store, "docs", [*a_few("f"), *a_few("a", "beta")])
    delete(own.store, "docs", ["b"])
    own.refresh()
    body = page(own, since)
    told = [(change["op"], change["id"], change.get("source")) for change in body["changes"]]
    assert told == [
        ("add", "f#chunk_1", {"url": "https://example.com/f"}),
        ("change", "a#chunk_1", {"url": "https://example.com/a"}),
        ("delete", "b#chunk_1", None),
    ]
    [gone] = [change for change in body["changes"] if change["op"] == "delete"]
    assert gone["content_hash"] == "sha256:" + hashlib.sha256(b"alpha b").hexdigest()
    assert page(own, body["next"]) | {"request_id": ""} == body | {"changes": [], "request_id": ""}


def test_every_listed_chunk_can_be_fetched_with_the_hash_that_was_told(client: Client) -> None:
    changes = page(client)["changes"]
    assert len(changes) > 50
    for change in changes[:20]:
        name = "".join(f"%{byte:02x}" for byte in change["id"].encode())
        chunk = client.get(f"/chunks/{name}?collection=docs").json()
        assert (chunk["id"], chunk["metadata"]["content_hash"]) == (change["id"], change["content_hash"])
        assert chunk["source"] == change["source"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whoever_follows_in_pages_of_any_size_ends_with_the_collection(seed: int, own: Client) -> None:
    chance = random.Random(seed)
    held: dict[str, str] = {}
    since: str | None = None
    for _ in range(12):
        names = chance.sample("abcdefghijkl", chance.randint(1, 6))
        if chance.random() < 0.6:
            fill(own.store, "docs", a_few("".join(names), chance.choice(["alpha", "beta"])))
        else:
            delete(own.store, "docs", names)
        if chance.random() < 0.2:
            with Store(own.store).writer("docs", spaces=[TEXT]) as writer:
                writer.compact()
        if chance.random() < 0.8:
            own.refresh()
        body = page(own, since, chance.randint(1, 4))
        for change in body["changes"]:
            held.pop(change["id"], None)
            if change["op"] != "delete":
                held[change["id"]] = change["content_hash"]
        since = body["next"]
    own.refresh()
    follow(own, held, since, [1, 3, 2])
    anew: dict[str, str] = {}
    follow(own, anew, None, [2, 1])
    assert held == anew == stored(own.store)


# -- tokens ----------------------------------------------------------------------------------------------------


def test_a_token_is_good_at_every_worker_and_after_a_restart(letters: Path) -> None:
    (letters / ".log").mkdir(exist_ok=True)
    with serving(letters) as one, serving(letters) as behind:
        begun = page(one, None, 2)
        token = page(one)["next"]
        delete(letters, "docs", ["a"])
        one.refresh()
        newer = page(one, token)["next"]
        assert page(behind, newer)["changes"] == []
        (letters / ".log" / "cursor.key").unlink()
    with serving(letters) as restarted:
        assert page(restarted, newer)["changes"] == []
        assert [change["op"] for change in page(restarted, token)["changes"]] == ["delete"]
        held = {change["id"]: change["content_hash"] for change in begun["changes"]}
        follow(restarted, held, begun["next"])
        assert held == stored(letters)


def test_a_worker_that_is_behind_lists_no_chunk_that_was_deleted_before_the_listing_began(letters: Path) -> None:
    with serving(letters) as behind:
        delete(letters, "docs", ["a", "b"])
        with serving(letters) as one:
            body = page(one, None, 1)
        held = {change["id"]: change["content_hash"] for change in body["changes"]}
        follow(behind, held, body["next"])
        assert held == stored(letters)


def test_garbage_is_refused(own: Client) -> None:
    token = page(own)["next"]
    assert len(token) == 72
    wrong = ["x", "%00", "0" * 72, token[:-1], token + "A", token[:30] + "AAAA" + token[34:], token.lower(), "ü"]
    for since in wrong:
        details = refused(own.get(f"{PATH}?since={since}"), 400, "invalid_request")
        assert details == {"member": "since"}
    body = bytearray(base64.urlsafe_b64decode(token))
    for bit in range(8 * len(body)):
        body[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadRequest):
            read_token(base64.urlsafe_b64encode(body).decode())
        body[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize(
    "place",
    [
        ChangeCursor(ChangelogId(0, "0" * 16)),
        ChangeCursor(ChangelogId(3, "0123456789abcdef"), row=2**64 - 1),
        ChangeCursor(ChangelogId(2**64 - 1, "f" * 16), listed_hash=2**64 - 1, newest_seen=ChangelogId(1, "0" * 16)),
    ],
)
def test_a_token_holds_a_place(place: ChangeCursor) -> None:
    _, found = read_token(write_token("lineage", place))
    assert (found.changelog, found.row, found.listed_hash) == (place.changelog, place.row, place.listed_hash)
    assert found.newest_seen == (place.newest_seen or place.changelog)


def test_a_forged_place_is_never_answered_with_anything_else(own: Client) -> None:
    lineage = Store(own.store).open("docs").lineage
    mark = Store(own.store).open("docs").manifest.changes.mark
    truth = ChangelogId(1, mark)
    forged = [
        ChangeCursor(ChangelogId(2**63, mark)),
        ChangeCursor(ChangelogId(1, "0" * 16)),
        ChangeCursor(truth, row=6),
        ChangeCursor(truth, row=2**64 - 1),
        ChangeCursor(truth, newest_seen=ChangelogId(2**64 - 1, mark)),
        ChangeCursor(truth, listed_hash=0, newest_seen=ChangelogId(1, "0" * 16)),
        ChangeCursor(ChangelogId(0, "0" * 16), row=0),
    ]
    for place in forged:
        refused(own.get(f"{PATH}?since={write_token(lineage, place)}"), 410, "gone")
    assert page(own, write_token(lineage, ChangeCursor(truth, listed_hash=2**64 - 1)))["changes"] == []
    assert len(page(own, write_token(lineage, ChangeCursor(truth, row=2)))["changes"]) == 3


def test_a_token_that_is_too_old_is_gone_and_says_what_to_do(own: Client) -> None:
    token = page(own)["next"]
    half = page(own, None, 2)["next"]
    with Store(own.store).writer("docs", spaces=[TEXT]) as writer:
        writer.purge()
    own.refresh()
    for since in (token, half):
        response = own.get(f"{PATH}?since={since}")
        assert refused(response, 410, "gone") == {"member": "since"}
        assert "begin again without since" in response.json()["message"]
        assert response.headers["cache-control"] == "no-store"
    assert len(page(own)["changes"]) == 5


def test_a_token_of_a_collection_that_was_made_anew_is_gone(own: Client) -> None:
    token = page(own)["next"]
    shutil.rmtree(own.store / "docs")
    fill(own.store, "docs", a_few("abcde"))
    own.refresh()
    refused(own.get(f"{PATH}?since={token}"), 410, "gone")
    fill(own.store, "other", a_few("abcde"))
    own.refresh()
    refused(own.get(f"/collections/other/changes?since={page(own)['next']}"), 410, "gone")


# -- the rest --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "x", "", "٣", "+1", "1e3"])
def test_a_limit_that_is_no_number_is_refused(limit: str, client: Client) -> None:
    assert refused(client.get(f"{PATH}?limit={limit}"), 400, "invalid_request") == {"member": "limit"}


def test_a_limit_above_the_maximum_is_clamped(client: Client) -> None:
    assert page(client, None, 10**30)["more"] is False
    assert client.get(DISCOVERY).json()["limits"]["changes"] == CHANGES_MAX


def test_discovery_says_how_it_is_used(client: Client) -> None:
    document = client.get(DISCOVERY).json()
    assert document["capabilities"]["delta_sync"] is True
    assert document["endpoints"]["changes"].endswith("/collections/{name}/changes")
    assert (document["defaults"]["changes"], document["limits"]["changes_seconds"]) == (1_000, 30 * 24 * 3600)
    assert "410" in document["behaviour"]["changes"]


def test_what_is_private_has_no_changes(client: Client) -> None:
    token = page(client)["next"]
    for name in ("hidden", "shut", "elsewhere", "absent"):
        for query in ("", f"?since={token}"):
            details = refused(client.get(f"/collections/{name}/changes{query}"), 404, "not_found")
            assert details == {"collection": name}


def test_the_answer_is_never_cached_and_speaks_both_media_types(client: Client) -> None:
    for accept in (AIDRE, JSON):
        response = client.get(PATH, {"accept": accept})
        assert response.headers["content-type"] == accept
        assert (response.headers["cache-control"], response.headers["vary"]) == ("no-store", "Accept")
        assert "etag" not in response.headers
    refused(client.get(PATH, {"accept": "text/html"}), 406, "not_acceptable")


def test_other_methods_are_refused_and_head_has_no_body(client: Client) -> None:
    response = client.request("POST", PATH, json={})
    refused(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "GET, HEAD, OPTIONS"
    head = client.request("HEAD", PATH)
    assert (head.status_code, head.content) == (200, b"")
    assert client.request("OPTIONS", PATH).status_code == 204


def test_a_collection_where_text_is_not_returned_tells_no_text(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "a secret")])
    with serving(tmp_path, CONFIGURATION + "[collections.docs]\nreturn_text = false\n") as quiet:
        assert "secret" not in quiet.get(PATH).text
