"""The OpenAPI document, `api/operations/openapi.py`: routes, schemas, and live responses against them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route

from tests.support.clients import AIDRE, COSINE, TEXT, Client, a_document, fill, serving


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    payload = {"type": "application/semantic+json"}
    documents = [a_document("a", "alpha", title="A", url="https://example.com/a", semantic_payload=payload)]
    fill(store, "docs", [*documents, a_document("b", "beta")], (TEXT, COSINE))
    with serving(store, "[collections.docs]\nreturn_vectors = true") as shared:
        yield shared


@pytest.fixture(scope="module")
def described(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def validator(described: dict[str, Any], schema: dict[str, Any]) -> Draft202012Validator:
    """One that finds the components of the document, and checks formats."""
    checker = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator({**schema, "components": described["components"]}, format_checker=checker)


def test_the_description_is_openapi_3_1_of_the_version_in_discovery(client: Client, described: dict[str, Any]) -> None:
    assert described["openapi"] == "3.1.0"
    assert described["info"]["version"] == client.get("/.well-known/ai-discovery").json()["version"]
    assert client.get("/.well-known/ai-discovery").json()["openapi"].endswith("/openapi.json")


def test_every_schema_is_a_schema(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    assert "SearchRequest" in schemas
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)


def test_every_route_is_described_and_nothing_else(client: Client, described: dict[str, Any]) -> None:
    routes: dict[str, set[str]] = {}
    for route in client.app.routes:
        assert isinstance(route, Route)
        if not route.include_in_schema:
            continue
        path = route.path.replace(":path}", "}")
        for one in (path.replace("{suffix}", ""), path.replace("{suffix}", "/mcp")):
            routes[one] = (route.methods or set()) - {"HEAD"}
    assert {path: {method.upper() for method in methods} for path, methods in described["paths"].items()} == routes


def test_every_link_leads_to_an_operation(described: dict[str, Any]) -> None:
    operations = [one for path in described["paths"].values() for one in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))
    links = [
        link for one in operations for answer in one["responses"].values() for link in answer.get("links", {}).values()
    ]
    assert len(links) >= 6
    assert {link["operationId"] for link in links} <= set(names)


def test_the_limits_are_those_in_force(described: dict[str, Any]) -> None:
    request = described["components"]["schemas"]["SearchRequest"]["properties"]
    assert request["query"]["maxLength"] == 8_192
    assert "10 if left out, a larger number than 100 is clamped" in request["top_k"]["description"]


EVERYTHING = {"text": True, "semantic_payload": True, "vectors": True}
EXCHANGES: list[tuple[str, str, str, Any]] = [
    ("get", "/.well-known/ai-discovery", "/.well-known/ai-discovery", None),
    ("get", "/collections", "/collections", None),
    ("get", "/collections/docs", "/collections/{name}", None),
    ("get", "/collections/absent", "/collections/{name}", None),
    ("get", "/collections/docs/changes", "/collections/{name}/changes", None),
    ("get", "/collections/docs/changes?since=x", "/collections/{name}/changes", None),
    ("get", "/collections/absent/changes", "/collections/{name}/changes", None),
    ("get", "/chunks/a%23chunk_1", "/chunks/{id}", None),
    ("get", "/chunks/absent", "/chunks/{id}", None),
    ("post", "/search", "/search", {"query": "alpha", "top_k": 1}),
    ("post", "/search", "/search", {"query": "alpha", "top_k": 10**6}),
    ("post", "/search", "/search", {"query": "alpha", "return": EVERYTHING}),
    ("post", "/search", "/search", {"query": "alpha", "return": {"ids": False, "metadata": False}}),
    ("post", "/search", "/search", {"query_vector": [1, 0, 0, 0], "embedding_space": COSINE.id}),
    ("post", "/search", "/search", {"query_vector": [1, 0], "embedding_space": COSINE.id}),
    ("post", "/search", "/search", {}),
    ("post", "/search", "/search", {"query": "alpha", "collection": "absent"}),
]
ASKED = {"text": "alpha", "itemType": "Recipe"}
NLWEB_EXCHANGES: list[tuple[str, str, str, Any]] = [
    ("get", "/ask", "/ask", None),
    ("get", "/ask?query=alpha", "/ask", None),
    ("get", "/ask?query=", "/ask", None),
    ("get", "/sites", "/sites", None),
    ("post", "/ask", "/ask", {"query": ASKED, "prefer": {"mode": "list, summarize"}, "meta": {"remember": True}}),
    ("post", "/ask", "/ask", {"query": ASKED, "prefer": {"response_format": "chatgpt_app", "mode": "summarize"}}),
    ("post", "/ask", "/ask", {"query": ASKED, "prefer": {"respond-async": True}}),
    ("post", "/ask", "/ask", {"query": ASKED, "prefer": {"mode": "sing"}}),
    ("post", "/ask", "/ask", {"query": {"text": "alpha", "site": "absent.example"}}),
    ("post", "/ask", "/ask", {"query": 5}),
    ("post", "/await", "/await", {"promise_token": "unknown", "action": "checkin"}),
    ("post", "/await", "/await", {}),
]


@pytest.mark.parametrize("accept", [AIDRE, "application/json", "application/problem+json, */*;q=0.1", "text/html"])
@pytest.mark.parametrize(("method", "path", "template", "body"), EXCHANGES)
def test_live_responses_validate(
    client: Client, described: dict[str, Any], method: str, path: str, template: str, body: Any, accept: str
) -> None:
    headers = {"accept": accept, "content-type": AIDRE}
    response = client.request(method.upper(), path, json=body, headers=headers)
    stated = described["paths"][template][method]["responses"][str(response.status_code)]
    schema = stated["content"][response.headers["content-type"]]["schema"]
    validator(described, schema).validate(response.json())


@pytest.mark.parametrize(("method", "path", "template", "body"), NLWEB_EXCHANGES)
def test_live_responses_of_nlweb_validate(
    client: Client, described: dict[str, Any], method: str, path: str, template: str, body: Any
) -> None:
    response = client.request(method.upper(), path, json=body, headers={"content-type": "application/json"})
    stated = described["paths"][template][method]["responses"][str(response.status_code)]
    schema = stated["content"][response.headers["content-type"]]["schema"]
    validator(described, schema).validate(response.json())


@pytest.mark.parametrize(
    ("body", "valid"),
    [
        ({"query": "alpha"}, True),
        ({"query": "alpha", "query_vector": None, "top_k": None}, True),
        ({"query_vector": [1, 2, 3, 4], "embedding_space": COSINE.id}, True),
        ({"query": "alpha", "top_k": 0}, False),
        ({"query": "alpha", "top_k": 1.5}, False),
        ({"query": "alpha", "mode": "fuzzy"}, False),
        ({"query": "alpha", "return": {"text": "yes"}}, False),
    ],
)
def test_the_schema_of_a_request_admits_what_the_server_admits(
    client: Client, described: dict[str, Any], body: dict[str, Any], valid: bool
) -> None:
    schema = described["components"]["schemas"]["SearchRequest"]
    assert validator(described, schema).is_valid(body) == valid
    assert (client.search(body).status_code == 200) == valid


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": None},
        {"query_vector": [1, 2, 3, 4]},
        {"query": "alpha", "query_vector": [1, 2, 3, 4], "embedding_space": COSINE.id},
    ],
)
def test_what_a_plain_type_cannot_say_is_said_in_prose(
    client: Client, described: dict[str, Any], body: dict[str, Any]
) -> None:
    schema = described["components"]["schemas"]["SearchRequest"]
    assert "exactly one of `query` and `query_vector`" in schema["description"]
    assert client.search(body).status_code == 400


def test_every_operation_has_a_tag_a_description_and_an_example_that_fits(described: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in described["tags"]}
    for path in described["paths"].values():
        for operation in path.values():
            assert set(operation["tags"]) <= tags
            assert operation["summary"] and operation["description"]
            bodies = [operation.get("requestBody"), *operation["responses"].values()]
            shown = [one for body in bodies if body for one in body.get("content", {}).values() if "example" in one]
            assert shown, operation["operationId"]
            for one in shown:
                validator(described, one["schema"]).validate(one["example"])


def test_no_construct_that_generators_stumble_over_is_used(described: dict[str, Any]) -> None:
    def check(schema: Any) -> None:
        for one in schema if isinstance(schema, list) else schema.values() if isinstance(schema, dict) else ():
            check(one)
        if isinstance(schema, dict) and not isinstance(schema.get("properties"), str):
            assert not {"const", "not", "oneOf", "allOf", "default"} & schema.keys() - {"default"}
            assert schema.get("type") != "array" or "items" in schema
            assert "enum" not in schema or "type" in schema
            assert schema.get("type") != "object" or {"properties", "additionalProperties"} & schema.keys()

    for schema in described["components"]["schemas"].values():
        check(schema)
        assert not [name for name, member in schema["properties"].items() if "default" in member]


def test_a_response_that_lacks_a_member_would_be_found(described: dict[str, Any]) -> None:
    schema = described["components"]["schemas"]["SearchAnswer"]
    assert not validator(described, schema).is_valid({"request_id": "r", "collection": "docs", "meta": {}})


def unions(schema: Any) -> Iterator[set[str]]:
    """The types of each union in a schema."""
    if isinstance(schema, list):
        for one in schema:
            yield from unions(one)
    elif isinstance(schema, dict):
        if "anyOf" in schema:
            yield {one.get("type", "object") for one in schema["anyOf"]}
        for one in schema.values():
            yield from unions(one)


def test_generators_for_java_and_others_take_it(described: dict[str, Any]) -> None:
    """openapi-generator refuses a `requestBody` in a link, and its Java has no union of a text and a list."""
    for path in described["paths"].values():
        for operation in path.values():
            for answer in operation["responses"].values():
                assert not [one for one in answer.get("links", {}).values() if "requestBody" in one]
    found = list(unions(described))
    assert found and not [one for one in found if "array" in one and one - {"array", "null"}]
    assert "x-form" not in str(described)
