"""Quotes and `-word` in questions of NLWeb: what is found, and what `_meta` says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients import Client, a_document, fill, serving
from tests.support.recipes import ask, query, told

TEXTS = {"news": "the dog bites the man", "jumble": "the man bites the dog", "walks": "a dog walks with the man"}


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    store = tmp_path_factory.mktemp("store")
    for name in ("stories", "others"):
        fill(store, name, [a_document(f"{name}-{one}", text) for one, text in TEXTS.items()], ())
    with serving(store) as client:
        yield client


def found(client: Client, text: str, site: str | list[str] = "stories", **members: Any) -> tuple[Any, set[str]]:
    answer = told(ask(client, {**query(text, site=site), **members}), "answer")
    ids = {item["grounding"]["chunk_ids"][0].partition("#")[0] for item in answer["results"]}
    return {name: answer["_meta"].get(name) for name in ("understood", "corrected")}, ids


def test_a_phrase_and_an_excluded_word_choose_the_results(stories: Client) -> None:
    meta, ids = found(stories, '"dog bites the man"')
    assert ids == {"stories-news"}
    assert meta == {"understood": {"phrases": ["dog bites the man"]}, "corrected": None}
    meta, ids = found(stories, "dog man -walks", site=["stories", "others"])
    assert ids == {f"{site}-{one}" for site in ("stories", "others") for one in ("news", "jumble")}
    assert meta["understood"] == {"excluded": ["walks"]}


def test_a_phrase_that_stands_nowhere_is_asked_without_quotes(stories: Client) -> None:
    meta, ids = found(stories, '"man dog bites"')
    assert {"stories-news", "stories-jumble"} <= ids
    assert meta == {"understood": {"phrases": ["man dog bites"]}, "corrected": "man dog bites"}


def test_the_request_may_refuse_them(stories: Client) -> None:
    meta, ids = found(stories, "dog man -walks", prefer={"operators": False})
    assert "stories-walks" in ids
    assert meta["understood"] is None
    answer = stories.get("/ask?query=dog+-walks&site=stories&operators=false").json()
    assert [item["grounding"]["chunk_ids"][0].partition("#")[0] for item in answer["results"]] == ["stories-walks"]
