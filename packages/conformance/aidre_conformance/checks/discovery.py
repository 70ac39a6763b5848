"""Checks of AIDRE: the discovery document, collections and chunks (draft-batum-aidre-00)."""

from __future__ import annotations

import hashlib
import re
from typing import Any
from urllib.parse import quote, urlsplit

from aidre_conformance import (
    AIDRE_JSON,
    JSON,
    Checks,
    Exchange,
    Failed,
    NotTestable,
    Target,
    expect,
    expect_shape,
    is_loopback,
    is_timestamp,
    require,
    shown,
)

CHECKS = Checks("aidre", "AIDRE")
WELL_KNOWN = "ai-discovery"
ENDPOINTS = ("search", "collections", "chunk")
SAMPLE_WORDS = ("the", "a", "information", "help", "how", "and", "of")
"""Questions that are tried where no fixture gives one and the collections' descriptions do not help."""
MAX_CHUNKS = 12
"""That are looked up."""


# -- facts -----------------------------------------------------------------------------------------------------------


def discovery(target: Target) -> dict[str, Any]:
    """The discovery document. NotTestable without one."""

    def read() -> dict[str, Any]:
        answer = target.well_known(WELL_KNOWN)
        require(answer.status == 200, f"{answer.name}: there is no discovery document")
        return answer.object

    return target.once("discovery", read)


def endpoint(target: Target, name: str) -> str:
    """The URL of an endpoint. NotTestable where the document names none."""
    endpoints = discovery(target).get("endpoints")
    url = endpoints.get(name) if isinstance(endpoints, dict) else None
    require(isinstance(url, str) and url, f"the discovery document has no endpoints.{name}")
    return str(url)


def capability(target: Target, name: str) -> bool | None:
    """Whether the server advertises a capability; None where it says nothing."""
    capabilities = discovery(target).get("capabilities")
    value = capabilities.get(name) if isinstance(capabilities, dict) else None
    return value if isinstance(value, bool) else None


def spaces(target: Target) -> list[dict[str, Any]]:
    """The advertised embedding spaces. NotTestable without one."""
    listed = discovery(target).get("embedding_spaces")
    require(isinstance(listed, list) and listed, "no embedding space is advertised")
    return [space for space in listed or () if isinstance(space, dict)]


def collections(target: Target) -> list[dict[str, Any]]:
    """The collections that everybody may see. The draft does not define the body: a list, or a member that is one."""

    def read() -> list[dict[str, Any]]:
        answer = target.get(endpoint(target, "collections"), accept=AIDRE_JSON)
        require(answer.status == 200, answer.name)
        body = answer.json
        listed = body.get("collections") if isinstance(body, dict) else body
        if not isinstance(listed, list):
            raise NotTestable("the list of collections has a form that is not known")
        return [collection for collection in listed if isinstance(collection, dict)]

    return target.once("collections", read)


def search(target: Target, body: Any, **headers: str) -> Exchange:
    """Searches, with the media type that clients have to send."""
    accepted = {"content_type": AIDRE_JSON, "accept": AIDRE_JSON, **headers}
    return target.post(endpoint(target, "search"), body, **accepted)


def sample(target: Target) -> dict[str, Any]:
    """The members of a search that has results; several where it can be found."""

    def find() -> dict[str, Any]:
        best: tuple[int, dict[str, Any]] | None = None
        for request in _candidates(target):
            answer = search(target, {**request, "top_k": 10})
            results = answer.object.get("results") if answer.status == 200 else None
            found = len(results) if isinstance(results, list) else 0
            if found and (best is None or found > best[0]):
                best = (found, request)
            if found >= 3:
                break
        require(best is not None, "no question was found that has results: give the fixtures `query` and `collection`")
        assert best is not None
        return best[1]

    return target.once("sample", find)


def _candidates(target: Target) -> list[dict[str, Any]]:
    fixtures = target.fixtures
    try:
        listed = [collection for collection in collections(target) if isinstance(collection.get("name"), str)]
    except (Failed, NotTestable):  # without a list the default collection is asked
        listed = []
    words = [
        " ".join(str(collection.get(name, "")) for name in ("name", "description")).strip() for collection in listed
    ]
    queries = [fixtures.query] if fixtures.query else [*(text for text in words if text), *SAMPLE_WORDS]
    named = [fixtures.collection] if fixtures.collection else [None, *(collection["name"] for collection in listed[:5])]
    requests = [
        {"query": query} | ({} if name is None else {"collection": name}) for query in queries for name in named
    ]
    return requests[:40]


