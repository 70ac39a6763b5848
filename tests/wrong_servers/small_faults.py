"""Faults of the small server: what programmers of other servers get wrong, and the check that has to find each.

A fault without a check breaks no sentence: nothing may be accused. Those of NLWeb are in small_faults_nlweb.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from tests.wrong_servers.faults.exchange import (
    Answer,
    App,
    Request,
    Transformation,
    in_turn,
    on_answer,
    on_json,
    on_request,
    on_request_json,
)

Planted: TypeAlias = tuple[str, str | None, Transformation]
"""Name, the id of the check, and what the server does."""
DISCOVERY, COLLECTIONS, CHUNK, SEARCH = "/.well-known/ai-discovery", "/collections", "/chunks/", "/search"
ERRORS = tuple(range(400, 500))


# -- how a server goes wrong -----------------------------------------------------------------------------------------


def set_(**members: Any) -> Callable[[Any], None]:
    def change(body: Any) -> None:
        body.update(members)

    return change


def drop(*names: str) -> Callable[[Any], None]:
    def change(body: Any) -> None:
        for name in names:
            body.pop(name, None)

    return change


def in_(path: str, change: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Changes what is below a path such as `results.*.metadata`; what it returns takes the place."""

    def changed(body: Any) -> None:
        first, _, rest = path.partition(".")
        places = range(len(body)) if first == "*" else ([first] if isinstance(body, dict) and first in body else [])
        for place in places:
            if rest:
                in_(rest, change)(body[place])
            else:
                given = change(body[place])
                body[place] = body[place] if given is None else given

    return changed


def to(value: Any) -> Callable[[Any], Any]:
    return lambda found: value


def _header(name: str, value: str | None) -> Callable[[Answer], Answer]:
    return lambda answer: answer.with_header(name, value)


def status(code: int) -> Callable[[Answer], Answer]:
    return lambda answer: answer.with_status(code)


def _search(change: Callable[[Any], Any]) -> Transformation:
    """Changes the answer to a search that succeeds."""
    return on_json("POST", SEARCH, change, 200)


def _asked(change: Callable[[Any], Any]) -> Transformation:
    """Changes the body of a search before it is read."""
    return on_request_json("POST", SEARCH, change)


def when(method: str, path: str, condition: Callable[[Any], Any], change: Callable[[Answer], Answer]) -> Transformation:
    """Changes the answers to requests whose body meets the condition."""

    async def transform(request: Request, app: App) -> Answer:
        answer = await app(request)
        body = request.json
        is_meant = request.is_for(method, path) and isinstance(body, dict) and condition(body)
        return change(answer) if is_meant else answer

    return transform


def _crash(answer: Answer) -> Answer:
    return answer.with_json({"error": "internal", "message": "", "details": None, "request_id": "r"}).with_status(500)


def _nothing_found(answer: Answer) -> Answer:
    return answer.with_json({**answer.json, "results": []}) if answer.status == 200 else answer


def _pad(body: Any) -> None:
    if isinstance(body.get("query_vector"), list):
        body["query_vector"] = (body["query_vector"] + [0.0] * 64)[:64]


def _numbers(request: Request) -> Request:
    """What is not a number in JSON is read as one."""
    body = request.body
    for literal in (b"NaN", b"Infinity", b"1e999"):
        body = body.replace(literal, b"0.5")
    return replace(request, body=body).with_header("content-length", str(len(body)))


def _scaled(answer: Answer) -> Answer:
    vector = answer.request.json.get("query_vector")
    if answer.status != 200 or not isinstance(vector, list):
        return answer
    body = answer.json
    for one in body["results"]:
        one["score"] *= sum(abs(value) for value in vector)
    return answer.with_json(body)


async def _all_results(request: Request, app: App) -> Answer:
    body = request.json
    if request.is_for("POST", SEARCH) and isinstance(body, dict) and isinstance(body.get("top_k"), int):
        request = request.with_json({**body, "top_k": 50 if body["top_k"] > 0 else body["top_k"]})
    return await app(request)


