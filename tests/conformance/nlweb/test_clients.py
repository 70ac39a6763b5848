"""NLWeb: what existing clients show of our answers.

These clients are in no registry, so the rules by which they show an item are written here anew from their sources: the
React component of nlweb-ai/search-components (`parseSchema`), the chat page of nlweb-ai/NLWeb_Core (`nlweb-chat.js`)
and the request models of nlweb-ai/nlweb-ask-agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients import Client, fill, serving
from tests.support.ingests import Bench
from tests.support.recipes import STREAM, an_object, ask, events, results

FILES = {
    **{f"guide-{n}.md": f"# Guide {n}\n\nHow to patch tube {n} of a bicycle." for n in range(6)},
    "plain.txt": "How a bicycle tube is patched, in plain text.",
    "titled.md": "---\ntitle: Tube\n---\nPatch the tube of a bicycle.",
    "page.html": "<html lang=en><title>Page</title><h1>Page</h1><p>Patch the tube of a bicycle.</html>",
}
QUESTION = "patch the tube of a bicycle"
SHOWN_AS_ARTICLE = {"Article", "NewsArticle", "BlogPosting"}


@pytest.fixture(scope="module", params=[None, "https://example.com/"], ids=["without URLs", "with URLs"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A folder of nine documents without schema.org data."""
    folder = tmp_path_factory.mktemp("clients")
    bench = Bench(folder)
    for name, text in FILES.items():
        bench.write(name, text)
    bench.run(url_base=request.param)
    with serving(bench.root / "store") as client:
        yield client


def react_request(text: str, **members: Any) -> dict[str, Any]:
    """What the React component sends."""
    return {
        "query": {"text": text, "site": "all", "max_results": 9, "num_results": 50, **members},
        "prefer": {"streaming": True, "response_format": "conv_search", "mode": "list, summarize"},
        "meta": {"api_version": "0.54", "start_num": 0},
    }


def is_shown_by_react(item: dict[str, Any]) -> bool:
    """Whether the component shows an item: a recipe, a film or an article with an id, a score and a site."""
    types = item["@type"] if isinstance(item["@type"], list) else [item["@type"]]
    strings = ("headline", "description", "datePublished", "dateModified", "thumbnailUrl")
    return (
        not {"Recipe", "Movie", *SHOWN_AS_ARTICLE}.isdisjoint(types)
        and isinstance(item["@id"], str)
        and isinstance(item["score"], int | float)
        and isinstance(item["site"], str)
        and all(isinstance(item.get(name, ""), str) for name in strings)
    )


def shown_by_react(client: Client, request: dict[str, Any]) -> list[dict[str, Any]]:
    """The items that the component shows: it reads each line of `data:`, and each id once."""
    found: dict[str, dict[str, Any]] = {}
    for event in events(ask(client, request, accept=STREAM)):
        for item in event.data.get("results", []):
            if item["@type"] != "Summary" and is_shown_by_react(item):
                found.setdefault(item["@id"], item)
    return list(found.values())


def shown_by_core(client: Client, text: str, path: str = "/ask?site=all&max_results=10&mode=list") -> list[str]:
    """The names that the chat page of NLWeb_Core shows: of unnamed frames without `_meta`, the resources of `content`.

    Where it has nothing to show it says that there was an error.
    """
    shown = []
    for event in events(client.get(f"{path}&query={text.replace(' ', '+')}", {"accept": STREAM})):
        if event.name or "_meta" in event.data or not isinstance(event.data.get("content"), list):
            continue
        parts = [part["resource"]["data"] for part in event.data["content"] if part["type"] == "resource"]
        shown += [item.get("name") or item.get("title") for item in parts]
    return shown


def test_the_react_component_shows_every_document_of_a_folder(client: Client) -> None:
    assert len(shown_by_react(client, react_request(QUESTION))) == len(FILES)


