"""Checks of AIDRE: searches, their envelope and their pages (draft-batum-aidre-00)."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import Any

from aidre_conformance import AIDRE_JSON, Checks, Exchange, NotTestable, Target, expect, require, shown
from aidre_conformance.checks.discovery import (
    capability,
    endpoint,
    results_of,
    sample,
    sample_results,
    search,
    spaces,
)

CHECKS = Checks("aidre", "AIDRE")
MAX_PAGES = 20
HUGE_TOP_K = 1_000_000


# -- facts -----------------------------------------------------------------------------------------------------------


def unit_vector(dimensions: int, seed: int = 1) -> list[float]:
    """A random direction of length one, the same each time."""
    drawn = random.Random(seed)
    values = [drawn.gauss(0, 1) for _ in range(dimensions)]
    length = math.sqrt(sum(value * value for value in values))
    return [round(value / length, 6) for value in values]


def vector_search(target: Target) -> tuple[dict[str, Any], dict[str, Any]]:
    """A space in which vectors can be searched, and the members of such a search."""

    def find() -> tuple[dict[str, Any], dict[str, Any]]:
        reasons = []
        named = {name: value for name, value in sample(target).items() if name == "collection"}
        for space in spaces(target):
            if not isinstance(space.get("dimensions"), int) or not isinstance(space.get("id"), str):
                continue
            body = {"query_vector": unit_vector(space["dimensions"]), "embedding_space": space["id"], **named}
            answer = search(target, body)
            if answer.status == 200 and answer.object.get("results"):
                return space, body
            reasons.append(answer.name)
        require(False, f"no advertised space could be searched by a vector: {'; '.join(reasons[:3])}")
        raise AssertionError

    return target.once("vector search", find)


def expect_refusal(answer: Exchange, *statuses: int) -> dict[str, Any]:
    """An error of the client's, as a JSON object; of these statuses where some are named."""
    expect(400 <= answer.status < 500, f"{answer.name}, expected a refusal")
    expect(not statuses or answer.status in statuses, f"{answer.name}, expected {' or '.join(map(str, statuses))}")
    return answer.object


# -- the query model -------------------------------------------------------------------------------------------------


def text_search(target: Target) -> dict[str, Any]:
    """The members of a search by text; one that has results where one is known."""
    fixtures = target.fixtures
    try:
        return sample(target)
    except NotTestable:
        named = {} if fixtures.collection is None else {"collection": fixtures.collection}
        return {"query": fixtures.query or "information", **named}


@CHECKS.add("5.2", "MUST", "Servers MUST support text queries.")
def _text_query(target: Target) -> None:
    fixtures, body = target.fixtures, text_search(target)
    answer = search(target, body)
    require(answer.status != 404 or fixtures.collection, f"{answer.name}: there is no collection to search")
    found = results_of(answer)
    expect(found or fixtures.query is None, f"nothing is found for the fixtures {shown(body)}, which have results")
    expect(capability(target, "query_text") is not False, "capabilities.query_text is false")


@CHECKS.add("5.1", "MUST", "A request MUST include exactly one of: query, query_vector.")
def _exactly_one(target: Target) -> None:
    text = sample(target)
    space = next(iter(spaces(target)), {})
    vector = unit_vector(space["dimensions"]) if isinstance(space.get("dimensions"), int) else [0.1, 0.2]
    both = {**text, "query_vector": vector, "embedding_space": space.get("id")}
    expect_refusal(search(target, both))
    expect_refusal(search(target, {name: value for name, value in text.items() if name != "query"}))
    expect_refusal(search(target, {}))


@CHECKS.add("5.3", "SHOULD", "Servers SHOULD support vector queries.")
def _vector_query(target: Target) -> None:
    require(capability(target, "query_vector") is not False, "capabilities.query_vector is false")
    space = next(iter(spaces(target)), {})
    require(isinstance(space.get("dimensions"), int), "the space has no dimensions")
    named = {name: value for name, value in sample(target).items() if name == "collection"}
    body = {"query_vector": unit_vector(space["dimensions"]), "embedding_space": space.get("id"), **named}
    answer = search(target, body)
    require(answer.status not in {401, 403}, "vector queries need a key")
    results_of(answer)