async def _get_search(request: Request, app: App) -> Answer:
    if request.is_for("GET", SEARCH):
        return await app(replace(request, method="GET", target=COLLECTIONS.encode()))
    return await app(request)


def _no_slashes(request: Request) -> Request:
    return replace(request, target=b"/no/such/route") if b"%2F" in request.target.upper() else request


async def _other_chunk(request: Request, app: App) -> Answer:
    answer = await app(request)
    if not request.is_for("GET", CHUNK) or answer.status != 200:
        return answer
    return answer.with_json({**answer.json, "text": "Another passage."})


async def _null_chunk(request: Request, app: App) -> Answer:
    answer = await app(request)
    is_unknown = request.is_for("GET", CHUNK) and answer.status == 404
    return answer.with_json(None).with_status(200) if is_unknown else answer


def _plain(answer: Answer) -> Answer:
    return answer.with_body(b"It failed.").with_header("content-type", "text/plain")


def _error(change: Callable[[Answer], Answer]) -> Transformation:
    return in_turn(on_answer("POST", SEARCH, change, *ERRORS), on_answer("GET", CHUNK, change, *ERRORS))


def _error_json(change: Callable[[Any], Any]) -> Transformation:
    return in_turn(on_json("POST", SEARCH, change, *ERRORS), on_json("GET", CHUNK, change, *ERRORS))


def _leak(body: Any) -> None:
    body["message"] = 'Traceback (most recent call last):\n  File "/srv/app.py", line 7'


def _refuse_parameters(request: Request) -> Request:
    is_refused = ";" in (request.header("content-type") or "")
    return request.with_header("content-type", "text/plain") if is_refused else request


def _latin(answer: Answer) -> Answer:
    return answer.with_body(answer.body.decode().encode("latin-1", errors="replace"))


def _unknown_members(body: Any) -> Any:
    return {} if body.keys() & {"x_unknown", "trace"} else None


def _both(body: Any) -> None:
    if {"query", "query_vector"} <= body.keys():
        del body["query_vector"]


def _without_a_query(body: Any) -> None:
    if not body.keys() & {"query", "query_vector"}:
        body["query"] = "keys"


def _any_space(body: Any) -> None:
    if "query_vector" in body and isinstance(body.get("embedding_space"), str):
        body["embedding_space"] = "example:words"


def _default_space(body: Any) -> None:
    if "query_vector" in body and not isinstance(body.get("embedding_space"), str):
        body["embedding_space"] = "example:words"


def _any_collection(body: Any) -> None:
    body.pop("collection", None)


def _clamped(body: Any) -> None:
    if type(body.get("top_k")) is int and body["top_k"] <= 0:
        body["top_k"] = 1


def _says_not_number(body: Any) -> Any:
    return {**body, "error": "invalid_input"} if body.get("error") == "invalid_embedding_dimension" else None


def _unconditional(request: Request) -> Request:
    return request.with_header("if-none-match", "")


def _each_text(text: Any) -> Callable[[Any], None]:
    return in_("results.*.text", to(text))