def test_the_chat_page_of_nlweb_core_shows_every_document_of_a_folder(client: Client) -> None:
    assert len(shown_by_core(client, QUESTION)) == len(FILES)
    assert "Guide 3" in shown_by_core(client, QUESTION)


def test_frames_of_the_get_stream_have_the_same_item_for_older_clients(client: Client) -> None:
    frames = [event.data for event in events(client.get("/ask?query=tube", {"accept": STREAM}))]
    batches = [frame for frame in frames if frame["message_type"] == "result_batch"]
    assert batches
    for frame in batches:
        assert frame["content"] == [{"type": "resource", "resource": {"data": item}} for item in frame["results"]]


def test_v0_55_tells_texts_of_their_own_from_pages(client: Client) -> None:
    found = results(ask(client, {"query": {"text": QUESTION, "limit": 50}}))
    types = {item["name"]: item["@type"] for item in found}
    has_urls = "url" in found[0]
    assert types["Guide 1"] == types["plain"] == types["Tube"] == "Article"
    assert types["Page"] == ("WebPage" if has_urls else "Article")


def test_v0_54_the_least_score_of_the_client_holds(client: Client) -> None:
    scores = sorted(item["score"] for item in shown_by_react(client, react_request(QUESTION)))
    middle = scores[4]
    kept = shown_by_react(client, react_request(QUESTION, min_score=middle))
    assert sorted(item["score"] for item in kept) == [score for score in scores if score >= middle]
    assert scores[0] >= 51, "the client's default cuts nothing that counts as relevant here"
    assert len(shown_by_react(client, react_request(QUESTION, min_score=51))) == len(FILES)
    core = "/ask?site=all&max_results=10&mode=list"
    assert len(shown_by_core(client, QUESTION, f"{core}&min_score=0")) == len(FILES)
    assert not shown_by_core(client, QUESTION, f"{core}&min_score=100")


@pytest.mark.parametrize("value", [-1, 101, "x", True, [51], "1e3"])
def test_v0_54_a_least_score_beyond_the_scale_is_refused_by_name(client: Client, value: Any) -> None:
    error = ask(client, react_request(QUESTION, min_score=value)).json()["error"]
    assert error["code"] == "INVALID_QUERY" and "query.min_score" in error["message"]


def test_v0_55_min_score_is_a_filter_as_any_other(client: Client) -> None:
    body = ask(client, {"query": {"text": QUESTION, "min_score": 100}}).json()
    assert body["results"] and body["_meta"]["ignored_filters"] == ["min_score"]


def test_the_least_score_of_the_configuration_stays(client: Client) -> None:
    with serving(client.store, "[nlweb]\nmin_score = 1.0") as strict:
        assert not shown_by_react(strict, react_request(QUESTION, min_score=0))
    with serving(client.store, "[nlweb]\nmin_score = 0") as lenient:
        assert shown_by_react(lenient, react_request(QUESTION, min_score=0))


def test_the_react_component_shows_objects_of_types_that_it_does_not_know(tmp_path: Path) -> None:
    kinds = ["Product", ["Place", "Museum"], "Event", "Recipe", "NewsArticle"]
    items = [{"@type": kind, "name": f"Tube {at}", "url": f"https://a.example/{at}"} for at, kind in enumerate(kinds)]
    fill(tmp_path, "docs", [an_object(str(at), f"{QUESTION} {at}", one) for at, one in enumerate(items)])
    with serving(tmp_path, "[nlweb]\nmin_score = 0") as client:
        shown = {item["name"]: item["@type"] for item in shown_by_react(client, react_request(QUESTION))}
        plain = {item["name"]: item["@type"] for item in results(ask(client, {"query": {"text": QUESTION}}))}
    assert plain == {one["name"]: one["@type"] for one in items}
    assert shown == {
        "Tube 0": ["Product", "Article"],
        "Tube 1": ["Place", "Museum", "Article"],
        "Tube 2": ["Event", "Article"],
        "Tube 3": "Recipe",
        "Tube 4": "NewsArticle",
    }