def results_of(answer: Exchange) -> list[dict[str, Any]]:
    """The results of a search. Failed where it did not succeed."""
    expect(answer.status == 200, f"{answer.name}, expected 200: {shown(answer.body[:200].decode(errors='replace'))}")
    results = answer.object.get("results")
    expect(isinstance(results, list), f"{answer.name}: `results` is not an array")
    expect(all(isinstance(result, dict) for result in results or ()), f"{answer.name}: a result is not an object")
    return list(results or ())


def sample_results(target: Target) -> list[dict[str, Any]]:
    """Results with their text, where the server gives it."""

    def read() -> list[dict[str, Any]]:
        wanted = {"ids": True, "metadata": True, "text": capability(target, "return_text") is not False}
        found = results_of(search(target, {**sample(target), "top_k": 10, "return": wanted}))
        require(found, "the search has no results")
        return found

    return target.once("sample results", read)


def chunk_url(target: Target, chunk_id: str) -> str:
    """The chunk template with an id (RFC 6570), and without an optional query such as `{?collection}`."""
    template = endpoint(target, "chunk")
    require("{id}" in template, "endpoints.chunk has no {id}")
    return re.sub(r"\{\?[^{}]*\}", "", template).replace("{id}", quote(chunk_id, safe="-._~"))


def sample_ids(target: Target) -> list[str]:
    ids = [result["id"] for result in sample_results(target) if isinstance(result.get("id"), str)]
    require(ids, "results have no ids")
    return ids[:MAX_CHUNKS]


# -- discovery -------------------------------------------------------------------------------------------------------


@CHECKS.add(
    "3.1", "MUST", "An origin implementing AIDRE MUST expose the discovery document at /.well-known/ai-discovery."
)
def _document(target: Target) -> None:
    answer = target.well_known(WELL_KNOWN)
    require(answer.status not in {404, 410}, f"{answer.name}: the server does not speak AIDRE")
    expect(answer.status == 200, f"{answer.name}, expected 200")
    expect(isinstance(answer.object, dict), "it is not an object")


@CHECKS.add("3.2", "MUST", "The discovery document MUST be served as application/json.")
def _media_type(target: Target) -> None:
    discovery(target)
    url = f"{target.origin}/.well-known/{WELL_KNOWN}"
    for accept in (None, "*/*", JSON):
        answer = target.get(url) if accept is None else target.get(url, accept=accept)
        expect(answer.media_type == JSON, f"with Accept: {accept} it is {answer.media_type or 'without a type'}")
    answer = target.get(url, accept=f"{AIDRE_JSON}, {JSON}")
    expect(answer.media_type in {JSON, AIDRE_JSON}, f"it is {answer.media_type}")  # the example of 24.1 contradicts 3.2


@CHECKS.add("3.1", "MUST", "... over HTTPS using a well-known URI as defined in [RFC8615].")
def _https(target: Target) -> None:
    for name in ENDPOINTS:
        url = endpoint(target, name)
        if urlsplit(url).netloc:
            expect(url.startswith("https://") or is_loopback(url), f"endpoints.{name} is not https: {shown(url)}")


@CHECKS.add("23.1", "MUST", "The discovery document MUST contain a version member.")
def _version(target: Target) -> None:
    version = discovery(target).get("version")
    expect(isinstance(version, str) and version, f"version is {shown(version)}")


@CHECKS.add("3.4", "SHOULD", '"endpoints": search, collections, chunk', reading="absolute URLs; chunk a template")
def _endpoints(target: Target) -> None:
    endpoints = discovery(target).get("endpoints")
    for name in ENDPOINTS:
        url = endpoints.get(name) if isinstance(endpoints, dict) else None
        expect(isinstance(url, str) and urlsplit(url).netloc, f"endpoints.{name} is {shown(url)}")
    expect("{id}" in endpoint(target, "chunk"), "endpoints.chunk has no {id}")