@CHECKS.add(
    "5.3",
    "MUST",
    "If used, clients MUST specify embedding_space.",
    reading="a vector without its space, or "
    "with an empty one, is refused or answered, and never an error of the server's",
)
def _vector_without_a_space(target: Target) -> None:
    space, body = vector_search(target)
    named: dict[str, Any]
    for named in ({}, {"embedding_space": ""}, {"embedding_space": 7}):
        answer = search(target, {**{key: body[key] for key in body if key != "embedding_space"}, **named})
        expect(answer.status < 500, f"{answer.name} for embedding_space {shown(named.get('embedding_space'))}")
    assert space


@CHECKS.add("17.3", "SHOULD", "Suggested values include: unsupported_embedding_space.")
def _unknown_space(target: Target) -> None:
    _, body = vector_search(target)
    answer = search(target, {**body, "embedding_space": "example:no-such-space"})
    error = expect_refusal(answer)
    expect(error.get("error") == "unsupported_embedding_space", f"{answer.name}: error is {shown(error.get('error'))}")


@CHECKS.add(
    "19.2",
    "MUST",
    "If a query_vector length does not match the dimensions declared for the requested "
    "embedding space, the server MUST reject the request with 422 Unprocessable Entity.",
)
def _dimension(target: Target) -> None:
    space, body = vector_search(target)
    dimensions = space["dimensions"]
    for length in {1, dimensions - 1, dimensions + 1, 2 * dimensions} - {0, dimensions}:
        answer = search(target, {**body, "query_vector": unit_vector(length)})
        expect(answer.status == 422, f"{answer.name} for {length} of {dimensions} numbers, expected 422")


@CHECKS.add("17.3", "SHOULD", "Suggested values include: invalid_embedding_dimension.")
def _dimension_code(target: Target) -> None:
    space, body = vector_search(target)
    answer = search(target, {**body, "query_vector": unit_vector(space["dimensions"] + 1)})
    require(answer.status == 422, answer.name)
    code = answer.object.get("error")
    expect(code == "invalid_embedding_dimension", f"{answer.name}: error is {shown(code)}")


@CHECKS.add(
    "19.3",
    "MUST",
    "The server MUST evaluate query vectors according to the distance function declared by the embedding space.",
    reading="the length of a query does not count for cosine; it scales a dot product",
)
def _distance(target: Target) -> None:
    space, body = vector_search(target)
    distance = str(space.get("distance")).lower()
    require(distance in {"cosine", "dot"}, f"distance {shown(distance)} is not known to this kit")
    plain = results_of(search(target, {**body, "top_k": 5}))
    longer = [value * 4 for value in body["query_vector"]]
    answer = search(target, {**body, "query_vector": longer, "top_k": 5})
    require(answer.status == 200, f"{answer.name} for a vector that is not normalized")
    scaled = results_of(answer)
    expect(ids_of(plain) == ids_of(scaled), "a longer query vector of the same direction ranks other results")
    for result, other in zip(plain, scaled, strict=True):
        before: Any = result.get("score")
        after: Any = other.get("score")
        require(_is_number(before) and _is_number(after), "results have no scores")
        if distance == "cosine":
            same = math.isclose(before, after, rel_tol=1e-3, abs_tol=1e-4)
            expect(same, f"the score depends on the length of the query vector: {before} and {after}")
        elif not space.get("normalized"):
            different = not math.isclose(before, after, rel_tol=1e-6)
            expect(different or before == 0, f"a dot product does not depend on the length of the query: {before}")


@CHECKS.add(
    "19.3",
    "MUST",
    "... according to the distance function declared by the embedding space.",
    reading="checked against the vectors themselves where the server returns them",
)
def _distance_of_returned_vectors(target: Target) -> None:
    space, body = vector_search(target)
    answer = search(target, {**body, "top_k": 10, "return": {"vectors": True}})
    require(answer.status == 200, "vectors are not returned")
    found = [_vector(result, space) for result in results_of(answer)]
    vectors = [vector for vector in found if vector is not None]
    require(len(vectors) == len(found) and len(found) > 1, "vectors are not returned")
    near = [_similarity(str(space.get("distance")).lower(), body["query_vector"], vector) for vector in vectors]
    require(all(value is not None for value in near), "the distance is not known to this kit")
    ordered = all(a >= b - 1e-3 for a, b in pairwise(near))  # type: ignore[operator]
    expect(ordered, f"the results are not in the order of their {space.get('distance')}: {shown(near)}")


