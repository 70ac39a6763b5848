"""Faults of AIDRE (draft-batum-aidre-00)."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from tests.wrong_servers.faults.exchange import (
    Answer,
    App,
    Fault,
    Request,
    in_turn,
    on_answer,
    on_json,
    on_request,
    on_request_json,
)
from tests.wrong_servers.faults.fixtures import FIXTURES

SEARCH, CHUNK, COLLECTIONS, DISCOVERY = "/search", "/chunks/", "/collections", "/.well-known/ai-discovery"
AIDRE = "application/aidre+json"
ERRORS = range(400, 600)
KNOWN = {
    *("query", "query_vector", "embedding_space", "collection", "top_k", "return", "cursor"),
    *("filter", "mode", "facets", "highlight"),
}
"""Members of a search."""
_fault = partial(Fault, protocol="aidre")


def _drop_version(document: Any) -> None:
    document.pop("version", None)


def _drop_distances(document: Any) -> None:
    for space in document.get("embedding_spaces", ()):
        space.pop("distance", None)


def _drop_updated_at(document: Any) -> None:
    for collection in document.get("collections", ()):
        collection.pop("updated_at", None)


def _prefer_text(body: Any) -> None:
    if "query" in body and "query_vector" in body:
        body.pop("query_vector")
        body.pop("embedding_space", None)


def _unwrap(body: Any) -> None:
    if len(body["results"]) == 1:
        [body["results"]] = body["results"]


async def _one_too_many(request: Request, app: App) -> Answer:
    body = request.json
    asked = body.get("top_k") if isinstance(body, dict) else None
    if not request.is_for("POST", SEARCH) or type(asked) is not int or asked < 1:
        return await app(request)
    answer = await app(request.with_json({**body, "top_k": asked + 1}))
    if answer.status != 200:
        return answer
    found = answer.json
    return answer.with_json({**found, "meta": {**found["meta"], "top_k": min(asked, found["meta"]["top_k"])}})


def _forget_negative(body: Any) -> None:
    if type(body.get("top_k")) is int and body["top_k"] < 0:
        body.pop("top_k")


async def _truncate(request: Request, app: App) -> Answer:
    body = request.json
    if (
        not request.is_for("POST", SEARCH)
        or not isinstance(body, dict)
        or not isinstance(body.get("query_vector"), list)
    ):
        return await app(request)
    discovered = (await app(replace(request, method="GET", target=DISCOVERY.encode(), body=b""))).json
    known = [space for space in discovered.get("embedding_spaces", ()) if space["id"] == body.get("embedding_space")]
    length = known[0]["dimensions"] if known else len(body["query_vector"])
    return await app(request.with_json({**body, "query_vector": body["query_vector"][:length]}))


def _scale(answer: Answer) -> Answer:
    vector = answer.request.json.get("query_vector")
    if not isinstance(vector, list):
        return answer
    body = answer.json
    for result in body["results"]:
        result["score"] *= math.sqrt(sum(value * value for value in vector))
    return answer.with_json(body)


def _reverse(body: Any) -> None:
    body["results"].reverse()


def _plain(answer: Answer) -> Answer:
    message = str(answer.json["message"]) if answer.json is not None else ""
    return answer.with_body(message.encode()).with_header("content-type", "text/plain; charset=utf-8")


def _drop_request_id(body: Any) -> None:
    body.pop("request_id", None)


def _error_is_message(body: Any) -> None:
    body["error"] = body.get("message", "It failed.")


def _same_request_id(answer: Answer) -> Answer:
    return answer.with_json({**answer.json, "request_id": "req_1"}).with_header("x-request-id", "req_1")


def _refuse_parameters(request: Request) -> Request:
    kind, semicolon, _ = (request.header("content-type") or "").partition(";")
    is_refused = kind.strip() == AIDRE and bool(semicolon)
    return request.with_header("content-type", "text/plain") if is_refused else request


def _latin(answer: Answer) -> Answer:
    """What Latin-1 lacks is escaped; the JSON is whole for a reader that takes it for Latin-1."""
    return answer.with_body(answer.body.decode().encode("latin-1", errors="backslashreplace"))


def _add_vectors(answer: Answer) -> Answer:
    body = answer.json
    asked = answer.request.json.get("return")
    if isinstance(asked, dict) and asked.get("vectors"):
        return answer
    for result in body["results"]:
        digest = hashlib.blake2b(result["id"].encode(), digest_size=64).digest()
        space = body["meta"].get("embedding_space", "default")
        result["vectors"] = {space: [round(byte / 255 - 0.5, 6) for byte in digest]}
    return answer.with_json(body)


async def _refuse_unknown(request: Request, app: App) -> Answer:
    body = request.json
    if not request.is_for("POST", SEARCH) or not isinstance(body, dict) or KNOWN.issuperset(body):
        return await app(request)
    answer = await app(request.with_json({}))
    unknown = sorted(set(body) - KNOWN)
    return answer.with_json({**answer.json, "message": f"unknown members: {', '.join(unknown)}", "details": {}})


async def _next_chunk(request: Request, app: App) -> Answer:
    numbered = re.fullmatch(r"(.*#chunk_)(\d+)", request.path.removeprefix(CHUNK))
    if not request.is_for("GET", CHUNK) or numbered is None:
        return await app(request)
    for number in (int(numbered[2]) + 1, 1):
        target = CHUNK + quote(f"{numbered[1]}{number}", safe="")
        answer = await app(replace(request, target=target.encode()))
        if answer.status == 200:
            return answer.with_json({**answer.json, "id": numbered[0]})
    return await app(request)


def _split_at_slashes(request: Request) -> Request:
    is_refused = b"%2f" in request.target.lower()
    return replace(request, target=f"{CHUNK}no-route-for-this".encode()) if is_refused else request


def _hash_again(body: Any) -> None:
    """In results, and in a chunk."""
    for found in body.get("results", [body]):
        digest = found.get("metadata", {}).get("content_hash")
        if digest is not None:
            again = hashlib.sha256(digest.removeprefix("sha256:").encode()).hexdigest()
            found["metadata"]["content_hash"] = f"sha256:{again}"


def _authorize(request: Request) -> Request:
    if request.header("authorization") is not None:
        return request
    return request.with_header("authorization", f"Bearer {FIXTURES.bearer}")


async def _overlap(request: Request, app: App) -> Answer:
    """The next page begins with the last result of this one."""
    answer = await app(request)
    if not request.is_for("POST", SEARCH) or answer.status != 200 or len(answer.json["results"]) < 2:
        return answer
    found = answer.json
    shorter = (await app(request.with_json({**request.json, "top_k": len(found["results"]) - 1}))).json
    if "next_cursor" not in found["meta"]:
        return answer
    return answer.with_json({**found, "meta": {**found["meta"], "next_cursor": shorter["meta"]["next_cursor"]}})


AIDRE_FAULTS = (
    _fault(
        "aidre_discovery_without_version",
        level="MUST",
        sentence="The discovery document MUST contain a version member.",
        section="23.1",
        transform=on_json("GET", DISCOVERY, _drop_version),
    ),
    _fault(
        "aidre_discovery_as_aidre_json",
        level="MUST",
        sentence="The discovery document MUST be served as application/json.",
        section="3.2",
        transform=on_answer("GET", DISCOVERY, lambda answer: answer.with_header("content-type", AIDRE), 200),
    ),
    _fault(
        "aidre_space_without_distance",
        level="MUST",
        sentence="Each embedding space advertised by the server MUST include: id, dimensions, distance.",
        section="19.1",
        transform=on_json("GET", DISCOVERY, _drop_distances),
    ),
    _fault(
        "aidre_collection_without_updated_at",
        level="SHOULD",
        sentence="Each collection SHOULD define: name, description, visibility, updated_at.",
        section="4",
        transform=on_json("GET", COLLECTIONS, _drop_updated_at, 200),
    ),
    _fault(
        "aidre_query_beside_vector",
        level="MUST",
        sentence="A request MUST include exactly one of: query, query_vector.",
        section="5.1",
        transform=on_request_json("POST", SEARCH, _prefer_text),
    ),
    _fault(
        "aidre_single_result_unwrapped",
        level="MUST",
        sentence="A successful search response MUST be a JSON object containing a results member whose value is an "
        "array.",
        section="16.1",
        transform=on_json("POST", SEARCH, _unwrap, 200),
    ),
    _fault(
        "aidre_top_k_off_by_one",
        level="definition",
        sentence="The top_k member requests the maximum number of results returned.",
        section="18.1",
        transform=_one_too_many,
    ),
    _fault(
        "aidre_negative_top_k",
        level="MUST",
        sentence="Servers MUST reject non-positive top_k values.",
        section="18.1",
        transform=on_request_json("POST", SEARCH, _forget_negative),
    ),
    _fault(
        "aidre_long_vector_truncated",
        level="MUST",
        sentence="If a query_vector length does not match the dimensions declared for the requested embedding space, "
        "the server MUST reject the request with 422 Unprocessable Entity.",
        section="19.2",
        transform=_truncate,
    ),
    _fault(
        "aidre_cosine_as_dot_product",
        level="MUST",
        sentence="The server MUST evaluate query vectors according to the distance function declared by the embedding "
        "space.",
        section="19.3",
        transform=on_answer("POST", SEARCH, _scale, 200),
    ),
    _fault(
        "aidre_worst_first",
        level="definition",
        sentence="The top_k member requests the maximum number of results returned; a result has a score.",
        section="18.1, 7.2",
        transform=on_json("POST", SEARCH, _reverse, 200),
    ),
    _fault(
        "aidre_error_as_text",
        level="MUST",
        sentence="Errors MUST be JSON objects.",
        section="10, 17.1",
        transform=on_answer("GET", CHUNK, _plain, 404),
    ),
    _fault(
        "aidre_error_without_request_id",
        level="SHOULD",
        sentence="Error responses SHOULD contain: error, message, details, request_id.",
        section="17.1",
        transform=on_json("POST", SEARCH, _drop_request_id, *ERRORS),
    ),
    _fault(
        "aidre_error_code_is_prose",
        level="SHOULD",
        sentence="Servers SHOULD use stable, machine-readable error values.",
        section="17.3",
        transform=on_json("POST", SEARCH, _error_is_message, *ERRORS),
    ),
    _fault(
        "aidre_request_id_repeated",
        level="SHOULD",
        sentence="A request identifier SHOULD be unique within operationally relevant scope.",
        section="16.3",
        transform=on_answer("POST", SEARCH, _same_request_id),
    ),
    _fault(
        "aidre_charset_refused",
        level="SHOULD",
        sentence="AIDRE request and response bodies SHOULD use the media type application/aidre+json.",
        section="14.1, 15.2",
        transform=on_request("POST", SEARCH, _refuse_parameters),
    ),
    _fault(
        "aidre_latin_1",
        level="MUST",
        sentence="AIDRE JSON payloads MUST use UTF-8 encoding.",
        section="14.2",
        transform=on_answer("GET", CHUNK, _latin, 200),
    ),
    _fault(
        "aidre_vectors_unasked",
        level="SHOULD",
        sentence="Servers SHOULD NOT return vectors by default.",
        section="7.3, 11.2",
        transform=on_answer("POST", SEARCH, _add_vectors, 200),
    ),
    _fault(
        "aidre_unknown_member_refused",
        level="SHOULD",
        sentence="Servers SHOULD ignore unknown request fields unless doing so would create ambiguous or unsafe "
        "behavior.",
        section="20.3",
        transform=_refuse_unknown,
    ),
    _fault(
        "aidre_next_chunk_under_this_id",
        level="definition",
        sentence="Servers SHOULD support: GET /chunks/{id}; a chunk is a retrievable unit of canonical content.",
        section="8, 2.1",
        transform=_next_chunk,
    ),
    _fault(
        "aidre_slash_in_id_splits_the_path",
        level="MUST",
        sentence="The chunk dereference resource MUST support HTTP GET (GET /chunks/{id}).",
        section="8, 15.1",
        transform=on_request("GET", CHUNK, _split_at_slashes),
    ),
    _fault(
        "aidre_hash_of_the_hash",
        level="SHOULD",
        sentence="Servers SHOULD expose: content_hash, updated_at, etag.",
        section="9",
        transform=in_turn(
            on_json("POST", SEARCH, _hash_again, 200),
            on_json("GET", CHUNK, _hash_again, 200),
        ),
    ),
    _fault(
        "aidre_private_chunk_open",
        level="MUST",
        sentence="Private or tenant-scoped collections MUST be protected by appropriate authorization controls.",
        section="11.6",
        transform=on_request("GET", CHUNK, _authorize),
    ),
    _fault(
        "aidre_pages_overlap",
        level="definition",
        sentence="If pagination is supported, the server SHOULD use an opaque cursor scheme; next_cursor leads to the "
        "next page.",
        section="18.2, 18.3",
        transform=_overlap,
    ),
)
