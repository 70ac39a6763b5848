"""What the tests of NLWeb share: a store of recipes, products, places and pages, and the ways to ask it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Scope

from aidre.api.access.caller import Caller
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import embedding_keys, load_embedder
from aidre.engine.model import Chunk, Document, Record
from tests.support.clients import TEXT, Client, a_document, fill, serving

JSON = "application/json"
STREAM = "text/event-stream"
CONTENT = {"answer": {"results"}, "elicitation": {"elicitation"}, "promise": {"promise"}, "failure": {"error"}}
"""What stands beside `_meta`, by response type."""

CONFIGURATION = """
[server]
base_url = "http://127.0.0.1:8000"
[limits]
top_k_default = 7
top_k_max = 20
query_chars = 100
body_bytes = 20_000
[collections.textless]
return_text = false
[collections.shut]
visibility = "private"
[collections.elsewhere]
protocols = ["aidre"]
[nlweb]
min_score = 0
sites = ["recipes.example"]
"""

PASTA: dict[str, Any] = {
    "@context": "https://schema.org",
    "@type": "Recipe",
    "@id": "https://recipes.example/pasta#recipe",
    "name": "Classic Homemade Pasta Dough",
    "url": "https://recipes.example/pasta",
    "description": "Traditional Italian egg pasta dough with flour.",
    "cookTime": "PT45M",
    "nutrition": {"@type": "NutritionInformation", "calories": "220 calories", "proteinContent": "18g"},
    "recipeIngredient": ["4 large eggs", "flour", "Ça 😀 <salt> & pepper"],
    "image": ["https://recipes.example/1.jpg", {"@type": "ImageObject", "url": "https://recipes.example/2.jpg"}],
    "articleBody": "SENTINEL the whole body of the pasta article.",
    "isFamilyFriendly": True,
    "zero": None,
}


def an_object(identifier: str, text: str, item: Mapping[str, Any], **members: Any) -> Document:
    known = {"title": item.get("name"), "url": item.get("url"), "type": _kind(item), **members}
    return a_document(identifier, text, schema_object=dict(item), semantic_payload=dict(item), **known)


def _kind(item: Mapping[str, Any]) -> Any:
    kind = item.get("@type")
    return kind[0] if isinstance(kind, list) else kind


def recipe(number: int, **members: Any) -> Document:
    url = f"https://www.breakfast.example/eggs-{number}"
    item = {"@type": "Recipe", "name": f"Eggs number {number}", "url": url, "description": f"Eggs, {number} ways."}
    return an_object(f"eggs_{number}", f"healthy breakfast eggs number {number}", {**item, **members})


def documents() -> list[Document]:
    idaho = {
        "@type": "Restaurant",
        "name": "Idaho Pumpkin Place",
        "address": {"@type": "PostalAddress", "addressRegion": "Idaho"},
        "url": "https://places.example/idaho",
    }
    reserved = {"@type": "Thing", "name": "Odd", "score": "mine", "site": "mine", "actions": [{"name": "own"}]}
    return [
        *(recipe(number) for number in range(9)),
        an_object("pasta", "homemade pasta dough egg flour tutorial", PASTA),
        *(
            an_object(
                f"lamp_{price}",
                f"reading lamp at {price}",
                {"@type": ["Product", "IndividualProduct"], "name": f"Lamp {price}", "offers": {"price": price}},
            )
            for price in (5, 15, 25)
        ),
        an_object("idaho", "pumpkin restaurant in Idaho", idaho),
        an_object("odd", "an odd object", reserved),
        a_document("notes/story.md", "a story of cinnamon. " * 40, title="Story"),
        a_document("page", "a page of cinnamon", title="Page", url="https://pages.example/c"),
    ]


def fill_all(store: Path) -> None:
    fill(store, "docs", documents())
    fill(
        store,
        "textless",
        [an_object("hidden_text", "SENTINEL secret sauce passage", {**PASTA, "name": "Secret sauce"})],
    )
    fill(store, "shut", [a_document("shut", "private cinnamon", url="https://shut.example/x")], visibility="private")
    fill(store, "elsewhere", [a_document("elsewhere", "elsewhere cinnamon", url="https://elsewhere.example/x")])
    fill_chunks(store, "long", {"book": [f"whale chapter {n}" for n in range(40)], "leaf": ["one whale leaf"]})


def fill_chunks(store: Path, name: str, texts: Mapping[str, Sequence[str]]) -> None:
    """Documents of several chunks."""
    records, embedded = [], [text for parts in texts.values() for text in parts]
    for identifier, parts in texts.items():
        whole, chunks = "", []
        for number, text in enumerate(parts, 1):
            chunks.append(Chunk(f"{identifier}#chunk_{number}", number, text, len(whole), len(whole) + len(text)))
            whole += text
        digest = hashlib.blake2b(whole.encode(), digest_size=16).digest()
        records.append(Record(a_document(identifier, whole, title=identifier.title()), tuple(chunks), digest))
    with Store(store).writer(name, spaces=[TEXT], description=f"About {name}") as writer:
        vectors = writer.encode(TEXT.id, load_embedder(TEXT).embed_documents(embedded))
        writer.upsert(records, {TEXT.id: vectors}, {TEXT.id: embedding_keys(TEXT, embedded)})
        writer.commit()


def ask(client: Client, body: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.request("POST", "/ask", json=body, headers={"content-type": JSON, **named})


def query(text: str = "cinnamon", **members: Any) -> dict[str, Any]:
    return {"query": {"text": text, **members}}


ASYNC = {**query(), "prefer": {"respond-async": True}}
CHATGPT = {"response_format": "chatgpt_app"}


def preferring(**prefer: Any) -> dict[str, Any]:
    return {**query(), "prefer": prefer}


def told(response: httpx.Response, kind: str, status: int = 200) -> dict[str, Any]:
    """The body of a response of that type, after its envelope has been checked (E1, E2, E3, E6)."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == JSON
    body: dict[str, Any] = response.json()
    assert body["_meta"]["response_type"] == kind, response.text
    assert body["_meta"]["version"] == "0.55"
    app = body["_meta"].get("response_format") == "chatgpt_app" and kind == "answer"
    assert set(body) == {"_meta"} | ({"content", "structuredData"} if app else CONTENT[kind])
    return body