@CHECKS.add("11.5", "SHOULD", "Servers SHOULD validate input size, dimensionality, and request shape.")
def _adversarial_vectors(target: Target) -> None:
    space, body = vector_search(target)
    for bad in ("x", None, [None], True, {"a": 1}, [["x"]]):
        value = [bad, *body["query_vector"][1:]] if bad is not None else []
        answer = search(target, {**body, "query_vector": value})
        expect(400 <= answer.status < 500, f"{answer.name} for a query_vector with {shown(bad)}")
    for literal in (b"NaN", b"Infinity", b"1e999"):
        numbers = b",".join([literal] + [b"0.1"] * (space["dimensions"] - 1))
        text = b'{"embedding_space":"%b","query_vector":[%b]}' % (space["id"].encode(), numbers)
        answer = target.send("POST", endpoint(target, "search"), {"content-type": AIDRE_JSON}, text)
        expect(400 <= answer.status < 500, f"{answer.name} for a query_vector with {literal.decode()}")


@CHECKS.add("11.5", "SHOULD", "... and SHOULD protect retrieval infrastructure against resource exhaustion.")
def _adversarial_bodies(target: Target) -> None:
    text = sample(target)
    bodies = {
        "a query of 4 MB": {**text, "query": "word " * 800_000},
        "a top_k of 10^30": None,
        "100,000 nested arrays": None,
    }
    for name, value in bodies.items():
        if value is not None:
            answer = search(target, value)
        else:
            raw = b'{"query":"a","top_k":1%b}' % (b"0" * 30) if "top_k" in name else b"[" * 100_000
            answer = target.send("POST", endpoint(target, "search"), {"content-type": AIDRE_JSON}, raw)
        expect(answer.status < 500, f"{answer.name} for {name}")


# -- the envelope ----------------------------------------------------------------------------------------------------


@CHECKS.add(
    "16.1",
    "MUST",
    "A successful search response MUST be a JSON object containing a results member whose value is an array.",
)
def _results_are_an_array(target: Target) -> None:
    text = text_search(target)
    answer = search(target, text)
    require(answer.status == 200, answer.name)
    results_of(answer)
    text = sample(target)
    for top_k in (1, 2, 5):
        results_of(search(target, {**text, "top_k": top_k}))
    answer = search(target, {**text, "query": "qzxv wvkjq zzqpl 58317"})
    expect(answer.status == 200, f"{answer.name}: a search that finds little or nothing succeeds")
    results_of(answer)


@CHECKS.add("16.1", "SHOULD", "A successful response SHOULD also contain: request_id, collection, meta.")
def _envelope(target: Target) -> None:
    body = search(target, sample(target)).object
    for name, kind in (("request_id", str), ("collection", str), ("meta", dict)):
        expect(isinstance(body.get(name), kind), f"{name} is {shown(body.get(name))}")


@CHECKS.add(
    "16.2",
    "SHOULD",
    '"meta": {"returned": 1, "top_k": 3}',
    reading="returned is the number of results, top_k what was asked for where the server allows it",
)
def _meta(target: Target) -> None:
    for top_k in (1, 3):
        body = search(target, {**sample(target), "top_k": top_k}).object
        meta = meta_of(body)
        require(meta, "there is no meta")
        if "returned" in meta:
            expect(meta["returned"] == len(body["results"]), f"meta.returned is {shown(meta['returned'])}")
        if "top_k" in meta:
            expect(_is_number(meta["top_k"]) and meta["top_k"] <= top_k, f"meta.top_k is {shown(meta['top_k'])}")


@CHECKS.add("16.3", "SHOULD", "A request identifier SHOULD be unique within operationally relevant scope.")
def _request_ids(target: Target) -> None:
    text = sample(target)
    bodies = [search(target, text).object for _ in range(5)] + [search(target, {}).object for _ in range(3)]
    ids = [body["request_id"] for body in bodies if isinstance(body.get("request_id"), str)]
    require(len(ids) > 1, "answers have no request_id")
    expect(len(set(ids)) == len(ids), f"two requests have the request_id {shown(ids[0])}")


@CHECKS.add("7.2", "SHOULD", '"results": [{"id": "doc_1#chunk_1", "score": 0.91, "metadata": {...}}]')
def _result_members(target: Target) -> None:
    for result in sample_results(target):
        expect(isinstance(result.get("id"), str) and result["id"], f"id is {shown(result.get('id'))}")
        expect(_is_number(result.get("score")), f"score is {shown(result.get('score'))}")
        if "metadata" in result:
            expect(isinstance(result["metadata"], dict), f"metadata is {shown(result['metadata'])}")
    ids = ids_of(sample_results(target))
    expect(len(set(ids)) == len(ids), "one id comes twice")


