"""The prompts of MCP and the completion of their arguments."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.api.access.caller import Caller
from tests.support.clients import Client
from tests.support.mcp_calls import message, post, refused, result
from tests.support.recipes import as_caller


def written(client: Client, name: str, **arguments: str) -> str:
    [said] = result(post(client, message("prompts/get", {"name": name, "arguments": arguments})))["messages"]
    assert said["role"] == "user"
    text: str = said["content"]["text"]
    return text


def completed(argument: str, value: str) -> dict[str, Any]:
    ref = {"type": "ref/prompt", "name": "ask_with_sources"}
    return message("completion/complete", {"ref": ref, "argument": {"name": argument, "value": value}})


def test_prompts_are_listed_with_their_arguments(client: Client) -> None:
    listed = {one["name"]: one["arguments"] for one in result(post(client, message("prompts/list")))["prompts"]}
    assert {name: [one["name"] for one in arguments] for name, arguments in listed.items()} == {
        "ask_with_sources": ["question", "collection"],
        "summarize_document": ["id"],
    }


def test_a_prompt_has_its_arguments_in_its_text(client: Client) -> None:
    asked = written(client, "ask_with_sources", question="How is {dough} made?", collection="docs")
    assert "How is {dough} made?" in asked and "collection docs" in asked
    assert "collection" not in written(client, "ask_with_sources", question="x", collection=" ")
    assert "docs:pasta" in written(client, "summarize_document", id="docs:pasta")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("nope", {}, "ask_with_sources"),
        ("ask_with_sources", {}, "question is missing"),
        ("ask_with_sources", {"question": "x", "tone": "y"}, "'tone'"),
        ("summarize_document", {"id": "x" * 5_000}, "at most"),
    ],
)
def test_a_wrong_request_for_a_prompt_is_refused(client: Client, name: str, arguments: Any, said: str) -> None:
    assert said in refused(post(client, message("prompts/get", {"name": name, "arguments": arguments})), -32_602)


def test_collections_are_completed_as_far_as_the_caller_sees_them(client: Client) -> None:
    def values(value: str, argument: str = "collection") -> list[str]:
        found: list[str] = result(post(client, completed(argument, value)))["completion"]["values"]
        return found

    assert values("d") == ["docs"]
    assert values("s") == values("elsewhere") == values("", "question") == []
    seen = as_caller(client, Caller("alice", frozenset({"shut"})), "/mcp", completed("collection", "s"))
    assert result(seen)["completion"]["values"] == ["shut"]