@CHECKS.add("19.1", "MUST", "Each embedding space advertised by the server MUST include: id, dimensions, distance.")
def _space_members(target: Target) -> None:
    members = {
        "id": {"type": "string", "minLength": 1},
        "dimensions": {"type": "integer", "minimum": 1},
        "distance": {"type": "string", "minLength": 1},
    }
    schema = {"type": "array", "items": {"type": "object", "required": list(members), "properties": members}}
    spaces(target)
    listed = discovery(target)["embedding_spaces"]
    expect_shape(listed, schema, "embedding_spaces")
    ids = [space["id"] for space in listed]
    expect(len(set(ids)) == len(ids), "two embedding spaces have one id")


@CHECKS.add("19.1", "SHOULD", "It SHOULD also include: normalized, provider, model, revision.")
def _space_description(target: Target) -> None:
    stated = {"type": ["string", "null"]}  # null: vectors that come with the rows are of no known model
    members = {"normalized": {"type": "boolean"}} | dict.fromkeys(("provider", "model", "revision"), stated)
    schema = {"type": "object", "required": list(members), "properties": members}
    for number, space in enumerate(spaces(target)):
        expect_shape(space, schema, f"embedding_spaces[{number}]")


@CHECKS.add("9", "SHOULD", "Servers SHOULD expose: etag.", reading="an ETag of the discovery document")
def _discovery_etag(target: Target) -> None:
    discovery(target)
    expect(target.well_known(WELL_KNOWN).header("etag"), "the discovery document has no ETag")


@CHECKS.add(
    "13.1.2",
    "MUST",
    "... MUST NOT perform the requested method if the condition evaluates to false; instead, 304 (Not Modified).",
    text="RFC 9110",
)
def _not_modified(target: Target) -> None:
    discovery(target)
    addresses = [f"{target.origin}/.well-known/{WELL_KNOWN}", endpoint(target, "collections")]
    addresses += [chunk_url(target, chunk_id) for chunk_id in sample_ids(target)[:1]]
    tested = False
    for url in addresses:
        tag = target.get(url).header("etag")
        if tag is None:
            continue
        tested = True
        answer = target.get(url, if_none_match=tag)
        expect(answer.status == 304, f"{answer.name} for If-None-Match: {tag}, expected 304")
        expect(not answer.body, f"{answer.name}: a 304 has no body")
    require(tested, "no answer has an ETag")


@CHECKS.add(
    "11.6", "SHOULD", "Discovery documents SHOULD avoid revealing unnecessary detail about protected collections."
)
def _discovery_names_nothing_private(target: Target) -> None:
    private = target.fixture("private_collection")
    discovery(target)
    expect(private.encode() not in target.well_known(WELL_KNOWN).content, "the document names the private collection")


# -- collections -----------------------------------------------------------------------------------------------------


@CHECKS.add("15.1", "MUST", "The discovery and collection resources MUST support HTTP GET.")
def _collections(target: Target) -> None:
    answer = target.get(endpoint(target, "collections"), accept=AIDRE_JSON)
    expect(answer.status == 200, f"{answer.name}, expected 200")
    expect(isinstance(answer.json, (dict, list)), "it is neither an object nor a list")


@CHECKS.add("4", "SHOULD", "Each collection SHOULD define: name, description, visibility, updated_at.")
def _collection_members(target: Target) -> None:
    listed = collections(target)
    require(listed, "there is no public collection")
    for collection in listed:
        for name in ("name", "description", "visibility"):
            expect(
                isinstance(collection.get(name), str),
                f"{shown(collection.get('name'))}: {name} is {shown(collection.get(name))}",
            )
        expect(
            is_timestamp(collection.get("updated_at")),
            f"{shown(collection.get('name'))}: updated_at is {shown(collection.get('updated_at'))}",
        )


@CHECKS.add(
    "11.6", "MUST", "Private or tenant-scoped collections MUST be protected by appropriate authorization controls."
)
def _private_collection(target: Target) -> None:
    listed = {collection.get("name"): collection for collection in collections(target)}
    hidden = {name for name, collection in listed.items() if collection.get("visibility") == "private"}
    if target.fixtures.private_collection:
        hidden.add(target.fixtures.private_collection)
        expect(target.fixtures.private_collection not in listed, "the private collection is listed to everybody")
    require(hidden, "no fixture `private_collection`, and no collection says that it is private")
    for name in hidden:
        answer = search(target, {"query": target.fixtures.query or "a", "collection": name})
        expect(answer.status in {401, 403, 404}, f"{answer.name} for the private collection {shown(name)}")
    if target.fixtures.private_chunk:
        answer = target.get(chunk_url(target, target.fixtures.private_chunk))
        expect(answer.status in {401, 403, 404}, f"{answer.name} for a private chunk")