@CHECKS.add("24.2", "SHOULD", '"score": 0.92', reading="the best result is the first, by its own score")
def _best_first(target: Target) -> None:
    searches = [sample(target)]
    if capability(target, "query_vector"):
        searches.append(vector_search(target)[1])
    for body in searches:
        scores: list[Any] = [result.get("score") for result in results_of(search(target, {**body, "top_k": 10}))]
        require(all(_is_number(score) for score in scores), "results have no scores")
        ordered = all(a >= b for a, b in pairwise(scores))
        rising = all(a <= b for a, b in pairwise(scores))
        is_distance = rising and str(scores) != str(scores[::-1]) and _says_lower_is_better(target)
        expect(ordered or is_distance, f"scores are not in order: {shown(scores)}")


def _says_lower_is_better(target: Target) -> bool:
    return any("lower" in str(space.get("score", "")) for space in spaces(target))


# -- top_k and pages -------------------------------------------------------------------------------------------------


@CHECKS.add("18.1", "MUST", "The top_k member requests the maximum number of results returned.")
def _top_k(target: Target) -> None:
    searches = [sample(target)]
    if capability(target, "query_vector"):
        searches.append(vector_search(target)[1])
    for body in searches:
        for top_k in (1, 2, 3):
            found = len(results_of(search(target, {**body, "top_k": top_k})))
            expect(found <= top_k, f"top_k {top_k} returned {found} results")


@CHECKS.add("18.1", "MUST", "If top_k is omitted, the server MUST apply a documented default.")
def _default_top_k(target: Target) -> None:
    answer = search(target, sample(target))
    found = len(results_of(answer))
    stated: Any = meta_of(answer.object).get("top_k")
    if _is_number(stated):
        expect(0 < found <= stated, f"{found} results with meta.top_k {stated}")


@CHECKS.add("18.1", "MUST", "Servers MUST reject non-positive top_k values.")
def _non_positive_top_k(target: Target) -> None:
    for top_k in (0, -1, -1000):
        expect_refusal(search(target, {**sample(target), "top_k": top_k}))


@CHECKS.add(
    "18.1",
    "MUST",
    "If the client requests a top_k larger than the server maximum, the server MUST either "
    "reject the request with an error or clamp the value.",
)
def _large_top_k(target: Target) -> None:
    answer = search(target, {**sample(target), "top_k": HUGE_TOP_K})
    if answer.status != 200:
        expect_refusal(answer)
        return
    stated: Any = meta_of(answer.object).get("top_k")
    if _is_number(stated):
        expect(len(results_of(answer)) <= stated, f"more results than meta.top_k {stated}")


@CHECKS.add(
    "18.2",
    "SHOULD",
    "If pagination is supported, the server SHOULD use an opaque cursor scheme.",
    reading="the request member is `cursor`, and no result is on two pages",
)
def _pages(target: Target) -> None:
    text, top_k = sample(target), 2
    pages = [search(target, {**text, "top_k": top_k})]
    seen = ids_of(results_of(pages[0]))
    for _ in range(MAX_PAGES):
        cursor = _next_cursor(pages[-1])
        if cursor is None:
            break
        page = search(target, {**text, "top_k": top_k, "cursor": cursor})
        found = ids_of(results_of(page))
        require(found != seen[:top_k] or len(pages) > 1, "the first page comes again: the cursor has another member")
        double = set(found) & set(seen)
        expect(not double, f"{shown(sorted(double))} is on two pages")
        seen += found
        pages.append(page)
    require(len(pages) > 1, "there is no next_cursor")
    whole = ids_of(results_of(search(target, {**text, "top_k": len(seen)})))
    if len(whole) == len(seen):
        expect(sorted(whole) == sorted(seen), "the pages do not make up the results of one large top_k")


@CHECKS.add(
    "18.2",
    "SHOULD",
    "... SHOULD use an opaque cursor scheme.",
    reading="a cursor that the server never gave is refused or ignored, and no error of the server's",
)
def _forged_cursor(target: Target) -> None:
    text = sample(target)
    cursor = _next_cursor(search(target, {**text, "top_k": 2}))
    require(cursor is not None, "there is no next_cursor")
    assert cursor is not None
    for forged in ("", "x", cursor[:-2] + ("AA" if cursor[-2:] != "AA" else "BB"), cursor * 50, "çığ"):
        answer = search(target, {**text, "top_k": 2, "cursor": forged})
        expect(answer.status < 500, f"{answer.name} for a forged cursor")
        if answer.status >= 400:
            expect_refusal(answer)


