"""The tool search: a collection, a number, a filter and a mode, and what a result says of its source."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from aidre.api.access.caller import ANONYMOUS
from aidre.api.protocols.nlweb.mcp_tools import call_tool
from tests.support.clients import Client
from tests.support.mcp_calls import call, message, post, result


def found(client: Client, **arguments: Any) -> list[dict[str, Any]]:
    called = call(client, "search", arguments)
    assert called["isError"] is False, called
    results: list[dict[str, Any]] = called["structuredContent"]["results"]
    return results


def refused(client: Client, tool: str = "search", **arguments: Any) -> str:
    called = call(client, tool, arguments)
    assert called["isError"] is True, called
    message: str = called["structuredContent"]["error"]["message"]
    return message


def test_a_result_says_where_its_passage_is(client: Client) -> None:
    [one] = found(client, query="homemade pasta dough", k=1)
    assert one["span"] == [0, len(one["text"])]
    assert one["source"] == {
        "collection": "docs",
        "document": "pasta",
        "chunk": "pasta#chunk_1",
        "title": "Classic Homemade Pasta Dough",
        "url": "https://recipes.example/pasta",
        "updated_at": one["source"]["updated_at"],
    }


def test_k_is_how_many_documents_come(client: Client) -> None:
    counts = [len(found(client, query="healthy breakfast eggs", k=k)) for k in (1, 3, 10**30)]
    assert counts[:2] == [1, 3] and 3 < counts[2] <= 20


def test_one_collection_is_searched(client: Client) -> None:
    collections = {one["source"]["collection"] for one in found(client, query="whale", collection="long")}
    assert collections == {"long"}
    assert len({one["source"]["collection"] for one in found(client, query="whale", k=20)}) > 1


@pytest.mark.parametrize("given", [{"type": "Product"}, '{"type": "Product"}'])
def test_a_filter_is_an_object_or_its_json(client: Client, given: Any) -> None:
    names = {one["title"] for one in found(client, query="reading lamp", filter=given, k=20)}
    assert names == {"Lamp 5", "Lamp 15", "Lamp 25"}


def test_a_mode_says_how_to_search(client: Client) -> None:
    lexical = {one["id"] for one in found(client, query="pumpkin", mode="lexical", k=20)}
    assert lexical == {"docs:idaho"}
    assert lexical < {one["id"] for one in found(client, query="pumpkin", mode="dense", k=20)}


def test_arguments_that_strict_modes_leave_empty_are_absent(client: Client) -> None:
    plain = found(client, query="pasta")
    assert found(client, query="pasta", collection="", filter="", mode="", k=None) == plain
    whole = call(client, "ask", {"query": {"text": "pasta"}})["structuredContent"]["results"]
    empty = {
        "query": {"text": "pasta", "site": "", "itemType": ""},
        "context": {"prev": [], "text": "", "memory": ""},
        "prefer": {"mode": "", "response_format": ""},
        "meta": {"version": ""},
    }
    assert call(client, "ask", empty)["structuredContent"]["results"] == whole


def test_an_unknown_argument_is_named(client: Client) -> None:
    said = refused(client, query="pasta", top_k=3)
    assert said == "search has no argument 'top_k': use query, collection, k, filter, mode"
    assert "'text'" in refused(client, "fetch", id="docs:pasta", text="x")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"k": 0}, "k must be"),
        ({"k": True}, "k must be"),
        ({"k": "3"}, "k must be"),
        ({"k": 1.5}, "k must be"),
        ({"mode": "fuzzy"}, "mode must be one of"),
        ({"mode": 3}, "mode must be one of"),
        ({"filter": "{"}, "filter must be"),
        ({"filter": []}, "filter must be"),
        ({"filter": {"price": {"near": 3}}}, "near"),
        ({"collection": "none"}, "collection names none"),
        ({"collection": 3}, "collection names none"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(client: Client, arguments: dict[str, Any], said: str) -> None:
    assert said in refused(client, query="pasta", **arguments)


def test_a_private_collection_is_absent(client: Client) -> None:
    absent = refused(client, query="cinnamon", collection="nowhere")
    assert refused(client, query="cinnamon", collection="shut") == absent
    assert refused(client, query="cinnamon", collection="elsewhere") == absent
    assert "shut" not in absent and "elsewhere" not in absent


def test_without_text_a_result_has_its_source_alone(client: Client) -> None:
    [one] = found(client, query="secret sauce passage", collection="textless")
    assert "text" not in one and one["source"]["document"] == "hidden_text"
    assert "SENTINEL" not in json.dumps(one)


def test_without_a_server_no_link_leads_to_one(client: Client) -> None:
    """`aidre mcp` has no address unless one is configured."""
    service = replace(client.app.state.nlweb, cites_chunks=False)
    for tool, arguments in (("search", {"query": "whale", "collection": "long"}), ("fetch", {"id": "long:book"})):
        result = asyncio.run(call_tool(tool, arguments, ANONYMOUS, client.app.state.nlweb))
        assert result is not None and "http://127.0.0.1:8000" in json.dumps(result.structured)
        result = asyncio.run(call_tool(tool, arguments, ANONYMOUS, service))
        assert result is not None and "http://127.0.0.1:8000" not in json.dumps(result.structured)


def closed(schema: Any) -> bool:
    """Whether strict modes can close every object of a schema: each names its members."""
    if isinstance(schema, list):
        return all(map(closed, schema))
    if not isinstance(schema, dict):
        return True
    is_open = schema.get("type") == "object" and (not schema.get("properties") or schema.get("additionalProperties"))
    return not is_open and all(map(closed, schema.values()))


def test_strict_modes_take_every_tool(client: Client) -> None:
    tools = result(post(client, message("tools/list")))["tools"]
    assert [tool["name"] for tool in tools if not closed(tool["inputSchema"])] == []
