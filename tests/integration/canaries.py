"""Documents with a word of its own in every member, and every surface of a server on which such a word could be shown.

The words of the texts are read from the store, so that no second opinion about what is text is held here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from aidre.api.protocols.nlweb.query.attribute_filters import subtypes_of
from aidre.engine.collection.store import Store
from aidre.engine.embedding.graph import HashingEmbedder
from aidre.engine.schema_text import BODIES, LABELS, PARTS, SUMMARIES, TITLES
from aidre.ingest.formats.jsonld import PART_TYPES
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.run import IngestOptions
from aidre.ingest.pipeline.run_events import DocumentProblem, Event
from aidre.ingest.records import parse_mappings
from tests.support.clients import AIDRE, TEXT, Client
from tests.support.intent_platform import Platform, Sent

COMMON = "numbat"
"""A word that every text has."""
CANARY = re.compile(r"canary[bcdfghjklm]+q")
LETTERS = str.maketrans("0123456789", "bcdfghjklm")
DECOY = {"id": "decoy", "text": f"{COMMON} and nothing to hide"}
CUSTOM = ("tool", "backstory", "experienceRequirements", "body", "comment", "hasPart", "offers")
"""Members that no text is taken from, and that a page may show all the same."""
MAPPING: Mapping[str, Any] = {"title": "name", "text": ["body", "brand", "articleBody", "notes.inner"]}
FILLER = "which is told at length. " * 2_000
"""As long as several chunks."""
TYPES = sorted({*subtypes_of("Thing"), *PART_TYPES})
MOST = 4_000
"""Results of one answer: more than there are documents."""


@dataclass
class Mint:
    numbers: Iterator[int] = field(default_factory=lambda: count(100_000))

    def word(self) -> str:
        """A word of letters alone, since words with digits are not completed."""
        return f"canary{str(next(self.numbers)).translate(LETTERS)}q"

    def words(self) -> str:
        return f"{COMMON} {self.word()}"


Shape = Callable[[Mint], Any]


def _step(mint: Mint) -> dict[str, Any]:
    return {
        "@type": "HowToStep",
        "name": mint.words(),
        "schema:text": mint.words(),
        "description": {"@value": mint.words()},
        "itemListElement": [{"@type": "HowToDirection", "text": mint.words()}, mint.words()],
        "item": {"name": mint.words(), "author": {"name": mint.words(), "description": mint.words()}},
        "tool": mint.words(),
    }


SHAPES: Mapping[str, Shape] = {
    "string": lambda mint: mint.words(),
    "strings": lambda mint: [mint.words(), "", mint.word()],
    "tagged": lambda mint: [{"@language": "en", "@value": mint.words()}, {"@value": [mint.words()]}],
    "object": _step,
    "objects": lambda mint: [_step(mint), mint.words()],
}
PREFIXES = ("", "schema:", "https://schema.org/", "http://schema.org/")
VARIANTS = (None, *BODIES)
"""The whole text that an object has; without one its summary and its parts are its text."""


def an_object(mint: Mint, kind: str, number: int, variant: str | None, shape: Shape, prefix: str) -> dict[str, Any]:
    """An object of a type with a canary in every member that text is taken from, and in some others."""
    members = [name for name in (*BODIES, *SUMMARIES, *PARTS) if name not in BODIES or name == variant]
    # One summary is not taken if there is another: which one is there is left to the number.
    members.remove(SUMMARIES[number % 2])
    item: dict[str, Any] = {prefix + name: shape(mint) for name in members}
    item |= {name: SHAPES["string"](mint) for name in CUSTOM}
    item["review"] = {"@type": "Review", "reviewBody": mint.words(), "author": {"name": mint.words()}}
    item["potentialAction"] = {"@type": "ReadAction", "name": mint.words(), "target": f"https://x.org/{mint.word()}"}
    return {
        "@context": "https://schema.org",
        "@type": prefix + kind,
        "@id": f"https://example.org/{number}",
        "url": f"https://example.org/{number}",
        "name": f"Title {mint.word()}",
        "keywords": [mint.words()],
        "price": 3,
        **item,
    }


def rows(mint: Mint) -> list[dict[str, Any]]:
    """An object of every type, whose forms take turns, and objects of all forms with every label."""
    shapes, numbers = list(SHAPES.values()), count()
    typed = [
        an_object(mint, kind, next(numbers), VARIANTS[at % 5], shapes[at // 5 % 5], PREFIXES[at // 25 % 4])
        for at, kind in enumerate(TYPES)
    ]
    forms = [
        an_object(mint, TYPES[at % len(TYPES)], next(numbers), *form)
        | {name: mint.words() for name in sorted(LABELS - {*TITLES, "url", "id"}) if name[0] != "@" and name != "type"}
        for at, form in enumerate(product(VARIANTS, shapes, PREFIXES))
    ]
    text = mint.words()
    brought = {"id": "brought", "text": text, "semantic_payload": {"@type": "Note", "content": text, "deep": [[text]]}}
    beside = {"@type": "Article", "id": "beside", "articleBody": text, "semantic_payload": {"copy": {"of": text}}}
    copied = {"@type": "Article", "id": "copied", "articleBody": text, "description": text, "fullText": [text]}
    top_level_list = {"id": "listed", "text": text, "semantic_payload": [{"@type": "Recipe", "tool": text}, text]}
    return [DECOY, *typed, *forms, brought, beside, copied, top_level_list]


def a_graph(mint: Mint) -> dict[str, Any]:
    """Objects of one text, of which one links to another."""
    recipe, person = (an_object(mint, kind, 0, None, SHAPES["string"], "") for kind in ("Recipe", "Person"))
    recipe |= {"@id": "https://example.org/node/recipe", "url": "https://example.org/node/recipe"}
    person |= {"@id": "https://example.org/node/person", "url": None}
    return {"@context": "https://schema.org", "@graph": [recipe | {"author": {"@id": person["@id"]}}, person]}


def pages(mint: Mint) -> dict[str, str]:
    """Web pages that show what their objects hold: one about a recipe, one about an article, one that lists several."""
    made: dict[str, str] = {}
    for name, kinds in {"recipe": ["Recipe"], "article": ["Article"], "list": ["Recipe", "Product"]}.items():
        words = {member: mint.words() for member in (*SUMMARIES, *PARTS, *CUSTOM)}
        words |= {"articleBody": mint.words()} if name == "article" else {}
        shown = "".join(
            f"<p>The {member} of the page is {text}, as everybody sees.</p>" for member, text in words.items()
        )
        objects = [{"@context": "https://schema.org", "@type": kind, "name": name, **words} for kind in kinds]
        script = f'<script type="application/ld+json">{json.dumps(objects)}</script>'
        made[name] = (
            f"<html><head><title>{name}</title>{script}</head><body><main><h1>{name}</h1>{shown}</main></body></html>"
        )
    return made


def mapped_rows(mint: Mint) -> list[dict[str, Any]]:
    """Rows whose text a mapping takes from members of its own choice, whatever an object of the type is usually."""
    plain = {"name": "plain", "body": mint.words(), "brand": mint.words(), "notes": {"inner": mint.words()}}
    first = mint.words()
    inner, long = mint.words(), f"{first} {FILLER}"
    made: list[dict[str, Any]] = [
        {"id": "m1", **plain},
        {"@type": "Product", "id": "m2", "name": "typed", "body": mint.words(), "brand": mint.words()},
        {"@type": "Article", "id": "m3", "name": "both", "articleBody": long, "notes": {"inner": inner}, "copy": inner},
        {"@type": "Article", "id": "m4", "name": "nested", "body": first, "x": {"brand": {"name": mint.words()}}},
    ]
    return [{**row, "url": f"https://example.org/{row['id']}"} for row in made]


def fill_with_canaries(folder: Path) -> Path:
    """The store: in the collection `docs` all of them, in `mapped` those of a mapping."""
    mint, store = Mint(), Store(folder / "store")
    files = {f"{name}.html": text.encode() for name, text in pages(mint).items()}
    files["rows.jsonl"] = b"\n".join(map(orjson.dumps, rows(mint)))
    files["graph.json"] = orjson.dumps(a_graph(mint))
    files["post.md"] = f"---\ndescription: {mint.words()}\n---\n# Post\n\n{mint.words()}\n".encode()
    written = {"docs": files, "mapped": {"rows.jsonl": b"\n".join(map(orjson.dumps, mapped_rows(mint)))}}
    for name, contents in written.items():
        (folder / name).mkdir()
        for file, content in contents.items():
            (folder / name / file).write_bytes(content)
        options = IngestOptions(mappings=parse_mappings(MAPPING, "mapping") if name == "mapped" else None)
        reported: list[Event] = []
        summary = ingest(
            store,
            name,
            [folder / name],
            spaces=(TEXT,),
            embedders={TEXT.id: HashingEmbedder(TEXT)},
            options=options,
            report=reported.append,
        )
        assert (summary.failed, summary.skipped) == (0, 0), [
            event for event in reported if isinstance(event, DocumentProblem)
        ]
    return store.path


@dataclass(frozen=True)
class Stored:
    """What the store holds of a collection: the ids of its documents, and the canaries of its texts that no title
    has."""

    documents: list[str]
    texts: frozenset[str]


def stored_canaries(store: Path, name: str) -> Stored:
    documents: list[str] = []
    texts: set[str] = set()
    for chunk in Store(store).open(name).scan():
        documents.append(chunk.document_id)
        texts.update(set(CANARY.findall(chunk.text)) - set(CANARY.findall(chunk.title or "")))
    return Stored(list(dict.fromkeys(documents)), frozenset(texts))


# -- surfaces ------------------------------------------------------------------------------------------------------

Shown = tuple[str, str]
"""The name of a surface and what it answered."""

TELLS_TEXT = frozenset(
    {
        "search", "search lexical", "search text", "search facets", "search highlight", "chunk", "browsed",
        "browsed beyond", "suggest", "ask", "ask summary", "ask app", "ask 0.54", "ask old", "ask address", "stream",
        "await", "mcp ask", "mcp search", "mcp fetch", "intent", "intake",
    }
)  # fmt: skip
"""Surfaces on which an open collection shows canaries of its texts: without this the others would prove nothing."""

PATHS = (
    "/", "/docs", "/llms.txt", "/metrics", "/openapi.json", "/healthz", "/readyz", "/sites", "/collections",
    "/.well-known/ai-discovery", "/.well-known/aip.json", "/.well-known/agent-intake.json", "/aip/capabilities",
    "/.well-known/oauth-protected-resource", "/collections/NAME", "/collections/NAME/profile",
    "/collections/NAME/changes", "/collections/NAME/browse?limit=500", "/robots.txt", "/sitemap.xml",
    "/opensearch.xml", "/catalog.jsonld", "/.well-known/api-catalog", "/.well-known/mcp/server-card.json",
    "/mcp/server-card", "/.well-known/ai-catalog.json",
)  # fmt: skip


def surfaces(client: Client, name: str, documents: list[str]) -> Iterator[Shown]:
    """All that a caller without a key can read of a collection, or about it."""
    yield from _searches(client, name)
    for path in PATHS:
        yield path, client.get(path.replace("NAME", name)).text
    yield "suggest", client.get(f"/collections/{name}/suggest?q=canaryc&limit=50").text
    for document in documents:
        place = f"/collections/{name}/browse/{quote(document, safe='')}"
        chunk = f"/chunks/{quote(f'{document}#chunk_1', safe='')}?collection={name}"
        yield "browsed", client.get(place).text
        yield "browsed beyond", client.get(f"{place}?offset=1000000").text
        yield "chunk", client.get(chunk).text
        head = client.request("HEAD", chunk)
        yield "chunk head", f"{head.headers}{head.text}"
        yield "chunk kept", client.get(chunk, {"if-none-match": head.headers.get("etag", "")}).text
    yield from _nlweb(client, name, documents)
    yield from agents(client)


def _searches(client: Client, name: str) -> Iterator[Shown]:
    asked = {"query": COMMON, "collection": name, "top_k": MOST}
    payload = {"return": {"semantic_payload": True, "metadata": True, "ids": True}}
    yield "search", client.search({**asked, **payload}).text
    yield "search lexical", client.search({**asked, **payload, "mode": "lexical"}).text
    yield "search text", client.search({**asked, "return": {"text": True}}).text
    yield "search highlight", client.search({**asked, "return": {"text": True}, "highlight": True}).text
    for zero in (0, -1):
        yield "search of none", client.search({**asked, **payload, "top_k": zero}).text
    for member in (*BODIES, *SUMMARIES, *PARTS, "body"):
        facets = {"facets": [{"field": member, "limit": 1_000}], "return": {"text": False}}
        yield "search facets", client.search({**asked, "top_k": 1, **facets}).text
        yield "search filter", client.search({**asked, "filter": {member: {"contains": COMMON}}}).text
    for at, asking in (("query", {"limit": 500}), ("count", {})):
        path = f"/collections/{name}/{at}"
        yield f"documents {at}", client.request("POST", path, json=asking, headers={"content-type": AIDRE}).text
    yield "search in the dark", client.search({**asked, "collection": f"{name}x", "filter": {"a": {"b": 1}}}).text


def _nlweb(client: Client, name: str, documents: list[str]) -> Iterator[Shown]:
    query = {"text": COMMON, "site": name, "limit": MOST}

    def ask(body: Any, path: str = "/ask") -> str:
        return client.request("POST", path, json=body, headers={"content-type": "application/json"}).text

    def call(method: str, params: Any) -> str:
        return ask({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, "/mcp")

    yield "ask", ask({"query": query})
    yield "ask summary", ask({"query": query, "prefer": {"mode": "list, summarize"}})
    yield "ask app", ask({"query": query, "prefer": {"response_format": "chatgpt_app", "mode": "summarize"}})
    yield "ask 0.54", ask({"query": query, "meta": {"api_version": "0.54"}})
    yield "ask old", ask({"query": COMMON, "site": name, "num_results": MOST})
    yield "ask address", client.get(f"/ask?query={COMMON}&site={name}&num_results={MOST}&streaming=false").text
    yield "ask filtered", ask({"query": {**query, "ingredients": COMMON, "description": COMMON}})
    yield "stream", ask({"query": query, "prefer": {"streaming": True, "mode": "summarize"}})
    promised = json.loads(ask({"query": query, "prefer": {"respond-async": True}}))
    token = promised.get("promise", {}).get("token", "none")
    for _ in range(200):
        answer = ask({"promise_token": token, "action": "checkin"}, "/await")
        if json.loads(answer)["_meta"]["response_type"] != "promise":
            break
    yield "await", answer
    prompt = {
        "ref": {"type": "ref/prompt", "name": "ask_with_sources"},
        "argument": {"name": "collection", "value": ""},
    }
    yield "mcp completion", call("completion/complete", prompt)
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        yield f"mcp {method}", call(method, {})
    yield "mcp resource", call("resources/read", {"uri": f"aidre://collections/{name}"})
    yield "mcp ask", call("tools/call", {"name": "ask", "arguments": {"query": query}})
    for more in ({}, {"k": 50, "collection": name, "mode": "lexical"}):
        yield "mcp search", call("tools/call", {"name": "search", "arguments": {"query": query, **more}})
    for document in documents:
        yield "mcp fetch", call("tools/call", {"name": "fetch", "arguments": {"id": f"{name}:{document}"}})


def agents(client: Client) -> Iterator[Shown]:
    def send(method: str, path: str, body: bytes, headers: dict[str, str]) -> Sent:
        response = client.request(method, path, content=body, headers=headers)
        return response.status_code, response.headers, response.content

    partner = Platform(send)
    yield "intent", partner.post("/aip/retrieve", partner.request(COMMON, domain="of.docs"))[2].decode()
    submission = {
        "aip_version": "0.1.0",
        "agent": {"id": "agent-1", "platform": "test", "consent_scope": ["intake", "offer"]},
        "intake_data": {"query": COMMON},
        "session_id": "0b9f2c0e-4a3c-4d3e-9f57-1f6f0c2b7a11",
    }
    headers = {"content-type": "application/json"}
    yield "intake", client.request("POST", "/intakes/find", json=submission, headers=headers).text