def _next_cursor(answer: Exchange) -> str | None:
    meta = answer.object.get("meta") if answer.status == 200 else None
    cursor = meta.get("next_cursor") if isinstance(meta, dict) else None
    if cursor is not None:
        expect(isinstance(cursor, str), f"next_cursor is {shown(cursor)}")
    return cursor


# -- what is returned ------------------------------------------------------------------------------------------------


@CHECKS.add("7.3", "SHOULD", "Servers SHOULD NOT return vectors by default.")
def _no_vectors(target: Target) -> None:
    wanted: dict[str, Any]
    for wanted in ({}, {"return": {}}, {"return": {"ids": True, "metadata": True}}, {"return": {"vectors": False}}):
        for result in results_of(search(target, {**sample(target), **wanted})):
            expect(not result.get("vectors") and not result.get("vector"), f"vectors came for {shown(wanted)}")


@CHECKS.add(
    "20.2",
    "MUST",
    "If a client requests an unsupported return field, the server MUST either ignore the field "
    "or reject the request with a machine-readable error.",
)
def _unsupported_return_field(target: Target) -> None:
    answer = search(target, {**sample(target), "return": {"no_such_field": True}})
    if answer.status != 200:
        expect(isinstance(expect_refusal(answer).get("error"), str), f"{answer.name}: no machine-readable error")
    if capability(target, "return_vectors") is False:
        answer = search(target, {**sample(target), "return": {"vectors": True}})
        if answer.status == 200:
            returned = [result for result in results_of(answer) if result.get("vectors")]
            expect(not returned, "vectors are returned, and capabilities.return_vectors is false")
        else:
            expect(isinstance(expect_refusal(answer).get("error"), str), f"{answer.name}: no machine-readable error")


@CHECKS.add("20.1", "SHOULD", "The return object requests optional fields in result members.")
def _return(target: Target) -> None:
    text = sample(target)
    if capability(target, "return_text"):
        answer = search(target, {**text, "return": {"text": True}})
        require(answer.status in {200, 401, 403, 422}, answer.name)
        if answer.status == 200:
            for result in results_of(answer):
                expect(
                    isinstance(result.get("text"), str), f"return.text is true and text is {shown(result.get('text'))}"
                )
    for result in results_of(search(target, {**text, "return": {"text": False}})):
        expect("text" not in result, "return.text is false and there is a text")
    for result in results_of(search(target, {**text, "return": {"metadata": False}})):
        expect("metadata" not in result, "return.metadata is false and there are metadata")


@CHECKS.add(
    "20.3",
    "SHOULD",
    "Servers SHOULD ignore unknown request fields unless doing so would create ambiguous or unsafe behavior.",
)
def _unknown_members(target: Target) -> None:
    text = sample(target)
    plain = ids_of(results_of(search(target, text)))
    answer = search(target, {**text, "x_unknown": {"a": [1]}, "trace": "on"})
    expect(ids_of(results_of(answer)) == plain, "unknown members change the results")


def ids_of(results: list[dict[str, Any]]) -> list[Any]:
    return [result.get("id") for result in results]


def meta_of(body: dict[str, Any]) -> dict[str, Any]:
    meta = body.get("meta")
    return meta if isinstance(meta, dict) else {}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _vector(result: dict[str, Any], space: dict[str, Any]) -> list[float] | None:
    vectors = result.get("vectors")
    vector = vectors.get(space["id"]) if isinstance(vectors, dict) else vectors
    is_vector = isinstance(vector, list) and len(vector) == space["dimensions"] and all(map(_is_number, vector))
    return vector if is_vector else None


def _similarity(distance: str, query: list[float], vector: list[float]) -> float | None:
    """Higher is nearer. None for a distance that the kit does not know."""
    dot = sum(a * b for a, b in zip(query, vector, strict=True))
    if distance == "cosine":
        return dot / (math.hypot(*query) * math.hypot(*vector) or 1.0)
    if distance == "dot":
        return dot
    return -math.dist(query, vector) if distance in {"euclidean", "l2"} else None