AIDRE_PLANTED: tuple[Planted, ...] = (
    ("discovery_without_version", "aidre.23.1.version", on_json("GET", DISCOVERY, drop("version"))),
    ("discovery_with_a_number_as_version", "aidre.23.1.version", on_json("GET", DISCOVERY, set_(version=1))),
    (
        "discovery_as_text",
        "aidre.3.2.media-type",
        on_answer("GET", DISCOVERY, _header("content-type", "text/plain")),
    ),
    ("discovery_is_a_list", "aidre.3.1.document", on_json("GET", DISCOVERY, lambda body: [body])),
    ("discovery_fails", "aidre.3.1.document", on_answer("GET", DISCOVERY, _crash)),
    (
        "relative_endpoints",
        "aidre.3.4.endpoints",
        on_json("GET", DISCOVERY, in_("endpoints.collections", to("/collections"))),
    ),
    (
        "chunk_without_template",
        "aidre.3.4.endpoints",
        on_json("GET", DISCOVERY, in_("endpoints.chunk", lambda url: url.removesuffix("{id}"))),
    ),
    (
        "space_without_dimensions",
        "aidre.19.1.space-members",
        on_json("GET", DISCOVERY, in_("embedding_spaces.*", drop("dimensions"))),
    ),
    (
        "dimensions_as_text",
        "aidre.19.1.space-members",
        on_json("GET", DISCOVERY, in_("embedding_spaces.*.dimensions", to("64"))),
    ),
    (
        "one_space_twice",
        "aidre.19.1.space-members",
        on_json("GET", DISCOVERY, in_("embedding_spaces", lambda spaces: spaces * 2)),
    ),
    (
        "space_without_model",
        "aidre.19.1.space-description",
        on_json("GET", DISCOVERY, in_("embedding_spaces.*", drop("model"))),
    ),
    ("no_etag", "aidre.9.discovery-etag", on_answer("GET", DISCOVERY, _header("etag", None))),
    (
        "etag_that_is_never_compared",
        "aidre.13.1.2.not-modified",
        in_turn(on_request("GET", DISCOVERY, _unconditional), on_request("GET", COLLECTIONS, _unconditional)),
    ),
    ("collections_fail", "aidre.15.1.collections", on_answer("GET", COLLECTIONS, _crash)),
    ("collections_is_a_text", "aidre.15.1.collections", on_json("GET", COLLECTIONS, lambda body: "docs")),
    (
        "collection_without_description",
        "aidre.4.collection-members",
        on_json("GET", COLLECTIONS, in_("collections.*", drop("description"))),
    ),
    (
        "collection_with_a_bare_date",
        "aidre.4.collection-members",
        on_json("GET", COLLECTIONS, in_("collections.*.updated_at", to("2026-11-01"))),
    ),
    ("nothing_is_found", "aidre.5.2.text-query", when("POST", SEARCH, lambda body: "query" in body, _nothing_found)),
    (
        "says_that_it_takes_no_texts",
        "aidre.5.2.text-query",
        on_json("GET", DISCOVERY, in_("capabilities.query_text", to(False))),
    ),
    ("query_beside_vector", "aidre.5.1.exactly-one", _asked(_both)),
    ("neither_query_nor_vector", "aidre.5.1.exactly-one", _asked(_without_a_query)),
    (
        "vectors_not_implemented",
        "aidre.5.3.vector-query",
        when("POST", SEARCH, lambda body: "query_vector" in body, _crash),
    ),
    ("any_space", "aidre.17.3.unknown-space", _asked(_any_space)),
    ("a_space_by_default", None, _asked(_default_space)),
    ("short_vectors_padded", "aidre.19.2.dimension", _asked(_pad)),
    ("wrong_dimension_is_400", "aidre.19.2.dimension", on_answer("POST", SEARCH, status(400), 422)),
    ("wrong_dimension_without_its_code", "aidre.17.3.dimension-code", on_json("POST", SEARCH, _says_not_number, 422)),
    ("nan_is_a_number", "aidre.11.5.adversarial-vectors", on_request("POST", SEARCH, _numbers)),
    ("cosine_of_long_vectors", "aidre.19.3.distance", on_answer("POST", SEARCH, _scaled)),
    ("worst_first", "aidre.24.2.best-first", _search(in_("results", lambda found: found[::-1]))),
    (
        "results_by_id",
        "aidre.16.1.results-are-an-array",
        _search(in_("results", lambda found: {one["id"]: one for one in found})),
    ),
    (
        "no_results_are_404",
        "aidre.16.1.results-are-an-array",
        when("POST", SEARCH, lambda body: "qzxv" in str(body.get("query")), status(404)),
    ),
    ("no_request_id", "aidre.16.1.envelope", _search(drop("request_id"))),
    ("no_collection", "aidre.16.1.envelope", _search(drop("collection"))),
    (
        "one_request_id",
        "aidre.16.3.request-ids",
        in_turn(_search(set_(request_id="1")), _error_json(set_(request_id="1"))),
    ),
    ("returned_is_what_was_asked", "aidre.16.2.meta", _search(in_("meta.returned", lambda count: count + 1))),
    ("top_k_is_ignored", "aidre.18.1.top-k", _all_results),
    ("top_k_of_zero", "aidre.18.1.non-positive-top-k", _asked(_clamped)),
    (
        "top_k_too_large_fails",
        "aidre.18.1.large-top-k",
        when("POST", SEARCH, lambda body: body.get("top_k") == 10**6, _crash),
    ),
    ("get_search", None, _get_search),
    ("vectors_unasked", "aidre.7.3.no-vectors", _search(in_("results.*", set_(vectors={"example:words": [0.1] * 64})))),
    ("text_unwanted", "aidre.20.1.return", _asked(drop("return"))),
    (
        "unknown_return_field_fails",
        "aidre.20.2.unsupported-return-field",
        when("POST", SEARCH, lambda body: "no_such_field" in (body.get("return") or ()), _crash),
    ),
    ("unknown_members_refused", "aidre.20.3.unknown-members", _asked(_unknown_members)),
    ("ids_are_numbers", "aidre.7.2.result-members", _search(in_("results.*.id", to(7)))),
    ("scores_are_texts", "aidre.7.2.result-members", _search(in_("results.*.score", str))),
    ("one_id_for_all", "aidre.7.2.result-members", _search(in_("results.*.id", to("doc")))),
    ("ids_with_slashes_lead_nowhere", "aidre.15.1.chunk", on_request("GET", CHUNK, _no_slashes)),
    ("another_chunk", "aidre.8.chunk-of-the-result", _other_chunk),
    ("unknown_chunk_is_null", "aidre.15.4.unknown-chunk", _null_chunk),
    (
        "chunk_without_content_hash",
        "aidre.9.freshness",
        on_json("GET", CHUNK, in_("metadata", drop("content_hash")), 200),
    ),
    (
        "chunk_with_a_time_without_zone",
        "aidre.9.freshness",
        on_json("GET", CHUNK, in_("metadata.updated_at", to("2026-11-01T00:00:00")), 200),
    ),
    ("hash_of_another_text", "aidre.9.content-hash", _search(_each_text("Keys expire."))),
    ("errors_as_text", "aidre.17.1.errors-are-objects", _error(_plain)),
    ("errors_as_lists", "aidre.17.1.errors-are-objects", _error_json(lambda body: [body])),
    ("errors_without_message", "aidre.17.1.error-members", _error_json(drop("message"))),
    ("errors_without_details", "aidre.17.1.error-members", _error_json(drop("details"))),
    ("errors_with_details", None, _error_json(set_(details={"member": "query"}))),
    ("error_codes_are_sentences", "aidre.17.3.error-codes", _error_json(set_(error="It is not right."))),
    ("errors_show_the_stack", "aidre.12.no-leak", _error_json(_leak)),
    (
        "broken_json_fails",
        "aidre.15.4.bad-request",
        on_answer("POST", SEARCH, lambda answer: answer if answer.request.json else _crash(answer), 400),
    ),
    ("any_collection", "aidre.15.4.unknown-collection", _asked(_any_collection)),
    (
        "any_content_type",
        "aidre.15.4.unsupported-media-type",
        on_request("POST", SEARCH, lambda request: request.with_header("content-type", "application/json")),
    ),
    ("charset_refused", "aidre.14.1.content-type", on_request("POST", SEARCH, _refuse_parameters)),
    (
        "answers_as_plain_json",
        "aidre.15.3.response-type",
        on_answer("POST", SEARCH, _header("content-type", "application/json"), 200),
    ),
    ("latin_1", "aidre.14.2.utf8", on_answer("POST", SEARCH, _latin, 200)),
    (
        "rate_limit_in_words",
        "aidre.21.2.rate-limit-fields",
        on_answer("POST", SEARCH, _header("ratelimit-limit", "many")),
    ),
    ("no_allow", "http.15.5.6.allow", on_answer("DELETE", SEARCH, _header("allow", None))),
    ("html_of_the_framework", "http.15.6.unknown-address", on_answer("GET", f"{SEARCH}/", _plain)),
)