def results(response: httpx.Response) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = told(response, "answer")["results"]
    return found


def failed(response: httpx.Response, code: str, status: int = 200) -> str:
    """The message of a failure."""
    error = told(response, "failure", status)["error"]
    assert error["code"] == code
    assert set(error) == {"code", "message"}
    message: str = error["message"]
    assert message and "\n" not in message and "Traceback" not in message
    return message


def names(response: httpx.Response) -> list[str]:
    return [item["name"] for item in results(response)]


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream; `name` is empty where it has none."""

    name: str
    data: Any


def events(response: httpx.Response) -> list[Event]:
    """The events of a stream, after its form has been checked (S1, S6)."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].partition(";")[0] == STREAM
    assert response.headers["cache-control"] == "no-cache"
    text = response.content.decode("utf-8")
    assert text.endswith("\n\n")
    return [parsed(block) for block in text.removesuffix("\n\n").split("\n\n")]


def parsed(block: str) -> Event:
    name = ""
    [*named, data] = block.split("\n")
    for line in named:
        assert line.startswith("event: ")
        name = line.removeprefix("event: ")
    assert data.startswith("data: ")
    return Event(name, json.loads(data.removeprefix("data: ")))


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose collections no test changes."""
    store = tmp_path_factory.mktemp("store")
    fill_all(store)
    return store


@pytest.fixture(scope="session")
def client(filled: Path) -> Iterator[Client]:
    """A server over that store."""
    with serving(filled, CONFIGURATION) as shared:
        yield shared


def as_caller(client: Client, caller: Caller, path: str, body: Any) -> httpx.Response:
    """Asks as a caller with a name."""

    def admit(scope: Scope) -> list[tuple[bytes, bytes]]:
        scope["state"]["caller"] = caller
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client.app.state.guard, "admit", admit)
        return client.request("POST", path, json=body)


def without_time(body: Any) -> Any:
    return {**body, "_meta": {name: value for name, value in body["_meta"].items() if name != "processing_time_ms"}}