@CHECKS.add(
    "11.6",
    "MUST",
    "Private or tenant-scoped collections MUST be protected ...",
    reading="and who has a key that opens one may search it",
)
def _private_collection_with_a_key(target: Target) -> None:
    name = target.fixture("private_collection")
    body = {"query": target.fixtures.query or "a", "collection": name}
    answer = search(target, body, **target.authorization(endpoint(target, "search")))
    results_of(answer)


@CHECKS.add(
    "11.6.1", "MUST", "The server generating a 401 response MUST send a WWW-Authenticate header field.", text="RFC 9110"
)
def _challenge(target: Target) -> None:
    tested = False
    for url in (endpoint(target, "collections"), f"{target.origin}/.well-known/{WELL_KNOWN}"):
        answer = target.get(url, authorization="Bearer no-such-key")
        if answer.status == 401:
            tested = True
            expect(answer.header("www-authenticate"), f"{answer.name} without WWW-Authenticate")
    require(tested, "a wrong key is not refused with 401")


# -- chunks ----------------------------------------------------------------------------------------------------------


@CHECKS.add("15.1", "MUST", "The chunk dereference resource MUST support HTTP GET.")
def _chunk(target: Target) -> None:
    for chunk_id in sample_ids(target):
        answer = target.get(chunk_url(target, chunk_id), accept=AIDRE_JSON)
        expect(answer.status == 200, f"{answer.name}, expected 200 for the id of a result")
        expect(answer.object.get("id") == chunk_id, f"{answer.name}: id is {shown(answer.object.get('id'))}")


@CHECKS.add(
    "8",
    "SHOULD",
    "Servers SHOULD support: GET /chunks/{id}",
    reading="and answer with that chunk: its text is that of the result",
)
def _chunk_of_the_result(target: Target) -> None:
    with_text = [result for result in sample_results(target) if isinstance(result.get("text"), str) and "id" in result]
    require(with_text, "results have no text")
    for result in with_text[:MAX_CHUNKS]:
        answer = target.get(chunk_url(target, result["id"]), accept=AIDRE_JSON)
        require(answer.status == 200, answer.name)
        text = answer.object.get("text")
        expect(
            text in {None, result["text"]}, f"{answer.name}: the text is not that of the result {shown(result['id'])}"
        )


@CHECKS.add("15.4", "SHOULD", "404 Not Found: resource identifier not found.")
def _unknown_chunk(target: Target) -> None:
    for chunk_id in ("no-such-chunk-5b1f", "no/such#chunk 5b1f", "ÿ%"):
        answer = target.get(chunk_url(target, chunk_id), accept=AIDRE_JSON)
        expect(answer.status == 404, f"{answer.name}, expected 404")


@CHECKS.add("9", "SHOULD", "Servers SHOULD expose: content_hash, updated_at, etag.")
def _freshness(target: Target) -> None:
    answer = target.get(chunk_url(target, sample_ids(target)[0]), accept=AIDRE_JSON)
    require(answer.status == 200, answer.name)
    metadata = {**answer.object, **_metadata(answer.object)}
    for name in ("content_hash", "updated_at"):
        expect(isinstance(metadata.get(name), str), f"{answer.name}: {name} is {shown(metadata.get(name))}")
    expect(is_timestamp(metadata["updated_at"]), f"updated_at is {shown(metadata['updated_at'])}")
    expect("etag" in metadata or answer.header("etag"), f"{answer.name}: no etag")


@CHECKS.add(
    "9",
    "SHOULD",
    "Servers SHOULD expose: content_hash.",
    reading="where it begins with sha256: it is the SHA-256 of the text in UTF-8, or clients cannot use it",
)
def _content_hash(target: Target) -> None:
    hashed = [
        (result["text"], _metadata(result).get("content_hash"))
        for result in sample_results(target)
        if isinstance(result.get("text"), str) and str(_metadata(result).get("content_hash")).startswith("sha256:")
    ]
    require(hashed, "no result has a text and a content_hash by SHA-256")
    for text, stated in hashed:
        digest = hashlib.sha256(text.encode()).hexdigest()
        expect(str(stated).lower() == f"sha256:{digest}", f"content_hash {shown(stated)} is not that of the text")


def _metadata(result: dict[str, Any]) -> dict[str, Any]:
    metadata = result.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
